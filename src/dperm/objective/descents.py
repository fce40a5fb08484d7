"""Stochastic gradient descent on the records of an objective, opaque until a mechanism releases it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.threads import threads_for
from dperm.accounting.neighbours import Neighbours
from dperm.data.chunked import one_ahead
from dperm.data.passes import DescentSettings, DescentSteps
from dperm.data.rows import Rows
from dperm.errors import DataError
from dperm.losses import Loss
from dperm.objective.arguments import clip_bound
from dperm.objective.exact_sums import SumBounds
from dperm.objective.hooks import private_sum
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded, check_sensitivity
from dperm.private_values.opaque import Unchangeable

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

#: ``rule(first, count)`` gives the sizes of steps ``first + 1 .. first + count``, counted from 1.
StepRule = Callable[[int, int], Array]

#: Noise for ``count`` steps: integers in units of the grid or doubles, shape (count, dimension).
NoiseSource = Callable[[int], NDArray[np.int64] | Array | None]

# Work between two checks for signals: matrix entries read, and noise drawn ahead; milliseconds each.
_ENTRIES_PER_BLOCK = 1 << 22
_DRAWS_PER_BLOCK = {"exact": 1 << 17, "float": 1 << 19, "none": 1 << 62}


class Batches(Protocol):
    """The batches of records of successive steps."""

    #: Time for drawing a batch, in units of the time for reading one matrix entry.
    work_per_step: int

    def take(self, steps: int) -> tuple[Indices, Indices]:
        """Concatenated record indices of the next `steps` batches, and the end of each batch."""


@dataclass(frozen=True)
class DescentPlan:
    """Public settings of a run: ``w <- Proj(w - eta_t (sum_{i in B_t} clip(g_i(w)) / b + l2 w))``."""

    loss: Loss  # the objective's loss, possibly with smoothed kinks
    steps: int  # T
    batch_size: int  # b, the divisor of the sum over a batch, whatever its actual size
    step_size: float | StepRule  # eta_t
    clip: float  # bound on the norm of one record's gradient; infinite for none
    radius: float = math.inf  # of the ball that iterates are projected onto
    average: bool = True  # whether to compute ``(w_1 + .. + w_T) / T`` as well
    start: Array | None = None  # ``w_1``; 0 by default

    def step_sizes(self, first: int, count: int) -> Array:
        """Sizes of `count` steps after the first `first` steps."""
        if callable(self.step_size):
            return self.step_size(first, count)
        return np.full(count, float(self.step_size))


class Descended(NamedTuple):
    """Result of a run."""

    last: Array  # ``w_(T+1)``
    average: Array | None  # ``(w_1 + .. + w_T) / T``, if the plan includes it


class CyclicBatches:
    """Batches of `batch_size` records in a repeated order, without an incomplete last batch."""

    def __init__(self, order: Indices, batch_size: int) -> None:
        self._order = order[: order.size // batch_size * batch_size]
        self._batch_size = batch_size
        self._next = 0
        self.work_per_step = batch_size

    def take(self, steps: int) -> tuple[Indices, Indices]:
        """Return the next batches."""
        places = np.arange(self._next, self._next + steps * self._batch_size) % self._order.size
        self._next = (self._next + steps * self._batch_size) % self._order.size
        return self._order[places].astype(np.int64), np.arange(1, steps + 1) * self._batch_size


class StochasticDescent(Unchangeable):
    """A run of stochastic gradient descent on private records that has not started.

    Like :class:`dperm.Bounded` it reveals nothing about the records. Only
    :meth:`dperm.mechanisms.release.Releaser.noisy_descent` starts the run: it charges all steps, and adds
    noise to the sum of every batch.

    Attributes
    ----------
    plan : DescentPlan
        Public.
    grid : float
        A power of two; clipped gradients are rounded to multiples of it. Public.
    add_or_remove, replace_one : float
        Largest norm of one record's contribution to a batch's sum, rounding included, and largest distance
        between two records' contributions. Public.
    shape : tuple of int
        Shape of the weights. Public.
    """

    _refusal = "a StochasticDescent is private: run it through Releaser.noisy_descent"
    __slots__ = ("_batches", "_run_of", "_whole_sum", "add_or_remove", "grid", "plan", "replace_one", "shape")

    scores = False
    _run_of: DescentRun
    _batches: Batches
    _whole_sum: Callable[[], NDArray[np.int64]]
    plan: DescentPlan
    grid: float
    add_or_remove: float
    replace_one: float
    shape: tuple[int, ...]

    def __init__(
        self,
        run: DescentRun,
        batches: Batches,
        bounds: SumBounds,
        *,
        whole_sum: Callable[[], NDArray[np.int64]],
    ) -> None:
        check_sensitivity("add_or_remove", bounds.clip)
        check_sensitivity("replace_one", bounds.replace_one)
        values = {
            "_run_of": run,
            "_batches": batches,
            "_whole_sum": whole_sum,
            "plan": run.plan,
            "grid": bounds.grid,
            "add_or_remove": bounds.clip,
            "replace_one": bounds.replace_one,
            "shape": (run.dimension,),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def sensitivity(self, neighbors: Neighbours | str) -> float:
        """Sensitivity of the sum over a batch that contains the record."""
        replaced = Neighbours.parse(neighbors) is Neighbours.REPLACE_ONE
        return self.replace_one if replaced else self.add_or_remove

    @property
    def _integers(self) -> NDArray[np.int64]:
        """Sum over all records at 0, in units of the grid: for tests of the sensitivity."""
        return self._whole_sum()

    def _run(
        self,
        draw_noise: NoiseSource,
        noise: str,
        observe: Callable[[int, Array], None] | None = None,
        every: int = 1,
    ) -> Descended:
        """Run, once."""
        return self._run_of.make(self._batches, draw_noise, noise, observe, every)

    def __repr__(self) -> str:
        return f"<StochasticDescent, {self.plan.steps} steps, not released>"


class DescentRun:
    """The loop itself, as blocks of steps in C. NOT private: the caller protects the result.

    With several threads, noise and batches are drawn while the previous block runs. The result does not
    depend on it.
    """

    def __init__(
        self,
        rows: Rows,
        plan: DescentPlan,
        settings: DescentSettings,
        *,
        dimension: int,
        n_threads: int | None,
    ) -> None:
        self.rows, self.plan, self.settings, self.dimension = rows, plan, settings, dimension
        self.threads = threads_for(n_threads, plan.steps * plan.batch_size * dimension)
        self.w = np.zeros(dimension) if plan.start is None else np.array(plan.start, dtype=np.float64)
        self.w_sum = np.zeros(dimension) if plan.average else None
        self._observed = 0

    def make(
        self,
        batches: Batches,
        draw_noise: NoiseSource | None = None,
        noise: str = "none",
        observe: Callable[[int, Array], None] | None = None,
        every: int = 1,
    ) -> Descended:
        """Run all steps. ``observe(t, w)`` is called after steps ``every, 2 every, ..`` and the last one."""
        inputs = self._inputs(batches, draw_noise, noise)
        for first, order, ends, drawn in one_ahead(inputs, threaded=self.threads > 1):
            cuts = [ends.size]
            if observe is not None:
                cuts = [*range(every - first % every, ends.size, every), ends.size]
            done = 0
            for cut in cuts:
                self._steps(first + done, order, ends, drawn, done, cut)
                done = cut
                if observe is not None and ((first + cut) % every == 0 or first + cut == self.plan.steps):
                    observe(first + cut, self.w.copy())
        average = None if self.w_sum is None else self.w_sum / self.plan.steps
        return Descended(self.w, average)

    def _inputs(
        self, batches: Batches, draw_noise: NoiseSource | None, noise: str
    ) -> Iterator[tuple[int, Indices, Indices, Any]]:
        """First step, batches and noise of successive blocks."""
        entries = self.plan.batch_size * self.dimension + batches.work_per_step
        most = min(_ENTRIES_PER_BLOCK // entries, _DRAWS_PER_BLOCK[noise] // self.dimension)
        for first in range(0, self.plan.steps, max(1, most)):
            count = min(max(1, most), self.plan.steps - first)
            order, ends = batches.take(count)
            yield first, order, ends, draw_noise(count) if draw_noise is not None else None

    def _steps(self, first: int, order: Indices, ends: Indices, noise: Any, begin: int, end: int) -> None:
        """Run steps `begin` to `end` of a block."""
        start = ends[begin - 1] if begin else 0
        self.rows.descend(
            DescentSteps(
                loss_spec=self.plan.loss.kernel,
                settings=self.settings,
                w=self.w,
                w_sum=self.w_sum,
                order=order[start:],
                batch_ends=ends[begin:end] - start,
                step_sizes=self.plan.step_sizes(first, end - begin),
                noise=None if noise is None else noise[begin:end],
            )
        )


@private_sum
def sgd_weights(
    objective: Objective, plan: DescentPlan, order: Indices, *, add_or_remove: float, replace_one: float
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
    last, average = _descent(objective, plan, plan.clip, 0.0).make(CyclicBatches(order, plan.batch_size))
    weights = last if average is None else average
    return Bounded.rounding(weights, add_or_remove=add_or_remove, replace_one=replace_one)


def stochastic_descent(objective: Objective, plan: DescentPlan, batches: Batches) -> StochasticDescent:
    """A run with noise in every step, for :meth:`Releaser.noisy_descent`.

    One record adds a vector of norm at most ``plan.clip`` to the sum over a batch, rounding to the grid
    included: integers as in :func:`clipped_gradient_sum`, computed in double precision.
    """
    bounds = objective._exact.descent_gradients(plan.loss, clip_bound(plan.clip), plan.radius)
    run = _descent(objective, plan, bounds.inner_clip, bounds.grid)
    return StochasticDescent(run, batches, bounds, whole_sum=lambda: _sum_at_zero(objective, run))


def descent_sum_bounds(objective: Objective, plan: DescentPlan) -> tuple[float, float]:
    """Public: one record's contribution to the sums of :func:`stochastic_descent`, and their grid."""
    bounds = objective._exact.descent_gradients(plan.loss, clip_bound(plan.clip), plan.radius)
    return bounds.clip, bounds.grid


