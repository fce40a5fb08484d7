"""Output perturbation of stochastic gradient descent: a secret run, then noise on its result.

Wang, Lei, Ying and Zhang 2022, Algorithm 1, with passes over randomly permuted records (Wu et al., SIGMOD
2017), or in phases that approach the optimum (Feldman, Koren and Talwar, STOC 2020, Algorithm 2).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dperm.accounting import GaussianRelease, Neighbours, ScheduledBudget, paper
from dperm.accounting.output_sensitivity import permutation_sgd_decreasing_sensitivity
from dperm.accounting.permutation_sensitivity import averaged_count_sigma, count_sensitivity, glm_kappa
from dperm.accounting.step_size import numeric_step_size, output_step_size
from dperm.algorithms import rules_of_thumb as rules
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.output_noise import (
    DISJOINT,
    OutputNoise,
    SecretTrainingTerms,
    add_or_remove_note,
    for_disjoint_parts,
    noise_law,
    output_noise,
    parts_of_phases,
)
from dperm.algorithms.requirements import Needs
from dperm.algorithms.settings import Schedule, Setting
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.sampling import permutation, uniform_integers
from dperm.objective.bounded_descent import (
    GRADIENT_SLACK,
    BoundedDescent,
    DescentRecipe,
    gradient_bound,
    only_the_loss_bounds_gradients,
)
from dperm.objective.descents import Indices, check_places
from dperm.objective.projection import project

_MOST_PASSES = 20
# What the noise may cost, as a share of the loss at 0: the fit should not be much worse than none. Losses of
# residuals grow faster than their slope at 0 suggests. Found on public data sets.
_NOISE_SHARE, _NOISE_SHARE_OF_RESIDUALS = 0.5, 0.075
# The same for decreasing steps, and for a clip above the usual one.
_NOISE_SHARE_OF_DECREASING, _NOISE_SHARE_OF_LONGER_CLIPS = 0.05, 0.003
# Without noise: least number of gradient evaluations, and the most passes for them.
_EXACT_GRADIENTS, _MOST_EXACT_PASSES = 4e6, 2000
# Largest prediction at the optimum that noiseless steps are chosen for: the further a run may go, the more
# coarsely its result is rounded.
_EXACT_REACH = 20.0


class DPSGDOutputArguments(Schedule, SecretTrainingTerms):
    """Arguments of :func:`dperm.algorithms.dp_sgd_output`.

    Attributes
    ----------
    passes : int
        Passes over the records; with ``sampling="uniform"`` there are ``passes * n`` steps. By default as
        many as noticeably lower a bound on the excess risk, from public numbers: up to 20, or without noise
        up to 2000 while these evaluate at most ``4e6`` gradients.
    batch_size : int
        Records per step; the last ``n mod batch_size`` are left out.
    step_size : float
        eta. By default it minimises a bound on the excess risk, see
        :func:`dperm.accounting.step_size.output_step_size`. At most ``2 / (l2 + beta)`` for a smooth loss.
    step_sizes : {"constant", "decreasing"}
        "decreasing": ``min(1/(l2 + beta), 1/(l2 t))`` in step t, for smooth losses with ``l2 > 0`` and
        permutations; the last iterate is released. The default where the ridge term is so strong that their
        noise is harmless.
    phases : int
        Number of phases. Each phase gets half of the remaining records, starts at the released weights of
        the phase before and takes steps a quarter as long. About ``log2(n)`` in the paper, with one pass; for
        constant steps and permutations.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    clip : float
        Bound on the norm of one record's gradient; infinite where the loss bounds it, by its slope or (soft
        margin, power) by how far descent can get from 0, which acts as a radius. By default from public
        numbers: see :func:`dperm.algorithms.rules_of_thumb.typical_clip`; with decreasing steps larger, as
        far as the noise stays harmless.
    output : {"average", "last"}
        Mean of the iterates ``w_1 .. w_T`` (default for constant steps), or ``w_(T+1)``.
    sampling : {"permutation", "uniform"}
        One random order of the records for all passes (default); or an independent uniform record in every
        step (as in the paper; ``batch_size=1``).
    counts : {"realised", "averaged"}
        For uniform sampling: noise for the indices that were drawn, or fixed in advance by averaging over the
        number of times that a record is drawn.
    smooth_kink : bool
        Replace each kink of the loss by a ramp of curvature ``2/(step_size row_norm^2)``: far less noise,
        for a bias of the order of a step. The default, except in paper mode.
    neighbors : {"add_or_remove", "replace_one"}, optional
        With ``add_or_remove`` a record is replaced by one without gradient; n stays public. By default the
        ledger's relation, and add_or_remove without a ledger.
    """

    passes: Setting[int] = Setting(check.step_count)
    step_size: Setting[float] = Setting(check.positive)
    batch_size: Setting[int] = Setting(check.positive_integer, 1)
    step_sizes: Setting[str] = Setting(check.one_of("constant", "decreasing"))
    radius: Setting[float] = Setting(check.positive_or_infinite, math.inf)
    clip: Setting[float] = Setting(check.clip_norm_or_infinite)
    output: Setting[str] = Setting(check.one_of("average", "last"))
    sampling: Setting[str] = Setting(check.one_of("permutation", "uniform"))
    counts: Setting[str] = Setting(check.one_of("realised", "averaged"), "realised")
    smooth_kink: Setting[bool] = Setting(check.boolean)
    phases: Setting[int] = Setting(check.positive_integer, 1)

    @property
    def decreasing(self) -> bool:
        """Whether steps get shorter."""
        return self.step_sizes == "decreasing"


@algorithm(DPSGDOutputArguments, convex=True, linear_prediction=True, random_access=True)
def dp_sgd_output(fit: Fit, given: DPSGDOutputArguments) -> FitResult:
    """Run stochastic gradient descent in secret and release its result with noise, once.

    Parameters
    ----------
    objective : Objective
        With a convex loss of a linear prediction.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 8 (uniform sampling, average, no smoothing, Gaussian), if it suffices.
    callback : callable, optional
        Called once per phase with ``{"iteration", "coef"}``, the released weights; iterates stay secret.

    Notes
    -----
    Only the released weights are (epsilon, delta)-DP. Without noise the default settings end within 1e-3 of
    the optimum on problems of a few thousand records; an unbounded slope is clipped at 20 times the slope at
    the weights 0, and the result is still rounded to a thousandth of its sensitivity.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("hinge", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_sgd_output(objective, epsilon=1.0, delta=0.0, random_state=0)
    >>> np.sign(result.coef), result.privacy.delta
    (array([ 1., -1.]), 0.0)
    """
    objective = fit.objective
    # 1. settings: missing ones follow from public numbers
    clipped = given.radius == math.inf and not fit.as_published
    law = _noise_law(fit, given)
    fit.check_batch_size(given.batch_size)
    settings = given.completed(**_under_strong_ridge(fit, given, law)).completed(
        passes=1,
        step_size=1.0,
        step_sizes="constant",
        clip=_usual_clip(fit) if clipped else math.inf,
        sampling="uniform" if fit.as_published else "permutation",
        smooth_kink=not fit.as_published,
    )
    settings = settings.completed(output="last" if settings.decreasing else "average")
    _check_combination(fit, settings, given.step_size)
    settings = _with_defaults(fit, settings, given, law)
    # 2. the secret order of the records, and how far one of them can move the result
    fit.check_size_cap()
    check_places(objective)
    parts = parts_of_phases(_secret_order(fit, settings), settings.phases, settings.batch_size)
    first = BoundedDescent.of(objective, _recipe(settings), parts[0])
    settings = replace(settings, step_size=first.recipe.step_size)
    noise = _noise(fit, settings, first, law)
    for phase, part in enumerate(parts):  # later starts are not known yet, 0 stands for them
        start = np.zeros(objective.dimension) if phase else None
        run = BoundedDescent.of(objective, _recipe(settings, phase), part, start)
        noise.claim(fit, {relation: run.sensitivity(relation) for relation in Neighbours})
    bound = {"iterate_bound": first.plan.radius} if first.plan.radius < settings.radius else {}
    drawn = "permutation" if settings.sampling == "permutation" else "uniform records with replacement"
    release = fit.open("dp_sgd_output", noise.budget, settings, sampling=drawn, **bound)

    # 3. one release per phase, each of which starts at the weights released before
    steps, start = 0, None
    for phase, part in enumerate(parts):
        run = BoundedDescent.of(objective, _recipe(settings, phase), part, start)
        coef = noise.release(release, run.train(objective))
        start = project(coef, settings.radius)
        steps += run.plan.steps
        fit.show(steps, coef)
    words = f"{law.replace('_', '-')} noise on the result of stochastic gradient descent"
    notes = ["The iterates stay secret; only the result was released."]
    if len(parts) > 1:
        words += f", in {len(parts)} phases"
        notes = ["The iterates stay secret; only the result of each phase was released.", DISJOINT]
    return fit.result(
        coef, words, n_iter=steps, steps=steps, notes=(*notes, *add_or_remove_note(fit.neighbors))
    )


# -- settings ----------------------------------------------------------------------------------------


def _under_strong_ridge(fit: Fit, given: DPSGDOutputArguments, law: str) -> dict[str, Any]:
    """Decreasing steps and a clip for them, if their noise is harmless; otherwise nothing."""
    own = fit.objective
    needed = {"step_size": None, "phases": 1, "output": "last", "sampling": "permutation", "radius": math.inf}
    others = any(getattr(given, name) not in (value, None) for name, value in needed.items())
    refused = Needs(smooth=True, strongly_convex=True).refusal(own) is not None
    if others or refused or given.step_sizes == "constant" or fit.as_published or not fit.problem.private:
        return {}
    slope = own.loss.lipschitz(own.row_norm)
    longest = slope if slope < math.inf else rules.usual_gradient(own.loss, own.row_norm)
    usual = _usual_clip(fit) if given.clip is None else given.clip
    share = _noise_of_decreasing_steps(fit, given.batch_size, law)
    if given.step_sizes is None and share * min(usual, longest) ** 2 > _NOISE_SHARE_OF_DECREASING:
        return {}
    affordable = math.sqrt(_NOISE_SHARE_OF_LONGER_CLIPS / share)
    return {"step_sizes": "decreasing", "clip": max(usual, min(affordable, longest))}


def _usual_clip(fit: Fit) -> float:
    """The default clip, which does not count on the ridge term."""
    return rules.typical_clip(replace(fit.problem, l2=0.0))


def _noise_of_decreasing_steps(fit: Fit, batch_size: int, law: str) -> float:
    """What their noise may cost for a clip of 1, as a share of the loss at 0.

    Noise of variance ``s^2`` on each weight costs at most ``s^2 (beta + d l2) / 2``.
    """
    own, used = fit.objective, fit.n // batch_size * batch_size
    distance = permutation_sgd_decreasing_sensitivity(used, batch_size, 1.0, own.l2, neighbors=fit.neighbors)
    curvature = own.loss.smoothness(own.row_norm) + own.dimension * own.l2
    cost = 0.5 * curvature * (distance / _gaussian_mu(fit, law)) ** 2
    return cost / rules.typical_loss_at_zero(own.loss)


def _gaussian_mu(fit: Fit, law: str) -> float:
    """The budget of Gaussian noise with the same mean square on each weight."""
    return fit.epsilon / math.sqrt(fit.objective.dimension + 1.0) if law == "norm_laplace" else fit.mu


def _check_combination(fit: Fit, settings: DPSGDOutputArguments, given_step_size: float | None) -> None:
    """Raise ValueError for incompatible settings."""
    if fit.n // settings.batch_size < 2 and settings.output == "average":
        raise ValueError("output='average' needs at least two batches: with one the average is 0")
    if settings.sampling == "uniform" and settings.batch_size != 1:
        raise ValueError(f"batch_size must be 1 for sampling='uniform', got {settings.batch_size}")
    if settings.phases > 1:
        _check_phases(fit, settings)
    if settings.decreasing:
        refusal = Needs(smooth=True, strongly_convex=True).refusal(fit.objective)
        if refusal is not None:
            raise ValueError(f"step_sizes='decreasing' {refusal}")
        if (settings.sampling, settings.output, given_step_size) != ("permutation", "last", None):
            raise ValueError(
                "step_sizes='decreasing' goes with sampling='permutation', output='last' and no step_size"
            )
    fit.check_published("dp_sgd_output", neighbors=None)
    if fit.as_published:
        as_published = settings.sampling == "uniform" and settings.output == "average"
        if not as_published or settings.smooth_kink or fit.neighbors is not Neighbours.REPLACE_ONE:
            raise ValueError(
                "calibration='paper' is for sampling='uniform', output='average', smooth_kink=False and "
                "neighbors='replace_one'"
            )


def _check_phases(fit: Fit, settings: DPSGDOutputArguments) -> None:
    wanted = settings.sampling == "permutation" and not settings.decreasing and not fit.as_published
    if not wanted:
        raise ValueError(
            "phases go with sampling='permutation', step_sizes='constant' and calibration='tight'"
        )
    most = int(math.log2(max(fit.n // settings.batch_size, 2)))
    if settings.phases > most:
        raise ValueError(
            f"phases must be at most {most}, got {settings.phases}: each takes half of the remaining "
            "records, and needs at least two batches"
        )
    loss, row_norm = fit.objective.loss, fit.objective.row_norm
    if only_the_loss_bounds_gradients(loss, row_norm, settings.clip, settings.radius):
        raise ValueError(f"phases of the {loss.name} loss need a clip or a radius")


def _with_defaults(
    fit: Fit, settings: DPSGDOutputArguments, given: DPSGDOutputArguments, law: str
) -> DPSGDOutputArguments:
    """Fill in passes and step size if they were not given."""
    loss, row_norm, radius = fit.objective.loss, fit.objective.row_norm, settings.radius
    mu = _gaussian_mu(fit, law)
    if only_the_loss_bounds_gradients(loss, row_norm, settings.clip, radius):
        longest = gradient_bound(
            loss, row_norm, rules.typical_reach(replace(fit.problem, l2=0.0)), settings.clip
        )
    else:
        longest = gradient_bound(loss, row_norm, radius, settings.clip) * GRADIENT_SLACK
    if given.passes is None and settings.phases == 1:
        settings = replace(settings, passes=_default_passes(fit, settings, longest, mu))
    else:
        check.step_count("passes * n / batch_size", settings.passes * (fit.n // settings.batch_size))
    if settings.decreasing:
        return replace(settings, step_size=1.0 / (fit.objective.l2 + loss.smoothness(row_norm)))
    if given.step_size is not None:
        return settings
    if settings.phases > 1:
        default = _default_phased_step_size
    elif loss.smoothness(row_norm) < math.inf or (settings.smooth_kink and loss.kink_jump > 0.0):
        default = _default_step_size
    else:
        default = _default_rough_step_size
    reach = rules.typical_reach(fit.problem, radius)
    if mu == math.inf:  # the clip is far above the gradients that occur
        reach, longest = (
            min(reach, _EXACT_REACH / row_norm),
            min(longest, rules.usual_gradient(loss, row_norm)),
        )
    return replace(settings, step_size=default(fit, settings, reach, longest, mu))


def _default_passes(fit: Fit, settings: DPSGDOutputArguments, longest: float, mu: float) -> int:
    """Enough passes to bring a bound on the risk within a tenth of its limit for many passes."""
    own = fit.objective
    kink = (own.loss.kink_jump * own.row_norm) ** 2 / 8.0 if settings.smooth_kink else 0.0
    noise = 2.0 * longest**2 * math.sqrt(own.dimension) / mu
    once = longest**2 + kink + noise
    passes = once / (0.21 * noise) if noise > 0.0 else math.inf
    most = _MOST_PASSES
    if mu == math.inf:
        most = max(most, min(_MOST_EXACT_PASSES, int(_EXACT_GRADIENTS) // fit.n))
    return math.ceil(min(max(passes, 1.0), most))


def _default_step_size(
    fit: Fit, settings: DPSGDOutputArguments, reach: float, longest: float, mu: float
) -> float:
    """The step size that minimises a bound on the risk, for gradients that are or were made Lipschitz."""
    own, passes, batch_size = fit.objective, settings.passes, settings.batch_size
    loss, row_norm, l2 = own.loss, own.row_norm, own.l2
    smoothness = loss.smoothness(row_norm)
    steps = fit.n // batch_size
    eta = output_step_size(
        reach,
        steps,
        passes,
        longest,
        own.dimension,
        mu * batch_size,  # a record contributes 1 / batch_size of its step
        jump=loss.kink_jump * row_norm,
        smoothness=smoothness + l2 if smoothness < math.inf else 0.0,
    )
    # Noise of scale s on each weight moves a prediction by row_norm s, in one direction of many.
    pushes = 2.0 * longest * ((passes + 1) / 2.0 - 1.0 / steps) / batch_size
    noise = longest * pushes / mu
    if noise > 0.0:
        share = _NOISE_SHARE if loss.classification else _NOISE_SHARE_OF_RESIDUALS
        eta = min(eta, share * rules.typical_loss_at_zero(loss) / noise)
    if only_the_loss_bounds_gradients(loss, row_norm, settings.clip, settings.radius):
        eta = min(eta, (1.0 - 2.0**-40) / (l2 + smoothness))
    return eta


def _default_phased_step_size(
    fit: Fit, settings: DPSGDOutputArguments, reach: float, longest: float, mu: float
) -> float:
    """The step size of the first phase that minimises the sum of the phases' bounds on the risk.

    A phase of T steps eta that starts at distance D ends within ``D^2/(2 eta T) + eta G^2/2``. After the
    first phase D is the noise of the phase before, and the last noise adds ``G ||noise||``.
    """
    own, passes = fit.objective, settings.passes
    kink = (own.loss.kink_jump * own.row_norm) ** 2 / 8.0 if settings.smooth_kink else 0.0
    halves = parts_of_phases(np.arange(fit.n), settings.phases, settings.batch_size)
    counts = [passes * part.size // settings.batch_size for part in halves]
    square, slope = 0.0, 0.0  # squared noise of the phase before, and the bound, for a step size of 1
    for phase, steps in enumerate(counts):
        eta = 0.25**phase
        slope += 0.5 * eta * (longest**2 + kink) + square / (2.0 * eta * steps)
        square = own.dimension * (eta * longest * (passes + 1) / settings.batch_size / mu) ** 2
    slope += longest * math.sqrt(square)
    smoothness = own.loss.smoothness(own.row_norm) + own.l2
    limit = 2.0 / smoothness if smoothness < math.inf else math.inf
    return min(reach / math.sqrt(2.0 * counts[0] * slope), limit)


def _default_rough_step_size(
    fit: Fit, settings: DPSGDOutputArguments, reach: float, longest: float, mu: float
) -> float:
    """The step size that minimises a bound on the risk where steps on shared records expand."""
    own, loss = fit.objective, fit.objective.loss
    steps = fit.n // settings.batch_size * settings.passes

    def typical_distance(eta: float) -> float:
        kappa = glm_kappa(loss.holder_exponent, loss.holder_slope, own.row_norm, eta)
        pushes = eta * longest * (settings.passes + 1) / settings.batch_size
        return pushes + 2.0 / 3.0 * kappa * math.sqrt(steps)

    eta = numeric_step_size(typical_distance, reach, steps, longest, own.dimension, mu)
    return min(eta, 0.5 / own.l2) if own.l2 > 0.0 else eta


def _recipe(settings: DPSGDOutputArguments, phase: int = 0) -> DescentRecipe:
    return DescentRecipe(
        settings.passes,
        settings.batch_size,
        settings.step_size * 0.25**phase,
        settings.decreasing,
        settings.clip,
        settings.radius,
        average=settings.output == "average",
        uniform=settings.sampling == "uniform",
        smooth_kink=settings.smooth_kink,
    )


def _secret_order(fit: Fit, settings: DPSGDOutputArguments) -> Indices:
    bits = random_bits(fit.spawn_source())
    if settings.sampling == "uniform":
        return uniform_integers(bits, fit.n, settings.passes * fit.n)
    return np.asarray(permutation(bits, fit.n), dtype=np.int64)


# -- noise -------------------------------------------------------------------------------------------


def _noise_law(fit: Fit, settings: DPSGDOutputArguments) -> str:
    """Gaussian or norm-Laplace; noise that is fixed before the indices are drawn must be Gaussian."""
    mechanism = settings.mechanism
    if not fit.as_published and settings.counts == "realised":
        return noise_law(fit, mechanism)
    law = noise_law(fit, "gaussian" if mechanism == "auto" else mechanism)
    if law != "gaussian":
        raise ValueError(
            "calibration='paper' and counts='averaged' have Gaussian noise: mechanism must be 'gaussian' "
            f"or 'auto', got {mechanism!r}"
        )
    return law


def _noise(fit: Fit, settings: DPSGDOutputArguments, run: BoundedDescent, law: str) -> OutputNoise:
    """Noise for the sensitivity of the indices drawn, unless it was fixed in advance."""
    averaged = settings.sampling == "uniform" and settings.counts == "averaged"
    if not fit.as_published and not (averaged and fit.epsilon < math.inf):
        return for_disjoint_parts(output_noise(fit, law), settings.phases)
    # The published noise, or the least that covers one record's random number of occurrences.
    change = run.distance if fit.neighbors is Neighbours.REPLACE_ONE else run.longest
    push, steps, average = settings.step_size * change, run.plan.steps, run.plan.average
    once = count_sensitivity(1, steps, push, run.kappa, average=average)  # the smallest sensitivity
    sigma = averaged_count_sigma(fit.epsilon, fit.delta, fit.n, steps, push, run.kappa, average=average)
    if fit.as_published:
        published = _published_sigma(fit, settings, steps)
        fit.confirm(published >= sigma)
        sigma = published
    # Relative to the sensitivity of the indices drawn; the last factor covers rounding.
    bound = run.sensitivity(fit.neighbors)
    multiplier = sigma / bound * (1.0 + (bound / 1024.0 + run.rounding) / once)
    budget = ScheduledBudget(GaussianRelease(multiplier), 1, "averaged counts of a record")
    return OutputNoise("gaussian", multiplier, budget)


def _published_sigma(fit: Fit, settings: DPSGDOutputArguments, steps: int) -> float:
    """The noise of Theorem 8."""
    loss, row_norm = fit.objective.loss, fit.objective.row_norm
    alpha = loss.holder_exponent
    if settings.radius == math.inf and not loss.value_at_zero < math.inf:
        raise ValueError(f"the {loss.name} loss needs a target_bound, or a radius")
    return paper.sgd_output(
        fit.epsilon,
        fit.delta,
        n_samples=fit.n,
        steps=steps,
        eta=settings.step_size,
        alpha=alpha,
        holder=loss.holder_slope * row_norm ** (1.0 + alpha),
        gradient_at_zero=loss.slope_at_zero(row_norm),
        radius=settings.radius if settings.radius < math.inf else None,
        loss_at_zero=loss.value_at_zero,
    )
