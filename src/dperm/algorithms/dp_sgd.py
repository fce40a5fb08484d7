"""DP-SGD: stochastic gradient descent on secret batches, with clipped gradients and Gaussian noise.

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang, "Deep learning with differential privacy", CCS
2016, Algorithm 1 (moments accountant); Bassily, Smith and Thakurta, "Private empirical risk
minimization: efficient algorithms and tight error bounds", FOCS 2014 (advanced composition). By default the
cost is added up with privacy loss distributions, which need the least noise.
"""

from __future__ import annotations

import math
from typing import Unpack

from dperm.accounting import paper
from dperm.algorithms.fit import Fit, Terms
from dperm.algorithms.fit_result import FitResult
from dperm.algorithms.minibatch_descent import MinibatchRun, default_schedule
from dperm.algorithms.requirements import needs
from dperm.objective.objective import Objective


@needs()
def dp_sgd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    batch_size: float | None = None,
    steps: int | None = None,
    clip: float | None = None,
    step_size: float | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    optimizer: str = "momentum",
    radius: float = math.inf,
    sampling: str = "poisson",
    accountant: str = "pld",
    **terms: Unpack[Terms],
) -> FitResult:
    """Minimise by stochastic gradient descent on secret batches, with Gaussian noise on each gradient.

    Parameters
    ----------
    objective : Objective
        Any loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    batch_size, steps, clip, step_size, momentum, tail : optional
        See :class:`dperm.algorithms.minibatch_descent.MinibatchSchedule`; by default from public numbers
        only. ``momentum=0, tail=0`` is the published algorithm.
    optimizer : {"momentum", "adam"}
        What is made of the noisy gradients; it costs no privacy.
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    sampling : {"poisson", "without_replacement", "permutation"}
        Every record in each batch with probability ``batch_size / n_public``; fresh batches of fixed size
        (``replace_one`` only); or shuffled epochs, whose sampling amplifies nothing.
    accountant : {"pld", "rdp", "moments", "advanced_composition"}
        How costs add up: privacy loss distributions; Renyi divergences; the moments accountant with moments
        up to 32 (Poisson, ``add_or_remove``); amplification and advanced composition, as tight as
        the method allows. Shuffled epochs are Gaussian, and exact with any of them.
    calibration : {"tight", "paper"}
        "paper": published noise, for ``accountant="moments"`` and for ``"advanced_composition"`` (Lee and
        Kifer 2018, Section 6); Poisson sampling and ``add_or_remove`` only.
    neighbors, ledger, random_state, callback
        See :class:`dperm.algorithms.fit.Terms`. The callback is called after each step with
        ``{"iteration", "coef", "gradient"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, a combination without valid accounting, or a paper calibration that
        does not give the claimed guarantee.
    DataError
        For more records than ``n_public`` and batches of fixed size.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    The whole transcript, all iterates included, is (epsilon, delta)-DP as long as the batches stay secret:
    see :func:`dperm.accounting.sgd_epsilon` for the theorems. Sums are divided by the public batch size,
    never by the number of records in the batch.
    """
    fit = Fit(objective, epsilon, delta, **terms)
    schedule = default_schedule(fit.problem, optimizer, steps).replaced(
        batch_size=batch_size, steps=steps, clip=clip, step_size=step_size, momentum=momentum, tail=tail
    )
    run = MinibatchRun(fit, schedule, optimizer, sampling, accountant, radius).checked()
    sigma_over_clip = _published_noise(run) if fit.as_published else run.noise_multiplier()
    return run.descend("dp_sgd", sigma_over_clip, optimizer=optimizer)


def _published_noise(run: MinibatchRun) -> float:
    fit = run.fit
    published = {
        "moments": paper.sgd_moments,
        "advanced_composition": paper.sgd_advanced_composition,
    }.get(run.accountant)
    if published is None or (run.sampling, fit.neighbors) != ("poisson", "add_or_remove"):
        raise ValueError(
            "calibration='paper' of dp_sgd needs accountant='moments' or 'advanced_composition', "
            "sampling='poisson' and neighbors='add_or_remove'"
        )
    fit.check_published("dp_sgd")
    rate = run.schedule.batch_size / fit.n
    return published(fit.epsilon, fit.delta, rate=rate, steps=run.schedule.steps)
