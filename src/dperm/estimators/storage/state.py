"""State of estimators in pickles and other formats that store an object's state."""

from __future__ import annotations

import copy
from typing import Any, Self

from dperm.accounting.ledger.closed_ledger import ClosedLedger


class StoredWithoutLedger:
    """The stored state of a fitted estimator has a closed ledger in place of its own.

    So any fitted model can be stored and sent, and none of the ledger's secrets go with it. Copies within the
    process share the ledger. An estimator that is not fitted yet keeps its ledger, because worker processes
    may have to fit it: a durable ledger is pickled along, one in memory refuses.
    """

    ledger: Any

    def __getstate__(self) -> dict[str, Any]:
        """The state to store."""
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        if hasattr(self, "privacy_") and self.ledger is not None:
            state["ledger"] = ClosedLedger.of(self.ledger)
        return state

    def __copy__(self) -> Self:
        """A shallow copy with the same ledger."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with the same ledger."""
        other = object.__new__(type(self))
        memo[id(self)] = other
        vars(other).update(copy.deepcopy(vars(self), memo))
        return other
