"""Public data sets, encoded with public knowledge only.

What is used to encode a record (bounds of numeric columns, categories, label values) stands in a TOML
file next to this module and is returned with the data. Nothing is measured on the records, so the
encoding costs no privacy, and the norm of a row is bounded before a record is read.

Files are read from the folder named by the environment variable ``DPERM_DATA``. Without that variable
scikit-learn downloads the data into its cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dperm.datasets.columns import BinaryLabel, CategoricalColumn, ClassLabel, Matrix, NumericColumn
from dperm.datasets.files import data_folder, read_files
from dperm.datasets.table_schema import TableSchema, read_schema, schema_names
from dperm.datasets.tables import encode

__all__ = [
    "BinaryLabel",
    "CategoricalColumn",
    "ClassLabel",
    "Dataset",
    "NumericColumn",
    "TableSchema",
    "load",
    "names",
]

_DTYPES: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records, encoded, with the public description that was used.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features), C order, float64 or float32
        Numeric columns in [0, 1]; one 0/1 column per public category.
    y : ndarray of shape (n_records,)
        -1.0 and +1.0 (float64) for two classes, otherwise class codes 0, 1, ... (int64).
    feature_names : tuple of str
        ``"age"`` for a numeric column, ``"sex=Male"`` for a category.
    row_norm : float
        Bound on the Euclidean norm of a row with the intercept's 1 appended, from `schema` alone.
    schema : TableSchema
        The public description: bounds, categories, label values, source, licence.
    """

    X: Matrix
    y: NDArray[Any]
    feature_names: tuple[str, ...]
    row_norm: float
    schema: TableSchema


def names() -> tuple[str, ...]:
    """Return the names that `load` knows."""
    return schema_names()


def load(name: str, *, dtype: DTypeLike | None = None) -> Dataset:
    """Load a public data set, encoded with public knowledge only.

    Parameters
    ----------
    name : {"adult", "bank", "breast_cancer", "kddcup99", "mnist", "wine"}
        +1 is an income above 50K in "adult", a subscription in "bank", a malignant tumour in
        "breast_cancer", an attack in "kddcup99" (the 10 % file) and a quality of 6 or more in "wine"
        (red and white). "mnist" has the digits 0 to 9.
    dtype : float32 or float64, optional
        Of the design matrix. Default: float32 for "mnist", otherwise float64.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        When there is no data set of that name, or `dtype` is another type.
    FileNotFoundError
        When the data are neither in the folder named by ``DPERM_DATA`` nor obtained by scikit-learn.
    DataError
        When a file is not the published one.
    """
    schema = read_schema(name)
    wanted = np.dtype(schema.dtype if dtype is None else dtype).name
    if wanted not in _DTYPES:
        raise ValueError(f"dtype must be float32 or float64, got {wanted}")
    folder = data_folder()
    if folder is not None and schema.files:
        table = read_files(schema, folder)
    else:
        from dperm.datasets.fetching import fetch

        table = fetch(schema)
    X, y = encode(schema, table, _DTYPES[wanted])
    return Dataset(X, y, schema.feature_names, schema.row_norm, schema)
