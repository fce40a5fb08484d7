"""Private robust regression as a scikit-learn regressor."""

from __future__ import annotations

import math
from dataclasses import dataclass, is_dataclass, replace

from dperm.estimators.linear_model import PrivateLinearRegressor
from dperm.estimators.parameters import RegressorParameters
from dperm.estimators.shared_text import with_shared_text
from dperm.estimators.standard_errors import WithStandardErrors
from dperm.losses import Huber, Loss, SquaredError


@dataclass(eq=False, repr=False, kw_only=True)
class _Parameters(RegressorParameters):
    threshold: float = 1.0
    loss: Loss | None = None


@with_shared_text
class HuberRegressor(WithStandardErrors, PrivateLinearRegressor, _Parameters):
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
