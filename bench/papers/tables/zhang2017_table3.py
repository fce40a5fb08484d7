"""Excess empirical risk of output perturbation: one training, many draws of its noise."""

from dperm.accounting.paper import smooth_erm_schedule
from dperm.algorithms import output_perturbation_gd
from papers.learning import mean, minimum, objective
from repetitions import noise_draws


def measure(
    mode: str,
    *,
    data: str,
    epsilon: float,
    delta: float,
    l2: float,
    distance: float,
    repetitions: int,
    lipschitz: float = 1.0,
) -> tuple[float, float | None]:
    """Steps and step size of the paper's theorems for rows of norm 1; in default mode those of the package.

    `lipschitz` multiplies the constant of the loss. It divides epsilon, since published noise is proportional
    to L/epsilon.
    """
    problem = objective(data, 1.0, l2)
    terms = {"neighbors": "replace_one", "calibration": "paper" if mode == "paper" else "tight"}
    if mode != "default":
        loss = problem.loss
        schedule = smooth_erm_schedule(
            epsilon,
            delta,
            n_samples=problem.n_public,
            dimension=problem.dimension,
            lipschitz=lipschitz * loss.lipschitz(1.0),
            beta=loss.smoothness(1.0),
            distance=distance,
            l2=l2,
        )
        terms |= {"steps": schedule.steps, "step_size": schedule.step_size, "mechanism": "gaussian"}
    terms |= {"epsilon": epsilon / lipschitz, "delta": delta}
    draws = noise_draws(output_perturbation_gd, problem, repetitions, seed=0, **terms)
    best = minimum(data, 1.0, l2)
    return mean(problem.value(coef) - best for coef in draws)
