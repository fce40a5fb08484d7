"""The public description of a data set, read from a TOML file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from dperm.datasets.columns import BinaryLabel, CategoricalColumn, ClassLabel, Column, Label, NumericColumn

FILE_FORMATS = ("csv", "idx")
FETCH_FUNCTIONS = ("fetch_openml", "fetch_kddcup99", "load_breast_cancer")
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class SourceFile:
    """One published file of a data set.

    Parameters
    ----------
    path : str
        Path below the data folder, with its ``.gz``; the file may also lie there decompressed.
    sha256 : str
        Of the decompressed bytes. This one is checked, so that it does not matter how a mirror
        compressed the file.
    sha256_stored : str
        Of the compressed file that was described, to recognise that very copy.
    format : {"csv", "idx"}
    delimiter : str
        Between the cells of a CSV file.
    skip_lines : int
        Lines before the data: a header, or a remark.
    """

    path: str
    sha256: str
    sha256_stored: str
    format: str = "csv"
    delimiter: str = ","
    skip_lines: int = 0

    def __post_init__(self) -> None:
        if self.format not in FILE_FORMATS:
            raise ValueError(f"file {self.path!r}: format must be one of {FILE_FORMATS}, got {self.format!r}")
        for digest in (self.sha256, self.sha256_stored):
            if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
                raise ValueError(f"file {self.path!r}: {digest!r} is not a SHA-256 in lower case")


@dataclass(frozen=True)
class FetchRecipe:
    """How scikit-learn obtains a data set.

    Parameters
    ----------
    function : {"fetch_openml", "fetch_kddcup99", "load_breast_cancer"}
    data_id : int, optional
        Number of the data set at OpenML.
    missing : str, optional
        Category that stands for a missing value.
    label_values : mapping of str to str
        Published label for each label that scikit-learn delivers, where they differ.
    """

    function: str
    data_id: int | None = None
    missing: str | None = None
    label_values: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.function not in FETCH_FUNCTIONS:
            raise ValueError(f"fetch: function must be one of {FETCH_FUNCTIONS}, got {self.function!r}")
        if (self.function == "fetch_openml") != (self.data_id is not None):
            raise ValueError("fetch: data_id belongs to fetch_openml, and only to it")


@dataclass(frozen=True)
class TableSchema:
    """Everything that is public about a data set, fixed before its records are read.

    Parameters
    ----------
    name, title, source, licence, citation : str
        What the data are, where they were published, and under which terms.
    bounds : str
        Where the bounds and the categories come from.
    columns : tuple of NumericColumn or CategoricalColumn
        In the order of the file.
    label : BinaryLabel or ClassLabel
        The last column of the file.
    files : tuple of SourceFile
        Empty for data that come with scikit-learn.
    fetch : FetchRecipe
    dtype : {"float64", "float32"}
        Type of the design matrix unless the caller asks for another.
    """

    name: str
    title: str
    source: str
    licence: str
    citation: str
    bounds: str
    columns: tuple[Column, ...]
    label: Label
    files: tuple[SourceFile, ...]
    fetch: FetchRecipe
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError(f"schema {self.name!r} has no columns")
        names = [column.name for column in self.columns] + [self.label.name]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"schema {self.name!r} names a column twice: {repeated}")
        if len({(file.format, file.delimiter) for file in self.files}) > 1:
            raise ValueError(f"schema {self.name!r}: all files must have the same format and delimiter")
        if self.dtype not in DTYPES:
            raise ValueError(f"schema {self.name!r}: dtype must be one of {DTYPES}, got {self.dtype!r}")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def row_norm(self) -> float:
        """Bound on the Euclidean norm of a row with the intercept's 1 appended.

        A numeric column contributes at most 1 to the square, a categorical one exactly 1 (a single 1
        among zeros), the intercept 1.
        """
        return math.sqrt(1 + len(self.columns))

    @classmethod
    def from_toml(cls, text: str) -> TableSchema:
        """Build and check a description from the text of a TOML file.

        Raises
        ------
        ValueError
            When the text is not TOML, an entry is missing or unknown, or a value makes no sense.
        """
        entries = tomllib.loads(text)
        name = entries.get("name", "?")
        try:
            entries["columns"] = tuple(
                column for entry in entries["columns"] for column in _read_columns(entry)
            )
            entries["label"] = _read_label(entries["label"])
            entries["files"] = tuple(SourceFile(**entry) for entry in entries.get("files", ()))
            entries["fetch"] = FetchRecipe(**entries["fetch"])
            return cls(**entries)
        except KeyError as error:
            raise ValueError(f"schema {name!r}: the entry {error} is missing") from None
        except TypeError as error:
            raise ValueError(f"schema {name!r}: {error}") from None


def _read_columns(entry: dict[str, Any]) -> list[Column]:
    """Columns of one TOML entry: ``repeat = n`` stands for n numeric columns name0, name1, ..."""
    entry = dict(entry)
    kind = entry.pop("type")
    if kind == "categorical":
        if not isinstance(entry["categories"], list):
            raise ValueError(f"column {entry.get('name')!r}: categories must be a list")
        entry["categories"] = tuple(entry["categories"])
        return [CategoricalColumn(**entry)]
    if kind != "numeric":
        raise ValueError(
            f"column {entry.get('name')!r}: type must be 'numeric' or 'categorical', got {kind!r}"
        )
    repeat = entry.pop("repeat", None)
    if repeat is None:
        return [NumericColumn(**entry)]
    stem = entry.pop("name")
    return [NumericColumn(name=f"{stem}{i}", **entry) for i in range(repeat)]


def _read_label(entry: dict[str, Any]) -> Label:
    entry = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return ClassLabel(**entry) if "classes" in entry else BinaryLabel(**entry)


def schema_names() -> tuple[str, ...]:
    """Names of the descriptions that ship with the package, sorted."""
    entries = resources.files("dperm.datasets").iterdir()
    return tuple(
        sorted(entry.name.removesuffix(".toml") for entry in entries if entry.name.endswith(".toml"))
    )


def read_schema(name: str) -> TableSchema:
    """Return the shipped description called `name`.

    Raises
    ------
    ValueError
        When there is none of that name; the message lists those that exist.
    """
    if name not in schema_names():
        raise ValueError(f"there is no data set {name!r}; choose one of {', '.join(schema_names())}")
    path = resources.files("dperm.datasets").joinpath(f"{name}.toml")
    return TableSchema.from_toml(path.read_text(encoding="utf-8"))
