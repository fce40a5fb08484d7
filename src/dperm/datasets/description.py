"""The public descriptions of published data sets, and their labels."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import Categorical, Numeric
from dperm.data.schema.schema import Schema
from dperm.data.schema.table_columns import ArrayColumn
from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError

Cells = NDArray[Any]


@dataclass(frozen=True)
class BinaryLabel:
    """A label with two public groups of values: `positive` becomes +1, `negative` becomes -1.

    Examples
    --------
    >>> import numpy as np
    >>> label = BinaryLabel("income", positive=(">50K", ">50K."), negative=("<=50K", "<=50K."))
    >>> label.encode(np.array(["<=50K", ">50K.", "<=50K."]))
    array([-1.,  1., -1.])
    """

    name: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.positive or not self.negative:
            raise ValueError(f"label {self.name!r} must list positive and negative values")
        if set(self.positive) & set(self.negative):
            raise ValueError(f"label {self.name!r} lists a value as positive and as negative")

    def encode(self, cells: Cells) -> NDArray[np.float64]:
        """Labels of `cells` as -1.0 and +1.0; DataError for a value that is not listed."""
        values = Categorical(self.name, self.positive + self.negative)
        codes = values.read(ArrayColumn(self.name, cells))
        return np.where(codes < len(self.positive), 1.0, -1.0)


@dataclass(frozen=True)
class ClassLabel:
    """A label with a public list of classes: a value becomes its position in the list.

    Examples
    --------
    >>> import numpy as np
    >>> ClassLabel("digit", classes=("0", "1", "2")).encode(np.array(["2", "0", "2"]))
    array([2, 0, 2])
    """

    name: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise ValueError(f"label {self.name!r} must list at least two different classes")

    def encode(self, cells: Cells) -> NDArray[np.int64]:
        """Class codes of `cells`; DataError for a value that is not listed."""
        return Categorical(self.name, self.classes).read(ArrayColumn(self.name, cells)).astype(np.int64)


@dataclass(frozen=True)
class RealLabel:
    """A number with public bounds, as given in the file.

    Examples
    --------
    >>> import numpy as np
    >>> RealLabel("quality", low=0, high=10).encode(np.array(["5", "6.5"]))
    array([5. , 6.5])
    """

    name: str
    low: float
    high: float

    def encode(self, cells: Cells) -> NDArray[np.float64]:
        """`cells` as numbers; DataError if one is not a number or not within the bounds."""
        try:
            numbers = cells.astype(np.float64)
        except ValueError as error:
            raise DataError(f"column {self.name!r} holds a cell that is no number: {error}") from None
        if not ((numbers >= self.low) & (numbers <= self.high)).all():
            raise DataError(f"column {self.name!r} holds a number outside [{self.low:g}, {self.high:g}]")
        return np.asarray(numbers)


Label = BinaryLabel | ClassLabel | RealLabel


FILE_FORMATS = ("csv", "idx")
FETCH_FUNCTIONS = ("fetch_openml", "fetch_kddcup99", "load_breast_cancer")
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class SourceFile:
    """One published file of a data set."""

    path: str  # path below the data folder, including ``.gz``; the file may also be there decompressed
    sha256_stored: str  # of the file as it was published, possibly compressed
    #: Of the decompressed bytes. If given, this one is checked, so that it does not matter how a mirror
    #: compressed the file; otherwise `sha256_stored` is.
    sha256: str | None = None
    format: str = "csv"  # or "idx"
    delimiter: str = ","  # separates the cells of a CSV file
    skip_lines: int = 0  # lines before the data: a header or a comment

    def __post_init__(self) -> None:
        if self.format not in FILE_FORMATS:
            raise ValueError(f"file {self.path!r}: format must be one of {FILE_FORMATS}, got {self.format!r}")
        for digest in (self.sha256, self.sha256_stored):
            if digest is not None and (len(digest) != 64 or set(digest) - set("0123456789abcdef")):
                raise ValueError(f"file {self.path!r}: {digest!r} is not a SHA-256 in lower case")


@dataclass(frozen=True)
class FetchRecipe:
    """How scikit-learn obtains a data set."""

    function: str
    data_id: int | None = None  # number of the data set at OpenML
    missing: str | None = None  # category that means a missing value
    #: Published label for each label of scikit-learn that differs from it.
    label_values: Mapping[str, str] | None = None
    percent10: bool = True  # for ``fetch_kddcup99``: the 10 % file

    def __post_init__(self) -> None:
        if self.function not in FETCH_FUNCTIONS:
            raise ValueError(f"fetch: function must be one of {FETCH_FUNCTIONS}, got {self.function!r}")
        if (self.function == "fetch_openml") != (self.data_id is not None):
            raise ValueError("fetch: data_id belongs to fetch_openml, and only to it")


@dataclass(frozen=True)
class Description:
    """Everything that is public about a data set, fixed before its records are read.

    Parameters
    ----------
    name, title, source, licence, citation : str
        What the data are, where they were published, and under which terms.
    bounds : str
        Origin of the bounds and categories in `schema`.
    schema : Schema
        The columns that are used.
    label : BinaryLabel, ClassLabel or RealLabel
        The last column of the file.
    measured : bool
        Whether constants of the encoding were measured on the records, for comparison with published results;
        not private.
    file_columns : tuple of str
        All columns of the file except the label, in the order of the file; by default those of the schema.
    files : tuple of SourceFile
        Empty for data that are part of scikit-learn.
    fetch : FetchRecipe, optional
        None if scikit-learn does not provide the data.
    dtype : {"float64", "float32"}
        Default dtype of a dense design matrix.

    Examples
    --------
    >>> from dperm.datasets import load
    >>> about = load("breast_cancer").description
    >>> about.title, about.label.name, len(about.schema.columns)
    ('Breast Cancer Wisconsin (diagnostic)', 'diagnosis', 30)
    """

    name: str
    title: str
    source: str
    licence: str
    citation: str
    bounds: str
    schema: Schema
    label: Label
    files: tuple[SourceFile, ...]
    fetch: FetchRecipe | None = None
    dtype: str = "float64"
    measured: bool = False
    file_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "file_columns", tuple(self.file_columns) or self.schema.column_names)
        if set(self.file_columns) != {*self.schema.column_names, *self.schema.ignored}:
            raise ValueError(f"data set {self.name!r}: file_columns must be the schema's, used or ignored")
        if self.label.name in self.schema.column_names:
            raise ValueError(f"data set {self.name!r} names a column twice: {self.label.name!r}")
        if len({(file.format, file.delimiter) for file in self.files}) > 1:
            raise ValueError(f"data set {self.name!r}: all files must have the same format and delimiter")
        if not self.files and self.fetch is None:
            raise ValueError(f"data set {self.name!r} has neither files nor a way to fetch them")
        if self.dtype not in DTYPES:
            raise ValueError(f"data set {self.name!r}: dtype must be one of {DTYPES}, got {self.dtype!r}")

    @classmethod
    def from_text(cls, text: str) -> Description:
        """Build and check a description from the text of a TOML file: a `Schema` with more entries.

        ``like = "other"`` takes missing entries from the description of that name. Then ``[bins]`` may give
        some of its columns bins, ``[dropped]`` may name categories to encode as zeros, and ``ignored``
        columns are left out.

        Raises
        ------
        ValueError
            If the text is not TOML, an entry is missing or unknown, or a value is invalid.
        """
        entries = tomllib.loads(text)
        if "like" in entries:
            entries = _variant(tomllib.loads(_shipped_text(entries.pop("like"))), entries)
        name = entries.get("name", "?")
        own = {each.name for each in fields(cls)} - {"schema"}
        found: dict[str, Any] = {key: value for key, value in entries.items() if key in own}
        others = {key: value for key, value in entries.items() if key not in own}
        found["schema"] = Schema.from_entries({**others, "name": name})
        try:
            found["label"] = _read_label(found["label"])
            found["files"] = tuple(SourceFile(**entry) for entry in found.get("files", ()))
            if "fetch" in found:
                found["fetch"] = FetchRecipe(**found["fetch"]) if found["fetch"] else None
            return cls(**found)
        except KeyError as error:
            raise ValueError(f"data set {name!r}: the entry {error} is missing") from None
        except TypeError as error:
            raise ValueError(f"data set {name!r}: {error}") from None


def _variant(original: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Entries of a description that is given by its differences from another."""
    bins, dropped = changes.pop("bins", {}), changes.pop("dropped", {})
    left_out = changes.get("ignored", ())
    columns = original["columns"]
    names = [column.get("name") for column in columns]
    if unknown := {*bins, *dropped, *left_out} - set(names):
        raise ValueError(
            f"data set {changes.get('name')!r}: there are no columns {sorted(unknown)} to change"
        )
    changed = [
        column | ({"bins": bins[name]} if name in bins else {}) | _without(column, dropped.get(name))
        for column, name in zip(columns, names, strict=True)
        if name not in left_out
    ]
    variant = original | {"columns": changed} | changes
    return variant | ({"file_columns": names} if left_out else {})


