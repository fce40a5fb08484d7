"""Checks of tables: names decide which column is which; what numpy would misread is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dperm.errors import DataError


def check_names(
    found: Sequence[str],
    wanted: Sequence[str],
    ignored: Sequence[str] = (),
    *,
    table: str = "the table",
    by: str = "the schema",
    advice: str = "drop them",
) -> None:
    """Raise DataError unless a table has the wanted columns, in any order, and no unknown others.

    Parameters
    ----------
    found : sequence of str
        Columns of the table.
    wanted, ignored : sequence of str
        Columns that are read, and columns that may be there.
    table, by, advice : str
        For messages: the table, what names the columns, and what to do about other columns.
    """
    repeated = sorted({str(name) for name in found if list(found).count(name) > 1})
    if repeated:
        raise DataError(f"two columns of {table} have the same name: {', '.join(map(repr, repeated))}")
    missing = [str(name) for name in wanted if name not in found]
    if missing:
        there = listed([str(name) for name in found])
        raise DataError(f"{table} lacks {listed(missing)} of {by}; it has {there}")
    unknown = sorted({str(name) for name in found} - {str(name) for name in (*wanted, *ignored)})
    if unknown:
        raise DataError(f"{by} does not describe {listed(unknown)} of {table}: {advice}")


_LEAST = 20  # records; in fewer, a feature may equal the label by chance
_FIRST = 100  # records that are compared before all are


def check_no_label(X: Any, y: Any, described: Sequence[str]) -> None:
    """Raise DataError if `y` has the name of a described column, or equals that of the table `X`."""
    name = getattr(y, "name", None)
    if name not in described:
        known = isinstance(X, Mapping) or (hasattr(X, "columns") and not hasattr(X, "__dask_graph__"))
        name = next((each for each in described if known and _is_equal(X, each, y)), None)
    if name is not None:
        raise DataError(
            f"column {name!r} is a feature, and y is the same column: a model would predict the label from "
            f"itself. Drop it from X, or say label = {name!r} in the schema; rename y if it is another column"
        )


def _is_equal(table: Any, name: str, y: Any) -> bool:
    known = name in getattr(table, "column_names", table)  # pyarrow's tables are no containers of names
    if not known or np.ndim(y) != 1 or len(y) < _LEAST or len(table[name]) != len(y):
        return False
    ends = (slice(_FIRST), slice(None))  # nearly always the first records differ
    return all(np.asarray(table[name][part]).tolist() == np.asarray(y[part]).tolist() for part in ends)


def check_encoding(found: str, wanted: str) -> None:
    """Raise DataError if two encodings, of records and of a model, are known and differ."""
    if found and wanted and found != wanted:
        raise DataError(
            "X is encoded already, by another schema than that of the model: encode the table with the "
            "model's schema, or pass the table itself"
        )


def check_unique(problem: str, names: Sequence[str]) -> None:
    """Raise ValueError if a name occurs twice."""
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{problem}: {', '.join(map(repr, repeated))}")


def listed(names: Sequence[str], limit: int = 8) -> str:
    """Some names for a message."""
    shown = ", ".join(map(repr, names[:limit]))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"column {shown}" if len(names) == 1 else f"columns {shown}{more}"


def check_readable(**given: Any) -> None:
    """Raise DataError for masked arrays and for arrays and frames with dates or times.

    Parameters
    ----------
    **given
        Arrays, data frames or anything else, keyed by the name that the message uses.
    """
    for name, values in given.items():
        if isinstance(values, np.ma.MaskedArray):
            raise DataError(
                f"{name} is a masked array, whose mask would be lost: fill it, for instance with "
                f"{name}.filled(numpy.nan) and non_finite='zero'"
            )
        for column, dtype in _dtypes(values):
            if _is_temporal(dtype):
                where = f"column {column!r} of {name}" if column is not None else name
                raise DataError(
                    f"{where} holds dates or times ({dtype}): convert them to numbers in a public unit, "
                    "such as days since a public date"
                )


def _dtypes(values: Any) -> list[tuple[Any, Any]]:
    """Name and dtype of each column of a data frame; None and the dtype of an array or a series."""
    if hasattr(values, "columns") and getattr(values, "ndim", 2) == 2 and hasattr(values, "dtypes"):
        return list(zip(values.columns, list(values.dtypes), strict=False))
    dtype = getattr(values, "dtype", None)
    return [] if dtype is None else [(None, dtype)]


def _is_temporal(dtype: Any) -> bool:
    if getattr(dtype, "kind", "") in ("M", "m"):  # numpy, pandas
        return True
    polars = getattr(dtype, "is_temporal", None)
    return bool(polars()) if callable(polars) else False
