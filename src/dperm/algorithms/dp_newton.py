"""Newton's method with noise on gradients and on directions.

Ganesh, Haghifam, Steinke and Thakurta, "Faster differentially private convex optimization via second-order
methods", NeurIPS 2023: the double-noise mechanism with regularised Hessians. A gradient is released with
noise; the direction ``(H + shift I)^-1`` takes it to is then released with noise, too. That is ``d`` noisy
numbers and not the ``d^2`` of a noisy Hessian.

``calibration="paper"`` is the published mechanism: zCDP by the conversion of Bun and Steinke (2016, Lemma
3.6), and a shift that is chosen anew at every step from a noisy trace of the Hessian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.budget import Budget
from dperm.accounting.units import floor_units, gaussian_noise_multiplier
from dperm.accounting.zcdp import zcdp_rho, zcdp_rho_of_lemma
from dperm.algorithms.fit import Fit, Terms
from dperm.algorithms.fit_result import FitResult
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules_of_thumb import longest_gradient
from dperm.algorithms.settings import Schedule, checked, clip_norm, one_of, positive, share, step_count
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DPNewtonSchedule(Schedule):
    """Public settings of a run.

    Attributes
    ----------
    steps : int
        Newton steps; each costs a noisy gradient and a noisy direction.
    clip : float
        Bound on the norm of one record's gradient.
    shift : float
        Added to the eigenvalues of the mean Hessian; positive.
    gradient_share : float
        Share of a step's budget that its gradient gets, strictly between 0 and 1.
    hessian : {"upper_bound", "exact"}
        The paper's QU and Hess: that of parabolas above the losses, with which no step overshoots, or the
        Hessian itself, which is faster close to the optimum and may diverge far from it.
    """

    steps: int = checked(step_count)
    clip: float = checked(clip_norm)
    shift: float = checked(positive)
    gradient_share: float = checked(share)
    hessian: str = checked(one_of("upper_bound", "exact"))


def dp_newton_schedule(problem: PublicProblem) -> DPNewtonSchedule:
    """Default settings from public numbers alone.

    A loss without a Lipschitz constant is clipped like a loss of slope 1, without noise out of reach.

    Notes
    -----
    The noise of a direction has the length ``sqrt(dimension) z b ||g|| / (n shift^2)``, ``z`` the noise
    multiplier and ``b`` the smoothness of the loss. The next gradient grows by that times a curvature of at
    most ``b``: the shift keeps the product below ``||g||``, or noise would feed on itself. With little
    signal ``k = n mu / sqrt(dimension)`` it grows further, like ``k^-2``: in steps of full length the noise
    of the gradients would carry the weights far from 0. That noise is proportional to the clip, which for
    residuals is well below the longest gradient unless there is much signal: few are that long once weights
    fit.
    """
    problem = problem.per_record()
    signal, loss, row_norm = problem.signal, problem.loss, problem.row_norm
    smoothness = loss.smoothness(row_norm)
    steps = round(min(max(signal / 20.0, 20.0), 40.0)) if problem.private else 200
    gradient_share = 0.7
    clip_share = 1.0 if loss.classification else min(1.0, max(math.sqrt(signal / 4800.0), 0.3))
    relative_noise = (
        math.sqrt(steps / (1.0 - gradient_share)) / signal
    )  # of a direction, times smoothness / shift
    return DPNewtonSchedule(
        steps=steps,
        clip=longest_gradient(loss, row_norm, noisy=problem.private) * clip_share,
        shift=smoothness * max(0.45 * math.sqrt(relative_noise), 0.02, 150.0 / signal**2),
        gradient_share=gradient_share,
        hessian="upper_bound",
    )


@needs(convex=True, smooth=True, second_derivative=True, linear_prediction=True, whole_rows=True)
def dp_newton(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    steps: int | None = None,
    clip: float | None = None,
    shift: float | None = None,
    gradient_share: float | None = None,
    hessian: str | None = None,
    **terms: Unpack[Terms],
) -> FitResult:
    """Minimise by noisy Newton steps.

    Parameters
    ----------
    objective : Objective
        With a loss that has a second derivative: logistic, Huber, squared hinge, squared error.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    steps, clip, shift, gradient_share, hessian : optional
        See :class:`DPNewtonSchedule`; by default from :func:`dp_newton_schedule`, which looks at public
        numbers only.
    calibration : {"tight", "paper"}
        Noise by the exact accounting of Gaussian differential privacy, or as published: for add_or_remove
        and a finite epsilon, with a shift from a noisy trace (unless `shift` is given) and 15 steps.
    neighbors, ledger, random_state, callback
        See :class:`dperm.algorithms.fit.Terms`. The callback is called after each step with
        ``{"iteration", "coef", "gradient"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, or a loss without a second derivative.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    All releases are Gaussian and the squares of their ``mu`` add up exactly, though each sensitivity of a
    direction is proportional to the gradient released before it (Dong, Roth and Su 2022, Corollary 3.3).
    """
    fit = Fit(objective, epsilon, delta, **terms)
    fit.check_published("dp_newton")
    schedule = dp_newton_schedule(fit.problem).replaced(
        steps=_PUBLISHED_STEPS if fit.as_published and steps is None else steps,
        clip=clip,
        shift=shift,
        gradient_share=gradient_share,
        hessian=hessian,
    )
    by_trace = fit.as_published and shift is None
    costs = _published_costs(fit, schedule) if fit.as_published else _costs(fit, schedule)
    fit.check_gradient_noise(schedule.clip, costs.gradient)
    objective.check_sums(hessian_clip=math.inf)
    facts = {"shift": "by a noisy trace"} if by_trace else {}
    release = fit.open("dp_newton", costs.budget, schedule, **facts)

    upper = schedule.hessian == "upper_bound"
    w = np.zeros(objective.dimension)
    for t in range(1, schedule.steps + 1):
        # 1. noisy gradient
        gradient_sum = objective.clipped_gradient_sum(w, schedule.clip)
        gradient = release.gaussian_sum(gradient_sum, costs.gradient) / fit.n + objective.penalty_gradient(w)
        # 2. the direction that the shifted Hessian takes it to, with noise of its own
        shift_of_step = _published_shift(fit, release, w, costs, upper) if by_trace else schedule.shift
        direction = objective.newton_direction(w, gradient, shift_of_step, upper=upper)
        w = w - release.gaussian_sum(direction, costs.direction)
        fit.report(t, w, gradient=gradient, shift=shift_of_step)
    mechanism = "Newton's method, Gaussian noise on each clipped gradient sum and on each direction"
    return fit.result(w, mechanism, n_iter=schedule.steps)


_PUBLISHED_STEPS = 15  # with these shares, what the authors' experiments use
_TRACE_SHARE, _TRACE_COEFFICIENT = Fraction(1, 10), 0.5


@dataclass(frozen=True)
class _Costs:
    """The budget, and the noise multipliers of a step's releases that use it up."""

    budget: Budget
    gradient: float
    direction: float
    trace: float = 0.0
    direction_rho: float = math.inf


def _costs(fit: Fit, schedule: DPNewtonSchedule) -> _Costs:
    budget = fit.budget()
    cost = budget.share(schedule.steps)
    for_gradient = cost if cost == math.inf else math.floor(cost * schedule.gradient_share)
    for_direction = cost if cost == math.inf else cost - for_gradient
    return _Costs(
        budget,
        gradient=gaussian_noise_multiplier(for_gradient, "gdp"),
        direction=gaussian_noise_multiplier(for_direction, "gdp"),
    )


def _published_costs(fit: Fit, schedule: DPNewtonSchedule) -> _Costs:
    """Shares of rho: of a step's part, 7/10 for the gradient, a tenth of the rest for the trace."""
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

    As published, for rows of norm 1 and the smoothness 1/4; here in units of 4 times the smoothness.
    """
    objective, n = fit.objective, fit.n
    unit = 4.0 * objective.loss.smoothness(objective.row_norm)
    trace = release.gaussian_sum(objective.hessian_trace(w, upper=upper), costs.trace)[0]
    noisy = float(trace) / (n * unit)
    cube = _TRACE_COEFFICIENT * max(noisy, 0.0) / (n**2 * costs.direction_rho)
    return unit * max(math.cbrt(cube), 1.0 / n)
