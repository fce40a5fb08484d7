"""Secret batches of records for the steps of stochastic gradient descent."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from dperm.private_values.secret_rows import SecretRows

#: Called with each batch before it is used; returns the batch that is used.
Watcher = Callable[[SecretRows], SecretRows]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_batches(watcher: Watcher) -> Iterator[None]:
    """Let ``watcher`` see, and replace, every batch that this thread draws inside the block: for audits."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class SecretBatches:
    """Endless batches, drawn as the accounting of ``sampling`` takes for granted: an iterator of SecretRows.

    Parameters
    ----------
    sampling : {"poisson", "without_replacement", "permutation"}
        See :class:`dperm.accounting.Sampling`.
    bits : RandomBits
        A stream that nothing else reads; noise has another.
    batch_size : float
        Expected size of a Poisson batch, size of the others; at most ``n_public``.
    n_public : int
        Public number of records. Batches of fixed size are drawn among that many places, of which those
        without a record stay empty: a null record, whose gradient is 0.

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
        """Two draws of a batch of `n` records, which give all batches if they are made again in turn.

        In place of the iterator; None where the batches depend on one another, or somebody watches them.
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

    Workers that hold partitions of the records draw theirs from streams that belong to a key of the run.
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
    """Poisson samples of one step from each partition of the records, drawn by the workers that hold them.

    A sample is a function of the key, the step and the partition: work that is repeated, on another worker
    too, uses the same sample. No two steps or partitions share bits.

    Attributes
    ----------
    key : bytes
        Of the run: 32 uniform bytes, as secret as the samples.
    step : int
    rate : float
    """

    key: bytes
    step: int
    rate: float

    def for_partition(self, number: int, n_rows: int) -> NDArray[np.int64]:
        """Ascending indices, counted in that partition, of the sampled ones of its records."""
        name = b"Poisson sample" + self.step.to_bytes(8, "little") + number.to_bytes(8, "little")
        bits = RandomBits(DerivedSource(self.key, name))
        return poisson_sample(bits, self.rate, n_rows)


def fixed_size_batches(bits: RandomBits, batch_size: float, n_public: int) -> Iterator[SecretRows]:
    """Fresh sets of ``batch_size`` of ``n_public`` places, all equally likely."""
    size = int(batch_size)
    while True:
        yield _places(lambda: sample_without_replacement(bits, n_public, size), size, n_public)


def shuffled_batches(bits: RandomBits, batch_size: float, n_public: int) -> Iterator[SecretRows]:
    """Epochs of ``floor(n_public / batch_size)`` batches: a place is in at most one batch of an epoch."""
    size = int(batch_size)
    while True:
        order = permutation(bits, n_public)
        for start in range(0, n_public - size + 1, size):
            batch = np.sort(order[start : start + size])
            yield _places(lambda batch=batch: batch, size, n_public)  # type: ignore[misc]


def _places(places: Callable[[], NDArray[np.int64]], size: int, n_public: int) -> SecretRows:
    """A sample of ``size`` among exactly ``n_public`` places."""

    def draw(start: int, stop: int) -> NDArray[np.int64]:
        if stop > n_public:
            raise DataError(
                f"batches of fixed size are drawn among n_public = {n_public} places, but there are more "
                "records. Pass a larger n_public, or use Poisson sampling."
            )
        return places()

    return SecretRows(draw, size / n_public)


_SCHEMES = {
    Sampling.POISSON: poisson_batches,
    Sampling.WITHOUT_REPLACEMENT: fixed_size_batches,
    Sampling.PERMUTATION: shuffled_batches,
}
