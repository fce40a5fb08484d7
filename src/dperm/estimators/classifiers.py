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
from dperm.estimators.shared_text import with_shared_text
from dperm.estimators.standard_errors import WithStandardErrors
from dperm.losses import Hinge, Loss, SoftMargin, Softmax, SquaredHinge, get_loss
from dperm.mechanisms.random_source import RandomState


@with_shared_text
class LogisticRegression(WithStandardErrors, PrivateLinearClassifier):
    """Logistic regression with a differential privacy guarantee that holds for the program.

    With more than two classes it is multinomial: the softmax loss with one weight vector per class, which
    fewer solvers support.

    Parameters
    ----------
    $budget
    $model
    classes : sequence of two or more labels, optional
        The public labels; of two, the negative first. By default they are read from the data, with a
        PrivacyWarning.
    $class_weight
    $run

    Attributes
    ----------
    coef_ : (1, n_features) or (n_classes, n_features) ndarray
        One row for two classes, otherwise one per class.
    intercept_ : (1,) or (n_classes,) ndarray
    classes_ : (n_classes,) ndarray
    $fitted
    inference_ : InferenceResult or None
        Result of ``solver="noisy_newton"``, for `conf_int` and `summary`; None after other solvers.

    Notes
    -----
    $guarantee

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
        weight_bound: float = 1.0,
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


_LOSSES: dict[str, type[Loss]] = {"hinge": Hinge, "squared_hinge": SquaredHinge, "soft_margin": SoftMargin}


@with_shared_text
class LinearSVC(PrivateLinearClassifier):
    """Linear support vector classification with a differential privacy guarantee that holds for the program.

    Parameters
    ----------
    $budget
    loss : {"squared_hinge", "hinge", "soft_margin"} or Loss, default="squared_hinge"
        With ``g = max(0, 1 - margin)``: ``g^2 / 2``, ``g`` or ``g^1.5``; or a classification loss of
        :mod:`dperm.losses`, such as ``SoftMargin(1.2)`` or ``huberized_hinge(0.5)``.
    $model
    classes : sequence of two labels, optional
        The public labels, negative first. By default they are read from the data, with a PrivacyWarning.
    $class_weight
    $run

    Attributes
    ----------
    coef_ : (1, n_features) ndarray
    intercept_ : (1,) ndarray
    classes_ : (2,) ndarray
    $fitted

    Notes
    -----
    $guarantee

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
        weight_bound: float = 1.0,
        n_public: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

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
