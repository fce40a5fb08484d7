"""A budget that several fits on the same data share.

A fit reserves its whole (epsilon, delta) with one `charge`, before anything is drawn. What happens
inside the fit is accounted by its own `Budget`; an exception or a kill after the charge leaves the charge
in place, so a ledger may count too much and never too little.
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NoReturn, Self

from dperm import __version__
from dperm.accounting._checks import check_delta, check_positive_epsilon, check_text, shown
from dperm.accounting._read_only import ReadOnlyMapping
from dperm.accounting.gaussian import gdp_epsilon
from dperm.accounting.units import (
    Accountant,
    Units,
    bounded_range_cost,
    budget_units,
    ceil_units,
    check_target,
    units_as_float,
)
from dperm.accounting.zcdp import zcdp_epsilon
from dperm.errors import BudgetExceededError

_TAKES_ALL = (
    "A guarantee by accountant {accountant!r} at this size does not add up with others here, so it takes a "
    "whole, unused ledger of at least its own epsilon and delta: give the fit a ledger of its own, or use an "
    "algorithm that is accounted with {ledger!r}."
)


@dataclass(frozen=True)
class LedgerEntry:
    """One charge, as it was made.

    Attributes
    ----------
    when : datetime
        Time of the charge, UTC; never earlier than the entry before it.
    description : str
        What the charge was for.
    epsilon, delta : float
        The guarantee that was asked for.
    accountant : str
        How the fit is accounted.
    cost_units : int or math.inf
        What was charged, in units of 2^-60 of the ledger's mu^2 or rho.
    statement : Mapping
        Further public facts about the fit; read-only.
    process : int
        Identifier of the process that charged.
    version : str
        Version of the software that charged.
    """

    when: datetime
    description: str
    epsilon: float
    delta: float
    accountant: str
    cost_units: Units
    statement: Mapping[str, Any] = field(default_factory=lambda: ReadOnlyMapping({}))
    process: int = field(default_factory=os.getpid)
    version: str = __version__


class PrivacyLedger(ABC):
    """What every ledger does; subclasses store the entries.

    Parameters
    ----------
    epsilon, delta, accountant, name
        As in `Ledger`.
    """

    def __init__(self, epsilon: float, delta: float, accountant: str = "gdp", *, name: str = "") -> None:
        self._epsilon = check_positive_epsilon(epsilon)
        self._delta = check_delta(delta)
        self._accountant = Accountant.parse(accountant)
        self._name = check_text(name, "name")
        self._total_units = budget_units(self._epsilon, self._delta, self._accountant)

    @abstractmethod
    def history(self) -> list[LedgerEntry]:
        """All charges, oldest first."""

    @abstractmethod
    def _append(self, entry: LedgerEntry, advice: str) -> LedgerEntry:
        """Atomically add `entry` if it fits, else raise `self._exceeded(entry, advice)`.

        Returns
        -------
        LedgerEntry
            The entry as stored; its time is that of the last entry if the clock went back.
        """

    def _summary(self) -> tuple[int, Units, LedgerEntry | None]:
        """Number of charges, their sum, and the charge if there is only one; all at one time."""
        entries = self.history()
        total = sum(entry.cost_units for entry in entries)
        return len(entries), total, entries[0] if len(entries) == 1 else None

    @property
    def epsilon(self) -> float:
        """The budget's epsilon."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """The budget's delta."""
        return self._delta

    @property
    def accountant(self) -> Accountant:
        """What adds up."""
        return self._accountant

    @property
    def name(self) -> str:
        """Name of the data set or the budget, may be empty."""
        return self._name

    @property
    def total_units(self) -> Units:
        """The budget in units of 2^-60 of mu^2 or rho."""
        return self._total_units

    @property
    def spent_units(self) -> Units:
        """The sum of all charges in units of 2^-60 of mu^2 or rho."""
        return self._summary()[1]

    @property
    def spent(self) -> float:
        """Epsilon, at the ledger's delta, of everything charged so far; never above `epsilon`."""
        _, units, only = self._summary()
        epsilon = self._epsilon_of(units)
        if only is not None and only.delta <= self._delta:
            return min(epsilon, only.epsilon)  # alone, it guarantees what it asked for
        return epsilon

    @property
    def remaining(self) -> float:
        """Largest epsilon, at the ledger's delta, of one more fit with the ledger's accountant.

        Not ``epsilon - spent``: under composition two fits cost together less than the sum of their
        epsilons.
        """
        spent = self.spent_units
        if spent == 0 or self._total_units == math.inf:
            return self._epsilon
        units = self._total_units - spent
        epsilon = self._epsilon_of(units)
        step = 2.0**-52
        while epsilon > 0.0 and self._costs_more(epsilon, units):
            epsilon *= 1.0 - step
            step = min(2.0 * step, 0.5)
        return epsilon

    def charge(
        self,
        *,
        epsilon: float,
        delta: float,
        accountant: str | None = None,
        description: str = "",
        statement: Mapping[str, Any] | None = None,
    ) -> LedgerEntry:
        """Reserve the budget of a whole fit. Call it once, before anything is drawn.

        Parameters
        ----------
        epsilon, delta : float
            Guarantee of the fit, ``0 <= delta < 1``.
        accountant : str, optional
            How the fit is accounted: "gdp", "zcdp", "pure" (an epsilon-DP fit), or the name of any other
            accountant, whose (epsilon, delta) takes a whole, unused ledger. By default "pure" for
            ``delta = 0``, else the ledger's own.
        description : str, default=""
            What the charge is for, one line, public.
        statement : Mapping, optional
            Further public facts, stored with the entry.

        Returns
        -------
        LedgerEntry
            The entry as stored.

        Raises
        ------
        BudgetExceededError
            If the charge does not fit. Nothing is stored.
        ValueError
            If a "gdp" ledger is charged for a "zcdp" fit.
        """
        epsilon, delta = check_target(check_positive_epsilon(epsilon), delta)
        kind = "pure" if delta == 0.0 else str(self._accountant)
        if accountant is not None:
            kind = str(check_text(accountant, "accountant"))
        if statement is not None and not isinstance(statement, Mapping):
            raise TypeError(f"statement must be a mapping, got {shown(statement)}.")
        units = self._units(epsilon, delta, kind)
        advice = ""
        if units == math.inf and epsilon < math.inf:
            advice = _TAKES_ALL.format(accountant=kind, ledger=str(self._accountant))
        alone = epsilon <= self._epsilon and delta <= self._delta
        if alone and units > self._total_units:
            # An unused ledger covers any guarantee that is no weaker than its own, and is then closed.
            units = self._total_units
            advice = _TAKES_ALL.format(accountant=kind, ledger=str(self._accountant))
        facts = ReadOnlyMapping(statement or {})
        words = check_text(description, "description")
        entry = LedgerEntry(datetime.now(UTC), words, epsilon, delta, kind, units, facts)
        return self._append(entry, advice)

    def _units(self, epsilon: float, delta: float, kind: str) -> Units:
        """Cost of a fit in this ledger's units; infinite if it does not add up with others."""
        if epsilon == math.inf:
            return math.inf
        if kind == "pure":
            if delta != 0.0:
                raise ValueError(f'accountant="pure" needs delta=0, got delta={delta!r}.')
            return ceil_units(bounded_range_cost(2.0 * epsilon, self._accountant))
        if kind == Accountant.ZCDP and self._accountant is Accountant.GDP:
            raise ValueError(
                'This ledger counts with accountant="gdp" and the fit has only a zCDP cost, which cannot be '
                'converted. Where the fit has these arguments, give it calibration="tight" and '
                'accountant="gdp", or open the ledger with accountant="zcdp".'
            )
        if kind not in tuple(Accountant):
            return math.inf
        units = budget_units(epsilon, delta, kind)
        # mu-GDP implies (mu^2/2)-zCDP: half the units, rounded up
        return units if kind == self._accountant else -(-units // 2)

    def _costs_more(self, epsilon: float, units: Units) -> bool:
        try:
            return budget_units(epsilon, self._delta, self._accountant) > units
        except ValueError:  # less than one unit
            return False

    def _epsilon_of(self, units: Units) -> float:
        """Epsilon at the ledger's delta of a composition that costs `units`, rounded up."""
        if units == 0 or units == math.inf:
            return float(units)
        if units == self._total_units:
            return self._epsilon
        amount = math.nextafter(units_as_float(units), math.inf)
        if self._accountant is Accountant.ZCDP:
            epsilon = zcdp_epsilon(amount, self._delta)
        else:
            epsilon = gdp_epsilon(math.nextafter(math.sqrt(amount), math.inf), self._delta)
        return min(epsilon, self._epsilon) if units < self._total_units else epsilon

    def _exceeded(self, entry: LedgerEntry, advice: str) -> BudgetExceededError:
        as_asked = bool(advice) or entry.delta == self._delta
        return BudgetExceededError(
            total=self._epsilon,
            spent=self.spent,
            remaining=self.remaining,
            requested=entry.epsilon if as_asked else self._epsilon_of(entry.cost_units),
            unit=f"epsilon at delta={self._delta:g}" + (f", ledger {self._name!r}" if self._name else ""),
            advice=advice,
        )

    # A ledger is the account of a data set: a copy would be a second, uncharged budget. scikit-learn's
    # clone and grid search copy parameters deeply, and all their fits must charge this ledger.
    def __copy__(self) -> Self:
        """Return the ledger itself."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the ledger itself."""
        return self

    def __sklearn_clone__(self) -> Self:
        """Return the ledger itself."""
        return self

    def __repr__(self) -> str:
        """Show the budget and what was spent of it."""
        charges = self._summary()[0]
        name = f"{self._name!r}, " if self._name else ""
        return (
            f"{type(self).__name__}({name}epsilon={self._epsilon:g}, delta={self._delta:g}, "
            f"accountant={str(self._accountant)!r}: spent={self.spent:.6g}, remaining={self.remaining:.6g}, "
            f"charges={charges})"
        )


def check_ledger(ledger: object) -> PrivacyLedger:
    """Return `ledger` if it is one, else raise TypeError."""
    if not isinstance(ledger, PrivacyLedger):
        raise TypeError(
            "ledger must be a dperm.accounting.Ledger or what dperm.accounting.open_ledger returns, got "
            f"{shown(ledger)} of type {type(ledger).__name__}."
        )
    return ledger


class Ledger(PrivacyLedger):
    """Budget in memory, shared by all fits of one process that are given it.

    Parameters
    ----------
    epsilon, delta : float
        epsilon > 0 (infinite means an unlimited budget), delta strictly between 0 and 1.
    accountant : {"gdp", "zcdp"}
        What adds up under composition. A "zcdp" ledger also takes fits accounted with "gdp" (mu-GDP implies
        (mu^2/2)-zCDP), a "gdp" ledger takes no fits accounted with "zcdp".
    name : str, default=""
        Shown in statements and error messages.

    Notes
    -----
    Everything charged is together (epsilon, delta)-DP, also when later fits depend on the results of
    earlier ones (see `dperm.accounting.budget`). Copies (`copy.deepcopy`, `sklearn.base.clone`) are the
    same ledger. Charging is thread-safe; another process cannot share it.

    Examples
    --------
    >>> ledger = Ledger(epsilon=3.0, delta=1e-6)
    >>> entry = ledger.charge(epsilon=1.0, delta=1e-6, description="first model")
    >>> ledger.spent
    1.0
    >>> ledger.remaining > 2.0
    True
    """

    def __init__(self, epsilon: float, delta: float, accountant: str = "gdp", *, name: str = "") -> None:
        super().__init__(epsilon, delta, accountant, name=name)
        self._entries: list[LedgerEntry] = []
        self._lock = threading.RLock()
        self._process = os.getpid()

    def history(self) -> list[LedgerEntry]:
        """All charges, oldest first: a new list of immutable entries."""
        with self._lock:
            return list(self._entries)

    def _append(self, entry: LedgerEntry, advice: str) -> LedgerEntry:
        if os.getpid() != self._process:
            raise RuntimeError(
                "An in-memory Ledger cannot be charged from a forked process: the charge would be lost to "
                "the others. Use threads, or a durable ledger."
            )
        with self._lock:
            if self.spent_units + entry.cost_units > self._total_units:
                raise self._exceeded(entry, advice)
            if self._entries:
                entry = replace(entry, when=max(entry.when, self._entries[-1].when))
            self._entries.append(entry)
            return entry

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError(
            "An in-memory Ledger cannot be pickled or sent to another process: the copy would be a second, "
            'uncharged budget. Use threads (joblib: prefer="threads"), or a durable ledger.'
        )
