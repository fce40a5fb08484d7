"""Passes over the records, as values: what each record contributes, its bounds, and the rounding grid.

:meth:`dperm.data.rows.Rows.run` executes a pass, by a method of the compiled `DenseRows`; ``kernel_table.h``
documents what kernels compute. ``loss_spec`` is ``Loss.kernel``, and ``w`` has the shape of the weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.row_kernels import DenseRows
from dperm._kernels.samplers import GaussianDraw
from dperm.private_values.secret_rows import SecretSamples

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
LossSpec = tuple[int, float, float]  # see Loss.kernel


class KernelRows(DenseRows):
    """Records held in the memory of this process as a single block, bound to the compiled kernels."""

    def sum_over_records(self, sum_over_rows: Callable[[Integers | None], Integers]) -> Integers:
        """A sum over all records, from a function that sums over a batch of rows, each counted once."""
        raise NotImplementedError

    def finite_targets(self) -> Iterator[tuple[NDArray[Any], Integers, Array | None]]:
        """Targets, multiplicities and weights (None: 1) of the finite rows, block by block."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False, eq=False)
class Pass:
    """One pass over all records. It has no repr, because a batch is secret.

    By default its result is an exact sum of integers, so partial sums over the records can be added in any
    order.
    """

    #: Whether partial results can be added in any order; else they are combined in the order of the parts.
    exact: ClassVar[bool] = True
    #: What a pass that makes rows dense computes, for the error on wide sparse data; empty for other passes.
    makes_rows_dense: ClassVar[str] = ""

    @property
    def multiplies_rows(self) -> bool:
        """Whether identical records may be read as a single row with a multiplicity, which saves time.

        Sums count a row by its multiplicity; results per row are only for passes over the same rows.
        """
        return False

    def reads_also(self, n_stored: int) -> bool:
        """Whether it can be made over `n_stored` rows that represent the same records."""
        return True

    def over_part(self, here: slice) -> Self:
        """The same pass, restricted to consecutive records."""
        return self

    def over_rows(self, rows: KernelRows, n_threads: int) -> Any:
        """Execute the pass on rows in memory."""
        raise NotImplementedError

    def combined(self, results: Iterator[Any]) -> Any:
        """The result, from the results of consecutive parts of the records."""
        total = next(results)
        for each in results:
            total += each
        return total


@dataclass(frozen=True, repr=False, eq=False)
class ClippedGradientSum(Pass):
    """Sum of clipped gradients, in units of the grid.

    Attributes
    ----------
    inner_clip : float
        Bound on a gradient's norm before rounding.
    batch : ascending indices of records, or their equivalent on the workers of a cluster; None for all.
    clip_norms : result of the pass `ImageNorms`, to use instead of the row norms; or None.
    keep_predictions : bool
        Keep the products of the rows and `w` for line searches.
    """

    loss_spec: LossSpec
    w: Array
    inner_clip: float
    grid: float
    batch: Any = None
    clip_norms: Any = None
    keep_predictions: bool = False

    @property
    def multiplies_rows(self) -> bool:
        """Unless there is a batch."""
        return self.batch is None

    def reads_also(self, n_stored: int) -> bool:
        """Unless there are norms for other rows."""
        return self.clip_norms is None or len(self.clip_norms) == n_stored

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """The sum."""
        return rows.clipped_gradient_sum(
            self.loss_spec,
            self.w,
            self.inner_clip,
            self.grid,
            n_threads,
            batch=self.batch,
            clip_norms=self.clip_norms,
            keep_predictions=self.keep_predictions,
        )

    def over_part(self, here: slice) -> ClippedGradientSum:
        """The same for consecutive records, without keeping predictions: parts are short-lived."""
        batch = None if self.batch is None else share_of(self.batch, here)
        clip_norms = None if self.clip_norms is None else self.clip_norms[here]
        return replace(self, batch=batch, clip_norms=clip_norms, keep_predictions=False)


@dataclass(frozen=True, repr=False, eq=False)
class GradientSum(Pass):
    """Sums of gradients and losses in floating point: the last bits depend on the parts.

    Attributes
    ----------
    inner_clip : float
        Bound on a gradient's norm; infinite for softmax.
    with_loss : bool
        Whether to sum the losses; otherwise their sum is returned as 0.
    precise : bool
        Compute in double precision also for float32 rows; for losses of one prediction.
    """

    exact = False
    loss_spec: LossSpec
    w: Array
    inner_clip: float = math.inf
    with_loss: bool = True
    precise: bool = False

    def over_rows(self, rows: KernelRows, n_threads: int) -> tuple[Array, float]:
        """Both sums."""
        return rows.gradient_sum(
            self.loss_spec,
            self.w,
            n_threads,
            inner_clip=self.inner_clip,
            with_loss=self.with_loss,
            precise=self.precise,
        )

    def combined(self, results: Iterator[tuple[Array, float]]) -> tuple[Array, float]:
        """Compensated sums, whose error does not grow with the number of parts."""
        gradients, losses = zip(*results, strict=True)
        return compensated_sum(gradients), math.fsum(losses)


