"""Worst-case neighbouring data sets for linear models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm._cached import cached_property
from dperm.accounting.neighbours import Neighbours
from dperm.losses import Loss
from dperm.objective.objective import Objective

Array = NDArray[np.float64]

KINDS = ("orthogonal", "opposite", "silent")


@dataclass(frozen=True, eq=False)
class LinearData:
    """Records and public settings, from which each process makes its own objective.

    Attributes
    ----------
    X : (n_rows, d) ndarray
    y : (n_rows,) ndarray
    n_public : int
        The public number of records, the same for neighbours.
    row_norm : float
        Bound on the norm of a row.
    loss : str or Loss
    fit_intercept : bool
    l2 : float

    Examples
    --------
    >>> import numpy as np
    >>> data = LinearData(np.eye(3), np.array([1.0, -1.0, 1.0]), n_public=3)
    >>> data.objective.gradient(np.zeros(3)).round(3)
    array([-0.167,  0.167, -0.167])
    """

    X: Array
    y: Array
    n_public: int
    row_norm: float = 1.0
    loss: str | Loss = "logistic"
    fit_intercept: bool = False
    l2: float = 0.0

    @cached_property
    def objective(self) -> Objective:
        """The objective, created on first use; passes use one thread."""
        return Objective(
            self.loss,
            self.X,
            self.y,
            l2=self.l2,
            row_norm=self.row_norm,
            fit_intercept=self.fit_intercept,
            n_threads=1,
            n_public=self.n_public,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the objective, which cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "objective"}


@dataclass(frozen=True, eq=False)
class NeighbourPair:
    """Two neighbouring data sets.

    Attributes
    ----------
    first, second : LinearData
        Data sets that differ in one record.
    relation : Neighbours
        Neighbouring relation.
    direction : (d,) ndarray
        Unit vector along the row of the record that differs.

    Examples
    --------
    >>> pair = worst_case_neighbours("orthogonal", n=100, d=2)
    >>> len(pair.first.X), len(pair.second.X), pair.direction
    (99, 100, array([1., 0.]))
    """

    first: LinearData
    second: LinearData
    relation: Neighbours
    direction: Array

    def __iter__(self) -> Iterator[LinearData]:
        return iter((self.first, self.second))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> LinearData:
        return (self.first, self.second)[index]


def worst_case_neighbours(
    kind: str = "orthogonal",
    n: int = 1000,
    d: int = 10,
    relation: str = "add_or_remove",
    row_norm: float = 1.0,
    *,
    loss: str | Loss = "logistic",
    fit_intercept: bool = False,
    l2: float = 0.0,
) -> NeighbourPair:
    """Data sets of equal records and one that differs from them, whose row has the largest norm.

    With ``add_or_remove`` the first data set lacks that record. With ``replace_one`` its label is flipped,
    which reverses its gradient. With a clipping norm of at most ``row_norm / 2`` (for the logistic loss; half
    of the largest gradient) it contributes the full clipping norm at ``w = 0``.

    Parameters
    ----------
    kind : {"orthogonal", "opposite", "silent"}
        "orthogonal": the others lie along another axis, so that only the record and noise act along its axis.
        "opposite": the same row as the others with the opposite label (with ``replace_one``, in the second
        data set only). "silent": the rows of the others are zero.
    n : int
        Public number of records, at least 2; the number of rows of the second data set.
    d : int
        Columns, at least 2.
    relation : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    row_norm : float
        Norm of the rows, positive.
    loss : str or Loss
        A classification loss; with one that has classes, the codes 0 and 1 take the place of -1 and +1.
    fit_intercept : bool
        If true, rows are rescaled together with a constant 1, and no two are orthogonal.
    l2 : float
        Strength of the ridge term.

    Returns
    -------
    NeighbourPair

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> pair = worst_case_neighbours("opposite", n=100, d=3, relation="replace_one")
    >>> pair.first.X.shape, int((pair.first.y != pair.second.y).sum())
    ((100, 3), 1)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    if n < 2 or d < 2:
        raise ValueError(f"n and d must be at least 2, got n={n!r}, d={d!r}")
    neighbours = Neighbours.parse(relation)
    axis = np.zeros(d)
    axis[0] = 1.0
    X, y = np.zeros((n, d)), np.ones(n)
    if kind != "silent":
        X[:, 0 if kind == "opposite" else 1] = row_norm
    X[-1] = row_norm * axis
    y[-1] = -1.0 if kind == "opposite" else 1.0
    turned = -y[-1]
    if isinstance(loss, Loss) and loss.n_classes is not None:
        y, turned = (y + 1.0) / 2.0, (turned + 1.0) / 2.0
    second = LinearData(X, y, n, row_norm, loss, fit_intercept, l2)
    if neighbours is Neighbours.ADD_OR_REMOVE:
        first = replace(second, X=X[:-1].copy(), y=y[:-1].copy())
    else:
        first = replace(second, y=np.append(y[:-1], turned))
    return NeighbourPair(first, second, neighbours, axis)
