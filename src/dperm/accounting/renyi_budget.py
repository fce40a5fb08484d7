"""Budget in Renyi divergence at one order: for costs that sampling amplifies.

Each access to the data draws a fresh secret Poisson sample. Costs chosen from earlier outputs add up at *one*
order that is fixed in advance (Feldman and Zrnic 2021); the best order in hindsight is not valid. Costs are
integers in units of 2^-60, rounded up; the budget is rounded down.
"""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.optimize import brentq

from dperm.accounting._checks import (
    check_delta,
    check_epsilon,
    check_positive,
    check_positive_epsilon,
    check_rate,
    check_steps,
)
from dperm.accounting.budget import Budget
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.rdp import RDP_ORDERS, poisson_rdp, symmetric_rdp
from dperm.accounting.units import Units, ceil_units, check_units, floor_units, units_as_float
from dperm.errors import BudgetExceededError

_UP = 1.0 + 1e-12
_DOWN = 1.0 - 1e-12


class RenyiBudget:
    """Amount of Renyi divergence at one order that one fit may cause, spent access by access.

    Parameters
    ----------
    total_units : int or math.inf
        The cap, in units of 2^-60; infinite means no privacy.
    order : float
        Order a > 1, fixed in advance.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range.

    Examples
    --------
    >>> budget = RenyiBudget.from_epsilon(1.0, 1e-6, order=32.0)
    >>> budget.spend(budget.share(parts=100), count=100)
    >>> budget.fits(2**40)
    False
    """

    def __init__(self, total_units: Units, order: float) -> None:
        self._order = check_order(order)
        self._counter = Budget(total_units, "zcdp")

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, order: float) -> RenyiBudget:
        """Return the largest budget at this order whose full use is (epsilon, delta)-DP.

        Raises
        ------
        ValueError, TypeError
            If an argument is outside its range, or the order allows nothing at this target.
        """
        return cls(renyi_budget_units(epsilon, delta, order), order)

    @property
    def order(self) -> float:
        """The order a."""
        return self._order

    @property
    def total_units(self) -> Units:
        """The cap."""
        return self._counter.total_units

    @property
    def spent_units(self) -> Units:
        """What has been spent."""
        return self._counter.spent_units

    @property
    def remaining_units(self) -> Units:
        """What can still be spent."""
        return self._counter.remaining_units

    def fits(self, cost: Units, count: int = 1) -> bool:
        """Return whether `count` accesses of this cost, in units, stay within the budget."""
        return self._counter.fits(check_units(cost), count)

    def spend(self, cost: Units, count: int = 1) -> None:
        """Spend `count` times `cost` units. Call it before the data are touched.

        Raises
        ------
        BudgetExceededError
            If it does not fit. The budget is unchanged.
        """
        try:
            self._counter.spend(check_units(cost), count)
        except BudgetExceededError as error:
            raise BudgetExceededError(
                total=error.total,
                spent=error.spent,
                remaining=error.remaining,
                requested=error.requested,
                unit=f"Renyi divergence at order {self._order:g}",
            ) from None

    def share(self, parts: int, fraction: float | Fraction = 1) -> Units:
        """Return the largest cost that can be spent `parts` times within a fraction of what remains."""
        return self._counter.share(parts, fraction)

    def __repr__(self) -> str:
        """Show amounts of divergence."""
        return (
            f"RenyiBudget(order={self._order:g}, total={units_as_float(self.total_units):.6g}, "
            f"spent={units_as_float(self.spent_units):.6g})"
        )


def renyi_budget_units(epsilon: float, delta: float, order: float) -> Units:
    """Largest divergence at `order`, in units, that is (epsilon, delta)-DP; at least 1.

    Notes
    -----
    ``epsilon - log(1 - 1/a) + (log delta + log a)/(a - 1)`` (Canonne, Kamath and Steinke 2020, Prop. 12).
    """
    epsilon, amount = check_positive_epsilon(epsilon), _allowed(epsilon, delta, order)
    if epsilon == math.inf:
        return math.inf
    units = floor_units(max(amount, 0.0))
    if units < 1:
        raise ValueError(
            f"order={order!r} allows nothing at epsilon={epsilon!r} and delta={delta!r}. Choose a larger "
            "order, for instance with planned_renyi_order."
        )
    return units


def planned_renyi_order(
    epsilon: float,
    delta: float,
    rate: float,
    accesses: int,
    *,
    fraction: float = 1.0,
    neighbors: str = "add_or_remove",
) -> float:
    """Order at which equal Gaussian accesses to Poisson samples need the least noise.

    Parameters
    ----------
    epsilon, delta : float
        Target; epsilon > 0 and finite.
    rate : float
        Sampling rate q, in (0, 1].
    accesses : int
        Planned number of gradient accesses, >= 1. The run may make more or fewer.
    fraction : float, default=1.0
        Share of the budget that they get, in (0, 1].
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.

    Returns
    -------
    float
        One of `RDP_ORDERS`, from public numbers only.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range, or no order allows anything.
    """
    epsilon = check_positive(epsilon, "epsilon")
    share = check_rate(fraction, "fraction") / check_steps(accesses, "accesses")
    best = (math.inf, 0.0)
    for order in RDP_ORDERS:
        units = floor_units(max(_allowed(epsilon, delta, order), 0.0) * share)
        if units >= 1:
            best = min(best, (sampled_gaussian_noise_multiplier(units, rate, order, neighbors), order))
    if best[1] == 0.0:
        raise ValueError(f"no order allows anything at epsilon={epsilon!r} and delta={delta!r}.")
    return best[1]


