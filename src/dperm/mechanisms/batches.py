"""Secret batches of records for the steps of stochastic gradient descent."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import PoissonDraw, RandomBits, uniform_words
from dperm.accounting.subsampling import Sampling
from dperm.errors import DataError
from dperm.mechanisms.random_source import DerivedSource
from dperm.mechanisms.sampling import (
    permutation,
    poisson_draw,
    poisson_rate,
    poisson_sample,
    sample_without_replacement,
)
from dperm.objective.hooks import set_within
from dperm.private_values.secret_rows import SecretRows

#: Called with each batch before it is used; returns the batch to use.
Watcher = Callable[[SecretRows], SecretRows]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watch_batches(watcher: Watcher) -> AbstractContextManager[None]:
    """Let ``watcher`` see and replace every batch that this thread draws inside the block, for audits."""
    return set_within(_watcher, watcher)


class SecretBatches:
    """An infinite iterator of batches (SecretRows), drawn as the accounting of ``sampling`` assumes.

    Parameters
    ----------
    sampling : {"poisson", "without_replacement", "permutation"}
        See :class:`dperm.accounting.subsampling.Sampling`.
    bits : RandomBits
        A stream that nothing else reads; noise has a stream of its own.
    batch_size : float
        Expected size of a Poisson batch, exact size of the others; at most ``n_public``.
    n_public : int
        Public number of records. Batches of fixed size are drawn from that many slots; an empty slot counts
        as a null record with gradient 0.

    Attributes
    ----------
    rate : float
        ``batch_size / n_public``.
    """

    def __init__(self, sampling: Sampling | str, bits: RandomBits, batch_size: float, n_public: int) -> None:
        self._sampling, self._bits = Sampling(sampling), bits
        self.rate = batch_size / n_public
        self._batches = _SCHEMES[self._sampling](bits, batch_size, n_public)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> SecretRows:
        rows = next(self._batches)
        watcher = _watcher.get()
        return rows if watcher is None else watcher(rows)

    def _draws_in_turn(self, n: int) -> tuple[PoissonDraw, PoissonDraw] | None:
        """Two draws of batches of `n` records which, repeated alternately, give all batches.

        They replace the iterator; None if batches depend on one another, or a watcher is set.
        """
        if (
            self._sampling is not Sampling.POISSON
            or _watcher.get() is not None
            or poisson_rate(self.rate) == 1
        ):
            return None
        return poisson_draw(self._bits, self.rate, n), poisson_draw(self._bits, self.rate, n)


def poisson_batches(bits: RandomBits, batch_size: float, n_public: int) -> Iterator[SecretRows]:
    """Each record is in each batch with probability ``batch_size / n_public``, independently.

    Dask workers draw their shares from streams derived from a key of the run.
    """
    rate = batch_size / n_public
    key = functools.cache(lambda: uniform_words(bits, 4).astype("<u8").tobytes())

    def draw(start: int, stop: int) -> NDArray[np.int64]:
        sample = poisson_sample(bits, rate, stop - start)
        return sample + start if start else sample

    for step in itertools.count():
        apart = functools.partial(_poisson_samples, key, step, rate)
        yield SecretRows(draw, float(poisson_rate(rate)), apart)


def _poisson_samples(key: Callable[[], bytes], step: int, rate: float) -> PartitionSamples:
    return PartitionSamples(key(), step, rate)


@dataclass(frozen=True, repr=False)
class PartitionSamples:
    """Poisson samples for one step from each partition of the records, drawn by the workers.

    A sample is a function of the key, the step and the partition, so work that is repeated, even on another
    worker, uses the same sample. No two steps or partitions share random bits.
    """

    key: bytes  # of the run: 32 uniform bytes, as secret as the samples
    step: int
    rate: float

    def for_partition(self, number: int, n_rows: int) -> NDArray[np.int64]:
        """Ascending indices of the sampled records, relative to that partition."""
        name = b"Poisson sample" + self.step.to_bytes(8, "little") + number.to_bytes(8, "little")
        bits = RandomBits(DerivedSource(self.key, name))
        return poisson_sample(bits, self.rate, n_rows)


def fixed_size_batches(bits: RandomBits, batch_size: float, n_public: int) -> Iterator[SecretRows]:
    """Independent sets of ``batch_size`` of ``n_public`` slots, all equally likely."""
    size = int(batch_size)
    while True:
        yield _slots(lambda: sample_without_replacement(bits, n_public, size), size, n_public)


def shuffled_batches(bits: RandomBits, batch_size: float, n_public: int) -> Iterator[SecretRows]:
    """Epochs of ``floor(n_public / batch_size)`` batches: a slot is in at most one batch of an epoch."""
    size = int(batch_size)
    while True:
        order = permutation(bits, n_public)
        for start in range(0, n_public - size + 1, size):
            batch = np.sort(order[start : start + size])
            yield _slots(lambda batch=batch: batch, size, n_public)  # type: ignore[misc]


def _slots(slots: Callable[[], NDArray[np.int64]], size: int, n_public: int) -> SecretRows:
    """A sample of ``size`` of exactly ``n_public`` slots."""

    def draw(start: int, stop: int) -> NDArray[np.int64]:
        if stop > n_public:
            raise DataError(
                f"batches of fixed size are drawn from n_public = {n_public} records, but there are more. "
                "Pass a larger n_public, or use Poisson sampling."
            )
        return slots()

    return SecretRows(draw, size / n_public)


_SCHEMES = {
    Sampling.POISSON: poisson_batches,
    Sampling.WITHOUT_REPLACEMENT: fixed_size_batches,
    Sampling.PERMUTATION: shuffled_batches,
}
