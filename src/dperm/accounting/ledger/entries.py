"""Interface to the storage of a ledger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from dperm.accounting.ledger.account import Account
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.terms import HasTerms

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
            The entry as stored; its time is that of the last entry if the clock went back. None if `check`
            returned False.
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
