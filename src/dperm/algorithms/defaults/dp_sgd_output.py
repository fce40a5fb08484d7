"""Default settings of `dp_sgd_output`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.accounting.output_sensitivity import permutation_sgd_decreasing_sensitivity
from dperm.accounting.permutation_sensitivity import glm_kappa
from dperm.accounting.step_size import numeric_step_size, output_step_size
from dperm.algorithms import settings as check
from dperm.algorithms.defaults import rules
from dperm.algorithms.defaults.constants import OutputSGD
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Settings, setting
from dperm.objective.bounded_descent import (
    GRADIENT_SLACK,
    gradient_bound,
    only_the_loss_bounds_gradients,
)
from dperm.objective.descents import Indices


@dataclass(frozen=True, kw_only=True)
class DPSGDOutputSchedule(Settings):
    """Settings of :func:`dperm.algorithms.dp_sgd_output`."""

    passes: int = setting(check.step_count)
    step_size: float = setting(check.positive)
    batch_size: int = setting(check.positive_integer, 1)
    step_sizes: str = setting(check.one_of("constant", "decreasing"))
    radius: float = setting(check.positive_or_infinite, math.inf)
    clip: float = setting(check.clip_norm_or_infinite)
    output: str = setting(check.one_of("average", "last"))
    sampling: str = setting(check.one_of("permutation", "uniform"))
    counts: str = setting(check.one_of("realised", "averaged"), "realised")
    smooth_kink: bool = setting(check.boolean)
    phases: int = setting(check.positive_integer, 1)

    @property
    def decreasing(self) -> bool:
        """Whether steps get shorter."""
        return self.step_sizes == "decreasing"


def dp_sgd_output_schedule(
    problem: PublicProblem,
    given: Mapping[str, Any],
    mu: float,
    *,
    contracts: bool,
    as_published: bool,
) -> DPSGDOutputSchedule:
    """The given settings, completed by default ones from public numbers alone, without passes and step size.

    Parameters
    ----------
    problem : PublicProblem
    given : mapping
        Settings.
    mu : float
        Budget of Gaussian noise with the same mean square on each weight.
    contracts : bool
        Whether the loss is smooth and the ridge term covers every weight, as decreasing steps need.
    as_published : bool
        For ``calibration="paper"``.
    """
    chosen: dict[str, Any] = {}
    if contracts and not as_published:
        chosen = _under_strong_ridge(problem, given, mu)
    chosen = {**chosen, **given}
    unclipped = given["radius"] < math.inf or as_published
    rest = {
        "passes": 1,
        "step_size": 1.0,
        "step_sizes": "constant",
        "clip": math.inf if unclipped or "clip" in chosen else _usual_clip(problem),
        "sampling": "uniform" if as_published else "permutation",
        "smooth_kink": not as_published,
    }
    chosen = {**rest, **chosen}
    chosen.setdefault("output", "last" if chosen["step_sizes"] == "decreasing" else "average")
    return DPSGDOutputSchedule(**chosen)


def _under_strong_ridge(problem: PublicProblem, given: Mapping[str, Any], mu: float) -> dict[str, Any]:
    """Decreasing steps and a clip for them, if their noise is harmless; otherwise nothing."""
    needed = {"phases": 1, "output": "last", "sampling": "permutation", "radius": math.inf}
    others = any(given.get(name, value) != value for name, value in needed.items()) or "step_size" in given
    if others or given.get("step_sizes") == "constant" or not problem.private:
        return {}
    loss, row_norm = problem.loss, problem.row_norm
    slope = loss.lipschitz(row_norm)
    longest = slope if slope < math.inf else rules.usual_gradient(loss, row_norm)
    usual = given["clip"] if "clip" in given else _usual_clip(problem)
    cost = _noise_of_decreasing_steps(problem, given["batch_size"], mu)
    if "step_sizes" not in given and cost * min(usual, longest) ** 2 > OutputSGD.NOISE_OF_DECREASING:
        return {}
    affordable = math.sqrt(OutputSGD.NOISE_OF_LONGER_CLIPS / cost)
    return {"step_sizes": "decreasing", "clip": max(usual, min(affordable, longest))}


def _usual_clip(problem: PublicProblem) -> float:
    """The default clip, which does not count on the ridge term."""
    return rules.typical_clip(replace(problem, l2=0.0))


def _noise_of_decreasing_steps(problem: PublicProblem, batch_size: int, mu: float) -> float:
    """What their noise may cost for a clip of 1, in losses at 0.

    Noise of variance ``s^2`` on each weight costs at most ``s^2 (beta + d l2) / 2``.
    """
    used = problem.n // batch_size * batch_size
    distance = permutation_sgd_decreasing_sensitivity(
        used, batch_size, 1.0, problem.l2, neighbors=problem.neighbors
    )
    curvature = problem.loss.smoothness(problem.row_norm) + problem.dimension * problem.l2
    cost = 0.5 * curvature * (distance / mu) ** 2
    return cost / rules.typical_loss_at_zero(problem.loss)


def with_passes_and_step_size(
    problem: PublicProblem, schedule: DPSGDOutputSchedule, given: Mapping[str, Any], mu: float
) -> DPSGDOutputSchedule:
    """Fill in passes and step size if they were not given."""
    loss, row_norm, radius = problem.loss, problem.row_norm, schedule.radius
    if only_the_loss_bounds_gradients(loss, row_norm, schedule.clip, radius):
        far = rules.typical_distance(replace(problem, l2=0.0))
        longest = gradient_bound(loss, row_norm, far, schedule.clip)
    else:
        longest = gradient_bound(loss, row_norm, radius, schedule.clip) * GRADIENT_SLACK
    if "passes" not in given and schedule.phases == 1:
        schedule = replace(schedule, passes=_default_passes(problem, schedule, longest, mu))
    else:
        check.step_count("passes * n / batch_size", schedule.passes * (problem.n // schedule.batch_size))
    if schedule.decreasing:
        return replace(schedule, step_size=1.0 / (problem.l2 + loss.smoothness(row_norm)))
    if "step_size" in given:
        return schedule
    if schedule.phases > 1:
        default = _default_phased_step_size
    elif loss.smoothness(row_norm) < math.inf or (schedule.smooth_kink and loss.kink_jump > 0.0):
        default = _default_step_size
    else:
        default = _default_rough_step_size
    distance = rules.typical_distance(problem, radius)
    if mu == math.inf:  # the clip is far above the gradients that occur
        distance = min(distance, OutputSGD.EXACT_DISTANCE / row_norm)
        longest = min(longest, rules.usual_gradient(loss, row_norm))
    return replace(schedule, step_size=default(problem, schedule, distance, longest, mu))


def _default_passes(problem: PublicProblem, schedule: DPSGDOutputSchedule, longest: float, mu: float) -> int:
    """Enough passes to bring a bound on the risk within a tenth of its limit for many passes."""
    kink = _kink_risk(problem, schedule)
    noise = 2.0 * longest**2 * math.sqrt(problem.dimension) / mu
    once = longest**2 + kink + noise
    passes = once / (OutputSGD.GAIN * noise) if noise > 0.0 else math.inf
    most = OutputSGD.MOST_PASSES
    if mu == math.inf:
        most = max(most, min(OutputSGD.MOST_EXACT_PASSES, int(OutputSGD.EXACT_GRADIENTS) // problem.n))
    return math.ceil(min(max(passes, 1.0), most))


def _kink_risk(problem: PublicProblem, schedule: DPSGDOutputSchedule) -> float:
    """What a smoothed kink adds to the squared gradient in the bound on the risk."""
    if not schedule.smooth_kink:
        return 0.0
    return (problem.loss.kink_jump * problem.row_norm) ** 2 / OutputSGD.RAMP


def _default_step_size(
    problem: PublicProblem, schedule: DPSGDOutputSchedule, distance: float, longest: float, mu: float
) -> float:
    """The step size that minimises a bound on the risk, for gradients that are or were made Lipschitz."""
    passes, batch_size = schedule.passes, schedule.batch_size
    loss, row_norm, l2 = problem.loss, problem.row_norm, problem.l2
    smoothness = loss.smoothness(row_norm)
    steps = problem.n // batch_size
    eta = output_step_size(
        distance,
        steps,
        passes,
        longest,
        problem.dimension,
        mu * batch_size,  # a record contributes 1 / batch_size of its step
        jump=loss.kink_jump * row_norm,
        smoothness=smoothness + l2 if smoothness < math.inf else 0.0,
    )
    # Noise of scale s on each weight moves a prediction by row_norm s, in one direction of many.
    pushes = 2.0 * longest * ((passes + 1) / 2.0 - 1.0 / steps) / batch_size
    noise = longest * pushes / mu
    if noise > 0.0:
        affordable = OutputSGD.NOISE if loss.classification else OutputSGD.NOISE_OF_RESIDUALS
        eta = min(eta, affordable * rules.typical_loss_at_zero(loss) / noise)
    if only_the_loss_bounds_gradients(loss, row_norm, schedule.clip, schedule.radius):
        eta = min(eta, (1.0 - 2.0**-40) / (l2 + smoothness))
    return eta


def _default_phased_step_size(
    problem: PublicProblem, schedule: DPSGDOutputSchedule, distance: float, longest: float, mu: float
) -> float:
    """The step size of the first phase that minimises the sum of the phases' bounds on the risk.

    A phase of T steps eta that starts at distance D ends within ``D^2/(2 eta T) + eta G^2/2``. After the
    first phase D is the noise of the phase before, and the last noise adds ``G ||noise||``.
    """
    passes, kink = schedule.passes, _kink_risk(problem, schedule)
    halves = parts_of_phases(np.arange(problem.n), schedule.phases, schedule.batch_size)
    counts = [passes * part.size // schedule.batch_size for part in halves]
    square, slope = 0.0, 0.0  # squared noise of the phase before, and the bound, for a step size of 1
    for phase, steps in enumerate(counts):
        eta = OutputSGD.PHASE_STEP**phase
        slope += 0.5 * eta * (longest**2 + kink) + square / (2.0 * eta * steps)
        square = problem.dimension * (eta * longest * (passes + 1) / schedule.batch_size / mu) ** 2
    slope += longest * math.sqrt(square)
    smoothness = problem.loss.smoothness(problem.row_norm) + problem.l2
    limit = 2.0 / smoothness if smoothness < math.inf else math.inf
    return min(distance / math.sqrt(2.0 * counts[0] * slope), limit)


def _default_rough_step_size(
    problem: PublicProblem, schedule: DPSGDOutputSchedule, distance: float, longest: float, mu: float
) -> float:
    """The step size that minimises a bound on the risk where steps on shared records expand."""
    loss = problem.loss
    steps = problem.n // schedule.batch_size * schedule.passes

    def typical_distance(eta: float) -> float:
        kappa = glm_kappa(loss.holder_exponent, loss.holder_slope, problem.row_norm, eta)
        pushes = eta * longest * (schedule.passes + 1) / schedule.batch_size
        return pushes + OutputSGD.ROUGH * kappa * math.sqrt(steps)

    eta = numeric_step_size(typical_distance, distance, steps, longest, problem.dimension, mu)
    return min(eta, 0.5 / problem.l2) if problem.l2 > 0.0 else eta


def parts_of_phases(order: Indices, phases: int, batch_size: int = 1) -> list[Indices]:
    """Records of each phase: half of the remaining ones, in whole batches; the last phase gets the rest."""
    parts, left = [], order
    for _ in range(phases - 1):
        size = left.size // (2 * batch_size) * batch_size
        parts.append(left[:size])
        left = left[size:]
    return [*parts, left]