def _sum_at_zero(objective: Objective, run: DescentRun) -> NDArray[np.int64]:
    """Sum of all records' gradients at 0 as computed by a run, in units of the grid."""
    settings, w = run.settings, np.zeros(objective.dimension)
    objective._rows.descend(
        DescentSteps(
            loss_spec=run.plan.loss.kernel,
            settings=DescentSettings(
                settings.inner_clip, settings.grid, 1.0, 0.0, objective.dimension, math.inf
            ),
            w=w,
            w_sum=None,
            order=np.arange(objective._n_rows),
            batch_ends=np.array([objective._n_rows]),
            step_sizes=np.array([-1.0]),
            noise=None,
        )
    )
    return np.rint(w / settings.grid).astype(np.int64)


def _descent(objective: Objective, plan: DescentPlan, inner_clip: float, grid: float) -> DescentRun:
    n_penalized = objective.dimension if objective.penalize_intercept else objective.n_columns
    divisor = float(plan.batch_size)
    settings = DescentSettings(inner_clip, grid, divisor, objective.l2, n_penalized, plan.radius)
    return DescentRun(
        objective._rows, plan, settings, dimension=objective.dimension, n_threads=objective.n_threads
    )


def check_places(objective: Objective) -> None:
    """Raise DataError if batches of fixed size cannot be drawn.

    They are drawn among ``n_public`` places: there must not be more records, nor partitions, whose
    workers draw their own samples.

    Examples
    --------
    >>> import dperm
    >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1], n_public=1)
    >>> check_places(objective)
    Traceback (most recent call last):
        ...
    dperm.errors.DataError: batches of fixed size are drawn among n_public = 1 places; there ...
    """
    if objective.n_partitions:
        raise DataError(
            "batches of fixed size are drawn among all records, but the workers that hold the partitions "
            "draw their samples independently: use sampling='poisson', or full batches (noisy_gd)"
        )
    if objective._n_rows > objective.n_public:
        raise DataError(
            f"batches of fixed size are drawn among n_public = {objective.n_public} places; there are more "
            "records. Pass a larger n_public, or use Poisson sampling."
        )
