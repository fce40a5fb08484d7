"""Linear regressors: Huber's loss, and quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.data.schema.schema import Schema
from dperm.errors import PrivacyWarning, warn_caller
from dperm.estimators.linear_model import PrivateLinearRegressor
from dperm.estimators.shared_text import with_shared_text
from dperm.estimators.standard_errors import WithStandardErrors
from dperm.losses import Huber, Loss, Pinball, SquaredError
from dperm.mechanisms.random_source import RandomState

_SCIKIT_LEARN_EPSILON = 1.35  # the default there


@with_shared_text
class HuberRegressor(WithStandardErrors, PrivateLinearRegressor):
    """Robust linear regression with a differential privacy guarantee that holds for the program.

    Parameters
    ----------
    $budget
    threshold : float, default=1.0
        The loss is quadratic, half the squared residual, up to this threshold in the unit of the targets, and
        linear beyond. Infinite for the squared error: ridge regression, whose unbounded slope makes solvers
        clip gradients or refuse. ``solver="sufficient_statistics"`` is for the squared error only.
    loss : Loss, optional
        A regression loss of :mod:`dperm.losses` in place of Huber's, such as ``Welsch()``, ``Tukey()``,
        ``Power(1.5)`` or ``EpsilonInsensitive(0.1)``. It gets this `target_bound`; `threshold` is ignored.
    $model
    $target_bound
    $run

    Attributes
    ----------
    coef_ : (n_features,) ndarray
    intercept_ : float
    $fitted
    inference_ : InferenceResult or None
        Result of ``solver="noisy_newton"``, for `conf_int` and `summary`; None after other solvers.

    Notes
    -----
    $guarantee

    The objective is the mean loss plus ``l2/2 ||w||^2``. scikit-learn's estimator of that name fits a scale
    as well: given its ``scale_``, its weights are those of ``threshold = epsilon * scale_`` and
    ``l2 = alpha * scale_ / n``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [2.0, -1.0] + 0.5
    >>> model = HuberRegressor(row_norm=1.3, target_bound=2.0, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

    threshold: float
    loss: Loss | None

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        threshold: float = 1.0,
        loss: Loss | None = None,
        solver: str = "auto",
        l2: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        row_norm: float | None = None,
        schema: Schema | None = None,
        target_bound: float | None = None,
        neighbors: str | None = None,
        calibration: str = "tight",
        learn_scales: bool | str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
        non_finite: str = "raise",
        weight_bound: float = 1.0,
        n_public: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.epsilon == _SCIKIT_LEARN_EPSILON and self.threshold == 1.0:
            warn_caller(
                f"epsilon = {self.epsilon} is the privacy budget here, and scikit-learn's default for what "
                "is called threshold here, in the unit of the targets: HuberRegressor(threshold=...)",
                PrivacyWarning,
            )

    def _loss(self, target_bound: float) -> Loss:
        if self.loss is not None:
            chosen: Loss = replace(self.loss, target_bound=target_bound)  # type: ignore[type-var]
            return chosen
        if self.threshold == math.inf:
            return SquaredError(target_bound)
        return Huber(self.threshold, target_bound=target_bound)

    def _public_target_bound(self) -> float:
        """The estimator's, or that of the loss if it has one."""
        loss = self.loss
        if loss is None:
            return super()._public_target_bound()
        if not isinstance(loss, Loss) or loss.classification or not is_dataclass(loss):
            raise ValueError(f"loss must be a regression loss of dperm.losses, or None, got {loss!r}")
        if loss.target_bound == math.inf:
            return super()._public_target_bound()
        if self.target_bound not in (None, loss.target_bound):
            raise ValueError(
                f"target_bound={self.target_bound!r} differs from that of the loss, {loss.target_bound!r}: "
                "give one of them"
            )
        return loss.target_bound


@with_shared_text
class QuantileRegressor(PrivateLinearRegressor):
    """Linear quantile regression with a differential privacy guarantee that holds for the program.

    Parameters
    ----------
    $budget
    quantile : float, default=0.5
        The share of targets below the prediction, strictly between 0 and 1.
    curvature : float, default=inf
        Infinite for the pinball loss itself. A finite curvature, in the inverse unit of the targets, smooths
        the kink, for solvers that need a smooth loss; it raises the loss by at most ``1 / (8 curvature)``.
    $model
    $target_bound
    $run

    Attributes
    ----------
    coef_ : (n_features,) ndarray
    intercept_ : float
    $fitted

    Notes
    -----
    $guarantee

    The objective is the mean loss plus ``l2/2 ||w||^2``; scikit-learn's estimator of that name has an L1
    penalty instead, so the two agree without a penalty.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [2.0, -1.0] + 0.5
    >>> model = QuantileRegressor(row_norm=1.3, target_bound=2.0, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

    quantile: float
    curvature: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        quantile: float = 0.5,
        curvature: float = math.inf,
        solver: str = "auto",
        l2: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        row_norm: float | None = None,
        schema: Schema | None = None,
        target_bound: float | None = None,
        neighbors: str | None = None,
        calibration: str = "tight",
        learn_scales: bool | str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
        non_finite: str = "raise",
        weight_bound: float = 1.0,
        n_public: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _loss(self, target_bound: float) -> Pinball:
        return Pinball(self.quantile, target_bound, curvature=self.curvature)
