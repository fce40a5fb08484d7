"""DP-LSSGD and DP-LSAdam: private stochastic gradients, smoothed before the step.

Wang, Gu, Boedihardjo, Wang, Barekat and Osher, "DP-LSSGD: a stochastic optimization method to lift the
utility in privacy-preserving ERM", MSML 2020, Algorithm 1. Smoothing comes after the noise and is
invertible: the guarantee is that of DP-SGD with the same noise, neither better nor worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from dperm.accounting import paper
from dperm.algorithms.fit import Fit, Terms
from dperm.algorithms.fit_result import FitResult
from dperm.algorithms.minibatch_descent import MinibatchRun, default_schedule
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import non_negative, positive_integer
from dperm.mechanisms.smoothing import laplacian_smoothing
from dperm.objective.objective import Objective

Array = NDArray[np.float64]

# Sampling under which the published theorem is stated, by relation.
_PAPER_SAMPLING = {"add_or_remove": "poisson", "replace_one": "without_replacement"}


@needs()
def dp_lssgd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    smoothing: float = 1.0,
    image_shape: Sequence[int] | None = None,
    batch_size: float | None = None,
    steps: int | None = None,
    clip: float | None = None,
    step_size: float | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    radius: float = math.inf,
    sampling: str = "poisson",
    accountant: str = "pld",
    **terms: Unpack[Terms],
) -> FitResult:
    """Minimise by stochastic gradient descent on noisy gradients that are smoothed before each step.

    Parameters
    ----------
    objective : Objective
        Any loss. Smoothing helps where neighbouring columns have similar weights: signals, images.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    smoothing : float
        sigma of :func:`dperm.mechanisms.laplacian_smoothing`, at least 0; along the columns, of each class on
        its own, the intercept left alone. 0 is :func:`dp_sgd`.
    image_shape : sequence of ints, optional
        Height, width and so on of the image that a row is, in C order: smoothed along each of these.
    batch_size, steps, clip, step_size, momentum, tail : optional
        As in :func:`dp_sgd`. ``momentum=0, tail=0`` is the published algorithm.
    radius, sampling, accountant, neighbors, ledger, random_state, callback
        As in :func:`dp_sgd`; the callback's gradient is the smoothed one.
    calibration : {"tight", "paper"}
        "paper": the noise of the paper's Theorem 1, with ``sampling="poisson"`` under ``add_or_remove`` and
        ``"without_replacement"`` under ``replace_one``. The theorem is false as stated: the noise is
        refused wherever the accountant does not confirm the claim.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, a combination without valid accounting, or a paper calibration that
        does not give the claimed guarantee.
    DataError
        For more records than ``n_public`` and batches of fixed size.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    Guarantee and accounting as in :func:`dp_sgd`: what follows the noise is post-processing.
    """
    fit = Fit(objective, epsilon, delta, **terms)
    schedule = default_schedule(fit.problem, "momentum", steps).replaced(
        batch_size=batch_size, steps=steps, clip=clip, step_size=step_size, momentum=momentum, tail=tail
    )
    run = MinibatchRun(fit, schedule, "momentum", sampling, accountant, radius)
    return _smoothed_descent("dp_lssgd", run, smoothing, image_shape)


@needs()
def dp_lsadam(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    smoothing: float = 1.0,
    image_shape: Sequence[int] | None = None,
    batch_size: float | None = None,
    steps: int | None = None,
    clip: float | None = None,
    step_size: float | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    radius: float = math.inf,
    sampling: str = "poisson",
    accountant: str = "pld",
    **terms: Unpack[Terms],
) -> FitResult:
    """Minimise by Adam on noisy gradients that are smoothed before each step.

    Parameters
    ----------
    objective, epsilon, delta, smoothing, image_shape
        As in :func:`dp_lssgd`.
    batch_size, steps, clip, step_size, momentum, tail : optional
        As in :func:`dp_lssgd`; ``step_size`` is the length of a typical step in one coordinate and
        ``momentum`` the decay of the mean gradient.
    radius, sampling, accountant, calibration, neighbors, ledger, random_state, callback
        As in :func:`dp_lssgd`.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, DataError, BudgetExceededError
        As in :func:`dp_lssgd`.

    Notes
    -----
    Guarantee and accounting as in :func:`dp_sgd`: what follows the noise is post-processing.
    """
    fit = Fit(objective, epsilon, delta, **terms)
    schedule = default_schedule(fit.problem, "adam", steps).replaced(
        batch_size=batch_size, steps=steps, clip=clip, step_size=step_size, momentum=momentum, tail=tail
    )
    run = MinibatchRun(fit, schedule, "adam", sampling, accountant, radius)
    return _smoothed_descent("dp_lsadam", run, smoothing, image_shape)


def _smoothed_descent(
    name: str, run: MinibatchRun, smoothing: float, image_shape: Sequence[int] | None
) -> FitResult:
    smoothing = non_negative("smoothing", smoothing)
    run = replace(run.checked(), smooth=_smoother(run.fit.objective, smoothing, image_shape))
    sigma_over_clip = _published_noise(name, run) if run.fit.as_published else run.noise_multiplier()
    shape = None if image_shape is None else tuple(image_shape)
    return run.descend(name, sigma_over_clip, smoothing=smoothing, image_shape=shape)


def _smoother(
    objective: Objective, smoothing: float, image_shape: Sequence[int] | None
) -> Callable[[Array], Array]:
    """Smoothing of a gradient along the columns of the data; other weights pass unchanged."""
    n_columns = objective.n_columns
    if image_shape is not None and not isinstance(image_shape, Sequence | np.ndarray):
        raise ValueError(f"image_shape must be a sequence of integers such as (28, 28), got {image_shape!r}")
    grid = (n_columns,) if image_shape is None else tuple(image_shape)
    for length in grid:
        positive_integer("image_shape", length)
    if math.prod(grid) != n_columns:
        raise ValueError(f"image_shape must have {n_columns} pixels, one per column, got {image_shape!r}")
    axes = tuple(range(len(grid)))

    def smooth(gradient: Array) -> Array:
        smoothed = gradient.copy()
        columns = gradient[:n_columns]
        image = columns.reshape(*grid, *columns.shape[1:])
        smoothed[:n_columns] = laplacian_smoothing(image, smoothing, axes, 1).reshape(columns.shape)
        return smoothed

    return smooth


def _published_noise(name: str, run: MinibatchRun) -> float:
    """Theorem 1 of the paper, on the mean of a batch."""
    fit = run.fit
    if run.accountant != "pld" or run.sampling != _PAPER_SAMPLING[fit.neighbors]:
        raise ValueError(
            f"calibration='paper' of {name} needs accountant='pld', which verifies it, and "
            "sampling='poisson' with neighbors='add_or_remove' or 'without_replacement' with 'replace_one'"
        )
    fit.check_published(name, neighbors=None)
    on_the_mean = paper.dp_lssgd(
        fit.epsilon,
        fit.delta,
        batch_size=run.schedule.batch_size,  # type: ignore[arg-type]
        n_samples=fit.n,
        steps=run.schedule.steps,
        neighbors=fit.neighbors,
    )
    return on_the_mean * run.schedule.batch_size
