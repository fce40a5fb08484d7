"""DP-SGD: stochastic gradient descent on secret batches, with clipped gradients and Gaussian noise.

Abadi et al., CCS 2016, Algorithm 1 (moments accountant); Bassily, Smith and Thakurta, FOCS 2014 (advanced
composition). By default costs are composed by privacy loss distributions, which need the least noise.
"""

from __future__ import annotations

import math

from dperm.accounting import PrivacyLedger, paper
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.minibatch_descent import OPTIMIZERS, MinibatchRun, MinibatchSchedule
from dperm.algorithms.requirements import needs
from dperm.algorithms.step_sizes import StepSize
from dperm.mechanisms.random_source import RandomState
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
    step_size: StepSize | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    radius: float = math.inf,
    optimizer: str = "momentum",
    sampling: str = "poisson",
    accountant: str = "pld",
    learn_scales: bool = False,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by stochastic gradient descent on secret batches, with Gaussian noise on each gradient.

    Settings that are not given follow from public numbers: :mod:`dperm.algorithms.rules`. ``momentum=0,
    tail=0`` is the published algorithm. Pseudo-code, guarantee and proof: :doc:`/theory/dp_sgd`.

    Parameters
    ----------
    objective : Objective
        Any loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    batch_size : float, optional
        Expected size of a Poisson batch, which may be fractional; size of other batches.
    steps : int, optional
        Number of noisy gradients.
    clip : float, optional
        Bound on the norm of one record's gradient.
    step_size : float, str, mapping or callable, optional
        Step on the mean gradient. One number, or ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in
        ``"0.5/sqrt(t)"``; a mapping from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a
        function of the step 1, 2, ... For Adam it is the length of a typical step in one coordinate.
    momentum : float, optional
        Heavy-ball coefficient in [0, 1), by default .95; Adam's first decay, by default .9.
    tail : float, optional
        The last ``ceil(tail * (steps + 1))`` iterates are averaged, in [0, 1], by default .5; 0 returns the
        last one.
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    optimizer : {"momentum", "adam"}
        Update rule on the noisy gradients; it costs no privacy.
    sampling : {"poisson", "without_replacement", "permutation"}
        Every record in each batch with probability ``batch_size / n_public``; fresh batches of fixed size
        (``replace_one`` only); or shuffled epochs, without privacy amplification.
    accountant : {"pld", "rdp", "moments", "advanced_composition"}
        How costs are composed: privacy loss distributions; Renyi divergences; the moments accountant with
        moments up to 32 (Poisson, ``add_or_remove``); amplification and advanced composition, as tight as
        the method allows. Shuffled epochs are Gaussian, and exact with any of them.
    learn_scales : bool
        As for :func:`dperm.algorithms.noisy_gd`; needs ``accountant="pld"``.
    calibration : {"tight", "paper"}
        "paper": published noise, for ``accountant="moments"`` and for ``"advanced_composition"`` (Lee and
        Kifer 2018, Section 6); Poisson sampling and ``add_or_remove`` only.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called after each step with ``{"iteration", "steps", "coef", "gradient"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    The whole transcript, all iterates included, is (epsilon, delta)-DP as long as the batches stay secret.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_sgd(objective, epsilon=1.0, delta=1e-6, batch_size=100, steps=50, random_state=0)
    >>> np.sign(result.coef), result.privacy.sampling
    (array([ 1., -1.]), 'poisson')
    """
    given = MinibatchSchedule.checked(
        batch_size=batch_size, steps=steps, clip=clip, step_size=step_size, momentum=momentum, tail=tail,
        radius=radius,
    )  # fmt: skip
    optimizer = check.one_of(*OPTIMIZERS)("optimizer", optimizer)
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        run = MinibatchRun(fit, given, learn_scales, sampling, accountant, optimizer)
        sigma_over_clip = _published_noise(run) if fit.as_published else run.noise_multiplier()
        return run.descend("dp_sgd", sigma_over_clip, optimizer=optimizer)


def _published_noise(run: MinibatchRun) -> float:
    fit, schedule = run.fit, run.schedule
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
    return published(fit.epsilon, fit.delta, rate=schedule.batch_size / fit.n, steps=schedule.steps)
