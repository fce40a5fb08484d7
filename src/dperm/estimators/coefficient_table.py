"""Weights of a fitted model as a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dperm.data.schema.schema import Schema
from dperm.estimators.design import FittedDesign

INTERCEPT = "(intercept)"


class WithCoefficients:
    """The weights of an estimator, by column and category."""

    coef_: NDArray[np.float64]
    intercept_: Any
    _design: FittedDesign

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
        values = self.coefficient_values()
        with suppress(ImportError):
            import pandas

            return pandas.DataFrame(values)
        with suppress(ImportError):
            import polars

            return polars.DataFrame(values)
        raise ImportError("coefficients() makes a data frame: pip install pandas, or polars")

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


def _head(label: Any) -> str:
    """Column name of a class, distinct from those of the first two columns."""
    return f"class {label}" if str(label) in ("column", "category") else str(label)


def _columns_and_categories(
    names: Schema | Sequence[str] | None, n_features: int
) -> tuple[list[str], list[str | None]]:
    if names is None:
        names = [f"x{place}" for place in range(n_features)]
    if not isinstance(names, Schema):
        return [str(each) for each in names], [None] * n_features
    pairs = [
        (column.name, None if feature == column.name else feature.removeprefix(f"{column.name}="))
        for column in names.columns
        for feature in column.feature_names
    ]
    return [column for column, _ in pairs], [category for _, category in pairs]
