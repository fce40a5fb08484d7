"""All private algorithms, and a small fit of each."""

import inspect

import numpy as np

from dperm import Objective, algorithms
from dperm.losses import SquaredError

#: Every algorithm that takes a privacy budget, by name.
PRIVATE = {
    name: getattr(algorithms, name)
    for name in algorithms.__all__
    if hasattr(getattr(algorithms, name), "needs") and name != "nonprivate"
}
#: Sampling schemes of batches, with the neighbouring relations they support.
SCHEMES = [
    ("poisson", "add_or_remove"),
    ("poisson", "replace_one"),
    ("without_replacement", "replace_one"),
    ("permutation", "add_or_remove"),
    ("permutation", "replace_one"),
]
# Short runs, by the name that an algorithm has for its number of steps.
FEW = {"steps": 3, "generations": 3, "rounds": 4, "splits": 3, "passes": 1, "max_iter": 3}


def problem_for(name, n=60, d=2, **keywords):
    """An objective that the algorithm can minimise."""
    if name == "noisy_newton":  # refuses fewer records: noise would leave few intervals
        n, keywords = max(n, 2000), {"l2": 0.0, **keywords}
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if name == "sufficient_statistics":
        loss, y = SquaredError(target_bound=1.0), np.clip(X[:, 0], -1.0, 1.0)
    else:
        loss, y = "logistic", np.where(X[:, 0] > 0.0, 1.0, -1.0)
    settings = {"l2": 0.1, "row_norm": 2.0, "n_threads": 1, **keywords}
    return Objective(loss, X, y, fit_intercept=True, penalize_intercept=True, **settings)


def few(name):
    """Settings of a short run."""
    known = inspect.signature(PRIVATE[name]).parameters
    return {word: value for word, value in FEW.items() if word in known}


def small_fit(name, objective=None, **given):
    """A short run with given settings; seeded unless there is a ledger, which refuses seeds."""
    seed = 0 if given.get("ledger") is None else None
    settings = {"epsilon": 0.5, "delta": 1e-6, "random_state": seed, **few(name), **given}
    return PRIVATE[name](problem_for(name) if objective is None else objective, **settings)
