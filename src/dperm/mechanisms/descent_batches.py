"""Exactly sampled batches for stochastic gradient descent. They are secret if they amplify privacy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dperm._kernels import samplers
from dperm._kernels.samplers import RandomBits
from dperm.mechanisms.sampling import poisson_sample

Indices = NDArray[np.int64]

# Poisson samples are drawn for several steps together, at most for about 10 milliseconds. The unit is the
# time to read one entry of the matrix.
_WORK_PER_DRAW = 1 << 23


class UniformBatches:
    """An independent, uniformly random set of `batch_size` of the `n` records in every step."""

    def __init__(self, bits: RandomBits, n: int, batch_size: int) -> None:
        self._bits, self._n, self._size = bits, n, batch_size
        self.work_per_step = 8 * batch_size + (n // 64 if n // 256 <= batch_size else 0)

    def take(self, steps: int) -> tuple[Indices, Indices]:
        """Return the next batches."""
        if self._size == 1:
            order = samplers.uniform_integers(self._bits, self._n, steps)
        else:
            order = samplers.samples_without_replacement(self._bits, self._n, self._size, steps).ravel()
        return order, np.arange(1, steps + 1) * self._size


class PoissonBatches:
    """In every step, each of the `n` records independently with probability `rate`; see `poisson_rate`."""

    def __init__(self, bits: RandomBits, n: int, rate: float | Fraction) -> None:
        self._bits, self._n, self._rate = bits, n, rate
        # Random bits are drawn for every record or, at small rates, for sampled ones; see `poisson_sample`.
        self.work_per_step = math.ceil(n * min(0.5, 16.0 * rate)) + 1

    def take(self, steps: int) -> tuple[Indices, Indices]:
        """Return the next batches."""
        per_draw = max(1, min(_WORK_PER_DRAW // self.work_per_step, ((1 << 62) - 1) // self._n))
        orders, counts = [], []
        for first in range(0, steps, per_draw):
            count = min(per_draw, steps - first)
            # One sample of `count` times as many records splits into `count` independent samples.
            drawn = poisson_sample(self._bits, self._rate, self._n * count)
            step, record = np.divmod(drawn, self._n)
            orders.append(record)
            counts.append(np.bincount(step, minlength=count))
        return np.concatenate(orders), np.cumsum(np.concatenate(counts))
