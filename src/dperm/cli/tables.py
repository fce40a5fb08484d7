"""Reading the tables that a command is given: CSV or Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dperm.data.files.arrow_tables import csv_type, empty_texts_missing, pyarrow, trimmed_texts
from dperm.data.files.file_kinds import check_is_csv, check_is_parquet
from dperm.data.schema.schema import Schema
from dperm.errors import DataError

_PARQUET = (".parquet", ".pq")
_COMPRESSED = (".gz", ".bz2", ".lz4", ".zst")  # which pyarrow decompresses


def csv_types(schema: Schema, label: str) -> dict[str, Any]:
    """Arrow types of the columns of a CSV file that a schema describes, and of the label, as text."""
    return {column.name: csv_type(column) for column in schema.columns} | {label: pyarrow().string()}


def read_table(path: Path, types: Mapping[str, Any] | None = None) -> Any:
    """The Arrow table of a file, in memory; texts without the spaces around them, empty cells missing.

    Words such as ``NA`` in a CSV file are missing numbers, and ordinary texts.

    Parameters
    ----------
    path : Path
        A Parquet file (``.parquet``, ``.pq``), or a CSV file with a header.
    types : mapping of str to arrow type, optional
        Of the columns of a CSV file; for those that it does not name the cells decide.

    Raises
    ------
    FileNotFoundError
    DataError
        For a file that cannot be read as such a table.
    ImportError
        Without pyarrow.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    arrow = pyarrow()
    try:
        if is_parquet(path):
            check_is_parquet(path)
            return arrow.parquet.read_table(path)
        if path.suffix.lower() not in _COMPRESSED:
            check_is_csv(path)
        convert = arrow.csv.ConvertOptions(column_types=dict(types or {}), strings_can_be_null=False)
        return empty_texts_missing(trimmed_texts(arrow.csv.read_csv(path, convert_options=convert)))
    except arrow.ArrowException as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def is_parquet(path: Path) -> bool:
    """Whether a file is one of Parquet, as its name says."""
    return path.suffix.lower() in _PARQUET


def take_label(table: Any, label: str) -> tuple[Any, np.ndarray]:
    """The table without the column `label`, and that column as an array of texts.

    Raises
    ------
    DataError
        When there is no such column, or a label is missing.
    """
    names = table.column_names
    if label not in names:
        raise DataError(f"there is no column {label!r}; the columns are {', '.join(map(repr, names))}")
    column = table[label].cast("string")
    if column.null_count:
        row = int(np.asarray(column.is_null()).argmax())
        raise DataError(f"the label {label!r} is missing at row {row}")
    return table.drop_columns([label]), np.array(column.to_pylist())
