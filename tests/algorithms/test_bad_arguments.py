"""Every keyword of every algorithm, and every field of its schedule, with bad values: an error before the charge.

A fit either works or raises a ValueError or TypeError that names the argument, and then its ledger is as new.
"""

import inspect
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from dperm import Objective, algorithms
from dperm.accounting import Ledger
from dperm.algorithms import settings
from dperm.errors import PrivacyWarning
from dperm.losses import SquaredError

SOLVERS = {
    name: getattr(algorithms, name)
    for name in algorithms.__all__
    if hasattr(getattr(algorithms, name), "needs") and name != "nonprivate"
}
BAD = {
    "zero": 0,
    "negative": -1,
    "nan": math.nan,
    "infinite": math.inf,
    "huge": 1e300,
    "tiny": 1e-300,
    "string": "x",
    "fraction": Fraction(1, 3),
    "beyond floats": 10**400,
    "billion": 10**9,
    "list": [1, 2],
    "object": object(),
}
# What a fit may take in earnest: such a value must not fail after the charge either.
SMALL = {"steps": 3, "generations": 3, "rounds": 4, "splits": 3, "passes": 1, "max_iter": 3}


def small_objective(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    if name == "sufficient_statistics":
        y = np.clip(X[:, 0], -1.0, 1.0)
        return Objective(SquaredError(target_bound=1.0), X, y, row_norm=2.0)
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    return Objective(
        "logistic", X, y, l2=0.1, row_norm=2.0, fit_intercept=True, penalize_intercept=True, n_threads=1
    )


def keywords(name):
    """The algorithm's keywords but the ledger, which is what is looked at."""
    return [word for word in inspect.signature(SOLVERS[name]).parameters if word not in ("objective", "ledger")]


def cases():
    for name in SOLVERS:
        for word in keywords(name):
            for label, value in BAD.items():
                yield pytest.param(name, word, value, id=f"{name}-{word}-{label}")


@pytest.mark.parametrize(("name", "word", "value"), cases())
def test_a_bad_value_is_refused_before_the_charge(name, word, value):
    ledger = Ledger(1.0, 1e-6)
    objective = small_objective(name)
    known = inspect.signature(SOLVERS[name]).parameters
    given = {"epsilon": 0.5, "delta": 1e-6, **{own: small for own, small in SMALL.items() if own in known}}
    given |= {"random_state": 0, word: value, "ledger": ledger}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        try:
            result = SOLVERS[name](objective, **given)
        except (ValueError, TypeError) as error:
            assert ledger.history() == []
            assert len(str(error)) > 10
        else:
            assert np.isfinite(result.coef).all()
            assert len(ledger.history()) == 1
