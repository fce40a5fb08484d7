"""Passes over the records, each a value: what a record contributes, within which bounds, on which grid.

A pass is made by :meth:`dperm.data.rows.Rows.run`. Its fields have the names of the compiled kernel's
arguments; ``kernel_table.h`` documents what kernels compute. ``loss_spec`` is ``Loss.kernel``, ``w`` has the
shape of the weights.

To add a pass, add a class here, its kernels, and the method of :class:`dperm.Objective` that offers it. The
representations of records need no change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import GaussianDraw
from dperm.private_values.secret_rows import SecretSamples

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
LossSpec = tuple[int, float, float]  # see Loss.kernel

_MODELS_PER_VECTOR = 8  # of sums for several models over codes


class KernelRows(Protocol):
    """Records that this process holds in one piece, bound to the compiled kernels."""

    several_models_at_once: bool
    norms: Array

    def call(self, pass_: Pass, n_threads: int) -> Any:
        """Call the kernel of a pass over all rows, or those of its batch."""

    def rows_of(self, records: Integers) -> Integers:
        """Row of each record."""

    def sum_over_records(self, sum_over_rows: Callable[[Integers | None], Integers]) -> Integers:
        """A sum over the records, from sums that count each of some rows once."""

    def finite_targets(self) -> tuple[Integers, Integers]:
        """Targets of the finite rows, which are whole numbers, and how many records have them."""

    @property
    def n_stored(self) -> int:
        """Number of rows, each of which may stand for several records."""


@dataclass(frozen=True, repr=False, eq=False)
class Pass:
    """One pass over all records. It does not print: a batch is secret.

    By default its result is an exact sum: integers, which results of parts of the records add up to in any
    order.
    """

    #: Name of the compiled kernel.
    kernel: ClassVar[str]
    #: Whether results of parts add up in any order; else they are combined in the order of the parts.
    exact: ClassVar[bool] = True
    #: What cannot be had of wide sparse rows, as this pass makes rows dense; empty for a pass that does not.
    makes_rows_dense: ClassVar[str] = ""

    @property
    def multiplies_rows(self) -> bool:
        """Whether it may read one row in place of several identical records, and takes that much less time.

        Its sums count a row as often; what it finds for each row is for passes over the same rows.
        """
        return False

    @property
    def densest_for_codes(self) -> float:
        """Share of nonzero entries of a dense matrix up to which codes in place of them are read faster."""
        return 1.0 / 6.0

    @classmethod
    def arguments(cls) -> tuple[str, ...]:
        """Names of the kernel's arguments."""
        return tuple(each.name for each in fields(cls))

    def over_part(self, here: slice) -> Self:
        """The same pass over consecutive records alone."""
        return self

    def over_rows(self, rows: KernelRows, n_threads: int) -> Any:
        """Make the pass over rows in memory."""
        return rows.call(self, n_threads)

    def combined(self, results: Iterator[Any]) -> Any:
        """The result, from those of consecutive parts of the records."""
        total = next(results)
        for each in results:
            total += each
        return total


@dataclass(frozen=True, repr=False, eq=False)
class ClippedGradientSum(Pass):
    """Clipped gradients in units of the grid.

    Attributes
    ----------
    inner_clip : float
        Bound on a gradient's norm before rounding.
    batch : ascending indices of records, or what workers of a cluster take for them; None for all.
    clip_norms : what the pass `ImageNorms` returned, in place of the norms of the rows; or None.
    keep_predictions : bool
        Keep the products of `w` and the rows for line searches.
    """

    kernel = "clipped_gradient_sum"
    loss_spec: LossSpec
    w: Array
    inner_clip: float
    grid: float
    batch: Any = None
    clip_norms: Any = None
    keep_predictions: bool = False

    @property
    def multiplies_rows(self) -> bool:
        """Without a batch."""
        return self.batch is None

    def over_part(self, here: slice) -> ClippedGradientSum:
        """The same over consecutive records, which do not live long enough to keep predictions."""
        batch = None if self.batch is None else share_of(self.batch, here)
        clip_norms = None if self.clip_norms is None else self.clip_norms[here]
        return replace(self, batch=batch, clip_norms=clip_norms, keep_predictions=False)


