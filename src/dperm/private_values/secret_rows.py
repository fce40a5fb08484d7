"""Secret samples of records, which only an objective opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import PoissonDraw
from dperm.errors import DataError
from dperm.private_values.opaque import NotCopied

#: ``draw(start, stop)``: ascending indices of the records of ``start .. stop - 1`` that are in the sample.
Draw = Callable[[int, int], NDArray[np.integer[Any]]]


class SecretSamples(Protocol):
    """Secret samples without end, all at one rate."""

    @property
    def rate(self) -> float:
        """Probability that a record is in a sample."""

    def __iter__(self) -> Iterator[SecretRows]:
        """One after the other."""

    def _draws_in_turn(self, n: int) -> tuple[PoissonDraw, PoissonDraw] | None:
        """Two draws that, made again in turn, give all samples of `n` records; None where there are none."""


class SecretRows(NotCopied):
    """Which records take part in a sum, and how likely each was to.

    The guarantee of sampled sums rests on nobody knowing the sample: not its members, and not their number.
    It does not print, convert, iterate or pickle, and has no length. It is drawn when a sum is first
    made, and is the same for every sum made with it: on a neighbouring data set, too, each record
    that both have is in or out for both.

    Parameters
    ----------
    draw : callable
        ``draw(start, stop)``: ascending indices of the records of ``start .. stop - 1`` that are in.
    rate : float
        See below.
    draw_apart : callable, optional
        Another sample of the same law, for records in partitions that the process does not see: what the
        rows of the partitions take for it.

    Attributes
    ----------
    rate : float
        Probability that a record is in. Public.
    """

    _refusal = "a sample of records is secret: privacy amplification rests on it"
    __slots__ = ("_draw", "_draw_apart", "_drawn", "_indices", "rate")

    def __init__(
        self,
        draw: Draw,
        rate: float,
        draw_apart: Callable[[], Any] | None = None,
    ) -> None:
        self.rate = rate
        self._draw = draw
        self._draw_apart = draw_apart
        self._drawn = 0  # number of records whose fate is known
        self._indices: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def _among(self, n_rows: int, n_public: int) -> NDArray[np.int64]:
        """Ascending indices of the sampled ones of ``n_rows`` records.

        The fate of ``n_public`` records is drawn even where there are fewer, so that what is read from
        the source of random bits does not depend on their private number.
        """
        wanted = max(n_rows, n_public)
        if wanted > self._drawn:
            more = self._draw(self._drawn, wanted).astype(np.int64, copy=False)
            self._indices = np.concatenate([self._indices, more]) if self._drawn else more
            self._drawn = wanted
        if n_rows < self._drawn:
            return self._indices[: np.searchsorted(self._indices, n_rows)]
        return self._indices

    def _in_partitions(self) -> Any:
        """What tells the workers that hold the records which ones are in."""
        if self._draw_apart is None:
            raise DataError(
                "a sample that is drawn among all records, and folds of them, cannot be had of partitions: "
                "use sampling='poisson', or full batches"
            )
        return self._draw_apart()

    def __repr__(self) -> str:
        return f"<SecretRows, rate {self.rate:g}, not for reading>"

    __array_ufunc__ = None
    __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = NotCopied._refuse
