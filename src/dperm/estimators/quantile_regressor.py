"""Private quantile regression as a scikit-learn regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.data.schema.schema import Schema
from dperm.estimators.linear_model import PrivateLinearRegressor
from dperm.estimators.shared_text import with_shared_text
from dperm.losses import Pinball
from dperm.mechanisms.random_source import RandomState


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
