"""Labels of published data sets, encoded for a loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import Categorical
from dperm.data.schema.table_columns import ArrayColumn
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
