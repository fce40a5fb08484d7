"""What a ledger holds, for reports and other programs: every entry with its facts, and what is left."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from dperm.accounting._checks import plain
from dperm.accounting.ledger.account import Account, decimals
from dperm.accounting.ledger.cost import Cost, slack_as_float
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.accounting.units import units_as_float

_FACTS = (
    *("when", "kind", "part", "description", "epsilon", "delta", "accountant"),
    *("units", "slack", "pure", "process", "version", "statement"),
)


def export_ledger(ledger: PrivacyLedger, kind: str = "json") -> str:
    """Everything in a ledger, as text.

    Parameters
    ----------
    ledger : PrivacyLedger
    kind : {"json", "csv"}
        "json": its terms, what is left, all entries. "csv": the entries, one a line.

    Raises
    ------
    ValueError
        For another kind.

    Examples
    --------
    >>> import json
    >>> from dperm.accounting import Ledger
    >>> ledger = Ledger(3.0, 1e-6, name="adult")
    >>> entry = ledger.charge(epsilon=1.0, delta=1e-6, description="first model")
    >>> [each["description"] for each in json.loads(export_ledger(ledger))["entries"]]
    ['first model']
    """
    if kind == "json":
        known = {**ledger_facts(ledger), "entries": [_facts(each) for each in ledger.history()]}
        return json.dumps(plain(known), indent=1) + "\n"
    if kind == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, _FACTS)
        writer.writeheader()
        for row in map(_facts, ledger.history()):
            writer.writerow({**row, "statement": json.dumps(row["statement"])})
        return text.getvalue()
    raise ValueError(f"kind must be 'json' or 'csv', got {kind!r}.")


def spending(ledger: PrivacyLedger) -> list[tuple[LedgerEntry, float, float]]:
    """Each entry, oldest first, with the epsilon spent and the total after it."""
    terms, course = ledger._terms, []
    account = Account(terms, terms.epsilon, terms.caps(terms.epsilon))
    for entry in ledger.history():
        account = account.after(entry)
        course.append((entry, account.spent(ledger._part), account.epsilon))
    return course


def sums_then(spent: float, total: float) -> tuple[str, str]:
    """What was spent and what was left after an entry, as text."""
    return decimals(spent), "inf" if math.isinf(total) else decimals(max(0.0, total - spent), up=False)


def ledger_facts(ledger: PrivacyLedger) -> dict[str, Any]:
    """The terms of a ledger, and what is left, by name."""
    return {
        "name": ledger.name,
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "ceiling": ledger.ceiling,
        "accountant": str(ledger.accountant),
        "neighbors": str(ledger.neighbors),
        **{f"cap_{name}": value for name, value in _amounts(ledger.caps).items()},
        "allow_seeded": ledger.allow_seeded,
        **{f"charged_{name}": value for name, value in _amounts(ledger.charged).items()},
        "spent": ledger.spent,
        "left": ledger.left,
        "remaining": ledger.remaining,
        "seal": getattr(ledger, "seal", None),
        **({"not_private": found} if (found := doubts(ledger)) else {}),
    }


def promise(ledger: PrivacyLedger) -> str:
    """The guarantee of a ledger as a sentence."""
    text = (
        f"Everything that was charged here is together ({ledger.epsilon:g}, {ledger.delta:g})-differentially "
        f"private: data sets that {ledger.neighbors.words} are hard to tell apart."
    )
    if ledger.ceiling > ledger.epsilon:
        text += (
            f" The total can be extended up to epsilon = {ledger.ceiling:g}; as that may depend on results, "
            "the guarantee of adaptive use is this ceiling."
        )
    return text


def doubts(ledger: PrivacyLedger) -> str:
    """A warning that names the charges whose results are not private; empty if there are none."""
    entries = enumerate(ledger.history(), start=1)
    found = [
        f"{number} ({each.description}) rests on {', '.join(each.statement['learned_exactly'])}"
        for number, each in entries
        if each.statement.get("learned_exactly")
    ]
    text = "NOT PRIVATE: no charge covers what was learned from the data without noise"
    return f"{text}. Entry {'; entry '.join(found)}." if found else ""


def _amounts(cost: Cost) -> dict[str, float]:
    pure = units_as_float(cost.pure)
    return {"units": units_as_float(cost.units), "slack": slack_as_float(cost.slack), "pure": pure}


def _facts(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "when": entry.when.isoformat(),
        "kind": entry.kind,
        "part": entry.part,
        "description": entry.description,
        "epsilon": entry.epsilon,
        "delta": entry.delta,
        "accountant": entry.accountant,
        **_amounts(entry.cost),
        "process": entry.process,
        "version": entry.version,
        "statement": plain(entry.statement),
    }
