"""Base classes of the estimators: from the data to an objective, the fit, prediction."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.accounting.ledger.terms import relation_of
from dperm.algorithms.fit import FitResult
from dperm.data.dense import row_products
from dperm.data.files.record_files import RecordFiles
from dperm.data.schema.schema import Schema
from dperm.estimators.additive import solve_additive
from dperm.estimators.dask_input import ScoredByBlocks, by_blocks
from dperm.estimators.design import (
    FittedDesign,
    learned_exactly,
    prediction_blocks,
    public_row_norm,
    schema_facts,
    training_data,
)
from dperm.estimators.effects import importances_of
from dperm.estimators.input_checks import (
    check_epsilon_delta,
    check_kinds,
    check_names,
    class_codes,
    class_labels,
    is_private,
    labelled,
    labels_of,
    missing_labels_named,
    row_scales,
    warn_of_default_bounds,
    warn_of_exact_number,
    warn_of_large_delta,
    warn_of_learned,
    with_targets,
)
from dperm.estimators.mixins import PrivacyDiagram, StoredWithoutLedger
from dperm.estimators.monotone import monotone_facts, monotone_weights
from dperm.estimators.sklearn_searches import check_seeds, warn_of_search
from dperm.estimators.solvers import Call, check_solver, solver_call
from dperm.estimators.standard_errors import WithCoefficients
from dperm.estimators.storage.onnx_graph import to_onnx
from dperm.estimators.storage.saving import save_model
from dperm.losses import Loss
from dperm.mechanisms.random_source import RandomState
from dperm.objective.objective import Objective
from dperm.statement.privacy_statement import PrivacyStatement


class PrivateLinearModel(WithCoefficients, PrivacyDiagram, StoredWithoutLedger, BaseEstimator):  # type: ignore[misc]
    """A linear model that minimises a mean loss with a privacy guarantee.

    A subclass lists its parameters in its own ``__init__``, as scikit-learn expects, and chooses the loss.
    """

    epsilon: float
    delta: float
    solver: str
    l2: float
    fit_intercept: bool
    penalize_intercept: bool
    row_norm: float | None
    schema: Schema | None
    additive: bool
    neighbors: str | None
    calibration: str
    learn_scales: bool | str
    solver_options: Mapping[str, Any] | None
    ledger: PrivacyLedger | None
    n_threads: int | None
    random_state: RandomState
    non_finite: str
    weight_bound: float | None
    n_public: int | None
    verbose: int

    n_features_in_: int
    coef_: NDArray[np.float64]
    intercept_: Any
    privacy_: PrivacyStatement
    _design: FittedDesign
    _encoding: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse parameters of scikit-learn that have another name here, and say which."""
        check_names(cls.__name__, cls._get_param_names(), kwargs)
        made: Self = super().__new__(cls)
        return made

    def _keep(self, arguments: Mapping[str, Any]) -> None:
        """Set the arguments of ``__init__``, its ``locals()``, as they are: `fit` checks them."""
        for name, value in arguments.items():
            if name != "self":
                setattr(self, name, value)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, like scikit-learn's; those that have another name here are refused with that name.

        Examples
        --------
        >>> import dperm
        >>> dperm.LinearSVC().set_params(l2=0.1).l2
        0.1
        """
        check_names(type(self).__name__, self._get_param_names(), params)
        changed: Self = super().set_params(**params)
        return changed

    @abstractmethod
    def _problem(self, X: Any, y: Any) -> tuple[Loss, Any, Any]:
        """The loss, and validated records and targets as an objective takes them."""

    @abstractmethod
    def _set_weights(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> None:
        """Set ``coef_`` and ``intercept_`` from the weights, a row per feature, and the intercept's row."""

    def fit(
        self,
        X: ArrayLike | RecordFiles,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        counts: ArrayLike | None = None,
        drop_missing_labels: bool = False,
    ) -> Self:
        """Fit the model to records ``X`` with labels or real targets ``y``.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features), TabularMatrix, RecordFiles, or frame with a `schema`
            float32 or float64 arrays in C order are read in place. Files hold the targets as well.
        y : (n_samples,) array_like, or None with files
            Labels for a classifier. Real numbers for a regressor, clipped at `target_bound`.
        sample_weight : (n_samples,) array_like, optional
            Factor on the loss of each record, applied before gradients are clipped; not for files or Dask
            collections. Private, like the record: weights are silently clipped to ``[0, weight_bound]``, and
            NaN counts as 0. The empirical risk is the weighted sum divided by the public number of records,
            not by the sum of the weights.
        counts : (n_samples,) array_like of int, optional
            How many records each row stands for, as :func:`dperm.data.aggregate` returns it; not for files or
            Dask collections. Neighbouring data differ in one record, not in one row: somebody's row with a
            count of 300 is protected like 300 records.
        drop_missing_labels : bool, default=False
            Leave out records without a label. Each is decided by itself, so that costs no privacy.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For invalid arguments or data. Nothing is charged.
        BudgetExceededError
            If the ledger cannot afford the fit. Nothing is charged.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
        >>> ledger = dperm.accounting.Ledger(epsilon=3.0, delta=1e-6)
        >>> model = dperm.LinearSVC(row_norm=1.3, classes=[0, 1], ledger=ledger).fit(X, X[:, 0] > 0)
        >>> model.coef_.shape, model.privacy_.epsilon, ledger.spent
        ((1, 2), 1.0, 1.0)
        """
        fitted = self._unfitted()
        if drop_missing_labels:
            relation = relation_of(self.neighbors, self.ledger)
            X, y, counts, sample_weight = labelled(relation, X, y, counts, sample_weight)
        if self.additive:
            solve_additive(fitted, X, y, counts, sample_weight)
        else:
            fitted._solve(fitted._objective(X, y, counts, sample_weight))
        self.__dict__ = fitted.__dict__  # all at once: a fit that fails leaves the model as it was
        return self

    def _objective(
        self, X: Any, y: Any, counts: ArrayLike | None, sample_weight: ArrayLike | None = None
    ) -> Objective:
        """The validated objective of `fit`; sets the attributes that depend on `X` and `y` alone."""
        self._check_parameters()
        check_seeds(self)
        with missing_labels_named(y):
            loss, X, targets = self._problem(X, y)
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
            n_public=self.n_public,
            counts=counts,
            weights=sample_weight,
            weight_bound=self._weight_bound(),
            class_weight=self._weights_of_targets(),
        )
        objective.described = schema_facts(self.schema) | monotone_facts(self, loss)
        if self._is_private():
            if self.n_public is None:
                warn_of_exact_number(relation_of(self.neighbors, self.ledger), self.ledger)
            warn_of_large_delta(self.delta, objective.n_public)
            exactly = learned_exactly(self.schema, getattr(X, "schema", None))
            warn_of_learned(exactly.get("learned_exactly", ()))
            objective.described |= exactly
        warn_of_default_bounds(
            row_norm=self.row_norm is None and self.schema is None,
            weight_bound=self.weight_bound is None and sample_weight is not None,
        )
        return objective

    def _check_parameters(self) -> None:
        check_epsilon_delta(self.epsilon, self.delta)
        check_solver(self.solver)
        check_kinds(self.get_params(deep=False))

    def _solve(self, objective: Objective) -> Self:
        return self._take(self._call(objective).run(objective))

    def _call(self, objective: Objective) -> Call:
        return solver_call(
            self.solver,
            objective,
            self.epsilon,
            self.delta,
            common={
                "neighbors": relation_of(self.neighbors, self.ledger),
                "calibration": self.calibration,
                "learn_scales": self.learn_scales,
                "ledger": self.ledger,
                "random_state": self.random_state,
            },
            options=self._options_of_solver(),
            verbose=self.verbose,
        )

    def _take(self, result: FitResult) -> Self:
        """Set the fitted attributes from the result of a solver."""
        norm, with_intercept = float(self._row_norm()), bool(self.fit_intercept)
        self._design = FittedDesign(self.schema, norm, with_intercept, self._encoding)
        coef = monotone_weights(self.schema, result.coef, self.fit_intercept)
        self._importances = importances_of(self.schema, coef, result.moments)
        weights, last = (coef[:-1], coef[-1]) if self.fit_intercept else (coef, np.zeros(coef.shape[1:]))
        self._set_weights(weights, last)
        self._keep_inference(result)
        self.n_iter_ = result.n_iter
        self.privacy_ = replace(result.privacy, public=self._by_label(result.privacy.public))
        return self

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted model as a JSON file that :func:`dperm.load` reads.

        Parameters
        ----------
        path : str or path
            An existing file is replaced atomically, once the new one is complete.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            For a parameter or labels that JSON cannot represent.

        Notes
        -----
        The file holds the weights (bit for bit), labels, schema, statement and parameters, what `summary`
        needs, name and terms of the ledger, but neither what is left of it nor the random state, and a
        checksum. All of it is public, if the statement holds. ``model.schema.json`` in
        ``dperm/estimators/storage`` is the JSON Schema of the format.

        Examples
        --------
        >>> import tempfile
        >>> import dperm
        >>> model = dperm.LinearSVC(row_norm=1.5, classes=["no", "yes"])
        >>> model = model.fit([[0.0], [1.0]] * 50, ["no", "yes"] * 50)
        >>> path = tempfile.mkdtemp() + "/model.json"
        >>> model.save(path)
        >>> dperm.load(path).classes_.tolist()
        ['no', 'yes']
        """
        save_model(self, path)

    def to_onnx(self, dtype: str = "float32") -> Any:
        """The fitted model as an ONNX graph, for use without Python.

        Parameters
        ----------
        dtype : {"float32", "float64"}
            Type of the inputs and outputs; the graph computes in double precision.

        Returns
        -------
        onnx.ModelProto
            ``onnx.save(model.to_onnx(), "model.onnx")`` writes it. Inputs: "X" of shape (n, n_features); or,
            with a schema, a (n, 1) tensor for each column of the table, under its name: numbers of that
            dtype, categories as strings, int64 or bool. Outputs: "label" and "probabilities" for logistic
            regression, "label" and "scores" (of the second label) for `LinearSVC`, "variable" of shape (n, 1)
            for a regressor. The metadata property "privacy" holds the statement.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            For labels, column names, dates or hashed texts, which ONNX cannot represent.

        Notes
        -----
        Rows are encoded and scaled as in training. The graph returns NaN for values that the schema refuses;
        a string that is not a category counts as unknown, never as missing.

        Examples
        --------
        >>> import dperm
        >>> import onnx
        >>> model = dperm.LogisticRegression(row_norm=1.5, classes=[0, 1])
        >>> model = model.fit([[0.0], [1.0]] * 50, [0, 1] * 50)
        >>> [each.name for each in model.to_onnx().graph.output]
        ['label', 'probabilities']
        """
        return to_onnx(self, dtype)

    @property
    def schema_(self) -> Schema | None:
        """The schema by which the fit encoded the records: with ``additive=True`` that with learned bins.

        Examples
        --------
        >>> import dperm
        >>> schema = dperm.Schema([dperm.Numeric("age", 0, 100)])
        >>> model = dperm.LogisticRegression(schema=schema, classes=[0, 1], additive=True)
        >>> model.fit({"age": [20, 80] * 500}, [0, 1] * 500).schema_.columns[0].functions > 0
        True
        """
        check_is_fitted(self)
        return self._design.schema

    def _scaled_products(
        self, X: ArrayLike, coef: NDArray[np.float64], intercept: Any
    ) -> NDArray[np.float64]:
        """``X coef + intercept`` with rows scaled as in training: ``(n_samples,)`` or ``(n_samples, K)``."""
        blocks = prediction_blocks(self, X, len(coef))
        products = [self._scaled_block(rows, coef, intercept) for rows in blocks]
        return products[0] if len(products) == 1 else np.concatenate(products)

    def _scaled_block(self, rows: Any, coef: NDArray[np.float64], intercept: Any) -> NDArray[np.float64]:
        products = row_products(rows, coef) if isinstance(rows, np.ndarray) else rows @ coef
        products = np.asarray(products + intercept, dtype=np.float64)
        scales = row_scales(rows, self._design.row_norm, self._design.fit_intercept)
        return products * scales.reshape(-1, *[1] * (products.ndim - 1))

    def _row_norm(self) -> float:
        return public_row_norm(self.row_norm, self.schema, self.fit_intercept)

    def _weight_bound(self) -> float:
        return 1.0 if self.weight_bound is None else self.weight_bound

    def _weights_of_targets(self) -> Mapping[float, float] | str | None:
        """Class weights, by the encoded target."""
        return None

    def _by_label(self, public: Mapping[str, Any]) -> dict[str, Any]:
        """Public facts, with labels in place of encoded targets."""
        return dict(public)

    def _options_of_solver(self) -> Mapping[str, Any] | None:
        """Keyword arguments of the solver."""
        return self.solver_options

    def _keep_inference(self, result: FitResult) -> None:
        """Keep the results of a solver other than the weights."""

    def _is_private(self) -> bool:
        return is_private(self.epsilon, self.solver)

    @classmethod
    @functools.cache  # a search prices and copies each candidate several times
    def _get_param_names(cls) -> list[str]:
        return cast(list[str], super()._get_param_names())

    def __sklearn_clone__(self) -> Self:
        warn_of_search(self)
        return cast(Self, super().__sklearn_clone__())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None and self.solver != "nonprivate"
        return tags


class PrivateLinearClassifier(ScoredByBlocks, ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear classifier: a subclass chooses the loss and the number of classes."""

    classes: Sequence[Any] | None
    classes_: NDArray[Any]
    pos_label_: Any
    class_weight: Mapping[Any, float] | str | None

    _max_classes: int | None = None

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss, for the labels ``classes_`` where it depends on them."""

    def _problem(self, X: Any, y: Any) -> tuple[Loss, Any, Any]:
        X, y = training_data(self, X, y)
        known = self.schema.classes if self.classes is None and self.schema is not None else self.classes
        self.classes_ = class_labels(
            labels_of(X, y), known, private=self._is_private(), max_classes=self._max_classes
        )
        ordered = self.classes_ if known is None else np.asarray(known)
        self.pos_label_ = ordered.tolist()[1] if len(ordered) == 2 else None
        return self._loss(), *with_targets(X, y, self._targets)

    def _targets(self, y: ArrayLike) -> NDArray[np.float64]:
        """Labels as the loss expects them: -1 and +1, or codes."""
        codes = class_codes(y, self.classes_)
        return 2.0 * codes - 1.0 if len(self.classes_) == 2 else codes

    def _weights_of_targets(self) -> Mapping[float, float] | str | None:
        given = self.class_weight
        if given is None or isinstance(given, str):
            return given
        unknown = [label for label in given if label not in self.classes_]
        if unknown:
            raise ValueError(f"class_weight has a weight for {unknown[0]!r}, which is not among the classes")
        targets = self._targets(self.classes_)
        pairs = zip(targets, self.classes_, strict=True)
        return {float(target): given[label] for target, label in pairs if label in given}

    def _by_label(self, public: Mapping[str, Any]) -> dict[str, Any]:
        if "class_weight" not in public:
            return dict(public)
        pairs = zip(self._targets(self.classes_), self.classes_, strict=True)
        named = {str(label): public["class_weight"][f"{target:g}"] for target, label in pairs}
        return {**public, "class_weight": named}

    def _set_weights(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> None:
        self.coef_ = np.ascontiguousarray(np.atleast_2d(coef.T))
        self.intercept_ = np.atleast_1d(intercept)

    @by_blocks
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score of ``classes_[1]``, shape ``(n_samples,)``, or of each class, ``(n_samples, n_classes)``.

        Rows are scaled as in training. For logistic regression the scores are log-odds, or, with more than
        two classes, log-probabilities up to a constant for each row.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
        >>> model = dperm.LinearSVC(row_norm=1.3, classes=[-1, 1], random_state=0).fit(X, np.sign(X[:, 0]))
        >>> model.decision_function([[0.5, 0.0], [-0.5, 0.0]]) > 0
        array([ True, False])
        """
        check_is_fitted(self)
        if len(self.classes_) == 2:
            return self._scaled_products(X, self.coef_[0], self.intercept_[0])
        return self._scaled_products(X, self.coef_.T, self.intercept_)

    @by_blocks
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most likely label of each row, shape ``(n_samples,)``.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
        >>> model = dperm.LogisticRegression(row_norm=1.3, classes=["no", "yes"], random_state=0)
        >>> model.fit(X, np.where(X[:, 0] > 0, "yes", "no")).predict([[0.5, 0.0], [-0.5, 0.0]])
        array(['yes', 'no'], dtype='<U3')
        """
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])
