"""Without noise (epsilon = infinity), every algorithm reaches the optimum, most with default settings."""

import inspect
import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.special import expit, log_softmax
from sklearn.svm import LinearSVC, LinearSVR

from algorithms.problems import rows_in_unit_ball
from dperm import Objective, algorithms
from dperm.losses import Absolute, Huber, Sigmoid, SquaredError

N, D, CLASSES = 2000, 10, 3
EXCESS = 1e-3


def problem():
    """Rows in the unit ball; noisy labels, targets in [-1, 1] with heavy tails, and classes."""
    rng = np.random.default_rng(0)
    X = rows_in_unit_ball(rng, N, D)
    scores = X @ rng.normal(size=D)
    labels = np.where(scores + 0.3 * rng.normal(size=N) > 0, 1.0, -1.0)
    targets = np.clip(scores / np.abs(scores).max() + 0.1 * rng.standard_t(3, size=N), -1.0, 1.0)
    classes = np.argmax(X @ rng.normal(size=(D, CLASSES)) + 0.3 * rng.normal(size=(N, CLASSES)), axis=1)
    return X, labels, targets, classes


X, LABELS, TARGETS, CODES = problem()
ONE_HOT = np.eye(CLASSES)[CODES]

# name: loss, targets, mean loss of the weights
LOSSES = {
    "logistic": ("logistic", LABELS, lambda w: np.logaddexp(0.0, -LABELS * (X @ w)).mean()),
    "squared_hinge": (
        "squared_hinge",
        LABELS,
        lambda w: (np.maximum(0.0, 1 - LABELS * (X @ w)) ** 2).mean() / 2,
    ),
    "hinge": ("hinge", LABELS, lambda w: np.maximum(0.0, 1 - LABELS * (X @ w)).mean()),
    "absolute": (Absolute(target_bound=1.0), TARGETS, lambda w: np.abs(X @ w - TARGETS).mean()),
    "squared_error": (SquaredError(target_bound=1.0), TARGETS, lambda w: ((X @ w - TARGETS) ** 2).mean() / 2),
    "huber": (Huber(0.5, target_bound=1.0), TARGETS, lambda w: huber(X @ w - TARGETS).mean()),
    "softmax": ("softmax", CODES, lambda w: -(ONE_HOT * log_softmax(X @ w, axis=1)).sum(axis=1).mean()),
}


def huber(residual):
    inside = np.abs(residual) <= 0.5
    return np.where(inside, residual**2 / 2, 0.5 * (np.abs(residual) - 0.25))


def objective(loss, l2):
    n_classes = {"n_classes": CLASSES} if loss == "softmax" else {}
    return Objective(LOSSES[loss][0], X, LOSSES[loss][1], row_norm=1.0, l2=l2, n_threads=1, **n_classes)


def value(loss, l2, w):
    """The mean objective, in plain numpy."""
    return LOSSES[loss][2](w) + l2 / 2 * np.sum(w**2)


@cache
def optimum(loss, l2):
    """The minimum of the objective, by linear programming, scikit-learn's dual solvers or BFGS."""
    w = _kinked_minimiser(loss, l2) if loss in ("hinge", "absolute") else _smooth_minimiser(loss, l2)
    return value(loss, l2, w)


def _smooth_minimiser(loss, l2):
    shape = (D, CLASSES) if loss == "softmax" else (D,)
    start = np.zeros(math.prod(shape))
    found = minimize(lambda w: value(loss, l2, w.reshape(shape)), start, method="BFGS", tol=1e-7)
    return found.x.reshape(shape)


def _kinked_minimiser(loss, l2):
    settings = {"C": 1.0 / (N * (l2 or 1.0)), "fit_intercept": False, "tol": 1e-8, "max_iter": 10**6}
    if l2 > 0.0 and loss == "hinge":
        return LinearSVC(loss="hinge", dual=True, **settings).fit(X, LABELS).coef_[0]
    if l2 > 0.0:
        return LinearSVR(epsilon=0.0, loss="epsilon_insensitive", dual=True, **settings).fit(X, TARGETS).coef_
    # minimise the sum of slacks s >= the loss of each record
    signed = LABELS[:, None] * X
    if loss == "hinge":
        upper, limits = np.hstack([-signed, -np.eye(N)]), -np.ones(N)
    else:
        upper = np.vstack([np.hstack([X, -np.eye(N)]), np.hstack([-X, -np.eye(N)])])
        limits = np.concatenate([TARGETS, -TARGETS])
    cost = np.concatenate([np.zeros(D), np.full(N, 1.0 / N)])
    return linprog(cost, upper, limits, bounds=[(None, None)] * D + [(0, None)] * N).x[:D]


#: Longer runs than noise makes worthwhile.
LONGER = {
    "dp_sgd_gradient": {"batch_size": 16, "steps": 100_000},
    "dp_sgd_output": {"passes": 500},
    "output_perturbation_gd": {"steps": 3000},
    "privgene": {"generations": 1000, "decay": 0.993},
    "rrpsgd": {"batch_size": 128, "rounds": 200_000},
}


def defaults(name, obj):
    """A fit without noise with default settings, or more steps."""
    algorithm = getattr(algorithms, name)
    if name == "nonprivate":
        return algorithm(obj)
    return algorithm(obj, math.inf, 1e-6, random_state=0, **LONGER.get(name, {}))


# The majority does not minimise the objective.
NAMES = [
    name
    for name in algorithms.__all__
    if inspect.isfunction(getattr(algorithms, name)) and name != "majority"
]
# Refused because a required setting has no default: what the message names.
MISSING = {
    ("objective_perturbation", loss, 0.0): "l2 > 0"
    for loss in ("logistic", "squared_hinge", "squared_error", "huber")
}


def admitted(name, loss, l2):
    required = getattr(getattr(algorithms, name), "needs", None)
    return required is None or required.refusal(objective(loss, l2)) is None


CASES = [
    (name, loss, l2) for name in NAMES for loss in LOSSES for l2 in (0.0, 0.01) if admitted(name, loss, l2)
]


@pytest.mark.parametrize(("name", "loss", "l2"), [case for case in CASES if case not in MISSING])
def test_defaults_without_noise_reach_the_optimum(name, loss, l2):
    result = defaults(name, objective(loss, l2))
    assert -1e-5 < value(loss, l2, result.coef) - optimum(loss, l2) <= EXCESS
    assert not result.privacy.private


@pytest.mark.parametrize(("name", "loss", "l2"), list(MISSING))
def test_missing_settings_without_a_default_are_named(name, loss, l2):
    with pytest.raises(ValueError, match=MISSING[name, loss, l2]):
        defaults(name, objective(loss, l2))


def test_every_algorithm_is_covered():
    assert {case[0] for case in CASES if case not in MISSING} == set(NAMES)


@pytest.mark.parametrize("seed", range(3))
def test_rrpsgd_ends_near_a_stationary_point_of_a_nonconvex_loss(seed):
    obj = Objective(Sigmoid(), X, LABELS, row_norm=1.0, l2=0.01, n_threads=1)
    w = algorithms.rrpsgd(obj, math.inf, 1e-6, random_state=seed, **LONGER["rrpsgd"]).coef
    margins = LABELS * (X @ w)
    slopes = -LABELS * expit(margins) * expit(-margins)
    at_zero = np.linalg.norm(X.T @ LABELS) / (4 * N)
    assert np.linalg.norm(X.T @ slopes / N + 0.01 * w) < min(0.01, at_zero / 3)
