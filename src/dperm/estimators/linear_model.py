"""What the estimators of linear models share: checks, the objective, the run, prediction."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.algorithms.fit_result import FitResult
from dperm.data.dask.collections import is_dask_collection
from dperm.data.files.record_files import RecordFiles
from dperm.data.schema.schema import Schema
from dperm.estimators.dask_input import ScoredByBlocks, by_blocks
from dperm.estimators.design import prediction_blocks, public_row_norm, schema_facts, training_data
from dperm.estimators.input_checks import check_epsilon_delta, is_private, row_scales
from dperm.estimators.solvers import check_solver, run_solver
from dperm.losses import Loss
from dperm.mechanisms.random_source import RandomState
from dperm.objective.objective import Objective


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """The common keywords, and fitting weights that minimise the mean of a loss.

    A subclass names its parameters in its own ``__init__``, as scikit-learn wants them, and sets the
    fitted attributes.
    """

    n_features_in_: int
    coef_: NDArray[np.float64]
    intercept_: Any

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        solver: str = "auto",
        l2: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        row_norm: float | None = None,
        schema: Schema | None = None,
        neighbors: str = "add_or_remove",
        calibration: str = "tight",
        solver_options: Mapping[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
        non_finite: str = "raise",
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.solver = solver
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.row_norm = row_norm
        self.schema = schema
        self.neighbors = neighbors
        self.calibration = calibration
        self.solver_options = solver_options
        self.ledger = ledger
        self.n_threads = n_threads
        self.random_state = random_state
        self.non_finite = non_finite
        self.verbose = verbose

    def _check_fit(self, X: Any, y: Any, *, y_numeric: bool = False) -> tuple[Any, Any]:
        """The settings and the shapes checked; the data as arrays."""
        check_epsilon_delta(self.epsilon, self.delta)
        check_solver(self.solver)
        return training_data(self, X, y, y_numeric=y_numeric)

    def _minimise(self, loss: str | Loss, X: Any, targets: Any, counts: ArrayLike | None) -> FitResult:
        """Weights that minimise the mean loss, from the solver; sets `n_iter_` and `privacy_`."""
        objective = Objective(
            loss,
            X,
            targets,
            l2=self.l2,
            row_norm=self._row_norm(),
            fit_intercept=self.fit_intercept,
            penalize_intercept=self.penalize_intercept,
            n_threads=self.n_threads,
            non_finite=self.non_finite,
            counts=counts,
        )
        result = run_solver(
            self.solver,
            objective,
            self.epsilon,
            self.delta,
            common={
                "neighbors": self.neighbors,
                "calibration": self.calibration,
                "ledger": self.ledger,
                "random_state": self.random_state,
            },
            options=self.solver_options,
            verbose=self.verbose,
        )
        self.n_iter_ = result.n_iter
        public = {**result.privacy.public, **schema_facts(self.schema)}
        self.privacy_ = replace(result.privacy, public=public)
        return result

    def _scaled_products(
        self, X: ArrayLike, coef: NDArray[np.float64], intercept: Any
    ) -> NDArray[np.float64]:
        """``X coef + intercept`` with rows scaled as in training: ``(n_samples,)`` or ``(n_samples, K)``."""
        check_is_fitted(self)
        products = [
            self._scaled_block(rows, coef, intercept) for rows in prediction_blocks(self, X, len(coef))
        ]
        return products[0] if len(products) == 1 else np.concatenate(products)

    def _scaled_block(self, rows: Any, coef: NDArray[np.float64], intercept: Any) -> NDArray[np.float64]:
        products = np.asarray(rows @ coef + intercept, dtype=np.float64)
        scales = row_scales(rows, self._row_norm(), self.fit_intercept)
        return products * scales.reshape(-1, *[1] * (products.ndim - 1))

    def _row_norm(self) -> float:
        return public_row_norm(self.row_norm, self.schema, self.fit_intercept)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None and self.solver != "nonprivate"
        return tags


class PrivateLinearRegressor(ScoredByBlocks, RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear regressor: a subclass says which loss, given the bound on the targets."""

    target_bound: float | None

    @abstractmethod
    def _loss(self, target_bound: float) -> Loss:
        """The loss, for targets in ``[-target_bound, target_bound]``."""

    def fit(
        self, X: ArrayLike | RecordFiles, y: ArrayLike | None = None, counts: ArrayLike | None = None
    ) -> Self:
        """Fit to records ``X`` with targets ``y``.

        Parameters
        ----------
        X : (n_samples, n_features) array_like, TabularMatrix, RecordFiles, or data frame with a `schema`
            float32 or float64 in C order is read in place. Files hold the targets, too.
        y : (n_samples,) array_like, or None with files
            Real numbers, moved onto `target_bound` where beyond.
        counts : (n_samples,) array_like of int, optional
            How many identical records each row stands for, as :func:`dperm.data.aggregate` returns them;
            not for files or Dask collections. Neighbouring data differ in one record, not in one row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an argument or data that cannot be used. Nothing is charged.
        BudgetExceededError
            When the ledger cannot afford the fit. Nothing is charged.
        """
        X, y = self._check_records(X, y)
        result = self._minimise(self._loss(self._public_target_bound()), X, y, counts)
        n_columns = len(result.coef) - self.fit_intercept
        self.coef_ = result.coef[:n_columns]
        self.intercept_ = float(result.coef[-1]) if self.fit_intercept else 0.0
        return self

    @by_blocks
    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Prediction for each row, shape ``(n_samples,)``; rows are scaled as in training."""
        check_is_fitted(self)
        return self._scaled_products(X, self.coef_, self.intercept_)

    def _check_records(self, X: Any, y: Any) -> tuple[Any, Any]:
        if self.non_finite != "zero" or isinstance(X, RecordFiles) or is_dask_collection(X):
            return self._check_fit(X, y, y_numeric=True)
        targets = column_or_1d(y, dtype=np.float64)  # those that are not finite will count for nothing
        X, _ = self._check_fit(X, np.where(np.isfinite(targets), targets, 0.0), y_numeric=True)
        return X, targets

    def _public_target_bound(self) -> float:
        if self.target_bound is not None:
            return self.target_bound
        if is_private(self.epsilon, self.solver):
            raise ValueError(
                "target_bound must be given: a public bound on |y|, in the unit of y, chosen from what is "
                "known of the targets and not from the data; targets beyond it are moved onto it"
            )
        return math.inf

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = is_private(self.epsilon, self.solver)
        return tags
