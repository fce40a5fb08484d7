"""Stochastic gradient descent on a convex loss, and the sensitivity of its result.

The final weights stay secret. The bounds include the rounding errors of the program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dperm.accounting.neighbours import Neighbours
from dperm.accounting.output_sensitivity import (
    descent_rounding,
    permutation_sgd_decreasing_sensitivity,
    permutation_sgd_sensitivity,
)
from dperm.accounting.permutation_sensitivity import (
    glm_kappa,
    permutation_pass_sensitivity,
    realised_sensitivity,
    unbounded_iterate_radius,
)
from dperm.losses import Loss
from dperm.objective.descents import DescentPlan, Indices, StepRule, sgd_weights
from dperm.objective.objective import Array, Objective
from dperm.private_values.bounded import Bounded

#: Bound on the relative error of computed gradients and projections.
GRADIENT_SLACK = 1.0 + 2.0**-30


@dataclass(frozen=True)
class DescentRecipe:
    """Public settings of a run."""

    passes: int
    batch_size: int
    step_size: float  # the largest one
    decreasing: bool  # whether the step size is at most ``1/(l2 t)`` in step t
    clip: float  # bound on the norm of one record's gradient; infinite for none
    radius: float  # bound on the norm of the iterates; infinite for none
    average: bool  # whether the result is the mean of the iterates
    uniform: bool  # whether each step draws records independently, instead of passes in one random order
    smooth_kink: bool  # whether kinks are replaced by ramps


@dataclass(frozen=True)
class BoundedDescent:
    """A run, and the constants that its sensitivity depends on."""

    plan: DescentPlan
    recipe: DescentRecipe  # with the step size that is used
    order: Indices  # indices of records in order of use, drawn independently of the data
    n: int  # public number of records of a pass, without those left over by the batches
    l2: float
    row_norm: float
    longest: float  # bound on the norm of a record's gradient
    distance: float  # bound on the distance of two records' gradients
    kappa: float  # growth of the distance of two runs in a step on shared records
    rounding: float  # allowance for rounding in double precision
    strongly_convex: bool  # whether steps on shared records contract

    @classmethod
    def of(
        cls, objective: Objective, recipe: DescentRecipe, order: Indices, start: Array | None = None
    ) -> BoundedDescent:
        """The run with these settings; the step size is reduced if ramps in place of kinks would overlap.

        The order may be a permutation of part of the records, drawn independently of the data, and the run
        may start at weights that were released before.

        Raises
        ------
        ValueError
            For a step size too large for the proof, or unbounded gradients.
        """
        loss, row_norm, l2 = objective.loss, objective.row_norm, objective.l2
        per_pass = (objective.n_public if recipe.uniform else order.size) // recipe.batch_size
        steps, radius = recipe.passes * per_pass, recipe.radius
        if only_the_loss_bounds_gradients(loss, row_norm, recipe.clip, radius):
            if start is not None:
                raise ValueError(f"the {loss.name} loss needs clip or radius for more than one phase")
            radius = _iterate_bound(objective, recipe.step_size, steps)
        longest = gradient_bound(loss, row_norm, radius, recipe.clip) * GRADIENT_SLACK
        distance = 2.0 * longest
        if recipe.clip >= loss.lipschitz(row_norm, radius):
            distance = min(distance, loss.gradient_distance(row_norm, radius) * GRADIENT_SLACK)
        if recipe.smooth_kink and loss.kink_jump > 0.0:
            loss, step_size = _smoothed(loss, recipe.step_size, row_norm, l2)
            recipe = replace(recipe, step_size=step_size)
        step_size = recipe.step_size
        kappa = _kappa(objective, loss, recipe)
        begin = 0.0 if start is None else float(np.linalg.norm(start)) * GRADIENT_SLACK
        rounding = descent_rounding(
            steps,
            step_size,
            batch_size=recipe.batch_size,
            dimension=objective.dimension,
            gradient_bound=longest,
            smoothness=loss.smoothness(row_norm),
            l2=l2,
            reach=min(radius, begin + step_size * longest * steps),
        )
        return cls(
            plan=DescentPlan(
                loss=loss,
                steps=steps,
                batch_size=recipe.batch_size,
                step_size=_decreasing(step_size, l2) if recipe.decreasing else step_size,
                clip=recipe.clip,
                radius=radius,
                average=recipe.average,
                start=start,
            ),
            recipe=recipe,
            order=order,
            n=per_pass * recipe.batch_size,
            l2=l2,
            row_norm=row_norm,
            longest=longest,
            distance=distance,
            kappa=math.sqrt(kappa * kappa + rounding.drift),
            rounding=rounding.additive,
            strongly_convex=l2 > 0.0 and _ridge_on_every_weight(objective) and _is_smooth(loss, row_norm),
        )

    def sensitivity(self, neighbors: Neighbours) -> float:
        """Sensitivity of the result that is computed in this order."""
        change = self.distance if neighbors is Neighbours.REPLACE_ONE else self.longest
        cap = 2.0 * self.plan.radius * GRADIENT_SLACK
        return min(cap, self._exact_sensitivity(change) + self.rounding)

    def train(self, objective: Objective) -> Bounded:
        """Run on the records."""
        bounds = {relation.value: self.sensitivity(relation) for relation in Neighbours}
        return sgd_weights(objective, self.plan, self.order, **bounds)

    def _exact_sensitivity(self, change: float) -> float:
        """Sensitivity in exact arithmetic, for gradients of the record that are at most `change` apart."""
        plan, recipe = self.plan, self.recipe
        push = recipe.step_size * change
        if recipe.decreasing:
            return permutation_sgd_decreasing_sensitivity(
                self.n, plan.batch_size, change, self.l2, neighbors="add_or_remove"
            )
        if recipe.uniform:
            last, average = realised_sensitivity(self.order, push, self.kappa)
            return average if plan.average else last
        bound = permutation_pass_sensitivity(
            self.n,
            recipe.passes,
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
            recipe.passes,
            recipe.step_size,
            change,
            plan.loss.smoothness(self.row_norm),
            l2=self.l2,
            neighbors="add_or_remove",
        )
        return min(bound, contracting)


def gradient_bound(loss: Loss, row_norm: float, radius: float, clip: float) -> float:
    """Bound on the norm of a record's gradient on the ball of that radius; ValueError if there is none."""
    bound = min(clip, loss.lipschitz(row_norm, radius))
    if bound == math.inf:
        raise ValueError(
            f"the slope of the {loss.name} loss grows without limit: pass clip, or a radius"
            + ("" if loss.classification else " and a loss with a target_bound")
        )
    return bound


