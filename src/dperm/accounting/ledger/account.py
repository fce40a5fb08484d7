"""Charges of a ledger, and how those on parts of the records compose.

The records may be split into parts. A record is in only one part of a split, so fits on different parts
together cost the largest of their costs, column by column (parallel composition). Fits on all records, and
splits that are independent of each other, add up:

    cost(node) = own charges + sum over its splits of max over their parts of cost(part)

Proof. Fix the secret coins of a split, and with them the part that holds the record in which two data sets
differ. Results from other parts then have equal distributions, and those from this part stay within the caps
on every path, so the composition of :mod:`dperm.accounting.ledger.cost` applies to them.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dperm._document import Document, Table, Text
from dperm.accounting.ledger.cost import Cost, epsilon_of, largest_epsilon
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.terms import HasTerms, LedgerTerms
from dperm.accounting.units import Accountant, units_as_float
from dperm.errors import BudgetExceededError

_NOTHING = Cost()
# Above every cap, so that a part with this charge exceeds its siblings; exact, so that it can be subtracted.
_LARGE = Cost(*[2**1100] * 3)


@dataclass(frozen=True)
class Split:
    """A split of the records.

    Attributes
    ----------
    shares : Mapping
        Probability of each part, by name.
    key : str
        SHA-256 of the secret key.
    records : Mapping or None
        What is known about the records since a part was first taken: their format; under replace_one also a
        keyed hash of all of them.
    """

    shares: Mapping[str, float]
    key: str = ""
    records: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Account:
    """Charges by part; the path of a part is ``split/part``, of a nested one ``split/part/split/part``.

    Attributes
    ----------
    terms : LedgerTerms
        What was fixed at creation.
    epsilon : float
        The present total.
    caps : Cost
        Caps on the cost of everything together.
    charged : Mapping
        Cost of the fits on each part, by path; "" is all records.
    whole : Mapping
        For parts on which one fit took the whole ledger: its own cost, infinite if it does not compose.
    totals : Mapping
        Cost of all fits that saw records of a part, by path, where it is not 0.
    splits : Mapping
        The splits, by path of what was split, then by name.
    closed : bool
        Whether charges are refused.
    last : LedgerEntry or None
        The last charge.
    charges : int
        Number of charges.
    """

    terms: LedgerTerms
    epsilon: float
    caps: Cost
    charged: Mapping[str, Cost] = field(default_factory=dict)
    whole: Mapping[str, Cost] = field(default_factory=dict)
    totals: Mapping[str, Cost] = field(default_factory=dict)
    splits: Mapping[str, Mapping[str, Split]] = field(default_factory=dict)
    closed: bool = False
    last: LedgerEntry | None = None
    charges: int = 0

    def after(self, entry: LedgerEntry) -> Account:
        """The account with one more entry."""
        if entry.kind == "charge":
            counted = self.counted(entry)
            if counted is None:
                raise ValueError(f"{entry.description!r} costs more than the ledger holds")
            charged = {**self.charged, entry.part: self.charged.get(entry.part, _NOTHING) + counted}
            whole = self.whole if counted == entry.cost else {**self.whole, entry.part: entry.cost}
            totals = {**self.totals, **self._totals_after(entry.part, counted)}
            count = self.charges + 1
            return replace(self, charged=charged, whole=whole, totals=totals, last=entry, charges=count)
        if entry.kind in ("split", "records"):
            known = self.splits.get(entry.part, {}).get(entry.description)
            siblings = {**self.splits.get(entry.part, {}), entry.description: _split_after(known, entry)}
            return replace(self, splits={**self.splits, entry.part: siblings})
        if entry.kind == "extend":
            charged = {**self.charged, **self.whole}
            extended = replace(self, epsilon=entry.epsilon, caps=entry.cost, charged={}, whole={}, totals={})
            return extended._with_charges(charged)
        if entry.kind == "close":
            return replace(self, closed=True)
        raise ValueError(f"{entry.kind!r} is no kind of entry")

    def total(self, part: str = "") -> Cost:
        """Cost of all fits that saw records of a part."""
        return self.totals.get(part, _NOTHING)

    def _totals_after(self, part: str, cost: Cost) -> dict[str, Cost]:
        """The totals of a part and of all that hold it after one more charge, which are those that change."""
        total = self.total(part) + cost
        changed = {part: total}
        while part:
            outer, split = outer_part(part)
            known = self.splits.get(outer, {}).get(split)  # None where the entries of a part are replayed
            parts = [part.rpartition("/")[2]] if known is None else known.shares
            largest = functools.reduce(
                Cost.__or__, (self.total(joined(outer, split, each)) for each in parts)
            )
            total = self.total(outer) - largest + (largest | total)
            changed[outer], part = total, outer
        return changed

    def _with_charges(self, charged: Mapping[str, Cost]) -> Account:
        totals: dict[str, Cost] = {}
        for part, cost in charged.items():
            totals |= replace(self, totals=totals)._totals_after(part, cost)
        return replace(self, charged=charged, totals=totals)

    def counted(self, entry: LedgerEntry) -> Cost | None:
        """Cost at which a charge is counted; None if it exceeds even an unused ledger.

        A guarantee at least as strong as the ledger's own needs no composition: the fit takes a whole, unused
        ledger. The guarantee must hold given everything drawn before the charge: if it is an average over
        such a draw, and other values of it leave a remainder, their mixture breaks the ledger's promise.
        """
        if entry.cost.within(self.caps):
            return entry.cost
        return self.caps if self._covers(entry) and entry.epsilon <= self.epsilon else None

    def fits(self, entry: LedgerEntry) -> bool:
        """Whether a charge stays within the caps."""
        counted = self.counted(entry)
        if counted is None or self.closed:
            return False
        return self._totals_after(entry.part, counted)[""].within(self.caps)

    def room(self, part: str) -> Cost:
        """What a fit on a part may cost before a cap is reached."""
        if self.closed:
            return _NOTHING
        others = self._totals_after(part, _LARGE)[""] - _LARGE
        return self.caps - others

    def epsilon_of(self, cost: Cost) -> float:
        """Epsilon, at the ledger's delta, of fits that together cost `cost`."""
        return epsilon_of(cost, self.terms.delta, self.terms.accountant)

    def spent(self, part: str) -> float:
        """Epsilon of everything charged that saw a part; never above the total."""
        total, only = self.total(part), self.last
        epsilon = self.epsilon if total == self.caps else self.epsilon_of(total)
        if only is not None and self.charges == 1 and part in ("", only.part) and self._covers(only):
            epsilon = min(epsilon, only.epsilon)  # a single fit has the guarantee that it asked for
        return min(epsilon, self.epsilon)

    def _covers(self, entry: LedgerEntry) -> bool:
        relation = entry.statement.get("neighbors", self.terms.neighbors)
        return entry.delta <= self.terms.delta and relation == self.terms.neighbors

    def remaining(self, part: str) -> float:
        """Largest epsilon, at the ledger's delta, of one more fit on a part."""
        room = self.room(part)
        if room == self.caps:
            return self.epsilon
        return largest_epsilon(room.units, self.terms.delta, self.terms.accountant)

    def left(self, part: str) -> float:
        """The total minus what was spent by fits that saw records of a part, also those of more records."""
        if self.epsilon == math.inf:
            return math.inf
        seen = self.caps - self.room(part)
        spent = self.spent(part) if seen == self.total(part) else self.epsilon_of(seen)
        return max(0.0, self.epsilon - spent)

    def exceeded(self, entry: LedgerEntry, advice: str) -> BudgetExceededError:
        """The error for a charge that does not fit."""
        terms = self.terms
        as_asked = bool(advice) or entry.delta == terms.delta
        return BudgetExceededError(
            total=self.epsilon,
            spent=self.spent(entry.part),
            remaining=self.remaining(entry.part),
            requested=entry.epsilon if as_asked else self.epsilon_of(entry.cost),
            unit=f"epsilon at delta={terms.delta:g}" + (f", ledger {terms.name!r}" if terms.name else ""),
            advice="The ledger was closed." if self.closed else advice,
        )

    def check_extension(self, epsilon: float, caps: Cost) -> None:
        """Raise ValueError unless the total can be raised to `epsilon`, with these caps."""
        if self.closed:
            raise ValueError("The ledger was closed: it cannot be extended.")
        if not all(own.within(caps) for own in self.whole.values()):
            raise ValueError(
                "A fit took the whole ledger, with a guarantee that does not add up with those of others, so "
                "nothing could be charged after an extension."
            )
        if not self.epsilon < epsilon <= self.terms.ceiling:
            raise ValueError(
                f"epsilon must be above the present total {self.epsilon:g} and at most the ceiling "
                f"{self.terms.ceiling:g}, which was fixed when the ledger was created, got {epsilon:g}."
            )


