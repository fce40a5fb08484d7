"""Sections of a report on a model."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dperm._document import Block, Picture, Section, Table, Text, facts
from dperm.accounting import PrivacyLedger
from dperm.accounting.ledger.account import arithmetic, ledger_rows
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.reports import doubts, promise, spending, sums_then
from dperm.accounting.neighbours import Neighbours
from dperm.data.schema.formats import schema_blocks
from dperm.data.schema.interactions import Crossed
from dperm.data.schema.schema import Schema
from dperm.metrics.displays import EvaluationDisplay, new_axes, pyplot
from dperm.metrics.evaluation import CURVES, Evaluation
from dperm.reports.deployments import CAUTION, DEPLOYMENTS, REGISTRY, comparison
from dperm.reports.displays import BudgetDisplay, CoefficientDisplay, ShapesDisplay
from dperm.reports.guidelines import SOURCE, Answers
from dperm.statement.privacy_statement import PrivacyStatement
from dperm.statement.words import headline, method

_ABSENT = "There would be a picture here with matplotlib: pip install 'dperm[plot]'."


def picture(draw: Callable[[], Any], words: str) -> Block:
    """The figure drawn by `draw`, which returns a display with a `figure_`; a remark without matplotlib."""
    try:
        plt = pyplot()
    except ModuleNotFoundError:
        return Text(_ABSENT, "small")
    with plt.rc_context({"svg.fonttype": "path", "svg.hashsalt": "dperm"}):
        figure = draw().figure_
        try:
            file = io.BytesIO()
            figure.savefig(file, format="svg", metadata={"Date": None})
        finally:
            plt.close(figure)
    return Picture(file.getvalue(), words)


class EpsilonScale:
    """The epsilons of deployments and of a result on a common axis.

    Parameters
    ----------
    epsilon : float
        Epsilon of the result.
    """

    def __init__(self, epsilon: float) -> None:
        from matplotlib.ticker import LogLocator

        known = sorted(DEPLOYMENTS, key=lambda each: each.epsilon)
        self.figure_, ax = new_axes(None, (7.0, 0.9 + 0.27 * len(known)))
        rows = np.arange(len(known))
        ax.axvline(epsilon, color="C3", label=f"this result: {epsilon:g}")
        ax.plot([each.epsilon for each in known], rows, "o", color="C0")
        names = [f"{each.who}: {each.what}" for each in known]
        ax.set_yticks(rows, names, fontsize="small")
        ax.set(xscale="log", xlabel="epsilon (units and deltas differ)", ylim=(len(known) - 0.5, -0.5))
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.grid(axis="x", alpha=0.3)
        ax.legend(frameon=False, fontsize="small")


_PRIORS = (0.01, 0.1, 0.5, 0.9)
_MAX_WEIGHTS = 300  # rows of a table
_NUMBERS = ("epsilon", "delta", "mu", "rho", "sensitivity", "noise_scale", "clip", "row_norm", "steps")


def guarantee(statement: PrivacyStatement) -> list[Section]:
    """The guarantee in words and symbols, and how it was computed."""
    words = dict(statement.sections())
    blocks: list[Block] = [Text(words["What is protected"])]
    if statement.private:
        blocks += [Text(words["How strongly"]), *_formula(statement), _beliefs(statement)]
    numbers = {name: getattr(statement, name) for name in _NUMBERS}
    known = {name: value for name, value in numbers.items() if value is not None}
    parts = ("How", "Randomness", "Conditions")
    how: list[Block] = [Text(words[part]) for part in parts if part in words]
    how.append(facts({**known, "accountant": statement.accountant, "sampling": statement.sampling}))
    return [Section("What is guaranteed", blocks), Section("How it was computed", how)]


def _formula(statement: PrivacyStatement) -> list[Text]:
    relation = Neighbours.parse(statement.neighbors).words
    tail, delta = (" + δ", f" and δ = {statement.delta:g}") if statement.delta else ("", "")
    words = (
        f"with ε = {statement.epsilon:g}{delta}, for all sets S of results and all data sets D and D' that "
        f"{relation}; M is the algorithm."
    )
    return [Text(f"Pr[M(D) ∈ S] ≤ exp(ε) · Pr[M(D') ∈ S]{tail}", "formula"), Text(words)]


def _beliefs(statement: PrivacyStatement) -> Table:
    """Upper bounds on the posterior belief for several prior beliefs."""
    odds = math.exp(min(statement.epsilon, 700.0))
    rows = [
        [f"{100 * prior:g} %", f"{100 * prior * odds / (1 - prior + prior * odds):.3g} %"]
        for prior in _PRIORS
    ]
    but = f", except with probability delta = {statement.delta:g}" if statement.delta else ""
    of = "whether a given record was used"
    if statement.neighbors == Neighbours.REPLACE_ONE:
        of = "what a given record contains"
    caption = f"How far the result can change what somebody believes about {of}{but}."
    return Table(["believed before", "believed afterwards, at most"], rows, caption)


def public(statement: PrivacyStatement) -> Section:
    """The public facts."""
    text = (
        "The guarantee assumes that everybody knows these. A setting that was chosen by looking at the data "
        "reveals something about them that the guarantee does not cover."
    )
    blocks: list[Block] = [Text(text)]
    blocks.append(facts(statement.public) if statement.public else Text("No setting is listed."))
    return Section("What is treated as public", blocks)


def budget(ledger: PrivacyLedger | None, statement: PrivacyStatement, releases: Sequence[Block]) -> Section:
    """What was charged, and what remains."""
    words = dict(statement.sections()).get("Budget")
    blocks: list[Block] = [Text(words)] if words else []
    if ledger is not None:
        blocks += ledger_blocks(ledger)
        blocks += ledger_sections(ledger)[0].blocks
    return Section("Budget", [*blocks, *releases])


def ledger_blocks(ledger: PrivacyLedger) -> list[Block]:
    """The promise of a ledger, what is left, and a plot of its spending."""
    rows = ledger_rows(ledger._account(), ledger._part, ledger._n_charges())
    if (seal := getattr(ledger, "seal", None)) is not None:
        rows.append(["seal", seal])
    table = Table(["", ""], rows, arithmetic(ledger._account(), ledger._part))
    red = doubts(ledger)
    blocks: list[Block] = [*([Text(red, "warning")] if red else []), Text(promise(ledger)), table]
    if ledger.history():
        text = f"what was spent over time, {ledger.spent:.4g} of {ledger.epsilon:g}"
        blocks.append(picture(lambda: BudgetDisplay.from_ledger(ledger), text))
    return blocks


def ledger_sections(ledger: PrivacyLedger) -> list[Section]:
    """All entries in a table, then each charge in words."""
    course = list(enumerate(spending(ledger), start=1))
    heads = ["#", "when (UTC)", "what", "epsilon", "delta", "spent then", "left then"]
    rows = [
        [number, f"{each.when:%Y-%m-%d %H:%M:%S}", each.summary, each.epsilon, each.delta, *sums_then(*sums)]
        for number, (each, *sums) in course
    ]
    table = Table(heads, rows, _IN_EXPORT)
    sections = [Section("Entries", [table if course else Text("Nothing was charged so far.")])]
    for number, (each, *_) in course:
        if each.kind == "charge" and "neighbors" in each.statement:
            sections.append(Section(f"{number}: {each.title}", _of_charge(each), level=3))
    return sections


_IN_EXPORT = "The exact costs and all settings of each entry are in the export (dperm budget export)."
_MAIN_FACTS = (
    "n",
    "dimension",
    "loss",
    "l2",
    "class_weight",
    "weight_bound",
    "candidates",
    "model",
    "metrics",
)


def _of_charge(entry: LedgerEntry) -> list[Block]:
    """A charge in the words of a statement, and the main settings that are public."""
    known = entry.statement
    statement = PrivacyStatement(
        epsilon=entry.epsilon,
        delta=entry.delta,
        neighbors=known["neighbors"],
        mechanism=entry.description or "not described",
        accountant=entry.accountant,
        sampling=str(known.get("sampling", "none")),
        clip=known["clip"] if isinstance(known.get("clip"), float) else None,
        steps=known["steps"] if isinstance(known.get("steps"), int) else None,
    )
    main = "; ".join(f"{name} = {known[name]}" for name in _MAIN_FACTS if name in known)
    public = [Text(f"Taken as public, among other settings: {main}.")] if main else []
    return [Text(f"{headline(statement)} {method(statement)}"), *public]


def together(statements: dict[str, PrivacyStatement]) -> list[Block]:
    """The joint guarantee of several releases, if they can be added up."""
    alike = len({each.neighbors for each in statements.values()}) == 1
    if len(statements) < 2 or not alike or not all(each.private for each in statements.values()):
        return []
    rows: list[list[Any]] = [[name, each.epsilon, each.delta] for name, each in statements.items()]
    rows.append(["together, at most", sum(row[1] for row in rows), sum(row[2] for row in rows)])
    caption = "By basic composition, if they are of the same records; a ledger that they share counts less."
    return [Table(["releases in this report", "epsilon", "delta"], rows, caption)]


def data(schema: Schema | None, n_features: int | None) -> Section:
    """The public description of the records."""
    if schema is None:
        count = "an unstated number of" if n_features is None else f"{n_features:,}"
        text = f"Rows of {count} numbers, without a schema; longer rows are scaled down to the row norm."
        return Section("The data", [Text(text)])
    text = (
        "This public description determines how each record is encoded, independently of the others; numbers "
        "are clipped to their bounds and scaled to [0, 1]."
    )
    blocks: list[Block] = [Text(text), *schema_blocks(schema.columns, schema.ignored, schema.interactions)]
    if schema.privacy is not None:
        blocks.append(Text(f"The description was learned from data. {schema.privacy.headline}"))
    blocks.append(Text(f"SHA-256 of the description: {schema.digest}", "small"))
    return Section("The data", blocks)


def weights(model: Any) -> Section:
    """Weights with intervals if there are any; else effects, the largest first."""
    inferred = getattr(model, "inference_", None) is not None
    values = model.coefficient_values() if inferred else model.effect_values()
    heads, columns = list(values), [_cells(each) for each in values.values()]
    if inferred:
        heads += ["95 % interval, from", "to"]
        columns += [_cells(bound) for bound in model.conf_int().T.tolist()]
    rows = list(zip(*columns, strict=True))
    words = "the weights by column and category"
    blocks: list[Block] = [picture(lambda: CoefficientDisplay.from_estimator(model), words)]
    schema: Schema | None = model._design.schema
    parts = () if schema is None else schema.parts
    if any(isinstance(each, Crossed) or getattr(each, "functions", 0) for each in parts):
        blocks = [picture(lambda: ShapesDisplay.from_estimator(model), "what every column adds to the score")]
    blocks.append(Table(heads, rows[:_MAX_WEIGHTS]))
    if len(rows) > _MAX_WEIGHTS:
        blocks.append(Text(f"And {len(rows) - _MAX_WEIGHTS:,} further rows, which to_dict() holds.", "small"))
    blocks.append(Text(_OF_WEIGHTS + (_OF_INTERVALS if inferred else _NO_INTERVALS), "small"))
    return Section("The model", blocks)


_OF_WEIGHTS = "Weights are noisy: that of a category with few records is mostly noise. "
_OF_INTERVALS = "Intervals account for sampling and noise; where none is shown, the weight is not determined."
_NO_INTERVALS = (
    "An effect is that of the change beside it on the score (for two classes the log-odds), over_range that "
    "of the whole public range of the column. The solver gives no standard errors: noisy_newton does."
)


def _cells(column: Sequence[Any]) -> list[Any]:
    """Numbers with four digits; None for NaN."""
    return [
        None if isinstance(each, float) and math.isnan(each) else
        float(f"{each:.4g}") if isinstance(each, float) else each
        for each in column
    ]  # fmt: skip


def evaluated(evaluation: Evaluation | None) -> Section:
    """The evaluation of the model."""
    if evaluation is None:
        text = (
            "No evaluation was given. dperm.metrics.evaluate evaluates a model with intervals, and with a "
            "guarantee for the records that it is evaluated on."
        )
        return Section("How good it is", [Text(text)])
    tone = "" if evaluation.privacy.private else "warning"
    blocks: list[Block] = [Text(evaluation.title), *evaluation._blocks()]
    drawn = ", ".join(name.replace("_", " ") for name in evaluation if name in CURVES)
    display = EvaluationDisplay(evaluation.metrics, evaluation.classes)
    blocks.append(picture(lambda: display.plot(columns=2), drawn or "the numbers with their intervals"))
    blocks.append(Text(f"Guarantee of the evaluation. {evaluation.privacy.headline}", tone))
    return Section("How good it is", blocks)


def compared(statement: PrivacyStatement) -> Section:
    """Epsilons of other deployments."""
    if not statement.private:
        return Section("Epsilon elsewhere", [Text("This result has no epsilon to compare.")])
    words = f"epsilons of deployments on a logarithmic scale, and {statement.epsilon:g}"
    scale = picture(lambda: EpsilonScale(statement.epsilon), words)
    more = Text("More of them are in", link=REGISTRY)
    return Section("Epsilon elsewhere", [Text(CAUTION), scale, comparison(statement), more])


def questioned(answers: Answers) -> list[Section]:
    """The questions of the guidelines."""
    intro = Text("Its topics as questions, level by level of its pyramid:", link=SOURCE)
    first = Section("What NIST SP 800-226 asks about", [intro])
    heads = ["question", "answer"]
    return [
        first,
        *(Section(level, [Table(heads, list(each.items()))], 3) for level, each in answers.items()),
    ]
