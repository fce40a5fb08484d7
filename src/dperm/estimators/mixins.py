"""What estimators and searches share: how they are stored, and how notebooks show them."""

from __future__ import annotations

import copy
from typing import Any, Self

from sklearn.utils import estimator_html_repr

from dperm._document import Document, Text
from dperm.accounting.ledger.account import decimals
from dperm.accounting.ledger.ledger import ClosedLedger
from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.errors import LedgerError
from dperm.statement.privacy_statement import PrivacyStatement


class PrivacyDiagram:
    """Notebook display of an estimator: its guarantee, or the one a fit will have, and the diagram."""

    epsilon: float
    delta: float
    ledger: PrivacyLedger | None

    def _repr_html_inner(self) -> str:
        """The HTML that scikit-learn's ``_repr_html_`` returns if diagrams are enabled."""
        words, tone = _guarantee(self)
        lines = [Text(words, tone), Text(_budget(self.ledger), "small")]
        return Document("", lines).to_fragment() + str(estimator_html_repr(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def _guarantee(model: PrivacyDiagram) -> tuple[str, str]:
    statement: PrivacyStatement | None = getattr(model, "privacy_", None)
    if statement is None:
        return f"Not fitted. A fit asks for epsilon = {model.epsilon}, delta = {model.delta}.", ""
    sound = statement.private and statement.random == "cryptographic"
    relation = f" Neighbours: {statement.neighbors}." if statement.private else ""
    return statement.headline + relation, "good" if sound else "warning"


def _budget(ledger: PrivacyLedger | None) -> str:
    if not isinstance(ledger, PrivacyLedger):
        return "No ledger."
    name = f" {ledger.name!r}" if ledger.name else ""
    try:
        return (
            f"Ledger{name}: epsilon = {decimals(ledger.spent)} spent of {ledger.epsilon:g}, "
            f"{decimals(ledger.left, up=False)} left."
        )
    except LedgerError as error:
        return f"Ledger{name}: {error.problem}"
    except RuntimeError:  # a stored model has a closed ledger
        return f"Ledger{name}: not here."


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

    def _unfitted(self) -> Self:
        """A copy with the parameters, without the results of an earlier fit."""
        other = object.__new__(type(self))
        other.__dict__ = {name: value for name, value in vars(self).items() if not _is_result(name)}
        return other

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


def _is_result(name: str) -> bool:
    return name in ("_design", "_encoding") or (name.endswith("_") and not name.startswith("_"))
