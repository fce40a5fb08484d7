"""How a statement describes a charge."""

from __future__ import annotations

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger


def charge_note(ledger: PrivacyLedger | None, epsilon: float, delta: float) -> str | None:
    """Sentence on the charge to the ledger; None without a ledger."""
    if ledger is None:
        return None
    name = f" {ledger.name!r}" if ledger.name else ""
    note = f"epsilon={epsilon:g}, delta={delta:g} charged to the ledger{name}"
    if ledger.ceiling > ledger.epsilon:
        note += (
            f", whose total can be extended up to epsilon={ledger.ceiling:g}: where later fits depend on "
            "results, this ceiling is what is guaranteed of all together"
        )
    return note
