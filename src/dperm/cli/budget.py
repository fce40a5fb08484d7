"""``dperm budget``: create and inspect the durable ledgers of data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from dperm.accounting import SqliteLedger, export_ledger, open_ledger
from dperm.accounting._checks import plain
from dperm.accounting.ledger.account import decimals
from dperm.accounting.ledger.reports import spending, sums_then
from dperm.accounting.ledger.sqlite_ledger import ledger_names
from dperm.cli.messages import check_writable
from dperm.cli.screen import Screen, command
from dperm.data.files.whole_files import write_whole

app = typer.Typer(help="Create and inspect the privacy budgets of data sets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the data set.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
File = Annotated[Path, typer.Option("--file", envvar="DPERM_BUDGET", help="The ledger file.")]
_FILE = Path("dperm-budget.db")


@app.command()
@command
def create(
    screen: Screen,
    name: Name,
    epsilon: Annotated[float, typer.Option(help="Total epsilon of everything released from it.")],
    delta: Annotated[float, typer.Option(help="Total delta, well below one over the number of records.")],
    accountant: Annotated[str, typer.Option(help="How charges add up: gdp or zcdp.")] = "gdp",
    neighbors: Annotated[str, typer.Option(help="add_or_remove or replace_one.")] = "add_or_remove",
    ceiling: Annotated[
        float | None, typer.Option(help="The largest total that 'extend' may ever set.")
    ] = None,
    slack: Annotated[
        float | None, typer.Option(help="Part of delta for fits with secret batches; by default a tenth.")
    ] = None,
    pure: Annotated[float, typer.Option(help="Part of epsilon for fits with delta = 0.")] = 0.0,
    file: File = _FILE,
) -> None:
    """Give a data set a budget. Its terms can never be changed."""
    existed = file.exists() and name in ledger_names(file)
    terms: dict[str, Any] = {"neighbors": neighbors, "pure": pure, "ceiling": ceiling, "slack": slack}
    given = {term: value for term, value in terms.items() if value is not None}
    ledger = open_ledger(file, name, epsilon, delta, accountant, **given)
    done = "exists already, with this budget" if existed else "created"
    screen.show(_facts(ledger), f"{name!r} {done}.", _overview([ledger]))


@app.command()
@command
def show(
    screen: Screen,
    name: Annotated[str | None, typer.Argument(help="Name of a data set; by default all.")] = None,
    file: File = _FILE,
) -> None:
    """Show what is spent and what remains."""
    names = [name] if name is not None else ledger_names(file)
    ledgers = [open_ledger(file, each) for each in names]
    notes = [f"File: {file.expanduser().resolve()}"] + ([] if name is None else [f"Seal: {ledgers[0].seal}"])
    screen.show([_facts(each) for each in ledgers], _overview(ledgers), *notes)


@app.command()
@command
def history(
    screen: Screen,
    name: Name,
    file: File = _FILE,
) -> None:
    """List all charges, oldest first; with --json, all their facts."""
    ledger = open_ledger(file, name)
    screen.show(json.loads(export_ledger(ledger, "json"))["entries"], _charges(ledger))


@app.command()
@command
def extend(
    screen: Screen,
    name: Name,
    epsilon: Annotated[float, typer.Option(help="The new total, at most the ceiling.")],
    file: File = _FILE,
) -> None:
    """Raise the total, up to the ceiling that was fixed when the budget was created."""
    ledger = open_ledger(file, name)
    ledger.extend(epsilon)
    screen.show(_facts(ledger), _overview([ledger]))


@app.command()
@command
def close(
    screen: Screen,
    name: Name,
    file: File = _FILE,
) -> None:
    """Close a budget: nothing can be charged to it any more."""
    ledger = open_ledger(file, name)
    ledger.close()
    screen.show(_facts(ledger), f"{name!r} is closed. Seal: {ledger.seal}")


@app.command()
@command
def export(
    screen: Screen,
    name: Name,
    kind: Annotated[str, typer.Option("--format", help="json or csv.")] = "json",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File; by default the screen.")] = None,
    force: Force = False,
    file: File = _FILE,
) -> None:
    """Export every entry with all its facts, for other programs."""
    _write(export_ledger(open_ledger(file, name), kind), out, force)


@app.command()
@command
def report(
    screen: Screen,
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=".md or .html file to write; by default the screen.")
    ] = None,
    force: Force = False,
    file: File = _FILE,
) -> None:
    """Report the promise of a budget, every charge with its statement, what is left, and the seal."""
    from dperm.reports import report as report_of

    ledger = open_ledger(file, name)
    written = report_of(ledger)
    is_page = out is not None and out.suffix.lower() in (".html", ".htm")
    text = written.to_html() if is_page else written.to_markdown()
    _write(export_ledger(ledger, "json") if screen.as_json else text, out, force)


def _write(text: str, out: Path | None, force: bool) -> None:
    if out is None:
        typer.echo(text, nl=False)
    else:
        check_writable(out, force=force, size=len(text))
        write_whole(out, text)


def _facts(ledger: SqliteLedger) -> dict[str, Any]:
    numbers = ("epsilon", "delta", "ceiling", "spent", "left", "remaining")
    facts = {key: plain(getattr(ledger, key)) for key in numbers}
    return {"name": ledger.name, **facts, "accountant": str(ledger.accountant), "seal": ledger.seal}


def _overview(ledgers: list[SqliteLedger]) -> Table:
    heads = ["name", "epsilon", "delta", "by", "charges", "spent", "left", "next", "last"]
    table = _table("Privacy budgets", *heads)
    for ledger in ledgers:
        charges = sum(entry.kind == "charge" for entry in ledger.history())
        table.add_row(
            escape(ledger.name),
            f"{ledger.epsilon:g}" + (f" (to {ledger.ceiling:g})" if ledger.ceiling > ledger.epsilon else ""),
            f"{ledger.delta:g}",
            str(ledger.accountant),
            str(charges),
            decimals(ledger.spent),
            decimals(ledger.left, up=False),
            decimals(ledger.remaining, up=False),
            f"{ledger.last_charge:%Y-%m-%d}" if charges else "never",
        )
    table.caption = (
        "left = epsilon - spent, at the budget's delta. A next fit may have more: mu^2 (gdp) or rho (zcdp) "
        "adds up, so that fits together cost less than the sum of their epsilons"
    )
    return table


def _charges(ledger: SqliteLedger) -> Table:
    heads = ("description", "#", "when (UTC)", "epsilon", "delta", "spent then", "left then")
    table = _table(f"Charges to {escape(repr(ledger.name))}", *heads)
    for number, (entry, *sums) in enumerate(spending(ledger), start=1):
        amounts = f"{entry.epsilon:g}", f"{entry.delta:g}", *sums_then(*sums)
        table.add_row(escape(entry.summary), str(number), f"{entry.when:%Y-%m-%d %H:%M:%S}", *amounts)
    return table


def _table(title: str, first: str, *others: str) -> Table:
    """A table that never wraps numbers and words, however narrow the terminal is."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    return table