def only_the_loss_bounds_gradients(loss: Loss, row_norm: float, clip: float, radius: float) -> bool:
    """Whether gradients are bounded only by how far the loss lets the iterates go."""
    endless = min(clip, radius, loss.lipschitz(row_norm)) == math.inf
    return endless and loss.self_bounding_slope < math.inf and loss.value_at_zero < math.inf


def _is_smooth(loss: Loss, row_norm: float) -> bool:
    return loss.smoothness(row_norm) < math.inf


def _ridge_on_every_weight(objective: Objective) -> bool:
    return objective.penalize_intercept or not objective.fit_intercept


def _iterate_bound(objective: Objective, eta: float, steps: int) -> float:
    """Bound on the norm of iterates without projection (Wang et al. 2022, Lemma 20).

    With a ridge term a step is one of size ``eta/(1 - eta l2)`` on the loss alone, then a contraction.
    """
    loss, row_norm, l2 = objective.loss, objective.row_norm, objective.l2
    if l2 > 0.0 and not _ridge_on_every_weight(objective):
        raise ValueError(
            f"the slope of the {loss.name} loss grows without limit, and with l2 > 0 the iterates are "
            "bounded only where it covers every weight: pass penalize_intercept=True, clip or radius"
        )
    # A larger step may overshoot (smooth losses), or does not contract.
    smoothness = loss.smoothness(row_norm)
    longest_step = 1.0 / (l2 + smoothness) if smoothness < math.inf else (1.0 / l2 if l2 > 0.0 else math.inf)
    if eta > longest_step or eta * l2 >= 1.0:
        raise ValueError(
            f"without clip and radius step_size must be at most 1/(l2 + beta) = {longest_step:.6g} for the "
            f"{loss.name} loss, got {eta!r}"
        )
    try:
        bound = unbounded_iterate_radius(
            steps + 1,  # includes the result
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
    """The loss with ramps that no step overshoots, and a step size for which they do not overlap."""
    for halvings in range(60):
        eta = step_size / 2.0**halvings
        # Slightly less, so that rounding does not push the step size past 2 / (l2 + smoothness).
        curvature = (2.0 / eta - l2) / row_norm**2 * (1.0 - 1e-12)
        try:
            return loss.smoothed(curvature), eta
        except ValueError as error:
            refusal = error
    raise refusal


def _kappa(objective: Objective, loss: Loss, recipe: DescentRecipe) -> float:
    """Growth of the distance in a step on shared records, in exact arithmetic."""
    eta, l2, row_norm = recipe.step_size, objective.l2, objective.row_norm
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
