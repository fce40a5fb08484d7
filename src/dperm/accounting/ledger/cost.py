"""Integer costs of fits: mu^2 or rho, slack in delta, and epsilon of pure guarantees.

A ledger caps three sums in advance: M of ``mu^2``, D of slacks, E of epsilons of fits with delta = 0.
Everything charged within the caps, also if each fit is chosen from the results of earlier ones, satisfies

    delta(epsilon) <= delta_G(epsilon - E; sqrt(M)) + D     for every epsilon,

where delta_G is the profile of the Gaussian mechanism; ``delta_G(-x) = 1 - e^-x (1 - delta_G(x))`` for x > 0.
Proof by induction on the number of fits, for the profile ``H(g)``, ``g = e^epsilon``, of any strategy with
these caps. Let the first fit have densities p and q. The profile of the rest is at most the bound F(g) + D'
for the remaining caps. F is convex and decreasing, so it is the profile of some pair of densities (a, b):

* a fit that is mu-GDP up to slack d: ``int p F(g q/p) = int a H_first(g b/a)`` is at most ``int a
  delta_G(log(g b/a); mu) + d``, the profile of the Gaussian pair and (a, b) together, plus d; Gaussian pairs
  compose to one;
* a fit that is epsilon0-DP: ``q/p >= e^-epsilon0`` and F decreases: ``int p F(g q/p) <= F(g e^-epsilon0)``.

For a zCDP ledger F is the largest profile of any rho-zCDP mechanism, and a mu-GDP fit costs ``rho = mu^2/2``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dperm.accounting.gaussian import gdp_epsilon
from dperm.accounting.units import (
    UNITS_PER_ONE,
    Accountant,
    Units,
    bounded_range_cost,
    budget_units,
    ceil_units,
    units_as_float,
)
from dperm.accounting.zcdp import zcdp_epsilon

SLACK_UNITS_PER_ONE = 2**200


@dataclass(frozen=True, slots=True)
class Cost:
    """Integers that add up, or caps on their sums; infinite where there is no privacy.

    Attributes
    ----------
    units : int or math.inf
        2^-60 of mu^2 or rho.
    slack : int or math.inf
        2^-200 of delta.
    pure : int or math.inf
        2^-60 of epsilon, for pure guarantees that are not counted as mu^2 or rho.

    Examples
    --------
    >>> from dperm.accounting import Ledger
    >>> caps = Ledger(epsilon=1.0, delta=1e-6).caps
    >>> Cost(units=caps.units // 2).within(caps), (caps + caps).within(caps)
    (True, False)
    """

    units: Units = 0
    slack: Units = 0
    pure: Units = 0

    def __add__(self, other: Cost) -> Cost:
        """Cost of both."""
        return Cost(*(_sum(*each) for each in zip(self.columns, other.columns, strict=True)))

    def __sub__(self, other: Cost) -> Cost:
        """What is left of a cap; an infinite one stays infinite."""
        return Cost(*(_left(*each) for each in zip(self.columns, other.columns, strict=True)))

    def __or__(self, other: Cost) -> Cost:
        """The larger one, column by column."""
        return Cost(*map(max, self.columns, other.columns))

    @property
    def columns(self) -> tuple[Units, Units, Units]:
        """All three."""
        return self.units, self.slack, self.pure

    def within(self, caps: Cost) -> bool:
        """Whether no column exceeds its cap."""
        return all(own <= cap for own, cap in zip(self.columns, caps.columns, strict=True))

    def for_replacing(self) -> Cost:
        """Cost of an add-or-remove guarantee for replace-one neighbours, which are two steps apart.

        mu and epsilon double, so ``mu^2`` and rho are four times as large.

        Raises
        ------
        ValueError
            With slack, which would become ``Phi(Phi^-1(slack) + mu)`` and does not add up; with both mu and a
            pure epsilon in one fit, for which this is not proved.
        """
        if self.slack or (self.units and self.pure):
            raise ValueError(
                "A fit under add_or_remove whose cost has slack in delta, or a pure part besides Gaussian "
                'noise, cannot be charged to a ledger of replace_one: give the fit neighbors="replace_one".'
            )
        return Cost(4 * self.units, 0, 2 * self.pure)


def _sum(one: Units, other: Units) -> Units:
    return math.inf if math.inf in (one, other) else one + other  # integers may exceed every double


def _left(cap: Units, spent: Units) -> Units:
    return cap if cap == math.inf else cap - spent


INFINITE = Cost(math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class FitCost:
    """Cost of a fit under its own relation: its profile is at most ``delta_G(e - epsilon; mu) + slack``.

    Attributes
    ----------
    mu : float
        mu of Gaussian differential privacy, rounded up.
    slack : float
        By how much delta may exceed that of mu-GDP, at every epsilon.
    epsilon : float
        By how much epsilon may exceed that of mu-GDP.

    Examples
    --------
    >>> from dperm.accounting import Ledger
    >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
    >>> entry = ledger.charge(epsilon=0.6, delta=1e-6, accountant="pld", cost=FitCost(mu=0.1, slack=1e-8))
    >>> round(ledger.spent, 3)
    0.397
    """

    mu: float = 0.0
    slack: float = 0.0
    epsilon: float = 0.0

    def counted(self, accountant: Accountant) -> Cost:
        """In the units of a ledger, rounded up."""
        if math.inf in (self.mu, self.epsilon):
            return INFINITE
        square = Fraction(self.mu) ** 2
        units = ceil_units(square if accountant is Accountant.GDP else square / 2)
        return Cost(units, slack_units(self.slack, up=True), ceil_units(self.epsilon))


def slack_units(delta: float, *, up: bool) -> int:
    """A slack in units, rounded up (for costs) or down (for caps)."""
    amount = Fraction(delta) * SLACK_UNITS_PER_ONE
    return math.ceil(amount) if up else math.floor(amount)


def slack_as_float(units: Units) -> float:
    """The delta that a slack stands for, to the nearest double."""
    return units / SLACK_UNITS_PER_ONE


def pure_cost(epsilon: float, accountant: Accountant, caps: Cost, room: Cost) -> Cost:
    """Cost of an epsilon-DP fit, in the column where it takes the smaller share, if there is room for it."""
    by_units = Cost(units=ceil_units(bounded_range_cost(2.0 * epsilon, accountant)))
    by_epsilon = Cost(pure=ceil_units(epsilon))
    if not caps.pure or caps.units == math.inf or not by_epsilon.within(room):
        return by_units
    if not by_units.within(room):
        return by_epsilon
    return min(by_units, by_epsilon, key=lambda cost: _share(cost, caps))


def _share(cost: Cost, caps: Cost) -> Fraction:
    return Fraction(cost.units) / Fraction(caps.units) + Fraction(cost.pure) / Fraction(caps.pure)


def caps_of(epsilon: float, delta: float, accountant: Accountant, slack: float, pure: float) -> Cost:
    """The largest caps whose full use is (epsilon, delta)-DP.

    Raises
    ------
    ValueError
        If slack and pure leave less than one unit.
    """
    if epsilon == math.inf:
        return INFINITE
    units = budget_units(_difference(epsilon, pure), _difference(delta, slack), accountant)
    return Cost(units, slack_units(slack, up=False), math.floor(Fraction(pure) * UNITS_PER_ONE))


def epsilon_of(cost: Cost, delta: float, accountant: Accountant) -> float:
    """Epsilon at delta of fits that together cost `cost`, rounded up; infinite if slack exceeds delta."""
    if math.inf in cost.columns:
        return math.inf
    left = _difference(delta, math.nextafter(slack_as_float(cost.slack), math.inf) if cost.slack else 0.0)
    epsilon = math.nextafter(units_as_float(cost.pure), math.inf) if cost.pure else 0.0
    if cost.units == 0:
        return epsilon if cost.slack <= slack_units(delta, up=False) else math.inf
    if left <= 0.0:
        return math.inf
    amount = math.nextafter(units_as_float(cost.units), math.inf)
    if accountant is Accountant.ZCDP:
        gaussian = zcdp_epsilon(amount, left)
    else:
        gaussian = gdp_epsilon(math.nextafter(math.sqrt(amount), math.inf), left)
    return gaussian if epsilon == 0.0 else math.nextafter(gaussian + epsilon, math.inf)


@lru_cache(maxsize=64)  # the same in each trial of a search
def largest_epsilon(units: Units, delta: float, accountant: Accountant) -> float:
    """Largest epsilon, at delta, of a fit by this accountant that costs at most `units`; or 0."""
    epsilon = epsilon_of(Cost(units), delta, accountant)
    step = 2.0**-52
    while epsilon > 0.0 and _costs_more(epsilon, delta, accountant, units):
        epsilon *= 1.0 - step
        step = min(2.0 * step, 0.5)
    return epsilon


def _costs_more(epsilon: float, delta: float, accountant: Accountant, units: Units) -> bool:
    try:
        return budget_units(epsilon, delta, accountant) > units
    except ValueError:  # less than one unit
        return False


def _difference(total: float, part: float) -> float:
    """``total - part``, rounded down."""
    exact = Fraction(total) - Fraction(part)
    rounded = float(exact)
    return rounded if Fraction(rounded) <= exact else math.nextafter(rounded, -math.inf)
