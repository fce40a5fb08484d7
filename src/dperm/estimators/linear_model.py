"""What the estimators of linear models share: checks, the objective, the run, prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from dperm.accounting.ledger import PrivacyLedger
from dperm.algorithms.fit_result import FitResult
from dperm.estimators.input_checks import check_epsilon_delta, row_scales
from dperm.estimators.solvers import check_solver, run_solver
from dperm.losses import Loss
from dperm.mechanisms.random_source import RandomState
from dperm.objective import Objective


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
        row_norm: float = 1.0,
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
        self.row_norm = row_norm
        self.neighbors = neighbors
        self.calibration = calibration
        self.solver_options = solver_options
        self.ledger = ledger
        self.n_threads = n_threads
        self.random_state = random_state
        self.non_finite = non_finite
        self.verbose = verbose

    def _check_fit(self, X: ArrayLike, y: ArrayLike, *, y_numeric: bool = False) -> tuple[Any, Any]:
        """The settings and the shapes checked; the data as arrays."""
        check_epsilon_delta(self.epsilon, self.delta)
        check_solver(self.solver)
        X, y = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            multi_output=False,
            y_numeric=y_numeric,
        )
        return X, y

    def _minimise(self, loss: str | Loss, X: Any, targets: Any) -> FitResult:
        """Weights that minimise the mean loss, from the solver; sets `n_iter_` and `privacy_`."""
        objective = Objective(
            loss,
            X,
            targets,
            l2=self.l2,
            row_norm=self.row_norm,
            fit_intercept=self.fit_intercept,
            n_threads=self.n_threads,
            non_finite=self.non_finite,
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
        self.privacy_ = result.privacy
        return result

    def _scaled_products(
        self, X: ArrayLike, coef: NDArray[np.float64], intercept: Any
    ) -> NDArray[np.float64]:
        """``X coef + intercept`` with rows scaled as in training: ``(n_samples,)`` or ``(n_samples, K)``."""
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))
        products = np.asarray(X @ coef + intercept, dtype=np.float64)
        scales = row_scales(X, self.row_norm, self.fit_intercept)
        return products * scales.reshape(-1, *[1] * (products.ndim - 1))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None and self.solver != "nonprivate"
        return tags
