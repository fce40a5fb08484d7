"""Stochastic gradient descent in secret, then noise on its result.

P. Wang, Y. Lei, Y. Ying, H. Zhang, "Differentially private SGD with non-smooth losses", Applied and
Computational Harmonic Analysis 56, 2022, Algorithm 1, with passes over the records in a random order
(X. Wu et al., "Bolt-on differential privacy for scalable stochastic gradient descent-based analytics",
SIGMOD 2017).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import RandomBits
from dperm.accounting import paper
from dperm.accounting.budget import Budget
from dperm.accounting.descent_rounding import descent_rounding
from dperm.accounting.events import GaussianRelease, PureRelease
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.norm_laplace import gaussian_or_norm_laplace
from dperm.accounting.output_sensitivity import (
    permutation_sgd_decreasing_sensitivity,
    permutation_sgd_sensitivity,
)
from dperm.accounting.permutation_sensitivity import (
    averaged_count_sigma,
    count_sensitivity,
    glm_kappa,
    permutation_pass_sensitivity,
    realised_sensitivity,
    unbounded_iterate_radius,
)
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.accounting.step_size import numeric_step_size, output_step_size
from dperm.accounting.units import check_target, gaussian_noise_multiplier
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.output_noise import add_or_remove_note
from dperm.algorithms.requirements import Needs, needs
from dperm.algorithms.settings import check_choice, check_positive, check_positive_integer
from dperm.algorithms.sgd_settings import (
    batch_and_noise_streams,
    gradient_bound,
    typical_clip,
    typical_loss_at_zero,
    typical_reach,
    usual_gradient,
)
from dperm.losses import Loss
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.mechanisms.sampling import permutation, uniform_integers
from dperm.objective.objective import Objective
from dperm.objective.stochastic_descent import DescentPlan, Indices, StepRule
from dperm.statement.privacy_statement import PrivacyStatement

Array = NDArray[np.float64]

# Gradients and projections are computed to better than that, relatively.
_SLACK = 1.0 + 2.0**-30

_MOST_PASSES = 20
# What the noise may cost, as a share of the loss at 0: a fit should not be much worse than none. Losses of
# residuals grow faster than their slope at 0 says. Found on public data sets.
_NOISE_SHARE, _NOISE_SHARE_OF_RESIDUALS = 0.5, 0.075
# Without noise: gradients of records, where they are more than that, and the most passes for them.
_EXACT_GRADIENTS, _MOST_EXACT_PASSES = 4e6, 2000
# Predictions at the optimum that steps without noise are made for; results are rounded more coarsely, the
# further a run goes.
_EXACT_REACH = 20.0


@dataclass(frozen=True)
class OutputSettings:
    """Public settings of a run, as the arguments of :func:`dp_sgd_output` of the same names."""

    passes: int
    batch_size: int
    step_size: float
    step_sizes: str
    radius: float
    clip: float
    output: str
    sampling: str
    counts: str
    smooth_kink: bool
    calibration: str
    row_norm: float


class SecretRun(NamedTuple):
    """A run, and what its sensitivity rests on.

    Attributes
    ----------
    plan : DescentPlan
    n_samples : int
        Public number of records, those left out of the batches not counted.
    step_size : float
        The largest one.
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
    n_samples: int
    step_size: float
    longest: float
    distance: float
    kappa: float
    rounding: float
    strongly_convex: bool


class Sensitivity(NamedTuple):
    """Of the result: against a null record, and when a record is replaced."""

    contribution: float
    replacement: float

    def under(self, relation: Neighbours) -> float:
        """The one that counts."""
        return self.replacement if relation is Neighbours.REPLACE_ONE else self.contribution


