"""Inputs of the benchmarks, generated once, and the calls of dperm and numpy on them."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dperm import Objective
from dperm.accounting import gdp_mu
from measuring import Call

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.losses import clipped_loss_sums
from reference import numpy_algorithms as twin

CLIP, LOSS_CLIP = 0.5, 4.0
STEPS = np.linspace(0.0, 2.0, 20)
SIZES = {"large": (1_000_000, 120), "small": (20_000, 120)}


@functools.cache
def problem(size: str, dtype: str):
    """A random logistic problem: rows of norm about 1, weights, direction, labels."""
    n, d = SIZES[size]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32).astype(dtype)
    X /= np.sqrt(np.asarray(d, dtype=dtype))
    w = rng.normal(size=d)
    y = np.where(X @ w.astype(dtype) + rng.normal(size=n) > 0, 1.0, -1.0).astype(dtype)
    return X, y, w, rng.normal(size=d) / np.sqrt(d)


@functools.cache
def objective(size: str, dtype: str) -> Objective:
    """The objective of `problem`. Rows have norm at most 2, so none is scaled."""
    X, y, _, _ = problem(size, dtype)
    return Objective("logistic", X, y, row_norm=2.0)


def passes(obj: Objective, w: np.ndarray, direction: np.ndarray) -> tuple[Call, Call]:
    """A gradient pass, and a line search of 20 steps."""
    return (
        lambda: clipped_gradient_sum(obj, w, CLIP),
        lambda: clipped_loss_sums(obj, w, direction, STEPS, LOSS_CLIP),
    )


def numpy_passes(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, direction: np.ndarray
) -> tuple[Call, Call, Call]:
    """In numpy: the best gradient pass, one with per-record gradients, and the best line search."""
    norms, w, direction = np.linalg.norm(X, axis=1), w.astype(X.dtype), direction.astype(X.dtype)
    return (
        lambda: twin.clipped_logistic_gradient(X, y, norms, w, CLIP),
        lambda: twin.clipped_logistic_gradient_materialised(X, y, w, CLIP),
        lambda: twin.clipped_logistic_losses(X, y, w, direction, STEPS, LOSS_CLIP),
    )


def dp_agd_twin(
    obj: Objective, X: np.ndarray, y: np.ndarray, epsilon: float, delta: float
) -> Callable[[], int]:
    """DP-AGD under zCDP in numpy, on the scaled rows of `obj`; returns its random number of updates."""
    # These names are not public; the rest of this module also works with earlier versions of the package.
    from dperm.accounting.zcdp import zcdp_rho
    from dperm.algorithms.dp_agd import DPAGDSchedule
    from dperm.algorithms.problem import PublicProblem

    rows = twin.scaled_rows(X, obj.row_norm, True)
    mu, rho = gdp_mu(epsilon, delta), zcdp_rho(epsilon, delta)
    schedule = DPAGDSchedule.of(PublicProblem(obj.n_public, obj.dimension, mu, obj.loss, obj.row_norm), {})
    selection = schedule.selection_share * rho / schedule.splits
    gradient = rho / schedule.splits - selection
    return lambda: twin.dp_agd(rows, y, rho, gradient, selection, schedule, np.random.default_rng())[1]
