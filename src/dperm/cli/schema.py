"""``dperm schema``: descriptions of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dperm.accounting import open_ledger
from dperm.cli.budget import File
from dperm.cli.messages import errors_for_people, interrupted_after_charge
from dperm.cli.outputs import check_writable
from dperm.cli.tables import read_table, take_label
from dperm.data.files.whole_files import write_whole
from dperm.data.schema.columns import Numeric
from dperm.data.schema.schema import Schema

_PATTERN = "A column {}, or a pattern such as 'pixel*'; may be repeated."

app = typer.Typer(help="Describe the columns of a table.", no_args_is_help=True)


@app.command()
def template(
    data: Annotated[Path, typer.Argument(help="CSV file with a header, or Parquet file.")],
    label: Annotated[str | None, typer.Option(help="Column to predict, which is left out.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="TOML file to write.")] = None,
) -> None:
    """Draft a schema from a file, to be corrected by hand."""
    with errors_for_people():
        if out is not None and out.exists():
            raise ValueError(f"{out} exists already; it may hold corrections, so it is not written over")
        table = read_table(data)
        if label is not None:
            table, _ = take_label(table, label)
        text = Schema.template(table, name=data.name.split(".")[0]).to_text()
        if out is None:
            typer.echo(text, nl=False)
        else:
            out.write_text(text, encoding="utf-8")


@app.command()
def learn(
    data: Annotated[Path, typer.Argument(help="CSV file with a header, or Parquet file.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget; by default 5 % of the ledger's mu^2.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="By default a share of the ledger's slack.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column to predict, whose values are learned, too.")
    ] = None,
    numeric: Annotated[list[str] | None, typer.Option(help=_PATTERN.format("of numbers"))] = None,
    categorical: Annotated[list[str] | None, typer.Option(help=_PATTERN.format("of categories"))] = None,
    ignore: Annotated[list[str] | None, typer.Option(help=_PATTERN.format("that is not used"))] = None,
    neighbors: Annotated[
        str | None, typer.Option(help="add_or_remove or replace_one; by default the ledger's.")
    ] = None,
    ledger: Annotated[str | None, typer.Option(help="Name of the data set's budget to charge.")] = None,
    file: File = Path("dperm-budget.db"),
    out: Annotated[Path | None, typer.Option("--out", "-o", help="TOML file to write.")] = None,
) -> None:
    """Learn bounds and categories from a file, with a differential privacy guarantee."""
    with errors_for_people():
        from dperm.cli.columns import kinds_of_options, table_of_kinds

        account = None if ledger is None else open_ledger(file, ledger)
        if out is not None:
            check_writable(out, force=False, size=1 << 20)
        given = {"numeric": numeric, "categorical": categorical, "ignored": ignore}
        kinds = kinds_of_options(data, {kind: names or [] for kind, names in given.items()}, label)
        progress = Console(stderr=True)
        with progress.status(f"reading {data}"):
            table = table_of_kinds(data, kinds)
        with interrupted_after_charge(account, "schema"):
            learned = Schema.learn(
                table, epsilon, delta, kinds=kinds, label=label, ledger=account, neighbors=neighbors
            )
            if out is None:
                typer.echo(learned.to_text(), nl=False)
                return
            write_whole(out, learned.to_text())
        progress.print(f"Schema written to {out}", highlight=False, markup=False)
        typer.echo(f"{learned.report}\n\n{learned.privacy}")


@app.command()
def show(path: Annotated[Path, typer.Argument(help="TOML file.")]) -> None:
    """Check a schema and list its columns."""
    with errors_for_people():
        schema = Schema.from_toml(path)
        table = Table("column", "values", "features")
        for column in schema.columns:
            if isinstance(column, Numeric):
                values = f"{column.low:g} to {column.high:g}"
            else:
                values = f"{len(column.categories)} categories"
            table.add_row(column.name, values, str(len(column.feature_names)))
        console = Console()
        console.print(table)
        console.print(
            f"{len(schema.columns)} columns, {schema.n_columns} features, row norm {schema.row_norm():.4g} "
            f"with an intercept. SHA-256 {schema.digest}",
            highlight=False,
            soft_wrap=True,
        )
