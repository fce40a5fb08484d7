"""DP-LSSGD and DP-LSAdam: DP-SGD with Laplacian smoothing of the noisy gradients.

Wang, Gu, Boedihardjo, Wang, Barekat and Osher, MSML 2020, Algorithm 1. Smoothing is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dperm.accounting import paper
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.minibatch_descent import MinibatchArguments, MinibatchRun
from dperm.algorithms.settings import Setting
from dperm.mechanisms.smoothing import laplacian_smoothing
from dperm.objective.objective import Array, Objective

# Sampling scheme of the published theorem, by neighbouring relation.
_PAPER_SAMPLING = {"add_or_remove": "poisson", "replace_one": "without_replacement"}


class SmoothedArguments(MinibatchArguments):
    """Arguments of :func:`dp_lssgd` and :func:`dp_lsadam`.

    Attributes
    ----------
    smoothing : float
        sigma of :func:`dperm.mechanisms.laplacian_smoothing`, at least 0; along the columns, for each class
        separately, the intercept excluded. 0 is :func:`dp_sgd`.
    image_shape : sequence of ints
        Shape of the image in a row, in C order, such as height and width: smoothed along each axis.
    """

    smoothing: Setting[float] = Setting(check.non_negative, 1.0)
    image_shape: Sequence[int] | None = None


@algorithm(SmoothedArguments, weighs_privately=True)
def dp_lssgd(fit: Fit, given: SmoothedArguments) -> FitResult:
    """Minimise by stochastic gradient descent on noisy gradients that are smoothed before each step.

    Settings follow from public numbers where they are not given. ``momentum=0, tail=0`` is the published
    algorithm.

    Parameters
    ----------
    objective : Objective
        Any loss. Smoothing helps where neighbouring columns have similar weights: signals, images.
    calibration : {"tight", "paper"}
        "paper": the noise of the paper's Theorem 1, with ``sampling="poisson"`` under ``add_or_remove`` and
        ``"without_replacement"`` under ``replace_one``. It often fails, and is then refused.
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released; the gradient is the
        smoothed one.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_lssgd(objective, epsilon=1.0, delta=1e-6, smoothing=0.5, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    return _smoothed_descent("dp_lssgd", fit, given, "momentum")


@algorithm(SmoothedArguments, weighs_privately=True)
def dp_lsadam(fit: Fit, given: SmoothedArguments) -> FitResult:
    """Minimise by Adam on noisy gradients that are smoothed before each step.

    As :func:`dp_lssgd`, with Adam as the optimizer: `step_size` is the length of a typical step in one
    coordinate, and `momentum` the decay of the mean gradient.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_lsadam(objective, epsilon=1.0, delta=1e-6, smoothing=0.5, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    return _smoothed_descent("dp_lsadam", fit, given, "adam")


def _smoothed_descent(name: str, fit: Fit, given: SmoothedArguments, optimizer: str) -> FitResult:
    smooth = _smoother(fit.objective, given.smoothing, given.image_shape)
    run = MinibatchRun(fit, given, optimizer, smooth)
    sigma_over_clip = _published_noise(name, run) if fit.as_published else run.noise_multiplier()
    shape = None if given.image_shape is None else tuple(given.image_shape)
    return run.descend(name, sigma_over_clip, image_shape=shape)


def _smoother(
    objective: Objective, smoothing: float, image_shape: Sequence[int] | None
) -> Callable[[Array], Array]:
    """Smoothing of a gradient along the columns of the data; the intercept stays as it is."""
    n_columns = objective.n_columns
    if image_shape is not None and not isinstance(image_shape, Sequence | np.ndarray):
        raise ValueError(f"image_shape must be a sequence of integers such as (28, 28), got {image_shape!r}")
    grid = (n_columns,) if image_shape is None else tuple(image_shape)
    for length in grid:
        check.positive_integer("image_shape", length)
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
    if run.schedule.accountant != "pld" or run.schedule.sampling != _PAPER_SAMPLING[fit.neighbors]:
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
