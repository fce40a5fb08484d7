"""HTML card of a ledger, for notebooks."""

from __future__ import annotations

from dperm._document import Document, Table, Text
from dperm.accounting.ledger.account import Account


def ledger_card(kind: str, account: Account, part: str) -> str:
    """HTML of the budget and what is left of it.

    Parameters
    ----------
    kind : str
        Name of the class.
    account : Account
    part : str
        Path of the part; empty for all records.
    """
    name = account.terms.name
    title = " ".join(filter(None, [kind, repr(name) if name else "", part and f"part {part!r}"]))
    return Document("", [Text(title), Table(["", ""], ledger_rows(account, part))]).to_fragment()


def ledger_rows(account: Account, part: str) -> list[list[str]]:
    """Names and values that a card shows."""
    terms, spent, left = account.terms, account.spent(part), account.remaining(part)
    state = "closed" if account.closed else f"epsilon = {left:.4g} for one more fit"
    rows = [
        ["budget", f"epsilon = {account.epsilon:g}, delta = {terms.delta:g}"],
        ["spent", f"epsilon = {spent:.4g} in {account.charges} charge{'s' * (account.charges != 1)}"],
        ["remaining", state],
        ["neighbours", f"data sets that {terms.neighbors.words} ({terms.neighbors})"],
        ["adds up by", str(terms.accountant)],
    ]
    if terms.ceiling > account.epsilon:
        rows.insert(1, ["ceiling", f"epsilon = {terms.ceiling:g}"])
    if terms.allow_seeded:
        rows.append(["seeds", "allowed: this ledger is for tests"])
    return rows
