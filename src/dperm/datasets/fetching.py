"""Obtaining data sets through scikit-learn, which downloads them into its own cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.files import FOLDER_VARIABLE
from dperm.datasets.table_schema import TableSchema
from dperm.datasets.tables import Table, array_table


def fetch(schema: TableSchema) -> Table:
    """Return the records as scikit-learn delivers them, with the published values of every column.

    Raises
    ------
    FileNotFoundError
        When scikit-learn cannot obtain the data, with the other way to provide them.
    """
    # Imported here: scikit-learn takes longer to import than most data sets take to read.
    from sklearn import datasets

    recipe = schema.fetch
    if recipe.function == "load_breast_cancer":
        bunch = datasets.load_breast_cancer()
        return array_table(bunch.data, bunch.target_names[bunch.target])
    try:
        if recipe.function == "fetch_kddcup99":
            bunch = datasets.fetch_kddcup99(percent10=True)
            return array_table(_decoded(bunch.data), _decoded(bunch.target))
        # This parser needs no pandas and gives numbers: the codes of categories, NaN where missing.
        bunch = datasets.fetch_openml(data_id=recipe.data_id, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise FileNotFoundError(
            f"scikit-learn could not obtain the data set {schema.name!r} ({error}). Set {FOLDER_VARIABLE} "
            f"to a folder that holds {', '.join(file.path for file in schema.files)} (from {schema.source})."
        ) from error
    return array_table(_with_categories(schema, bunch), _published_labels(schema, bunch.target))


def _decoded(values: NDArray[Any]) -> NDArray[Any]:
    cells = [cell.decode() if isinstance(cell, bytes) else cell for cell in values.ravel()]
    decoded = np.empty(len(cells), dtype=object)
    decoded[:] = cells
    return decoded.reshape(values.shape)


def _with_categories(schema: TableSchema, bunch: Any) -> NDArray[Any]:
    """Rows with the names of categories in place of their codes."""
    if not bunch.categories:
        return np.asarray(bunch.data)
    rows = bunch.data.astype(object)
    for j, name in enumerate(bunch.feature_names):
        if name in bunch.categories:
            # The last entry stands for a missing value.
            names = np.array([*bunch.categories[name], schema.fetch.missing], dtype=object)
            codes = np.where(np.isnan(bunch.data[:, j]), len(names) - 1, bunch.data[:, j])
            rows[:, j] = names[codes.astype(np.intp)]
    return np.asarray(rows)


def _published_labels(schema: TableSchema, labels: NDArray[Any]) -> NDArray[Any]:
    published = schema.fetch.label_values or {}
    # Grades may arrive as 6.0.
    texts = [label if isinstance(label, str) else f"{label:g}" for label in labels]
    return np.array([published.get(text, text) for text in texts], dtype=object)
