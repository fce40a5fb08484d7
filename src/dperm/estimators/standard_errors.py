"""Weights of a fitted model by column and category, and their standard errors and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dperm.algorithms.fit import FitResult
from dperm.algorithms.inference import InferenceResult
from dperm.data.schema.columns import Categorical
from dperm.data.schema.interactions import Crossed
from dperm.data.schema.schema import Schema
from dperm.estimators.design import FittedDesign, prediction_blocks
from dperm.estimators.effects import INTERCEPT, effects_of, has_a_level, shape_points


class WithCoefficients:
    """The weights of an estimator, by column and category."""

    coef_: NDArray[np.float64]
    intercept_: Any
    _design: FittedDesign
    _importances: list[float] | None

    def coefficients(self) -> Any:
        """The weights by column and category.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            A row for each weight, the intercept last: "column" of the table, "category" (a level, or the
            interval of a bin; None for a number), and "coefficient", or one column of numbers for each class.
            With a schema, numbers are scaled to [0, 1] by their public bounds: a weight is the effect of the
            whole range.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ImportError
            If neither pandas nor polars is installed.

        Examples
        --------
        >>> import pandas
        >>> import dperm
        >>> schema = dperm.Schema([dperm.Numeric("age", 0, 100), dperm.Categorical("job", ["cook", "clerk"])])
        >>> table = pandas.DataFrame({"age": [20, 40, 60, 80] * 50, "job": ["cook", "clerk"] * 100})
        >>> model = dperm.LogisticRegression(schema=schema, classes=[-1, 1])
        >>> model.fit(table, [-1, -1, 1, 1] * 50).coefficients()[["column", "category"]]
                column category
        0          age      NaN
        1          job     cook
        2          job    clerk
        3  (intercept)      NaN
        """
        return _data_frame(self.coefficient_values())

    def effects(self, reference: Mapping[str, str] | None = None) -> Any:
        """The weights as effects, the largest first: what a change of one column does to the score.

        Parameters
        ----------
        reference : mapping of str to str, optional
            Levels that the others of a column are compared with, by column. By default levels are compared
            with the mean of the listed ones, each counted once.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            "column", "category", and "change": one unit of the column for numbers (the whole public range on
            a logarithmic scale), from the lowest to the highest point of a curve (`Numeric` with functions),
            another level, or a missing value. "effect" of that, or one column for each
            class; for logistic regression with two classes "odds_ratio", ``exp(effect)``; and "over_range",
            the effect of the whole public range, by which the rows are ranked. The intercept is that of a
            record at its references, with numbers at their lower bounds. ``(others)`` are values that count
            as zeros.

        Raises
        ------
        NotFittedError, ImportError
            As for `coefficients`.
        ValueError
            For a reference that is no level of a column.

        Examples
        --------
        >>> import dperm
        >>> schema = dperm.Schema([dperm.Numeric("age", 0, 100), dperm.Categorical("job", ["cook", "clerk"])])
        >>> table = {"age": [20, 40, 60, 80] * 50, "job": ["cook", "clerk"] * 100}
        >>> model = dperm.LogisticRegression(schema=schema, classes=[-1, 1]).fit(table, [-1, -1, 1, 1] * 50)
        >>> sorted(model.effects({"job": "cook"})["change"])
        ['+1', 'from cook', 'from cook', 'numbers at their lower bounds']
        """
        return _data_frame(self.effect_values(reference))

    def effect_values(self, reference: Mapping[str, str] | None = None) -> dict[str, list[Any]]:
        """The columns of `effects` as a dict of lists, without a data frame library."""
        columns, categories, *scores = self.coefficient_values().items()
        weights = np.column_stack([numbers for _, numbers in scores])
        schema = self._design.schema
        rows = effects_of(columns[1], categories[1], weights, schema, reference or {})
        found: dict[str, list[Any]] = {}
        for place, name in enumerate(("column", "category", "change")):
            found[name] = [row[place] for row in rows]
        effects = np.array([row[3] for row in rows])
        if len(scores) > 1:
            return found | dict(zip([name for name, _ in scores], effects.T.tolist(), strict=True))
        found["effect"] = effects[:, 0].tolist()
        if hasattr(self, "predict_proba"):
            found["odds_ratio"] = np.exp(np.minimum(effects[:, 0], 700.0)).tolist()
        return found | {"over_range": [float(row[4][0]) for row in rows]}

    def shapes(self) -> Any:
        """What every column of the schema adds to the score, by its value: the curves of an additive model.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            "column"; "kind": "number" (points between which the curve is a line), "value" (one at which
            records pile up), "missing", "category" or, of an interaction, "pair"; "value", in the unit of the
            column; "other", the value of the second column of an interaction, whose numbers stand for bins
            with this middle; and "score", or one column of numbers for each class. After
            ``solver="noisy_newton"`` also "standard_error", of sampling and noise together, NaN where it is
            refused or a level left out. No privacy is spent: it follows from the weights.

        Raises
        ------
        NotFittedError, ImportError
            As for `coefficients`.
        ValueError
            Without a schema.

        Examples
        --------
        >>> import dperm
        >>> schema = dperm.Schema([dperm.Numeric("age", 0, 100, bins=2), dperm.Categorical("job", ["cook"])])
        >>> table = {"age": [20, 80] * 50, "job": ["cook"] * 100}
        >>> model = dperm.LogisticRegression(schema=schema, classes=[-1, 1]).fit(table, [-1, 1] * 50)
        >>> model.shapes()["value"].tolist()
        [0.0, 49.99999999999999, 50.0, 100.0, 'cook']
        """
        return _data_frame(self.shape_values())

    def shape_values(self) -> dict[str, list[Any]]:
        """The columns of `shapes` as a dict of lists, without a data frame library."""
        _, _, *scores = self.coefficient_values().items()
        schema, heads = self._design.schema, [name for name, _ in scores]
        if schema is None:
            raise ValueError("shapes are those of the columns of a schema, and the model has none")
        weights, inference = np.column_stack([each for _, each in scores]), getattr(self, "inference_", None)
        points = shape_points(schema, weights if inference is None else np.eye(len(weights)))
        *facts, rows = zip(*points, strict=True)
        found = dict(zip(("column", "kind", "value", "other"), map(list, facts), strict=True))
        if inference is None:
            return found | dict(
                zip(heads if len(heads) > 1 else ["score"], np.array(rows).T.tolist(), strict=True)
            )
        of_rows = inference.contrasts(np.array(rows))
        return found | {"score": of_rows.value.tolist(), "standard_error": of_rows.standard_error.tolist()}

    def importances(self) -> Any:
        """How much every column and interaction moves the score: the largest first.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            "column", and "importance": the standard deviation over the records of what the column adds to the
            score (for several classes, the root of the mean square of these). It follows from the weights and
            from the second moments of the columns that the solver has released, with their noise, so that no
            privacy is spent.

        Raises
        ------
        NotFittedError, ImportError
            As for `coefficients`.
        ValueError
            Without a schema, or if the solver has released no second moments.

        Examples
        --------
        >>> import dperm
        >>> schema = dperm.Schema([dperm.Numeric("age", 0, 100), dperm.Categorical("job", ["cook", "clerk"])])
        >>> table = {"age": [20, 40, 60, 80] * 5000, "job": ["cook", "clerk"] * 10000}
        >>> model = dperm.LogisticRegression(schema=schema, classes=[-1, 1]).fit(table, [-1, -1, 1, 1] * 5000)
        >>> model.importances()["column"].tolist()
        ['age', 'job']
        """
        check_is_fitted(self)
        if self._importances is None:
            raise ValueError(
                "importances need a schema and second moments that were released, as solver='auto' does with "
                "enough budget for up to 1,000 weights; contributions(X) are those of given records"
            )
        return _data_frame(self.importance_values())

    def importance_values(self) -> dict[str, list[Any]]:
        """The columns of `importances` as a dict of lists; empty ones if it has none."""
        schema = self._design.schema
        pairs = zip(schema.parts, self._importances, strict=True) if schema and self._importances else ()
        ranked = sorted(((each.name, size) for each, size in pairs), key=lambda pair: -pair[1])
        return {"column": [name for name, _ in ranked], "importance": [size for _, size in ranked]}

    def contributions(self, X: Any) -> dict[str, NDArray[np.float64]]:
        """What every column of the schema adds to the score of each record: its prediction as a sum.

        Parameters
        ----------
        X : table, as for `predict`, or records encoded by the schema

        Returns
        -------
        dict of str to ndarray
            Of shape (n_samples,), or (n_samples, n_classes) for more than two classes, for each column, each
            interaction, and the intercept under ``(intercept)``. Their sum is ``decision_function(X)``, or
            ``predict(X)`` of a regressor. No privacy is spent.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`; without a schema.

        Examples
        --------
        >>> import dperm
        >>> schema = dperm.Schema([dperm.Numeric("age", 0, 100), dperm.Categorical("job", ["cook", "clerk"])])
        >>> table = {"age": [20, 40, 60, 80] * 50, "job": ["cook", "clerk"] * 100}
        >>> model = dperm.LogisticRegression(schema=schema, classes=[-1, 1]).fit(table, [-1, -1, 1, 1] * 50)
        >>> sorted(model.contributions({"age": [20], "job": ["cook"]}))
        ['(intercept)', 'age', 'job']
        """
        check_is_fitted(self)
        schema, weights = self._design.schema, np.atleast_2d(self.coef_).T
        if schema is None:
            raise ValueError("contributions are those of the columns of a schema, and the model has none")
        starts = np.cumsum([0, *(len(each.feature_names) for each in schema.parts)])
        parts = {each.name: np.zeros_like(weights) for each in schema.parts}
        for part, start, end in zip(parts.values(), starts, starts[1:], strict=False):
            part[start:end] = weights[start:end]
        stacked = np.hstack(list(parts.values()))
        rows = [
            self._scaled_block(each, stacked, 0.0)  # type: ignore[attr-defined]
            for each in prediction_blocks(self, X, len(weights))
        ]
        scores = np.concatenate(rows).reshape(-1, len(parts), weights.shape[1])
        scores = scores[..., 0] if weights.shape[1] == 1 else scores
        found = dict(zip(parts, np.moveaxis(scores, 1, 0), strict=True))
        return found | {INTERCEPT: np.zeros_like(scores[:, 0]) + self.intercept_}

    def coefficient_values(self) -> dict[str, list[Any]]:
        """The columns of `coefficients` as a dict of lists, without a data frame library.

        Examples
        --------
        >>> import dperm
        >>> schema = dperm.Schema([dperm.Categorical("job", ["cook", "clerk"])])
        >>> model = dperm.LogisticRegression(schema=schema, classes=[0, 1])
        >>> found = model.fit({"job": ["cook", "clerk"] * 50}, [0, 1] * 50).coefficient_values()
        >>> found["column"], found["category"]
        (['job', 'job', '(intercept)'], ['cook', 'clerk', None])
        """
        check_is_fitted(self)
        weights = np.atleast_2d(self.coef_).T
        names = self._design.schema or getattr(self, "feature_names_in_", None)
        columns, categories = _columns_and_categories(names, len(weights))
        if self._design.fit_intercept:
            weights = np.vstack([weights, self.intercept_])
            columns, categories = [*columns, INTERCEPT], [*categories, None]
        several = weights.shape[1] > 1
        heads = [_head(label) for label in self.classes_] if several else ["coefficient"]  # type: ignore[attr-defined]
        values = dict(zip(heads, weights.T.tolist(), strict=True))
        return {"column": columns, "category": categories, **values}


def _data_frame(values: dict[str, list[Any]]) -> Any:
    with suppress(ImportError):
        import pandas

        return pandas.DataFrame(values)
    with suppress(ImportError):
        import polars

        return polars.DataFrame(values)
    raise ImportError("a table of weights is a data frame: pip install pandas, or polars")


def _head(label: Any) -> str:
    """Column name of a class, distinct from those of other columns."""
    return f"class {label}" if str(label) in ("column", "category", "kind", "value", "other") else str(label)


def _columns_and_categories(
    names: Schema | Sequence[str] | None, n_features: int
) -> tuple[list[str], list[str | None]]:
    if names is None:
        names = [f"x{place}" for place in range(n_features)]
    if not isinstance(names, Schema):
        return [str(each) for each in names], [None] * n_features
    pairs = [
        (column.name, None if feature == column.name else feature.removeprefix(f"{column.name}="))
        for column in names.parts
        for feature in column.feature_names
    ]
    return [column for column, _ in pairs], [category for _, category in pairs]


class WithStandardErrors:
    """Confidence intervals and a table of the weights, after a fit with ``solver="noisy_newton"``.

    Attributes
    ----------
    inference_ : InferenceResult or None
        The solver's result; None after a fit with another solver.
    """

    solver: str
    schema: Schema | None
    fit_intercept: bool
    solver_options: Any
    _design: FittedDesign
    inference_: InferenceResult | None

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> NDArray[np.float64]:
        """Confidence intervals of the weights: those of ``coef_``, then that of ``intercept_``.

        Parameters
        ----------
        level : float
            Coverage probability of each interval, at least 0.5.
        alpha : float, optional
            ``1 - level``, in place of it.

        Returns
        -------
        ndarray of shape (n_weights, 2)
            NaN where there is no interval because the data or the noise do not determine the weight.

        Raises
        ------
        AttributeError
            After a fit with another solver than "noisy_newton".

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.choice([-0.5, 0.5], (5000, 2))
        >>> y = np.where(rng.logistic(size=5000) < X @ [4.0, -4.0], 1, -1)
        >>> model = dperm.LogisticRegression(
        ...     row_norm=1.3, classes=[-1, 1], solver="noisy_newton", random_state=0
        ... )
        >>> low, high = model.fit(X, y).conf_int().T
        >>> (low < [4.0, -4.0, 0.0]) & ([4.0, -4.0, 0.0] < high)
        array([ True,  True,  True])
        """
        return self._inference().conf_int(level, alpha=alpha)

    def summary(self, level: float = 0.95) -> str:
        """A printable table of the weights with standard errors, z, p and confidence intervals.

        With an intercept, the first level of each categorical or binned column of a schema is the reference
        level, or the most frequent one of a learned schema: it is left out, and the weights of the other
        levels are differences from it.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.choice([-0.5, 0.5], (5000, 2))
        >>> y = np.where(rng.logistic(size=5000) < X @ [4.0, -4.0], 1, -1)
        >>> model = dperm.LogisticRegression(
        ...     row_norm=1.3, classes=[-1, 1], solver="noisy_newton", random_state=0
        ... )
        >>> print(model.fit(X, y).summary())
        noisy_newton, logistic loss, 5,000 records, standard errors by the model
        ...
        coefficient                 estimate    std err         z    P>|z|     [0.025     0.975]  noise
        ...
        noise: the part of the interval's width that is due to the noise of the release.
        """
        text = self._inference().summary(self._names_of_weights(), level=level)
        if self._design.schema is not None:
            text += "\nNumbers are scaled to [0, 1] by their public bounds: a weight is of the whole range."
        return text

    def _inference(self) -> InferenceResult:
        check_is_fitted(self)
        if self.inference_ is None:
            raise AttributeError(
                f"solver={self.solver!r} gives no standard errors: fit with solver='noisy_newton'"
            )
        return self.inference_

    def _names_of_weights(self) -> list[str] | None:
        return self._names_with(self._design.schema)

    def _names_with(self, schema: Schema | None) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None) if schema is None else schema.feature_names
        return None if names is None else [*map(str, names), *[INTERCEPT] * bool(self.fit_intercept)]

    def _options_of_solver(self) -> Any:
        """The given options; by default with the names of the weights, and reference levels to omit."""
        if self.solver != "noisy_newton":
            return self.solver_options
        own: dict[str, Any] = {"names": self._names_with(self.schema)}
        if self.schema is not None:
            own["omit"] = reference_levels(self.schema, self.fit_intercept)
        return own | dict(self.solver_options or {})

    def _keep_inference(self, result: FitResult) -> None:
        self.inference_ = result if isinstance(result, InferenceResult) else None


def reference_levels(schema: Schema, fit_intercept: bool) -> list[int]:
    """Columns of the design matrix to leave out so that it has full rank, from the schema alone.

    The first column of each factor that always has exactly one level, and the most frequent level of a factor
    that was learned to have nearly always one; without an intercept, the first of them keeps all its levels.
    """
    found, place = [], 0
    learned = () if schema.report is None else schema.report.columns
    frequent = {each["name"]: each["reference"] for each in learned if "reference" in each}
    for column in schema.columns:
        if isinstance(column, Categorical) and frequent.get(column.name) in column.categories:
            found.append(place + column.categories.index(frequent[column.name]))
        elif has_a_level(column):
            found.append(place)
        place += len(column.feature_names)
    always = {column.name: has_a_level(column) for column in schema.columns}
    for crossed in schema.parts[len(schema.columns) :]:
        assert isinstance(crossed, Crossed)
        own = crossed.interaction
        found += [place + each for each in crossed.redundant((always[own.first], always[own.second]))]
        place += len(crossed.feature_names)
    return found if fit_intercept else found[1:]
