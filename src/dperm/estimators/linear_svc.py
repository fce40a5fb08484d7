"""Private linear support vector classification as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.data.files.record_files import RecordFiles
from dperm.data.schema.schema import Schema
from dperm.estimators.dask_input import ScoredByBlocks, by_blocks
from dperm.estimators.input_checks import binary_classes, class_codes, is_private, labels_of, with_targets
from dperm.estimators.linear_model import PrivateLinearModel
from dperm.losses import Hinge, Loss, SoftMargin, SquaredHinge
from dperm.mechanisms.random_source import RandomState

_LOSSES: dict[str, type[Loss]] = {"hinge": Hinge, "squared_hinge": SquaredHinge, "soft_margin": SoftMargin}


class LinearSVC(ScoredByBlocks, ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear support vector classification with a differential privacy guarantee that holds for the program.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one call of `fit`, greater than 0; infinite means no privacy.
    delta : float, default=1e-6
        Below 1; choose it well below one over the number of records. 0 asks for a pure guarantee, which
        some solvers have.
    loss : {"hinge", "squared_hinge", "soft_margin"} or Loss, default="hinge"
        With ``g = max(0, 1 - margin)``: ``g``, ``g^2 / 2`` or ``g^1.5``; or a classification loss of
        :mod:`dperm.losses`, such as ``SoftMargin(1.2)`` or ``huberized_hinge(0.5)``.
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
    classes : sequence of two labels, optional
        The public labels, negative first. When not given they are read from the data, with a
        PrivacyWarning.
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
    coef_ : (1, n_features) ndarray
    intercept_ : (1,) ndarray
    classes_ : (2,) ndarray
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

    The mean loss plus ``l2/2 ||w||^2`` is minimised. scikit-learn's ``C`` is ``1 / (l2 * n)`` with "hinge",
    and ``1 / (2 l2 n)`` with "squared_hinge", which it does not halve.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(epsilon=8.0, delta=1e-5, row_norm=5.6, classes=[0, 1], random_state=0)
    >>> model.fit(minmax_scale(X), y).score(minmax_scale(X), y) > 0.8
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str | Loss = "hinge",
        solver: str = "auto",
        l2: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        row_norm: float | None = None,
        schema: Schema | None = None,
        classes: Sequence[Any] | None = None,
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
        self.loss = loss
        self.classes = classes

    def fit(
        self, X: ArrayLike | RecordFiles, y: ArrayLike | None = None, counts: ArrayLike | None = None
    ) -> Self:
        """Fit to records ``X`` with labels ``y``.

        Parameters
        ----------
        X : (n_samples, n_features) array_like, TabularMatrix, RecordFiles, or data frame with a `schema`
            float32 or float64 in C order is read in place. Files hold the labels, too.
        y : (n_samples,) array_like, or None with files
            Two different labels.
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
        loss = self._loss()
        X, y = self._check_fit(X, y)
        labels = labels_of(X, y)
        self.classes_ = binary_classes(labels, self.classes, private=is_private(self.epsilon, self.solver))
        result = self._minimise(loss, *with_targets(X, y, self._targets), counts)
        n_columns = len(result.coef) - self.fit_intercept
        self.coef_ = result.coef[None, :n_columns]
        self.intercept_ = result.coef[n_columns:] if self.fit_intercept else np.zeros(1)
        return self

    def _targets(self, y: ArrayLike) -> NDArray[np.float64]:
        """Labels as -1 and +1."""
        return 2.0 * class_codes(y, self.classes_) - 1.0

    @by_blocks
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Margin towards the positive class, shape ``(n_samples,)``; rows are scaled as in training."""
        check_is_fitted(self)
        return self._scaled_products(X, self.coef_[0], self.intercept_[0])

    @by_blocks
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Label of each row, shape ``(n_samples,)``."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(np.intp)]

    def _loss(self) -> Loss:
        if isinstance(self.loss, Loss) and self.loss.classification:
            return self.loss
        if not isinstance(self.loss, str) or self.loss not in _LOSSES:
            raise ValueError(
                f"loss must be one of {sorted(_LOSSES)} or a classification Loss, got {self.loss!r}"
            )
        return _LOSSES[self.loss]()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
