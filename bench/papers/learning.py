"""The papers' learning problems and their optima, and means over repetitions."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import dperm
from dperm.algorithms import noisy_gd, nonprivate
from dperm.losses import Huber

MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's pixels, as in the program of DP-LSSGD


@functools.cache
def records(name: str) -> tuple[Any, np.ndarray, float]:
    """Rows, columns scaled to [0, 1] by their range; targets; a bound on the norm of a row with intercept."""
    if (
        name == "bank_authors"
    ):  # the file of the program of Lee and Kifer: 0/1 and unscaled numbers, label last
        table = np.loadtxt(Path(os.environ["DPERM_DATA"]) / "bank" / "BANK.dat.gz")
        X, y = table[:, :-1] - table[:, :-1].min(axis=0), np.where(table[:, -1] > 0.0, 1.0, -1.0)
        X /= np.maximum(X.max(axis=0), 1e-300)
        return np.ascontiguousarray(X), y, float(np.sqrt(1.0 + (X * X).sum(axis=1).max()))
    if name == "adult_training":
        X, y, row_norm = records("adult_a9a")
        return X[:32_561], y[:32_561], row_norm
    data = dperm.datasets.load(name, min_max=True)
    X = data.X if isinstance(data.X, np.ndarray) else data.X.to_dense()
    return np.ascontiguousarray(X, dtype=np.float64), data.y, data.row_norm


@functools.cache
def objective(name: str, row_norm: float | None = None, l2: float = 0.0) -> Any:
    """Logistic loss, or Huber loss for grades of wine from 0 to 10; intercept, ridge on every weight."""
    X, y, longest = records(name)
    loss: Any = "logistic"
    if name == "wine_quality":
        loss = Huber(2.5, target_bound=10.0)
    return dperm.Objective(
        loss,
        X,
        y,
        l2=l2,
        row_norm=row_norm or longest,
        fit_intercept=True,
        penalize_intercept=True,
        n_threads=1,
    )


@functools.cache
def minimum(name: str, row_norm: float, l2: float, radius: float = np.inf) -> float:
    """Minimum of the objective, over the ball if there is one."""
    problem = objective(name, row_norm, l2)
    best = nonprivate(problem).coef
    if (
        np.linalg.norm(best) > radius
    ):  # the minimum is on the edge of the ball: projected descent without noise
        terms = {"steps": 3000, "momentum": 0.9, "tail": 0.01, "radius": radius, "learn_scales": False}
        best = noisy_gd(problem, np.inf, 0.5, random_state=0, **terms).coef
    return float(problem.value(best))


@functools.cache
def tuned_ridge(name: str, loss: str) -> float:
    """Ridge with the best accuracy on the first fold without noise, for at most 50,000 records."""
    X, y, row_norm = records(name)
    train, test = fold(name, 0)
    train, found = train[:50_000], {}
    for l2 in (1e-3, 1e-4, 1e-5, 1e-6):
        smooth = "huberized_hinge" if loss == "hinge" else loss
        terms = {"row_norm": row_norm, "fit_intercept": True, "penalize_intercept": True, "n_threads": 1}
        problem = dperm.Objective(smooth, X[train], y[train], l2=l2, **terms)
        coef = nonprivate(problem, max_iter=300, tolerance=1e-5).coef
        found[l2] = np.mean(np.sign(X[test] @ coef[:-1] + coef[-1]) == y[test])
    return max(found, key=found.__getitem__)


def fold(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices for training and testing: five repetitions are the five folds of one random division."""
    order = np.random.default_rng(seed // 5).permutation(len(records(name)[1]))
    held_out = np.arange(len(order)) % 5 == seed % 5
    return order[~held_out], order[held_out]


def mean(values: Iterable[float]) -> tuple[float, float | None]:
    """Mean and its standard error."""
    found = np.asarray(list(values), dtype=np.float64)
    error = float(found.std(ddof=1) / np.sqrt(found.size)) if found.size > 1 else None
    return float(found.mean()), error


def repeated(fit: Callable[[int], float], repetitions: int) -> tuple[float, float | None]:
    """Mean of `fit` over the seeds 0, 1, ..."""
    return mean(fit(seed) for seed in range(repetitions))


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """MNIST, standardised: rows and labels for training, then for testing."""
    data = dperm.datasets.load("mnist")
    X = ((np.asarray(data.X, dtype=np.float32) - MEAN) / DEVIATION).astype(np.float32)
    return X[:60_000], data.y[:60_000], X[60_000:], data.y[60_000:]