@needs(convex=True, linear_prediction=True, random_access=True)
def dp_sgd_output(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    passes: int | None = None,
    batch_size: int = 1,
    step_size: float | None = None,
    step_sizes: str = "constant",
    radius: float = math.inf,
    clip: float | None = None,
    output: str | None = None,
    sampling: str | None = None,
    counts: str = "realised",
    smooth_kink: bool | None = None,
    mechanism: str = "auto",
    calibration: str = "tight",
    neighbors: str = "replace_one",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Run stochastic gradient descent in secret and release its result with noise, once.

    Parameters
    ----------
    objective : Objective
        With a convex loss of a linear prediction.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        At least 0 and below 1; 0 asks for a pure guarantee (norm-Laplace noise).
    passes : int, optional
        How often the records are gone through; with ``sampling="uniform"`` there are ``passes * n`` steps.
        By default as many as lower a bound on the excess risk noticeably, from public numbers: up to 20, or
        without noise up to 2000 where these are no more than ``4e6`` gradients of records.
    batch_size : int
        Records per step; a rest of ``n mod batch_size`` is left out.
    step_size : float, optional
        eta. By default the minimiser of a bound on the excess risk, see
        :func:`dperm.accounting.step_size.output_step_size`. At most ``2 / (l2 + beta)`` for a smooth loss.
    step_sizes : {"constant", "decreasing"}
        "decreasing": ``min(1/(l2 + beta), 1/(l2 t))`` in step t, for smooth losses with ``l2 > 0`` and
        permutations; the last iterate is released.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    clip : float, optional
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it: its slope, or
        (soft margin, power) how far it lets descent get from 0, which counts as a radius. By default
        from public numbers: see :func:`dperm.algorithms.sgd_settings.typical_clip`.
    output : {"average", "last"}, optional
        Mean of the iterates ``w_1 .. w_T`` (default for constant steps), or ``w_(T+1)``.
    sampling : {"permutation", "uniform"}, optional
        A random order of the records, gone through in every pass (default); or an independent uniform
        record in every step (the paper's; ``batch_size=1``).
    counts : {"realised", "averaged"}
        For uniform sampling: noise for the indices that were drawn, or fixed before by averaging over how
        often one record is drawn.
    smooth_kink : bool, optional
        Replace each kink of the loss by a ramp of curvature ``2/(step_size row_norm^2)``: far less noise,
        for a bias of the order of a step. The default, except in paper mode.
    mechanism : {"auto", "gaussian", "norm_laplace"}
        "auto": whichever has the smaller mean square error.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 8 (uniform sampling, average, no smoothing, Gaussian), where it holds.
    neighbors : {"replace_one", "add_or_remove"}
        With ``add_or_remove`` a record is replaced by one without gradient; n stays public.
    ledger, random_state
        As for :func:`dperm.algorithms.noisy_gd`.
    callback : callable, optional
        Called once with ``{"iteration", "coef"}``: iterates stay secret.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, a gradient without bound (pass `clip` or `radius`), or a paper
        calibration that does not give the claimed guarantee.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    With ``a = eta ||g - g'||`` the distance D of two runs grows by ``a / batch_size`` in the step that
    uses the record. In the others it does not grow (Lipschitz gradients, eta at most 2/beta; Hardt, Recht and
    Singer 2016), or to ``sqrt(D^2 + kappa^2)`` (alpha-Hoelder gradients; Wang et al. 2022, Lemma 21). A
    permutation uses each record once a pass, so nothing is left to chance. The bound
    (:func:`dperm.accounting.permutation_sensitivity.permutation_pass_sensitivity`) is that of the program:
    rounding is added (:mod:`dperm.accounting.descent_rounding`).

    Without noise the default settings end within 1e-3 of the optimum on problems of a few thousand records;
    a slope without limit is clipped at 20 times the one at the weights 0. The result is rounded to a
    thousandth of the sensitivity there, too.
    """
    relation = Neighbours.parse(neighbors)
    epsilon, delta = check_target(epsilon, delta)
    check_choice("calibration", calibration, ("tight", "paper"))
    as_published = calibration == "paper"
    decreasing = step_sizes == "decreasing"
    if clip is None:
        clip = math.inf
        if not as_published and radius == math.inf:
            mu = gdp_mu(epsilon, delta) if delta > 0.0 else epsilon
            clip = typical_clip(
                objective.loss, objective.row_norm, objective.n_public, mu, objective.dimension
            )
    kind = _noise_kind(epsilon, delta, objective.dimension, mechanism, as_published or counts == "averaged")
    settings = OutputSettings(
        passes=0 if passes is None else passes,
        batch_size=batch_size,
        step_size=0.0 if step_size is None else step_size,
        step_sizes=step_sizes,
        radius=radius,
        clip=clip,
        output=("last" if decreasing else "average") if output is None else output,
        sampling=("uniform" if as_published else "permutation") if sampling is None else sampling,
        counts=counts,
        smooth_kink=not as_published if smooth_kink is None else smooth_kink,
        calibration=calibration,
        row_norm=objective.row_norm,
    )
    given = {"passes": passes, "batch_size": batch_size, "step_size": step_size, "smooth_kink": smooth_kink}
    _check(settings, objective, given, relation)
    objective.check_places()
    run, settings = _plan(objective, settings, _equivalent_mu(epsilon, delta, kind, objective.dimension))
    bits, source = batch_and_noise_streams(random_state)
    order = _draw_order(bits, objective, run, settings)
    bounds = _sensitivity(run, settings, order, objective.l2)
    public = public_facts(objective, **vars(settings))
    if run.plan.radius < radius:
        public["iterate_bound"] = run.plan.radius
    fixed = _fixed_noise(objective, run, settings, epsilon, delta, relation)
    budget: Budget | ScheduledBudget
    if kind == "norm_laplace":
        delta = 0.0
        budget = ScheduledBudget(PureRelease(epsilon), 1, "pure")
    elif fixed is None:
        budget = Budget.from_epsilon(epsilon, delta, "gdp")
        multiplier = gaussian_noise_multiplier(budget.share(parts=1), "gdp")
    else:
        multiplier = fixed.multiplier(bounds.under(relation), run.rounding)
        budget = ScheduledBudget(GaussianRelease(multiplier), 1, fixed.accountant)
    releaser = Releaser(
        epsilon,
        delta,
        budget,
        neighbors=relation,
        ledger=ledger,
        random_state=source,
        description="dp_sgd_output",
        statement=public,
    )
    weights = objective.sgd_weights(
        run.plan, order, add_or_remove=bounds.contribution, replace_one=bounds.replacement
    )
    sensitivity = weights.sensitivity(relation)
    if kind == "norm_laplace":
        coef, scale = releaser.norm_laplace_sum(weights, epsilon), sensitivity / epsilon
    else:
        coef, scale = releaser.gaussian_sum(weights, multiplier), multiplier * sensitivity
    if callback is not None:
        callback({"iteration": run.plan.steps, "coef": coef.copy()})
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta if epsilon < math.inf else 0.0,
        neighbors=relation,
        mechanism=f"{kind.replace('_', '-')} noise on the result of stochastic gradient descent",
        accountant=str(budget.accountant),
        sampling="permutation" if settings.sampling == "permutation" else "uniform records with replacement",
        sensitivity=sensitivity,
        noise_scale=scale,
        clip=clip if clip < math.inf else None,
        row_norm=objective.row_norm,
        steps=run.plan.steps,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=gdp_mu(epsilon, delta) if kind == "gaussian" and fixed is None else None,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
        notes=("The iterates stay secret; only the result was released.", *add_or_remove_note(relation)),
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=run.plan.steps)


# -- the run -----------------------------------------------------------------------------------------


def _plan(objective: Objective, settings: OutputSettings, mu: float) -> tuple[SecretRun, OutputSettings]:
    """The run with its default settings filled in, from public numbers."""
    loss, row_norm, l2 = objective.loss, objective.row_norm, objective.l2
    per_pass = objective.n_public // settings.batch_size
    if _is_unbounded(loss, row_norm, settings):
        usual = gradient_bound(loss, row_norm, typical_reach(loss, row_norm), settings.clip)
        settings = _with_defaults(objective, settings, usual, mu)
        radius = _iterate_bound(objective, settings, settings.passes * per_pass)
        longest = gradient_bound(loss, row_norm, radius, settings.clip) * _SLACK
    else:
        radius = settings.radius
        longest = gradient_bound(loss, row_norm, radius, settings.clip) * _SLACK
        settings = _with_defaults(objective, settings, longest, mu)
    distance = 2.0 * longest
    if settings.clip >= loss.lipschitz(row_norm, radius):
        distance = min(distance, loss.gradient_distance(row_norm, radius) * _SLACK)
    if settings.smooth_kink and loss.kink_jump > 0.0:
        loss, settings = _smooth(loss, settings, row_norm, l2)
    kappa = _kappa(objective, loss, settings)
    plan = DescentPlan(
        loss=loss,
        steps=settings.passes * per_pass,
        batch_size=settings.batch_size,
        step_size=_decreasing(settings.step_size, l2)
        if settings.step_sizes == "decreasing"
        else settings.step_size,
        clip=settings.clip,
        radius=radius,
        average=settings.output == "average",
    )
    error = descent_rounding(
        plan.steps,
        settings.step_size,
        batch_size=plan.batch_size,
        dimension=objective.dimension,
        gradient_bound=longest,
        smoothness=loss.smoothness(row_norm),
        row_norm=row_norm,
        l2=l2,
        radius=plan.radius,
    )
    every_weight = not objective.fit_intercept or objective.penalize_intercept
    run = SecretRun(
        plan=plan,
        n_samples=per_pass * plan.batch_size,
        step_size=settings.step_size,
        longest=longest,
        distance=distance,
        kappa=math.sqrt(kappa * kappa + error.drift),
        rounding=error.additive,
        strongly_convex=l2 > 0.0 and every_weight and loss.smoothness(row_norm) < math.inf,
    )
    return run, settings


def _is_unbounded(loss: Loss, row_norm: float, settings: OutputSettings) -> bool:
    """Whether nothing bounds gradients but the loss itself, by how far it lets the iterates go."""
    endless = min(settings.clip, settings.radius, loss.lipschitz(row_norm)) == math.inf
    return endless and loss.self_bounding_slope < math.inf and loss.value_at_zero < math.inf


def _iterate_bound(objective: Objective, settings: OutputSettings, steps: int) -> float:
    """How far descent gets from 0 without projection (Wang et al. 2022, Lemma 20).

    With a ridge term a step is one of size ``eta/(1 - eta l2)`` on the loss alone, then a contraction.
    """
    loss, row_norm, l2, eta = objective.loss, objective.row_norm, objective.l2, settings.step_size
    if l2 > 0.0 and objective.fit_intercept and not objective.penalize_intercept:
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
    bound = unbounded_iterate_radius(
        steps + 1,  # the result, too
        eta / (1.0 - eta * l2),
        loss.holder_exponent,
        loss.self_bounding_slope * row_norm,
        loss.value_at_zero,
    )
    if not bound < math.inf:
        raise ValueError(f"step_size {eta!r} is too long for a bound on the iterates: pass clip or radius")
    return bound * _SLACK


def _with_defaults(
    objective: Objective, settings: OutputSettings, longest: float, mu: float
) -> OutputSettings:
    """Passes and step size where they were not given."""
    loss, row_norm = objective.loss, objective.row_norm
    smoothness = loss.smoothness(row_norm)
    kink = (loss.kink_jump * row_norm) ** 2 / 8.0 if settings.smooth_kink else 0.0
    if not settings.passes:
        # The bound on the risk falls with the passes towards a limit: stop within a tenth of it.
        noise = 2.0 * longest**2 * math.sqrt(objective.dimension) / mu
        once = longest**2 + kink + noise
        passes = once / (0.21 * noise) if noise > 0.0 else math.inf
        most = _most_passes(objective.n_public) if mu == math.inf else _MOST_PASSES
        settings = replace(settings, passes=math.ceil(min(max(passes, 1.0), most)))
    if settings.step_sizes == "decreasing":
        return replace(settings, step_size=1.0 / (objective.l2 + smoothness))
    if settings.step_size:
        return settings
    reach = typical_reach(loss, row_norm, settings.radius, objective.l2)
    if mu == math.inf:
        reach = min(reach, _EXACT_REACH / row_norm)
        longest = min(longest, usual_gradient(loss, row_norm))  # the clip is far above what is met
    steps = objective.n_public // settings.batch_size
    if smoothness < math.inf or (settings.smooth_kink and loss.kink_jump > 0.0):
        eta = output_step_size(
            reach,
            steps,
            settings.passes,
            longest,
            objective.dimension,
            mu * settings.batch_size,  # a record counts for so much less in its step
            jump=loss.kink_jump,
            row_norm=row_norm,
            smoothness=smoothness + objective.l2 if smoothness < math.inf else 0.0,
        )
        # Noise of scale s on each weight moves a prediction by row_norm s, in one direction of many.
        pushes = 2.0 * longest * ((settings.passes + 1) / 2.0 - 1.0 / steps) / settings.batch_size
        noise = longest * pushes / mu
        if noise > 0.0:
            share = _NOISE_SHARE if loss.classification else _NOISE_SHARE_OF_RESIDUALS
            eta = min(eta, share * typical_loss_at_zero(loss) / noise)
        if _is_unbounded(loss, row_norm, settings):
            eta = min(eta, (1.0 - 2.0**-40) / (objective.l2 + smoothness))
        return replace(settings, step_size=eta)
    steps *= settings.passes

    def typical_distance(eta: float) -> float:
        kappa = glm_kappa(loss.holder_exponent, loss.holder_slope, row_norm, eta)
        pushes = eta * longest * (settings.passes + 1) / settings.batch_size
        return pushes + 2.0 / 3.0 * kappa * math.sqrt(steps)

    eta = numeric_step_size(typical_distance, reach, steps, longest, objective.dimension, mu)
    return replace(settings, step_size=min(eta, 0.5 / objective.l2) if objective.l2 > 0.0 else eta)


def _most_passes(n: int) -> int:
    """Of a run without noise."""
    return max(_MOST_PASSES, min(_MOST_EXACT_PASSES, int(_EXACT_GRADIENTS) // n))


def _decreasing(first: float, l2: float) -> StepRule:
    """``min(first, 1/(l2 t))``."""
    return lambda start, count: np.minimum(first, 1.0 / (l2 * np.arange(start + 1.0, start + count + 1.0)))


def _smooth(loss: Loss, settings: OutputSettings, row_norm: float, l2: float) -> tuple[Loss, OutputSettings]:
    """The loss with ramps that no step overshoots; steps shrink until ramps do not overlap."""
    for halvings in range(60):
        eta = settings.step_size / 2.0**halvings
        # A whisker less, so that rounding does not push the step past 2 / (l2 + smoothness).
        curvature = (2.0 / eta - l2) / row_norm**2 * (1.0 - 1e-12)
        try:
            return loss.smoothed(curvature), replace(settings, step_size=eta)
        except ValueError as error:
            refusal = error
    raise refusal


def _kappa(objective: Objective, loss: Loss, settings: OutputSettings) -> float:
    eta, l2, row_norm = settings.step_size, objective.l2, objective.row_norm
    smoothness = loss.smoothness(row_norm)
    if smoothness < math.inf:
        if eta * (l2 + smoothness) > 2.0:
            raise ValueError(
                f"step_size must be at most 2/(l2 + beta) = {2.0 / (l2 + smoothness):.6g} for the "
                f"{loss.name} loss, got {eta!r}"
            )
        return 0.0
    if settings.step_sizes == "decreasing":
        raise ValueError("step_sizes='decreasing' needs a smooth loss, and " + f"{loss.name} has a kink")
    if l2 > 0.0 and objective.fit_intercept and not objective.penalize_intercept:
        raise ValueError(
            f"the gradients of the {loss.name} loss are not Lipschitz continuous: with l2 > 0 it needs "
            "penalize_intercept=True, or smooth_kink=True"
        )
    if eta * l2 >= 1.0:
        raise ValueError(f"step_size must be below 1/l2 = {1.0 / l2:.6g}, got {eta!r}")
    # A contraction by 1 - eta l2, after a step of this size on the loss alone.
    return glm_kappa(loss.holder_exponent, loss.holder_slope, row_norm, eta / (1.0 - eta * l2))


def _draw_order(bits: RandomBits, objective: Objective, run: SecretRun, settings: OutputSettings) -> Indices:
    """Indices of records, in the order in which they are used; independent of the data."""
    if settings.sampling == "uniform":
        return uniform_integers(bits, objective.n_public, run.plan.steps)
    return np.asarray(permutation(bits, objective.n_public), dtype=np.int64)


# -- how far one record moves the result -------------------------------------------------------------


def _sensitivity(run: SecretRun, settings: OutputSettings, order: Indices, l2: float) -> Sensitivity:
    cap = 2.0 * run.plan.radius * _SLACK
    contribution, replacement = (
        min(cap, _exact_sensitivity(run, settings, order, l2, change) + run.rounding)
        for change in (run.longest, run.distance)
    )
    return Sensitivity(contribution, replacement)


def _exact_sensitivity(
    run: SecretRun, settings: OutputSettings, order: Indices, l2: float, change: float
) -> float:
    """Of the run in real numbers, for gradients of the record that are `change` apart at most."""
    plan, push = run.plan, run.step_size * change
    if settings.step_sizes == "decreasing":
        return permutation_sgd_decreasing_sensitivity(
            run.n_samples, plan.batch_size, change, l2, neighbors="add_or_remove"
        )
    if settings.sampling == "uniform":
        last, average = realised_sensitivity(order, push, run.kappa)
        return average if plan.average else last
    bound = permutation_pass_sensitivity(
        run.n_samples,
        settings.passes,
        push,
        run.kappa,
        batch_size=plan.batch_size,
        average=plan.average,
    )
    if plan.average or not run.strongly_convex:
        return bound
    contracting = permutation_sgd_sensitivity(
        run.n_samples,
        plan.batch_size,
        settings.passes,
        run.step_size,
        change,
        plan.loss.smoothness(settings.row_norm),
        l2=l2,
        neighbors="add_or_remove",
    )
    return min(bound, contracting)


# -- noise -------------------------------------------------------------------------------------------


class FixedNoise(NamedTuple):
    """Noise that was fixed before the indices were drawn.

    Attributes
    ----------
    sigma : float
        For the run in real numbers.
    once : float
        Smallest sensitivity that it was calibrated with.
    accountant : str
    """

    sigma: float
    once: float
    accountant: str

    def multiplier(self, bound: float, rounding: float) -> float:
        """Over the sensitivity `bound` of the indices drawn; what rounding adds is no more than that."""
        return self.sigma / bound * (1.0 + (bound / 1024.0 + rounding) / self.once)


def _fixed_noise(
    objective: Objective,
    run: SecretRun,
    settings: OutputSettings,
    epsilon: float,
    delta: float,
    relation: Neighbours,
) -> FixedNoise | None:
    """Noise that does not follow from the sensitivity of the indices drawn; None where it does."""
    if settings.calibration == "paper":
        sigma = _paper_sigma(objective, settings, run.plan.steps, epsilon, delta)
        accountant = "averaged counts of a record"
    elif settings.sampling == "uniform" and settings.counts == "averaged" and epsilon < math.inf:
        sigma, accountant = 0.0, "averaged counts of a record"
    else:
        return None
    change = run.distance if relation is Neighbours.REPLACE_ONE else run.longest
    push, average = run.step_size * change, run.plan.average
    once = count_sensitivity(1, run.plan.steps, push, run.kappa, average=average)
    enough = averaged_count_sigma(
        epsilon, delta, objective.n_public, run.plan.steps, push, run.kappa, average=average
    )
    if settings.calibration == "paper" and sigma < enough:
        raise ValueError(
            f"the published noise does not give (epsilon={epsilon:g}, delta={delta:g}); "
            "use calibration='tight'"
        )
    return FixedNoise(max(sigma, enough), once, accountant)


def _paper_sigma(
    objective: Objective, settings: OutputSettings, steps: int, epsilon: float, delta: float
) -> float:
    """Theorem 8; for the constants of the loss see there."""
    loss, row_norm = objective.loss, objective.row_norm
    alpha = loss.holder_exponent
    loss_at_zero = loss.value_at_zero
    if settings.radius == math.inf and not loss_at_zero < math.inf:
        raise ValueError(f"the {loss.name} loss needs a target_bound, or a radius")
    return paper.sgd_output(
        epsilon,
        delta,
        n_samples=objective.n_public,
        steps=steps,
        eta=settings.step_size,
        alpha=alpha,
        holder=loss.holder_slope * row_norm ** (1.0 + alpha),
        gradient_at_zero=loss.slope_at_zero(row_norm),
        radius=settings.radius if settings.radius < math.inf else None,
        loss_at_zero=loss_at_zero,
    )


def _noise_kind(epsilon: float, delta: float, dimension: int, mechanism: str, fixed: bool) -> str:
    """Gaussian or norm-Laplace."""
    check_choice("mechanism", mechanism, ("auto", "gaussian", "norm_laplace"))
    if delta == 0.0 and (mechanism == "gaussian" or fixed):
        raise ValueError("delta must be above 0 for Gaussian noise; delta=0 takes mechanism='norm_laplace'")
    if mechanism != "auto":
        return mechanism
    return "gaussian" if fixed else gaussian_or_norm_laplace(epsilon, delta, dimension).mechanism


def _equivalent_mu(epsilon: float, delta: float, kind: str, dimension: int) -> float:
    """The mu of Gaussian noise with the same mean square, for the rules of thumb."""
    return epsilon / math.sqrt(dimension + 1.0) if kind == "norm_laplace" else gdp_mu(epsilon, delta)


def _check(
    settings: OutputSettings, objective: Objective, given: Mapping[str, Any], relation: Neighbours
) -> None:
    """Every setting by itself, and what does not go together."""
    for name in ("passes", "batch_size"):
        if given[name] is not None:
            check_positive_integer(name, given[name])
    if given["step_size"] is not None:
        check_positive("step_size", given["step_size"])
    check_choice("step_sizes", settings.step_sizes, ("constant", "decreasing"))
    check_choice("output", settings.output, ("average", "last"))
    check_choice("sampling", settings.sampling, ("permutation", "uniform"))
    check_choice("counts", settings.counts, ("realised", "averaged"))
    if not isinstance(settings.smooth_kink, bool | np.bool_):
        raise ValueError(f"smooth_kink must be True, False or None, got {given['smooth_kink']!r}")
    if settings.batch_size > objective.n_public:
        raise ValueError(f"batch_size must be at most n = {objective.n_public}, got {settings.batch_size}")
    if objective.n_public // settings.batch_size < 2 and settings.output == "average":
        raise ValueError("output='average' needs at least two batches: with one the average is 0")
    if settings.sampling == "uniform" and settings.batch_size != 1:
        raise ValueError(f"batch_size must be 1 for sampling='uniform', got {settings.batch_size}")
    if settings.step_sizes == "decreasing":
        strongly = Needs(smooth=True, strongly_convex=True)
        refusal = strongly.refusal(objective)
        if refusal is not None:
            raise ValueError(f"step_sizes='decreasing' {refusal}")
        if settings.sampling != "permutation" or settings.output != "last" or given["step_size"] is not None:
            raise ValueError(
                "step_sizes='decreasing' goes with sampling='permutation', output='last' and no step_size"
            )
    if settings.calibration == "paper":
        as_published = settings.sampling == "uniform" and settings.output == "average"
        if not as_published or settings.smooth_kink or relation is not Neighbours.REPLACE_ONE:
            raise ValueError(
                "calibration='paper' is for sampling='uniform', output='average', smooth_kink=False and "
                "neighbors='replace_one'"
            )
