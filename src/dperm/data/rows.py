"""The records of an objective: one protocol for every representation of the design matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.row_kernels import NoisyBatchSums
from dperm.data.passes import Array, DescentSteps, Integers, KernelRows, NoisyBatches, Pass
from dperm.data.targets import Multiplicity, Targets, Weights
from dperm.errors import DataError
from dperm.private_values.secret_rows import SecretRows

_TARGETS_IN_BLOCK = 1 << 16  # so that temporary arrays of targets stay in the cache

NON_FINITE_POLICIES = ("raise", "zero")


@dataclass(frozen=True)
class RowSettings:
    """How an objective sees its records; public."""

    fit_intercept: bool  # append an implicit column of ones
    row_norm: float  # rows with a larger norm are scaled down to it
    non_finite: str  # "raise" or "zero"
    n_threads: int | None
    targets: Targets
    #: How many records each row represents; None: one. Not public. `rows_of` drops rows of multiplicity 0
    #: before a representation sees them.
    multiplicity: Multiplicity | None = None
    first_row: int = 0  # number of the first record, for messages: these rows may be part of a data set
    weights: Weights | None = None  # factors of the records' losses; None: 1

    def __post_init__(self) -> None:
        if self.non_finite not in NON_FINITE_POLICIES:
            raise ValueError(f"non_finite must be one of {NON_FINITE_POLICIES}, got {self.non_finite!r}")

    def multiplicity_of(self, n_rows: int) -> Multiplicity | None:
        """The multiplicity of `n_rows` rows; None if each row is one record."""
        if self.multiplicity is None:
            return None
        each = self.multiplicity.each
        if each.size != n_rows:
            raise DataError(
                f"counts must have one number per row of X, shape ({n_rows},), got shape {each.shape}"
            )
        return None if (each == 1).all() else self.multiplicity

    def weights_of(self, targets: NDArray[Any]) -> Array | None:
        """The weights of records with these targets; None for unweighted records."""
        return None if self.weights is None else self.weights.of(targets)


class Rows(Protocol):
    """Records as an objective reads them.

    Sums are exact integers that depend on the records alone, not on the representation, the order of rows, or
    on chunks or threads.
    """

    @property
    def n_rows(self) -> int:
        """Number of records; private unless declared public."""

    @property
    def n_columns(self) -> int:
        """Number of columns, without the intercept."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the arithmetic, float32 or float64; it determines the grid."""

    @property
    def n_entries(self) -> int:
        """How many numbers a pass reads, which determines the number of threads."""

    @property
    def reads_whole_rows(self) -> bool:
        """Whether passes that make rows dense are supported."""

    @property
    def n_partitions(self) -> int:
        """Number of partitions held by Dask workers; 0 for records that this process reads.

        Single records have no order across partitions, so `descend` and samples of a fixed size are not
        supported.
        """

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass over all records; the pass determines the type of the result."""

    def drawn(self, sample: SecretRows, n_public: int) -> Any:
        """The records of a secret sample, in the form in which passes take a `batch`."""

    def noisy_batch_sums(self, sums: NoisyBatches, n_threads: int) -> Callable[[Array], Array] | None:
        """A function of weights that returns the next sum at each call; None for rows in several parts."""

    def descend(self, steps: DescentSteps) -> None:
        """Make steps of stochastic gradient descent on ``steps.w``, in place."""


class RowSource(Protocol):
    """A design matrix other than an array, which makes the rows that an objective reads."""

    def rows(self, y: ArrayLike | None, settings: RowSettings) -> Rows:
        """The records with targets `y`; None if the source holds the targets."""


def is_source(X: Any) -> TypeGuard[RowSource]:
    """Whether the class of `X` makes it a source: a data frame with a column called "rows" is not one."""
    return callable(getattr(type(X), "rows", None))


def is_streamed(X: Any) -> bool:
    """Whether `X` is a source whose rows cannot be indexed, such as files."""
    return is_source(X) and not hasattr(X, "__getitem__")


class Compact(Protocol):
    """The records in a compact form; see `CompactRows`."""

    def expect(self, passes: int) -> None:
        """Announce that so many passes are to come."""

    def rows_for(self, pass_: Pass) -> RowsInMemory | None:
        """The rows that a pass may read instead; None if it has to read all records."""


class RowsInMemory(KernelRows):
    """Common part of `Rows` that hold all targets and norms."""

    n_partitions = 0
    reads_whole_rows = True
    #: The matrix as given, if its rows can be indexed.
    stored: Any = None
    #: A compact form of the records; None if the rows have multiplicities already.
    compact: Compact | None = None
    #: The multiplicities that the kernels were given.
    multiplicity: Multiplicity | None = None

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return self.n_stored if self.multiplicity is None else self.multiplicity.n_records

    @property
    def n_stored(self) -> int:
        """Number of rows, each of which may represent several records."""
        return int(self.y.size)

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass."""
        compact = None if self.compact is None else self.compact.rows_for(pass_)
        return pass_.over_rows(self, n_threads) if compact is None else compact.run(pass_, n_threads)

    def finite_targets(self) -> Iterator[tuple[NDArray[Any], Integers, Array | None]]:
        """Targets, multiplicities and weights (None: 1) of the finite rows, block by block."""
        for first in range(0, max(self.n_stored, 1), _TARGETS_IN_BLOCK):
            here = slice(first, first + _TARGETS_IN_BLOCK)
            finite = np.isfinite(self.norms[here]) & np.isfinite(self.y[here])
            targets = self.y[here][finite]
            weights = None if self.weights is None else self.weights[here][finite]
            if self.multiplicity is None:
                yield targets, np.ones(targets.size, dtype=np.int64), weights
            else:
                yield targets, self.multiplicity.each[here][finite], weights

    def drawn(self, sample: SecretRows, n_public: int) -> Integers:
        """Ascending indices of the rows of a secret sample's records, one per record."""
        return self.rows_of(sample._among(self.n_rows, n_public))

    def rows_of(self, records: Integers) -> Integers:
        """Row of each record."""
        return records if self.multiplicity is None else self.multiplicity.rows_of(records)

    def sum_over_records(self, sum_over_rows: Callable[[Integers | None], Integers]) -> Integers:
        """A sum over the records, from sums that count each of some rows (None: all) once."""
        if self.multiplicity is None:
            return sum_over_rows(None)
        return self.multiplicity.sum_over_records(sum_over_rows)

    def noisy_batch_sums(self, sums: NoisyBatches, n_threads: int) -> Callable[[Array], Array]:
        """A function of weights that returns the next sum at each call."""
        in_turn = None
        if self.multiplicity is None:
            in_turn = sums.batches._draws_in_turn(max(self.n_rows, sums.n_public))
        samples = in_turn or (self.drawn(rows, sums.n_public) for rows in sums.batches)
        return NoisyBatchSums(self, sums, n_threads, samples)

    def descend(self, steps: DescentSteps) -> None:
        """Make steps of stochastic gradient descent, in place."""
        if self.multiplicity is not None:
            steps = replace(steps, order=self.rows_of(steps.order))
        super().descend(steps)
