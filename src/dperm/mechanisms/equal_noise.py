"""Noise for several sums of equal sensitivity, drawn for many of them at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dperm.private_values.bounded import Bounded

_NUMBERS_AT_ONCE = 4096


class EqualNoise:
    """Noise for `count` sums of the same shape and sensitivity: see `Releaser.gaussian_sums`.

    `charge` charges `count` releases of a sum like the given one and returns the standard deviation of the
    noise; `draw` draws noise of that standard deviation, for a grid and of a shape.
    """

    def __init__(
        self,
        count: int,
        charge: Callable[[Bounded, int], float],
        draw: Callable[[float, float, tuple[int, ...]], NDArray[np.int64]],
    ) -> None:
        self._left, self._charge, self._draw = count, charge, draw
        self._terms: tuple[object, ...] | None = None
        self._sigma = 0.0
        self._noise: Iterator[NDArray[np.int64]] = iter(())

    def noise_of(self, private: Bounded) -> NDArray[np.int64]:
        """The noise of the next sum, in units of its grid."""
        terms = private.scores, private.grid, private.add_or_remove, private.replace_one, private.shape
        if self._terms is None:
            self._sigma = self._charge(private, self._left)
            self._terms = terms
        if terms != self._terms or self._left == 0:
            raise ValueError("only as many sums as were charged are released, all with the same sensitivity")
        noise = next(self._noise, None)
        if noise is None:
            sums = min(self._left, max(1, _NUMBERS_AT_ONCE // math.prod(private.shape)))
            self._noise = iter(self._draw(self._sigma, private.grid, (sums, *private.shape)))
            noise = next(self._noise)
        self._left -= 1
        return noise
