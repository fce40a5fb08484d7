"""The empirical risk of a linear model on a data set, and its private sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.samplers import GaussianDraw
from dperm.data.passes import ClippedGradientSum, NoisyBatches
from dperm.losses import Loss
from dperm.objective.arguments import check_memory, clip_bound, upper_bound
from dperm.objective.descents import Descents
from dperm.objective.empirical_risk import INSIDE_BALL
from dperm.objective.loss_sums import LossSums
from dperm.objective.mapped_gradients import MappedGradients
from dperm.objective.weighted_images import WeightedImageSums
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import DiagonalMap, LinearMap
from dperm.private_values.secret_rows import SecretRows, SecretSamples

Array = NDArray[np.float64]


class Objective(WeightedImageSums, LossSums, Descents):
    """``F(w) = (1/N) sum_i loss(<w, z_i>, y_i) + l2/2 ||w||^2`` over records ``(z_i, y_i)``.

    ``z_i`` is row ``i`` of ``X``, with a 1 appended (never stored) for ``fit_intercept``, scaled down to
    ``row_norm`` if longer. The matrix is read in place and must not change during the objective's lifetime.

    Parameters
    ----------
    loss : str or Loss
        An instance of :class:`dperm.losses.Loss`, or a name for its default parameters: "logistic", "hinge",
        "huberized_hinge", "squared_hinge", "soft_margin" and "sigmoid" for labels; "huber", "absolute",
        "pinball", "epsilon_insensitive", "power", "welsch" and "tukey" for real targets; "softmax" with
        `n_classes` for class codes.
    X : (n_samples, n_columns) array_like, or a sparse matrix or array of scipy
        float32 or float64 in C order, or in canonical CSR form (indices sorted, none twice), is read in
        place; anything else is copied once, with a CopyWarning. A Dask array or data frame of numbers is
        read by the workers that hold its partitions (`y` in the same ones).
    y : (n_samples,) array_like
        -1 or +1 for classification losses, codes ``0 .. n_classes - 1`` for softmax, real numbers for
        regression, clipped to the loss's ``target_bound``.
    l2 : float
        Strength of the ridge term, on the scale of the mean loss; at least 0.
    row_norm : float
        Public bound ``R``, from 2^-256 to 2^1000, on the norm of a row, intercept included; longer rows are
        scaled down to it.
    fit_intercept : bool
        Append an implicit column of ones. Weights then have ``n_columns + 1`` rows, intercept last.
    n_threads : int, optional
        Threads of a pass, which do not affect the result. None or -1: all that the process may use.
    penalize_intercept : bool
        Whether the ridge term covers the intercept.
    non_finite : {"raise", "zero"}
        Treatment of records with NaN or infinity: an error for the data holder before anything is charged,
        or a contribution of exactly 0, silently.
    n_public : int, optional
        The public number ``N`` that sums are divided by. By default the number of records, which is thereby
        declared public.
    n_classes : int, optional
        Public number of classes, for ``loss="softmax"``. Weights then have one column per class.
    counts : (n_samples,) array_like of int, optional
        How many identical records each row of `X` and `y` stands for, as :func:`dperm.data.aggregate`
        returns them; 0 for none. Sums, samples, sensitivities and the number of records are those of the
        data with every row repeated that often: neighbouring data differ in one record, not in one row.
    weights : (n_samples,) array_like, optional
        Factors of the records' losses, for rows in memory; private data. Weights are silently clipped to
        ``[0, weight_bound]``, and NaN counts as 0. Gradients and losses are clipped after weighting, sampling
        ignores weights, and sums are divided by ``n_public``.
    weight_bound : float
        Public bound on `weights`.
    class_weight : mapping or "private", optional
        Public positive weights by target, -1 and +1 or class codes; 1 for missing ones. "private": a fit
        first releases noisy class frequencies, and weights the classes inversely.

    Raises
    ------
    ValueError
        For an argument out of range.
    DataError
        For unusable data; a subclass of ValueError, for the holder of the data.

    Examples
    --------
    >>> objective = Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
    >>> round(objective.value([1.0, 1.0]), 4)  # exact, not private
    0.3937
    >>> objective.clipped_gradient_sum([1.0, 1.0], clip=0.5).sensitivity("replace_one")
    1.0
    """

    _mapped: MappedGradients | None = None  # gradients in the coordinates of the last matrix

    def _use(self, loss: Loss) -> None:
        super()._use(loss)
        self._mapped = None

    def check_sums(
        self,
        clip: float | None = None,
        radius: float = math.inf,
        *,
        loss_clip: float | None = None,
        gram: bool = False,
        target_factor: float = 0.0,
        hessian_clip: float | None = None,
        moment_clip: float | None = None,
    ) -> None:
        """Raise ValueError unless the private sums that an algorithm needs can be formed.

        To be called before anything is charged: it is fast and reads public numbers alone (``n_public``, the
        shape of the weights, the dtype of the rows, the loss, ``row_norm``, and the memory of this machine).
        Sums with these arguments will not be refused for their grid, their bounds or their memory. Missing
        arguments are not checked.

        Parameters
        ----------
        clip, radius : float
            For `clipped_gradient_sum` and samples.
        loss_clip : float
            For `clipped_loss_sums`.
        gram : bool
            For `gram_sum` or `regression_sums` with this `target_factor`, or `mapped_gradient_sum`.
        hessian_clip : float
            For `hessian_sum`; infinite for none.
        moment_clip : float
            For `moment_sums`.

        Examples
        --------
        >>> import numpy as np
        >>> wide = Objective("logistic", np.zeros((1, 2000)), [1], n_public=2**46)
        >>> wide.check_sums(clip=1.0)
        Traceback (most recent call last):
            ...
        ValueError: the grid is too coarse for exact sums of n_public = 70368744177664 records and 2000 ...
        """
        check_memory(8.0 * self.dimension * (4 + self._threads()), f"a gradient of {self.dimension} weights")
        if clip is not None:
            self._exact.gradients(clip_bound(clip), upper_bound("radius", radius))
        if loss_clip is not None:
            self._exact.losses(clip_bound(loss_clip, "loss_clip"))
        self._check_second_moments(gram, target_factor, hessian_clip, moment_clip)

    # -- gradients -----------------------------------------------------------------------------------

    def clipped_gradient_sum(
        self,
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
        >>> release_without_privacy(objective.clipped_gradient_sum([0.0, 0.0], clip=0.3)).round(3)
        array([-0.25, -0.3 ])
        """
        weights = self._weights(w, "w")
        bounds = self._bounds(clip, radius, weights)
        batch = None if rows is None else self._rows.drawn(rows, self.n_public)
        keeps = keep_predictions and rows is None and weights.ndim == 1
        sums = ClippedGradientSum(
            self.loss.kernel, weights, bounds.inner_clip, bounds.grid, batch, keep_predictions=keeps
        )
        if rows is None:
            return bounds.of(self._run(sums))
        integers = self._rows.run(sums, self._threads_of_sample(rows.rate))
        return Bounded(integers, grid=bounds.grid, add_or_remove=bounds.clip)

    def _batch_sum_bounds(
        self, clip: float, radius: float = math.inf, linear_map: DiagonalMap | None = None
    ) -> tuple[float, float]:
        """Public: largest norm of a record's contribution to :meth:`clipped_gradient_sum`, and the grid.

        With a map, those of :meth:`mapped_gradient_sum`.
        """
        if linear_map is None:
            bounds = self._bounds(clip, radius)
            return bounds.clip, bounds.grid
        bounds, _ = self._mapped_by(linear_map).bounds(clip)
        return bounds.clip, bounds.grid * linear_map.grid

    def _noisy_batch_sums(
        self,
        batches: SecretSamples,
        noise: GaussianDraw,
        steps: int,
        clip: float,
        radius: float,
        linear_map: DiagonalMap | None,
    ) -> Callable[[Array], Array] | None:
        """A function of the weights that gives :meth:`clipped_gradient_sum` over the next batch plus noise.

        With a map, to :meth:`mapped_gradient_sum`. To be called `steps` times, by mechanisms that have
        charged for it. None for records that this process does not hold together.
        """
        bounds = self._bounds(clip, radius)
        sums = NoisyBatches(
            self.loss.kernel,
            bounds.inner_clip,
            bounds.grid,
            batches,
            self.n_public,
            noise,
            steps,
            longest=float(radius) * INSIDE_BALL,
        )
        if linear_map is not None:
            sums = self._mapped_by(linear_map).noisy_batches(sums, clip)
        return self._rows.noisy_batch_sums(sums, self._threads_of_sample(batches.rate))

    def mapped_gradient_sum(
        self,
        w: ArrayLike,
        clip: float,
        linear_map: LinearMap | DiagonalMap,
        *,
        rows: SecretRows | None = None,
        keep_predictions: bool = False,
    ) -> Bounded:
        """``sum_i A g_i min(1, clip / ||A g_i||)`` for a public ``A``: gradients clipped by their images.

        These are the gradients in the coordinates ``u`` of ``w = A^T u``; for softmax ``w`` and ``u`` have a
        column per class. Norms of the rows' images are computed in the first call for a matrix; each further
        call costs one pass.

        Parameters
        ----------
        w : array_like
            Finite weights of shape `shape`, in the coordinates of the data.
        clip : float
            Positive bound on the norm of the image of one record's gradient.
        linear_map : LinearMap or DiagonalMap
            Public and invertible, of shape ``(shape[0], shape[0])``; for softmax diagonal.
        rows, keep_predictions : optional
            As for `clipped_gradient_sum`; rows for a diagonal matrix only.

        Returns
        -------
        Bounded
            Of the weights' shape; a record contributes entries of norm at most ``clip``, plus the rounding
            of the image.
        """
        clip, seen = clip_bound(clip), self._mapped_by(linear_map)
        return seen.clipped_sum(self._weights(w, "w"), clip, rows, keep_predictions=keep_predictions)

    def _mapped_by(self, linear_map: LinearMap | DiagonalMap) -> MappedGradients:
        if self._mapped is None or self._mapped.map is not linear_map:
            self._mapped = MappedGradients(self, linear_map)
        return self._mapped

    @property
    def largest_condition(self) -> float:
        """Public: condition number up to which `mapped_gradient_sum` loses little to rounding."""
        return self._exact.largest_condition
