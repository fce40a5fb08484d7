"""A budget that another ledger has paid for: what is charged to it costs nothing more."""

from __future__ import annotations

from dataclasses import replace

from dperm.accounting.ledger.cost import Cost, largest_epsilon, slack_units
from dperm.accounting.ledger.ledger import Ledger
from dperm.accounting.ledger.privacy_ledger import LedgerPart, PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant, Units


class Allotment(Ledger):
    """What one search may spend, in several fits on the same records and on parts of them.

    It lives as long as the search. Its caps are those of the amount that was charged elsewhere, so a search
    that went beyond it would be refused here.

    Parameters
    ----------
    units : int
        Of mu^2 or rho, that what is charged here may cost together.
    delta : float
        Of the fits.
    accountant : Accountant
    neighbors : Neighbours
    payer : PrivacyLedger, optional
        That was charged: it knows whether the number of records is capped.
    slack : float
        In delta, of those with secret batches; paid for, too.
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
        self._now = replace(
            self._now, caps=Cost(units, slack_units(slack, up=False))
        )  # all of it: an epsilon is rounded
        self._payer = payer

    def _is_capped(self, n: int) -> bool:
        """As of the ledger that paid."""
        return self._payer is None or self._payer._is_capped(n)

    def split_by(self, key: bytes, share: float) -> tuple[LedgerPart, LedgerPart]:
        """Split off a share of the records, by coins with that secret key of 32 bytes.

        Returns
        -------
        train, validation : LedgerPart
            The share is that of the latter.
        """
        self._keep("split/key", key)
        parts = self.split({"train": 1.0 - share, "validation": share})
        return parts["train"], parts["validation"]
