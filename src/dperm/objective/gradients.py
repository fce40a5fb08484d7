"""Sums of clipped gradients, also in the coordinates of a public transform."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._cached import cached_property
from dperm._kernels.samplers import GaussianDraw
from dperm.data.passes import ClippedGradientSum, NoisyBatches
from dperm.data.passes_per_row import ImageNorms, ScaledNorms
from dperm.objective import moments
from dperm.objective.arguments import clip_bound, upper_bound
from dperm.objective.exact_sums import SumBounds
from dperm.objective.hooks import private_sum
from dperm.objective.objective import INSIDE_BALL, Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.secret_rows import SecretRows, SecretSamples
from dperm.private_values.transform import Transform

Array = NDArray[np.float64]


def check_sums(
    objective: Objective,
    clip: float | None = None,
    radius: float = math.inf,
    *,
    loss_clip: float | None = None,
    gram: bool = False,
    target_factor: float = 0.0,
    columns: bool = False,
) -> None:
    """Raise ValueError unless the private sums that an algorithm needs can be formed.

    To be called before anything is charged: it is fast and reads public numbers alone (``n_public``, the
    shape of the weights, the dtype of the rows, the loss, ``row_norm``, and the memory of this machine).
    Sums with these arguments will not be refused for their grid or their bounds, nor matrices for their
    memory. Missing arguments are not checked.

    Parameters
    ----------
    clip, radius : float
        For `clipped_gradient_sum` and samples.
    loss_clip : float
        For `clipped_loss_sums`.
    gram : bool
        For `gram_sum` or `regression_sums` with this `target_factor`, or `mapped_gradient_sum`.
    columns : bool
        For `column_sums` and `column_squares`.

    Examples
    --------
    >>> import numpy as np
    >>> wide = Objective("logistic", np.zeros((1, 2000)), [1], n_public=2**46)
    >>> check_sums(wide, clip=1.0)
    Traceback (most recent call last):
        ...
    ValueError: the grid is too coarse for exact sums of n_public = 70368744177664 records and 2000 ...
    """
    if clip is not None:
        objective._exact.gradients(clip_bound(clip), upper_bound("radius", radius))
    if loss_clip is not None:
        objective._exact.losses(clip_bound(loss_clip, "loss_clip"))
    moments.check_sums(objective, gram, target_factor, columns)


@private_sum
def clipped_gradient_sum(
    objective: Objective,
    w: ArrayLike,
    clip: float,
    *,
    radius: float = math.inf,
    rows: SecretRows | None = None,
    keep_predictions: bool = False,
) -> Bounded:
    """``sum_i g_i min(1, clip / ||g_i||)``, ``g_i`` the gradient of record i's loss (no ridge term).

    Exact integers on a grid that depends on ``n_public``, ``clip`` and the dtype alone. A record's
    integers depend on that record, ``w`` and ``clip`` alone, and form a vector of norm at most
    ``clip``, rounding included.

    Parameters
    ----------
    w : array_like
        Finite weights, of the objective's shape.
    clip : float
        Positive bound on the norm of one record's gradient.
    radius : float
        Public bound on ``||w||``. If all gradients on that ball are shorter than ``clip``, the
        sensitivity is tightened to that of the loss.
    keep_predictions : bool
        Keep the predictions, 8 bytes a record, for line searches from `w`: see `clipped_loss_sums`.
    rows : SecretRows, optional
        Sum over these records only; their contributions are the same as in the full sum. The sensitivity
        is that of a record in the sample, and twice that under replace_one, as the accounting assumes.

    Returns
    -------
    Bounded
        Of the weights' shape, whatever the sample; sensitivity ``clip`` (add_or_remove) or ``2 clip``
        (replace_one), or less with a ``radius``.

    Raises
    ------
    DataError
        For more records than ``n_public`` and a sample of fixed size.

    Examples
    --------
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
    >>> release_without_privacy(clipped_gradient_sum(objective, [0.0, 0.0], clip=0.3)).round(3)
    array([-0.25, -0.3 ])
    """
    weights = objective._weights(w, "w")
    bounds = objective._bounds(clip, radius, weights)
    batch = None if rows is None else objective._rows.drawn(rows, objective.n_public)
    keeps = keep_predictions and rows is None and weights.ndim == 1
    sums = ClippedGradientSum(
        objective.loss.kernel, weights, bounds.inner_clip, bounds.grid, batch, keep_predictions=keeps
    )
    if rows is None:
        return bounds.of(objective._run(sums))
    integers = objective._rows.run(sums, objective._threads_of_sample(rows.rate))
    return Bounded(integers, grid=bounds.grid, add_or_remove=bounds.clip)


def batch_sum_bounds(
    objective: Objective, clip: float, radius: float = math.inf, transform: Transform | None = None
) -> tuple[float, float]:
    """Public: largest norm of a record's contribution to :func:`clipped_gradient_sum`, and the grid.

    With a map, those of :func:`mapped_gradient_sum`.
    """
    if transform is None:
        bounds = objective._bounds(clip, radius)
        return bounds.clip, bounds.grid
    bounds, _ = mapped_by(objective, transform).bounds(clip)
    return bounds.clip, bounds.grid * transform.grid


def noisy_batch_sums(
    objective: Objective,
    batches: SecretSamples,
    noise: GaussianDraw,
    steps: int,
    clip: float,
    radius: float,
    transform: Transform | None,
) -> Callable[[Array], Array] | None:
    """A function of the weights that gives :func:`clipped_gradient_sum` over the next batch plus noise.

    With a map, to :func:`mapped_gradient_sum`. To be called `steps` times, by mechanisms that have
    charged for it. None for records that this process does not hold together.
    """
    bounds = objective._bounds(clip, radius)
    sums = NoisyBatches(
        objective.loss.kernel,
        bounds.inner_clip,
        bounds.grid,
        batches,
        objective.n_public,
        noise,
        steps,
        longest=float(radius) * INSIDE_BALL,
    )
    if transform is not None:
        sums = mapped_by(objective, transform).noisy_batches(sums, clip)
    return objective._rows.noisy_batch_sums(sums, objective._threads_of_sample(batches.rate))


@private_sum
def mapped_gradient_sum(
    objective: Objective,
    w: ArrayLike,
    clip: float,
    transform: Transform,
    *,
    rows: SecretRows | None = None,
    keep_predictions: bool = False,
) -> Bounded:
    """``sum_i A g_i min(1, clip / ||A g_i||)`` for a public ``A``: gradients clipped there.

    These are the gradients in the coordinates ``u`` of ``w = A^T u``; for softmax ``w`` and ``u`` have a
    column per class. Norms of the rows' images are computed in the first call for a matrix; each further
    call costs one pass.

    Parameters
    ----------
    w : array_like
        Finite weights of shape `shape`, in the coordinates of the data.
    clip : float
        Positive bound on the norm of the image of one record's gradient.
    transform : Transform
        Public and invertible, of shape ``(shape[0], shape[0])``.
    rows, keep_predictions : optional
        As for `clipped_gradient_sum`; rows for a diagonal matrix only.

    Returns
    -------
    Bounded
        Of the weights' shape; a record contributes entries of norm at most ``clip``, plus the rounding
        of the image.
    """
    clip, seen = clip_bound(clip), mapped_by(objective, transform)
    return seen.clipped_sum(objective._weights(w, "w"), clip, rows, keep_predictions=keep_predictions)


def mapped_by(objective: Objective, transform: Transform) -> MappedGradients:
    """The records in these coordinates; those of the last transform are kept, with their norms."""
    last = objective._mapped
    if not isinstance(last, MappedGradients) or last.transform is not transform:
        last = objective._mapped = MappedGradients(objective, transform)
    return last


class MappedGradients:
    """The records of an objective with every row ``z`` replaced by ``A z``, without a copy of the data.

    In the coordinates ``u`` of ``w = A^T u`` a record's gradient is ``A g``. It is clipped by its norm there,
    for which the norms ``||A z_i||`` are computed once, and the private sum is ``A sum_i s_i z_i``: one pass
    over the original data, then an exact product with a public matrix.

    With several predictions ``w`` and ``g`` are matrices, of a column for each. ``A`` must be square, public
    and far from singular.
    """

    def __init__(self, objective: Objective, transform: Transform) -> None:
        if not isinstance(transform, Transform) or not transform.grid:
            raise TypeError(f"transform must be a Transform on a grid, got {transform!r}")
        d = objective.shape[0]
        if transform.shape != (d, d):
            raise ValueError(f"transform must have shape ({d}, {d}), got {transform.shape}")
        self.transform = transform
        self._objective = objective
        self._largest, self._smallest = self.transform.singular_values
        if not self._smallest > 2.0**-20 * self._largest:
            raise ValueError("transform is too close to singular: its condition number exceeds 2^20")

    @cached_property
    def _clip_norms(self) -> Any:
        return self._lengths(for_batches=False)

    @cached_property
    def _clip_norms_of_batches(self) -> Any:
        return self._lengths(for_batches=True)

    def _lengths(self, for_batches: bool) -> Any:
        """Private upper bounds on ``||A (x_i, 1)||`` for the unscaled rows.

        For a non-diagonal matrix ``z_i`` is rounded to integers of up to 21 bits, so that its product with
        the integer matrix is exact. The effect of that rounding, at most ``||A|| grid/2 sqrt(d)``, is added.
        """
        objective, d = self._objective, self._objective.shape[0]
        if self.transform.is_diagonal:
            return objective._run(ScaledNorms(self.transform.values, objective.row_norm, for_batches))
        if for_batches:
            raise TypeError("sums over batches are mapped by a diagonal transform only")
        grid = math.ldexp(1.0, math.frexp(objective.row_norm)[1] - 20)
        columns = np.zeros((d, -(-d // 16) * 16))
        columns[:, :d] = self.transform.integers.T
        return objective._run(
            ImageNorms(
                row_norm=objective.row_norm,
                grid=grid,
                matrix=columns,
                unit=grid * self.transform.grid * (1.0 + 2.0**-40),
                displacement=self._largest * 0.5 * grid * math.sqrt(d) * (1.0 + 2.0**-20),
                largest=self._largest,
                smallest=self._smallest,
            )
        )

    def bounds(self, clip: float) -> tuple[SumBounds, float]:
        """Bounds of sums of gradients clipped by their images, and of a record's own gradient."""
        return self._objective._exact.mapped_gradients(clip, self._largest, self._smallest)

    def clipped_sum(
        self, weights: Array, clip: float, rows: SecretRows | None = None, *, keep_predictions: bool = False
    ) -> Bounded:
        """See :func:`mapped_gradient_sum`."""
        objective, kernel = self._objective, self._objective.loss.kernel
        bounds, longest = self.bounds(clip)
        objective._check_overflow(objective._exact.finest)
        sums = ClippedGradientSum(kernel, weights, bounds.inner_clip, bounds.grid)
        if rows is None:
            sums = replace(sums, clip_norms=self._clip_norms, keep_predictions=keep_predictions)
            integers = objective._run(sums)
        else:
            batch = objective._rows.drawn(rows, objective.n_public)
            sums = replace(sums, clip_norms=self._clip_norms_of_batches, batch=batch)
            integers = objective._rows.run(sums, objective._threads_of_sample(rows.rate))
        mapped = Bounded(integers, grid=bounds.grid, add_or_remove=longest).mapped(
            self.transform, add_or_remove=bounds.clip
        )
        self._check_overflow(bounds.clip / mapped.grid)
        return mapped

    def noisy_batches(self, batches: NoisyBatches, clip: float) -> NoisyBatches:
        """Batches whose gradients are clipped by their images, with noise added to the images of the sums."""
        assert self.transform.is_diagonal
        bounds, _ = self.bounds(clip)
        self._check_overflow(bounds.clip / (bounds.grid * self.transform.grid))
        return replace(
            batches,
            inner_clip=bounds.inner_clip,
            grid=bounds.grid,
            clip_norms=self._clip_norms_of_batches,
            exponents=np.repeat(self.transform.exponents, self._objective.loss.n_classes or 1),
            result_grid=bounds.grid * self.transform.grid,
        )

    def _check_overflow(self, steps_of_record: float) -> None:
        if self._objective._n_rows * steps_of_record > 2.0**62:
            raise self._objective._far_more_records()
