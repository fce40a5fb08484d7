"""Commands of ``dperm``: read arguments, call the library, print."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dperm import __version__
from dperm.cli import budget, schema
from dperm.cli.evaluate import evaluate
from dperm.cli.fit import fit
from dperm.cli.inspect import inspect
from dperm.cli.predict import predict
from dperm.cli.report import report
from dperm.cli.screen import EXIT_CODES, Screen, command
from dperm.cli.tune import tune

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
