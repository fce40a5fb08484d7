"""Excess empirical risk of output perturbation, and of the noisy SGD that it is compared with."""

import math

import numpy as np

from dperm.accounting.paper import smooth_erm_schedule
from dperm.algorithms import output_perturbation_gd
from papers.learning import mean, minimum, objective, records, repeated
from repetitions import noise_draws

BATCH, DELTA = 50, 1e-3
#: D/L, where D bounds the norm of the optimum: from the printed running times, which are linear in T.
D_OVER_L = {"bank_dummies": 0.193, "adult_training": 0.770, "wine_quality": 0.50}


def measure(mode: str, *, data: str, method: str, epsilon: float, l2: float, repetitions: int):
    """Output perturbation: draws of the noise of one training. SGD, only as published: runs."""
    if method == "sgd":
        if mode != "paper":
            return None
        radius, best = _constants(data, l2)[2], minimum(data, cube(data), l2)
        value = objective(data, cube(data), l2).value
        return repeated(lambda seed: value(sgd(data, l2, epsilon, radius, seed)) - best, min(repetitions, 5))
    problem = objective(data, cube(data), l2)
    steps, step_size = schedule(data, l2, epsilon)
    terms = {"epsilon": epsilon, "delta": DELTA, "neighbors": "replace_one", "calibration": mode}
    terms |= {"steps": steps, "step_size": step_size, "mechanism": "gaussian", "clip": math.inf}
    draws = noise_draws(output_perturbation_gd, problem, repetitions, seed=0, **terms)
    best = minimum(data, cube(data), l2)
    return mean(problem.value(coef) - best for coef in draws)


def cube(data: str) -> float:
    """Bound on a row with columns in [0, 1]: the root of their number, with the intercept."""
    return math.sqrt(records(data)[0].shape[1] + 1.0)


def _constants(data: str, l2: float) -> tuple[float, float, float]:
    """L and beta of the loss, and D."""
    loss = objective(data, cube(data), l2).loss
    lipschitz = loss.lipschitz(cube(data))
    return lipschitz, loss.smoothness(cube(data)), D_OVER_L[data] * lipschitz


def schedule(data: str, l2: float, epsilon: float) -> tuple[int, float]:
    """T and eta of Theorems 2 and 3 as printed, with 1 for the constant of T."""
    problem, (lipschitz, beta, distance) = objective(data, cube(data), l2), _constants(data, l2)
    ratio = (problem.n_public * epsilon * distance / lipschitz) ** 2
    ratio /= problem.dimension * math.log(1.0 / DELTA)
    if l2 == 0.0:
        return math.ceil(math.cbrt(beta**2 * ratio)), 1.0 / beta
    total = beta + l2
    condition = (l2**2 + total**2) / (l2 * total)
    return math.ceil(condition * max(1.0, math.log(l2**2 * ratio))), 1.0 / (l2 + total)


def own_schedule(data: str, l2: float, epsilon: float) -> int:
    """T by the constants of the proofs: `smooth_erm_schedule`."""
    problem, (lipschitz, beta, distance) = objective(data, cube(data), l2), _constants(data, l2)
    run = {"n_samples": problem.n_public, "dimension": problem.dimension, "lipschitz": lipschitz}
    return smooth_erm_schedule(epsilon, DELTA, beta=beta, distance=distance, l2=l2, **run).steps


def sgd(data: str, l2: float, epsilon: float, radius: float, seed: int, steps: int | None = None):
    """Bassily, Smith and Thakurta 2014 on a ball, the last iterate; in floating point, not private.

    They have n^2 steps of a record and noise for so many. Batches of 50 take n^2/50 steps; the noise is left
    as stated. The bound on the risk hardly depends on the number of steps, with the variance proportional to
    it, once the noise is ten times as long as a gradient: so many are made.
    """
    problem, (lipschitz, _, _) = objective(data, cube(data), l2), _constants(data, l2)
    lipschitz += l2 * radius
    X, y, _ = records(data)
    n, d, rng = len(y), problem.dimension, np.random.default_rng(seed)
    unit = BATCH * 32.0 * math.log(n / DELTA) * math.log(1.0 / DELTA) * (lipschitz / (n * epsilon)) ** 2
    steps = steps or int(np.clip(10.0 * lipschitz**2 / (d * unit), n / BATCH, 20_000))
    sigma, coef, loss = math.sqrt(unit * steps), np.zeros(d), problem.loss
    first = 2.0 * radius / math.sqrt(lipschitz**2 + d * sigma**2)
    X = np.column_stack([X, np.ones(n)])
    for t in range(1, steps + 1):
        rows = rng.integers(n, size=BATCH)
        chosen = X[rows]
        gradient = loss.derivative(chosen @ coef, y[rows]) @ chosen / BATCH + l2 * coef
        coef -= (1.0 / (l2 * t) if l2 else first / math.sqrt(t)) * (gradient + sigma * rng.standard_normal(d))
        coef *= min(1.0, radius / float(np.linalg.norm(coef)))
    return coef
