"""Excess risk of projected noisy gradient descent on a ball, next to the theorem's bound."""

from dperm.accounting.paper import projected_gd_schedule
from dperm.algorithms import noisy_gd
from papers.learning import minimum, objective, repeated

#: Records, and weights with the intercept: the bounds need no data.
SIZES = {"bank_dummies": (45_211, 43), "adult_a9a": (48_842, 124), "wine": (6_497, 12)}


def _schedule(data: str, radius: float, steps: int, epsilon: float, delta: float):
    sizes = dict(zip(("n_samples", "dimension"), SIZES[data], strict=True))
    return projected_gd_schedule(epsilon, delta, radius=radius, clip=1.0, steps=steps, **sizes)


def measure(
    mode: str, *, data: str, radius: float, steps: int, epsilon: float, delta: float, repetitions: int
) -> tuple[float, float | None]:
    """Logistic loss on rows of norm 1, so that gradients stay within the clip of 1."""
    problem, best = objective(data, 1.0), minimum(data, 1.0, 0.0, radius)
    assert (problem.n_public, problem.dimension) == SIZES[data]
    terms = {"radius": radius, "neighbors": "add_or_remove", "learn_scales": False}
    step_size = _schedule(data, radius, steps, epsilon, delta).step_size
    terms |= {"steps": steps, "step_size": step_size, "clip": 1.0, "momentum": 0.0, "tail": 1.0}
    terms["calibration"] = mode

    def excess(seed: int) -> float:
        return problem.value(noisy_gd(problem, epsilon, delta, random_state=seed, **terms).coef) - best

    return repeated(excess, repetitions)


def expected(*, repetitions: int, **settings: float) -> float:
    """``R B/sqrt(T)`` with ``B^2 = C^2 + d sigma^2``."""
    return _schedule(**settings).bound
