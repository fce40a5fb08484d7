"""The default: gradient descent on rows that are centred, scaled and whitened privately, for every loss.

A part of the budget buys noisy histograms and moments, from which coordinates follow in which all directions
are learned at the same speed; the rest buys noisy gradients there. Second moments are released as in Dwork,
Talwar, Thakurta and Zhang, "Analyze Gauss", STOC 2014; steps that turn round restart as in O'Donoghue and
Candes, "Adaptive restart for accelerated gradient schemes", Foundations of Computational Mathematics 2015.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.accounting.events import GaussianRelease
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Momentum, Profile
from dperm.algorithms.defaults.constants import WhitenedGD as Default
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.problem import MANY_WEIGHTS
from dperm.algorithms.profile import (
    Rows,
    Start,
    column_scales,
    rows_about_centre,
    slopes_of_targets,
    start_of,
    typical_slope,
)
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import Settings, setting
from dperm.algorithms.step_rules import AdaptiveMomentum
from dperm.losses.weighted import unweighted
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.exact_sums import DOUBLE_BITS
from dperm.objective.gradients import check_sums, clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.moments import OFF_DIAGONAL, column_squares, finest_moments, gram_sum, symmetric_matrix
from dperm.objective.objective import Array, Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform


@dataclass(frozen=True, kw_only=True)
class WhitenedGDSchedule(Settings):
    """Settings of :func:`dperm.algorithms.whitened_gd`."""

    steps: int = setting(check.step_count)
    clip: float = setting(check.clip_norm)
    step_size: float = setting(check.positive, Default.STEP)


@needs(private_class_weight=True)
def whitened_gd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    steps: int | None = None,
    clip: float | None = None,
    step_size: float | None = None,
    learn_scales: bool | str = "auto",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by noisy gradient descent on rows that are centred, scaled and whitened privately.

    The default solver, for every loss. Pseudo-code, guarantee and proof: :doc:`/theory/whitened_gd`.

    Parameters
    ----------
    objective : Objective
        Any loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    steps : int, optional
        Number of noisy gradients; by default it grows with ``n mu / sqrt(weights)``.
    clip : float, optional
        Bound on the norm of one record's gradient in whitened coordinates, as a multiple of that of a typical
        record at the best constant prediction; by default it grows with the same number.
    step_size : float, optional
        Step on the mean gradient, as a multiple of the inverse curvature at the best constant prediction.
    learn_scales : {"auto", True, False}
        Whether to learn the coordinates; False leaves the rows as they are, and learns the start alone.
        "auto" learns them unless the budget is too small for it: noise would hide what they are.
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
    earlier ones (Dong, Roth and Su 2022, Corollary 3.3): the whole transcript is (epsilon, delta)-DP.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = whitened_gd(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    given = WhitenedGDSchedule.checked(steps=steps, clip=clip, step_size=step_size)
    learn = check.boolean_or_auto("learn_scales", learn_scales)
    with Fit(
        objective, epsilon, delta, neighbors=neighbors, ledger=ledger, random_state=random_state,
        callback=callback,
    ) as fit:  # fmt: skip
        if learn == "auto":
            learn = _signal(fit, 1.0) >= Default.LEAST_SIGNAL
        shares = _shares(fit, bool(learn))
        signal = _signal(fit, 1.0 - sum(shares.values()))
        low, high = Default.CLIP
        default = {
            "steps": round(min(max(Default.STEPS_PER_SIGNAL * signal, Default.STEPS[0]), Default.STEPS[1])),
            "clip": max(min(high, math.sqrt(signal / Default.CLIP_SIGNAL)), low),
        }
        schedule = WhitenedGDSchedule(**{**default, **given})
        return _descent(fit, schedule, _Noise.of(fit, shares, schedule), signal)


def _shares(fit: Fit, learn: bool) -> dict[str, float]:
    """What is released before the descent, in plain words, and for which shares of the budget, in mu^2."""
    objective, loss = fit.objective, fit.objective.loss
    if not fit.problem.private:
        return {}
    n_mu, shares = fit.n * fit.problem.per_record().mu, {}
    if loss.classification and (objective.fit_intercept or objective.weighs_privately):
        share = max((Default.LABEL_SIGNAL / n_mu) ** 2, Default.LABELS)
        shares[_LABELS] = min(share, Default.MOST_LABELS)
    elif not loss.classification and loss.prediction_bound < math.inf:
        share = max((Default.TARGET_SIGNAL / n_mu) ** 2, Default.TARGETS)
        shares[_TARGETS] = min(share, Default.MOST_TARGETS)
    if learn and objective.reads_whole_rows:
        shares |= {_SCALES: Default.SCALES, _LENGTHS: Default.LENGTHS, _SQUARES: Default.SQUARES}
        if _whitens_by_matrix(objective):
            shares[_GRAM] = Default.GRAM
            if objective.fit_intercept:
                shares[_MEANS] = Default.MEANS
    return shares


_LABELS, _TARGETS = "counts of labels", "histograms of targets"
_SCALES, _MEANS, _LENGTHS = "histograms of magnitudes", "means of columns", "a histogram of row norms"
_SQUARES, _GRAM = "mean squares of columns", "second moments of rows"


def _whitens_by_matrix(objective: Objective) -> bool:
    return objective.reads_whole_rows and objective.dimension <= MANY_WEIGHTS


def _signal(fit: Fit, share: float) -> float:
    """``n mu / sqrt(weights)`` for a share of the budget, with one class fewer than there are."""
    problem, classes = fit.problem.per_record(), fit.objective.loss.n_classes or 2
    weights = fit.objective.shape[0] * (classes - 1)
    return problem.n * problem.mu * math.sqrt(share / weights)


def _possible_clips(objective: Objective, clip: float) -> tuple[float, float]:
    """The least and the largest bound on a gradient that what is learned may lead to."""
    low = high = typical_slope(objective.loss)
    if not objective.loss.classification and objective.loss.prediction_bound < math.inf:
        low, high = slopes_of_targets(unweighted(objective.loss))
    largest = 1.0 / Profile.LEAST_WEIGHT if objective.weighs_privately else 1.0
    if objective.weights is not None:
        largest *= objective.weights.largest
    k = objective.shape[0]
    unit = objective.row_norm / math.sqrt(k) if not objective.reads_whole_rows else 1.0
    return clip * low * unit, clip * high * largest * unit * math.sqrt(2.0 * k)


@dataclass(frozen=True)
class _Noise:
    """Noise multipliers that together use up the budget, by what is released."""

    shares: dict[str, float]
    before: dict[str, float]
    gradients: float

    @classmethod
    def of(cls, fit: Fit, shares: dict[str, float], schedule: WhitenedGDSchedule) -> _Noise:
        """ValueError, before the charge, if the noise cannot be drawn or the sums cannot be formed."""
        objective, whole, rest = fit.objective, fit.budget(), fit.budget()
        before = {}
        for what, share in shares.items():
            zooms = Profile.ZOOMS if what == _TARGETS else 1
            before[what] = gaussian_noise_multiplier(whole.share(zooms, share), whole.accountant)
            rest.spend(GaussianRelease(before[what]), count=zooms)
        gradients = gaussian_noise_multiplier(rest.share(schedule.steps), rest.accountant)
        for possible in _possible_clips(objective, schedule.clip):
            fit.check_gradient_noise(check.clip_norm("clip", possible), gradients)
        if _SQUARES in shares:
            check_sums(objective, gram=_GRAM in shares, columns=True)
            # Of the finest grids that coordinates may lead to, in units of the sensitivity.
            finest = 2.0**DOUBLE_BITS * max(1.0, objective.shape[0] / 32.0)
            gaussian_scale(gradients * fit.neighbors.sum_factor * finest, 1.0)
            gaussian_scale(max(before[_SQUARES], before.get(_GRAM, 0.0)) * finest_moments(fit.n), 1.0)
        return cls(shares, before, gradients)

    def words(self) -> str:
        """Description of the mechanism."""
        descent = "full-batch gradient descent, Gaussian noise on each clipped gradient sum"
        if _SQUARES in self.before:
            descent += " in whitened coordinates"
        if not self.before:
            return descent
        learned = ", ".join(f"{what} {100 * share:.3g} %" for what, share in self.shares.items())
        first = f"Gaussian noise on what is learned first (parts of the budget in mu^2: {learned})"
        return f"{first}; then {descent}"


@dataclass(frozen=True)
class Coordinates:
    """Whitened coordinates ``t = A z`` of rows, with weights ``w = A^T u``.

    Attributes
    ----------
    transform : Transform or None
        None for rows that are too wide to be made dense: then ``A`` is a number, `factor`.
    typical : float
        Norm of a typical row there.
    factor : float
    missed : float
        Largest second moment that noise may have left there beyond 1.
    ridge : float
        Largest second derivative of the ridge term along directions that are not whitened.
    moments : ndarray or None
        Second moments of the columns about their means, as far as they stand out of the noise.
    """

    transform: Transform | None
    typical: float
    missed: float
    prior: Array
    factor: float = 1.0
    ridge: float = 0.0
    moments: Array | None = None

    def gradient_sum(self, objective: Objective, w: Array, clip: float) -> tuple[Bounded, float]:
        """Of the records, clipped in these coordinates, and what it is to be multiplied by."""
        if self.transform is None:
            return clipped_gradient_sum(objective, w, clip / self.factor), self.factor
        return mapped_gradient_sum(objective, w, clip, self.transform), 1.0

    def of_gradient(self, gradient: Array) -> Array:
        """``A g``."""
        return gradient * self.factor if self.transform is None else self.transform @ gradient

    def weights(self, u: Array) -> Array:
        """``A^T u``."""
        return u * self.factor if self.transform is None else self.transform.transposed(u)


def _descent(fit: Fit, schedule: WhitenedGDSchedule, noise: _Noise, signal: float) -> FitResult:
    budget = fit.budget()
    release = fit.open("whitened_gd", budget, schedule, relative_clip=schedule.clip, clip=None)
    start = start_of(fit, release, noise.before.get(_LABELS, noise.before.get(_TARGETS, 0.0)))
    # Of the prior: squared noise of the weights to come, over the size that is assumed for them (Bayes).
    doubt = Default.RIDGE * (schedule.clip * start.slope / (signal * start.spread * start.curvature)) ** 2
    there = coordinates(fit, release, noise.before, start, doubt)
    objective = fit.objective
    first = np.zeros(objective.shape)
    if objective.fit_intercept:
        first[-1] = start.prediction / min(1.0, objective.row_norm)

    clip = schedule.clip * start.slope * there.typical
    prior = (start.curvature * there.prior).reshape(-1, *[1] * (first.ndim - 1))
    curvature = start.curvature + there.ridge
    step = min(schedule.step_size, Default.STABLE / (1.0 + there.missed)) / curvature
    # As far as without what may be missed, with shorter steps.
    momentum = (
        1.0 - step * curvature / schedule.step_size if signal < math.inf else Default.NOISELESS_MOMENTUM
    )
    adaptive = AdaptiveMomentum(momentum, Momentum.HIGHEST, schedule.steps)
    # All that is left.
    multiplier = gaussian_noise_multiplier(budget.share(schedule.steps), budget.accountant)
    # The noise of settled iterates moves a typical prediction by no more than is to be learned.
    of_step = multiplier * fit.neighbors.sum_factor * clip * there.typical / fit.n
    if of_step:
        calm = 2.0 * curvature * (Default.NOISE * start.spread / of_step) ** 2
        step = min(step, calm * (1.0 - momentum))
    u = velocity = last = at_start = total = np.zeros(objective.shape)
    averaged = 0
    for t in range(1, schedule.steps + 1):
        w = first + there.weights(u)
        gradient_sum, unit = there.gradient_sum(objective, w, clip)
        of_noise = unit * multiplier * gradient_sum.sensitivity(fit.neighbors) / fit.n
        gradient = unit * release.gaussian_sum(gradient_sum, multiplier) / fit.n
        gradient += there.of_gradient(objective.penalty_gradient(w))
        # Steps are too long where gradients turn round by more than noise explains: shorter ones, from rest.
        of_turn = of_noise * math.hypot(of_noise * math.sqrt(u.size), np.linalg.norm(last))
        if float(np.vdot(gradient, last)) < -Default.TURNING * of_turn:
            step, velocity, total, averaged = 0.5 * step, np.zeros_like(u), np.zeros_like(u), 0
        last, at_start = gradient, (gradient if t == 1 else at_start)
        momentum = adaptive.at(gradient.ravel(), u.ravel(), of_noise)
        velocity = momentum * velocity - step * (gradient + prior * u)
        u = u + velocity
        if t > (1.0 - Default.TAIL) * schedule.steps:
            total, averaged = total + u, averaged + 1
        fit.report(t, first + there.weights(u), gradient=gradient)
    mean = total / averaged
    # A convex loss is at least as high as its tangent at the start: where that has risen, so has the loss.
    rise, of_rise = float(np.vdot(at_start, mean)), of_noise * float(np.linalg.norm(mean))
    if objective.loss.convex and rise > Default.WORSE * of_rise:
        mean = np.zeros_like(mean)
    result = fit.result(
        first + there.weights(mean),
        noise.words(),
        n_iter=schedule.steps,
        clip=gradient_sum.sensitivity(fit.neighbors) / fit.neighbors.sum_factor,
    )
    return replace(result, moments=there.moments)


def coordinates(
    fit: Fit, release: Releaser, noise: dict[str, float], start: Start, doubt: float
) -> Coordinates:
    """Release scales, centre, length and second moments of the rows, and whiten by them.

    `doubt` is the curvature of the prior for rows of length 1, see `_prior`.
    """
    objective, k = fit.objective, fit.objective.shape[0]
    if _SQUARES not in noise:
        factor, most = math.sqrt(k) / objective.row_norm, math.sqrt(2.0 * k)
        ridge = objective.l2 * factor**2 + start.curvature * doubt * k
        return Coordinates(None, math.sqrt(k), most, np.full(k, doubt * k), factor, ridge)
    d, n = objective.n_columns, fit.n
    scales, _ = column_scales(fit, release, noise[_SCALES])
    rows = rows_about_centre(fit, release, scales, noise.get(_MEANS, 0.0), noise[_LENGTHS])
    transform = rows.transform(objective)
    # The vector of squares of a row of numbers up to about 1 is no longer than the row.
    squares = column_squares(objective, transform, min(rows.length, rows.length**2))
    of_squares = noise[_SQUARES] * squares.sensitivity(fit.neighbors) / n
    seen = release.gaussian_sum(squares, noise[_SQUARES])[:d] / n
    # Of a column that does not stand out: no more than if rows were of equal entries.
    least = min(Default.LEAST_SQUARE * of_squares + 2.0**-40 * rows.length**2, rows.length**2 / d)
    diagonal = np.maximum(seen, least)
    ridge_there = objective.l2 * rows.factors**2 / start.curvature
    missed, moments = math.sqrt(2.0 * d), None
    if _GRAM in noise:
        gram = gram_sum(objective, transform=transform)
        of_gram = noise[_GRAM] * gram.sensitivity(fit.neighbors) / (OFF_DIAGONAL * n)
        beside = symmetric_matrix(release.gaussian_sum(gram, noise[_GRAM]))[:d, :d] / n
        np.fill_diagonal(beside, 0.0)
        edge = Default.EDGE * of_gram * math.sqrt(d)
        known = _beyond(beside, edge)
        moments = (known + np.diag(np.maximum(seen, 0.0))) / np.outer(rows.factors, rows.factors)
        values, axes = _eigen(known + np.diag(diagonal + ridge_there))
        values = np.maximum(values, min(edge, float(diagonal.min())))
        seen = np.einsum("ij,ij->j", axes, (beside + np.diag(seen)) @ axes)
        missed = min(edge / float(values.mean()), missed)
    else:
        values, axes = diagonal + ridge_there, None
    prior = _prior(values, doubt)
    values = values + prior
    intercept = np.ones(int(objective.fit_intercept))
    typical = _typical(len(intercept), seen / values, of_squares / values)
    return Coordinates(
        _whitening(objective, rows, values, axes),
        typical,
        missed,
        np.append(prior / values, 0.0 * intercept),
        ridge=objective.l2 * objective.penalize_intercept,
        moments=moments,
    )


def _eigen(matrix: Array) -> tuple[Array, Array]:
    values, axes = np.linalg.eigh(matrix)
    return values, axes


def _beyond(matrix: Array, edge: float) -> Array:
    """What of a symmetric matrix stands out of noise with eigenvalues up to the edge."""
    values, axes = _eigen(matrix)
    kept = np.copysign(np.maximum(np.abs(values) - edge, 0.0), values)
    return np.asarray((axes * kept) @ axes.T)


def _whitening(objective: Objective, rows: Rows, values: Array, axes: Array | None) -> Transform:
    """Of rows with these second moments along the axes; beside them the intercept, which stays."""
    d, with_intercept = len(values), int(objective.fit_intercept)
    roots, condition = np.sqrt(values), objective.largest_condition
    if axes is None:
        return Transform.powers_of_two(np.append(rows.factors / roots, [1.0] * with_intercept), condition)
    # Nothing is so much larger than the rest that the singular values could not be computed.
    factors = np.minimum(rows.factors, condition * rows.factors.min())
    map_of_scaled = (axes * np.minimum(1.0 / roots, condition / roots.max())).T
    matrix = np.zeros((d + with_intercept,) * 2)
    matrix[:d, :d] = map_of_scaled * factors
    if with_intercept:
        matrix[:d, -1] = -map_of_scaled @ (rows.centre * (factors / rows.factors))
        matrix[-1, -1] = min(1.0, condition * float(np.linalg.norm(matrix[:d, :d], axis=1).min()))
    left, singular, right = np.linalg.svd(matrix)
    if singular[0] > condition * singular[-1]:
        matrix = (left * np.minimum(singular, condition * singular[-1])) @ right
    return Transform.rounding(matrix)


def _prior(values: Array, doubt: float) -> float:
    """Second moment that counts as much as the prior: weights of equal size along all scaled columns.

    `doubt` is for gradients of length 1; they are as long as rows in the coordinates that follow.
    """
    prior = 0.0
    for _ in range(8):
        prior = doubt * (1.0 + float((values / (values + prior)).sum())) * float(values.mean())
    return prior


def _typical(intercept: int, squares: Array, noise: Array) -> float:
    """Norm of a typical row, from mean squares along the axes, of 1 at most, and their noise."""
    d = len(squares)
    return math.sqrt(intercept + min(max(float(squares.sum()), float(np.linalg.norm(noise)), 1.0), d))
