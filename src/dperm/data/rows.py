"""The records of an objective: one protocol for every representation of the design matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.row_kernels import DenseRows, NoisyBatchSums
from dperm._kernels.samplers import GaussianDraw
from dperm.data.counts import RecordCounts
from dperm.data.targets import Targets
from dperm.errors import DataError
from dperm.private_values.secret_rows import SecretRows, SecretSamples

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
LossSpec = tuple[int, float, float]  # see Loss.kernel

NON_FINITE_POLICIES = ("raise", "zero")


@dataclass(frozen=True)
class RowSettings:
    """How an objective sees its records; public.

    Attributes
    ----------
    fit_intercept : bool
        Append an implicit column of ones.
    row_norm : float
        Longer rows are scaled onto it.
    non_finite : {"raise", "zero"}
    n_threads : int or None
    targets : Targets
    counts : RecordCounts or None
        How many records each row stands for; None: one. Not public. `rows_of` leaves rows that stand for
        none out before a representation sees them.
    first_row : int
        Number of the first record, for messages: these rows may be a part of a data set.
    """

    fit_intercept: bool
    row_norm: float
    non_finite: str
    n_threads: int | None
    targets: Targets
    counts: RecordCounts | None = None
    first_row: int = 0

    def __post_init__(self) -> None:
        if self.non_finite not in NON_FINITE_POLICIES:
            raise ValueError(f"non_finite must be one of {NON_FINITE_POLICIES}, got {self.non_finite!r}")

    def counts_of(self, n_rows: int) -> RecordCounts | None:
        """The counts of that many rows; None where each row is one record."""
        if self.counts is None:
            return None
        if self.counts.each.size != n_rows:
            raise DataError(
                f"counts must have one number per row of X, shape ({n_rows},), got shape "
                f"{self.counts.each.shape}"
            )
        return None if (self.counts.each == 1).all() else self.counts


@dataclass(frozen=True)
class RowImages:
    """Lengths of the rows' images under a public matrix ``A``, from integer rows and an integer matrix.

    Attributes
    ----------
    row_norm, grid : float
        Rows are scaled onto ``row_norm`` and rounded to ``grid``.
    columns : ndarray
        The integer matrix as ``norms_through`` of ``kernel_table.h`` wants it.
    unit : float
        One unit of the integer products, room for the error of their norm included.
    moved : float
        By how much rounding a row may move its image.
    largest, smallest : float
        Singular values of ``A``.
    """

    row_norm: float
    grid: float
    columns: Array
    unit: float
    moved: float
    largest: float
    smallest: float

    def lengths(self, products: Array, norms: Array) -> Array:
        """At least ``||A (x_i, 1)||`` for the unscaled rows; private. Overwrites `products`."""
        products *= self.unit
        products += self.moved
        # Rows so long that the factor that scales them loses digits: the bound that needs none.
        products[norms > self.row_norm * 2.0**900] = self.largest * self.row_norm * (1.0 + 2.0**-20)
        with np.errstate(over="ignore", invalid="ignore"):  # rows that are not finite do not count
            products *= np.maximum(1.0, norms / self.row_norm)
            return np.maximum(products, self.smallest * norms)


class Rows(Protocol):
    """Records as an objective reads them. Sums are exact integers that depend on the records alone: not on
    the representation, the order of rows, chunks or threads.

    Passes are documented at ``kernel_table.h``; ``loss_spec`` is ``Loss.kernel``, ``w`` has the shape of the
    weights.
    """

    @property
    def n_rows(self) -> int:
        """Number of records; private unless declared public."""

    @property
    def n_columns(self) -> int:
        """Number of columns, without the intercept."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the arithmetic: float32 or float64. It decides on the grid."""

    @property
    def n_entries(self) -> int:
        """Numbers that a pass reads, which decides on the number of threads."""

    @property
    def n_partitions(self) -> int:
        """Number of partitions that workers of a cluster hold; 0 for records that this process reads.

        Partitions have no order of single records across them: `sgd_steps` and samples of a fixed size are
        not to be had.
        """

    def label_sum(self) -> int:
        """Sum of the labels of the finite records."""

    def class_counts(self, n_classes: int) -> Integers:
        """Finite records of each class."""

    def drawn(self, sample: SecretRows, n_public: int) -> Any:
        """The records of a secret sample, as ``clipped_gradient_sum`` takes them for a `batch`."""

    def mapped_lengths(self, images: RowImages, n_threads: int) -> Any:
        """Lengths of the rows' images, as ``clipped_gradient_sum`` takes them for `clip_norms`."""

    def clipped_gradient_sum(
        self,
        loss_spec: LossSpec,
        w: Array,
        clip_in: float,
        grid: float,
        n_threads: int,
        batch: Any = None,
        clip_norms: Any = None,
        keep_predictions: bool = False,
    ) -> Integers:
        """Clipped gradients in units of the grid."""

    def noisy_batch_sums(
        self,
        loss_spec: LossSpec,
        clip_in: float,
        grid: float,
        n_threads: int,
        batches: SecretSamples,
        n_public: int,
        noise: GaussianDraw,
        steps: int,
        longest: float,
    ) -> Callable[[Array], Array] | None:
        """Clipped gradients of one batch after the other with `noise`, `steps` times; see `NoisyBatchSums`.

        None for rows in several parts.
        """

    def gradient_sum(
        self, loss_spec: LossSpec, w: Array, n_threads: int, with_loss: bool = True, precise: bool = False
    ) -> tuple[Array, float]:
        """Plain sums of gradients and losses."""

    def clipped_loss_sums(
        self,
        loss_spec: LossSpec,
        w: Array,
        direction: Array,
        steps: Array,
        clip: float,
        grid: float,
        n_threads: int,
    ) -> Integers:
        """Clipped losses along a line."""

    def coordinate_loss_sums(
        self, loss_spec: LossSpec, w: Array, stride: float, clip: float, grid: float, n_threads: int
    ) -> Integers:
        """Changes of the losses at the neighbours of `w` along the axes."""

    def gram_sum(
        self,
        loss_spec: LossSpec,
        w: Array | None,
        bound_in: float,
        grid: float,
        target_factor: float,
        n_threads: int,
        upper: bool = False,
    ) -> Integers:
        """Upper triangle of the sum of outer products."""

    def moment_sums(self, bound_in: float, grid: float, clip: float, n_threads: int) -> Integers:
        """Sums of entries, and of squares clipped row by row."""

    def predictions(self, w: Array, n_threads: int) -> Array:
        """Linear predictions, one per row."""

    def sgd_steps(
        self,
        loss_spec: LossSpec,
        settings: tuple[float, float, float, float, int, float],
        w: Array,
        w_sum: Array | None,
        order: Integers,
        batch_ends: Integers,
        step_sizes: Array,
        noise: Integers | Array | None,
    ) -> None:
        """Steps of stochastic gradient descent on `w`, in place."""


