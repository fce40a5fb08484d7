"""DP-LSSGD and DP-LSAdam: private stochastic gradients, smoothed before the step.

Wang, Gu, Boedihardjo, Wang, Barekat and Osher, "DP-LSSGD: a stochastic optimization method to lift the
utility in privacy-preserving ERM", MSML 2020, Algorithm 1. Smoothing comes after the noise and is
invertible: the guarantee is that of DP-SGD with the same noise, neither better nor worse.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting import paper
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.algorithms._minibatch_descent import (
    MinibatchSchedule,
    SamplingPlan,
    check_schedule,
    in_short_steps,
    objective_schedule,
    private_minibatch_fit,
)
from dperm.algorithms.dp_sgd import adam_schedule, step_rule
from dperm.algorithms.fit_result import Callback, FitResult
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_positive_integer, override
from dperm.mechanisms.random_source import RandomState
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
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
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
    given = override(
        in_short_steps(objective_schedule(objective, epsilon, delta, neighbors), objective, steps),
        batch_size=batch_size,
        steps=steps,
        clip=clip,
        step_size=step_size,
        momentum=momentum,
        tail=tail,
    )
    return _smoothed_descent(
        "dp_lssgd",
        "momentum",
        objective,
        epsilon,
        delta,
        schedule=given,
        smoothing=smoothing,
        image_shape=image_shape,
        plan=SamplingPlan(sampling, accountant, neighbors),
        calibration=calibration,
        radius=radius,
        ledger=ledger,
        random_state=random_state,
        callback=callback,
    )


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
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
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
    given = override(
        adam_schedule(objective_schedule(objective, epsilon, delta, neighbors), objective),
        batch_size=batch_size,
        steps=steps,
        clip=clip,
        step_size=step_size,
        momentum=momentum,
        tail=tail,
    )
    return _smoothed_descent(
        "dp_lsadam",
        "adam",
        objective,
        epsilon,
        delta,
        schedule=given,
        smoothing=smoothing,
        image_shape=image_shape,
        plan=SamplingPlan(sampling, accountant, neighbors),
        calibration=calibration,
        radius=radius,
        ledger=ledger,
        random_state=random_state,
        callback=callback,
    )


def _smoothed_descent(
    name: str,
    optimizer: str,
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    schedule: MinibatchSchedule,
    smoothing: float,
    image_shape: Sequence[int] | None,
    plan: SamplingPlan,
    calibration: str,
    radius: float,
    **common: Any,
) -> FitResult:
    check_schedule(schedule, radius, objective.n_public)
    smooth = _smoother(objective, smoothing, image_shape)
    return private_minibatch_fit(
        objective,
        epsilon,
        delta,
        name=name,
        plan=plan,
        schedule=schedule,
        noise=_noise(name, objective, epsilon, delta, plan, schedule, calibration),
        rule=step_rule(optimizer, schedule),
        smooth=smooth,
        radius=radius,
        smoothing=smoothing,
        image_shape=None if image_shape is None else tuple(image_shape),
        calibration=calibration,
        **common,
    )


def _smoother(
    objective: Objective, smoothing: float, image_shape: Sequence[int] | None
) -> Callable[[Array], Array]:
    """Smoothing of a gradient along the columns of the data; other weights pass unchanged."""
    if not (isinstance(smoothing, numbers.Real) and 0.0 <= smoothing < math.inf):
        raise ValueError(f"smoothing must be finite and at least 0, got {smoothing!r}")
    n_columns = objective.n_columns
    if image_shape is not None and not isinstance(image_shape, Sequence | np.ndarray):
        raise ValueError(f"image_shape must be a sequence of integers such as (28, 28), got {image_shape!r}")
    grid = (n_columns,) if image_shape is None else tuple(image_shape)
    for length in grid:
        check_positive_integer("image_shape", length)
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


def _noise(
    name: str,
    objective: Objective,
    epsilon: float,
    delta: float,
    plan: SamplingPlan,
    schedule: MinibatchSchedule,
    calibration: str,
) -> float:
    """``sigma / clip`` of each noisy sum."""
    if calibration == "tight":
        return plan.noise_multiplier(objective, epsilon, delta, schedule)
    if calibration != "paper":
        raise ValueError(f"calibration must be 'tight' or 'paper', got {calibration!r}")
    if plan.accountant != "pld" or plan.sampling != _PAPER_SAMPLING.get(plan.neighbors):
        raise ValueError(
            f"calibration='paper' of {name} needs accountant='pld', which verifies it, and "
            "sampling='poisson' with neighbors='add_or_remove' or 'without_replacement' with 'replace_one'"
        )
    if epsilon == math.inf:
        raise ValueError("calibration='paper' needs a finite epsilon")
    on_the_mean = paper.dp_lssgd(
        epsilon,
        delta,
        batch_size=schedule.batch_size,  # type: ignore[arg-type]
        n_samples=objective.n_public,
        steps=schedule.steps,
        neighbors=plan.neighbors,
    )
    return on_the_mean * schedule.batch_size
