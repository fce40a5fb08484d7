"""Stochastic gradient descent on the records of an objective."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dperm.data.passes import DescentSettings, DescentSteps
from dperm.errors import DataError
from dperm.objective.arguments import clip_bound
from dperm.objective.empirical_risk import EmpiricalRisk
from dperm.objective.stochastic_descent import (
    Batches,
    CyclicBatches,
    DescentPlan,
    DescentRun,
    Indices,
    StochasticDescent,
)
from dperm.private_values.bounded import Bounded


class Descents(EmpiricalRisk):
    """Stochastic gradient descent on an objective's records."""

    def sgd_weights(
        self, plan: DescentPlan, order: Indices, *, add_or_remove: float, replace_one: float
    ) -> Bounded:
        """The result of a run without noise: the mean of the iterates if the plan has one, else the last.

        Parameters
        ----------
        plan : DescentPlan
            Batch t holds the next ``plan.batch_size`` records of `order`, which is repeated.
        order : (m,) array of int
            Indices of records below ``n_public``, drawn independently of the data. Records that do not exist
            have no gradient; those from ``n_public`` on are never used.
        add_or_remove, replace_one : float
            Proved sensitivity of the computed weights; see :meth:`Bounded.rounding`.

        Returns
        -------
        Bounded
            Shape ``(dimension,)``.
        """
        last, average = self._descent(plan, plan.clip, 0.0).make(CyclicBatches(order, plan.batch_size))
        weights = last if average is None else average
        return Bounded.rounding(weights, add_or_remove=add_or_remove, replace_one=replace_one)

    def stochastic_descent(self, plan: DescentPlan, batches: Batches) -> StochasticDescent:
        """A run with noise in every step, for :meth:`Releaser.noisy_descent`.

        One record adds a vector of norm at most ``plan.clip`` to the sum over a batch, rounding to the grid
        included: integers as in :meth:`clipped_gradient_sum`, computed in double precision.
        """
        bounds = self._exact.descent_gradients(plan.loss, clip_bound(plan.clip), plan.radius)
        run = self._descent(plan, bounds.inner_clip, bounds.grid)
        return StochasticDescent(run, batches, bounds, whole_sum=lambda: self._sum_at_zero(run))

    def descent_sum_bounds(self, plan: DescentPlan) -> tuple[float, float]:
        """Public: one record's contribution to the sums of :meth:`stochastic_descent`, and their grid."""
        bounds = self._exact.descent_gradients(plan.loss, clip_bound(plan.clip), plan.radius)
        return bounds.clip, bounds.grid

    def _sum_at_zero(self, run: DescentRun) -> NDArray[np.int64]:
        """Sum of all records' gradients at 0 as computed by a run, in units of the grid."""
        settings, w = run.settings, np.zeros(self.dimension)
        self._rows.descend(
            DescentSteps(
                loss_spec=run.plan.loss.kernel,
                settings=DescentSettings(
                    settings.inner_clip, settings.grid, 1.0, 0.0, self.dimension, math.inf
                ),
                w=w,
                w_sum=None,
                order=np.arange(self._n_rows),
                batch_ends=np.array([self._n_rows]),
                step_sizes=np.array([-1.0]),
                noise=None,
            )
        )
        return np.rint(w / settings.grid).astype(np.int64)

    def _descent(self, plan: DescentPlan, inner_clip: float, grid: float) -> DescentRun:
        n_penalized = self.dimension if self.penalize_intercept else self.n_columns
        divisor = float(plan.batch_size)
        settings = DescentSettings(inner_clip, grid, divisor, self.l2, n_penalized, plan.radius)
        return DescentRun(self._rows, plan, settings, dimension=self.dimension, n_threads=self.n_threads)

    def check_places(self) -> None:
        """Raise DataError if batches of fixed size cannot be drawn.

        They are drawn among ``n_public`` places: there must not be more records, nor partitions, whose
        workers draw their own samples.

        Examples
        --------
        >>> import dperm
        >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1], n_public=1)
        >>> objective.check_places()
        Traceback (most recent call last):
            ...
        dperm.errors.DataError: batches of fixed size are drawn among n_public = 1 places; there ...
        """
        if self.n_partitions:
            raise DataError(
                "batches of fixed size are drawn among all records, but the workers that hold the partitions "
                "draw their samples independently: use sampling='poisson', or full batches (noisy_gd)"
            )
        if self._n_rows > self.n_public:
            raise DataError(
                f"batches of fixed size are drawn among n_public = {self.n_public} places; there are more "
                "records. Pass a larger n_public, or use Poisson sampling."
            )
