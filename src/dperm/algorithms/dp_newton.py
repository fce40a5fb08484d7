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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.budget import Budget
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import floor_units, gaussian_noise_multiplier
from dperm.accounting.zcdp import zcdp_rho, zcdp_rho_of_lemma
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.noisy_gd import longest_gradient
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_choice, check_positive, check_positive_integer, override
from dperm.losses import Loss
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.statement.privacy_statement import PrivacyStatement

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DPNewtonSchedule:
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

    steps: int
    clip: float
    shift: float
    gradient_share: float
    hessian: str


def dp_newton_schedule(n: int, dimension: int, mu: float, loss: Loss, row_norm: float) -> DPNewtonSchedule:
    """Default settings from public numbers alone.

    Parameters
    ----------
    n : int
        Public number of records, halved where records are exchanged.
    dimension : int
        Number of weights.
    mu : float
        Privacy parameter of Gaussian differential privacy; infinite without noise.
    loss : Loss
        For its constants; one without a Lipschitz constant is clipped like a loss of slope 1, without noise
        out of reach.
    row_norm : float
        Bound on the norm of a row.

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
    smoothness = loss.smoothness(row_norm)
    signal = n * mu / math.sqrt(dimension)
    steps = round(min(max(signal / 20.0, 20.0), 40.0)) if mu < math.inf else 200
    share = 0.7
    clip_share = 1.0 if loss.classification else min(1.0, max(math.sqrt(signal / 4800.0), 0.3))
    relative_noise = math.sqrt(steps / (1.0 - share)) / signal  # of a direction, times smoothness / shift
    return DPNewtonSchedule(
        steps=steps,
        clip=longest_gradient(loss, row_norm, noisy=mu < math.inf) * clip_share,
        shift=smoothness * max(0.45 * math.sqrt(relative_noise), 0.02, 150.0 / signal**2),
        gradient_share=share,
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
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
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
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    ledger : PrivacyLedger, optional
        Charged (epsilon, delta) once, before anything is drawn.
    random_state : None, int or Generator
        None: cryptographic noise.
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released.

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
    relation = Neighbours.parse(neighbors)
    as_published = _check_calibration(calibration, epsilon, relation)
    mu = gdp_mu(epsilon, delta)
    schedule = override(
        dp_newton_schedule(
            objective.n_public,
            objective.dimension,
            mu / relation.sum_factor,
            objective.loss,
            objective.row_norm,
        ),
        steps=_PUBLISHED_STEPS if as_published and steps is None else steps,
        clip=clip,
        shift=shift,
        gradient_share=gradient_share,
        hessian=hessian,
    )
    _check(schedule)
    costs = _published_costs(epsilon, delta, schedule) if as_published else _costs(epsilon, delta, schedule)
    by_trace = as_published and shift is None
    facts = {**vars(schedule), "shift": "by a noisy trace"} if by_trace else vars(schedule)
    public = public_facts(objective, calibration=calibration, **facts)
    releaser = Releaser(
        epsilon,
        delta,
        costs.budget,
        neighbors=relation,
        ledger=ledger,
        random_state=random_state,
        description="dp_newton",
        statement=public,
    )
    coef, history, sensitivity, noise_scale = _newton(
        objective, releaser, costs, schedule, by_trace=by_trace, callback=callback
    )
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        neighbors=relation,
        mechanism="Newton's method, Gaussian noise on each clipped gradient sum and on each direction",
        accountant=str(costs.budget.accountant),
        sensitivity=sensitivity,
        noise_scale=noise_scale,
        clip=schedule.clip,
        row_norm=objective.row_norm,
        steps=(3 if by_trace else 2) * schedule.steps,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=None if as_published else mu,
        rho=costs.rho,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=schedule.steps, history=history)


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
    rho: float | None = None


def _costs(epsilon: float, delta: float, schedule: DPNewtonSchedule) -> _Costs:
    budget = Budget.from_epsilon(epsilon, delta, "gdp")
    cost = budget.share(schedule.steps)
    for_gradient = cost if cost == math.inf else math.floor(cost * schedule.gradient_share)
    for_direction = cost if cost == math.inf else cost - for_gradient
    return _Costs(
        budget,
        gradient=gaussian_noise_multiplier(for_gradient, "gdp"),
        direction=gaussian_noise_multiplier(for_direction, "gdp"),
    )


def _published_costs(epsilon: float, delta: float, schedule: DPNewtonSchedule) -> _Costs:
    """Shares of rho: of a step's part, 7/10 for the gradient, a tenth of the rest for the trace."""
    rho = zcdp_rho_of_lemma(epsilon, delta)
    if rho > zcdp_rho(epsilon, delta):
        raise ValueError(
            f"calibration='paper': the published noise does not give epsilon = {epsilon!r}, delta = {delta!r}"
        )
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
        rho=rho,
    )


