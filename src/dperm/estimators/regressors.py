"""Linear regressors: Huber's loss, and quantiles."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.data.dask_collections import is_dask_collection
from dperm.data.files.record_files import RecordFiles
from dperm.data.schema.schema import Schema
from dperm.errors import PrivacyWarning, warn_caller
from dperm.estimators.dask_input import ScoredByBlocks, by_blocks
from dperm.estimators.design import training_data
from dperm.estimators.linear_model import PrivateLinearModel
from dperm.estimators.standard_errors import WithStandardErrors
from dperm.losses import Huber, Loss, Pinball, SquaredError, get_loss
from dperm.mechanisms.random_source import RandomState

_SCIKIT_LEARN_EPSILON = 1.35  # the default there


class PrivateLinearRegressor(ScoredByBlocks, RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear regressor: a subclass chooses the loss, given the bound on the targets."""

    target_bound: float | None

    @abstractmethod
    def _loss(self, target_bound: float) -> Loss:
        """The loss, for targets in ``[-target_bound, target_bound]``."""

    def _problem(self, X: Any, y: Any) -> tuple[Loss, Any, Any]:
        if self.non_finite != "zero" or isinstance(X, RecordFiles) or is_dask_collection(X):
            X, y = training_data(self, X, y, y_numeric=True)
        else:
            y = column_or_1d(y, dtype=np.float64)  # the objective ignores records that are not finite
            X, _ = training_data(self, X, np.where(np.isfinite(y), y, 0.0), y_numeric=True)
        return self._loss(self._public_target_bound()), X, y

    def _set_weights(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> None:
        self.coef_, self.intercept_ = coef, float(intercept)

    @by_blocks
    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Prediction for each row, shape ``(n_samples,)``; rows are scaled as in training.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
        >>> model = dperm.HuberRegressor(epsilon=8.0, row_norm=1.3, target_bound=2.0, random_state=0)
        >>> model.fit(X, X @ [2.0, -1.0]).predict([[0.5, 0.0], [0.0, 0.5]]).round(1)
        array([ 1. , -0.5])
        """
        check_is_fitted(self)
        return self._scaled_products(X, self.coef_, self.intercept_)

    def _known_target_bound(self) -> float | None:
        bounds = None if self.schema is None else self.schema.target_bounds
        return self.target_bound if self.target_bound is not None or not bounds else max(map(abs, bounds))

    def _public_target_bound(self) -> float:
        if (known := self._known_target_bound()) is not None:
            return known
        if self._is_private():
            raise ValueError(
                "target_bound must be given: a public bound on |y|, in the unit of y, chosen from domain "
                "knowledge and not from the data; targets beyond it are clipped"
            )
        return math.inf

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self._is_private()
        return tags


class HuberRegressor(WithStandardErrors, PrivateLinearRegressor):
    """Robust linear regression with a differential privacy guarantee that holds for the program.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one call of `fit`, greater than 0; infinite means no privacy.
    delta : float, default=1e-6
        Less than 1; choose it well below one over the number of records. 0 requires a pure guarantee, which
        some solvers have.
    threshold : float, default=1.0
        The loss is quadratic, half the squared residual, up to this threshold in the unit of the targets, and
        linear beyond. Infinite for the squared error: ridge regression, whose unbounded slope makes solvers
        clip gradients or refuse. ``solver="sufficient_statistics"`` is for the squared error only.
    loss : str or Loss, optional
        A loss of residuals of :mod:`dperm.losses` in place of Huber's, by name or as an instance, such as
        "absolute", ``Power(1.5)`` or ``EpsilonInsensitive(0.1)``. It gets this `target_bound`; `threshold` is
        ignored.
    solver : str, default="auto"
        "auto", or the name of an algorithm in :mod:`dperm.algorithms` that supports the loss. "auto" chooses
        by public numbers only, see :func:`dperm.estimators.solvers.choose_solver`.
    l2 : float, default=0.0
        Ridge strength on the scale of the mean loss.
    fit_intercept : bool, default=True
        Whether to fit an intercept (an implicit column of ones, part of the row norm).
    penalize_intercept : bool, default=False
        Whether the ridge term includes the intercept; some solvers need that.
    row_norm : float, optional
        Public bound on the Euclidean norm of a row, intercept included. Longer rows are scaled down to it, in
        training and prediction alike. Choose it from what is known about the columns, not from the data.
        Default: the schema's bound; without a schema 1.0, with a DefaultBoundWarning.
    schema : Schema, optional
        Public description of the table. With it, ``X`` is a data frame of raw records, here and in
        prediction, each of which is encoded independently of the others (or a `TabularMatrix` that is already
        encoded).
    additive : bool, default=False
        Whether numeric columns get curves in place of straight lines: smooth functions of the value, whose
        bins are learned first, from a part of the budget. How many follows from public numbers; with little
        data or budget none. Needs a `schema`.
    target_bound : float, optional
        Public bound on ``|y|``, in the unit of the targets, which are clipped to it. Choose it from what is
        known about the targets, not from the data. Default: that of the schema's label. Required without one,
        unless `epsilon` is infinite.
    neighbors : {"add_or_remove", "replace_one"}, optional
        What the guarantee protects: the presence of a record, or its content. By default the ledger's
        relation, or "add_or_remove" without a ledger.
    calibration : {"tight", "paper"}, default="tight"
        "paper" uses the noise that the algorithm's authors published.
    learn_scales : {"auto", True, False}, default="auto"
        Whether to spend part of the budget on the scales of the columns first. "auto" leaves it to the
        default solver, see :func:`dperm.algorithms.whitened_gd`; others learn scales if True is given and
        they can, see :func:`dperm.algorithms.noisy_gd`.
    solver_options : dict, optional
        Further keyword arguments of the solver, see :mod:`dperm.algorithms`.
    ledger : PrivacyLedger, optional
        Shared budget, charged before each fit starts.
    n_threads : int, optional
        Number of threads for a pass over the data; the result does not depend on it.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographic noise. Anything else makes the run reproducible, for tests: the guarantee
        does not hold against anyone who knows the seed, and noise of equal seeds cancels between two models.
        A ledger refuses seeds.
    non_finite : {"raise", "zero"}, default="raise"
        Whether a record with NaN or infinity is an error or contributes zero.
    weight_bound : float, optional
        Public bound on the `sample_weight` of `fit`, chosen without looking at the weights. Default: 1.0,
        with a DefaultBoundWarning where there are weights.
    n_public : int, optional
        Public number of records, which sums are divided by; it may be rounded. By default the exact number,
        which is thereby published: under add_or_remove with an ExactSizeWarning, and refused for a part of a
        split ledger, whose number of records is secret (`LedgerPart.n_public`).
    verbose : int, default=0
        If not 0, show the steps and the time left on standard error, see :func:`dperm.progress`.

    Attributes
    ----------
    coef_ : (n_features,) ndarray
    intercept_ : float
    n_iter_ : int
        Number of iterations of the solver.
    privacy_ : PrivacyStatement
        The guarantee; print it.
    n_features_in_ : int
        Number of columns of ``X``; with a schema, of those that it describes (``schema.feature_names`` names
        the weights).
    feature_names_in_ : ndarray of str
        Names of the columns, if they have any.
    inference_ : InferenceResult or None
        Result of ``solver="noisy_newton"``, for `conf_int` and `summary`; None after other solvers.

    Notes
    -----
    Guarantee: with a private solver and the default `random_state`, everything that `fit` sets is
    (epsilon, delta)-differentially private with respect to the records, under the assumptions that
    `privacy_` lists.

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
    loss: str | Loss | None

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        threshold: float = 1.0,
        loss: str | Loss | None = None,
        solver: str = "auto",
        l2: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        row_norm: float | None = None,
        schema: Schema | None = None,
        additive: bool = False,
        target_bound: float | None = None,
        neighbors: str | None = None,
        calibration: str = "tight",
        learn_scales: bool | str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
        non_finite: str = "raise",
        weight_bound: float | None = None,
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
        if (given := self._given_loss()) is not None:
            chosen: Loss = replace(given, target_bound=target_bound)  # type: ignore[type-var]
            return chosen
        if self.threshold == math.inf:
            return SquaredError(target_bound)
        return Huber(self.threshold, target_bound=target_bound)

    def _given_loss(self) -> Loss | None:
        if self.loss is None:
            return None
        loss = get_loss(self.loss)
        if not loss.of_residual or not is_dataclass(loss):
            raise ValueError(
                f"loss must be a loss of residuals, such as 'absolute' or Power(1.5), or None, got {loss!r}"
            )
        return loss

    def _public_target_bound(self) -> float:
        """The estimator's, or that of the loss if it has one."""
        loss = self._given_loss()
        if loss is None or loss.target_bound == math.inf:
            return super()._public_target_bound()
        if self.target_bound not in (None, loss.target_bound):
            raise ValueError(
                f"target_bound={self.target_bound!r} differs from that of the loss, {loss.target_bound!r}: "
                "give one of them"
            )
        return loss.target_bound


class QuantileRegressor(PrivateLinearRegressor):
    """Linear quantile regression with a differential privacy guarantee that holds for the program.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one call of `fit`, greater than 0; infinite means no privacy.
    delta : float, default=1e-6
        Less than 1; choose it well below one over the number of records. 0 requires a pure guarantee, which
        some solvers have.
    quantile : float, default=0.5
        The share of targets below the prediction, strictly between 0 and 1.
    curvature : float, default=inf
        Infinite for the pinball loss itself. A finite curvature, in the inverse unit of the targets, smooths
        the kink, for solvers that need a smooth loss; it raises the loss by at most ``1 / (8 curvature)``.
    solver : str, default="auto"
        "auto", or the name of an algorithm in :mod:`dperm.algorithms` that supports the loss. "auto" chooses
        by public numbers only, see :func:`dperm.estimators.solvers.choose_solver`.
    l2 : float, default=0.0
        Ridge strength on the scale of the mean loss.
    fit_intercept : bool, default=True
        Whether to fit an intercept (an implicit column of ones, part of the row norm).
    penalize_intercept : bool, default=False
        Whether the ridge term includes the intercept; some solvers need that.
    row_norm : float, optional
        Public bound on the Euclidean norm of a row, intercept included. Longer rows are scaled down to it, in
        training and prediction alike. Choose it from what is known about the columns, not from the data.
        Default: the schema's bound; without a schema 1.0, with a DefaultBoundWarning.
    schema : Schema, optional
        Public description of the table. With it, ``X`` is a data frame of raw records, here and in
        prediction, each of which is encoded independently of the others (or a `TabularMatrix` that is already
        encoded).
    additive : bool, default=False
        Whether numeric columns get curves in place of straight lines: smooth functions of the value, whose
        bins are learned first, from a part of the budget. How many follows from public numbers; with little
        data or budget none. Needs a `schema`.
    target_bound : float, optional
        Public bound on ``|y|``, in the unit of the targets, which are clipped to it. Choose it from what is
        known about the targets, not from the data. Default: that of the schema's label. Required without one,
        unless `epsilon` is infinite.
    neighbors : {"add_or_remove", "replace_one"}, optional
        What the guarantee protects: the presence of a record, or its content. By default the ledger's
        relation, or "add_or_remove" without a ledger.
    calibration : {"tight", "paper"}, default="tight"
        "paper" uses the noise that the algorithm's authors published.
    learn_scales : {"auto", True, False}, default="auto"
        Whether to spend part of the budget on the scales of the columns first. "auto" leaves it to the
        default solver, see :func:`dperm.algorithms.whitened_gd`; others learn scales if True is given and
        they can, see :func:`dperm.algorithms.noisy_gd`.
    solver_options : dict, optional
        Further keyword arguments of the solver, see :mod:`dperm.algorithms`.
    ledger : PrivacyLedger, optional
        Shared budget, charged before each fit starts.
    n_threads : int, optional
        Number of threads for a pass over the data; the result does not depend on it.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographic noise. Anything else makes the run reproducible, for tests: the guarantee
        does not hold against anyone who knows the seed, and noise of equal seeds cancels between two models.
        A ledger refuses seeds.
    non_finite : {"raise", "zero"}, default="raise"
        Whether a record with NaN or infinity is an error or contributes zero.
    weight_bound : float, optional
        Public bound on the `sample_weight` of `fit`, chosen without looking at the weights. Default: 1.0,
        with a DefaultBoundWarning where there are weights.
    n_public : int, optional
        Public number of records, which sums are divided by; it may be rounded. By default the exact number,
        which is thereby published: under add_or_remove with an ExactSizeWarning, and refused for a part of a
        split ledger, whose number of records is secret (`LedgerPart.n_public`).
    verbose : int, default=0
        If not 0, show the steps and the time left on standard error, see :func:`dperm.progress`.

    Attributes
    ----------
    coef_ : (n_features,) ndarray
    intercept_ : float
    n_iter_ : int
        Number of iterations of the solver.
    privacy_ : PrivacyStatement
        The guarantee; print it.
    n_features_in_ : int
        Number of columns of ``X``; with a schema, of those that it describes (``schema.feature_names`` names
        the weights).
    feature_names_in_ : ndarray of str
        Names of the columns, if they have any.

    Notes
    -----
    Guarantee: with a private solver and the default `random_state`, everything that `fit` sets is
    (epsilon, delta)-differentially private with respect to the records, under the assumptions that
    `privacy_` lists.

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
        additive: bool = False,
        target_bound: float | None = None,
        neighbors: str | None = None,
        calibration: str = "tight",
        learn_scales: bool | str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
        non_finite: str = "raise",
        weight_bound: float | None = None,
        n_public: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _loss(self, target_bound: float) -> Pinball:
        return Pinball(self.quantile, target_bound, curvature=self.curvature)
