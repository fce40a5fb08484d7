"""Random-round private stochastic gradient descent, for smooth losses that need not be convex.

J. Zhang, K. Zheng, W. Mou, L. Wang, "Efficient private ERM for smooth objectives", IJCAI 2017, Algorithm 2.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dperm.accounting import paper
from dperm.accounting.events import GaussianRelease
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.random_rounds import random_round_noise_multiplier
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_choice, check_positive, check_positive_integer
from dperm.algorithms.sgd_settings import (
    batch_and_noise_streams,
    draw_batches,
    exact_clip,
    gradient_bound,
    observer,
    sampling_name,
    typical_loss_at_zero,
    typical_reach,
    usual_gradient,
)
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.mechanisms.sampling import uniform_integers
from dperm.objective.objective import Objective
from dperm.objective.stochastic_descent import DescentPlan
from dperm.statement.privacy_statement import PrivacyStatement

# Passes that the default number of rounds amounts to; exact noise takes 10 microseconds per 100 weights.
_PASSES = {"exact": 20, "float": 200}
# Without noise: gradients of records, where they are more than that, and the batches they are made in.
_EXACT_GRADIENTS, _EXACT_BATCH = 1e8, 64


@needs(smooth=True, linear_prediction=True, random_access=True)
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
    calibration: str = "tight",
    neighbors: str = "replace_one",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
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
    ledger, random_state
        As for :func:`dperm.algorithms.noisy_gd`.
    callback : callable, optional
        Called with ``{"iteration", "coef"}``, released values.

    Returns
    -------
    FitResult
        ``coef`` is ``w_(R-1)``, ``n_iter`` is ``R - 1``.

    Raises
    ------
    ValueError
        For a setting out of range, or a paper calibration that does not give the claimed guarantee.
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
    relation = Neighbours.parse(neighbors)
    n, dimension = objective.n_public, objective.dimension
    check_choice("noise", noise, tuple(_PASSES))
    exact = epsilon == math.inf
    if batch_size is None:
        batch_size = min(n, _EXACT_BATCH) if exact and calibration == "tight" else 1
    check_positive_integer("batch_size", batch_size)
    if batch_size > n:
        raise ValueError(f"batch_size must be at most n = {n}, got {batch_size}")
    if rounds is None:
        passes = _PASSES[noise] * n // batch_size
        rounds = max(passes, int(_EXACT_GRADIENTS) // batch_size) if exact else min(n * n, passes)
        rounds = max(2, rounds)
    check_positive_integer("rounds", rounds)
    if rounds < 2:
        raise ValueError(
            f"rounds must be at least 2, got {rounds}: their number is drawn from 0 to rounds - 1"
        )
    if clip is None:
        clip = exact_clip(objective.loss, objective.row_norm) if exact and radius == math.inf else math.inf
    longest = gradient_bound(objective.loss, objective.row_norm, radius, clip)
    multiplier = _noise_multiplier(epsilon, delta, n, batch_size, rounds, calibration, relation)
    smoothness = objective.loss.smoothness(objective.row_norm) + objective.l2
    if step_size is None:
        sigma = multiplier * relation.sum_factor * longest / batch_size
        reach = typical_reach(objective.loss, objective.row_norm, radius, objective.l2)
        if exact:
            # The sampling error of a batch moves the last iterate, at a cost of step G^2/(4 b) at most.
            affordable = 1e-3 * typical_loss_at_zero(objective.loss)
            usual = min(longest, usual_gradient(objective.loss, objective.row_norm))
            step_size = min(1.0 / smoothness, 4.0 * batch_size * affordable / usual**2)
        else:
            step_size = min(1.0 / smoothness, gradient_step_size(reach, rounds, longest, sigma, dimension))
    check_positive("step_size", step_size)
    if not step_size < 2.0 / smoothness:
        raise ValueError(f"step_size must be below 2/(l2 + beta) = {2.0 / smoothness:.6g}, got {step_size!r}")
    if relation is Neighbours.REPLACE_ONE:
        objective.check_places()
    observe, every = observer(callback, n, batch_size, report_every)
    bits, source = batch_and_noise_streams(random_state)
    steps = int(uniform_integers(bits, rounds, 1)[0])  # R - 1
    accountant = "pld, averaged over the random number of rounds"
    releaser = Releaser(
        epsilon,
        delta,
        ScheduledBudget(GaussianRelease(multiplier), max(steps, 1), accountant),
        neighbors=relation,
        ledger=ledger,
        random_state=source,
        description="rrpsgd",
        statement=public_facts(objective, rounds=rounds, batch_size=batch_size),
    )
    plan = DescentPlan(objective.loss, steps, batch_size, step_size, longest, radius, average=False)
    descent = objective.stochastic_descent(plan, draw_batches(bits, relation, n, batch_size))
    coef = np.zeros(dimension)
    if steps > 0:
        coef = releaser.noisy_descent(descent, multiplier, noise=noise, observe=observe, every=every).last
    sensitivity = descent.sensitivity(relation)
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta if epsilon < math.inf else 0.0,
        neighbors=relation,
        mechanism="Gaussian noise on the sum of every batch; random number of rounds",
        accountant=accountant,
        sampling=sampling_name(relation),
        sensitivity=sensitivity,
        noise_scale=multiplier * sensitivity,
        clip=descent.add_or_remove,
        row_norm=objective.row_norm,
        steps=steps,
        noise=noise,
        random=releaser.random,
        non_finite=objective.non_finite,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public_facts(
            objective,
            rounds=rounds,
            batch_size=batch_size,
            step_size=step_size,
            radius=radius,
            calibration=calibration,
        ),
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=steps)


@lru_cache(maxsize=256)
def _noise_multiplier(
    epsilon: float,
    delta: float,
    n: int,
    batch_size: int,
    rounds: int,
    calibration: str,
    relation: Neighbours,
) -> float:
    """Standard deviation of the noise on a batch's sum, over its sensitivity."""
    check_choice("calibration", calibration, ("tight", "paper"))
    if calibration == "tight":
        over_clip = random_round_noise_multiplier(epsilon, delta, n, batch_size, rounds, neighbors=relation)
        return over_clip / relation.sum_factor
    if batch_size != 1 or rounds > n * n or relation is not Neighbours.REPLACE_ONE:
        raise ValueError(
            "calibration='paper' is for batch_size=1, at most n^2 rounds and neighbors='replace_one'"
        )
    return paper.rrpsgd(epsilon, delta, n_samples=n) / relation.sum_factor
