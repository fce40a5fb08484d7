"""``dperm schema``: descriptions of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dperm.cli.messages import errors_for_people
from dperm.cli.tables import read_table, take_label
from dperm.data.schema.columns import Numeric
from dperm.data.schema.schema import Schema

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
