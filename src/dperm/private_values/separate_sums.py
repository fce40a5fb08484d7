"""Private sums of several models over the same records, which are released and charged separately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from dperm.private_values.bounded import Bounded
from dperm.private_values.opaque import Unchangeable


class SeparateSums(Unchangeable, Sequence[Bounded]):
    """Vector sums of one shape over the same records, each with bounds of its own: a sequence of `Bounded`.

    For fits that are released and charged separately.

    Attributes
    ----------
    grids, add_or_remove, replace_one : tuple of float
        Those of each sum. Public.
    shape : tuple of int
        Shape of each sum. Public.
    """

    _refusal = "private sums are opened one by one, through mechanisms"
    __slots__ = ("_integers", "_sums", "add_or_remove", "grids", "replace_one")

    _integers: NDArray[np.int64]
    _sums: list[Bounded | None]  # those that were asked for: an audit knows a sum by its identity
    grids: tuple[float, ...]
    add_or_remove: tuple[float, ...]
    replace_one: tuple[float, ...]

    def __init__(
        self,
        integers: NDArray[np.int64],
        *,
        grids: tuple[float, ...],
        add_or_remove: tuple[float, ...],
        replace_one: tuple[float, ...],
    ) -> None:
        if not len(integers) == len(grids) == len(add_or_remove) == len(replace_one):
            raise ValueError(f"{len(integers)} sums need as many grids and sensitivities")
        put = object.__setattr__
        put(self, "_integers", integers)
        put(self, "_sums", [None] * len(integers))
        put(self, "grids", grids)
        put(self, "add_or_remove", add_or_remove)
        put(self, "replace_one", replace_one)

    @classmethod
    def of_one(cls, private: Bounded) -> Self:
        """A sequence of a single vector sum."""
        if private.scores:
            raise TypeError("scores are released through select()")
        sums = cls(
            private._integers[None],
            grids=(private.grid,),
            add_or_remove=(private.add_or_remove,),
            replace_one=(private.replace_one,),
        )
        sums._sums[0] = private
        return sums

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of each sum."""
        return self._integers.shape[1:]

    def __len__(self) -> int:
        return len(self.grids)

    @overload
    def __getitem__(self, which: int) -> Bounded: ...

    @overload
    def __getitem__(self, which: slice) -> SeparateSums: ...

    def __getitem__(self, which: int | slice) -> Bounded | SeparateSums:
        if isinstance(which, slice):
            part = SeparateSums(
                self._integers[which],
                grids=self.grids[which],
                add_or_remove=self.add_or_remove[which],
                replace_one=self.replace_one[which],
            )
            part._sums[:] = self._sums[which]
            return part
        own = self._sums[which]
        if own is None:
            own = self._sums[which] = Bounded(
                self._integers[which],
                grid=self.grids[which],
                add_or_remove=self.add_or_remove[which],
                replace_one=self.replace_one[which],
            )
        return own

    def __repr__(self) -> str:
        return f"<{len(self)} Bounded sums, shape {self.shape}, not released>"

    __array_ufunc__ = None
    __hash__ = __eq__ = __ne__ = Unchangeable._refuse