def compensated_sum(terms: Sequence[Array]) -> Array:
    """Sum of arrays with an error of about one rounding, however many there are (Neumaier 1974)."""
    total, lost = terms[0], np.zeros_like(terms[0])
    for term in terms[1:]:
        with np.errstate(over="ignore", invalid="ignore"):  # sums that overflow are returned as they are
            higher = total + term
            part = higher - total
            lost = lost + ((total - (higher - part)) + (term - part))
        total = higher
    return np.where(np.isfinite(lost), total + lost, total)


@dataclass(frozen=True, repr=False, eq=False)
class ClippedLossSums(Pass):
    """Sums of clipped losses along a line."""

    loss_spec: LossSpec
    w: Array
    direction: Array
    steps: Array
    clip: float
    grid: float
    multiplies_rows = True

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """The sums."""
        line = self.w, self.direction, self.steps
        return rows.clipped_loss_sums(self.loss_spec, *line, self.clip, self.grid, n_threads)


@dataclass(frozen=True, repr=False, eq=False)
class CoordinateLossSums(Pass):
    """Sums of clipped changes in loss from `w` to its neighbours along the axes."""

    makes_rows_dense = "losses at the neighbours of the weights along all axes"
    loss_spec: LossSpec
    w: Array
    stride: float
    clip: float
    grid: float
    multiplies_rows = True

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """The sums."""
        strides = self.stride, self.stride  # along columns and along the intercept
        return rows.coordinate_loss_sums(self.loss_spec, self.w, *strides, self.clip, self.grid, n_threads)