def _split_after(known: Split | None, entry: LedgerEntry) -> Split:
    if entry.kind == "split":
        return Split(entry.statement["shares"], entry.statement["key"])
    if known is None:
        raise ValueError(f"{entry.description!r} is no split")
    return replace(known, records=entry.statement)


def outer_part(part: str) -> tuple[str, str]:
    """Path of what was split into this part and others, and the name of the split."""
    path, _, _ = part.rpartition("/")
    outer, _, split = path.rpartition("/")
    return outer, split


def joined(part: str, split: str, child: str) -> str:
    """Path of a part of a split of `part`."""
    return f"{part}/{split}/{child}" if part else f"{split}/{child}"


def ledger_card(kind: str, account: Account, part: str, n_charges: int) -> str:
    """HTML of the budget and what is left of it.

    Parameters
    ----------
    kind : str
        Name of the class.
    account : Account
    part : str
        Path of the part; empty for all records.
    n_charges : int
        Charges for the part.
    """
    name = account.terms.name
    title = " ".join(filter(None, [kind, repr(name) if name else "", part and f"part {part!r}"]))
    table = Table(["", ""], ledger_rows(account, part, n_charges), arithmetic(account, part))
    return Document("", [Text(title), table]).to_fragment()


def ledger_rows(account: Account, part: str, n_charges: int) -> list[list[str]]:
    """Names and values that a card shows."""
    terms, spent, left = account.terms, decimals(account.spent(part)), account.left(part)
    of = f" for the part {part!r}" if part else ""
    rows = [
        ["budget", f"epsilon = {account.epsilon:g}, delta = {terms.delta:g}"],
        ["spent", f"epsilon = {spent} in {n_charges} charge{'s' * (n_charges != 1)}{of}"],
        ["left", "closed" if account.closed else f"epsilon = {decimals(left, up=False)}"],
        ["neighbours", f"data sets that {terms.neighbors.words} ({terms.neighbors})"],
    ]
    if part and account.total(part) != account.caps - account.room(part) and not account.closed:
        rows.insert(2, ["with fits on more records", f"epsilon = {decimals(account.epsilon - left)}"])
    if terms.ceiling > account.epsilon:
        rows.insert(1, ["ceiling", f"epsilon = {terms.ceiling:g}"])
    if terms.allow_seeded:
        rows.append(["seeds", "allowed: this ledger is for tests"])
    return rows