@dataclass(frozen=True, repr=False, eq=False)
class ClippedGradientSums(Pass):
    """Clipped gradients at ``w[0], w[1], ..``; record i is not in sum k if ``folds[i] == left_out[k]``."""

    kernel = "clipped_gradient_sums"
    loss_spec: LossSpec
    w: Array
    inner_clips: Array
    grids: Array
    folds: NDArray[np.int32] | None
    left_out: NDArray[np.int32]

    @property
    def multiplies_rows(self) -> bool:
        """Without folds."""
        return self.folds is None

    @property
    def densest_for_codes(self) -> float:
        """A lane holds a model where codes are read: none but for models that nearly fill the vectors."""
        idle_lanes = -len(self.w) % _MODELS_PER_VECTOR
        return 0.0 if idle_lanes > len(self.w) / 8 else 0.5

    def over_part(self, here: slice) -> ClippedGradientSums:
        """The same over consecutive records."""
        return self if self.folds is None else replace(self, folds=self.folds[here])

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """One pass where rows have one for several models and a fold for each row; else model by model."""
        several = len(self.w) > 1 or self.folds is not None
        a_fold_each = self.folds is None or self.folds.size == rows.n_stored
        if rows.several_models_at_once and several and a_fold_each:
            sums: Integers = rows.call(self, n_threads)
            return sums
        return np.stack([self._of_model(k, rows).over_rows(rows, n_threads) for k in range(len(self.w))])

    def _of_model(self, k: int, rows: KernelRows) -> ClippedGradientSum:
        seen = None if self.folds is None else np.flatnonzero(self.folds != self.left_out[k])
        batch = None if seen is None else rows.rows_of(seen)
        return ClippedGradientSum(
            self.loss_spec, self.w[k], float(self.inner_clips[k]), float(self.grids[k]), batch
        )


@dataclass(frozen=True, repr=False, eq=False)
class GradientSum(Pass):
    """Plain sums of gradients and losses, in floating point: the last bits depend on the parts.

    Attributes
    ----------
    with_loss : bool
        Else the loss is 0.
    precise : bool
        In double precision for rows of float32, too; for losses of one prediction.
    """

    kernel = "gradient_sum"
    exact = False
    loss_spec: LossSpec
    w: Array
    with_loss: bool = True
    precise: bool = False

    def combined(self, results: Iterator[tuple[Array, float]]) -> tuple[Array, float]:
        """Sums that no number of parts makes worse."""
        gradients, losses = zip(*results, strict=True)
        return compensated_sum(gradients), math.fsum(losses)


def compensated_sum(terms: Sequence[Array]) -> Array:
    """Sum of arrays, off by about one rounding whatever their number (Neumaier 1974)."""
    total, lost = terms[0], np.zeros_like(terms[0])
    for term in terms[1:]:
        with np.errstate(over="ignore", invalid="ignore"):  # sums that overflow stay what they are
            higher = total + term
            part = higher - total
            lost = lost + ((total - (higher - part)) + (term - part))
        total = higher
    return np.where(np.isfinite(lost), total + lost, total)


@dataclass(frozen=True, repr=False, eq=False)
class ClippedLossSums(Pass):
    """Clipped losses along a line."""

    kernel = "clipped_loss_sums"
    loss_spec: LossSpec
    w: Array
    direction: Array
    steps: Array
    clip: float
    grid: float
    multiplies_rows = True


@dataclass(frozen=True, repr=False, eq=False)
class CoordinateLossSums(Pass):
    """Changes of the losses at the neighbours of `w` along the axes."""

    kernel = "coordinate_loss_sums"
    makes_rows_dense = "losses at the neighbours of the weights along all axes"
    loss_spec: LossSpec
    w: Array
    stride: float
    clip: float
    grid: float
    multiplies_rows = True


