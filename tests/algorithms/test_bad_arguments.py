"""Bad values for every keyword of every algorithm, and so for every field of every schedule.

A fit either succeeds, or raises a ValueError or TypeError that names the argument (or a BudgetExceededError)
and charges nothing.
"""

import inspect
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from algorithms.every_algorithm import PRIVATE, small_fit
from dperm import Objective, algorithms
from dperm.accounting import Ledger
from dperm.algorithms import settings
from dperm.errors import BudgetExceededError, PrivacyWarning
from dperm.losses import SquaredError

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
# What the message names when a value is within its range but what follows from it is not.
CONSEQUENCES = ("share of a budget", "second moments", "noise", "clip")
# What the grid of bad values does not cover: values refused by every algorithm that has the keyword, further
# values, and combinations that are not allowed. The message names the first setting, or matches the pattern
# given with the settings.
INVALID = {
    "batch_size": 0,
    "calibration": "loose",
    "clip": 0.0,
    "mechanism": "uniform",
    "momentum": 1.0,
    "neighbors": "friends",
    "output": "first",
    "radius": 0.0,
    "step_size": -1.0,
}
FRESH_BATCHES = [
    {"batch_size": 301},
    {"noise": "none"},
    {"report_every": 0},
]
COMBINATIONS = {
    "noisy_gd": [
        {"steps": 2.5},
        ({"calibration": "paper", "neighbors": "replace_one"}, "add_or_remove"),
        # the textbook Gaussian fails above epsilon = 7.46 at delta = 1e-3
        ({"calibration": "paper", "epsilon": 30.0, "delta": 1e-3, "steps": 1000}, "does not give"),
    ],
    "dp_agd": [
        {"selection_share": 1.0},
        {"n_candidates": 1.5},
        {"n_candidates": 10**6},
        {"accountant": "luck"},
        {"selection_share": 0.3, "calibration": "paper"},
        {"accountant": "zcdp", "calibration": "paper"},
        ({"calibration": "paper", "neighbors": "replace_one"}, "add_or_remove"),
    ],
    "whitened_gd": [{"step_size": 0.0}, {"learn_scales": "yes"}],
    "noisy_newton": [
        {"leverage": 0.4},
        {"covariance": "sandwich"},
        {"omit": [0, 0]},
        {"omit": [2]},
        {"omit": ["x"]},
        ({"delta": 0.0}, "delta"),
        ({"epsilon": 0.01}, "noise would leave few intervals"),
    ],
    "privgene": [
        {"decay": 1.5},
        {"decay": 0.1, "generations": 500},
        {"calibration": "paper", "delta": 0.0},
        {"accountant": "pld"},
        {"accountant": "gdp", "calibration": "paper"},
    ],
    "dp_sgd": [
        {"batch_size": 2001},
        {"batch_size": 1.5, "sampling": "permutation"},
        {"tail": 1.5},
        {"optimizer": "newton"},
        {"sampling": "with_replacement"},
        {"accountant": "abacus"},
        ({"sampling": "without_replacement"}, "replace_one"),
        ({"calibration": "paper", "accountant": "pld"}, "accountant='moments'"),
        (
            {"calibration": "paper", "accountant": "moments", "sampling": "permutation"},
            "accountant='moments'",
        ),
        (
            {"calibration": "paper", "accountant": "advanced_composition", "neighbors": "replace_one"},
            "add_or_remove",
        ),
        (
            {"calibration": "paper", "accountant": "moments", "epsilon": math.inf, "steps": 3},
            "finite epsilon",
        ),
    ],
    "dp_lssgd": [
        {"image_shape": (2, 3)},
        {"image_shape": (2.5, 2)},
        {"sampling": "with_replacement"},
        ({"image_shape": 4}, r"image_shape must be a sequence of integers such as \(28, 28\), got 4"),
        ({"smoothing": "a"}, "smoothing must be from 0 to 1e100, got 'a'"),
        ({"calibration": "paper", "neighbors": "replace_one"}, "needs accountant='pld'"),
        ({"calibration": "paper", "sampling": "permutation"}, "needs accountant='pld'"),
        ({"calibration": "paper", "accountant": "rdp"}, "needs accountant='pld'"),
        ({"calibration": "paper", "epsilon": math.inf}, "finite epsilon"),
    ],
    "sufficient_statistics": [
        ({"calibration": "paper", "neighbors": "replace_one"}, "add_or_remove"),
        ({"calibration": "paper", "epsilon": math.inf}, "finite epsilon"),
    ],
    "output_perturbation_gd": [
        {"steps": 0},
        {"step_size": 1e3},
    ],
    "objective_perturbation": [
        ({"calibration": "paper", "neighbors": "replace_one"}, "add_or_remove"),
        ({"calibration": "paper", "delta": 0.0}, "replace_one"),
        {"delta": 1.0},
        {"epsilon": 0.0},
    ],
    "dp_sgd_gradient": [
        *FRESH_BATCHES,
        ({"calibration": "paper", "radius": 1.0, "batch_size": 2}, "calibration='paper' is for"),
        ({"calibration": "paper", "radius": 1.0, "neighbors": "add_or_remove"}, "calibration='paper' is for"),
        ({"calibration": "paper", "radius": math.inf}, "calibration='paper' is for"),
    ],
    "rrpsgd": [
        *FRESH_BATCHES,
        ({"rounds": 1}, "rounds must be at least 2, got 1"),
        ({"calibration": "paper", "batch_size": 2}, "calibration='paper' is for"),
    ],
    "dp_sgd_output": [
        {"passes": 0},
        {"batch_size": 3000},
        {"step_size": 1e9},
        {"step_sizes": "growing"},
        {"step_sizes": "decreasing", "step_size": 0.1},
        {"sampling": "poisson"},
        {"counts": "none"},
        {"mechanism": "laplace"},
        *({"smooth_kink": value} for value in ("no", 0, 1.0)),
        ({"calibration": "paper", "sampling": "permutation"}, "calibration='paper' is for"),
        ({"calibration": "paper", "smooth_kink": True}, "calibration='paper' is for"),
        ({"calibration": "paper", "neighbors": "add_or_remove"}, "calibration='paper' is for"),
    ],
}
COMBINATIONS["dp_lsadam"] = COMBINATIONS["dp_lssgd"]


