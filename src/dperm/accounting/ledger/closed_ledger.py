"""The ledger of a model that was pickled or saved."""

from __future__ import annotations

from typing import Any, NoReturn

from dperm.accounting.ledger.account import Account
from dperm.accounting.ledger.entries import Check
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.privacy_ledger import PrivacyLedger


class ClosedLedger(PrivacyLedger):
    """Name and terms of a ledger that a stored model does not carry along: nothing can be charged to it.

    Examples
    --------
    >>> import pickle
    >>> from dperm import LogisticRegression
    >>> from dperm.accounting import Ledger
    >>> model = LogisticRegression(classes=[0, 1], ledger=Ledger(3.0, 1e-5, name="patients"))
    >>> model = pickle.loads(pickle.dumps(model.fit([[0.0], [1.0]] * 50, [0, 1] * 50)))
    >>> model.ledger
    ClosedLedger('patients')
    """

    @classmethod
    def of(cls, ledger: PrivacyLedger) -> ClosedLedger:
        """The stand-in for a ledger; a stand-in is returned as it is."""
        return ledger if isinstance(ledger, ClosedLedger) else cls(ledger._terms)

    def charge(self, **_: Any) -> NoReturn:
        """Refuse every charge.

        Raises
        ------
        RuntimeError
            Always.
        """
        name = f" {self.name!r}" if self.name else ""
        raise RuntimeError(
            f"The ledger{name} stayed where this model was fitted: a model that was stored and loaded cannot "
            "charge it. Nothing was charged. To fit again, give the ledger: "
            "model.set_params(ledger=dperm.accounting.open_ledger(...))"
        )

    def history(self) -> list[LedgerEntry]:
        """Refuse, as `charge` does."""
        self.charge()

    def _account(self) -> Account:
        self.charge()

    def _append(self, entry: LedgerEntry, check: Check) -> LedgerEntry | None:
        self.charge()

    def _keep(self, name: str, secret: bytes) -> bytes:
        self.charge()

    def _recall(self, name: str, digest: str) -> bytes:
        self.charge()

    def __repr__(self) -> str:
        """Show the name."""
        return f"ClosedLedger({self.name!r})"
