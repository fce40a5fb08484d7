"""Random-round private stochastic gradient descent, for smooth losses that need not be convex.

J. Zhang, K. Zheng, W. Mou, L. Wang, "Efficient private ERM for smooth objectives", IJCAI 2017, Algorithm 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Unpack

import numpy as np

from dperm.accounting import paper
from dperm.accounting.events import GaussianRelease
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.random_rounds import random_round_noise_multiplier
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms import settings
from dperm.algorithms.fit import Fit, Terms
from dperm.algorithms.fit_result import FitResult
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules_of_thumb import (
    exact_clip,
    typical_loss_at_zero,
    typical_reach,
    usual_gradient,
)
from dperm.algorithms.settings import (
    Schedule,
    checked,
    clip_norm,
    clip_norm_or_infinite,
    one_of,
    positive,
    positive_integer,
    positive_or_infinite,
    step_count,
)
from dperm.algorithms.sgd_settings import (
    check_batch_size,
    check_calibration,
    check_descent,
    fresh_batches,
    gradient_bound,
    sampling_name,
)
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.sampling import uniform_integers
from dperm.objective.objective import Objective
from dperm.objective.stochastic_descent import DescentPlan

# Passes that the default number of rounds amounts to; exact noise takes 10 microseconds per 100 weights.
_PASSES = {"exact": 20, "float": 200}
# Without noise: gradients of records, where they are more than that, and the batches they are made in.
_EXACT_GRADIENTS, _EXACT_BATCH = 1e8, 64

_cached_noise_multiplier = lru_cache(maxsize=256)(random_round_noise_multiplier)


@dataclass(frozen=True)
class RandomRoundSchedule(Schedule):
    """Public settings of a run, as the arguments of :func:`rrpsgd` of the same names."""

    rounds: int = checked(step_count)
    batch_size: int = checked(positive_integer)
    step_size: float = checked(positive)
    clip: float = checked(clip_norm)
    radius: float = checked(positive_or_infinite)


@needs(neighbors="replace_one", smooth=True, linear_prediction=True, random_access=True)
def rrpsgd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    rounds: int | None = None,
    batch_size: int | None = None,
    step_size: float | None = None,
    clip: float | None = None,
    radius: float = math.inf,
    noise: str = "exact",
    report_every: int | None = None,
    **terms: Unpack[Terms],
) -> FitResult:
    """Descend along noisy gradients of single records for a random number of rounds.

    Parameters
    ----------
    objective : Objective
        With a smooth loss, convex or not.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    rounds : int, optional
        Largest number of rounds N, at least 2; n^2 in the paper. By default 20 passes over the records, or
        200 with ``noise="float"``, and no more than n^2; without noise at least ``1e8`` gradients of records.
        For ``10^9`` rounds and more raise :data:`dperm.algorithms.settings.MAX_STEPS`.
    batch_size : int, optional
        Records per step; by default 1, as in the paper, and without noise up to 64.
    step_size : float, optional
        eta, below ``2 / (l2 + beta)``. By default the minimiser of a bound on the risk.
    clip : float, optional
        Bound on the norm of one record's gradient. By default the loss's Lipschitz constant.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    noise : {"exact", "float"}
        "float": floating-point noise, for long runs; the guarantee is idealised.
    report_every : int, optional
        Steps between two calls of `callback`; by default one pass.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 4 (``batch_size=1``, ``replace_one``), where it holds.
    neighbors : {"replace_one", "add_or_remove"}
        A batch is a fresh set of fixed size, or a Poisson sample of rate ``batch_size / n``.
    ledger : PrivacyLedger, optional
        Charged (epsilon, delta) once, before anything is drawn.
    random_state : None, int or Generator
        None: cryptographic noise and samples, from separate streams.
    callback : callable, optional
        Called with ``{"iteration", "coef"}``, released values.

    Returns
    -------
    FitResult
        ``coef`` is ``w_(R-1)``, ``n_iter`` is ``R - 1``.

    Raises
    ------
    ValueError, TypeError
        For a setting out of range, or a paper calibration that does not give the claimed guarantee.
    DataError
        For more records than ``n_public`` and batches of fixed size.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    R is uniform on 1..N (constant steps; Ghadimi and Lan 2013) and drawn before the data are seen, so the
    failure probability is the mean over R of that of R - 1 subsampled Gaussian releases, even with R and
    all iterates published; see :func:`dperm.accounting.random_round_noise_multiplier`. The paper returns
    ``w_R``; its theorem bounds the gradient at ``w_(R-1)``. R may be small: without noise the default
    settings end within 1e-3 of the optimum (near a stationary point, where the loss is not convex) unless R
    is among the first few per cent of N.
    """
    fit = Fit(objective, epsilon, delta, **terms)
    noise = one_of(*_PASSES)("noise", noise)
    batch_size = _batch_size(fit, batch_size)
    rounds = _rounds(fit, rounds, batch_size, noise)
    radius = positive_or_infinite("radius", radius)
    if clip is None and fit.epsilon == math.inf and radius == math.inf:
        clip = exact_clip(objective.loss, objective.row_norm)
    clip = math.inf if clip is None else clip_norm_or_infinite("clip", clip)
    longest = gradient_bound(objective.loss, objective.row_norm, radius, clip)
    multiplier = _noise_multiplier(fit, rounds, batch_size)
    default_step = _default_step_size(fit, rounds, batch_size, longest, radius, multiplier)
    schedule = RandomRoundSchedule(rounds, batch_size, default_step, longest, radius)
    schedule = schedule.replaced(step_size=step_size)
    limit = 2.0 / _smoothness(fit)
    if not schedule.step_size < limit:
        raise ValueError(f"step_size must be below 2/(l2 + beta) = {limit:.6g}, got {step_size!r}")
    every = max(1, fit.n // batch_size) if report_every is None else report_every
    every = positive_integer("report_every", every)
    bits = random_bits(fit.spawn_source())
    steps = int(uniform_integers(bits, rounds, 1)[0])  # R - 1
    plan = DescentPlan(objective.loss, steps, batch_size, schedule.step_size, longest, radius, average=False)
    check_descent(fit, plan, multiplier, noise)
    accountant = "pld, averaged over the random number of rounds"
    budget = ScheduledBudget(GaussianRelease(multiplier), max(steps, 1), accountant)
    release = fit.open("rrpsgd", budget, schedule, sampling=sampling_name(fit.neighbors))

    coef = np.zeros(objective.dimension)
    if steps > 0:
        batches = fresh_batches(bits, fit.neighbors, fit.n, batch_size)
        descent = objective.stochastic_descent(plan, batches)
        observe = None if fit.callback is None else fit.show
        coef = release.noisy_descent(descent, multiplier, noise=noise, observe=observe, every=every).last
    mechanism = "Gaussian noise on the sum of every batch; random number of rounds"
    return fit.result(coef, mechanism, n_iter=steps)


def _batch_size(fit: Fit, given: int | None) -> int:
    if given is None:
        return min(fit.n, _EXACT_BATCH) if fit.epsilon == math.inf and not fit.as_published else 1
    batch_size = positive_integer("batch_size", given)
    check_batch_size(batch_size, fit.n)
    return batch_size


def _rounds(fit: Fit, given: int | None, batch_size: int, noise: str) -> int:
    if given is None:
        passes = _PASSES[noise] * fit.n // batch_size
        if fit.epsilon == math.inf:
            most = max(passes, int(_EXACT_GRADIENTS) // batch_size)
        else:
            most = min(fit.n**2, passes)
        return min(max(2, most), settings.MAX_STEPS - 1)
    rounds = step_count("rounds", given)
    if rounds < 2:
        raise ValueError(
            f"rounds must be at least 2, got {rounds}: their number is drawn from 0 to rounds - 1"
        )
    return rounds


def _noise_multiplier(fit: Fit, rounds: int, batch_size: int) -> float:
    """Standard deviation of the noise on a batch's sum, over its sensitivity."""
    factor = fit.neighbors.sum_factor
    fit.check_published("rrpsgd", neighbors=None)
    if not fit.as_published:
        check_calibration(fit, batch_size, rounds - 1)
        target = fit.epsilon, fit.delta
        return _cached_noise_multiplier(*target, fit.n, batch_size, rounds, neighbors=fit.neighbors) / factor
    if batch_size != 1 or rounds > fit.n**2 or fit.neighbors is not Neighbours.REPLACE_ONE:
        raise ValueError(
            "calibration='paper' is for batch_size=1, at most n^2 rounds and neighbors='replace_one'"
        )
    return paper.rrpsgd(fit.epsilon, fit.delta, n_samples=fit.n) / factor


def _smoothness(fit: Fit) -> float:
    return fit.objective.loss.smoothness(fit.objective.row_norm) + fit.objective.l2


def _default_step_size(
    fit: Fit, rounds: int, batch_size: int, longest: float, radius: float, multiplier: float
) -> float:
    """The step that minimises a bound on the risk, where curvature does not ask for less."""
    loss, row_norm = fit.objective.loss, fit.objective.row_norm
    if fit.epsilon == math.inf:
        # The sampling error of a batch moves the last iterate, at a cost of step G^2/(4 b) at most.
        affordable = 1e-3 * typical_loss_at_zero(loss)
        usual = min(longest, usual_gradient(loss, row_norm))
        best = 4.0 * batch_size * affordable / usual**2
    else:
        sigma = multiplier * fit.neighbors.sum_factor * longest / batch_size
        reach = typical_reach(loss, row_norm, radius, fit.objective.l2)
        best = gradient_step_size(reach, rounds, longest, sigma, fit.objective.dimension)
    return min(1.0 / _smoothness(fit), best)
