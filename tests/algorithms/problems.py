"""Small problems that the tests of the algorithms share."""

import numpy as np

from dperm import Objective
from dperm.mechanisms.random_source import random_bits, random_source


def separable(n=2000, d=5, seed=0):
    """Rows in the unit ball with labels from a noisy linear rule."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def objective(n=2000, d=5, seed=0, **kwargs):
    X, y = separable(n, d, seed)
    return Objective("logistic", X, y, **{"row_norm": 1.5, "fit_intercept": True, **kwargs})


def secret_bits(seed):
    """What a seeded fit draws its batches or its order of the records with."""
    return random_bits(random_source(seed).spawn(1)[0])
