"""Budget of a run whose accesses are all fixed before it starts.

Accountants for amplification by sampling (privacy loss distributions, moments) have no filter: the number,
noise and sampling of all accesses enter one computation in advance. The run only has to keep to that
schedule.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from dperm.accounting._checks import check_steps
from dperm.accounting.events import PrivacyEvent
from dperm.accounting.ledger.cost import FitCost
from dperm.accounting.units import Units
from dperm.errors import BudgetExceededError


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
    >>> from dperm.accounting import GaussianRelease
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
