"""Rows of a durable ledger, each sealed by a hash over itself and the seal of the row before.

The chain finds damage and careless edits. It is no defence against somebody who may write the file and
recomputes every seal; keep `SqliteLedger.seal` elsewhere to detect that.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dperm.accounting._read_only import ReadOnlyMapping
from dperm.accounting.ledger.ledger import LedgerEntry
from dperm.accounting.units import Units

BUDGET_COLUMNS = ("name", "epsilon", "delta", "accountant", "total_units", "created", "version", "identity")
ENTRY_COLUMNS = (
    "sequence",
    "created",
    "description",
    "epsilon",
    "delta",
    "accountant",
    "cost_units",
    "spent_units",
    "statement",
    "process",
    "version",
    "seal",
)


class ChainError(ValueError):
    """A row is not what was written."""


@dataclass(frozen=True)
class Link:
    """A place in the chain: everything up to `sequence` is known and verified.

    Attributes
    ----------
    sequence : int
        Number of charges so far.
    seal : str
        Hash of the last one, in hexadecimal; of the budget itself before the first.
    spent : int or math.inf
        Sum of the costs so far.
    when : datetime
        Time of the last charge, or of creation.
    """

    sequence: int
    seal: str
    spent: Units
    when: datetime


def start(budget: Sequence[Any]) -> Link:
    """The place before the first charge, from the values of `BUDGET_COLUMNS`."""
    created = _time(budget[BUDGET_COLUMNS.index("created")])
    return Link(0, _seal("", budget), 0, created)


def append(link: Link, entry: LedgerEntry) -> tuple[tuple[Any, ...], Link]:
    """Values of `ENTRY_COLUMNS` for `entry` after `link`, and the place after it."""
    spent = link.spent + entry.cost_units
    values = (
        link.sequence + 1,
        time_text(entry.when),
        entry.description,
        entry.epsilon,
        entry.delta,
        entry.accountant,
        units_text(entry.cost_units),
        units_text(spent),
        json.dumps(dict(entry.statement), sort_keys=True, allow_nan=False),
        entry.process,
        entry.version,
    )
    seal = _seal(link.seal, values)
    return (*values, seal), Link(link.sequence + 1, seal, spent, entry.when)


def follow(link: Link, row: Sequence[Any]) -> tuple[LedgerEntry, Link]:
    """Read a row that must come right after `link`.

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
        description=fact["description"],
        epsilon=fact["epsilon"],
        delta=fact["delta"],
        accountant=fact["accountant"],
        cost_units=parse_units(fact["cost_units"]),
        statement=ReadOnlyMapping(json.loads(fact["statement"])),
        process=fact["process"],
        version=fact["version"],
    )
    spent = parse_units(fact["spent_units"])
    if spent != link.spent + entry.cost_units:
        raise ChainError(f"the sum at charge {link.sequence + 1} is wrong")
    return entry, Link(link.sequence + 1, fact["seal"], spent, entry.when)


def time_text(when: datetime) -> str:
    """A UTC time as text of fixed width."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def units_text(units: Units) -> str:
    """Units exactly, as decimal digits or "inf": they do not fit into 64 bits."""
    return "inf" if units == math.inf else str(units)


def parse_units(text: str) -> Units:
    """Inverse of `units_text`."""
    units: Units = math.inf if text == "inf" else int(text)
    if units < 0 or units_text(units) != text:
        raise ChainError(f"{text!r} is no number of units")
    return units


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ChainError(f"{text!r} has no time zone")
    return when


def _seal(before: str, values: Sequence[Any]) -> str:
    # JSON writes floats with all their digits and escapes everything that could end a field.
    return hashlib.sha256(json.dumps([before, *values]).encode("ascii")).hexdigest()
