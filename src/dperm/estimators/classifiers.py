"""Linear classifiers: logistic regression and support vector machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.utils import Tags

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.data.schema.schema import Schema
from dperm.estimators.dask_input import by_blocks
from dperm.estimators.linear_model import PrivateLinearClassifier
from dperm.estimators.standard_errors import WithStandardErrors
from dperm.losses import Loss, Softmax, get_loss
from dperm.mechanisms.random_source import RandomState


class LogisticRegression(WithStandardErrors, PrivateLinearClassifier):
    """Logistic regression with a differential privacy guarantee that holds for the program.

    With more than two classes it is multinomial: the softmax loss with one weight vector per class, which
    fewer solvers support.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one call of `fit`, greater than 0; infinite means no privacy.
    delta : float, default=1e-6
        Less than 1; choose it well below one over the number of records. 0 requires a pure guarantee, which
        some solvers have.
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
    classes : sequence of two or more labels, optional
        The public labels. Default: those of the schema's label, else those in the data, with a
        PrivacyWarning. Of two, the second is the positive one, for precision, recall and curves of
        :func:`dperm.metrics.evaluate`.
    class_weight : dict or "private", optional
        Public positive weights of the labels, which multiply the losses of their records; 1 for a label that
        is not in it. "private": weights inverse to noisy class frequencies, which take a small part of the
        budget.
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
    coef_ : (1, n_features) or (n_classes, n_features) ndarray
        One row for two classes, which speaks for ``classes_[1]``; otherwise one per class.
    intercept_ : (1,) or (n_classes,) ndarray
    classes_ : (n_classes,) ndarray
        Labels in ascending order, which is that of probabilities.
    pos_label_ : label or None
        Of two labels, the positive one: the second of `classes`.
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

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(epsilon=8.0, delta=1e-5, row_norm=5.6, classes=[0, 1], random_state=0)
    >>> model.fit(minmax_scale(X), y).score(minmax_scale(X), y) > 0.8
    True
    """

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
        additive: bool = False,
        classes: Sequence[Any] | None = None,
        neighbors: str | None = None,
        calibration: str = "tight",
        learn_scales: bool | str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
        non_finite: str = "raise",
        class_weight: Mapping[Any, float] | str | None = None,
        weight_bound: float | None = None,
        n_public: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _loss(self) -> Loss:
        return get_loss("logistic") if len(self.classes_) == 2 else Softmax(len(self.classes_))

    @by_blocks
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probability of each class, shape ``(n_samples, n_classes)``.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
        >>> model = LogisticRegression(row_norm=1.3, classes=[-1, 1], random_state=0).fit(X, np.sign(X[:, 0]))
        >>> probabilities = model.predict_proba([[0.5, 0.0], [-0.5, 0.0]])
        >>> probabilities[:, 1] > 0.5, probabilities.sum(axis=1)
        (array([ True, False]), array([1., 1.]))
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.asarray(softmax(scores, axis=1))

    @by_blocks
    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithm of `predict_proba`, computed without underflow.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
        >>> model = LogisticRegression(row_norm=1.3, classes=[-1, 1], random_state=0).fit(X, np.sign(X[:, 0]))
        >>> np.exp(model.predict_log_proba([[0.5, 0.0]])).sum(axis=1).round(6)
        array([1.])
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return np.asarray(log_softmax(scores, axis=1))


class LinearSVC(PrivateLinearClassifier):
    """Linear support vector classification with a differential privacy guarantee that holds for the program.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one call of `fit`, greater than 0; infinite means no privacy.
    delta : float, default=1e-6
        Less than 1; choose it well below one over the number of records. 0 requires a pure guarantee, which
        some solvers have.
    loss : str or Loss, default="squared_hinge"
        A loss of margins: "squared_hinge", "hinge" or "soft_margin", with ``g = max(0, 1 - margin)``: ``g^2 /
        2``, ``g`` or ``g^1.5``; or another one of :mod:`dperm.losses`, by name or as an instance, such as
        ``SoftMargin(1.2)`` or ``huberized_hinge(0.5)``.
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
    classes : sequence of two labels, optional
        The public labels. Default: those of the schema's label, else those in the data, with a
        PrivacyWarning. The second is the positive one, for precision, recall and curves of
        :func:`dperm.metrics.evaluate`.
    class_weight : dict or "private", optional
        Public positive weights of the labels, which multiply the losses of their records; 1 for a label that
        is not in it. "private": weights inverse to noisy class frequencies, which take a small part of the
        budget.
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
    coef_ : (1, n_features) ndarray
        Speaks for ``classes_[1]``.
    intercept_ : (1,) ndarray
    classes_ : (2,) ndarray
        Labels in ascending order.
    pos_label_ : label
        The positive label: the second of `classes`.
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

    The objective is the mean loss plus ``l2/2 ||w||^2``. scikit-learn's ``C`` is ``1 / (l2 n)`` with "hinge",
    and ``1 / (2 l2 n)`` with "squared_hinge", which scikit-learn does not halve.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(epsilon=8.0, delta=1e-5, row_norm=5.6, classes=[0, 1], random_state=0)
    >>> model.fit(minmax_scale(X), y).score(minmax_scale(X), y) > 0.8
    True
    """

    loss: str | Loss
    _max_classes = 2

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str | Loss = "squared_hinge",
        solver: str = "auto",
        l2: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        row_norm: float | None = None,
        schema: Schema | None = None,
        additive: bool = False,
        classes: Sequence[Any] | None = None,
        neighbors: str | None = None,
        calibration: str = "tight",
        learn_scales: bool | str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
        non_finite: str = "raise",
        class_weight: Mapping[Any, float] | str | None = None,
        weight_bound: float | None = None,
        n_public: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _loss(self) -> Loss:
        loss = get_loss(self.loss)
        if not loss.classification or loss.n_classes is not None:
            raise ValueError(
                f"loss must be a loss of margins, such as 'hinge' or SoftMargin(1.2), got {self.loss!r}"
            )
        return loss

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
