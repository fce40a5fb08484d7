"""Learning problems of many kinds, on which `solver_choice` compares solvers.

Their scores are published. Nothing is loaded before ``data`` is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dperm
from dperm.losses import Absolute, Huber, Loss, Pinball, SquaredError, get_loss

Data = tuple[Any, np.ndarray, float]  # rows, targets, bound on the norm of a row with its intercept

DELTA = 1e-6
BOUND = {"target_bound": 1.0}
LABELS = {name: get_loss(name) for name in ("logistic", "hinge", "squared_hinge")}
REAL: tuple[Loss, ...] = (
    SquaredError(**BOUND),
    Huber(0.3, **BOUND),
    Absolute(**BOUND),
    Pinball(0.25, **BOUND),
)


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
    epsilons: tuple[float, ...] = (0.1, 0.4, 1.6, 6.4)
    pure_epsilons: tuple[float, ...] = (0.4, 1.6, 6.4)
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
    index = data.feature_names.index(target)
    return np.delete(X, index, axis=1), X[:, index].copy(), data.row_norm


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
        factors = rng.standard_normal((n, 10), dtype=np.float32)
        X += factors @ rng.normal(scale=0.1 / np.sqrt(d), size=(10, d)).astype(np.float32)
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
    "solvers": ("whitened_gd", "noisy_gd", "dp_agd", "dp_sgd", "objective_perturbation"),
}


def _fixed() -> dict[str, Problem]:
    found: dict[str, Problem] = {}

    def add(
        name: str, loss: Loss, function: Callable[..., Data], *given: Any, l2: float = 0.0, **how: Any
    ) -> None:
        title = f"{name}, {loss.name}" + (", ridge" if l2 else "")
        found[title] = Problem(functools.partial(function, *given), loss, l2, **how)

    logistic, hinge, squared_hinge = (LABELS[name] for name in ("logistic", "hinge", "squared_hinge"))
    add("adult", logistic, labelled, "adult")
    add("adult part", hinge, labelled, "adult", 16_000)
    add("adult part", squared_hinge, labelled, "adult", 16_000)
    add("adult part", logistic, labelled, "adult", 16_000, l2=1e-3)
    add("bank", logistic, labelled, "bank")
    add("bank part", hinge, labelled, "bank", 16_000)
    add("kddcup99 part", logistic, labelled, "kddcup99", 20_000)
    for loss in (logistic, hinge, squared_hinge):
        add("wine", loss, labelled, "wine")
    # Without a ridge the optimum on few records, or in many columns, is worse than a constant on others.
    add("breast_cancer", logistic, labelled, "breast_cancer", l2=1e-3)
    for n, d, kind in ((5_000, 20, "correlated"), (50_000, 50, "correlated"), (10_000, 200, "even")):
        add(f"{n} x {d} {kind}", logistic, noisy_rule, n, d, kind)
    for loss in REAL:
        add("wine alcohol", loss, column, "wine", "alcohol")
    for loss in REAL[:3]:
        add("adult age", loss, column, "adult", "age", 16_000)
    # Targets that are all at a bound, farther from a constant prediction than most are from each other.
    add("wine as -1 or 1", REAL[0], labelled, "wine")
    add("wine as -1 or 1", Huber(1.0, **BOUND), labelled, "wine", l2=0.1)
    for n, d, kind in ((1_000, 10, "even"), (5_000, 20, "correlated"), (30_000, 100, "decaying")):
        add(f"{n} x {d} {kind}", REAL[0], noisy_rule, n, d, kind, True)
    add("mnist part", get_loss("softmax", 10), digits, False, 20_000, l2=1e-3, pure_epsilons=())
    add("mnist odd", logistic, digits, True, 20_000, **_WIDE)
    for d, l2 in ((200, 0.0), (1_000, 0.0), (2_000, 0.0), (3_000, 1e-5)):
        add(f"20000 x {d} decaying", logistic, noisy_rule, 20_000, d, "decaying", l2=l2, **_WIDE)
    for d in (500, 2_000):
        add(f"adult through {d} cosines", logistic, random_features, d, 20_000, l2=1e-4, **_WIDE)
    return found


PROBLEMS = _fixed()
