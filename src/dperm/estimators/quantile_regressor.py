"""Private quantile regression as a scikit-learn regressor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.estimators.linear_model import PrivateLinearRegressor
from dperm.estimators.parameters import RegressorParameters
from dperm.estimators.shared_text import with_shared_text
from dperm.losses import Pinball


@dataclass(eq=False, repr=False, kw_only=True)
class _Parameters(RegressorParameters):
    quantile: float = 0.5
    curvature: float = math.inf


@with_shared_text
class QuantileRegressor(PrivateLinearRegressor, _Parameters):
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

    def _loss(self, target_bound: float) -> Pinball:
        return Pinball(self.quantile, target_bound, curvature=self.curvature)