INVALID_CASES = [
    (name, {word: value})
    for name, algorithm in PRIVATE.items()
    for word, value in INVALID.items()
    if word in inspect.signature(algorithm).parameters
]
INVALID_CASES += [(name, case) for name, combinations in COMBINATIONS.items() for case in combinations]
BAD_CALLS = [
    (name, word)
    for name, algorithm in PRIVATE.items()
    for word in inspect.signature(algorithm).parameters
    if word not in ("objective", "ledger")
]


def refusal_of(name, ledger, **given):
    """The error that a fit raises, or None if it succeeds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        try:
            result = small_fit(name, ledger=ledger, **given)
        except (ValueError, TypeError, BudgetExceededError) as error:
            return error
    assert np.isfinite(result.coef).all()
    return None


@pytest.mark.parametrize(("name", "word"), BAD_CALLS)
def test_bad_values_are_refused_before_the_charge(name, word):
    for label, value in BAD.items():
        ledger = Ledger(1.0, 1e-6)
        refusal = refusal_of(name, ledger, **{word: value})
        if refusal is None:
            assert len(ledger.history()) == 1, label
        else:
            assert ledger.history() == [], label
            assert any(named in str(refusal) for named in (word, *CONSEQUENCES)), (label, refusal)


@pytest.mark.parametrize(("name", "case"), INVALID_CASES)
def test_incompatible_settings_are_refused_before_the_charge(name, case):
    given, match = case if isinstance(case, tuple) else (case, next(iter(case)))
    ledger = Ledger(math.inf, 1e-2)
    with pytest.raises(ValueError, match=match):
        small_fit(name, ledger=ledger, **given)
    assert ledger.history() == []


@pytest.mark.parametrize("ledger", ["x", 3, object()])
@pytest.mark.parametrize("name", PRIVATE)
def test_ledgers_of_another_type_are_refused(name, ledger):
    with pytest.raises(TypeError, match="ledger"):
        small_fit(name, ledger=ledger)


@pytest.mark.parametrize("name", ["noisy_newton", "sufficient_statistics"])
def test_matrices_that_do_not_fit_in_memory_are_refused_before_the_charge(name):
    ledger = Ledger(1.0, 1e-6)
    X, y = np.zeros((4, 100_000), dtype=np.float32), np.array([1.0, -1.0, 1.0, -1.0])
    loss = "logistic" if name != "sufficient_statistics" else SquaredError(target_bound=1.0)
    with pytest.raises(ValueError, match="columns"):
        PRIVATE[name](Objective(loss, X, y), 0.5, 1e-6, ledger=ledger)
    assert ledger.history() == []


def test_the_limit_of_steps_can_be_raised(monkeypatch):
    ledger = Ledger(1.0, 1e-6)
    monkeypatch.setattr(settings, "MAX_STEPS", 100)
    with pytest.raises(ValueError, match="MAX_STEPS"):
        small_fit("noisy_gd", steps=100, ledger=ledger)
    assert ledger.history() == []
    monkeypatch.setattr(settings, "MAX_STEPS", 101)
    assert small_fit("noisy_gd", steps=100, ledger=ledger).n_iter == 100


def test_an_unknown_keyword_is_refused_by_name():
    with pytest.raises(TypeError, match=r"noisy_gd\(\).*'epsilonn'"):
        small_fit("noisy_gd", epsilonn=1.0)
    with pytest.raises(TypeError, match="Objective"):
        algorithms.noisy_gd(np.zeros((3, 2)), 1.0, 1e-6)