def decimals(epsilon: float, *, up: bool = True) -> str:
    """At most four decimals, rounded in the given direction, so that what is spent and left add up."""
    if math.isinf(epsilon):
        return "inf"
    return f"{(math.ceil if up else math.floor)(round(epsilon * 1e4, 6)) / 1e4:.10g}"


def arithmetic(account: Account, part: str) -> str:
    """How epsilons add up, as a footnote."""
    if account.epsilon == math.inf:
        return ""
    name, squared = ("mu", "mu^2") if account.terms.accountant is Accountant.GDP else ("rho", "rho")
    spent, cap = (units_as_float(each.units) for each in (account.total(part), account.caps))
    if name == "mu":
        spent, cap = math.sqrt(spent), math.sqrt(cap)
    return (
        f"Left is the budget minus what was spent, at delta = {account.terms.delta:g}. Fits together cost "
        f"less than the sum of their epsilons, since {squared} is what adds up ({name} = {spent:.4g} of "
        f"{cap:.4g} is spent): one more fit may have up to epsilon = "
        f"{decimals(account.remaining(part), up=False)}."
    )


#: Whether an entry can be added to an account; raises if it never can.
Check = Callable[[Account, LedgerEntry], bool]


class Entries(HasTerms, ABC):
    """Entries that are added atomically, and secrets; subclasses store both.

    Parameters
    ----------
    terms : LedgerTerms
        What was fixed at creation.
    """

    _part = ""

    @abstractmethod
    def history(self) -> list[LedgerEntry]:
        """All entries, oldest first."""

    @abstractmethod
    def _account(self) -> Account:
        """What was charged so far."""

    def _known_account(self) -> Account:
        """What was charged when this object last read the entries."""
        return self._account()

    @abstractmethod
    def _append(self, entry: LedgerEntry, check: Check) -> LedgerEntry | None:
        """Atomically add `entry` if ``check(account, entry)`` is true.

        Returns
        -------
        LedgerEntry or None
            The entry as stored; None if `check` returned False.
        """

    @abstractmethod
    def _keep(self, name: str, secret: bytes) -> bytes:
        """Store a secret under a name, unless there is one already; return the one that is stored."""

    @abstractmethod
    def _recall(self, name: str, digest: str) -> bytes:
        """The secret of that name; LedgerCorruptError unless it has this SHA-256."""

    @property
    def serves_processes(self) -> bool:
        """Whether other processes can charge it."""
        return True

    def _is_capped(self, n: int) -> bool:
        """Whether n bounds the number of records, whatever the coins: see `LedgerPart.size_cap`."""
        return True
