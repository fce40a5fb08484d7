"""Integer privacy costs, in units of 2^-60 of ``mu^2`` (GDP) or of ``rho`` (zCDP).

Costs are rounded up and budgets down, with exact rational arithmetic, so that accumulated rounding errors
cannot carry a run over its budget. A number of units is an ``int``, or ``math.inf`` for no privacy.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from dperm.accounting._checks import (
    check_delta,
    check_epsilon,
    check_member,
    check_positive_epsilon,
    check_probability,
    nudged,
    shown,
)
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.selection import (
    bounded_range_eta,
    bounded_range_eta_from_mu,
    bounded_range_mu,
    bounded_range_rho,
)
from dperm.accounting.zcdp import zcdp_rho

Units = int | float

UNITS_PER_ONE = 2**60


class Accountant(StrEnum):
    """Which quantity is added up under adaptive composition.

    Attributes
    ----------
    GDP
        ``mu^2`` of Gaussian differential privacy. Exact for Gaussian noise.
    ZCDP
        ``rho`` of zero-concentrated differential privacy. Cheaper for private selection.

    Examples
    --------
    >>> from dperm.accounting.budget import Budget
    >>> Budget.from_epsilon(1.0, 1e-6, accountant="zcdp").accountant.symbol
    'rho'
    """

    GDP = "gdp"
    ZCDP = "zcdp"

    @property
    def symbol(self) -> str:
        """Name of the quantity that adds up."""
        return "mu^2" if self is Accountant.GDP else "rho"

    @classmethod
    def parse(cls, value: str) -> Accountant:
        """Return the accountant named by `value`; ValueError if there is none."""
        return check_member(cls, value, "accountant")


def floor_units(amount: Fraction | float) -> Units:
    """`amount` of mu^2 or rho in units, rounded down (for budgets)."""
    return math.inf if amount == math.inf else math.floor(Fraction(amount) * UNITS_PER_ONE)


def ceil_units(amount: Fraction | float) -> Units:
    """`amount` of mu^2 or rho in units, rounded up (for costs)."""
    return math.inf if amount == math.inf else math.ceil(Fraction(amount) * UNITS_PER_ONE)


def units_as_float(units: Units) -> float:
    """Amount of mu^2 or rho that `units` stand for, to the nearest double."""
    try:
        return units / UNITS_PER_ONE
    except OverflowError:
        return math.inf


def budget_units(epsilon: float, delta: float, accountant: str = "gdp") -> Units:
    """Largest budget, in units, that keeps a composition (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        epsilon > 0 (infinite gives an unlimited budget, also for delta = 0), delta strictly between 0 and 1.
    accountant : {"gdp", "zcdp"}
        What is counted.

    Returns
    -------
    int or math.inf
        Units of 2^-60, at least 1.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range, or if the budget is smaller than one unit.

    Examples
    --------
    >>> from dperm.accounting import gdp_mu
    >>> units = budget_units(1.0, 1e-6)
    >>> round(units / UNITS_PER_ONE, 6), round(gdp_mu(1.0, 1e-6) ** 2, 6)
    (0.056029, 0.056029)
    """
    kind = Accountant.parse(accountant)
    epsilon, delta = check_target(check_positive_epsilon(epsilon), delta)
    if epsilon == math.inf:
        return math.inf  # no privacy; delta may be 0
    delta = check_delta(delta)
    amount = Fraction(gdp_mu(epsilon, delta)) ** 2 if kind is Accountant.GDP else zcdp_rho(epsilon, delta)
    units = floor_units(amount)
    if units < 1:
        raise ValueError(
            f"epsilon={epsilon!r} with delta={delta!r} is too small to count: it allows "
            f"{kind.symbol} = {float(amount):.3g}, below the smallest unit 2^-60. Choose a larger epsilon."
        )
    return check_units(units, name="epsilon (in units)")


def gaussian_cost(noise_multiplier: float, accountant: str) -> Fraction | float:
    """Exact cost of a Gaussian release with ``noise_multiplier = sigma / sensitivity``."""
    if noise_multiplier in (0.0, math.inf):
        return math.inf if noise_multiplier == 0.0 else 0.0
    mu_squared = 1 / Fraction(noise_multiplier) ** 2
    return mu_squared if Accountant.parse(accountant) is Accountant.GDP else mu_squared / 2


def bounded_range_cost(eta: float, accountant: str) -> Fraction | float:
    """Cost of an eta-bounded-range selection, rounded up; at eta = 2 epsilon, of an epsilon-DP release."""
    if eta == math.inf:
        return math.inf
    if Accountant.parse(accountant) is Accountant.ZCDP:
        return bounded_range_rho(eta)
    return Fraction(bounded_range_mu(eta)) ** 2


def gaussian_noise_multiplier(units: Units, accountant: str = "gdp") -> float:
    """Smallest ``sigma / sensitivity`` whose Gaussian release costs at most `units`, rounded up.

    Parameters
    ----------
    units : int or math.inf
        What the release may cost, at least 1; infinite gives 0 (no noise).
    accountant : {"gdp", "zcdp"}
        What is counted.

    Examples
    --------
    >>> units = budget_units(1.0, 1e-6)
    >>> round(gaussian_noise_multiplier(units // 100), 2)
    42.25
    """
    kind = Accountant.parse(accountant)
    units = check_units(units, at_least=1)
    return 0.0 if units == math.inf else _noise_multiplier(units, kind)


@lru_cache(maxsize=256)
def _noise_multiplier(units: Units, kind: Accountant) -> float:
    multiplier = math.sqrt(UNITS_PER_ONE / (units if kind is Accountant.GDP else 2 * units))
    while ceil_units(gaussian_cost(multiplier, kind)) > units:
        multiplier = math.nextafter(multiplier, math.inf)
    return multiplier


def selection_eta(units: Units, accountant: str = "gdp") -> float:
    """Largest eta whose bounded-range selection (exponential mechanism) costs at most `units`, rounded down.

    Parameters
    ----------
    units, accountant
        As in `gaussian_noise_multiplier`; infinite units give infinity (the best candidate is chosen).

    Examples
    --------
    >>> units = budget_units(1.0, 1e-6)
    >>> round(selection_eta(units // 100), 4)
    0.0378
    """
    kind = Accountant.parse(accountant)
    units = check_units(units, at_least=1)
    return math.inf if units == math.inf else _selection_eta(units, kind)


@lru_cache(maxsize=256)
def _selection_eta(units: Units, kind: Accountant) -> float:
    amount = units_as_float(units)
    zcdp = kind is Accountant.ZCDP
    eta = bounded_range_eta(amount) if zcdp else bounded_range_eta_from_mu(math.sqrt(amount))
    return nudged(eta, lambda eta: ceil_units(bounded_range_cost(eta, kind)) > units, -(2.0**-52))


def pure_epsilon(units: Units, accountant: str = "gdp") -> float:
    """Largest epsilon whose epsilon-DP release costs at most `units`; see `selection_eta`.

    Examples
    --------
    >>> units = budget_units(1.0, 1e-6)
    >>> round(pure_epsilon(units // 100), 4)
    0.0189
    """
    return selection_eta(units, accountant) / 2.0


def check_units(units: Units, at_least: int = 0, name: str = "units") -> Units:
    """Return `units` if it is an integer of at least `at_least`, or infinite."""
    if isinstance(units, float) and units == math.inf:
        return math.inf
    if isinstance(units, bool) or not isinstance(units, int):
        raise TypeError(f"{name} must be an integer number of units or math.inf, got {shown(units)}.")
    if units < at_least:
        raise ValueError(
            f"{name} must be at least {at_least}, got {shown(units)}. If this is a share of a budget, the "
            "budget is used up or split into too many parts."
        )
    if units > 2**1000:
        raise ValueError(f"{name} must be at most 2^1000, or math.inf, got {shown(units)}.")
    return units


def check_target(epsilon: float, delta: float) -> tuple[float, float]:
    """Return a checked (epsilon, delta) for which delta may be 0 (a pure guarantee)."""
    epsilon, delta = check_epsilon(epsilon), check_probability(delta, "delta")
    return epsilon, check_delta(delta) if delta > 0.0 else 0.0
