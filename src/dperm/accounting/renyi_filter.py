"""Privacy filter for adaptively chosen accesses to secret Poisson samples.

It caps the sums of Renyi divergences at orders a; orders and caps are fixed in advance (V. Feldman and T.
Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021; M. Lecuyer, "Practical privacy
filters and odometers with Renyi differential privacy", 2021). Proof, for each order: let P and Q be the
distributions of the whole transcript on neighbours, ``p_t/q_t`` the likelihood ratio of step t given the
earlier outputs, and ``D_t`` its cost, a function of these outputs. Under Q the conditional mean of
``(p_t/q_t)^a e^(-(a-1) D_t)`` is at most 1, and so is the mean of the product. The costs of every transcript
sum to at most B, so ``E_Q (P/Q)^a <= e^((a-1) B)``.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dperm.accounting._checks import bisected
from dperm.accounting.approximate_gdp import lies_below
from dperm.accounting.events import ExponentialMechanismRelease, GaussianRelease, PrivacyEvent
from dperm.accounting.ledger.cost import FitCost
from dperm.accounting.rdp import poisson_rdp
from dperm.accounting.units import Units, ceil_units, floor_units, units_as_float
from dperm.errors import BudgetExceededError

_UP = 1.0 + 2.0**-40


class RenyiFilter:
    """Budget of a run that draws a fresh Poisson sample for every access, under ``add_or_remove``.

    Parameters
    ----------
    caps : mapping of float to float
        Largest divergence at each order; public.
    rate : float
        Probability that a record is in a sample, in (0, 1].
    before : sequence of GaussianRelease
        Releases of all records, each of which happens once; counted as spent from the start.
    """

    accountant = "rdp"

    def __init__(
        self, caps: Mapping[float, float], rate: float, before: Sequence[GaussianRelease] = ()
    ) -> None:
        self.rate, self.orders = rate, tuple(caps)
        self._caps = [floor_units(cap) for cap in caps.values()]
        self._before: Counter[PrivacyEvent] = Counter(before)
        self._spent: list[Units] = [
            ceil_units(sum(gaussian_rdp(each, order) for each in before)) for order in self.orders
        ]
        self._lock = threading.Lock()

    @property
    def total_units(self) -> Units:
        """The cap at the first order, in units of 2^-60 of the divergence."""
        return self._caps[0]

    @property
    def spent_units(self) -> Units:
        """What was spent at the first order, including releases of all records still to come."""
        return self._spent[0]

    def fits(self, *events: PrivacyEvent) -> bool:
        """Return whether these accesses together stay within the caps."""
        return all(each <= cap for each, cap in zip(self._after(events), self._caps, strict=True))

    def spend(self, cost: PrivacyEvent, count: int = 1) -> None:
        """Spend accesses of one kind. Call it before the data are touched.

        Raises
        ------
        BudgetExceededError
            If they do not fit. The budget is unchanged.
        """
        with self._lock:
            if self._before[cost] >= count:  # was counted at the start
                self._before[cost] -= count
                return
            after = self._after([cost] * count)
            for before, then, cap in zip(self._spent, after, self._caps, strict=True):
                if then > cap:
                    amounts = cap, before, cap - before, then - before
                    total, spent, left, asked = map(units_as_float, amounts)
                    raise BudgetExceededError(
                        total=total, spent=spent, remaining=left, requested=asked, unit="divergence"
                    )
            self._spent = after

    def _after(self, events: Sequence[PrivacyEvent]) -> list[Units]:
        costs = zip(*(sampled_rdp(event, self.rate, self.orders) for event in events), strict=True)
        return [spent + sum(map(ceil_units, each)) for spent, each in zip(self._spent, costs, strict=True)]

    def cost(self, slack: float) -> FitCost:
        """What a ledger is charged for the whole run: mu for which it is mu-GDP up to `slack`.

        The profile is bounded by every capped divergence (Canonne, Kamath and Steinke 2020, Proposition 12),
        and by ``sqrt(B/2)`` (Pinsker's inequality); see `lies_below`.
        """
        if self._caps[0] == math.inf:
            return FitCost(mu=math.inf, slack=slack)
        a = np.array(self.orders)[:, None]
        caps = np.array([units_as_float(cap) for cap in self._caps])[:, None] * _UP
        log_scale = (a - 1.0) * np.log1p(-1.0 / a) - np.log(a)
        end = float(np.min(caps + (log_scale - math.log(slack)) / (a - 1.0)))
        points = np.linspace(0.0, max(end, 1e-9) * _UP, 400)
        deltas = np.exp(np.min((a - 1.0) * (caps - points) + log_scale, axis=0)) * _UP
        deltas = np.minimum(deltas, math.sqrt(0.5 * float(np.min(caps))) * _UP)
        low, high = 0.0, 1.0
        while not lies_below(points, deltas, slack, high):
            low, high = high, 2.0 * high
            if high > 1e6:
                return FitCost(mu=math.inf, slack=slack)
        mu = bisected(lambda mu: lies_below(points, deltas, slack, mu), low, high, rtol=1e-6)
        return FitCost(mu=mu, slack=slack)


@dataclass(frozen=True)
class SampledPlan:
    """How the divergence is shared among Gaussian releases (gradients) and selections on samples.

    Attributes
    ----------
    order : float
        Renyi order at which the plan meets (epsilon, delta).
    rate : float
        Sampling rate.
    gradient, selection : float
        Divergence of one gradient and of one selection at that order.
    """

    order: float
    rate: float
    gradient: float
    selection: float

    def noise_multiplier(self, divergence: float) -> float:
        """Smallest noise multiplier of a Gaussian release on a sample that costs at most `divergence`."""
        return _least(GaussianRelease, divergence, self.rate, self.order)

    def eta(self, divergence: float) -> float:
        """Largest bounded range of a selection on a sample that costs at most `divergence`."""
        inverse = _least(_selection, divergence, self.rate, self.order)
        return math.inf if inverse == 0.0 else 1.0 / inverse


def sampled_plan(
    epsilon: float,
    delta: float,
    rate: float,
    accesses: int,
    selection_share: float,
    before: Sequence[GaussianRelease] = (),
) -> tuple[SampledPlan, RenyiFilter]:
    """Plan for equal accesses, at the order at which gradients need the least noise, and its filter.

    At other orders the filter allows a quarter more than planned, because runs that deviate from the plan mix
    gradients and selections in other proportions. The ledger is charged for these caps.
    """

    def at(order: float) -> SampledPlan:
        cap = divergence_cap(epsilon, delta, order) - sum(gaussian_rdp(each, order) for each in before)
        each = max(cap, 0.0) / accesses
        return SampledPlan(order, rate, (1.0 - selection_share) * each, selection_share * each)

    if epsilon == math.inf:
        return SampledPlan(2.0, rate, math.inf, math.inf), RenyiFilter({2.0: math.inf}, rate, before)
    orders = orders_for(epsilon, delta)
    plan = min(map(at, orders), key=lambda plan: plan.noise_multiplier(plan.gradient))
    caps = {plan.order: divergence_cap(epsilon, delta, plan.order)}
    events = (
        GaussianRelease(plan.noise_multiplier(plan.gradient)),
        ExponentialMechanismRelease(plan.eta(plan.selection)),
    )
    for order in orders:
        planned = accesses * sum(sampled_rdp(each, rate, (order,))[0] for each in events)
        planned += sum(gaussian_rdp(each, order) for each in before)
        caps.setdefault(order, 1.25 * planned)
    return plan, RenyiFilter(caps, rate, before)


def gaussian_rdp(event: GaussianRelease, order: float) -> float:
    """Divergence of a release of all records."""
    return 0.5 * order / event.noise_multiplier**2 * _UP if event.noise_multiplier else math.inf


@functools.lru_cache(maxsize=4096)
def sampled_rdp(event: PrivacyEvent, rate: float, orders: tuple[float, ...]) -> tuple[float, ...]:
    """Divergences of an access to a Poisson sample, for both directions, rounded up.

    A selection of bounded range eta is eta-DP on the sample, so ``log(1 + q (e^eta - 1))``-DP after sampling;
    its divergence on the sample is at most ``a eta^2/8``, which bounds that after sampling by joint
    convexity. The smallest bound is used.
    """
    if isinstance(event, GaussianRelease):
        if event.noise_multiplier == 0.0:
            return (math.inf,) * len(orders)
        return tuple(each * _UP for each in poisson_rdp(rate, 1.0 / event.noise_multiplier, orders))
    if not isinstance(event, ExponentialMechanismRelease):
        raise TypeError(f"no cost of {event!r} is known for a sample")
    return tuple(_selection_rdp(rate, event.eta, order) for order in orders)


def _selection_rdp(rate: float, eta: float, order: float) -> float:
    if eta == math.inf:
        return math.inf
    of_sample = order * eta * eta / 8.0
    mixed = _log_mean_exp(rate, (order - 1.0) * of_sample) / (order - 1.0)
    return min(of_sample, mixed, _pure_rdp(_log_mean_exp(rate, eta), order)) * _UP


def orders_for(epsilon: float, delta: float) -> tuple[float, ...]:
    """Orders to choose from; the best for a Gaussian release is about ``2 log(1/delta)/epsilon``."""
    last = math.ceil(2.0 * math.log2(4.0 * math.log(1.0 / delta) / epsilon))
    return tuple(1.0 + 2.0 ** (k / 2.0) for k in range(-2, min(max(last, 8), 96) + 1))


def divergence_cap(epsilon: float, delta: float, order: float) -> float:
    """Largest divergence at an order that is (epsilon, delta)-DP (Canonne et al. 2020, Proposition 12)."""
    return epsilon - math.log1p(-1.0 / order) + (math.log(delta) + math.log(order)) / (order - 1.0)


def _log_mean_exp(rate: float, x: float) -> float:
    """``log(1 - q + q e^x)``."""
    return math.log1p(rate * math.expm1(x)) if x < 600.0 else x


def _pure_rdp(epsilon: float, order: float) -> float:
    """Divergence of epsilon-DP; the worst pair has two outcomes (Bun and Steinke 2016, Proposition 3.3)."""
    if order * epsilon > 600.0:
        return epsilon
    low = 1.0 / (1.0 + math.exp(epsilon))
    # E_Q r^a - 1 is the mean of r^a - 1 - a (r - 1) >= 0 for r = e^epsilon, e^-epsilon: no cancellation
    up, down = (math.expm1(order * x) - order * math.expm1(x) for x in (epsilon, -epsilon))
    return min(epsilon, math.log1p(low * up + (1.0 - low) * down) / (order - 1.0))


def _selection(inverse: float) -> PrivacyEvent:
    return ExponentialMechanismRelease(1.0 / inverse)


@functools.lru_cache(maxsize=1024)
def _least(event_of: Callable[[float], PrivacyEvent], divergence: float, rate: float, order: float) -> float:
    """Smallest x for which ``event_of(x)`` costs at most `divergence`; 0 if that is infinite."""
    if divergence == math.inf:
        return 0.0
    low, high = -10.0, 50.0
    while high - low > 1e-7:
        middle = 0.5 * (low + high)
        fits = sampled_rdp(event_of(math.exp(middle)), rate, (order,))[0] <= divergence
        low, high = (low, middle) if fits else (middle, high)
    return math.exp(high)
