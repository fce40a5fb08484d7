"""Secret samples of records, which only an objective can open."""

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
    """An endless sequence of secret samples at one rate."""

    @property
    def rate(self) -> float:
        """Probability that a record is in a sample."""

    def __iter__(self) -> Iterator[SecretRows]:
        """Iterate over the samples."""

    def _draws_in_turn(self, n: int) -> tuple[PoissonDraw, PoissonDraw] | None:
        """Two draws that, used alternately, give all samples of `n` records; None if unavailable."""


class SecretRows(NotCopied):
    """A secret sample of the records of a sum.

    The guarantee of sampled sums rests on the secrecy of the sample, of both its members and its size. It
    does not print, convert, iterate or pickle, and has no length. It is drawn when it is first used, and is
    the same for every sum. On neighbouring data sets common records are in both samples or in neither.

    Parameters
    ----------
    draw : callable
        ``draw(start, stop)``: ascending indices of the sampled records among ``start .. stop - 1``.
    rate : float
        See below.
    draw_apart : callable, optional
        Returns a description of another sample from the same distribution, for the workers that hold the
        partitions of the records.

    Attributes
    ----------
    rate : float
        Probability that a record is in the sample. Public.
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
        self._drawn = 0  # number of records that were decided on
        self._indices: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def _among(self, n_rows: int, n_public: int) -> NDArray[np.int64]:
        """Ascending indices of the sampled ones of ``n_rows`` records.

        ``n_public`` records are decided on even if there are fewer, so that the random bits used do not
        depend on the private number of records.
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
        """The sample, as the workers that hold the partitions take it."""
        if self._draw_apart is None:
            raise DataError(
                "samples that are drawn among all records, and folds of them, are not available for "
                "partitioned data: use sampling='poisson', or full batches"
            )
        return self._draw_apart()

    def __repr__(self) -> str:
        return f"<SecretRows, rate {self.rate:g}, not for reading>"

    __array_ufunc__ = None
    __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = NotCopied._refuse
