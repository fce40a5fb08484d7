"""Gradient descent in coordinates whitened by private second moments.

A share of the budget is spent once on second moments of the rows: the Gram matrix, with Gaussian noise on
every entry as in Dwork, Talwar, Thakurta and Zhang, "Analyze Gauss", STOC 2014, or, if noise would swamp it,
the means and mean squares of the columns. Gradients are clipped, and isotropic noise is added, in coordinates
in which these moments are about the identity, so that all directions are learned at the same speed and each
gets noise in proportion to how much the rows vary along it. Weights that do not stand out from the noise stay
zero: the iterates are those of dual averaging with soft thresholding (Xiao, "Dual averaging methods for
regularized stochastic learning and online optimization", JMLR 2010), with a threshold proportional to the
noise that a weight has accumulated (Donoho and Johnstone, "Ideal spatial adaptation by wavelet shrinkage",
Biometrika 1994).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dperm.accounting import gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import MANY_WEIGHTS, Fit, FitResult, PublishedTerms
from dperm.algorithms.learned_coordinates import FEW_LONG_ROWS, SHORTENING, Coordinates, learned_coordinates
from dperm.algorithms.noisy_gd import noisy_gd_schedule
from dperm.algorithms.private_scales import (
    ScaleNoise,
    ScaleShares,
    after_releases,
    can_start_from_labels,
    learn_scales_choice,
    scale_shares,
    share_of_budget,
)
from dperm.algorithms.private_whitening import (
    SHORTEST_ROW,
    Whitening,
    private_whitening,
    squares_clip,
)
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rising_momentum import HIGHEST, RisingMomentum
from dperm.algorithms.rules_of_thumb import (
    clip_share,
    gathers_at_a_kink,
    has_margin,
    longest_gradient,
    steeper_on_one_side,
)
from dperm.algorithms.settings import Setting
from dperm.algorithms.step_sizes import shrinking, step_sizes
from dperm.algorithms.suffix_average import average_of
from dperm.algorithms.whitened_clips import (
    LARGEST_CLIP,
    relative_clip,
    slope_of,
    smoothness_of,
    whitened_clip,
)
from dperm.losses import Loss
from dperm.objective.gradients import check_sums, mapped_gradient_sum
from dperm.objective.objective import Array, Objective


class PreconditionedGDSchedule(ScaleShares):
    """Public settings of a run.

    Attributes
    ----------
    moments : {"gram", "columns", "diagonal", "none"}
        Moments released for whitening: the Gram matrix of the rows, the means and mean squares of the
        columns, these for whitening by a diagonal matrix, or none. Square matrices, as the first two take,
        cost more than the passes over the data beyond some hundred columns.
    share : float
        Share of the budget for the moments, in (0, 1); unused without moments.
    steps : int
        Number of noisy gradients.
    clip : float
        Bound on the norm of one record's gradient in whitened coordinates, as a multiple of the norm of a
        typical row there and of the slope of the loss. A ridge term counts as further rows; where it leaves
        those of the records shorter, the bound is lower, but at least a typical gradient (of the logistic
        loss near the weights 0 if the term is most of the curvature). By default it is raised where the
        released norms say that a few rows are far longer than the others, or short enough that a ridge term
        keeps the noise of a larger clip harmless, and to twice the term's gradient at the start.
    step_size : float
        Step on the mean gradient in whitened coordinates. The default falls linearly to 0 in the second half
        of a run if the loss of a real target has a kink.
    momentum : float
        Heavy-ball coefficient in [0, 1). By default it rises to up to 0.9 where the mean label, if released,
        says that the loss is flat because one label is rare, and to up to 0.97 where the mean of the rows
        that a diagonal matrix leaves calls for shorter steps. During a run it rises to up to 0.95 while noisy
        gradients point along the way travelled so far, unless the loss has a kink.
    threshold : float
        Soft threshold on the weights, in standard deviations of their noise; at least 0.
    shrinkage : float
        Weights are multiplied by ``1 - shrinkage d noise^2 / ||u||^2`` (James-Stein), where u are the weights
        in whitened coordinates, but at least by 0, or by up to 1/4 with labels and a strong ridge term.
    tail : float
        The last ``ceil(tail * steps)`` iterates are averaged; in (0, 1]. By default half of them are, and
        earlier ones as far back as they show no drift.
    """

    moments: Setting[str] = Setting(check.one_of("gram", "columns", "diagonal", "none"))
    share: Setting[float] = Setting(check.share)
    steps: Setting[int] = Setting(check.step_count)
    clip: Setting[float] = Setting(check.clip_norm)
    step_size: Setting[float] = Setting(check.positive)
    momentum: Setting[float] = Setting(check.below_one)
    threshold: Setting[float] = Setting(check.non_negative)
    shrinkage: Setting[float] = Setting(check.non_negative)
    tail: Setting[float] = Setting(check.fraction)


def preconditioned_gd_schedule(
    problem: PublicProblem, learn_scales: bool | str = "auto", moments: str | None = None
) -> PreconditionedGDSchedule:
    """Default settings from public numbers alone; for `learn_scales` see :func:`scale_shares`.

    They are for these `moments`, or for those that are worth their noise. A loss without a Lipschitz constant
    is clipped as if its slope were the bound on the targets, or 1; a kink is assigned a finite curvature.

    Notes
    -----
    Second moments have eigenvalues ``R^2 / dimension`` on average, and the noise of a release must be smaller
    than that: for the Gram matrix in spectral norm, ``R^2 sqrt(2 dimension) / (n mu sqrt(share))``, for the
    mean squares of the columns entry by entry. With more than `MANY_WEIGHTS` weights these whiten by a
    diagonal matrix, as square ones would be slow. If neither is, the run is one of :func:`noisy_gd`, whose
    clip follows once the row norm is learned. Whitened problems resemble each other, so the other settings
    depend mainly on the signal-to-noise number ``n mu / sqrt(dimension)``.

    Heavy ball is stable while ``step_size`` times the smoothness times the largest remaining eigenvalue after
    whitening is below ``2 (1 + momentum)``. Whitened curvatures are nearly equal, so momentum gains little
    and delays convergence: an overshoot decays like ``momentum^(t/2)``, and a run of 60 steps must have
    converged by its second half, which is averaged. So steps are as long as is stable, with only as much
    momentum as brings ``reach = step_size / (1 - momentum)`` to the inverse of the smoothness, or less with
    little signal. Momentum is at most 0.9: with many columns steps are short, and a longer memory would only
    accumulate noise.
    """
    scales = scale_shares(problem.per_record(), learn_scales)
    learned = scales.together
    plain = problem.without(learned)
    problem = plain.per_record()
    signal, loss, dimension = problem.signal, problem.loss, problem.dimension
    moments = moments or _worth_their_noise(problem)
    if moments == "none":
        near = scales.label_share > 0.0 and not loss.classification
        spread = loss.target_bound if near else math.inf  # in units of which the clip is stated
        learned_frame = replace(plain, attained=scales.norm_share > 0.0, spread=spread)
        return _without_moments(learned_frame).completed(scales)
    missed = {"gram": math.sqrt(2.0 * dimension), "columns": dimension / 8.0, "diagonal": _MISSED_BY_DIAGONAL}
    largest = 1.0 + missed[moments]
    longest = longest_gradient(loss, problem.row_norm, noisy=problem.private)
    # Step size over 1 - momentum, in units of the inverse smoothness.
    reach = min(max(signal / 125.0, 0.45), 1.0)
    step_size = min(0.6 * reach, 2.6 / largest)
    if loss.classification and loss.kink_jump > 0.0:
        reach *= _REACH_AT_KINKS
    return PreconditionedGDSchedule(
        **scales.chosen,
        moments=moments,
        share=_SHARE_OF_MOMENTS,
        steps=round(min(max(60.0, 3.3 * largest, min(signal / 10.0, 250.0), signal / 25.0), 1000.0)),
        clip=min(max(relative_clip(loss, signal), clip_share(problem, longest, 0.0)), 1e6),
        step_size=step_size / smoothness_of(loss),
        momentum=min(1.0 - step_size / reach, 0.9),
        threshold=0.5,
        shrinkage=1.0,
        tail=0.5,
    )


def _worth_their_noise(problem: PublicProblem) -> str:
    """The most accurate moments that stand out from noise."""
    dimension = problem.dimension
    # Inverse of the noise of one entry, in units of R^2 / dimension.
    accuracy = problem.n * problem.mu * math.sqrt(_SHARE_OF_MOMENTS) / dimension
    if accuracy > math.sqrt(2.0 * dimension) and dimension <= MANY_WEIGHTS:
        return "gram"
    least = math.sqrt(2.0) * dimension**-0.25
    if not problem.loss.classification:
        # Real targets lose more by noisy moments of few columns, and gain more by those of many.
        of_many = least if steeper_on_one_side(problem.loss) else 0.0
        least = min(2.0 * least, max(30.0 / dimension, of_many))
    if accuracy > least:
        return "columns" if dimension <= MANY_WEIGHTS else "diagonal"
    return "none"


_SHARE_OF_MOMENTS = 0.14

# Eigenvalue that a diagonal matrix is assumed to leave, beside that along the mean of the rows.
_MISSED_BY_DIAGONAL = 119.0

# Factor on the reach for labels and kinks: beyond them gradients keep their length to the end, and those of
# rare labels have a long way to go.
_REACH_AT_KINKS = 1.5


def _without_moments(problem: PublicProblem) -> PreconditionedGDSchedule:
    """A run of noisy gradient descent, in coordinates ``u = w row_norm / sqrt(dimension)``."""
    plain = noisy_gd_schedule(replace(problem, row_norm=1.0, l2=problem.l2 / problem.row_norm**2))
    return PreconditionedGDSchedule(
        moments="none",
        share=0.5,
        steps=plain.steps,
        clip=plain.clip / slope_of(problem.loss),
        step_size=plain.step_size / problem.dimension,
        momentum=plain.momentum,
        threshold=0.0,
        shrinkage=0.0,
        tail=plain.tail,
    )


class PreconditionedGDArguments(PreconditionedGDSchedule, PublishedTerms):
    """Arguments of :func:`preconditioned_gd`.

    Attributes
    ----------
    learn_scales : {"auto", True, False}
        Whether column scales, the row norm and the mean label, or the best constant prediction of real
        targets and their distance from it, are released first: those worth their share of the budget
        according to :func:`scale_shares`, all that are possible, or none.
    """

    learn_scales: Setting[bool | str] = Setting(learn_scales_choice, "auto", stated=False)


@algorithm(PreconditionedGDArguments, linear_prediction=True, whole_rows=True, weighs_privately=True)
def preconditioned_gd(fit: Fit, given: PreconditionedGDArguments) -> FitResult:
    """Minimise by noisy gradient descent in coordinates whitened by noisy second moments.

    Settings follow from public numbers where they are not given: :func:`preconditioned_gd_schedule`.

    Parameters
    ----------
    objective : Objective
        Any loss of one linear prediction.
    calibration : {"tight"}
        Noise by the exact accounting of Gaussian differential privacy.
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released; the gradient is in
        whitened coordinates.

    Notes
    -----
    All releases are Gaussian, and the squares of their ``mu`` add up exactly, also when each is chosen from
    earlier ones (Dong, Roth and Su 2022, Corollary 3.3): the whole transcript, second moments included, is
    (epsilon, delta)-DP.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = preconditioned_gd(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    if fit.as_published:
        raise ValueError("calibration of preconditioned_gd must be 'tight', got 'paper'")
    objective = fit.objective
    schedule = given.completed(preconditioned_gd_schedule(fit.problem, given.learn_scales, given.moments))
    if objective.weighs_privately and not schedule.label_share > 0.0:
        raise ValueError("label_share must be above 0 for class_weight='private'")
    if schedule.label_share > 0.0 and not (objective.weighs_privately or can_start_from_labels(fit.problem)):
        raise ValueError(
            "label_share must be 0 without an intercept, and for real targets without a target_bound"
        )
    _check_moments(fit, schedule.moments)
    noise = _Noise.of(fit, schedule)
    noise.scales.check_labels(fit)
    slope, smoothness = slope_of(objective.loss), smoothness_of(objective.loss)
    length = math.sqrt(2.0 * objective.dimension)  # of a typical row whitened by powers of two, at most
    least, most = noise.scales.slope_factors
    shortest = schedule.clip * SHORTEST_ROW * least
    for clip in (shortest, max(schedule.clip, LARGEST_CLIP) * length * most):
        fit.check_gradient_noise(check.clip_norm("clip", clip * slope), noise.gradient)
    shrinks = "step_size" not in given.chosen and gathers_at_a_kink(objective.loss)
    facts = {"step_size": shrinking(schedule.step_size, schedule.steps).words} if shrinks else {}
    release = fit.open("preconditioned_gd", fit.budget(), schedule, relative_clip=schedule.clip, **facts)

    # 1. coordinates in which the rows' second moments are about the identity
    few, shortening = _long_rows(fit.problem, schedule.moments if noise.moments else "none")
    coordinates = learned_coordinates(fit, release, noise.scales, few, shortening)
    found = private_whitening(fit, release, noise.moments, schedule.moments, coordinates.scaling)
    linear_map = found.linear_map
    clip, step, momentum = _descent(fit, given, schedule, smoothness, coordinates, found)
    sizes = step_sizes(shrinking(step, schedule.steps) if shrinks else step, schedule.steps)
    # At a kink gradients keep their length, however near the optimum is.
    constant = "momentum" in given.chosen or objective.loss.kink_jump > 0.0
    most = momentum if constant else HIGHEST
    rising = RisingMomentum(momentum, most, schedule.steps)

    dual = velocity = np.zeros(objective.dimension)
    travelled = 0.0  # by the noise of a unit in each step
    w = coordinates.start
    average = average_of(schedule.steps, schedule.tail, extended="tail" not in given.chosen)
    for t in range(1, schedule.steps + 1):
        # 2. noisy gradient in these coordinates
        gradient_sum = mapped_gradient_sum(objective, w, clip, linear_map)
        sensitivity = gradient_sum.sensitivity(fit.neighbors)
        gradient = release.gaussian_sum(gradient_sum, noise.gradient) / fit.n
        if objective.l2 > 0.0:
            gradient += linear_map @ objective.penalty_gradient(w)
        # 3. dual averaging: shrink weights that do not stand out from the accumulated noise
        noise_of_gradient = noise.gradient * sensitivity / fit.n
        momentum = rising.at(gradient, dual, noise_of_gradient)
        velocity = momentum * velocity - sizes[t - 1] * gradient
        dual = dual + velocity
        travelled = math.hypot(travelled, sizes[t - 1] / (1.0 - momentum))
        noise_of_dual = travelled * noise_of_gradient
        least_kept = found.least_kept(noise_of_dual) if objective.loss.classification else 0.0
        kept = _shrunk(dual, noise_of_dual, schedule, least_kept)
        average.add(kept)
        w = coordinates.start + linear_map.transposed(kept)
        fit.report(t, w, gradient=gradient)
    return fit.result(
        coordinates.start + linear_map.transposed(average.mean()),
        noise.in_words(objective.loss),
        n_iter=schedule.steps,
        clip=sensitivity / fit.neighbors.sum_factor,
    )


def _long_rows(problem: PublicProblem, moments: str) -> tuple[float, float]:
    """Share of the rows that exceed the learned norm, and the factor from that to the bound on their norms.

    A larger bound does not shorten the steps of whitened descents: with more signal they include more rows. A
    diagonal matrix is little noise, which is not worth shortening rows for.
    """
    if moments == "none":
        return FEW_LONG_ROWS, 1.0
    few = min(2.0 / problem.per_record().signal, FEW_LONG_ROWS)
    return few, 1.0 if moments == "diagonal" else SHORTENING


def _check_moments(fit: Fit, moments: str) -> None:
    """ValueError if they cannot be summed, or the gradients mapped; a warning if that will be slow."""
    if moments in ("gram", "columns") or fit.objective.dimension <= MANY_WEIGHTS:
        check_sums(fit.objective, gram=True)  # also for mapped gradients, whatever the moments
        fit.warn_if_slow("preconditioned_gd", "moments='diagonal'")
    elif moments == "diagonal":
        check_sums(fit.objective, moment_clip=squares_clip(fit.objective.row_norm, fit.objective.dimension))


@dataclass(frozen=True)
class _Noise:
    """Noise multipliers that together use up the budget; 0 for releases that are not made."""

    scales: ScaleNoise
    moments: float
    gradient: float

    def in_words(self, loss: Loss) -> str:
        """Description of the mechanism."""
        before = [*self.scales.in_words(loss), *(["second moments of the rows"] if self.moments else [])]
        descent = "full-batch gradient descent, Gaussian noise on each clipped gradient sum"
        if self.moments:
            descent += " in coordinates whitened by the moments"
        return after_releases(before, descent)

    @classmethod
    def of(cls, fit: Fit, schedule: PreconditionedGDSchedule) -> _Noise:
        """The multipliers for a schedule; computed on a copy of the budget, before the ledger is charged."""
        whole, rest = fit.budget(), fit.budget()
        of_moments = schedule.share if schedule.moments != "none" else 0.0
        shares = (schedule.column_share, schedule.norm_share, schedule.label_share, of_moments)
        if not sum(shares) < 1.0:
            raise ValueError(f"the shares of scales and moments must leave some for gradients, got {shares}")
        scales = ScaleNoise.of(schedule, fit.objective.loss, whole, rest)
        moments = share_of_budget(of_moments, whole, rest) if of_moments else 0.0
        return cls(scales, moments, gaussian_noise_multiplier(rest.share(schedule.steps), "gdp"))


def _descent(
    fit: Fit,
    given: PreconditionedGDArguments,
    schedule: PreconditionedGDSchedule,
    smoothness: float,
    coordinates: Coordinates,
    found: Whitening,
) -> tuple[float, float, float]:
    """Clip, step size and momentum in whitened coordinates, from the schedule and what has been released.

    The schedule was made for that smoothness; class weights may only just have been released.
    """
    if schedule.moments == "none":
        return _descent_without_moments(fit, given, schedule, coordinates, found)
    loss, spread = fit.objective.loss, coordinates.spread
    clip = whitened_clip(fit, schedule.clip, coordinates, found, given="clip" in given.chosen)
    momentum = schedule.momentum
    units = math.inf if "step_size" in given.chosen else spread
    step = schedule.step_size * smoothness / smoothness_of(loss, units)
    step = _stable_for_ridge(fit, found, step, momentum)
    reach = step / (1.0 - momentum)
    if found.along_mean and "step_size" not in given.chosen:
        step = min(step, 2.6 / (smoothness_of(loss, spread) * (1.0 + found.along_mean)))
    if "momentum" not in given.chosen:
        if found.along_mean:  # as far with shorter steps
            momentum = min(1.0 - step / reach, 0.97)
        # Where labels are rare, there is a long way to go.
        flatness = _flatness(fit.objective, coordinates.log_odds, found.ridge_share)
        momentum = max(momentum, min(1.0 - (1.0 - momentum) * flatness, 0.9))
    return clip, step, momentum


def _descent_without_moments(
    fit: Fit,
    given: PreconditionedGDArguments,
    schedule: PreconditionedGDSchedule,
    coordinates: Coordinates,
    found: Whitening,
) -> tuple[float, float, float]:
    """Clip, step size and momentum of :func:`noisy_gd` in these coordinates, where they are not given.

    Under a ridge term labels keep the reach for the bound on the norms, which is longer: they tolerate noise.
    """
    public = replace(fit.problem, attained=schedule.norm_share > 0.0).without(schedule.together)
    own = given.completed(_without_moments(coordinates.problem(fit.objective, public)))
    units = coordinates.spread if "clip" in given.chosen else math.inf
    clip = own.clip * slope_of(fit.objective.loss, units) * found.row_length
    moves = schedule if fit.objective.loss.classification else own
    step = moves.step_size * fit.objective.dimension / found.with_ridge  # as far in all units
    return clip, _stable_for_ridge(fit, found, step, moves.momentum), moves.momentum


def _stable_for_ridge(fit: Fit, found: Whitening, step: float, momentum: float) -> float:
    """The step size, or what heavy ball is stable with along every axis of the ridge term."""
    if fit.objective.l2 == 0.0:
        return step
    steepest = fit.objective.l2 * float(found.linear_map.singular_values[0]) ** 2
    return min(step, 1.5 * (1.0 + momentum) / steepest)


def _flatness(objective: Objective, log_odds: float, ridge_share: float) -> float:
    """Mean curvature where labels with these log-odds are predicted best, relative to the usual one.

    That of the logistic loss is ``p (1 - p)`` for a share p of positive labels. Shares from a fifth on are
    usual: for these a longer reach costs more than it gains. Losses with a margin are less flat: most labels
    are near it then. A ridge term keeps its curvature.
    """
    if objective.weights is not None:
        return 1.0
    of_loss = min(1.0, 1.0 / (0.64 * math.cosh(0.5 * log_odds) ** 2))  # p (1 - p) / 0.16
    if has_margin(objective.loss):
        of_loss **= 1.0 / 2.0 if objective.loss.kink_jump > 0.0 else 1.0 / 3.0
    return of_loss + (1.0 - of_loss) * ridge_share


def _shrunk(dual: Array, noise: float, schedule: PreconditionedGDSchedule, least: float) -> Array:
    """Entrywise soft thresholding and James-Stein shrinkage; `noise` is the standard deviation per entry."""
    size = float(np.vdot(dual, dual))
    kept = max(1.0 - schedule.shrinkage * len(dual) * noise**2 / size, least) if size > 0.0 else 0.0
    above = np.maximum(np.abs(dual) - schedule.threshold * noise, 0.0)
    return np.asarray(kept * np.copysign(above, dual))
