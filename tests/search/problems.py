"""Small search problems."""

import numpy as np

from dperm import LogisticRegression, PrivateSearch

DELTA = 1e-6
GRID = {"l2": [1e-4, 1e-2, 1.0]}


def records(n=400, d=3, seed=0):
    """Points in the unit ball and labels that follow the first coordinate."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= 2.0 * np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X[:, 0] + 0.05 * rng.normal(size=n) > 0.0, 1, -1)


def model(**settings):
    own = {"solver": "noisy_gd", "row_norm": 1.0, "classes": [-1, 1], "n_threads": 1}
    return LogisticRegression(**(own | {"solver_options": {"steps": 30}} | settings))


def search(candidates=GRID, epsilon=1.0, estimator=None, **settings):
    own = {"random_state": 0, "method": "all_candidates"} | settings
    return PrivateSearch(model() if estimator is None else estimator, candidates, epsilon, DELTA, **own)
