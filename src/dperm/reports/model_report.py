"""A report on a fitted model or a ledger, for the people responsible for the data."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm import __version__
from dperm._document import Document, Section, Text
from dperm.accounting import PrivacyLedger, export_ledger
from dperm.accounting._checks import plain
from dperm.accounting.ledger.ledger import ClosedLedger, check_ledger
from dperm.data.files.whole_files import write_whole
from dperm.metrics.evaluation import Evaluation
from dperm.reports import sections
from dperm.reports.deployments import DEPLOYMENTS
from dperm.reports.guidelines import answers
from dperm.statement.privacy_statement import PrivacyStatement


@dataclass(frozen=True, repr=False)
class Report:
    """A report, made by :func:`report`.

    Attributes
    ----------
    document : Document
    facts : mapping
        The contents as plain JSON types.

    Examples
    --------
    >>> import dperm
    >>> import tempfile
    >>> written = dperm.report(dperm.accounting.Ledger(2.0, 1e-6, name="survey"))
    >>> written.to_markdown().splitlines()[0]
    '# Privacy budget survey'
    >>> written.save(tempfile.mkdtemp() + "/budget.html")
    """

    document: Document
    facts: Mapping[str, Any]

    def to_html(self) -> str:
        """A self-contained page without scripts."""
        return self.document.to_html()

    def to_markdown(self) -> str:
        """The report as Markdown, without pictures."""
        return self.document.to_markdown()

    def to_dict(self) -> dict[str, Any]:
        """The contents of the report as plain JSON types."""
        return dict(self.facts)

    def save(self, path: str | Path) -> None:
        """Write the report to a file as HTML, Markdown or JSON, by its suffix.

        Raises
        ------
        ValueError
            For a suffix other than .html, .htm, .md, .markdown and .json.
        """
        write_whole(path, self.written_as(Path(path).suffix))

    def written_as(self, kind: str) -> str:
        """The text of a file with that suffix."""
        if kind.lower() in (".html", ".htm"):
            return self.to_html()
        if kind.lower() in (".md", ".markdown"):
            return self.to_markdown()
        if kind.lower() == ".json":
            return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        raise ValueError(f"a report is a file .html, .md or .json, got {kind!r}")

    def __str__(self) -> str:
        """As Markdown."""
        return self.to_markdown()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.document.to_fragment()


def report(
    subject: Any,
    *,
    ledger: PrivacyLedger | None = None,
    evaluation: Evaluation | None = None,
    title: str | None = None,
) -> Report:
    """Make a report on the guarantee and quality of a model, or on a ledger.

    Parameters
    ----------
    subject : estimator or PrivacyLedger
        A fitted estimator of :mod:`dperm.estimators`, a `PrivateSearch`, or a Pipeline that ends with one.
    ledger : PrivacyLedger, optional
        The ledger that the model was charged to; by default the model's own.
    evaluation : Evaluation, optional
        Result of :func:`dperm.metrics.evaluate` for the model.
    title : str, optional

    Returns
    -------
    Report
        With ``to_html()``, ``to_markdown()``, ``to_dict()`` and ``save(path)``.

    Raises
    ------
    NotFittedError
        Before `fit`.
    TypeError
        For any other subject.

    Notes
    -----
    A report contains only released numbers and public facts: it reads no records and costs no budget. It
    follows the questions of NIST SP 800-226. An exact evaluation is marked as such; no guarantee covers it.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import LogisticRegression
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> model = LogisticRegression(1.0, 1e-6, row_norm=1.8, classes=[0, 1]).fit(X, (X[:, 0] > 0.5) * 1)
    >>> report(model).to_dict()["privacy"]["epsilon"]
    1.0
    """
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    if isinstance(subject, PrivacyLedger):
        return _of_ledger(subject, title, made)
    model = subject[-1] if isinstance(subject, Pipeline) else subject
    if not hasattr(model, "fit"):
        raise TypeError(f"a report is of a fitted model or of a ledger, got {type(subject).__name__}")
    check_is_fitted(model)
    statement = getattr(model, "privacy_", None)
    if not isinstance(statement, PrivacyStatement):
        raise TypeError(f"{type(model).__name__} has no privacy_: it is not a model of dperm")
    if evaluation is not None and not isinstance(evaluation, Evaluation):
        raise TypeError(f"evaluation must be what dperm.metrics.evaluate returns, got {evaluation!r}")
    ledger = getattr(model, "ledger", None) if ledger is None else check_ledger(ledger)
    ledger = None if isinstance(ledger, ClosedLedger) else ledger
    return _of_model(model, statement, ledger, evaluation, title, made)


def _of_ledger(ledger: PrivacyLedger, title: str | None, made: str) -> Report:
    name = f"Privacy budget {ledger.name}".rstrip() if title is None else title
    lead = [*sections.ledger_blocks(ledger), _made(made)]
    found = {"title": name, "made": made, "ledger": json.loads(export_ledger(ledger))}
    return Report(Document(name, lead, sections.ledger_sections(ledger)), found)


def _of_model(
    model: Any,
    statement: PrivacyStatement,
    ledger: PrivacyLedger | None,
    evaluation: Evaluation | None,
    title: str | None,
    made: str,
) -> Report:
    fitted = getattr(model, "best_estimator_", model)  # of a search
    fitted = fitted[-1] if isinstance(fitted, Pipeline) else fitted
    schema, asked = fitted._design.schema, answers(statement, ledger, evaluation)
    of_schema = None if schema is None else schema.privacy
    of_evaluation = None if evaluation is None else evaluation.privacy
    releases = {"the model": statement, "the schema": of_schema, "the evaluation": of_evaluation}
    known = {name: each for name, each in releases.items() if each is not None}
    name = f"Privacy report: {type(model).__name__}" if title is None else title
    found = {
        "title": name,
        "made": made,
        "model": type(model).__name__,
        "parameters": getattr(model, "best_params_", {}),
        "privacy": statement.to_dict(),
        "ledger": None if ledger is None else json.loads(export_ledger(ledger)),
        "schema": None if schema is None else schema.to_text(),
        "coefficients": fitted.coefficient_values(),
        "evaluation": None if evaluation is None else evaluation.to_dict(),
        "deployments": [dataclasses.asdict(each) for each in DEPLOYMENTS],
        "guidelines": asked,
    }
    parts = [
        *sections.guarantee(statement),
        sections.public(statement),
        sections.budget(ledger, statement, sections.together(known)),
        sections.data(schema, getattr(fitted, "n_features_in_", None)),
        sections.weights(fitted),
        sections.evaluated(evaluation),
        sections.compared(statement),
        *sections.questioned(asked),
    ]
    words = dict(statement.sections()).get("Not covered")
    if words is not None:
        parts.append(Section("What is not covered", [Text(words)]))
    return Report(Document(name, [*_lead(known, ledger), _made(made)], parts), plain(found))


def _lead(releases: Mapping[str, PrivacyStatement], ledger: PrivacyLedger | None) -> list[Text]:
    statement = releases["the model"]
    sound = statement.private and statement.random == "cryptographic"
    lead = [Text(statement.headline, "good" if sound else "warning")]
    for name, each in releases.items():
        if each is not statement and not (each.private and each.random == "cryptographic"):
            lead.append(Text(f"Beside the guarantee of the model, {name}: {each.headline}", "warning"))
    if ledger is not None and statement.private and repr(ledger.name) not in (statement.ledger or ""):
        lead.append(
            Text(
                f"The model's statement names no charge to the ledger {ledger.name!r} shown here.", "warning"
            )
        )
    return lead


def _made(made: str) -> Text:
    text = (
        f"Made on {made} by dperm {__version__}, from released numbers and public facts; no record was read."
    )
    return Text(text, "small")
