"""Public data sets, encoded with public knowledge only.

Everything that the encoding uses (bounds of numeric columns, categories, label values) is in a TOML file next
to this module and is returned with the data. Nothing is measured on the records, so the encoding costs no
privacy, and the norm of a row is bounded before a record is read. Encodings of published experiments that
depend on the records are marked ``description.measured``; `load` warns about them.

Files are read from the folder given by the environment variable ``DPERM_DATA``. Without that variable
scikit-learn downloads the data into its cache.

Text files need pyarrow (the extra ``data``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dperm.data.schema.schema import Schema
from dperm.datasets.description import (
    DTYPES,
    Description,
    described_names,
    read_description,
    without_transforms,
)
from dperm.datasets.description import min_max as on_measured_ranges
from dperm.datasets.files import data_folder, encode, read_files
from dperm.errors import PrivacyWarning, warn_caller

__all__ = ["Dataset", "load", "names"]


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Encoded records with the public description that was used.

    Parameters
    ----------
    X : TabularMatrix or ndarray of shape (n_records, n_features), C order
        Encoded records: numbers in [0, 1]; one 0/1 column per public category. Pass a tabular matrix to an
        estimator with ``schema=data.schema``, an array with ``row_norm=data.row_norm``.
    y : ndarray of shape (n_records,)
        -1.0 and +1.0 (float64) for two classes, class codes 0, 1, ... (int64), or real targets (float64).
    schema : Schema
        The public description of the columns that `X` was encoded with.
    description : Description
        Origin and terms of the data, and the meaning of the labels.

    Examples
    --------
    >>> data = load("breast_cancer")
    >>> data.X.shape, data.y.shape, data.feature_names[:2]
    ((569, 30), (569,), ('mean radius', 'mean texture'))
    """

    X: Any
    y: NDArray[Any]
    schema: Schema
    description: Description

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of `X`."""
        return self.schema.feature_names

    @property
    def row_norm(self) -> float:
        """Bound on the Euclidean norm of a row, including the 1 of the intercept, from `schema` alone."""
        return self.schema.row_norm()


def names() -> tuple[str, ...]:
    """Return the names of the data sets.

    Examples
    --------
    >>> names()[:3]
    ('adult', 'adult_a9a', 'adult_binned')
    """
    return described_names()


def load(
    name: str, *, dense: bool | None = None, dtype: DTypeLike | None = None, min_max: bool = False
) -> Dataset:
    """Load a public data set, encoded with public knowledge only.

    Parameters
    ----------
    name : str
        "adult" (+1: an income above 50K), "bank" (a subscription), "breast_cancer" (a malignant tumour),
        "kddcup99" (an attack; the 10 % file), "kddcup99_full" (4,898,431 records), "kddcup99_test" (the
        labelled test file), "wine" (a quality of 6 or more, red and white), or "mnist" (the digits 0 to 9);
        "adult_binned" and "kddcup99_binned" with public bins instead of numbers, which suits private linear
        models better. As in published experiments: "adult_a9a" (123 binary columns), "bank_dummies" (without
        the first category of each column), "kddcup99_dos" (a denial of service), "wine_quality" (the grade as
        a real target).
    dense : bool, optional
        Whether `X` is an array rather than a `TabularMatrix`. Default: an array if there are no categories.
    dtype : dtype, optional
        Of an array: float32 or float64 (the default except for "mnist"). Of the numbers of a tabular matrix:
        float32 (the default), float64, uint8 or uint16, see `Schema.encode`.
    min_max : bool, default=False
        Scale numbers by the minimum and maximum of the records, as published experiments do. That is not
        private: the encoding is no longer public.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If there is no data set of that name, or for another `dtype`.
    FileNotFoundError
        If the data are not in the folder given by ``DPERM_DATA``, or cannot be obtained by scikit-learn.
    DataError
        If a file is not the published one.
    ImportError
        For text files without pyarrow.

    Warns
    -----
    PrivacyWarning
        If constants of the encoding were measured on the records.

    Examples
    --------
    >>> import dperm
    >>> data = load("breast_cancer")
    >>> model = dperm.LogisticRegression(epsilon=4.0, classes=[-1, 1], row_norm=data.row_norm, random_state=0)
    >>> model.fit(data.X, data.y).score(data.X, data.y) > 0.8
    True
    """
    description = read_description(name)
    if min_max:
        description = without_transforms(description)
    if dense is None:
        dense = not description.schema.layout.sizes
    wanted = np.dtype(dtype or (description.dtype if dense else "float32")).name
    if dense and wanted not in DTYPES:
        raise ValueError(f"dtype of a dense matrix must be float32 or float64, got {wanted}")
    if min_max and not wanted.startswith("float"):
        raise ValueError(f"min_max=True needs numbers of type float32 or float64, got {wanted}")
    folder = data_folder()
    if folder is not None and description.files:
        records = read_files(description, folder)
    else:
        from dperm.datasets.files import fetch

        records = iter([fetch(description)])
    matrix, y = encode(description, records, wanted)
    if min_max:
        description, matrix = on_measured_ranges(description, matrix)
    if description.measured:
        warn_caller(
            f"constants of the encoding of {name!r} were measured on the records, which no statement about a "
            "fit covers",
            PrivacyWarning,
        )
    return Dataset(matrix.to_dense(wanted) if dense else matrix, y, description.schema, description)