class RowSource(Protocol):
    """A design matrix that is no array, and knows how an objective reads it."""

    def rows(self, y: ArrayLike | None, settings: RowSettings) -> Rows:
        """The records with targets `y`; None where the source holds them."""


def is_source(X: Any) -> TypeGuard[RowSource]:
    """Whether `X` is a source by its class: a data frame with a column called "rows" is none."""
    return callable(getattr(type(X), "rows", None))


class RowsInMemory:
    """What `Rows` that hold all targets and norms have in common, beside the kernels' passes."""

    y: NDArray[Any]
    norms: Array
    norms_through: Any
    n_partitions = 0
    _counts: RecordCounts | None = None

    def stand_for(self, counts: RecordCounts | None) -> None:
        """Let each row stand for as many records as `counts` says, which the kernels know, too."""
        self._counts = counts

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return int(self.y.size) if self._counts is None else self._counts.n_records

    def label_sum(self) -> int:
        """Sum of the labels of the finite records."""
        return int(np.dot(*self._finite_targets()))

    def class_counts(self, n_classes: int) -> Integers:
        """Finite records of each class."""
        codes, counts = self._finite_targets()
        return np.bincount(codes, weights=counts, minlength=n_classes).astype(np.int64)  # exact below 2^53

    def _finite_targets(self) -> tuple[Integers, Integers]:
        """Targets of the finite rows, which are whole numbers, and how many records have them."""
        finite = np.isfinite(self.norms) & np.isfinite(self.y)
        targets = self.y[finite].astype(np.int64)
        return targets, np.ones_like(targets) if self._counts is None else self._counts.each[finite]

    def drawn(self, sample: SecretRows, n_public: int) -> Integers:
        """Ascending indices of the rows of a secret sample's records, one per record."""
        return self._rows_of(sample._among(self.n_rows, n_public))

    def _rows_of(self, records: Integers) -> Integers:
        return records if self._counts is None else self._counts.rows_of(records)

    def noisy_batch_sums(
        self,
        loss_spec: LossSpec,
        clip_in: float,
        grid: float,
        n_threads: int,
        batches: SecretSamples,
        n_public: int,
        noise: GaussianDraw,
        steps: int,
        longest: float,
    ) -> Callable[[Array], Array]:
        """Clipped gradients of one batch after the other with noise."""
        own_rows = self._counts is None
        samples = batches._draws_in_turn(max(self.n_rows, n_public)) if own_rows else None
        sums = SimpleNamespace(
            loss_spec=loss_spec, inner_clip=clip_in, grid=grid, noise=noise, steps=steps, longest=longest
        )
        in_turn = samples or (self.drawn(rows, n_public) for rows in batches)
        return NoisyBatchSums(cast(DenseRows, self), sums, n_threads, in_turn)

    def mapped_lengths(self, images: RowImages, n_threads: int) -> Array:
        """Lengths of the rows' images."""
        products = self.norms_through(2.0 * images.row_norm, images.grid, images.columns, n_threads)
        return images.lengths(products, self.norms)

    def gram_sum(self, *arguments: Any) -> Integers:
        """Upper triangle of the sum of outer products."""
        return self._sum_over_records(super().gram_sum, arguments)  # type: ignore[misc]

    def moment_sums(self, *arguments: Any) -> Integers:
        """Sums of entries, and of squares clipped row by row."""
        return self._sum_over_records(super().moment_sums, arguments)  # type: ignore[misc]

    def _sum_over_records(self, kernel: Callable[..., Integers], arguments: tuple[Any, ...]) -> Integers:
        """The sum of a kernel that counts every row, or every row of a batch, once."""
        if self._counts is None:
            return kernel(*arguments)
        return self._counts.sum_over_records(lambda rows: kernel(*arguments, batch=rows))

    def sgd_steps(
        self,
        loss_spec: LossSpec,
        settings: tuple[float, float, float, float, int, float],
        w: Array,
        w_sum: Array | None,
        order: Integers,
        batch_ends: Integers,
        step_sizes: Array,
        noise: Integers | Array | None,
    ) -> None:
        """Steps of stochastic gradient descent on `w`, in place."""
        super().sgd_steps(  # type: ignore[misc]
            loss_spec, settings, w, w_sum, self._rows_of(order), batch_ends, step_sizes, noise
        )


