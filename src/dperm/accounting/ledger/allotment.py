"""Budget of a search that was already charged to another ledger."""

from __future__ import annotations

from dataclasses import replace

from dperm.accounting.ledger.cost import Cost, largest_epsilon, slack_units
from dperm.accounting.ledger.ledger import Ledger
from dperm.accounting.ledger.privacy_ledger import LedgerPart, PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant, Units


class Allotment(Ledger):
    """Ledger for the fits of one search, on the same records and on parts of them.

    It lives as long as the search. Its caps are the amount that was charged elsewhere, so a search that
    exceeded it would be refused here.

    Parameters
    ----------
    units : int
        Cap on mu^2 or rho of all fits together.
    delta : float
        Delta of the fits.
    accountant : Accountant
    neighbors : Neighbours
    payer : PrivacyLedger, optional
        The ledger that was charged; it knows whether the number of records is capped.
    slack : float
        Cap on the slack in delta of fits with secret batches; charged elsewhere, too.
    """

    def __init__(
        self,
        units: Units,
        delta: float,
        accountant: Accountant,
        neighbors: Neighbours,
        payer: PrivacyLedger | None = None,
        slack: float = 0.0,
    ) -> None:
        epsilon = largest_epsilon(units, delta, accountant)
        super().__init__(epsilon, delta, accountant, neighbors=neighbors, slack=0.0, allow_seeded=True)
        # The exact caps: those that follow from epsilon are rounded down.
        self._now = replace(self._now, caps=Cost(units, slack_units(slack, up=False)))
        self._payer = payer

    def _is_capped(self, n: int) -> bool:
        """Whether the number of records of the ledger that was charged is capped."""
        return self._payer is None or self._payer._is_capped(n)

    def split_by(self, key: bytes, share: float) -> tuple[LedgerPart, LedgerPart]:
        """Split off a share of the records for validation, with a secret key of 32 bytes.

        Returns
        -------
        train, validation : LedgerPart
        """
        self._keep("split/key", key)
        parts = self.split({"train": 1.0 - share, "validation": share})
        return parts["train"], parts["validation"]
