"""Commands of ``dperm``: read arguments, call the library, print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from dperm import __version__
from dperm.accounting import open_ledger
from dperm.cli import budget, schema
from dperm.cli.budget import File, Force
from dperm.cli.fit import fit, tune
from dperm.cli.messages import check_writable
from dperm.cli.predict import ModelFile, evaluate, predict
from dperm.cli.screen import EXIT_CODES, Screen, command
from dperm.data.files.whole_files import write_whole

Rows = Sequence[Mapping[str, Any]]


@command
def inspect(
    screen: Screen,
    model: ModelFile,
    top: Annotated[
        int, typer.Option(min=0, help="Number of effects to show, the largest first; 0 for all.")
    ] = 20,
) -> None:
    """Show what a model predicts, its guarantee, the effects of the columns and its schema."""
    from dperm.cli.models import read

    fitted, target = read(model)
    column = None if target is None else target.column
    classes = fitted.classes_.tolist() if hasattr(fitted, "classes_") else None
    coefficients, effects = _rows(fitted.coefficient_values()), _rows(fitted.effect_values())
    facts = {
        "model": type(fitted).__name__,
        "label": column,
        "classes": classes,
        "schema_sha256": None if fitted.schema is None else fitted.schema.digest,
        "coefficients": coefficients,
        "effects": effects,
        "privacy": fitted.privacy_.to_dict(),
    }
    screen.show(facts, *_parts(facts, effects[: top or None]), str(fitted.privacy_))


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _parts(facts: Mapping[str, Any], shown: Rows) -> list[Any]:
    classes = facts["classes"]
    text = facts["model"] + ("" if facts["label"] is None else f", predicts {facts['label']!r}")
    text += "" if classes is None else f": {', '.join(map(str, classes))}"
    if classes is not None and len(classes) == 2:
        text += f"\nA positive effect is evidence for {classes[1]}."
    if facts["schema_sha256"] is not None:
        text += f"\nSchema: SHA-256 {facts['schema_sha256']}"
    hidden = len(facts["effects"]) - len(shown)
    rest = f"{hidden} smaller ones are not shown (--top 0 shows all).\n" if hidden else ""
    return [text, _table(shown), rest]


def _table(rows: Rows) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in rows[0]:
        table.add_column(name, justify="left" if name in ("column", "category", "change") else "right")
    for row in rows:
        table.add_row(*(Text("" if each is None else each if isinstance(each, str) else f"{each:.4g}")
                        for each in row.values()))  # fmt: skip
    return table


@command
def report(
    screen: Screen,
    model: ModelFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=".html, .md or .json file; by default the screen.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--md", help="As Markdown, the default on the screen.")] = False,
    evaluation: Annotated[Path | None, typer.Option(help="A saved evaluation of the model.")] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Name of the budget that the model was charged to.")
    ] = None,
    file: File = Path("dperm-budget.db"),
    force: Force = False,
) -> None:
    """Report the guarantee of a model, how it was made, and how good it is."""
    import dperm
    from dperm.metrics import Evaluation

    if markdown and screen.as_json:
        raise ValueError("give --md or --json, not both")
    account = None if ledger is None else open_ledger(file, ledger)
    scores = None if evaluation is None else Evaluation.load(evaluation)
    written = dperm.report(dperm.load(model), ledger=account, evaluation=scores)
    kind = ".json" if screen.as_json else ".md" if markdown or out is None else out.suffix
    text = written.written_as(kind)
    if out is None:
        typer.echo(text, nl=False)
        return
    check_writable(out, force=force, size=len(text), reads=[model, evaluation])
    write_whole(out, text)
    screen.note(f"report written to {out}")


app = typer.Typer(
    help="Differentially private empirical risk minimisation.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(budget.app, name="budget")
app.add_typer(schema.app, name="schema")
for each in (fit, tune, predict, evaluate, inspect, report):
    app.command()(each)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dperm {__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
@command
def demo(
    screen: Screen,
    plot: Annotated[Path, typer.Option(help="Where to save the plot.")] = Path("dperm-demo.png"),
    repetitions: Annotated[int, typer.Option(min=1, help="Random train/test splits.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits; the noise is cryptographic.")] = 0,
) -> None:
    """Fit logistic regression at several epsilons on bundled data and compare."""
    from dperm.cli.demo import run_demo

    run_demo(screen, plot, repetitions, seed)


@app.command()
@command
def info(screen: Screen) -> None:
    """Show how this copy was built and what it uses on this machine."""
    from dperm._build_info import build_info

    table, facts = Table(show_header=False), build_info()
    for name, value in facts.items():
        table.add_row(name, ", ".join(value) if isinstance(value, list) else str(value))
    screen.show(facts, table)
