"""Noise for successive sums of equal sensitivity, drawn for many of them at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.row_kernels import draw_together
from dperm._kernels.samplers import RandomBits
from dperm._kernels.threads import threads_for
from dperm.mechanisms.hooks import samplers
from dperm.mechanisms.noise import grid_exponent
from dperm.private_values.bounded import Bounded
from dperm.private_values.separate_sums import SeparateSums

_NUMBERS_AT_ONCE = 4096
_ENTRIES_PER_NUMBER = 64  # of a matrix, which a pass reads in the time in which a number is drawn

#: Charges several releases of a sum like the given one; returns the standard deviation of the noise.
Charge = Callable[[Bounded, int], float]


class EqualNoise:
    """Noise for `count` vector sums of each of several fits: see `gaussian_sums` of `release`.

    `charges` and `bits` have an entry for each fit.
    """

    def __init__(
        self, count: int, charges: Sequence[Charge], bits: Sequence[RandomBits], n_threads: int | None
    ) -> None:
        self._left, self._charges, self._bits, self._n_threads = count, charges, bits, n_threads
        self._terms: tuple[object, ...] | None = None
        self._sigmas: list[float] = []
        self._noise: Iterator[NDArray[np.int64]] = iter(())
        self._grids: NDArray[np.float64] = np.empty(0)

    def noise_of(self, sums: SeparateSums) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The noise of the next sum of each fit, in units of the grids, and the grids."""
        terms = sums.grids, sums.add_or_remove, sums.replace_one, sums.shape
        if self._terms is None:
            self._sigmas = [charge(own, self._left) for charge, own in zip(self._charges, sums, strict=True)]
            self._grids = np.array(sums.grids).reshape(-1, *[1] * len(sums.shape))
            self._terms = terms
        if terms != self._terms or self._left == 0:
            raise ValueError("only as many sums as were charged are released, all with the same sensitivity")
        noise = next(self._noise, None)
        if noise is None:
            self._noise = iter(self._block(sums))
            noise = next(self._noise)
        self._left -= 1
        return noise, self._grids

    def _block(self, sums: SeparateSums) -> NDArray[np.int64]:
        shape = min(self._left, max(1, _NUMBERS_AT_ONCE // math.prod(sums.shape))), *sums.shape
        draw = samplers().gaussian_ahead
        fits = zip(self._bits, self._sigmas, sums.grids, strict=True)
        draws = [draw(bits, sigma, grid_exponent(grid), shape) for bits, sigma, grid in fits]
        n_threads = threads_for(self._n_threads, len(draws) * math.prod(shape) * _ENTRIES_PER_NUMBER)
        draw_together(draws, min(n_threads, len(draws)))
        return np.stack([own._result() for own in draws], axis=1)
