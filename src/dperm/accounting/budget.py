"""The budget of one fit: a filter that lets each step choose its cost from earlier outputs.

Adaptively chosen costs need a filter, not plain composition. Capping the sum of ``mu_t^2`` (Smith and
Thakurta 2022) or of ``rho_t`` (Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1) in advance is valid: the
whole transcript of a run that checks `Budget.fits` before each access is then as private as one release that
spends the cap. Stopping when a composed privacy profile reaches its target is not.

Accountants for amplification by sampling (privacy loss distributions, moments) have no filter: the number,
noise and sampling of all accesses enter one computation in advance. A run with a `ScheduledBudget` only has
to keep to that schedule.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from dperm.accounting._checks import check_probability, check_rate, check_steps
from dperm.accounting.events import PrivacyEvent
from dperm.accounting.ledger.cost import FitCost
from dperm.accounting.units import Accountant, Units, budget_units, check_units, units_as_float
from dperm.errors import BudgetExceededError


class Budget:
    """Privacy loss that one fit may cause, spent release by release.

    Parameters
    ----------
    total_units : int or math.inf
        The cap, in units of 2^-60 of mu^2 or rho; infinite means no privacy.
    accountant : {"gdp", "zcdp"}
        What is counted. Fixed for the life of the budget.
    slack : float, optional
        By how much the profile of all releases together may exceed that of the Gaussian mechanism; "gdp"
        only. A ledger is then charged the cap and the slack, not what (epsilon, delta) alone would cost.

    Notes
    -----
    `spend` is safe to call from several threads.

    Examples
    --------
    >>> budget = Budget.from_epsilon(1.0, 1e-6)
    >>> units = budget.share(parts=100)
    >>> budget.spend(units, count=100)
    >>> budget.fits(units)
    False
    """

    def __init__(self, total_units: Units, accountant: str = "gdp", *, slack: float | None = None) -> None:
        self._accountant = Accountant.parse(accountant)
        self._total = check_units(total_units, name="total_units")
        self._spent: Units = 0
        if slack is not None and self._accountant is not Accountant.GDP:
            raise ValueError("only a budget of mu^2 has a slack")
        self._slack = None if slack is None else check_probability(slack, "slack")
        self._slack_left = Fraction(self._slack or 0.0)
        self._lock = threading.Lock()

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, accountant: str = "gdp") -> Budget:
        """Return the largest budget whose full use is (epsilon, delta)-DP.

        Parameters
        ----------
        epsilon, delta : float
            epsilon > 0, delta strictly between 0 and 1. An infinite epsilon gives an unlimited budget and no
            privacy, also for delta = 0.
        accountant : {"gdp", "zcdp"}
            "gdp" is exact where all noise is Gaussian; "zcdp" is better where most of the budget goes
            to selections (exponential mechanism).
        """
        return cls(budget_units(epsilon, delta, accountant), accountant)

    @property
    def accountant(self) -> Accountant:
        """What is counted."""
        return self._accountant

    @property
    def total_units(self) -> Units:
        """The cap."""
        return self._total

    @property
    def spent_units(self) -> Units:
        """What has been spent."""
        return self._spent

    @property
    def remaining_units(self) -> Units:
        """What can still be spent."""
        return math.inf if self._total == math.inf else self._total - self._spent

    def fits(self, cost: Units | PrivacyEvent, count: int = 1) -> bool:
        """Return whether `count` releases of this cost stay within the budget."""
        return self._spent + self._units(cost, count) <= self._total

    def spend(self, cost: Units | PrivacyEvent, count: int = 1) -> None:
        """Spend `count` times `cost`. Call it before the data are touched.

        Parameters
        ----------
        cost : int, math.inf or PrivacyEvent
            Units, or an event that is converted to units.
        count : int, default=1
            Number of such releases, at least 0.

        Raises
        ------
        BudgetExceededError
            If it does not fit. The budget is unchanged.
        """
        units = self._units(cost, count)
        with self._lock:
            if self._spent + units > self._total:
                raise self._exceeded(units)
            self._spent += units

    @property
    def cost(self) -> FitCost | None:
        """What a ledger is charged for the whole budget; None if (epsilon, delta) determine it."""
        if self._slack is None:
            return None
        return FitCost(math.nextafter(math.sqrt(units_as_float(self._total)), math.inf), self._slack)

    def spend_slack(self, slack: float) -> None:
        """Spend a part of the slack.

        Raises
        ------
        BudgetExceededError
            If it does not fit. The budget is unchanged.
        """
        with self._lock:
            if not slack <= self._slack_left:
                left = float(self._slack_left)
                raise BudgetExceededError(
                    total=self._slack or 0.0,
                    spent=(self._slack or 0.0) - left,
                    remaining=left,
                    requested=slack,
                    unit="delta",
                )
            self._slack_left -= Fraction(slack)

    def share(self, parts: int, fraction: float | Fraction = 1) -> Units:
        """Return the largest cost that can be spent `parts` times within a fraction of what remains.

        Parameters
        ----------
        parts : int
            Number of equal shares, at least 1.
        fraction : float or Fraction, default=1
            Portion of the remaining budget to divide, in (0, 1].

        Returns
        -------
        int or math.inf
            Units for `gaussian_noise_multiplier` or `selection_eta`.

        Raises
        ------
        ValueError
            If an argument is outside its range, or a share is smaller than one unit.
        """
        parts = check_steps(parts, "parts")
        if not isinstance(fraction, Fraction) or not 0 < fraction <= 1:
            fraction = check_rate(fraction, "fraction")
        remaining = self.remaining_units
        if isinstance(remaining, float):
            return math.inf
        units = math.floor(Fraction(remaining) * Fraction(fraction) / parts)
        return check_units(units, at_least=1, name="a share of the budget")

    def _units(self, cost: Units | PrivacyEvent, count: int) -> Units:
        units = cost.cost_units(self._accountant) if isinstance(cost, PrivacyEvent) else check_units(cost)
        count = check_steps(count, "count", least=0)
        return units * count if count else 0

    def _exceeded(self, units: Units) -> BudgetExceededError:
        return BudgetExceededError(
            total=units_as_float(self._total),
            spent=units_as_float(self._spent),
            remaining=units_as_float(self.remaining_units),
            requested=units_as_float(units),
            unit=self._accountant.symbol,
        )

    def __repr__(self) -> str:
        """Show amounts of mu^2 or rho."""
        return (
            f"Budget(accountant={str(self._accountant)!r}, {self._accountant.symbol}: "
            f"total={units_as_float(self._total):.6g}, spent={units_as_float(self._spent):.6g})"
        )


class ScheduledBudget:
    """`count` equal releases, after single other ones, which together meet the guarantee of the fit.

    Parameters
    ----------
    event : PrivacyEvent
        The repeated release; its noise multiplier is relative to the sensitivity of the sum over a batch.
        Amplification by sampling is already included in what `accountant` computed.
    count : int
        How often it happens at most.
    accountant : str
        What certified the schedule, such as "pld".
    cost : FitCost or callable, optional
        What a ledger is charged for the schedule, see `PrivacyLedger.charge`; by default it follows from the
        guarantee and the accountant.
    before : sequence of PrivacyEvent
        Releases of other kinds, each of which happens once.

    Examples
    --------
    >>> from dperm.accounting.events import GaussianRelease
    >>> budget = ScheduledBudget(GaussianRelease(1.1), count=100, accountant="pld")
    >>> budget.spend(GaussianRelease(1.1), count=100)
    >>> budget.fits(GaussianRelease(1.1))
    False
    """

    def __init__(
        self,
        event: PrivacyEvent,
        count: int,
        accountant: str,
        cost: FitCost | Callable[[float], FitCost] | None = None,
        before: Sequence[PrivacyEvent] = (),
    ) -> None:
        self.event = event
        self.accountant = accountant
        self.cost = cost
        self._left: Counter[PrivacyEvent | Units] = Counter({event: check_steps(count, "count")})
        self._left.update(before)
        self._total = self._left.total()
        self._lock = threading.Lock()

    @property
    def total_units(self) -> Units:
        """Number of scheduled releases."""
        return self._total

    @property
    def spent_units(self) -> Units:
        """Number of releases made."""
        return self._total - self._left.total()

    def fits(self, cost: PrivacyEvent | Units, count: int = 1) -> bool:
        """Return whether `count` releases of this kind are scheduled and left."""
        return count <= self._left[cost]

    def spend(self, cost: PrivacyEvent | Units, count: int = 1) -> None:
        """Make `count` releases. Call it before the data are touched.

        Raises
        ------
        BudgetExceededError
            If they are not on the schedule. The budget is unchanged.
        """
        with self._lock:
            if not self.fits(cost, count):
                known = cost in self._left
                raise BudgetExceededError(
                    total=self._total,
                    spent=self.spent_units,
                    remaining=self._left[cost],
                    requested=count if known else math.inf,
                    unit="scheduled releases",
                )
            self._left[cost] -= count

    def __repr__(self) -> str:
        """Show how much of the schedule was used."""
        return f"ScheduledBudget({self.event!r}, {self.spent_units} of {self._total}, {self.accountant!r})"
