"""Noise and epsilon of stochastic gradient descent: every sampling scheme, relation and accountant.

Each of `steps` steps draws a batch, sums the clipped gradients of its records (norm at most C each) and
adds N(0, sigma^2) to every coordinate of the sum. ``noise_multiplier = sigma / C`` for *every* scheme and
relation. With rate ``q = batch_size / n_samples`` and z the noise multiplier:

=====================  ===============  =====================================================================
sampling               neighbors        what one step costs
=====================  ===============  =====================================================================
"poisson"              add_or_remove    ``(1-q) N(0,1) + q N(1/z,1)`` against N(0,1), both directions
"poisson"              replace_one      a mixture of Gaussian profiles at 1/z (record absent) and 2/z
"without_replacement"  replace_one      ``q delta_G(log(1 + (e^epsilon - 1)/q), 2/z)``, symmetrised
"without_replacement"  add_or_remove    refused
"permutation"          both             no amplification: one Gaussian release per epoch, mu = s/z, s = 1 or 2
=====================  ===============  =====================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from dperm.accounting._checks import (
    check_delta,
    check_epsilon,
    check_member,
    check_multiplier,
    check_positive,
    check_steps,
)
from dperm.accounting.gaussian import gaussian_delta, gdp_epsilon, gdp_mu
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.pld import profiles, refinement
from dperm.accounting.pure_composition import sgd_advanced_epsilon
from dperm.accounting.rdp import RDP_ORDERS, poisson_rdp, rdp_to_epsilon, symmetric_rdp

#: Smallest delta for sampled batches: their profiles are computed down to here.
MIN_DELTA = 1e-250
#: For a larger epsilon the noise of unsampled steps is used: neither gives any protection.
MAX_EPSILON = 1e3
# Smaller rates are rounded up to this one, which is safe.
_MIN_RATE = 2.0**-40
# Below this, amplification is ignored: a step has losses of hundreds of thousands, and exponentials overflow.
_MIN_MULTIPLIER = 1e-3


class Sampling(StrEnum):
    """How the batch of a step is drawn.

    Attributes
    ----------
    POISSON
        Every record is in the batch with probability q, independently. The sample is secret.
    WITHOUT_REPLACEMENT
        A uniformly random batch of fixed size, fresh in every step. The sample is secret.
    PERMUTATION
        Batches of fixed size from shuffled epochs: every record at most once per epoch.

    Examples
    --------
    >>> run = {"batch_size": 10, "n_samples": 100, "steps": 10}
    >>> round(sgd_epsilon(2.0, 1e-5, **run, sampling=Sampling.POISSON), 2)
    0.8
    >>> round(sgd_epsilon(2.0, 1e-5, **run, sampling=Sampling.PERMUTATION), 2)
    1.99
    """

    POISSON = "poisson"
    WITHOUT_REPLACEMENT = "without_replacement"
    PERMUTATION = "permutation"


class SubsamplingAccountant(StrEnum):
    """How the cost of the steps is composed.

    Attributes
    ----------
    PLD
        Privacy-loss distributions; the tightest.
    RDP
        Renyi divergences at fixed orders.
    MOMENTS
        The original moments accountant (Abadi et al. 2016, Theorem 2), with moments up to `max_moment`.
    ADVANCED_COMPOSITION
        Amplification of (epsilon, delta), then advanced composition.

    Examples
    --------
    >>> run = {"batch_size": 10, "n_samples": 100, "steps": 10}
    >>> for kind in SubsamplingAccountant:
    ...     print(kind, round(sgd_epsilon(2.0, 1e-5, **run, accountant=kind), 2))
    pld 0.8
    rdp 0.94
    moments 1.2
    advanced_composition 11.94
    """

    PLD = "pld"
    RDP = "rdp"
    MOMENTS = "moments"
    ADVANCED_COMPOSITION = "advanced_composition"


@dataclass(frozen=True)
class SgdPlan:
    """The public numbers that a guarantee of stochastic gradient descent depends on, checked.

    Parameters
    ----------
    rate : float
        q, in (0, 1].
    steps : int
        Number of noisy sums; for ``"permutation"`` the number of epochs, rounded up.
    sampling : Sampling
    neighbors : Neighbours
    """

    rate: float
    steps: int
    sampling: Sampling
    neighbors: Neighbours

    def sensitivity(self) -> float:
        """Sensitivity of the sum of a batch that contains the record, in units of the clipping norm C."""
        return float(self.neighbors.sum_factor)

    def is_gaussian(self) -> bool:
        """Whether every step is a plain Gaussian release, so that the cost is exact."""
        return self.rate == 1.0 or self.sampling is Sampling.PERMUTATION


def sgd_epsilon(
    noise_multiplier: float,
    delta: float,
    *,
    batch_size: float,
    n_samples: int,
    steps: int,
    sampling: str = "poisson",
    neighbors: str = "add_or_remove",
    accountant: str = "pld",
    max_moment: int = 32,
) -> float:
    """Epsilon of noisy stochastic gradient descent; all intermediate iterates may be published.

    Parameters
    ----------
    noise_multiplier : float
        ``sigma / C``: standard deviation of the noise on the *sum* of the batch's clipped gradients over
        the clipping norm C, >= 0 (0: infinite epsilon). The same definition for every relation: under
        ``replace_one`` the sum changes by 2 C, which the accounting (not the caller) takes into account.
    delta : float
        Strictly between 0 and 1.
    batch_size : float
        Batch size, > 0 and at most `n_samples`. The rate is ``batch_size / n_samples``; for ``"poisson"``
        it is the expected size and may be fractional, otherwise an integer.
    n_samples : int
        Public number of records (under ``add_or_remove`` a declared constant, never the private count).
    steps : int
        Number of steps, >= 1.
    sampling : {"poisson", "without_replacement", "permutation"}
        How batches are drawn. ``"permutation"`` claims no amplification; its steps are counted in epochs
        of ``floor(n_samples / batch_size)`` steps, rounded up. Under ``add_or_remove`` it means that a
        record is replaced by a null record, with gradient zero.
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    accountant : {"pld", "rdp", "moments", "advanced_composition"}
        How costs are composed. ``"moments"`` is for Poisson sampling under ``add_or_remove`` only.
    max_moment : int, default=32
        Largest moment of ``accountant="moments"``; ignored by the others.

    Returns
    -------
    float
        An upper bound on epsilon; infinite where none can be certified. Exact for full batches
        (``batch_size == n_samples``) and for permutations.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range, or the combination has no valid accounting.

    Notes
    -----
    Profiles: see the table of this module. ``"pld"``: Doroshenko et al. 2022 on grids refined until
    epsilon moves by less than 0.1 %, with proved bounds on all rounding errors; where a composition cannot be
    certified (more than 1e12 steps, losses too wide for a grid) the Renyi bound is reported.

    Examples
    --------
    >>> round(sgd_epsilon(1.0, 1e-5, batch_size=10, n_samples=1000, steps=1000), 2)
    1.83
    """
    plan = make_plan(batch_size, n_samples, steps, sampling, neighbors)
    kind = parse_accountant(accountant, plan)
    multiplier, delta = check_multiplier(noise_multiplier), check_delta(delta, least=MIN_DELTA)
    return plan_epsilon(plan, multiplier, delta, kind, check_moments(max_moment))


def sgd_delta(
    noise_multiplier: float,
    epsilon: float,
    *,
    batch_size: float,
    n_samples: int,
    steps: int,
    sampling: str = "poisson",
    neighbors: str = "add_or_remove",
) -> float:
    """Delta of noisy stochastic gradient descent at one epsilon: its privacy profile.

    Parameters
    ----------
    noise_multiplier : float
        ``sigma / C``, >= 0, as in `sgd_epsilon`.
    epsilon : float
        At least 0.
    batch_size, n_samples, steps, sampling, neighbors
        As in `sgd_epsilon`.

    Returns
    -------
    float
        An upper bound on delta, at most 1; at most that of the same steps without sampling.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range, or the combination has no valid accounting.

    Notes
    -----
    By privacy-loss distributions as in `sgd_epsilon`, on one grid with a quarter of its first step.

    Examples
    --------
    >>> round(sgd_delta(1.0, 1.83, batch_size=10, n_samples=1000, steps=1000), 6)
    1e-05
    """
    plan = make_plan(batch_size, n_samples, steps, sampling, neighbors)
    multiplier, epsilon = check_multiplier(noise_multiplier), check_epsilon(epsilon)
    if multiplier in (0.0, math.inf) or epsilon == math.inf:
        return 1.0 if multiplier == 0.0 and epsilon < math.inf else 0.0
    unsampled = gaussian_delta(epsilon, multiplier, plan.sensitivity() * math.sqrt(plan.steps))
    if plan.is_gaussian() or multiplier < _MIN_MULTIPLIER:
        return unsampled
    profiles, counts = step_profiles(plan, multiplier), np.array([plan.steps], dtype=np.int64)
    best, target = unsampled, max(unsampled, 1e-290)
    while True:
        # The truncated mass is a share of the target: lower the target until it is close to the result.
        coarse = refinement.first_grid(profiles, plan.steps, target)
        fine = coarse._replace(step=coarse.step / 4.0)
        found = refinement.mean_delta(profiles, counts, epsilon, target, fine)
        best = min(best, found)
        if found > 0.1 * target or found < 1e-290:
            return best
        target = found


def make_plan(batch_size: float, n_samples: int, steps: int, sampling: str, neighbors: str) -> SgdPlan:
    """Check the public numbers and return them as a plan; see `sgd_epsilon` for the arguments."""
    scheme, relation = check_member(Sampling, sampling, "sampling"), Neighbours.parse(neighbors)
    batch_size, n_samples = check_positive(batch_size, "batch_size"), check_steps(n_samples, "n_samples")
    steps = check_steps(steps)
    if batch_size > n_samples:
        raise ValueError(f"batch_size must be at most n_samples={n_samples}, got {batch_size!r}.")
    if scheme is not Sampling.POISSON and batch_size != math.floor(batch_size):
        raise ValueError(
            f"batch_size must be an integer for sampling={str(scheme)!r}, got {batch_size!r}; "
            "only Poisson samples have a fractional expected size."
        )
    if scheme is Sampling.WITHOUT_REPLACEMENT and relation is Neighbours.ADD_OR_REMOVE:
        raise ValueError(
            "Batches of fixed size without replacement have no accounting under 'add_or_remove': one record "
            "more changes which records are drawn, so the batch changes as if one were replaced. Use "
            "neighbors='replace_one', or sampling='poisson'."
        )
    if scheme is Sampling.PERMUTATION:
        steps = -(-steps // (n_samples // int(batch_size)))
    return SgdPlan(max(batch_size / n_samples, _MIN_RATE), steps, scheme, relation)


def check_moments(value: int) -> int:
    """Return the largest moment of the moments accountant."""
    return check_steps(value, "max_moment", most=10_000)


@lru_cache(maxsize=4096)
def plan_epsilon(
    plan: SgdPlan, multiplier: float, delta: float, accountant: SubsamplingAccountant, max_moment: int = 32
) -> float:
    """Epsilon of a checked plan; see `sgd_epsilon`."""
    if multiplier in (0.0, math.inf):
        return math.inf if multiplier == 0.0 else 0.0
    # Sampling never costs privacy, so this bounds every scheme; it is exact for full batches.
    unsampled = gdp_epsilon(plan.sensitivity() / multiplier * math.sqrt(plan.steps), delta)
    if plan.is_gaussian():
        return unsampled
    if accountant is SubsamplingAccountant.ADVANCED_COMPOSITION:
        scaled = multiplier / plan.sensitivity()
        return sgd_advanced_epsilon(scaled, delta, plan.rate, plan.steps)
    if multiplier < _MIN_MULTIPLIER:
        return math.inf if accountant is SubsamplingAccountant.MOMENTS else unsampled
    if accountant is SubsamplingAccountant.MOMENTS:
        orders = tuple(float(moment + 1) for moment in range(1, max_moment + 1))
        return _moments_epsilon(orders, poisson_rdp(plan.rate, 1.0 / multiplier, orders), plan.steps, delta)
    if unsampled == 0.0:
        return 0.0
    if accountant is SubsamplingAccountant.PLD:
        epsilon, _ = refinement.refined_epsilon(step_profiles(plan, multiplier), plan.steps, delta)
        if epsilon < math.inf:
            return min(epsilon, unsampled)
    divergences = [plan.steps * divergence for divergence in step_rdp(plan, multiplier)]
    return min(rdp_to_epsilon(RDP_ORDERS, divergences, delta)[0], unsampled)


def step_profiles(plan: SgdPlan, multiplier: float) -> profiles.StepProfiles:
    """Profiles of one step of a plan."""
    if plan.sampling is Sampling.WITHOUT_REPLACEMENT:
        return profiles.without_replacement_replace_one(plan.rate, 2.0 / multiplier)
    if plan.neighbors is Neighbours.REPLACE_ONE:
        return profiles.poisson_replace_one(plan.rate, 1.0 / multiplier)
    return profiles.poisson_add_or_remove(plan.rate, 1.0 / multiplier)


def first_guess(plan: SgdPlan, epsilon: float, delta: float) -> float:
    """Rough noise multiplier from the central limit theorem (Dong, Roth and Su 2022, Section 5.2)."""
    mu = gdp_mu(epsilon, delta)
    ratio = mu * mu / (plan.rate * plan.rate * plan.steps)
    if plan.sampling is Sampling.POISSON and plan.neighbors is Neighbours.REPLACE_ONE:
        ratio /= 2.0
    factor = 2.0 if plan.sampling is Sampling.WITHOUT_REPLACEMENT else 1.0
    return factor / math.sqrt(math.log1p(ratio))


def step_rdp(plan: SgdPlan, multiplier: float) -> tuple[float, ...]:
    """Renyi divergences of one step of a plan, at `RDP_ORDERS`."""
    if plan.sampling is Sampling.WITHOUT_REPLACEMENT:
        return symmetric_rdp(plan.rate, 2.0 / multiplier)
    if plan.neighbors is Neighbours.REPLACE_ONE:
        return symmetric_rdp(plan.rate, 1.0 / multiplier, poisson=True)
    return poisson_rdp(plan.rate, 1.0 / multiplier)


def _moments_epsilon(orders: tuple[float, ...], rdp: tuple[float, ...], steps: int, delta: float) -> float:
    """``min over moments l of (T l D_(l+1) + log(1/delta)) / l`` (Abadi et al. 2016, Theorem 2)."""
    log_inverse = -math.log(delta)
    return min(
        (steps * (order - 1.0) * divergence + log_inverse) / (order - 1.0)
        for order, divergence in zip(orders, rdp, strict=True)
    )


def parse_accountant(value: str, plan: SgdPlan) -> SubsamplingAccountant:
    """Return the accountant named by `value` if it covers the plan."""
    kind = check_member(SubsamplingAccountant, value, "accountant")
    poisson = plan.sampling is Sampling.POISSON and plan.neighbors is Neighbours.ADD_OR_REMOVE
    if kind is SubsamplingAccountant.MOMENTS and not poisson:
        raise ValueError(
            "accountant='moments' covers Poisson sampling under 'add_or_remove' only (Abadi et al. 2016 "
            "prove nothing else); use 'rdp' or 'pld'."
        )
    return kind
