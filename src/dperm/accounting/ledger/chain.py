"""Rows of a durable ledger, each sealed by a hash over itself and the seal of the row before.

The chain finds damage and careless edits. It is no defence against somebody who may write the file and
recomputes every seal; keep `SqliteLedger.seal` elsewhere to detect that.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from dperm.accounting._checks import ReadOnlyMapping
from dperm.accounting.ledger.account import Account
from dperm.accounting.ledger.cost import Cost
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.terms import LedgerTerms
from dperm.accounting.units import Units

BUDGET_COLUMNS = (
    "name",
    "epsilon",
    "delta",
    "accountant",
    "neighbors",
    "slack",
    "pure",
    "ceiling",
    "allow_seeded",
    "caps",
    "created",
    "version",
    "identity",
)
ENTRY_COLUMNS = (
    "sequence",
    "created",
    "kind",
    "part",
    "description",
    "epsilon",
    "delta",
    "accountant",
    "cost",
    "spent",
    "statement",
    "process",
    "version",
    "seal",
)

# Fields of an entry that a row holds as they are.
_STORED_AS_IS = ("kind", "part", "description", "epsilon", "delta", "accountant", "process", "version")


class ChainError(ValueError):
    """A row differs from what was written."""


@dataclass(frozen=True)
class Link:
    """A position in the chain: everything up to `sequence` is known and verified.

    Attributes
    ----------
    sequence : int
        Number of entries so far.
    seal : str
        Hash of the last entry, in hexadecimal; of the budget itself before the first entry.
    account : Account
        What the entries add up to.
    when : datetime
        Time of the last entry, or of creation.
    """

    sequence: int
    seal: str
    account: Account
    when: datetime


def terms_of(budget: Sequence[Any]) -> LedgerTerms:
    """The terms of a ledger, from the values of `BUDGET_COLUMNS`."""
    fact = dict(zip(BUDGET_COLUMNS, budget, strict=True))
    fact["allow_seeded"] = bool(fact["allow_seeded"])
    return LedgerTerms(**{term.name: fact[term.name] for term in fields(LedgerTerms)})


def start(budget: Sequence[Any]) -> Link:
    """The position before the first entry, from the values of `BUDGET_COLUMNS`."""
    fact = dict(zip(BUDGET_COLUMNS, budget, strict=True))
    # The caps were fixed when the ledger was created: another version may round differently.
    account = Account(terms_of(budget), fact["epsilon"], parse_cost(fact["caps"]))
    return Link(0, _seal("", budget), account, _time(fact["created"]))


def append(link: Link, entry: LedgerEntry) -> tuple[tuple[Any, ...], Link]:
    """Values of `ENTRY_COLUMNS` for `entry` after `link`, and the position after it."""
    account = link.account.after(entry)
    values = (
        link.sequence + 1,
        time_text(entry.when),
        entry.kind,
        entry.part,
        entry.description,
        entry.epsilon,
        entry.delta,
        entry.accountant,
        cost_text(entry.cost),
        cost_text(account.total()),
        json.dumps(dict(entry.statement), sort_keys=True, allow_nan=False),
        entry.process,
        entry.version,
    )
    seal = _seal(link.seal, values)
    return (*values, seal), Link(link.sequence + 1, seal, account, entry.when)


def follow(link: Link, row: Sequence[Any]) -> tuple[LedgerEntry, Link]:
    """Verify and read the row right after `link`.

    Raises
    ------
    ChainError
        If the row is not the next one, or not as it was written.
    """
    fact = dict(zip(ENTRY_COLUMNS, row, strict=True))
    if fact["sequence"] != link.sequence + 1:
        raise ChainError(f"charge {link.sequence + 1} is missing")
    if fact["seal"] != _seal(link.seal, row[:-1]):
        raise ChainError(f"charge {link.sequence + 1} was altered")
    entry = LedgerEntry(
        when=_time(fact["created"]),
        cost=parse_cost(fact["cost"]),
        statement=ReadOnlyMapping(json.loads(fact["statement"])),
        **{name: fact[name] for name in _STORED_AS_IS},
    )
    account = link.account.after(entry)
    if parse_cost(fact["spent"]) != account.total():
        raise ChainError(f"the sum at charge {link.sequence + 1} is wrong")
    return entry, Link(link.sequence + 1, fact["seal"], account, entry.when)


def time_text(when: datetime) -> str:
    """A UTC time as text of fixed width."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def cost_text(cost: Cost) -> str:
    """A cost as three exact integers or "inf", in decimal since they may exceed 64 bits."""
    return " ".join("inf" if units == math.inf else str(units) for units in cost.columns)


def parse_cost(text: str) -> Cost:
    """Inverse of `cost_text`."""
    columns: list[Units] = [math.inf if word == "inf" else int(word) for word in text.split(" ")]
    if len(columns) != 3 or min(columns) < 0 or cost_text(Cost(*columns)) != text:
        raise ChainError(f"{text!r} is not a cost")
    return Cost(*columns)


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ChainError(f"{text!r} has no time zone")
    return when


def _seal(before: str, values: Sequence[Any]) -> str:
    # JSON writes floats with all their digits and escapes everything that could end a field.
    return hashlib.sha256(json.dumps([before, *values]).encode("ascii")).hexdigest()
