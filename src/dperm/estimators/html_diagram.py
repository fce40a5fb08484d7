"""scikit-learn's HTML diagram of an estimator, with the privacy guarantee above it."""

from __future__ import annotations

from typing import Any

from sklearn.utils import estimator_html_repr

from dperm._document import Document, Text
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
            f"Ledger{name}: epsilon = {ledger.spent:.4g} spent of {ledger.epsilon:g}, {ledger.remaining:.4g} "
            "remaining for one more fit."
        )
    except LedgerError as error:
        return f"Ledger{name}: {error.problem}"
    except RuntimeError:  # a stored model has a closed ledger
        return f"Ledger{name}: not here."
