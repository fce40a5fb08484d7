"""DP-LSSGD and DP-LSAdam: DP-SGD with Laplacian smoothing of the noisy gradients.

Wang, Gu, Boedihardjo, Wang, Barekat and Osher, MSML 2020, Algorithm 1. Smoothing is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dperm.accounting import PrivacyLedger, paper
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.minibatch_descent import MinibatchRun, MinibatchSchedule
from dperm.algorithms.requirements import needs
from dperm.algorithms.step_sizes import StepSize
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.smoothing import laplacian_smoothing
from dperm.objective.objective import Array, Objective

# Sampling scheme of the published theorem, by neighbouring relation.
_PAPER_SAMPLING = {"add_or_remove": "poisson", "replace_one": "without_replacement"}


@needs()
def dp_lssgd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    batch_size: float | None = None,
    steps: int | None = None,
    clip: float | None = None,
    step_size: StepSize | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    radius: float = math.inf,
    smoothing: float = 1.0,
    image_shape: Sequence[int] | None = None,
    sampling: str = "poisson",
    accountant: str = "pld",
    learn_scales: bool = False,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by stochastic gradient descent on noisy gradients that are smoothed before each step.

    Settings that are not given follow from public numbers: :mod:`dperm.algorithms.rules`. ``momentum=0,
    tail=0`` is the published algorithm. Pseudo-code, guarantee and proof: :doc:`/theory/dp_lssgd`.

    Parameters
    ----------
    objective : Objective
        Any loss. Smoothing helps where neighbouring columns have similar weights: signals, images.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    batch_size, steps, clip, step_size, momentum, tail, radius : optional
        As for :func:`dp_sgd`.
    smoothing : float
        sigma of :func:`dperm.mechanisms.laplacian_smoothing`, at least 0; along the columns, for each class
        separately, the intercept excluded. 0 is :func:`dp_sgd`.
    image_shape : sequence of ints, optional
        Shape of the image in a row, in C order, such as height and width: smoothed along each axis.
    sampling, accountant, learn_scales : optional
        As for :func:`dp_sgd`.
    calibration : {"tight", "paper"}
        "paper": the noise of the paper's Theorem 1, with ``sampling="poisson"`` under ``add_or_remove`` and
        ``"without_replacement"`` under ``replace_one``. It often fails, and is then refused.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called after each step with ``{"iteration", "steps", "coef", "gradient"}``, all released; the gradient
        is the smoothed one.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

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
    given = MinibatchSchedule.checked(
        batch_size=batch_size, steps=steps, clip=clip, step_size=step_size, momentum=momentum, tail=tail,
        radius=radius,
    )  # fmt: skip
    smoother = LaplacianSmoother(objective, smoothing, image_shape)
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        run = MinibatchRun(fit, given, learn_scales, sampling, accountant, "momentum", smoother)
        return _descend("dp_lssgd", run, smoother)


@needs()
def dp_lsadam(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    batch_size: float | None = None,
    steps: int | None = None,
    clip: float | None = None,
    step_size: StepSize | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    radius: float = math.inf,
    smoothing: float = 1.0,
    image_shape: Sequence[int] | None = None,
    sampling: str = "poisson",
    accountant: str = "pld",
    learn_scales: bool = False,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by Adam on noisy gradients that are smoothed before each step.

    As :func:`dp_lssgd`, with Adam as the optimizer. Pseudo-code, guarantee and proof:
    :doc:`/theory/dp_lsadam`.

    Parameters
    ----------
    objective : Objective
        Any loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    batch_size, steps, clip : optional
        As for :func:`dp_sgd`.
    step_size : float, str, mapping or callable, optional
        Length of a typical step in one coordinate; it may change as for :func:`dp_sgd`.
    momentum : float, optional
        Decay of the mean gradient, in [0, 1).
    tail, radius : optional
        As for :func:`dp_sgd`.
    smoothing, image_shape : optional
        As for :func:`dp_lssgd`.
    sampling, accountant, learn_scales : optional
        As for :func:`dp_sgd`.
    calibration : {"tight", "paper"}
        As for :func:`dp_lssgd`.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called after each step with ``{"iteration", "steps", "coef", "gradient"}``, all released; the gradient
        is the smoothed one.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

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
    given = MinibatchSchedule.checked(
        batch_size=batch_size, steps=steps, clip=clip, step_size=step_size, momentum=momentum, tail=tail,
        radius=radius,
    )  # fmt: skip
    smoother = LaplacianSmoother(objective, smoothing, image_shape)
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        run = MinibatchRun(fit, given, learn_scales, sampling, accountant, "adam", smoother)
        return _descend("dp_lsadam", run, smoother)


class LaplacianSmoother:
    """Smoothing of a gradient along the columns of the data; the intercept stays as it is."""

    def __init__(self, objective: Objective, smoothing: float, image_shape: Sequence[int] | None) -> None:
        self.n_columns = n_columns = objective.n_columns
        self.smoothing = check.non_negative("smoothing", smoothing)
        if image_shape is not None and not isinstance(image_shape, Sequence | np.ndarray):
            raise ValueError(
                f"image_shape must be a sequence of integers such as (28, 28), got {image_shape!r}"
            )
        self.image_shape = None if image_shape is None else tuple(image_shape)
        self._grid = (n_columns,) if self.image_shape is None else self.image_shape
        for length in self._grid:
            check.positive_integer("image_shape", length)
        if math.prod(self._grid) != n_columns:
            raise ValueError(f"image_shape must have {n_columns} pixels, one per column, got {image_shape!r}")

    def __call__(self, gradient: Array) -> Array:
        """The smoothed gradient."""
        smoothed = gradient.copy()
        columns = gradient[: self.n_columns]
        image = columns.reshape(*self._grid, *columns.shape[1:])
        axes = tuple(range(len(self._grid)))
        smoothed[: self.n_columns] = laplacian_smoothing(image, self.smoothing, axes, 1).reshape(
            columns.shape
        )
        return smoothed


def _descend(name: str, run: MinibatchRun, smoother: LaplacianSmoother) -> FitResult:
    sigma_over_clip = _published_noise(name, run) if run.fit.as_published else run.noise_multiplier()
    facts = {"smoothing": smoother.smoothing, "image_shape": smoother.image_shape}
    return run.descend(name, sigma_over_clip, **facts)


def _published_noise(name: str, run: MinibatchRun) -> float:
    """Theorem 1 of the paper, on the mean of a batch."""
    fit, schedule = run.fit, run.schedule
    if run.accountant != "pld" or run.sampling != _PAPER_SAMPLING[fit.neighbors]:
        raise ValueError(
            f"calibration='paper' of {name} needs accountant='pld', which verifies it, and "
            "sampling='poisson' with neighbors='add_or_remove' or 'without_replacement' with 'replace_one'"
        )
    fit.check_published(name, neighbors=None)
    on_the_mean = paper.dp_lssgd(
        fit.epsilon,
        fit.delta,
        batch_size=schedule.batch_size,  # type: ignore[arg-type]
        n_samples=fit.n,
        steps=schedule.steps,
        neighbors=fit.neighbors,
    )
    return on_the_mean * schedule.batch_size