@dataclass(frozen=True, repr=False, eq=False)
class RowsCountedOnce(Pass):
    """A pass whose kernel counts each row, or each of a batch, once, whatever its multiplicity."""

    batch: Integers | None = field(default=None, kw_only=True)

    @property
    def multiplies_rows(self) -> bool:
        """By binary digits: no more rows are read than there are records."""
        return self.batch is None

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """Sums over batches of rows, by the binary digits of their multiplicities."""
        return rows.sum_over_records(lambda batch: rows.call(replace(self, batch=batch), n_threads))


@dataclass(frozen=True, repr=False, eq=False)
class GramSum(RowsCountedOnce):
    """Upper triangle of the sum of outer products; ``w`` None for plain rows.

    Attributes
    ----------
    column_scales : ndarray or None
        Factors of the columns, before rows are bounded and rounded.
    """

    kernel = "gram_sum"
    makes_rows_dense = "the matrix of second moments, or of second derivatives,"
    loss_spec: LossSpec
    w: Array | None
    inner_bound: float
    grid: float
    target_factor: float
    upper: bool = False
    column_scales: Array | None = None


@dataclass(frozen=True, repr=False, eq=False)
class MomentSums(RowsCountedOnce):
    """Sums of entries, and of squares clipped row by row."""

    kernel = "moment_sums"
    makes_rows_dense = "sums of entries and their squares"
    inner_bound: float
    grid: float
    clip: float
    column_scales: Array | None = None


@dataclass(frozen=True, repr=False, eq=False)
class NormCounts(RowsCountedOnce):
    """Numbers of rows by the half octave that their norm, with scaled columns, lies in."""

    kernel = "norm_counts"
    makes_rows_dense = "a histogram of the norms of scaled rows"
    inner_bound: float
    n_bins: int
    column_scales: Array


@dataclass(frozen=True, repr=False, eq=False)
class MagnitudeCounts(RowsCountedOnce):
    """Rows by the power of 4 that their entry lies below, for every column; a row's counts have norm 1."""

    kernel = "magnitude_counts"
    makes_rows_dense = "histograms of the columns"
    inner_bound: float
    grid: float
    n_bins: int


@dataclass(frozen=True, repr=False, eq=False)
class LabelSum(Pass):
    """Sum of the labels of the finite records, shape ``(1,)``."""

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """Labels times multiplicities."""
        return np.array([np.dot(*rows.finite_targets())], dtype=np.int64)


@dataclass(frozen=True, repr=False, eq=False)
class ClassCounts(Pass):
    """Finite records of each class."""

    n_classes: int

    def over_rows(self, rows: KernelRows, n_threads: int) -> Integers:
        """Multiplicities, class by class."""
        codes, counts = rows.finite_targets()
        return np.bincount(codes, weights=counts, minlength=self.n_classes).astype(np.int64)  # below 2^53


# -- what reads the records in an order of its own ---------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class DescentSettings:
    """What all steps of stochastic gradient descent have in common; ``sgd_settings`` of ``sgd_steps.h``.

    Attributes
    ----------
    inner_clip, grid : float
        Bound on a gradient before rounding, and what it is rounded to; 0 for no rounding.
    divisor : float
        Of the sum over a batch.
    l2 : float
    n_penalized : int
        Number of weights that the ridge term covers.
    radius : float
        Of the ball that iterates are projected onto.
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
        To which the iterates are added.
    order, batch_ends : ndarray of int64
        Records of the batches one after the other, and where each batch ends.
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
    """Clipped gradient sums over one secret batch after the other, with noise; see ``NoisyBatchSums``.

    Attributes
    ----------
    batches : SecretSamples
    n_public : int
    noise : GaussianDraw
        Made again for each sum.
    steps : int
        Number of sums.
    longest : float
        Bound on the norm of weights.
    clip_norms : what the pass `ScaledNorms` returned, in place of the norms of the rows; or None.
    exponents : ndarray of int64 or None
        Sums are multiplied by these powers of two, entry by entry, before noise is added.
    result_grid : float or None
        Of what comes of it; by default that of the sums.
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
    """Those of ascending indices that lie in a part, counted from its start."""
    first, last = np.searchsorted(indices, [here.start, here.stop])
    return np.asarray(indices[first:last] - here.start)
