"""``dperm evaluate``: evaluate a model on other records, from one private release."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from dperm.accounting import open_ledger
from dperm.cli.budget import File, Force
from dperm.cli.fit import Data, Decimal, Header, LedgerName, Neighbors, Separator
from dperm.cli.inputs import opened
from dperm.cli.messages import interrupted_after_charge
from dperm.cli.outputs import check_writable
from dperm.cli.predict import ModelFile
from dperm.cli.screen import Screen, command

_UNUSED_DELTA = 1e-6
_EXACT = (
    "EXACT and NOT private: computed from these records without noise. The numbers may reveal any record to "
    "those who see them."
)


@command
def evaluate(
    screen: Screen,
    model: ModelFile,
    data: Data,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of these numbers.")] = None,
    delta: Annotated[float | None, typer.Option(help="Well below one over the number of records.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Without noise, NOT private.")] = False,
    label: Annotated[
        str | None, typer.Option(help="Column with the true values; by default the model's label.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Such as accuracy or roc_auc; may be repeated. Fewer metrics have less noise."),
    ] = None,
    neighbors: Neighbors = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSON file to write, for reports.")] = None,
    force: Force = False,
    separator: Separator = None,
    header: Header = None,
    decimal: Decimal = ".",
    ledger: LedgerName = None,
    file: File = Path("dperm-budget.db"),
) -> None:
    """Evaluate a model on records that it was not fitted to, with noise, for a privacy budget."""
    from dperm import metrics
    from dperm.cli.models import check_terms, feature_types, in_classes, read, target_named
    from dperm.cli.targets import load

    if exact and (ledger is not None or epsilon is not None):
        raise typer.BadParameter("--exact spends no budget: leave out --epsilon and --ledger")
    if not exact and (epsilon is None or delta is None):
        raise typer.BadParameter("give --epsilon and --delta, or --exact for numbers that are not private")
    terms = (math.inf, _UNUSED_DELTA) if epsilon is None or delta is None else (epsilon, delta)
    account = None if ledger is None else open_ledger(file, ledger)
    fitted, target = read(model)
    target = target_named(fitted, target, label)
    if out is not None:
        check_writable(out, force=force, size=1 << 16)
    with interrupted_after_charge(account, "evaluation"):
        with opened(data, separator, header, decimal) as inputs:
            others = [name for name in inputs.names if name != target.column]
            X, y = load(inputs, target, screen, feature_types(fitted, others), fitted.schema)
            y = in_classes(fitted, y)
        if not exact:
            check_terms(screen, *terms, len(y))
        found = metrics.evaluate(fitted, X, y, *terms, metrics=metric, ledger=account, neighbors=neighbors)
        if out is not None:
            found.save(out)
    if out is not None:
        screen.note(f"Evaluation written to {out}")
    screen.show(found.to_dict(), f"{found}\n\n{_note(exact, ledger)}".rstrip())


def _note(exact: bool, ledger: str | None) -> str:
    if exact:
        return _EXACT
    return "" if ledger is not None else "No ledger was charged: this release is not counted anywhere."
