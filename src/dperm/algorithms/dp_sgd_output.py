"""Output perturbation of stochastic gradient descent: a secret run, then noise on its result.

Wang, Lei, Ying and Zhang 2022, Algorithm 1, with passes over randomly permuted records (Wu et al., SIGMOD
2017), or in phases that approach the optimum (Feldman, Koren and Talwar, STOC 2020, Algorithm 2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.accounting import PrivacyLedger, paper
from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.permutation_sensitivity import averaged_count_sigma, count_sensitivity, glm_kappa
from dperm.accounting.step_size import numeric_step_size, output_step_size
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import OutputSGD, Usual
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.output_noise import (
    DISJOINT,
    OutputNoise,
    add_or_remove_note,
    for_disjoint_parts,
    noise_law,
    output_noise,
)
from dperm.algorithms.requirements import Needs, needs
from dperm.algorithms.rules import curvature, distance, longest_gradient, loss_at_zero, usual_clip
from dperm.algorithms.settings import Settings, setting
from dperm.mechanisms.random_source import RandomState, random_bits
from dperm.mechanisms.sampling import permutation, uniform_integers
from dperm.objective.bounded_descent import (
    GRADIENT_SLACK,
    BoundedDescent,
    DescentRecipe,
    gradient_bound,
    only_the_loss_bounds_gradients,
)
from dperm.objective.descents import Indices, check_places
from dperm.objective.objective import Objective
from dperm.objective.projection import project


@dataclass(frozen=True, kw_only=True)
class DPSGDOutputSchedule(Settings):
    """Settings of :func:`dp_sgd_output`."""

    passes: int = setting(check.step_count, OutputSGD.PASSES)
    step_size: float = setting(check.positive, 1.0)
    batch_size: int = setting(check.positive_integer, 1)
    step_sizes: str = setting(check.one_of("constant", "decreasing"), "constant")
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


@needs(convex=True, linear_prediction=True, random_access=True)
def dp_sgd_output(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    passes: int | None = None,
    batch_size: int = 1,
    step_size: float | None = None,
    step_sizes: str | None = None,
    phases: int = 1,
    radius: float = math.inf,
    clip: float | None = None,
    output: str | None = None,
    sampling: str | None = None,
    counts: str = "realised",
    smooth_kink: bool | None = None,
    mechanism: str = "auto",
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Run stochastic gradient descent in secret and release its result with noise, once.

    Pseudo-code, guarantee and proof: :doc:`/theory/dp_sgd_output`.

    Parameters
    ----------
    objective : Objective
        With a convex loss of a linear prediction.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        In [0, 1); 0 gives a pure guarantee, by norm-Laplace noise.
    passes : int, optional
        Passes over the records, by default 4, or one a phase; with ``sampling="uniform"`` there are
        ``passes * n`` steps.
    batch_size : int
        Records per step; the last ``n mod batch_size`` are left out.
    step_size : float, optional
        eta. By default it minimises a bound on the excess risk, see
        :func:`dperm.accounting.step_size.output_step_size`. At most ``2 / (l2 + beta)`` for a smooth loss.
    step_sizes : {"constant", "decreasing"}, optional
        "decreasing": ``min(1/(l2 + beta), 1/(l2 t))`` in step t, for smooth losses with ``l2 > 0`` and
        permutations; the last iterate is released.
    phases : int
        Number of phases. Each phase gets half of the remaining records, starts at the released weights of
        the phase before and takes steps a quarter as long. About ``log2(n)`` in the paper, with one pass; for
        constant steps and permutations.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    clip : float, optional
        Bound on the norm of one record's gradient; infinite where the loss bounds it, by its slope or (soft
        margin, power) by how far descent can get from 0, which acts as a radius. By default that
        of :mod:`dperm.algorithms.rules`; none with a `radius`.
    output : {"average", "last"}, optional
        Mean of the iterates ``w_1 .. w_T`` (default for constant steps), or ``w_(T+1)``.
    sampling : {"permutation", "uniform"}, optional
        One random order of the records for all passes (default); or an independent uniform record in every
        step (as in the paper; ``batch_size=1``).
    counts : {"realised", "averaged"}
        For uniform sampling: noise for the indices that were drawn, or fixed in advance by averaging over the
        number of times that a record is drawn.
    smooth_kink : bool, optional
        Replace each kink of the loss by a ramp of curvature ``2/(step_size row_norm^2)``: far less noise,
        for a bias of the order of a step. The default, except in paper mode.
    mechanism : {"auto", "gaussian", "norm_laplace"}
        "auto": whichever has the smaller mean square error. In few dimensions that is norm-Laplace noise,
        which spends no delta.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 8 (uniform sampling, average, no smoothing, Gaussian), if it suffices.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger. Here
        "add_or_remove" replaces a record by one without gradient; n stays public.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called once per phase with ``{"iteration", "coef"}``, the released weights; iterates stay secret.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    Only the released weights are (epsilon, delta)-DP.

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
    given = DPSGDOutputSchedule.checked(
        passes=passes, batch_size=batch_size, step_size=step_size, step_sizes=step_sizes, phases=phases,
        radius=radius, clip=clip, output=output, sampling=sampling, counts=counts, smooth_kink=smooth_kink,
    )  # fmt: skip
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        return _dp_sgd_output(fit, given, mechanism)


def _dp_sgd_output(fit: Fit, given: Mapping[str, Any], mechanism: str) -> FitResult:
    objective = fit.objective
    # 1. settings: missing ones follow from public numbers
    law = _noise_law(fit, given, mechanism)
    mu = fit.epsilon / math.sqrt(objective.dimension + 1.0) if law == "norm_laplace" else fit.mu
    fit.check_batch_size(given["batch_size"])
    settings = _completed(fit, given)
    _check_combination(fit, settings, "step_size" in given)
    if "step_size" not in given:
        settings = replace(settings, step_size=_step_size(fit, settings, mu))
    check.step_count("passes * n / batch_size", settings.passes * (fit.n // settings.batch_size))
    # 2. the secret order of the records, and how far one of them can move the result
    fit.check_size_cap()
    check_places(objective)
    parts = _parts_of_phases(_secret_order(fit, settings), settings.phases, settings.batch_size)
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
    ran = f"{law.replace('_', '-')} noise on the result of stochastic gradient descent"
    notes = ["The iterates stay secret; only the result was released."]
    if len(parts) > 1:
        ran += f", in {len(parts)} phases"
        notes = ["The iterates stay secret; only the result of each phase was released.", DISJOINT]
    return fit.result(
        coef, ran, n_iter=steps, steps=steps, notes=(*notes, *add_or_remove_note(fit.neighbors))
    )


def _completed(fit: Fit, given: Mapping[str, Any]) -> DPSGDOutputSchedule:
    """The given settings and default ones, but for the step size."""
    published = fit.as_published
    default = {
        "passes": 1 if given["phases"] > 1 or published else OutputSGD.PASSES,
        "clip": math.inf if published or given["radius"] < math.inf else usual_clip(fit.problem),
        "sampling": "uniform" if published else "permutation",
        "smooth_kink": not published,
        "output": "last" if given.get("step_sizes") == "decreasing" else "average",
    }
    return DPSGDOutputSchedule(**{**default, **given})


def _step_size(fit: Fit, settings: DPSGDOutputSchedule, mu: float) -> float:
    """The step size that minimises a bound on the risk, noise included."""
    loss, row_norm, l2 = fit.problem.loss, fit.problem.row_norm, fit.problem.l2
    smoothness = loss.smoothness(row_norm)
    if settings.decreasing:
        return 1.0 / (l2 + smoothness)
    far, passes = distance(fit.problem, settings.radius), settings.passes
    self_bounding = only_the_loss_bounds_gradients(loss, row_norm, settings.clip, settings.radius)
    within = far if self_bounding else settings.radius
    longest = gradient_bound(loss, row_norm, within, settings.clip) * GRADIENT_SLACK
    if not fit.problem.private:  # the clip is far above the gradients that occur
        longest = min(longest, longest_gradient(loss, row_norm))
    # Of the first phase; a record contributes 1 / batch_size of its step.
    n = fit.n // 2 if settings.phases > 1 else fit.n
    steps, mu = max(n // settings.batch_size, 2), mu * settings.batch_size
    if smoothness == math.inf and not (settings.smooth_kink and loss.kink_jump > 0.0):

        def sensitivity(eta: float) -> float:
            kappa = glm_kappa(loss.holder_exponent, loss.holder_slope, row_norm, eta)
            # Steps on shared records expand distances by about this.
            return eta * longest * (passes + 1) + OutputSGD.ROUGH * kappa * math.sqrt(steps * passes)

        eta = numeric_step_size(sensitivity, far, steps * passes, longest, fit.problem.dimension, mu)
        return min(eta, 0.5 / l2) if l2 > 0.0 else eta
    smooth = smoothness + l2 if smoothness < math.inf else 0.0
    kink = loss.kink_jump * row_norm
    eta = output_step_size(
        far, steps, passes, longest, fit.problem.dimension, mu, jump=kink, smoothness=smooth
    )
    # Noise of variance s^2 on each weight costs at most s^2 / 2 times the curvature.
    least = mu * math.sqrt(2.0 * Usual.NOISE * loss_at_zero(loss) / curvature(fit.problem))
    eta = min(eta, least / (longest * (passes + 1)))
    return min(eta, (1.0 - 2.0**-40) / smooth) if self_bounding else eta


def _parts_of_phases(order: Indices, phases: int, batch_size: int = 1) -> list[Indices]:
    """Records of each phase: half of the remaining ones, in whole batches; the last phase gets the rest."""
    parts, left = [], order
    for _ in range(phases - 1):
        size = left.size // (2 * batch_size) * batch_size
        parts.append(left[:size])
        left = left[size:]
    return [*parts, left]


def _check_combination(fit: Fit, settings: DPSGDOutputSchedule, step_size_given: bool) -> None:
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
        if (settings.sampling, settings.output, step_size_given) != ("permutation", "last", False):
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


def _check_phases(fit: Fit, settings: DPSGDOutputSchedule) -> None:
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


def _recipe(settings: DPSGDOutputSchedule, phase: int = 0) -> DescentRecipe:
    return DescentRecipe(
        settings.passes,
        settings.batch_size,
        settings.step_size * OutputSGD.PHASE_STEP**phase,
        settings.decreasing,
        settings.clip,
        settings.radius,
        average=settings.output == "average",
        uniform=settings.sampling == "uniform",
        smooth_kink=settings.smooth_kink,
    )


def _secret_order(fit: Fit, settings: DPSGDOutputSchedule) -> Indices:
    bits = random_bits(fit.spawn_source())
    if settings.sampling == "uniform":
        return uniform_integers(bits, fit.n, settings.passes * fit.n)
    return np.asarray(permutation(bits, fit.n), dtype=np.int64)


def _noise_law(fit: Fit, given: Mapping[str, Any], mechanism: str) -> str:
    """Gaussian or norm-Laplace; noise that is fixed before the indices are drawn must be Gaussian."""
    if not fit.as_published and given["counts"] == "realised":
        return noise_law(fit, mechanism)
    law = noise_law(fit, "gaussian" if mechanism == "auto" else mechanism)
    if law != "gaussian":
        raise ValueError(
            "calibration='paper' and counts='averaged' have Gaussian noise: mechanism must be 'gaussian' "
            f"or 'auto', got {mechanism!r}"
        )
    return law


def _noise(fit: Fit, settings: DPSGDOutputSchedule, run: BoundedDescent, law: str) -> OutputNoise:
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


def _published_sigma(fit: Fit, settings: DPSGDOutputSchedule, steps: int) -> float:
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