def _newton(
    objective: Objective,
    releaser: Releaser,
    costs: _Costs,
    schedule: DPNewtonSchedule,
    *,
    by_trace: bool,
    callback: Callback | None,
) -> tuple[Array, list[dict[str, Any]], float, float]:
    upper = schedule.hessian == "upper_bound"
    w = np.zeros(objective.dimension)
    history: list[dict[str, Any]] = []
    for t in range(1, schedule.steps + 1):
        gradient_sum = objective.clipped_gradient_sum(w, schedule.clip)
        noisy_sum = releaser.gaussian_sum(gradient_sum, costs.gradient)
        gradient = noisy_sum / objective.n_public + objective.penalty_gradient(w)
        shift = _published_shift(objective, releaser, w, costs, upper) if by_trace else schedule.shift
        secret = objective.newton_direction(w, gradient, shift, upper=upper)
        sensitivity = secret.sensitivity(releaser.neighbors)
        w = w - releaser.gaussian_sum(secret, costs.direction)
        history.append({"gradient_norm": math.sqrt(gradient @ gradient), "shift": shift})
        if callback is not None:
            callback({"iteration": t, "coef": w.copy(), "gradient": gradient})
    return w, history, sensitivity, costs.direction * sensitivity


def _published_shift(objective: Objective, releaser: Releaser, w: Array, costs: _Costs, upper: bool) -> float:
    """``(c tr(H) / (n^2 rho))^(1/3)`` with a noisy trace, at least ``1 / n``.

    As published, for rows of norm 1 and the smoothness 1/4; here in units of 4 times the smoothness.
    """
    n, unit = objective.n_public, 4.0 * objective.loss.smoothness(objective.row_norm)
    trace = releaser.gaussian_sum(objective.hessian_trace(w, upper=upper), costs.trace)[0]
    noisy = float(trace) / (n * unit)
    cube = _TRACE_COEFFICIENT * max(noisy, 0.0) / (n**2 * costs.direction_rho)
    return unit * max(math.cbrt(cube), 1.0 / n)


def _check_calibration(calibration: str, epsilon: float, relation: Neighbours) -> bool:
    """Whether the noise is as published."""
    check_choice("calibration", calibration, ("tight", "paper"))
    if calibration == "tight":
        return False
    if relation is not Neighbours.ADD_OR_REMOVE:
        raise ValueError("calibration='paper' of dp_newton is for neighbors='add_or_remove'")
    if epsilon == math.inf:
        raise ValueError("calibration='paper' needs a finite epsilon")
    return True


def _check(schedule: DPNewtonSchedule) -> None:
    check_positive_integer("steps", schedule.steps)
    check_positive("clip", schedule.clip)
    check_positive("shift", schedule.shift)
    if schedule.hessian not in ("upper_bound", "exact"):
        raise ValueError(f"hessian must be 'upper_bound' or 'exact', got {schedule.hessian!r}")
    if not 0.0 < schedule.gradient_share < 1.0:
        raise ValueError(f"gradient_share must be strictly between 0 and 1, got {schedule.gradient_share!r}")