def sums_of_models(
    rows: Rows,
    loss_spec: LossSpec,
    w: Array,
    clips_in: Array,
    grids: Array,
    n_threads: int,
    folds: NDArray[np.int32] | None,
    left_out: NDArray[np.int32],
    n_public: int,
) -> list[Integers]:
    """Clipped gradient sums at ``w[0], w[1], ..``: in one pass where the rows have one, else one by one.

    Rows that come in parts have each part add to all sums.

    Record i adds nothing to the sums k whose ``left_out[k]`` is ``folds[i]``. See ``clipped_gradient_sums``
    of ``kernel_table.h``.
    """
    kernels: Any = rows
    if (in_parts := getattr(rows, "sums_of_models", None)) is not None:
        return list(in_parts(loss_spec, w, clips_in, grids, n_threads, folds, left_out))
    several = len(w) > 1 or folds is not None
    in_one_pass = w.ndim == 2 and getattr(rows, "clipped_gradient_sums", None) is not None
    if several and in_one_pass and (folds is None or folds.size == kernels.y.size):  # a fold for each row
        return list(kernels.clipped_gradient_sums(loss_spec, w, clips_in, grids, n_threads, folds, left_out))
    sums = []
    for k, (weights, clip_in, grid) in enumerate(zip(w, clips_in, grids, strict=True)):
        batch = None if folds is None else rows.drawn(_outside(folds, int(left_out[k])), n_public)
        sums.append(rows.clipped_gradient_sum(loss_spec, weights, clip_in, grid, n_threads, batch))
    return sums


def _outside(folds: NDArray[np.int32], fold: int) -> SecretRows:
    """The records that are not in a fold."""

    def draw(start: int, stop: int) -> Integers:
        return start + np.flatnonzero(folds[start:stop] != fold)

    return SecretRows(draw, 1.0)
