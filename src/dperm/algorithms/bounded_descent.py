"""Stochastic gradient descent on a convex loss, and how far one record moves its result.

The run ends at weights that stay secret; the bounds here are those of the program, rounding included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dperm._kernels.samplers import RandomBits
from dperm.accounting.descent_rounding import descent_rounding
from dperm.accounting.output_sensitivity import (
    permutation_sgd_decreasing_sensitivity,
    permutation_sgd_sensitivity,
)
from dperm.accounting.permutation_sensitivity import (
    glm_kappa,
    permutation_pass_sensitivity,
    realised_sensitivity,
    unbounded_iterate_radius,
)
from dperm.algorithms import settings as check
from dperm.algorithms.noisy_descent import gradient_bound
from dperm.algorithms.output_noise import ResultSensitivity, SecretTrainingTerms
from dperm.algorithms.settings import Schedule, Setting
from dperm.losses import Loss
from dperm.mechanisms.sampling import permutation, uniform_integers
from dperm.objective.objective import Objective
from dperm.objective.stochastic_descent import DescentPlan, Indices, StepRule

#: Gradients and projections are computed to better than that, relatively.
GRADIENT_SLACK = 1.0 + 2.0**-30


class DPSGDOutputArguments(Schedule, SecretTrainingTerms):
    """Arguments of :func:`dperm.algorithms.dp_sgd_output`.

    Attributes
    ----------
    passes : int
        How often the records are gone through; with ``sampling="uniform"`` there are ``passes * n`` steps.
        By default as many as lower a bound on the excess risk noticeably, from public numbers: up to 20, or
        without noise up to 2000 where these are no more than ``4e6`` gradients of records.
    batch_size : int
        Records per step; a rest of ``n mod batch_size`` is left out.
    step_size : float
        eta. By default the minimiser of a bound on the excess risk, see
        :func:`dperm.accounting.step_size.output_step_size`. At most ``2 / (l2 + beta)`` for a smooth loss.
    step_sizes : {"constant", "decreasing"}
        "decreasing": ``min(1/(l2 + beta), 1/(l2 t))`` in step t, for smooth losses with ``l2 > 0`` and
        permutations; the last iterate is released.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    clip : float
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it: its slope, or
        (soft margin, power) how far it lets descent get from 0, which counts as a radius. By default
        from public numbers: see :func:`dperm.algorithms.rules_of_thumb.typical_clip`.
    output : {"average", "last"}
        Mean of the iterates ``w_1 .. w_T`` (default for constant steps), or ``w_(T+1)``.
    sampling : {"permutation", "uniform"}
        A random order of the records, gone through in every pass (default); or an independent uniform
        record in every step (the paper's; ``batch_size=1``).
    counts : {"realised", "averaged"}
        For uniform sampling: noise for the indices that were drawn, or fixed before by averaging over how
        often one record is drawn.
    smooth_kink : bool
        Replace each kink of the loss by a ramp of curvature ``2/(step_size row_norm^2)``: far less noise,
        for a bias of the order of a step. The default, except in paper mode.
    neighbors : {"replace_one", "add_or_remove"}
        With ``add_or_remove`` a record is replaced by one without gradient; n stays public.
    """

    passes: Setting[int] = Setting(check.step_count)
    step_size: Setting[float] = Setting(check.positive)
    batch_size: Setting[int] = Setting(check.positive_integer, 1)
    step_sizes: Setting[str] = Setting(check.one_of("constant", "decreasing"), "constant")
    radius: Setting[float] = Setting(check.positive_or_infinite, math.inf)
    clip: Setting[float] = Setting(check.clip_norm_or_infinite)
    output: Setting[str] = Setting(check.one_of("average", "last"))
    sampling: Setting[str] = Setting(check.one_of("permutation", "uniform"))
    counts: Setting[str] = Setting(check.one_of("realised", "averaged"), "realised")
    smooth_kink: Setting[bool] = Setting(check.boolean)
    neighbors: str = "replace_one"

    @property
    def decreasing(self) -> bool:
        """Whether steps get shorter."""
        return self.step_sizes == "decreasing"


@dataclass(frozen=True)
class BoundedDescent:
    """A run, and what its sensitivity rests on.

    Attributes
    ----------
    plan : DescentPlan
    settings : DPSGDOutputArguments
        Its `step_size` is the largest one.
    n : int
        Public number of records, those left out of the batches not counted.
    l2, row_norm : float
        Of the objective.
    longest, distance : float
        Bounds on the norm of a record's gradient, and on the distance of two records' gradients.
    kappa : float
        Growth of the distance in a step on shared records; 0 where gradients are Lipschitz continuous.
    rounding : float
        Added for arithmetic in double precision.
    strongly_convex : bool
        Whether steps on shared records contract.
    """

    plan: DescentPlan
    settings: DPSGDOutputArguments
    n: int
    l2: float
    row_norm: float
    longest: float
    distance: float
    kappa: float
    rounding: float
    strongly_convex: bool

    @classmethod
    def of(cls, objective: Objective, settings: DPSGDOutputArguments) -> BoundedDescent:
        """The run with these settings; steps shrink where ramps in place of kinks would overlap.

        Raises
        ------
        ValueError
            For a step that is too long for the proof, or gradients without bound.
        """
        loss, row_norm, l2 = objective.loss, objective.row_norm, objective.l2
        per_pass = objective.n_public // settings.batch_size
        steps, radius = settings.passes * per_pass, settings.radius
        if only_the_loss_bounds_gradients(loss, row_norm, settings.clip, radius):
            radius = _iterate_bound(objective, settings.step_size, steps)
        longest = gradient_bound(loss, row_norm, radius, settings.clip) * GRADIENT_SLACK
        distance = 2.0 * longest
        if settings.clip >= loss.lipschitz(row_norm, radius):
            distance = min(distance, loss.gradient_distance(row_norm, radius) * GRADIENT_SLACK)
        if settings.smooth_kink and loss.kink_jump > 0.0:
            loss, step_size = _smoothed(loss, settings.step_size, row_norm, l2)
            settings = replace(settings, step_size=step_size)
        step_size = settings.step_size
        kappa = _kappa(objective, loss, settings)
        rounding = descent_rounding(
            steps,
            step_size,
            batch_size=settings.batch_size,
            dimension=objective.dimension,
            gradient_bound=longest,
            smoothness=loss.smoothness(row_norm),
            l2=l2,
            radius=radius,
        )
        return cls(
            plan=DescentPlan(
                loss=loss,
                steps=steps,
                batch_size=settings.batch_size,
                step_size=_decreasing(step_size, l2) if settings.decreasing else step_size,
                clip=settings.clip,
                radius=radius,
                average=settings.output == "average",
            ),
            settings=settings,
            n=per_pass * settings.batch_size,
            l2=l2,
            row_norm=row_norm,
            longest=longest,
            distance=distance,
            kappa=math.sqrt(kappa * kappa + rounding.drift),
            rounding=rounding.additive,
            strongly_convex=l2 > 0.0 and _ridge_on_every_weight(objective) and _is_smooth(loss, row_norm),
        )

    def draw_order(self, bits: RandomBits, n: int) -> Indices:
        """Indices of records, in the order in which they are used; independent of the data."""
        if self.settings.sampling == "uniform":
            return uniform_integers(bits, n, self.plan.steps)
        return np.asarray(permutation(bits, n), dtype=np.int64)

    def sensitivity(self, order: Indices) -> ResultSensitivity:
        """How far one record moves the result that is computed in this order."""
        cap = 2.0 * self.plan.radius * GRADIENT_SLACK
        contribution, replacement = (
            min(cap, self._exact_sensitivity(order, change) + self.rounding)
            for change in (self.longest, self.distance)
        )
        return ResultSensitivity(contribution, replacement)

    def _exact_sensitivity(self, order: Indices, change: float) -> float:
        """Of the run in real numbers, for gradients of the record that are `change` apart at most."""
        plan, settings = self.plan, self.settings
        push = settings.step_size * change
        if settings.decreasing:
            return permutation_sgd_decreasing_sensitivity(
                self.n, plan.batch_size, change, self.l2, neighbors="add_or_remove"
            )
        if settings.sampling == "uniform":
            last, average = realised_sensitivity(order, push, self.kappa)
            return average if plan.average else last
        bound = permutation_pass_sensitivity(
            self.n,
            settings.passes,
            push,
            self.kappa,
            batch_size=plan.batch_size,
            average=plan.average,
        )
        if plan.average or not self.strongly_convex:
            return bound
        contracting = permutation_sgd_sensitivity(
            self.n,
            plan.batch_size,
            settings.passes,
            settings.step_size,
            change,
            plan.loss.smoothness(self.row_norm),
            l2=self.l2,
            neighbors="add_or_remove",
        )
        return min(bound, contracting)


def only_the_loss_bounds_gradients(loss: Loss, row_norm: float, clip: float, radius: float) -> bool:
    """Whether nothing bounds gradients but the loss itself, by how far it lets the iterates go."""
    endless = min(clip, radius, loss.lipschitz(row_norm)) == math.inf
    return endless and loss.self_bounding_slope < math.inf and loss.value_at_zero < math.inf


def _is_smooth(loss: Loss, row_norm: float) -> bool:
    return loss.smoothness(row_norm) < math.inf


def _ridge_on_every_weight(objective: Objective) -> bool:
    return objective.penalize_intercept or not objective.fit_intercept


def _iterate_bound(objective: Objective, eta: float, steps: int) -> float:
    """How far descent gets from 0 without projection (Wang et al. 2022, Lemma 20).

    With a ridge term a step is one of size ``eta/(1 - eta l2)`` on the loss alone, then a contraction.
    """
    loss, row_norm, l2 = objective.loss, objective.row_norm, objective.l2
    if l2 > 0.0 and not _ridge_on_every_weight(objective):
        raise ValueError(
            f"the slope of the {loss.name} loss grows without limit, and with l2 > 0 the iterates are "
            "bounded only where it covers every weight: pass penalize_intercept=True, clip or radius"
        )
    # Beyond, a step may overshoot (smooth losses), or is no contraction.
    smoothness = loss.smoothness(row_norm)
    longest_step = 1.0 / (l2 + smoothness) if smoothness < math.inf else (1.0 / l2 if l2 > 0.0 else math.inf)
    if eta > longest_step or eta * l2 >= 1.0:
        raise ValueError(
            f"without clip and radius step_size must be at most 1/(l2 + beta) = {longest_step:.6g} for the "
            f"{loss.name} loss, got {eta!r}"
        )
    try:
        bound = unbounded_iterate_radius(
            steps + 1,  # the result, too
            eta / (1.0 - eta * l2),
            loss.holder_exponent,
            loss.self_bounding_slope * row_norm,
            loss.value_at_zero,
        )
    except OverflowError:
        bound = math.inf
    if not bound < math.inf:
        raise ValueError(f"step_size {eta!r} is too long for a bound on the iterates: pass clip or radius")
    return bound * GRADIENT_SLACK


def _decreasing(first: float, l2: float) -> StepRule:
    """``min(first, 1/(l2 t))``."""
    return lambda start, count: np.minimum(first, 1.0 / (l2 * np.arange(start + 1.0, start + count + 1.0)))


def _smoothed(loss: Loss, step_size: float, row_norm: float, l2: float) -> tuple[Loss, float]:
    """The loss with ramps that no step overshoots; steps shrink until ramps do not overlap."""
    for halvings in range(60):
        eta = step_size / 2.0**halvings
        # A whisker less, so that rounding does not push the step past 2 / (l2 + smoothness).
        curvature = (2.0 / eta - l2) / row_norm**2 * (1.0 - 1e-12)
        try:
            return loss.smoothed(curvature), eta
        except ValueError as error:
            refusal = error
    raise refusal


def _kappa(objective: Objective, loss: Loss, settings: DPSGDOutputArguments) -> float:
    """Growth of the distance in a step on shared records, in real numbers."""
    eta, l2, row_norm = settings.step_size, objective.l2, objective.row_norm
    if _is_smooth(loss, row_norm):
        limit = 2.0 / (l2 + loss.smoothness(row_norm))
        if eta * (l2 + loss.smoothness(row_norm)) > 2.0:
            raise ValueError(
                f"step_size must be at most 2/(l2 + beta) = {limit:.6g} for the {loss.name} loss, got {eta!r}"
            )
        return 0.0
    if l2 > 0.0 and not _ridge_on_every_weight(objective):
        raise ValueError(
            f"the gradients of the {loss.name} loss are not Lipschitz continuous: with l2 > 0 it needs "
            "penalize_intercept=True, or smooth_kink=True"
        )
    if eta * l2 >= 1.0:
        raise ValueError(f"step_size must be below 1/l2 = {1.0 / l2:.6g}, got {eta!r}")
    try:
        # A contraction by 1 - eta l2, after a step of this size on the loss alone.
        return glm_kappa(loss.holder_exponent, loss.holder_slope, row_norm, eta / (1.0 - eta * l2))
    except OverflowError:
        raise ValueError(f"step_size {eta!r} is too long for a bound on the sensitivity") from None
