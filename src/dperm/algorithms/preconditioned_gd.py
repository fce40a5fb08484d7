"""Gradient descent in coordinates whitened by private second moments.

A share of the budget is spent once on second moments of the rows: the Gram matrix, with Gaussian noise on
every entry as in Dwork, Talwar, Thakurta and Zhang, "Analyze Gauss", STOC 2014, or, if noise would swamp it,
the means and mean squares of the columns. Gradients are clipped, and isotropic noise is added, in coordinates
in which these moments are about the identity: all directions are learned at the same speed, and each gets
noise in proportion to how much the rows vary along it. Weights that do not stand out from the noise stay
zero: the iterates are those of dual averaging with soft thresholding (Xiao, "Dual averaging methods for
regularized stochastic learning and online optimization", JMLR 2010), with a threshold proportional to the
noise that a weight has accumulated (Donoho and Johnstone, "Ideal spatial adaptation by wavelet shrinkage",
Biometrika 1994).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Momentum, Norms, Whitened, WhitenedClip
from dperm.algorithms.defaults.preconditioned_gd import (
    PreconditionedGDSchedule,
    preconditioned_gd_schedule,
    slope_of,
    smoothness_of,
    without_moments,
)
from dperm.algorithms.defaults.rules import gathers_at_a_kink
from dperm.algorithms.defaults.scales import can_start_from_labels, learn_scales_choice
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.preconditioner import LearnedScales, learned_scales
from dperm.algorithms.private_scales import ScaleNoise, after_releases, share_of_budget
from dperm.algorithms.private_whitening import Whitening, private_whitening, squares_clip
from dperm.algorithms.problem import MANY_WEIGHTS, PublicProblem
from dperm.algorithms.requirements import needs
from dperm.algorithms.step_rules import AdaptiveMomentum
from dperm.algorithms.step_sizes import shrinking, step_sizes
from dperm.algorithms.suffix_average import average_of
from dperm.algorithms.whitened_clips import whitened_clip
from dperm.losses import Loss
from dperm.mechanisms.random_source import RandomState
from dperm.objective.gradients import check_sums, mapped_gradient_sum
from dperm.objective.objective import Array, Objective


@needs(linear_prediction=True, whole_rows=True, private_class_weight=True)
def preconditioned_gd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    column_share: float | None = None,
    norm_share: float | None = None,
    label_share: float | None = None,
    moments: str | None = None,
    share: float | None = None,
    steps: int | None = None,
    clip: float | None = None,
    step_size: float | None = None,
    momentum: float | None = None,
    threshold: float | None = None,
    shrinkage: float | None = None,
    tail: float | None = None,
    learn_scales: bool | str = "auto",
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by noisy gradient descent in coordinates whitened by noisy second moments.

    Settings that are not given follow from public numbers, see
    :func:`dperm.algorithms.defaults.preconditioned_gd.preconditioned_gd_schedule`. Pseudo-code, guarantee and
    proof: :doc:`/theory/preconditioned_gd`.

    Parameters
    ----------
    objective : Objective
        Any loss of one linear prediction.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    column_share, norm_share, label_share : float, optional
        Shares of the budget, in mu^2, for estimates that are released first; 0 for none. Column: a histogram
        of the magnitudes in each column, from which columns far smaller than the others are scaled up. Norm:
        a histogram of the row norms, from which rows are clipped to a norm that few exceed. Label: the mean
        label, or slopes from which a constant prediction of real targets is found, which initialise the
        intercept; or the class frequencies if classes are weighted by them.
    moments : {"gram", "columns", "diagonal", "none"}, optional
        Moments released for whitening: the Gram matrix of the rows, the means and mean squares of the
        columns, these for whitening by a diagonal matrix, or none. Square matrices, as the first two take,
        cost more than the passes over the data beyond some hundred columns.
    share : float, optional
        Share of the budget for the moments, in (0, 1); unused without moments.
    steps : int, optional
        Number of noisy gradients.
    clip : float, optional
        Bound on the norm of one record's gradient in whitened coordinates, as a multiple of the norm of a
        typical row there and of the slope of the loss. A ridge term counts as further rows; where it leaves
        those of the records shorter, the bound is lower, but at least a typical gradient (of the logistic
        loss near the weights 0 if the term is most of the curvature). By default it is raised where the
        released norms say that a few rows are far longer than the others, or short enough that a ridge term
        keeps the noise of a larger clip harmless, and to twice the term's gradient at the start.
    step_size : float, optional
        Step on the mean gradient in whitened coordinates. The default falls linearly to 0 in the second half
        of a run if the loss of a real target has a kink.
    momentum : float, optional
        Heavy-ball coefficient in [0, 1). By default it rises to up to 0.9 where the mean label, if released,
        says that the loss is flat because one label is rare, and to up to 0.97 where the mean of the rows
        that a diagonal matrix leaves calls for shorter steps. Adaptive momentum raises it to up to 0.95 while
        gradients agree in direction, unless the loss has a kink.
    threshold : float, optional
        Soft threshold on the weights, in standard deviations of their noise; at least 0.
    shrinkage : float, optional
        Weights are multiplied by ``1 - shrinkage d noise^2 / ||u||^2`` (James-Stein), where u are the weights
        in whitened coordinates, but at least by 0, or by up to 1/4 with labels and a strong ridge term.
    tail : float, optional
        The last ``ceil(tail * steps)`` iterates are averaged; in (0, 1]. By default half of them are, and
        earlier ones as far back as they show no drift.
    learn_scales : {"auto", True, False}
        Whether column scales, the row norm and the mean label, or the best constant prediction of real
        targets and their distance from it, are released first: those worth their share of the budget
        according to :func:`dperm.algorithms.defaults.scales.scale_shares`, all that are possible, or none.
    calibration : {"tight"}
        Noise by the exact accounting of Gaussian differential privacy.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called after each step with ``{"iteration", "steps", "coef", "gradient"}``, all released; the gradient
        is in whitened coordinates.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

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
    given = PreconditionedGDSchedule.checked(
        column_share=column_share, norm_share=norm_share, label_share=label_share, moments=moments,
        share=share, steps=steps, clip=clip, step_size=step_size, momentum=momentum, threshold=threshold,
        shrinkage=shrinkage, tail=tail,
    )  # fmt: skip
    learn_scales = learn_scales_choice("learn_scales", learn_scales)
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        if fit.as_published:
            raise ValueError("calibration of preconditioned_gd must be 'tight', got 'paper'")
        default = preconditioned_gd_schedule(fit.problem, learn_scales, given.get("moments"))
        return _preconditioned_gd(fit, given, replace(default, **given))


def _preconditioned_gd(fit: Fit, given: Mapping[str, Any], schedule: PreconditionedGDSchedule) -> FitResult:
    objective = fit.objective
    noise = _checked_noise(fit, schedule)
    smoothness = smoothness_of(objective.loss)
    shrinks = "step_size" not in given and gathers_at_a_kink(objective.loss)
    facts = {"step_size": shrinking(schedule.step_size, schedule.steps).words} if shrinks else {}
    release = fit.open("preconditioned_gd", fit.budget(), schedule, relative_clip=schedule.clip, **facts)

    # 1. coordinates in which the rows' second moments are about the identity
    long_rows, shortened = _long_rows(fit.problem, schedule.moments if noise.moments else "none")
    scales = learned_scales(fit, release, noise.scales, long_rows, shortened)
    whitening = private_whitening(fit, release, noise.moments, schedule.moments, scales.scaling)
    linear_map, start = whitening.linear_map, scales.start.weights
    clip, step, momentum = _descent(fit, given, schedule, smoothness, scales, whitening)
    sizes = step_sizes(shrinking(step, schedule.steps) if shrinks else step, schedule.steps)
    # At a kink gradients keep their length, however near the optimum is.
    constant = "momentum" in given or objective.loss.kink_jump > 0.0
    adaptive = AdaptiveMomentum(momentum, momentum if constant else Momentum.HIGHEST, schedule.steps)

    dual = velocity = np.zeros(objective.dimension)
    travelled = 0.0  # by the noise of a unit in each step
    w = start
    average = average_of(schedule.steps, schedule.tail, extended="tail" not in given)
    for t, size in enumerate(sizes, 1):
        # 2. noisy gradient in these coordinates
        gradient_sum = mapped_gradient_sum(objective, w, clip, linear_map)
        sensitivity = gradient_sum.sensitivity(fit.neighbors)
        gradient = release.gaussian_sum(gradient_sum, noise.gradient) / fit.n
        if objective.l2 > 0.0:
            gradient += linear_map @ objective.penalty_gradient(w)
        # 3. dual averaging: shrink weights that do not stand out from the accumulated noise
        noise_of_gradient = noise.gradient * sensitivity / fit.n
        momentum = adaptive.at(gradient, dual, noise_of_gradient)
        velocity = momentum * velocity - size * gradient
        dual = dual + velocity
        travelled = math.hypot(travelled, size / (1.0 - momentum))
        noise_of_dual = travelled * noise_of_gradient
        least_kept = whitening.least_kept(noise_of_dual) if objective.loss.classification else 0.0
        kept = _shrunk(dual, noise_of_dual, schedule, least_kept)
        average.add(kept)
        w = start + linear_map.transposed(kept)
        fit.report(t, w, gradient=gradient)
    return fit.result(
        start + linear_map.transposed(average.mean()),
        noise.description(objective.loss),
        n_iter=schedule.steps,
        clip=sensitivity / fit.neighbors.sum_factor,
    )


def _checked_noise(fit: Fit, schedule: PreconditionedGDSchedule) -> _Noise:
    """The noise of all releases; ValueError, before the charge, if one of them cannot be made."""
    objective = fit.objective
    if objective.weighs_privately and not schedule.label_share > 0.0:
        raise ValueError("label_share must be above 0 for class_weight='private'")
    if schedule.label_share > 0.0 and not (objective.weighs_privately or can_start_from_labels(fit.problem)):
        raise ValueError(
            "label_share must be 0 without an intercept, and for real targets without a target_bound"
        )
    _check_moments(fit, schedule.moments)
    noise = _Noise.of(fit, schedule)
    noise.scales.check_labels(fit)
    slope = slope_of(objective.loss)
    length = math.sqrt(2.0 * objective.dimension)  # of a typical row whitened by powers of two, at most
    least, most = noise.scales.slope_factors
    shortest = schedule.clip * Whitened.SHORTEST_ROW * least
    for clip in (shortest, max(schedule.clip, WhitenedClip.LARGEST) * length * most):
        fit.check_gradient_noise(check.clip_norm("clip", clip * slope), noise.gradient)
    return noise


def _long_rows(problem: PublicProblem, moments: str) -> tuple[float, float]:
    """Fraction of the rows that exceed the learned norm, and the factor from that to the bound on norms.

    A larger bound does not shorten the steps of whitened descents: with more signal they include more rows. A
    diagonal matrix is little noise, which is not worth shortening rows for.
    """
    if moments == "none":
        return Norms.LONG_ROWS, 1.0
    long_rows = min(2.0 / problem.per_record().signal, Norms.LONG_ROWS)
    return long_rows, 1.0 if moments == "diagonal" else Norms.SHORTENED


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

    def description(self, loss: Loss) -> str:
        """Description of the mechanism."""
        before = [*self.scales.description(loss), *(["second moments of the rows"] if self.moments else [])]
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
    given: Mapping[str, Any],
    schedule: PreconditionedGDSchedule,
    smoothness: float,
    scales: LearnedScales,
    whitening: Whitening,
) -> tuple[float, float, float]:
    """Clip, step size and momentum in whitened coordinates, from the schedule and what has been released.

    The schedule was made for that smoothness; class weights may only just have been released.
    """
    if schedule.moments == "none":
        return _descent_without_moments(fit, given, schedule, scales, whitening)
    loss, start = fit.objective.loss, scales.start
    clip = whitened_clip(fit, schedule.clip, scales, whitening, given="clip" in given)
    momentum = schedule.momentum
    target_scale = math.inf if "step_size" in given else start.target_scale
    step = schedule.step_size * smoothness / smoothness_of(loss, target_scale)
    step = _stable_for_ridge(fit, whitening, step, momentum)
    effective_step = step / (1.0 - momentum)
    if whitening.along_mean and "step_size" not in given:
        curvature = smoothness_of(loss, start.target_scale) * (1.0 + whitening.along_mean)
        step = min(step, Whitened.STABLE / curvature)
    if "momentum" not in given:
        if whitening.along_mean:  # as far with shorter steps
            momentum = min(1.0 - step / effective_step, Whitened.MOST_MOMENTUM_ALONG_MEAN)
        # Where labels are rare, there is a long way to go.
        flatness = _flatness(fit.objective, start.log_odds, whitening.ridge_share)
        momentum = max(momentum, min(1.0 - (1.0 - momentum) * flatness, Whitened.MOST_MOMENTUM))
    return clip, step, momentum


def _descent_without_moments(
    fit: Fit,
    given: Mapping[str, Any],
    schedule: PreconditionedGDSchedule,
    scales: LearnedScales,
    whitening: Whitening,
) -> tuple[float, float, float]:
    """Clip, step size and momentum of :func:`noisy_gd` in these coordinates, where they are not given.

    Under a ridge term labels keep the effective step for the bound on the norms, which is longer: they
    tolerate noise.
    """
    public = replace(fit.problem, tight_row_norm=schedule.norm_share > 0.0).without(schedule.together)
    own = replace(without_moments(scales.problem(fit.objective, public)), **given)
    target_scale = scales.start.target_scale if "clip" in given else math.inf
    clip = own.clip * slope_of(fit.objective.loss, target_scale) * whitening.row_length
    moves = schedule if fit.objective.loss.classification else own
    step = moves.step_size * fit.objective.dimension / whitening.with_ridge  # as far in all units
    return clip, _stable_for_ridge(fit, whitening, step, moves.momentum), moves.momentum


def _stable_for_ridge(fit: Fit, whitening: Whitening, step: float, momentum: float) -> float:
    """The step size, or what heavy ball is stable with along every axis of the ridge term."""
    if fit.objective.l2 == 0.0:
        return step
    steepest = fit.objective.l2 * float(whitening.linear_map.singular_values[0]) ** 2
    return min(step, Whitened.RIDGE_STABLE * (1.0 + momentum) / steepest)


def _flatness(objective: Objective, log_odds: float, ridge_share: float) -> float:
    """Mean curvature where labels with these log-odds are predicted best, relative to the usual one.

    That of the logistic loss is ``p (1 - p)`` for a fraction p of positive labels. Fractions from a fifth on
    are usual: for these a longer effective step costs more than it gains. Losses with a margin are less flat:
    most labels are near it then. A ridge term keeps its curvature.
    """
    if objective.weights is not None:
        return 1.0
    # p (1 - p) / 0.16
    of_loss = min(1.0, 1.0 / (Whitened.USUAL_CURVATURE * math.cosh(0.5 * log_odds) ** 2))
    if objective.loss.zero_beyond_margin:
        of_loss **= 1.0 / (2.0 if objective.loss.kink_jump > 0.0 else Whitened.MARGIN_POWER)
    return of_loss + (1.0 - of_loss) * ridge_share


def _shrunk(dual: Array, noise: float, schedule: PreconditionedGDSchedule, least: float) -> Array:
    """Entrywise soft thresholding and James-Stein shrinkage; `noise` is the standard deviation per entry."""
    size = float(np.vdot(dual, dual))
    kept = max(1.0 - schedule.shrinkage * len(dual) * noise**2 / size, least) if size > 0.0 else 0.0
    above = np.maximum(np.abs(dual) - schedule.threshold * noise, 0.0)
    return np.asarray(kept * np.copysign(above, dual))
