"""Newton's method with noise on gradients and on directions.

The double-noise mechanism of Ganesh, Haghifam, Steinke and Thakurta, NeurIPS 2023, with regularised Hessians.
``calibration="paper"`` is the published version: zCDP by the conversion of Bun and Steinke (2016, Lemma 3.6),
and a shift that is chosen at every step from a noisy trace of the Hessian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dperm.accounting import Budget, gaussian_noise_multiplier, zcdp_rho
from dperm.accounting.units import floor_units
from dperm.accounting.zcdp import zcdp_rho_of_lemma
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult, PublishedTerms
from dperm.algorithms.learned_coordinates import SHORTENING, Frame
from dperm.algorithms.private_scales import LearnedScales, ScaleNoise, ScaleShares, scales_to_learn
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import clip_share, longest_gradient
from dperm.algorithms.settings import Schedule, Setting
from dperm.algorithms.suffix_average import average_of
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Array


class DPNewtonSchedule(Schedule):
    """Public settings of a run.

    Attributes
    ----------
    steps : int
        Number of Newton steps; each releases a noisy gradient and a noisy direction.
    clip : float
        Bound on the norm of one record's gradient.
    shift : float
        Added to the eigenvalues of the mean Hessian; positive.
    gradient_share : float
        Share of a step's budget for its gradient, strictly between 0 and 1.
    hessian : {"upper_bound", "exact"}
        The paper's QU and Hess: the Hessian of quadratic upper bounds of the losses, with which no step
        overshoots, or the Hessian itself, which is faster close to the optimum and may diverge far from it.
    tail : float
        The last ``ceil(tail * steps)`` iterates are averaged; in (0, 1]. By default half of them are, and
        earlier ones as far back as they show no drift; without noise the last one is the result.
    """

    steps: Setting[int] = Setting(check.step_count)
    clip: Setting[float] = Setting(check.clip_norm)
    shift: Setting[float] = Setting(check.positive)
    gradient_share: Setting[float] = Setting(check.share)
    hessian: Setting[str] = Setting(check.one_of("upper_bound", "exact"))
    tail: Setting[float] = Setting(check.fraction)


_LAST = 1e-9  # a tail of one iterate


def dp_newton_schedule(problem: PublicProblem) -> DPNewtonSchedule:
    """Default settings from public numbers alone.

    A loss without a Lipschitz constant is clipped like a loss of slope 1; without noise hardly at all.

    Notes
    -----
    The noise of a direction has the norm ``sqrt(dimension) z b ||g|| / (n shift^2)``, with the noise
    multiplier ``z`` and the smoothness ``b`` of the loss. It changes the next gradient by at most ``b + l2``
    times as much: the shift keeps that below ``||g||``, or noise would amplify itself. At a weak signal
    ``k = n mu / sqrt(dimension)`` the shift grows further, like ``k^-2``, as gradient noise in full steps
    would carry the weights far from 0. That noise is proportional to the clip, which is below the longest
    gradient unless the signal is strong. Averaged iterates have no more noise in many steps than in few, and
    directions of less curvature than the shift need many steps: k / 2, from 30 to 300.
    """
    problem = problem.per_record()
    signal, loss, row_norm = problem.signal, problem.loss, problem.row_norm
    smoothness = loss.smoothness(row_norm)
    steps = round(min(max(signal / 2.0, 30.0), 300.0))
    gradient_share = 0.7
    longest = longest_gradient(loss, row_norm, noisy=problem.private, spread=problem.spread)
    # Noise of a direction, relative to smoothness ||g|| / shift^2.
    relative_noise = math.sqrt(steps / (1.0 - gradient_share)) / signal
    amplified, carried = (0.45, 150.0) if loss.classification else (0.6, 450.0)
    shift = smoothness * max(amplified * math.sqrt(relative_noise), 0.02, carried / signal**2)
    return DPNewtonSchedule(
        steps=steps,
        clip=longest * _share_of_longest(problem, longest),
        shift=max(shift, 2.0 * math.sqrt(relative_noise * smoothness * problem.l2)),
        gradient_share=gradient_share,
        hessian="upper_bound",
        tail=0.5 if problem.private else _LAST,
    )


def _share_of_longest(problem: PublicProblem, longest: float) -> float:
    """The default clip over the longest gradient, or over that of slope 1 for slopes without limit."""
    share = clip_share(problem, longest, 0.1)
    if not problem.loss.classification:
        return share
    return min(3.0 * share, 1.0) if problem.loss.lipschitz(1.0) < math.inf else 1.0


class DPNewtonArguments(DPNewtonSchedule, LearnedScales, PublishedTerms):
    """Arguments of :func:`dp_newton`."""


@algorithm(
    DPNewtonArguments,
    convex=True,
    smooth=True,
    second_derivative=True,
    linear_prediction=True,
    whole_rows=True,
)
def dp_newton(fit: Fit, given: DPNewtonArguments) -> FitResult:
    """Minimise by noisy Newton steps.

    Settings follow from public numbers where they are not given: :func:`dp_newton_schedule`.

    Parameters
    ----------
    objective : Objective
        With a loss that has a second derivative: logistic, Huber, squared hinge, squared error.
    calibration : {"tight", "paper"}
        Exact accounting by Gaussian differential privacy, or the published mechanism for add_or_remove and a
        finite epsilon, with a shift from a noisy trace (unless `shift` is given) and 15 steps.
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released; the gradient is in
        the learned coordinates if scales are learned.

    Notes
    -----
    The whole transcript, all iterates included, is (epsilon, delta)-DP.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_newton(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    objective = fit.objective
    fit.check_published("dp_newton")
    scales = scales_to_learn(fit, given)
    problem = fit.problem.without(scales.together)
    schedule = given.completed(_default_schedule(fit, problem))
    by_trace = fit.as_published and "shift" not in given.chosen
    costs = _published_costs(fit, schedule) if fit.as_published else _costs(fit, schedule, scales)
    fit.check_gradient_noise(schedule.clip, costs.gradient)
    costs.scales.check(fit, schedule.clip, costs.gradient)
    if scales.together:
        objective.check_sums(gram=True)  # learned coordinates need no particular unit of the rows
    else:
        objective.check_sums(hessian_clip=math.inf)
    facts = {"shift": "by a noisy trace"} if by_trace else scales.facts()
    fit.warn_if_slow("dp_newton", "noisy_gd")
    release = fit.open("dp_newton", costs.budget, schedule, **facts)

    frame = Frame.learned(fit, release, costs.scales, problem, SHORTENING)
    steepest = replace(frame.problem, l2=frame.steepest_ridge(objective.l2))
    schedule = given.completed(_default_schedule(fit, steepest))
    upper = schedule.hessian == "upper_bound"
    w = frame.start
    extended = "tail" not in given.chosen
    average = average_of(schedule.steps, schedule.tail, extended=extended, units=frame.factors)
    for t in range(1, schedule.steps + 1):
        # 1. noisy gradient
        gradient_sum = frame.gradient_sum(objective, w, schedule.clip)
        of_ridge = frame.factors * objective.penalty_gradient(w)
        gradient = release.gaussian_sum(gradient_sum, costs.gradient) / fit.n + of_ridge
        # 2. noisy Newton direction of the shifted Hessian
        shift = _published_shift(fit, release, w, costs, upper) if by_trace else schedule.shift
        direction = objective.newton_direction(w, gradient, shift, upper=upper, scaling=frame.scaling)
        w = w - frame.factors * release.gaussian_sum(direction, costs.direction)
        average.add(w)
        fit.report(t, w, gradient=gradient, shift=shift)
    mechanism = "Newton's method, Gaussian noise on each clipped gradient sum and on each direction"
    return fit.result(average.mean(), frame.in_words(mechanism), n_iter=schedule.steps, clip=schedule.clip)


def _default_schedule(fit: Fit, problem: PublicProblem) -> DPNewtonSchedule:
    default = dp_newton_schedule(problem)
    return replace(default, steps=_PUBLISHED_STEPS, tail=_LAST) if fit.as_published else default


_PUBLISHED_STEPS = 15  # steps and shares of the authors' experiments
_TRACE_SHARE, _TRACE_COEFFICIENT = Fraction(1, 10), 0.5


@dataclass(frozen=True)
class _Costs:
    """The budget, and the noise multipliers of the releases of a step."""

    budget: Budget
    gradient: float
    direction: float
    scales: ScaleNoise = field(default_factory=ScaleNoise)
    trace: float = 0.0
    direction_rho: float = math.inf


def _costs(fit: Fit, schedule: DPNewtonSchedule, scales: ScaleShares) -> _Costs:
    rest = fit.budget()
    of_scales = ScaleNoise.of(scales, fit.objective.loss, fit.budget(), rest)
    gradient = direction = cost = rest.share(schedule.steps)
    if cost < math.inf:
        gradient = math.floor(cost * schedule.gradient_share)
        direction = cost - gradient
    return _Costs(
        fit.budget(),
        gaussian_noise_multiplier(gradient, "gdp"),
        gaussian_noise_multiplier(direction, "gdp"),
        of_scales,
    )


def _published_costs(fit: Fit, schedule: DPNewtonSchedule) -> _Costs:
    """A step's part of rho: `gradient_share` for the gradient, a tenth of the rest for the trace."""
    rho = zcdp_rho_of_lemma(fit.epsilon, fit.delta)
    fit.confirm(rho <= zcdp_rho(fit.epsilon, fit.delta))
    budget = Budget(floor_units(rho), "zcdp")
    step = Fraction(1, schedule.steps)
    rest = 1 - Fraction(schedule.gradient_share)
    gradient, trace, direction = (
        budget.share(1, step * part) for part in (1 - rest, rest * _TRACE_SHARE, rest * (1 - _TRACE_SHARE))
    )
    return _Costs(
        budget,
        gradient=gaussian_noise_multiplier(gradient, "zcdp"),
        direction=gaussian_noise_multiplier(direction, "zcdp"),
        trace=gaussian_noise_multiplier(trace, "zcdp"),
        direction_rho=float(rest * (1 - _TRACE_SHARE) * step) * rho,
    )


def _published_shift(fit: Fit, release: Releaser, w: Array, costs: _Costs, upper: bool) -> float:
    """``(c tr(H) / (n^2 rho))^(1/3)`` with a noisy trace, at least ``1 / n``.

    Published for rows of norm 1 and the smoothness 1/4; here in units of 4 times the smoothness.
    """
    objective, n = fit.objective, fit.n
    unit = 4.0 * objective.loss.smoothness(objective.row_norm)
    trace = release.gaussian_sum(objective.hessian_trace(w, upper=upper), costs.trace)[0]
    noisy = float(trace) / (n * unit)
    cube = _TRACE_COEFFICIENT * max(noisy, 0.0) / (n**2 * costs.direction_rho)
    return unit * max(math.cbrt(cube), 1.0 / n)