def sampled_gaussian_units(
    noise_multiplier: float, rate: float, order: float, neighbors: str = "add_or_remove"
) -> Units:
    """Cost of one noisy gradient sum over a fresh Poisson sample.

    Parameters
    ----------
    noise_multiplier : float
        ``sigma / C`` for the clip C, for every relation (under ``replace_one`` the accounting doubles), > 0.
    rate : float
        Sampling rate q, in (0, 1].
    order : float
        a > 1.
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.

    Returns
    -------
    int or math.inf
        Renyi divergence in units of 2^-60, rounded up; see `poisson_rdp` and `symmetric_rdp`.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range.
    """
    mu, orders = 1.0 / check_positive(noise_multiplier, "noise_multiplier"), (check_order(order),)
    rate = check_rate(rate)
    if rate == 1.0:
        square = Fraction(mu * _UP) ** 2 * Neighbours.parse(neighbors).sum_factor ** 2
        return ceil_units(Fraction(order) / 2 * square)
    if Neighbours.parse(neighbors) is Neighbours.REPLACE_ONE:
        return ceil_units(symmetric_rdp(rate, mu, orders, poisson=True)[0])
    return ceil_units(poisson_rdp(rate, mu, orders)[0])


def sampled_gaussian_noise_multiplier(
    units: Units, rate: float, order: float, neighbors: str = "add_or_remove"
) -> float:
    """Smallest ``sigma / C`` whose `sampled_gaussian_units` are at most `units` (to 1e-9), rounded up."""
    units = check_units(units, at_least=1)
    if units == math.inf:
        return 0.0

    def excess(log_z: float) -> float:
        cost = sampled_gaussian_units(math.exp(log_z), rate, order, neighbors)
        return 50.0 if cost == math.inf else max(-50.0, math.log(max(cost, 0.5) / units))

    # Without a sample the noise would do: an upper end.
    factor = Neighbours.parse(neighbors).sum_factor
    high = math.log(factor * math.sqrt(order / (2.0 * units_as_float(units)))) + 0.01
    low = high - 1.0
    while excess(low) < 0.0:
        low -= 1.0
    noise = math.exp(float(brentq(excess, low, high, xtol=1e-10)))
    while sampled_gaussian_units(noise, rate, order, neighbors) > units:
        noise *= 1.0 + 1e-10
    return noise


def sampled_selection_epsilon(eta: float, rate: float) -> float:
    """Epsilon of an eta-DP access to a Poisson sample of rate q: ``log(1 + q (e^eta - 1))``, rounded up.

    Parameters
    ----------
    eta : float
        At least 0; of an exponential mechanism, rate times the range of one record's effect.
    rate : float
        Sampling rate q, in (0, 1].

    Notes
    -----
    Balle, Barthe and Gaboardi 2018, Theorem 8; under ``replace_one`` it holds if eta covers both replacing
    and removing a record, which the range 2 C of clipped scores does.
    """
    eta, rate = check_epsilon(eta), check_rate(rate)
    if eta > 600.0:
        return eta
    return math.log1p(rate * math.expm1(eta)) * _UP


def sampled_selection_units(eta: float, rate: float, order: float) -> Units:
    """Cost of one eta-DP selection over a fresh Poisson sample: ``order epsilon'^2/2``, rounded up.

    Notes
    -----
    ``epsilon'`` is `sampled_selection_epsilon`; pure epsilon'-DP is ``epsilon'^2/2``-zCDP (Bun and Steinke
    2016, Proposition 1.4), and at most ``epsilon'`` at every order.
    """
    epsilon = sampled_selection_epsilon(eta, rate)
    if epsilon == math.inf:
        return math.inf
    return min(ceil_units(Fraction(check_order(order)) * Fraction(epsilon) ** 2 / 2), ceil_units(epsilon))


def sampled_selection_eta(units: Units, rate: float, order: float) -> float:
    """Largest eta whose `sampled_selection_units` are at most `units`, rounded down."""
    units, rate = check_units(units, at_least=1), check_rate(rate)
    if units == math.inf:
        return math.inf
    amount = units_as_float(units)
    epsilon = max(amount, math.sqrt(2.0 * amount / check_order(order))) * _DOWN**4
    eta = epsilon if epsilon > 600.0 else math.log1p(math.expm1(epsilon) / rate) * _DOWN
    while sampled_selection_units(eta, rate, order) > units:
        eta *= _DOWN
    return eta


def check_order(order: float) -> float:
    """Return `order` as a float; it must be finite and > 1."""
    order = check_positive(order, "order")
    if not order > 1.0:
        raise ValueError(f"order must be > 1, got {order!r}.")
    return order


def _allowed(epsilon: float, delta: float, order: float) -> float:
    order, log_delta = check_order(order), math.log(check_delta(delta))
    tail = (log_delta + math.log(order)) / (order - 1.0) - math.log1p(-1.0 / order)
    return (epsilon + tail) - 1e-15 * (epsilon + abs(tail) + 1.0)
