"""Private robust regression as a scikit-learn regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.data.schema.schema import Schema
from dperm.estimators.linear_model import PrivateLinearRegressor
from dperm.losses import Huber, Loss, SquaredError
from dperm.mechanisms.random_source import RandomState


class HuberRegressor(PrivateLinearRegressor):
    """Robust linear regression with a differential privacy guarantee that holds for the program.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one call of `fit`, greater than 0; infinite means no privacy.
    delta : float, default=1e-6
        Below 1; choose it well below one over the number of records. 0 asks for a pure guarantee, which
        some solvers have.
    threshold : float, default=1.0
        Residuals up to it, in the unit of the targets, count as half their square; longer ones linearly.
        Infinite for the squared error: ridge regression. Its slope has no limit, so that solvers clip
        gradients, or say what they need; ``solver="sufficient_statistics"`` is for it alone.
    loss : Loss, optional
        A regression loss of :mod:`dperm.losses` in place of Huber's, such as ``Welsch()``, ``Tukey()``,
        ``Power(1.5)`` or ``EpsilonInsensitive(0.1)``, with `target_bound` as its own; `threshold` then says
        nothing.
    solver : str, default="auto"
        "auto", or the name of an algorithm in :mod:`dperm.algorithms` that serves the loss. "auto" looks at
        public numbers only, see :func:`dperm.estimators.solvers.choose_solver`.
    l2 : float, default=0.0
        Ridge strength on the scale of the mean loss.
    fit_intercept : bool, default=True
        Whether to fit an intercept (an implicit column of ones, part of the row norm).
    penalize_intercept : bool, default=False
        Whether the ridge term covers the intercept; some solvers need that.
    row_norm : float, optional
        Public bound on the norm of a row, intercept included. Longer rows are scaled onto it, in
        training and in prediction alike. Choose it from what is known of the columns, not from the data.
        Default: the schema's bound, or 1.0 without a schema.
    schema : Schema, optional
        Public description of the table. With it, ``X`` is a data frame of records as they are, here and in
        prediction, and every record is encoded by itself (or a `TabularMatrix` that it was encoded into).
    target_bound : float, optional
        Public bound on ``|y|``, in the unit of the targets; a target beyond it is moved onto it. Choose it
        from what is known of the targets, not from the data. Required unless `epsilon` is infinite.
    neighbors : {"add_or_remove", "replace_one"}, default="add_or_remove"
        What the guarantee protects: presence of a record, or its content.
    calibration : {"tight", "paper"}, default="tight"
        "paper" uses the noise that the algorithm's authors published.
    solver_options : dict, optional
        Further keyword arguments of the solver, see :mod:`dperm.algorithms`.
    ledger : PrivacyLedger, optional
        Shared budget; each fit is charged to it before it starts.
    n_threads : int, optional
        Threads of a pass over the data; the result does not depend on it.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographic noise. Anything else makes the run reproducible, and then the guarantee
        does not hold against whoever knows the seed.
    non_finite : {"raise", "zero"}, default="raise"
        A record with NaN or infinity is an error, or counts for nothing.
    verbose : int, default=0
        Print progress (released values only) to standard error.

    Attributes
    ----------
    coef_ : (n_features,) ndarray
    intercept_ : float
    n_iter_ : int
        Iterations of the solver.
    privacy_ : PrivacyStatement
        What was guaranteed; print it.
    n_features_in_ : int
        Columns of ``X``; those that the schema describes, if there is one (``schema.feature_names`` names
        the weights).
    feature_names_in_ : ndarray of str
        Their names, where they have any.

    Notes
    -----
    Guarantee: with a private solver and the default `random_state`, everything that `fit` sets is
    (epsilon, delta)-differentially private with respect to the records, under the assumptions that
    `privacy_` lists.

    The mean loss plus ``l2/2 ||w||^2`` is minimised. scikit-learn's estimator of that name fits a scale
    as well; given its ``scale_``, the weights are those of ``threshold = epsilon * scale_`` and
    ``l2 = 2 alpha * scale_ / n``...

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [2.0, -1.0] + 0.5
    >>> model = HuberRegressor(row_norm=1.3, target_bound=2.0, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

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
        neighbors: str = "add_or_remove",
        calibration: str = "tight",
        solver_options: Mapping[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
        non_finite: str = "raise",
        verbose: int = 0,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            solver=solver,
            l2=l2,
            fit_intercept=fit_intercept,
            penalize_intercept=penalize_intercept,
            row_norm=row_norm,
            schema=schema,
            neighbors=neighbors,
            calibration=calibration,
            solver_options=solver_options,
            ledger=ledger,
            n_threads=n_threads,
            random_state=random_state,
            non_finite=non_finite,
            verbose=verbose,
        )
        self.threshold = threshold
        self.loss = loss
        self.target_bound = target_bound

    def _loss(self, target_bound: float) -> Loss:
        if self.loss is not None:
            chosen: Loss = replace(self.loss, target_bound=target_bound)  # type: ignore[type-var]
            return chosen
        if self.threshold == math.inf:
            return SquaredError(target_bound)
        return Huber(self.threshold, target_bound=target_bound)

    def _public_target_bound(self) -> float:
        """The estimator's, or that of a loss that comes with one."""
        loss = self.loss
        if loss is None:
            return super()._public_target_bound()
        if not isinstance(loss, Loss) or loss.classification or not is_dataclass(loss):
            raise ValueError(f"loss must be a regression loss of dperm.losses, or None, got {loss!r}")
        if loss.target_bound == math.inf:
            return super()._public_target_bound()
        if self.target_bound not in (None, loss.target_bound):
            raise ValueError(
                f"target_bound={self.target_bound!r} is not that of the loss, {loss.target_bound!r}: "
                "give one of them"
            )
        return loss.target_bound
