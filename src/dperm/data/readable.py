"""Refusal of input that numpy would silently misread: masked arrays, dates and times."""

from __future__ import annotations

from typing import Any

import numpy as np

from dperm.errors import DataError


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
