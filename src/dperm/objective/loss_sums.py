"""Sums of clipped losses, and of the targets alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.data.passes import (
    ClassCounts,
    ClippedLossSums,
    CoordinateLossSums,
    DistanceCounts,
    LabelSum,
    SlopeSum,
)
from dperm.losses.weighted import unweighted
from dperm.objective.arguments import clip_bound, finite_number, number, real_array
from dperm.objective.empirical_risk import EmpiricalRisk
from dperm.objective.exact_sums import DOUBLE_BITS, SumBounds
from dperm.private_values.bounded import Bounded


class LossSums(EmpiricalRisk):
    """Private sums of an objective's losses and targets."""

    def clipped_loss_sums(self, w: ArrayLike, direction: ArrayLike, steps: ArrayLike, clip: float) -> Bounded:
        """``sum_i min(loss_i(w - a direction), clip)`` for every ``a`` in ``steps``, in one pass.

        Computes two products per row, or one after a `clipped_gradient_sum` at the same `w` that kept its
        predictions; the result is the same, bit for bit.

        Parameters
        ----------
        w, direction : array_like
            Finite weights and direction, of the objective's shape.
        steps : (m,) array_like
            Finite step sizes.
        clip : float
            Positive upper bound on the loss of one record.

        Returns
        -------
        Bounded
            Scores of shape ``(m,)``; each record adds a value in ``[0, clip]`` to each.

        Examples
        --------
        >>> from dperm import Objective
        >>> from dperm.mechanisms import release_without_privacy
        >>> objective = Objective("hinge", [[0.5], [-1.0]], [1, -1])
        >>> release_without_privacy(objective.clipped_loss_sums([0.0], [-1.0], steps=[0.0, 1.0], clip=3.0))
        NOT PRIVATE ([2. , 0.5])
        """
        bounds = self._exact.losses(clip_bound(clip))
        weights = self._weights(w, "w")
        towards = self._weights(direction, "direction")
        candidates = real_array("steps", steps)
        if candidates.ndim != 1 or candidates.size == 0 or not np.isfinite(candidates).all():
            raise ValueError(f"steps must be a non-empty list of finite numbers, got {steps!r}")
        self._check_overflow(self._exact.finest)
        sums = ClippedLossSums(self.loss.kernel, weights, towards, candidates, bounds.inner_clip, bounds.grid)
        return bounds.of(self._run(sums), scores=True)

    def coordinate_loss_sums(
        self, w: ArrayLike, stride: float, clip: float = math.inf, *, intercept_stride: float | None = None
    ) -> Bounded:
        """Change of the sum of losses from `w` to each ``w +- stride e_j``, up to a constant, in one pass.

        A record's change of loss is clipped to ``[-c/2, c/2]``, ``c = min(clip, 2 h L)`` with the larger
        stride h and the Lipschitz constant L of the loss, and counted from ``-c/2``: a selection depends on
        differences between candidates only, whose range is smaller than that of the losses.

        Parameters
        ----------
        w : (dimension,) array_like
            Finite weights.
        stride : float
            Positive.
        clip : float
            Positive upper bound on the range of one record's changes; may be infinite if the loss has a
            Lipschitz constant.
        intercept_stride : float, optional
            Stride along the intercept; by default the same.

        Returns
        -------
        Bounded
            Scores of shape ``(2 dimension + 1,)`` at all ``w + stride e_j``, all ``w - stride e_j``, and
            ``w``; one record adds a value in ``[0, c]`` to each.

        Examples
        --------
        >>> from dperm import Objective
        >>> from dperm.mechanisms import release_without_privacy
        >>> objective = Objective("hinge", [[0.5], [-1.0]], [1, -1])
        >>> release_without_privacy(objective.coordinate_loss_sums([0.0], stride=1.0))  # up is best
        NOT PRIVATE ([0.5, 3.5, 2. ])
        """
        self._refuse_weights("changes of losses along the axes")
        weights = self._weights(w, "w")
        bounds = self._exact.coordinate_losses(stride, number("clip", clip), intercept_stride)
        self._check_overflow(DOUBLE_BITS)
        stride = float(stride)
        of_intercept = stride if intercept_stride is None else float(intercept_stride)
        sums = CoordinateLossSums(
            self.loss.kernel, weights, stride, of_intercept, bounds.inner_clip, bounds.grid
        )
        return bounds.of(self._run(sums), scores=True)

    def label_sum(self) -> Bounded:
        """``sum_i y_i`` over the finite records, shape ``(1,)``; one record contributes -1 or +1.

        Examples
        --------
        >>> from dperm import Objective
        >>> from dperm.mechanisms import release_without_privacy
        >>> objective = Objective("hinge", [[0.5], [-1.0], [0.2]], [1, -1, 1])
        >>> release_without_privacy(objective.label_sum())
        NOT PRIVATE ([1.])
        """
        if not self.loss.classification or self.loss.n_classes is not None:
            raise TypeError(f"the targets of the {self.loss.name} loss are not labels")
        return Bounded(self._run(LabelSum()), grid=1.0, add_or_remove=1.0)

    def slope_sum(self, prediction: float, clip: float) -> Bounded:
        """``sum_i max(-clip, min(loss'(p, y_i), clip))`` over the finite records, shape ``(1,)``.

        The derivative, in the weight of the intercept, of the sum of losses of the same prediction p for
        every record. It ignores the weights of records and classes, and reads nothing but the targets.

        Parameters
        ----------
        prediction : float
            Finite.
        clip : float
            Positive bound on the slope of one record.

        Returns
        -------
        Bounded
            Each record adds a number in ``[-clip, clip]``, a multiple of the grid.

        Raises
        ------
        TypeError
            For softmax, which has one prediction per class.
        ValueError
            If the prediction is not finite, or the clip out of range.

        Examples
        --------
        >>> from dperm import Objective
        >>> from dperm.mechanisms import release_without_privacy
        >>> objective = Objective("squared_error", [[0.5], [-1.0], [0.2]], [1.0, 2.0, 5.0])
        >>> release_without_privacy(objective.slope_sum(2.0, clip=1.0))  # slopes 1, 0 and -3
        NOT PRIVATE ([0.])
        """
        if self.loss.n_classes is not None:
            raise TypeError(f"the {self.loss.name} loss has one prediction per class")
        prediction = finite_number("prediction", prediction)
        bounds = self._slope_bounds(clip)
        self._check_overflow(DOUBLE_BITS)
        sums = SlopeSum(unweighted(self.loss).derivative, prediction, bounds.inner_clip, bounds.grid)
        return bounds.of(self._run(sums))

    def _slope_bounds(self, clip: float) -> SumBounds:
        """Bounds of :meth:`slope_sum`, from public numbers alone."""
        return self._exact.slopes(clip_bound(clip))

    def distance_counts(self, prediction: float, n_bins: int) -> Bounded:
        """Histogram of the distances of the finite records' targets from a prediction, shape ``(n_bins,)``.

        The ends of the bins fall by factors of ``sqrt(2)`` from twice the bound on the targets; the last bin
        counts all smaller distances.

        Parameters
        ----------
        prediction : float
            Finite.
        n_bins : int

        Returns
        -------
        Bounded
            Each record adds 1 to one bin.

        Raises
        ------
        TypeError
            If there is no public bound on the targets.
        ValueError
            If the prediction is not finite.

        Examples
        --------
        >>> from dperm import Objective
        >>> from dperm.losses import Huber
        >>> from dperm.mechanisms import release_without_privacy
        >>> objective = Objective(Huber(target_bound=4.0), [[0.5], [-1.0], [0.2]], [1.0, 2.0, -3.0])
        >>> release_without_privacy(objective.distance_counts(1.0, 8))  # distances 0, 1 and 4
        NOT PRIVATE ([0., 0., 1., 0., 0., 0., 1., 1.])
        """
        if self.loss.classification or self.loss.target_bound == math.inf:
            raise TypeError(f"the targets of the {self.loss.name} loss have no public bound")
        prediction = finite_number("prediction", prediction)
        return _histogram(self._run(DistanceCounts(prediction, 2.0 * self.loss.target_bound, n_bins)))

    def class_counts(self) -> Bounded:
        """Number of finite records of each class, shape ``(n_classes,)``.

        Examples
        --------
        >>> from dperm import Objective
        >>> from dperm.mechanisms import release_without_privacy
        >>> objective = Objective("softmax", [[0.5], [-1.0], [0.2]], [0, 2, 2], n_classes=3)
        >>> release_without_privacy(objective.class_counts())
        NOT PRIVATE ([1., 0., 2.])
        """
        if self.loss.n_classes is None:
            raise TypeError(f"the targets of the {self.loss.name} loss are not class codes")
        return _histogram(self._run(ClassCounts(self.loss.n_classes)))


def _histogram(counts: NDArray[np.int64]) -> Bounded:
    """Counts of records, each in one bin."""
    return Bounded(counts, grid=1.0, add_or_remove=1.0, replace_one=math.sqrt(2.0))  # rounded up
