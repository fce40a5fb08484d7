"""Public descriptions of columns: how a cell is encoded as numbers within known bounds.

The encoding of a cell depends on that cell and on the description alone, never on other records, and its
squares sum to at most the column's `squared_norm`. So the norm of a row is bounded before any data are read.
"""

from __future__ import annotations

from typing import Any

from dperm.data.schema.categorical import Categorical
from dperm.data.schema.numeric import Numeric

__all__ = ["Categorical", "Numeric", "SchemaColumn", "check_label"]

SchemaColumn = Numeric | Categorical


def check_label(label: Any) -> None:
    """Raise ValueError unless `label` is a name, or a column without rules for cells that are no labels."""
    if isinstance(label, str):
        return
    if not isinstance(label, Numeric | Categorical):
        raise ValueError(f"label must be the name of a column, Numeric or Categorical, got {label!r}")
    if label.missing != "error" or getattr(label, "unknown", "error") != "error":
        raise ValueError(
            f"column {label.name!r} is the label, for which missing and unknown must be 'error': there is no "
            "record to learn from where the label is not known (drop_missing_labels=True leaves such out)"
        )
