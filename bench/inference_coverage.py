"""Coverage and width of the intervals of `noisy_newton`, and how many are refused.

    python bench/inference_coverage.py --runs 400
    python bench/inference_coverage.py --designs "rare level" "strong" --runs 100

Each run draws new records, weights and noise. Coverage is that of 95 % intervals that are not refused; the
worst is that of the coefficient covered least often. Width is the median, relative to non-private model-based
intervals. The true weights are those that generate the records or, if the model is wrong, those that minimise
the loss on 2^20 further records.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from dperm import Objective
from dperm.algorithms import InferenceResult, noisy_newton
from dperm.losses import Huber
from measuring import command_line

Array = np.ndarray[Any, np.dtype[np.float64]]
Rows = Callable[[np.random.Generator, int, int], Array]

LEVEL = 0.95
TAILS = norm.isf(0.5 - 0.5 * LEVEL)


def uniform(correlation: float) -> Rows:
    """Entries in [-1, 1], each correlated with the previous one."""

    def rows(rng: np.random.Generator, n: int, d: int) -> Array:
        X = rng.uniform(-1.0, 1.0, (n, d))
        for j in range(1, d):
            X[:, j] = correlation * X[:, j - 1] + (1.0 - correlation) * X[:, j]
        return X

    return rows


def one_factor(correlation: float) -> Rows:
    """Normal entries with one common factor, cut at three standard deviations."""

    def rows(rng: np.random.Generator, n: int, d: int) -> Array:
        common, own = rng.normal(size=(n, 1)), rng.normal(size=(n, d))
        return np.clip((correlation**0.5 * common + (1.0 - correlation) ** 0.5 * own) / 3.0, -1.0, 1.0)

    return rows


def levels(rng: np.random.Generator, n: int, d: int) -> Array:
    """Numbers, and indicators of the levels of a factor; the last has 1 % of the records."""
    factor = rng.choice(5, n, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    return np.hstack([rng.uniform(-1.0, 1.0, (n, d)), np.eye(5)[factor]])


def indicators(rng: np.random.Generator, n: int, d: int) -> Array:
    """Indicators of 3 to 40 % of the records."""
    return np.asarray(rng.random((n, d)) < np.geomspace(0.03, 0.4, d), dtype=np.float64)


def lognormal(rng: np.random.Generator, n: int, d: int) -> Array:
    """Entries of 0 to 5, half of them below 0.05."""
    return np.minimum(rng.lognormal(0.0, 1.3, (n, d)) / 20.0, 5.0)


@dataclass(frozen=True)
class Design:
    """How records are generated, and how they are fitted."""

    rows: Rows
    n: int
    d: int
    epsilon: float
    loss: str = "logistic"
    signal: float = 1.5  # norm of the weights
    intercept: float = -0.5
    looseness: float = 1.0  # factor on the bound on the rows
    smaller: float = 1.0  # factor by which the first column is smaller than the others
    target_bound: float = 8.0
    residuals: str = "normal"
    wrong: bool = False  # whether the true function is curved, against the model
    concave: bool = False  # whether it is then logarithmic
    options: dict[str, Any] = field(default_factory=dict)

    def records(self, rng: np.random.Generator, n: int, weights: Array) -> tuple[Array, Array]:
        """Rows with a final 1, and targets."""
        X = np.column_stack([self.rows(rng, n, self.d), np.ones(n)])
        predictions = X @ weights
        X[:, 0] /= self.smaller
        if self.wrong:
            curved = np.log(X[:, 0]) if self.concave else 1.5 * X[:, 0] ** 2 - 0.8 * X[:, 1] * X[:, 0]
            predictions = predictions + curved
        if self.loss == "logistic":
            return X, np.where(rng.random(n) < expit(predictions), 1.0, -1.0)
        errors = rng.standard_t(3, n) / 3**0.5 if self.residuals == "t3" else rng.normal(size=n)
        if self.residuals == "unequal":
            errors *= 0.3 + 1.2 * np.abs(X[:, 0])
        return X, predictions + 0.6 * errors

    def objective(self, X: Array, y: Array) -> Objective:
        """The objective, with the bound on the rows that the columns imply."""
        loss = Huber(1.2, self.target_bound) if self.loss == "huber" else "logistic"
        norm_of_rows = np.sqrt(1.0 + sum(np.max(X[:, :-1] ** 2, axis=0)))
        return Objective(
            loss, X[:, :-1].copy(), y, row_norm=self.looseness * norm_of_rows, fit_intercept=True, n_threads=1
        )


AR5, AR9 = uniform(0.5), uniform(0.9)
DESIGNS = {
    "small": Design(uniform(0.0), 5_000, 5, 1.0),
    "small, many": Design(uniform(0.0), 5_000, 10, 2.0),
    "medium, .4": Design(AR5, 20_000, 10, 0.4),
    "medium": Design(AR5, 20_000, 10, 1.0),
    "correlated": Design(AR9, 50_000, 10, 1.0),
    "one factor": Design(one_factor(0.8), 50_000, 15, 1.0),
    "wide, .4": Design(AR5, 100_000, 30, 0.4),
    "rare level": Design(levels, 20_000, 3, 1.0, options={"omit": [3]}),
    "rare level, more": Design(levels, 100_000, 3, 1.0, options={"omit": [3]}),
    "rare indicators": Design(indicators, 50_000, 8, 1.0),
    "loose bound": Design(one_factor(0.0), 10_000, 8, 1.0, looseness=5.0),
    "strong": Design(AR5, 20_000, 10, 1.0, signal=6.0),
    "few positives": Design(AR5, 50_000, 5, 1.0, intercept=-3.0),
    "replace one": Design(AR5, 20_000, 10, 1.0, options={"neighbors": "replace_one"}),
    "logistic, wrong": Design(uniform(0.0), 50_000, 5, 1.0, wrong=True, options={"covariance": "robust"}),
    "t3 residuals": Design(AR5, 20_000, 10, 1.0, "huber", residuals="t3"),
    "t3 residuals, .4": Design(AR9, 50_000, 5, 0.4, "huber", residuals="t3"),
    "unequal residuals": Design(AR5, 20_000, 5, 1.0, "huber", residuals="unequal"),
    "normal residuals, model": Design(AR5, 20_000, 5, 1.0, "huber", options={"covariance": "model"}),
    "regression, wrong": Design(uniform(0.0), 50_000, 5, 1.0, "huber", wrong=True),
    "rare positives": Design(uniform(0.0), 100_000, 5, 1.0, signal=2.5, intercept=-5.6),
    "strong, more": Design(uniform(0.0), 100_000, 5, 1.0, signal=14.0),
    "small column": Design(one_factor(0.6), 100_000, 3, 1.0, smaller=1e4),
    "lognormal, wrong": Design(
        lognormal, 100_000, 3, 1.0, intercept=3.0, wrong=True, concave=True, options={"covariance": "robust"}
    ),
    "far mean": Design(uniform(0.0), 20_000, 3, 1.0, "huber", intercept=80.0, target_bound=100.0),
}


def exact(objective: Objective, X: Array) -> tuple[Array, Array]:
    """Non-private minimiser, with its model-based standard errors."""
    loss, y, w = objective.loss, np.asarray(objective._rows.y), np.zeros(X.shape[1])
    for _ in range(60):
        p = X @ w
        slope, curvature = loss.derivative(p, y), loss.second_derivative(p, y)
        hessian = (X * curvature[:, np.newaxis]).T @ X
        step = np.linalg.lstsq(hessian, X.T @ slope, rcond=1e-9)[0]
        w = w - step
        if (np.abs(step) < 1e-9).all():
            break
    scale = 1.0 if loss.classification else np.mean(slope**2) / np.mean(curvature)
    return w, np.sqrt(np.maximum(scale * np.diag(np.linalg.pinv(hessian, rcond=1e-9)), 0.0))


@dataclass
class Coverage:
    """Results of a design, one row per run; NaN where an interval is refused."""

    covered: Array
    naive: Array
    width: Array
    seconds: float

    def line(self) -> str:
        """A line of the table."""
        known = ~np.isnan(self.covered)
        enough = known.sum(axis=0) >= 0.2 * len(known)
        worst = np.nanmin(np.nanmean(self.covered[:, enough], axis=0)) if enough.any() else np.nan
        refused = 1.0 - known.mean(axis=0)
        return (
            f"{np.nanmean(self.covered):.3f} {worst:.3f} {np.nanmean(self.naive):.3f} "
            f"{np.nanmedian(self.width):.2f} {np.nanmax(np.nanmedian(self.width, axis=0)):.2f} "
            f"{1.0 - known.mean():.3f} {np.sort(refused)[-3:].round(2)} {self.seconds:.2f}"
        )


def measured(design: Design, runs: int, seed: int, widths: int = 25) -> Coverage:
    """Coverage over that many runs, and widths in the first few."""
    rng = np.random.default_rng(seed)
    found, spent = [], 0.0
    for run in range(runs):
        width = design.rows(rng, 2, design.d).shape[1]
        w = rng.normal(size=width)
        w = np.append(design.signal * w / np.linalg.norm(w), design.intercept)
        w[design.options.get("omit", [])] = 0.0
        X, y = design.records(rng, design.n, w)
        objective = design.objective(X, y)
        true = w * np.append(design.smaller, np.ones(len(w) - 1))
        if design.wrong:
            if run % 20 == 0:
                fixed = w
                wide = design.records(rng, 1 << 20, w)
                true_wrong = exact(design.objective(*wide), wide[0])[0]
            X, y = design.records(rng, design.n, fixed)
            objective, true = design.objective(X, y), true_wrong
        begun = time.perf_counter()
        result = noisy_newton(objective, design.epsilon, 1e-6, random_state=seed + run, **design.options)
        spent += time.perf_counter() - begun
        found.append(_compared(design, result, true, X, objective, widths=run < widths))
    return Coverage(*(np.array(each) for each in zip(*found, strict=True)), seconds=spent / runs)


def _compared(
    design: Design, result: InferenceResult, true: Array, X: Array, objective: Objective, *, widths: bool
) -> tuple[Array, Array, Array]:
    """Whether intervals cover, the same without the noise, and their relative width."""
    kept = np.delete(np.arange(len(true)), design.options.get("omit", []))
    own = result.contrasts(np.eye(len(true))[kept])
    refused = np.isnan(own.standard_error)
    error = np.abs(own.value - true[kept])
    covered = np.where(refused, np.nan, error < TAILS * own.standard_error)
    naive = np.where(refused, np.nan, error < TAILS * (1.0 - own.noise_share) * own.standard_error)
    width = own.standard_error / exact(objective, X[:, kept])[1] if widths else np.full(len(error), np.nan)
    return covered, naive, width


if __name__ == "__main__":
    chosen = command_line(__doc__, runs=100, designs=list(DESIGNS), seed=1)
    warnings.simplefilter("ignore")
    print("design: coverage, worst, without noise, width, widest, refused, most refused, seconds a fit")
    for name in chosen.designs:
        print(f"{name}: {measured(DESIGNS[name], chosen.runs, chosen.seed).line()}", flush=True)
