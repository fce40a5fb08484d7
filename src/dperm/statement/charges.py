"""How a statement describes a charge."""

from __future__ import annotations

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger


def charge_note(ledger: PrivacyLedger | None, epsilon: float, delta: float) -> str | None:
    """Sentence on the charge to the ledger; None without a ledger."""
    if ledger is None:
        return None
    name = f" {ledger.name!r}" if ledger.name else ""
    part = f" for the part {ledger._part!r} of the records" if ledger._part else ""
    note = f"epsilon={epsilon:g}, delta={delta:g} charged to the ledger{name}{part}"
    if ledger.ceiling > ledger.epsilon:
        note += (
            f", whose total can be extended up to epsilon={ledger.ceiling:g}: where later fits depend on "
            "results, this ceiling is what is guaranteed of all together"
        )
    if part:
        note += (
            ". Charges for the parts of a split count once, the largest of them, provided that all parts "
            "were taken from the same records with the same columns, in the same order, scale and precision"
        )
    return note
