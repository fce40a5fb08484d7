"""Newton's method on noisy sums, with a covariance that accounts for sampling and noise.

Rows are whitened by a private Gram matrix, so that the cost of noise depends on the dimension and not on the
condition number. In these coordinates long *rows* are down-weighted, as in Mallows' bounded-influence
estimators, instead of clipping gradients: the estimating equation stays unbiased under the model. The
distribution of the noise is public, and so is its effect on a Newton step, to first order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.accounting.events import GaussianRelease
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Newton
from dperm.algorithms.defaults.noisy_newton import NoisyNewtonSchedule, noisy_newton_schedule
from dperm.algorithms.fit import Callback, Fit
from dperm.algorithms.inference import Estimates, InferenceResult
from dperm.algorithms.newton_spectra import Covariance, Spectrum, unexplained, whitened_images
from dperm.algorithms.requirements import needs
from dperm.errors import InferenceWarning, warn_caller
from dperm.losses import Huber, Loss
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.gradients import check_sums
from dperm.objective.objective import Array, Objective
from dperm.objective.weighted_rows import (
    check_weighted_sums,
    residual_sums,
    weighted_gradient_bounds,
    weighted_gradient_sum,
    weighted_hessian_sum,
    weighted_squares_sum,
    weighted_third_derivative_sum,
)
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform


@needs(losses=("logistic", "huber"), no_ridge=True, whole_rows=True, unweighted=True)
def noisy_newton(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    covariance: str = "auto",
    leverage: float | None = None,
    steps: int | None = None,
    omit: Sequence[int] | None = None,
    effects: bool = False,
    names: Sequence[str] | None = None,
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> InferenceResult:
    """Minimise by Newton steps on noisy sums, with standard errors and confidence intervals.

    Settings that are not given follow from public numbers, see
    :func:`dperm.algorithms.defaults.noisy_newton.noisy_newton_schedule`. Pseudo-code, guarantee and proof:
    :doc:`/theory/noisy_newton`.

    Parameters
    ----------
    objective : Objective
        With the logistic or Huber's loss, and without a ridge term, which would bias the estimates. For least
        squares take Huber's loss with a public threshold of one to two standard deviations of the residuals.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    covariance : {"auto", "model", "robust"}
        "model": standard errors that are valid if the loss is the likelihood (logistic), or residuals are
        independent of the rows (Huber). "robust": the sandwich estimator, which assumes neither. "auto":
        "model" for the logistic loss, "robust" for Huber's.
    leverage : float, optional
        Rows of whitened squared norm up to ``leverage * dimension`` have weight 1, longer ones less, in
        inverse proportion; from 0.5 to 100. Noise grows with it. If the model is misspecified, estimates are
        those for the weighted records. By default 1.5 with model-based standard errors, 3 with robust ones.
    steps : int, optional
        Number of rough Newton steps before the last two.
    omit : sequence of int, optional
        Public numbers of columns whose weights stay 0: the reference level of each factor, if there is an
        intercept. The weights of other levels are differences to it. Without a reference level only
        differences are determined.
    effects : bool
        Whether to release average marginal effects as well; logistic loss only.
    names : sequence of str, optional
        Names of the weights, for warnings; by default x1, x2, ... and the intercept.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called after each gradient with ``{"iteration", "coef", "gradient"}``, all released; the gradient in
        whitened coordinates.

    Returns
    -------
    InferenceResult
        With `covariance`, `conf_int`, `contrasts` and `summary`.

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Warns
    -----
    InferenceWarning
        If weights are not determined; if the method has not converged, as on separable data; and if more
        records, by a released count, have a weight below 1 than may matter, when the model does not hold:
        estimates are those for the weighted records.

    Notes
    -----
    All releases are (epsilon, delta)-DP together.

    A standard error that could be 1.5 times as large, if the Hessian were as small as its noise allows, is
    reported as that large. If it could be twice as large, the interval is refused (NaN); usually this
    concerns rare levels only, and the other weights are those of a model without them. What noise cannot
    explain of the last step counts as a possible error, too. With a column for each category and an
    intercept, levels are not determined but differences are: see :meth:`InferenceResult.contrasts`.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-0.5, 0.5], (5000, 2))
    >>> y = np.where(rng.logistic(size=5000) < X @ [4.0, -4.0], 1, -1)
    >>> objective = dperm.Objective("logistic", X, y, row_norm=1.3, fit_intercept=True)
    >>> result = noisy_newton(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> low, high = result.conf_int().T
    >>> (low < [4.0, -4.0, 0.0]) & ([4.0, -4.0, 0.0] < high)
    array([ True,  True,  True])
    """
    given = NoisyNewtonSchedule.checked(
        covariance=covariance, leverage=leverage, steps=steps, omit=omit, effects=effects
    )
    with Fit(
        objective, epsilon, delta, neighbors=neighbors, ledger=ledger, random_state=random_state,
        callback=callback,
    ) as fit:  # fmt: skip
        return _noisy_newton(fit, _schedule(fit, given), _names(fit, names))


def _noisy_newton(fit: Fit, schedule: NoisyNewtonSchedule, names: Sequence[str] | None) -> InferenceResult:
    objective, n = fit.objective, fit.n
    noise = _noise_multipliers(fit, schedule)
    _check_feasible(fit, schedule, noise)
    fit.warn_if_slow("noisy_newton", "noisy_gd, which has no intervals,")
    release = fit.open("noisy_newton", fit.budget(), schedule)

    # 1. whitened coordinates, and weights of the rows in them
    robust = schedule.covariance == "robust"
    images = whitened_images(
        objective, release, _kept(fit, schedule), schedule.leverage, noise, robust=robust
    )
    sums = _Sums(fit, release, objective, images)

    # 2. rough Newton steps, for Huber's loss with thresholds that fall to its own
    pilot = np.zeros(len(images.values))
    for step, loss in enumerate(_losses(objective.loss, schedule.steps)):
        there, multiplier = replace(sums, objective=objective.with_loss(loss)), noise[f"step {step}"]
        rough = there.hessian(pilot, multiplier)
        pilot = pilot - rough.solve(there.gradient(pilot, multiplier), floor=1.0)

    # 3. two Newton steps with the same Hessian
    hessian = sums.hessian(pilot, noise["hessian"])
    once = pilot - hessian.solve(sums.gradient(pilot, noise["first"]))
    last = sums.gradient(once, noise["second"])
    twice = once - hessian.solve(last)
    first_weight, second_weight = (
        each / (Newton.FIRST + Newton.SECOND) for each in (Newton.FIRST, Newton.SECOND)
    )
    theta = first_weight * once + second_weight * twice
    evaluated = first_weight * pilot + second_weight * once

    # 4. covariance from sampling and from noise, and what may be wrong beyond it
    spread, down_weighted = _spread_of_gradients(sums, theta, hessian, schedule, noise)
    longest = weighted_gradient_bounds(objective, images)[0] * fit.neighbors.sum_factor
    size = longest / n * np.eye(len(theta))
    of_gradients = math.hypot(first_weight * noise["first"], second_weight * noise["second"])
    noisy = (of_gradients * size) ** 2 + hessian.noise_times(evaluated - theta)
    of_last = (math.hypot(noise["first"], noise["second"]) * size) ** 2 + hessian.noise_times(once - pilot)
    doubt = unexplained(last, of_last)
    covariance = Covariance(hessian, spread / n, noisy, np.outer(doubt, doubt), images.values.T)
    effects = _marginal_effects(sums, theta, covariance, noise["effects"]) if schedule.effects else None

    result = fit.result(
        images.values.T @ theta,
        "Newton's method, Gaussian noise on counts and second moments of the rows and on sums of Hessians "
        "and of gradients, with long rows down-weighted in whitened coordinates",
        n_iter=schedule.steps + 2,
    )
    whole, sampling, cautious = covariance.through(covariance.to_weights)
    found = InferenceResult(
        **vars(result),
        covariance=whole,
        sampling_covariance=sampling,
        cautious_covariance=cautious,
        effects=effects,
        down_weighted=down_weighted,
    )
    unsettled = covariance.to_weights @ hessian.solve(doubt)
    _warn(found, np.abs(unsettled), schedule, down_weighted - 2.0 * noise["residuals"] / n, names)
    return found


def _warn(
    found: InferenceResult,
    step: Array,
    schedule: NoisyNewtonSchedule,
    down_weighted: float,
    names: Sequence[str] | None,
) -> None:
    """Say what is not settled, not determined, or of weighted records.

    `step` is what noise cannot explain of the last step, `down_weighted` the least number of such records.
    """
    moved = float(np.max(np.abs(step) / np.sqrt(np.maximum(np.diag(found.covariance), 1e-300))))
    if moved > Newton.SETTLED:
        warn_caller(
            f"not converged: the last of {schedule.steps + 2} Newton steps moved a weight by {moved:.2g} "
            "standard errors. Intervals that may be off by more than 1.7 are refused. On separable data it "
            "never converges; else pass a larger steps=",
            InferenceWarning,
        )
    if refused := found.not_determined(names):
        more = f" and {len(refused) - 8} more" if len(refused) > 8 else ""
        warn_caller(
            f"not determined, by the data or as far as the noise lets it be known: {', '.join(refused[:8])}"
            f"{more}. They have no interval, and all other weights are those of a model without them",
            InferenceWarning,
        )
    n, many = float(found.privacy.public["n"]), Newton.MANY_ROWS
    if schedule.covariance == "robust":
        d = len(found.coef) - len(schedule.omit)
        many = Newton.MANY_LENGTHS / math.sqrt(schedule.leverage * d * n)
    if down_weighted > many:
        warn_caller(
            f"about {min(found.down_weighted, 1.0):.2%} of the records weigh less than 1, as their rows are "
            "long: if the model does not hold for all records alike, estimates are those of the weighted "
            f"records. A larger leverage (here {schedule.leverage:g}) gives more records full weight, but "
            "adds noise",
            InferenceWarning,
        )


# -- before the charge ---------------------------------------------------------------------------------------


def _losses(loss: Loss, steps: int) -> list[Loss]:
    """The loss of each rough Newton step.

    A step of Huber's loss moves predictions by a few thresholds. The first one is of least squares.
    """
    if not isinstance(loss, Huber):
        return [loss] * steps
    first = min(loss.target_bound, Newton.MOST_THRESHOLDS * loss.threshold)
    return [replace(loss, threshold=max(loss.threshold, first * 0.5**step)) for step in range(steps)]


def _schedule(fit: Fit, given: Mapping[str, Any]) -> NoisyNewtonSchedule:
    """The completed schedule; ValueError for unsupported settings."""
    objective = fit.objective
    if fit.delta == 0.0:
        raise ValueError("delta of noisy_newton must be above 0: all of its noise is Gaussian")
    default = noisy_newton_schedule(fit.problem, given["covariance"])
    schedule = replace(default, **{**given, "covariance": default.covariance})
    if schedule.omit and schedule.omit[-1] >= objective.n_columns:
        raise ValueError(f"omit must hold numbers of the {objective.n_columns} columns, got {schedule.omit}")
    if len(schedule.omit) == objective.dimension:
        raise ValueError("omit must leave a column, or an intercept")
    if schedule.effects and not objective.loss.classification:
        raise ValueError("effects=True, average marginal effects, needs the logistic loss")
    return schedule


def _names(fit: Fit, names: Sequence[str] | None) -> list[str] | None:
    """The names; ValueError unless there is one for each weight."""
    count = fit.objective.dimension
    listed = isinstance(names, Sequence | np.ndarray) and not isinstance(names, str)
    if names is None or (listed and len(names) == count and all(isinstance(each, str) for each in names)):
        return None if names is None else list(names)
    raise ValueError(f"names must be a list of {count} strings, one for each weight, got {names!r}")


def _noise_multipliers(fit: Fit, schedule: NoisyNewtonSchedule) -> dict[str, float]:
    """Noise multipliers by release, which together use up the budget; 0 for none."""
    robust, labels = schedule.covariance == "robust", fit.objective.loss.classification
    # of the last steps each is more accurate than the one before
    equal = schedule.steps - Newton.STEPS
    growing = [Newton.GROWTH ** max(step - equal, 0) for step in range(schedule.steps)]
    plan = {  # number of releases, and their share of the budget in mu^2, up to a factor
        "columns": (1, Newton.COLUMNS),
        "norms": (1, Newton.NORMS),
        "gram": (2, Newton.GRAM),
        "table": (1, Newton.TABLE),
        **{f"step {k}": (2, Newton.PILOT * each / sum(growing)) for k, each in enumerate(growing)},
        "hessian": (1, Newton.HESSIAN),
        "first": (1, Newton.FIRST),
        "residuals": (1, Newton.RESIDUALS if robust or labels else Newton.SCALE_OF_RESIDUALS),
        "squares": (1, Newton.SQUARES if robust else 0.0),
        "effects": (2, Newton.EFFECTS if schedule.effects else 0.0),
        "second": (1, Newton.SECOND),
    }
    whole, rest = fit.budget(), fit.budget()
    total, multipliers = sum(share for _, share in plan.values()), dict.fromkeys(plan, 0.0)
    for name, (count, share) in plan.items():
        if share > 0.0 and name != "second":
            multipliers[name] = gaussian_noise_multiplier(whole.share(count, share / total), "gdp")
            rest.spend(GaussianRelease(multipliers[name]), count=count)
    multipliers["second"] = gaussian_noise_multiplier(rest.share(1), "gdp")
    return multipliers


def _check_feasible(fit: Fit, schedule: NoisyNewtonSchedule, noise: dict[str, float]) -> None:
    """ValueError if sums cannot be formed or noise would leave few intervals, from public numbers alone.

    Weighted second moments of whitened rows are at most 1, and their Hessian is at most the smoothness.
    """
    objective = fit.objective
    check_sums(objective, gram=True)
    kept = _kept(fit, schedule)
    d, length = len(kept), math.sqrt(schedule.leverage * len(kept))
    images = Transform.rounding(kept, length)
    largest = max(noise["step 0"], noise["first"], noise["second"])
    for loss in (_losses(objective.loss, schedule.steps)[0], objective.loss):
        there = objective.with_loss(loss)
        check.clip_norm("the clip that the loss implies", loss.lipschitz(length))
        check_weighted_sums(there, images)
        bound, grid = weighted_gradient_bounds(there, images)
        gaussian_scale(largest * fit.neighbors.sum_factor * bound, grid)
    relative = noise["hessian"] * math.sqrt(fit.neighbors.sum_factor) * length**2
    lost = relative * math.sqrt(2.0 * d) / fit.n
    needed = Newton.MOST_LOST_OF_LABELS if objective.loss.classification else Newton.MOST_LOST
    if not lost * needed < 1.0:
        raise ValueError(
            f"the noise would leave few intervals: relative to the largest Hessian of {d} weights it is "
            f"{lost:.2g} for n_public = {fit.n} and epsilon = {fit.epsilon:g}, and has to be below "
            f"1/{needed:g}. It takes at least {math.ceil(fit.n * lost * needed):,} records, fewer columns, "
            "or a larger epsilon"
        )


def _kept(fit: Fit, schedule: NoisyNewtonSchedule) -> Array:
    """The matrix that drops the omitted columns."""
    return np.delete(np.eye(fit.objective.dimension), schedule.omit, axis=0)


@dataclass(frozen=True)
class _Sums:
    """Noisy means over the records, in whitened coordinates ``theta`` with ``w = A^T theta``."""

    fit: Fit
    release: Releaser
    objective: Objective
    images: Transform

    def weights(self, theta: Array) -> Array:
        return self.images.values.T @ theta

    def mean(self, private: Bounded, multiplier: float) -> Array:
        return self.release.gaussian_sum(private, multiplier) / self.fit.n

    def gradient(self, theta: Array, multiplier: float) -> Array:
        w = self.weights(theta)
        private = weighted_gradient_sum(self.objective, w, self.images)
        gradient = self.mean(private, multiplier)
        self.fit.report(len(self.fit.history) + 1, w, gradient=gradient)
        return gradient

    def hessian(self, theta: Array, multiplier: float) -> Spectrum:
        private = weighted_hessian_sum(self.objective, self.weights(theta), self.images)
        return Spectrum.released(self.release, private, multiplier, self.fit.n)

    def residuals(self, theta: Array, multiplier: float, *which: int) -> Array:
        return self.mean(residual_sums(self.objective, self.weights(theta), self.images, which), multiplier)


def _spread_of_gradients(
    sums: _Sums, theta: Array, hessian: Spectrum, schedule: NoisyNewtonSchedule, noise: dict[str, float]
) -> tuple[Array, float]:
    """Covariance of a record's weighted gradient, and the share of the records with a weight below 1."""
    loss, robust = sums.objective.loss, schedule.covariance == "robust"
    which = (0,) if robust or loss.classification else (0, 1, 2)
    down_weighted, *moments = sums.residuals(theta, noise["residuals"], *which)
    if robust:
        private = weighted_squares_sum(sums.objective, sums.weights(theta), sums.images)
        squares = Spectrum.released(sums.release, private, noise["squares"], sums.fit.n)
        return squares.through(np.maximum(squares.values, 0.0)), float(down_weighted)
    matrix = hessian.through(hessian.floored())
    if moments:  # scale of Huber's residuals
        residual, curvature = (max(moment, 1.0 / sums.fit.n) for moment in moments)
        matrix *= loss.lipschitz(1.0) ** 2 * residual / curvature
    return matrix, float(down_weighted)


def _marginal_effects(sums: _Sums, theta: Array, covariance: Covariance, multiplier: float) -> Estimates:
    """Average marginal effects ``w_j mean(loss''(p))`` of the columns, by the delta method."""
    n, n_columns, smoothness = sums.fit.n, sums.objective.n_columns, sums.objective.loss.smoothness(1.0)
    (share,) = sums.residuals(theta, multiplier, 2)
    mean = smoothness * share
    third = sums.mean(
        weighted_third_derivative_sum(sums.objective, sums.weights(theta), sums.images), multiplier
    )
    w = sums.weights(theta)[:n_columns]
    jacobian = mean * covariance.to_weights[:n_columns] + np.outer(w, third)
    whole, sampling, cautious = (np.diag(each) for each in covariance.through(jacobian))
    of_mean = w**2 * Newton.CURVATURE_VARIANCE / n
    of_noise = w**2 * (multiplier * smoothness / n) ** 2
    return Estimates.cautiously(
        w * mean, whole + of_mean + of_noise, cautious + of_mean + of_noise, sampling + of_mean
    )