@dataclass(frozen=True, repr=False, eq=False)
class RowsCountedOnce(Pass):
    """A pass whose kernel counts each row, or each row of a batch, once, ignoring multiplicities.

    Summing by binary digits of these reads no more rows than there are records.
    """

    multiplies_rows = True

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """Sum over batches of rows, one for each binary digit of the multiplicities."""
        return rows.sum_over_records(lambda batch: self.over_batch(rows, batch, n_threads))

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """Sum over some rows, None for all."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False, eq=False)
class GramSum(RowsCountedOnce):
    """Upper triangle of the sum of outer products; ``w`` is None for unweighted rows.

    Attributes
    ----------
    target_centre, target_limit : float
        A last column, if `target_factor` is positive, holds it times targets less the centre, clipped to the
        limit.
    columns : (2, width) ndarray or None
        Factors and shifts of the columns, applied before rows are bounded and rounded.
    """

    makes_rows_dense = "the matrix of second moments, or of second derivatives,"
    loss_spec: LossSpec
    w: Array | None
    inner_bound: float
    grid: float
    target_factor: float = 0.0
    target_centre: float = 0.0
    target_limit: float = math.inf
    upper: bool = False
    columns: Array | None = None

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """The triangle."""
        return rows.gram_sum(
            self.loss_spec,
            self.w,
            (self.inner_bound, self.grid),
            n_threads,
            target=(self.target_factor, self.target_centre, self.target_limit),
            upper=self.upper,
            columns=self.columns,
            batch=batch,
        )


@dataclass(frozen=True, repr=False, eq=False)
class MomentSums(RowsCountedOnce):
    """Sums of entries, and of squares clipped row by row."""

    makes_rows_dense = "sums of entries and their squares"
    inner_bound: float
    grid: float
    clip: float
    columns: Array | None = None

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """Both sums, shape ``(2, dimension)``."""
        bounds = self.inner_bound, self.grid, self.clip
        return rows.moment_sums(*bounds, n_threads, columns=self.columns, batch=batch)


@dataclass(frozen=True, repr=False, eq=False)
class NormCounts(RowsCountedOnce):
    """Histogram of the row norms after scaling and shifting columns, in bins of a factor of ``sqrt(2)``."""

    makes_rows_dense = "a histogram of the norms of scaled rows"
    inner_bound: float
    n_bins: int
    columns: Array

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """The counts."""
        return rows.norm_counts(self.inner_bound, self.n_bins, self.columns, n_threads, batch=batch)


@dataclass(frozen=True, repr=False, eq=False)
class MagnitudeCounts(RowsCountedOnce):
    """Histogram of magnitudes in every column, in factors of 2; the counts of a row have norm at most 1."""

    makes_rows_dense = "histograms of the columns"
    inner_bound: float
    grid: float
    n_bins: int

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """The counts, column by column."""
        return rows.magnitude_counts(self.inner_bound, self.grid, self.n_bins, n_threads, batch=batch)


class TargetPass(Pass):
    """A pass that reads nothing but the targets of the finite records."""

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """Sum over blocks of rows."""
        result: Integers = self.combined(itertools.starmap(self.over_targets, rows.finite_targets()))
        return result

    def over_targets(self, targets: NDArray[Any], counts: Integers, weights: Array | None) -> Integers:
        """Sum over some targets, each with its multiplicity and the weight of its record."""
        raise NotImplementedError


#: Grid of the weight of a record in a histogram, as a fraction of the largest: 2^50 records fit.
WEIGHT_GRID = 2.0**-12


@dataclass(frozen=True, repr=False, eq=False)
class TargetCounts(TargetPass):
    """Histogram of the targets: how many are below the first edge, between two, and from the last one on.

    Weighted records count by their weight over the largest, on `WEIGHT_GRID`.
    """

    edges: Array
    largest_weight: float | None = None

    def over_targets(self, targets: NDArray[Any], counts: Integers, weights: Array | None) -> Integers:
        """Sum of multiplicities, or of weights, for each bin."""
        bins = np.searchsorted(self.edges, targets.astype(np.float64), side="right")
        if self.largest_weight is not None:
            fractions = np.ones(len(bins)) if weights is None else np.fmin(weights / self.largest_weight, 1.0)
            counts = np.floor(fractions / WEIGHT_GRID).astype(np.int64) * counts
        totals = np.zeros(len(self.edges) + 1, dtype=np.int64)
        np.add.at(totals, bins, counts)
        return totals


# -- descents, which read the records in their own order ---------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class DescentSettings:
    """Settings shared by all steps of stochastic gradient descent; ``sgd_settings`` of ``sgd_steps.h``.

    Attributes
    ----------
    inner_clip, grid : float
        Bound on a gradient before rounding, and the rounding grid; 0 for no rounding.
    divisor : float
        By which the sum over a batch is divided.
    l2 : float
    n_penalized : int
        Number of weights that the ridge term covers.
    radius : float
        Radius of the ball that iterates are projected onto.
    """

    inner_clip: float
    grid: float
    divisor: float
    l2: float
    n_penalized: int
    radius: float


@dataclass(frozen=True, repr=False, eq=False)
class DescentSteps:
    """Steps of stochastic gradient descent on ``w``, in place; ``sgd_block`` of ``sgd_steps.h``.

    Attributes
    ----------
    w_sum : ndarray or None
        Accumulates the iterates.
    order, batch_ends : ndarray of int64
        Concatenated record indices of the batches, and the end of each batch.
    step_sizes : ndarray
    noise : ndarray or None
        Integers in units of the grid, or doubles; shape (steps, dimension).
    """

    loss_spec: LossSpec
    settings: DescentSettings
    w: Array
    w_sum: Array | None
    order: Integers
    batch_ends: Integers
    step_sizes: Array
    noise: Integers | Array | None


@dataclass(frozen=True, repr=False, eq=False)
class NoisyBatches:
    """Noisy sums of clipped gradients over successive secret batches; see ``NoisyBatchSums``.

    Attributes
    ----------
    batches : SecretSamples
    n_public : int
    noise : GaussianDraw
        Drawn anew for each sum.
    steps : int
        Number of sums.
    longest : float
        Bound on the norm of the weights.
    clip_norms : result of the pass `ScaledNorms`, to use instead of the row norms; or None.
    exponents : ndarray of int64 or None
        Each entry of a sum is multiplied by this power of two before noise is added.
    result_grid : float or None
        Grid of the results; by default that of the sums.
    """

    loss_spec: LossSpec
    inner_clip: float
    grid: float
    batches: SecretSamples
    n_public: int
    noise: GaussianDraw
    steps: int
    longest: float
    clip_norms: Any = None
    exponents: Integers | None = None
    result_grid: float | None = None


def share_of(indices: Integers, here: slice) -> Integers:
    """The ascending indices that lie in a part, relative to its start."""
    first, last = np.searchsorted(indices, [here.start, here.stop])
    return np.asarray(indices[first:last] - here.start)
