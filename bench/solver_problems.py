"""Learning problems of many kinds, on which `solver_choice` compares solvers.

Nothing is loaded before a problem's ``data`` is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dperm
from dperm.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Pinball,
    SquaredError,
    SquaredHinge,
    get_loss,
)

Data = tuple[Any, np.ndarray, float]  # rows, targets, bound on the norm of a row with its intercept

DELTA = 1e-6
EPSILONS = (0.1, 0.4, 1.6, 6.4)
PURE_EPSILONS = (0.4, 1.6, 6.4)


@dataclass(frozen=True)
class Problem:
    """What is to be learned.

    Attributes
    ----------
    data : callable
        Returns rows, targets and a public bound on the norm of a row.
    loss : Loss
    l2 : float
        Strength of a ridge term on every weight.
    epsilons, pure_epsilons : tuple of float
        Budgets with `DELTA`, and with delta = 0.
    solvers : tuple of str
        Those to compare; empty for every one that is valid.
    """

    data: Callable[[], Data]
    loss: Loss
    l2: float = 0.0
    epsilons: tuple[float, ...] = EPSILONS
    pure_epsilons: tuple[float, ...] = PURE_EPSILONS
    solvers: tuple[str, ...] = ()

    def budgets(self) -> list[tuple[float, float]]:
        """Pairs of epsilon and delta."""
        return [(e, DELTA) for e in self.epsilons] + [(e, 0.0) for e in self.pure_epsilons]


@functools.cache
def labelled(name: str, records: int = 0) -> Data:
    """A data set with the labels -1 and +1; a random part of it where `records` says how many."""
    data = dperm.datasets.load(name, dense=True, dtype="float32" if records else "float64")
    return (*_part(data.X, data.y, records), data.row_norm)


@functools.cache
def column(name: str, target: str, records: int = 0) -> Data:
    """One column of a data set, in [0, 1], from the others."""
    data = dperm.datasets.load(name, dense=True)
    X, _ = _part(data.X, data.y, records)
    place = data.feature_names.index(target)
    return np.delete(X, place, axis=1), X[:, place].copy(), data.row_norm


@functools.cache
def digits(odd: bool, records: int) -> Data:
    """MNIST: which digit, or whether it is odd. Rows longer than 9 are scaled onto that."""
    data = dperm.datasets.load("mnist")
    X, y = _part(data.X, data.y, records)
    return X, np.where(y % 2 == 1, 1.0, -1.0) if odd else y, 9.0


@functools.cache
def random_features(d: int, records: int) -> Data:
    """Adult through `d` random cosines, an approximation of a Gaussian kernel: correlated wide rows."""
    X, y, _ = labelled("adult", records)
    rng = np.random.default_rng(d)
    W, phase = rng.normal(scale=0.5, size=(X.shape[1], d)), rng.uniform(0.0, 2.0 * np.pi, d)
    features = np.cos(X @ W.astype(np.float32) + phase.astype(np.float32), dtype=np.float32)
    return features * np.float32(np.sqrt(2.0 / d)), y, float(np.sqrt(3.0))


@functools.cache
def noisy_rule(n: int, d: int, kind: str, real: bool = False) -> Data:
    """Labels, or real targets in [-1, 1], of a noisy linear rule; rows of norm about 1.

    ``kind`` is "even" (independent columns), "correlated" (different scales and one common factor) or
    "decaying" (column j has variance 1 / j, and there are ten common factors).
    """
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d), dtype=np.float32)
    if kind == "correlated":
        X = X * np.linspace(0.1, 2.0, d, dtype=np.float32) + rng.standard_normal((n, 1), dtype=np.float32)
    elif kind == "decaying":
        X /= np.sqrt(np.arange(1.0, d + 1.0, dtype=np.float32))
        X += rng.standard_normal((n, 10), dtype=np.float32) @ rng.normal(
            scale=0.1 / np.sqrt(d), size=(10, d)
        ).astype(np.float32)
    X /= np.linalg.norm(X, axis=1).mean()
    margin = (X @ rng.normal(size=d).astype(np.float32)).astype(np.float64)
    margin /= margin.std()
    if real:
        return X.astype(np.float64), np.clip(0.25 * margin + 0.1 * rng.normal(size=n), -1.0, 1.0), 1.8
    return X, np.where(3.0 * margin + rng.logistic(size=n) > 0.0, 1.0, -1.0), 1.8


def _part(X: Any, y: np.ndarray, records: int) -> tuple[Any, np.ndarray]:
    if not 0 < records < len(y):
        return X, y
    chosen = np.sort(np.random.default_rng(0).choice(len(y), records, replace=False))
    return np.ascontiguousarray(X[chosen]), y[chosen]


# Beyond some hundred columns a table of everything would take hours.
_WIDE = {
    "epsilons": (0.4, 1.6, 6.4),
    "pure_epsilons": (),
    "solvers": ("preconditioned_gd", "noisy_gd", "dp_agd", "dp_sgd", "objective_perturbation"),
}


def _problems() -> dict[str, Problem]:
    found: dict[str, Problem] = {}
    found["adult, logistic"] = Problem(functools.partial(labelled, "adult"), Logistic())
    part = functools.partial(labelled, "adult", 16_000)
    for loss in (Hinge(), SquaredHinge()):
        found[f"adult part, {loss.name}"] = Problem(part, loss)
    found["adult part, logistic, ridge"] = Problem(part, Logistic(), l2=1e-3)
    found["bank, logistic"] = Problem(functools.partial(labelled, "bank"), Logistic())
    found["bank part, hinge"] = Problem(functools.partial(labelled, "bank", 16_000), Hinge())
    kddcup99 = functools.partial(labelled, "kddcup99", 20_000)
    found["kddcup99 part, logistic"] = Problem(kddcup99, Logistic())
    for loss in (Logistic(), Hinge(), SquaredHinge()):
        found[f"wine, {loss.name}"] = Problem(functools.partial(labelled, "wine"), loss)
    # Without a ridge the optimum on few records, or in many columns, is worse than a constant on others.
    cancer = functools.partial(labelled, "breast_cancer")
    found["breast_cancer, logistic, ridge"] = Problem(cancer, Logistic(), l2=1e-3)
    for n, d, kind in ((5_000, 20, "correlated"), (50_000, 50, "correlated"), (10_000, 200, "even")):
        rule = functools.partial(noisy_rule, n, d, kind)
        found[f"{n} x {d} {kind}, logistic"] = Problem(rule, Logistic())

    bound = {"target_bound": 1.0}
    for loss in (SquaredError(**bound), Huber(0.3, **bound), Absolute(**bound), Pinball(0.25, **bound)):
        found[f"wine alcohol, {loss.name}"] = Problem(functools.partial(column, "wine", "alcohol"), loss)
    for loss in (SquaredError(**bound), Huber(0.3, **bound), Absolute(**bound)):
        found[f"adult age, {loss.name}"] = Problem(functools.partial(column, "adult", "age", 16_000), loss)
    # Targets that are all at a bound, farther from a constant prediction than most are from each other.
    signs = functools.partial(labelled, "wine")
    found["wine as -1 or 1, squared_error"] = Problem(signs, SquaredError(**bound))
    found["wine as -1 or 1, huber, ridge"] = Problem(signs, Huber(1.0, **bound), l2=0.1)
    for n, d, kind in ((1_000, 10, "even"), (5_000, 20, "correlated"), (30_000, 100, "decaying")):
        rule = functools.partial(noisy_rule, n, d, kind, real=True)
        found[f"{n} x {d} {kind}, squared_error"] = Problem(rule, SquaredError(**bound))

    digit = functools.partial(digits, False, 20_000)
    softmax = get_loss("softmax", 10)
    found["mnist part, softmax, ridge"] = Problem(digit, softmax, l2=1e-3, pure_epsilons=())
    found["mnist odd, logistic"] = Problem(functools.partial(digits, True, 20_000), Logistic(), **_WIDE)
    for d in (200, 1_000, 2_000):
        rule = functools.partial(noisy_rule, 20_000, d, "decaying")
        found[f"20000 x {d} decaying, logistic"] = Problem(rule, Logistic(), **_WIDE)
    # Without a ridge its optimum predicts new records no better than a constant does.
    rule = functools.partial(noisy_rule, 20_000, 3_000, "decaying")
    found["20000 x 3000 decaying, logistic, ridge"] = Problem(rule, Logistic(), 1e-5, **_WIDE)
    for d in (500, 2_000):
        features = functools.partial(random_features, d, 20_000)
        found[f"adult through {d} cosines, logistic, ridge"] = Problem(features, Logistic(), 1e-4, **_WIDE)
    return found


PROBLEMS = _problems()
