"""One entry of a ledger."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dperm import __version__
from dperm.accounting._checks import ReadOnlyMapping
from dperm.accounting.ledger.cost import Cost
from dperm.accounting.units import Units

#: What a charge may note, see `PrivacyLedger.noting`.
_NOTED = {"purpose": "for {}", "by": "by {}", "model_file": "model {}", "label": "predicts {!r}"}


@dataclass(frozen=True)
class LedgerEntry:
    """One charge, extension or split of a ledger, what is known about split records, or its closing.

    Attributes
    ----------
    when : datetime
        Time of the charge, UTC; never earlier than the entry before it.
    description : str
        What the charge was for.
    epsilon, delta : float
        The guarantee of the fit; for an extension the new total.
    accountant : str
        How the fit is accounted.
    cost : Cost
        What the fit costs, of which a ledger counts at most its caps; for an extension the new caps.
    statement : Mapping
        Further public facts about the fit; read-only.
    part : str
        The part of the records that the fit sees; empty for all.
    kind : {"charge", "extend", "split", "records", "close"}
        What happened.
    process : int
        Identifier of the process that made the entry.
    version : str
        Version of the software that made the entry.

    Examples
    --------
    >>> from dperm.accounting import Ledger
    >>> entry = Ledger(3.0, 1e-6).charge(epsilon=1.0, delta=1e-6, description="first model")
    >>> entry.kind, entry.title, entry.epsilon
    ('charge', 'first model', 1.0)
    """

    when: datetime
    description: str
    epsilon: float
    delta: float
    accountant: str
    cost: Cost
    statement: Mapping[str, Any] = field(default_factory=lambda: ReadOnlyMapping({}))
    part: str = ""
    kind: str = "charge"
    process: int = field(default_factory=os.getpid)
    version: str = __version__

    @property
    def title(self) -> str:
        """What happened, in a few words."""
        if self.kind == "charge":
            return self.description
        if self.kind == "split":
            return f"split {self.description!r} into {', '.join(self.statement['shares'])}"
        if self.kind == "records":
            return f"records of split {self.description!r}: {self.statement['format']['kind']}"
        return self.kind

    @property
    def summary(self) -> str:
        """What happened, for which part, to what purpose and by whom, as far as it was noted."""
        noted = ("part {}", self.part), *((form, self.statement.get(name)) for name, form in _NOTED.items())
        return "; ".join(filter(None, [self.title, *(form.format(text) for form, text in noted if text)]))

    @property
    def cost_units(self) -> Units:
        """What the fit costs, in units of 2^-60 of the ledger's mu^2 or rho."""
        return self.cost.units
