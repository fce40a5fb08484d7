"""Small problems shared by the tests of the algorithms."""

import numpy as np

from dperm import Objective
from dperm.algorithms import nonprivate
from dperm.mechanisms.random_source import random_bits, random_source


def rows_in_unit_ball(rng, n, d):
    X = rng.normal(size=(n, d))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def separable(n=2000, d=5, seed=0):
    """Rows in the unit ball with labels from a noisy linear rule."""
    rng = np.random.default_rng(seed)
    X = rows_in_unit_ball(rng, n, d)
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def objective(n=2000, d=5, seed=0, **kwargs):
    X, y = separable(n, d, seed)
    return Objective("logistic", X, y, **{"row_norm": 1.5, "fit_intercept": True, **kwargs})


def zero_rows(n, loss="logistic", d=1, **keywords):
    """n records whose rows are zero: a fit on them shows nothing but its noise."""
    return Objective(loss, np.zeros((n, d)), np.ones(n), **{"row_norm": 1.0, **keywords})


def excess(objective, coef):
    """Excess of the objective over its minimum, as a fraction of that of the weights 0."""
    best, zero = objective.value(nonprivate(objective).coef), objective.value(np.zeros(objective.shape))
    return (objective.value(coef) - best) / (zero - best)


def secret_bits(seed):
    """The random bits with which a seeded fit draws its batches or the order of the records."""
    return random_bits(random_source(seed).spawn(1)[0])