def _without(column: dict[str, Any], category: str | None) -> dict[str, Any]:
    """Changes to a column one of whose categories is to be encoded as zeros."""
    if category is None:
        return {}
    if category not in column.get("categories", ()):
        raise ValueError(f"column {column['name']!r} has no category {category!r} to drop")
    return {"categories": [each for each in column["categories"] if each != category], "unknown": "zero"}


def _read_label(entry: dict[str, Any]) -> Label:
    entry = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    kind = ClassLabel if "classes" in entry else RealLabel if "low" in entry else BinaryLabel
    return kind(**entry)


def described_names() -> tuple[str, ...]:
    """Names of the descriptions that ship with the package, sorted."""
    entries = resources.files("dperm.datasets").iterdir()
    return tuple(
        sorted(entry.name.removesuffix(".toml") for entry in entries if entry.name.endswith(".toml"))
    )


def read_description(name: str) -> Description:
    """Return the shipped description called `name`.

    Raises ValueError if there is none of that name; the message lists those that exist.
    """
    return Description.from_text(_shipped_text(name))


def _shipped_text(name: str) -> str:
    if name not in described_names():
        raise ValueError(f"there is no data set {name!r}; choose one of {', '.join(described_names())}")
    return resources.files("dperm.datasets").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def without_transforms(description: Description) -> Description:
    """The same description with numbers on a linear scale."""
    columns = [
        replace(column, transform="none") if isinstance(column, Numeric) else column
        for column in description.schema.columns
    ]
    return _with_columns(description, columns)


def min_max(description: Description, matrix: TabularMatrix) -> tuple[Description, TabularMatrix]:
    """Numbers scaled to [0, 1] by their minimum and maximum instead of public bounds.

    A constant column keeps its bounds.
    """
    low, high = matrix.numeric.min(axis=0), matrix.numeric.max(axis=0)
    low, span = np.where(high > low, low, 0.0), np.where(high > low, high - low, 1.0)
    places = iter(zip(low.tolist(), span.tolist(), strict=True))
    columns = []
    for column in description.schema.columns:
        if isinstance(column, Numeric) and column.n_numbers:
            start, share = next(places)
            width = column.high - column.low
            bounds = {"low": column.low + start * width, "high": column.low + (start + share) * width}
            column = replace(column, **bounds)
        columns.append(column)
    numeric = ((matrix.numeric - low) / span).astype(matrix.numeric.dtype)
    return _with_columns(description, columns), matrix.with_rows(numeric, matrix.codes)


def _with_columns(description: Description, columns: list[Any]) -> Description:
    schema = Schema(columns, name=description.schema.name, ignored=description.schema.ignored)
    return replace(description, schema=schema, measured=True)
