"""Schemas on the command line: drafts, learned schemas, and the kinds of columns that options name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dperm.cli.budget import File
from dperm.cli.delivery import Delivery
from dperm.cli.fit import By, Data, Decimal, Header, LedgerName, Neighbors, Purpose, Separator, charged
from dperm.cli.inputs import Inputs, opened
from dperm.cli.messages import check_writable
from dperm.cli.screen import Screen, command
from dperm.cli.targets import schema_in
from dperm.data.files.arrow_tables import pyarrow
from dperm.data.schema.columns import Numeric
from dperm.data.schema.schema import Schema


def kinds_of_options(
    inputs: Inputs, patterns: Mapping[str, Sequence[str]], label: str | None
) -> dict[str, str]:
    """The kinds that patterns give to the columns of the files.

    Raises
    ------
    ValueError
        For a column with two kinds, a pattern without a column, and a column of a CSV file without a kind.
    """
    names = inputs.names
    for pattern in (one for each in patterns.values() for one in each):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"there is no column {pattern!r}; the columns are {', '.join(map(repr, names))}")
    kinds = {name: kind for name in names if (kind := _kind_of(name, patterns)) is not None}
    if inputs.separator is None:
        return kinds
    if label in names:
        kinds.setdefault(str(label), "categorical")
    unknown = [repr(name) for name in names if name not in kinds]
    if unknown:
        raise ValueError(
            "say what the columns of a CSV file are, as its cells must not decide: --numeric, --categorical "
            f"or --ignore for {', '.join(unknown)} ('*' stands for all others)"
        )
    return kinds


def _kind_of(name: str, patterns: Mapping[str, Sequence[str]]) -> str | None:
    """The kind by the column's exact name, else by the longest pattern that matches."""
    fitting = [(one == name, len(one), kind) for kind, each in patterns.items() for one in each
               if fnmatchcase(name, one)]  # fmt: skip
    closest = {kind for *fit, kind in fitting if fit == list(max(fitting)[:2])}
    if len(closest) > 1:
        raise ValueError(f"column {name!r} is given two kinds: {' and '.join(sorted(closest))}")
    return closest.pop() if closest else None


def types_of_kinds(inputs: Inputs, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Arrow types of the columns of CSV files; Parquet files know their own."""
    if inputs.separator is None:
        return dict.fromkeys(inputs.names)
    arrow = pyarrow()
    return {name: arrow.float64() if kind == "numeric" else arrow.string() for name, kind in kinds.items()}


_PATTERN = "A column {}, or a pattern such as 'pixel*'; may be repeated."

app = typer.Typer(help="Describe the columns of a table.", no_args_is_help=True)


@app.command()
@command
def template(
    screen: Screen,
    data: Data,
    label: Annotated[
        str | None,
        typer.Option(help="Column to predict, which is no feature: up to 20 whole numbers are categories."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="TOML file to write.")] = None,
    separator: Separator = None,
    header: Header = None,
    decimal: Decimal = ".",
) -> None:
    """Draft a schema from a file, to be corrected by hand. NOT private."""
    if out is not None and out.exists():
        raise ValueError(f"{out} exists already and may contain corrections: it is not written over")
    with opened(data, separator, header, decimal) as inputs:
        numbers = [name for name in inputs.names if _is_number(name)]
        if numbers and inputs.separator is not None:
            screen.warn(
                f"a column is called {numbers[0]!r}: does the file have a header? If not, use --header"
            )
        inputs.check_has([] if label is None else [label])
        tables = (pyarrow().Table.from_batches([batch]) for batch in inputs.batches(inputs.types_by_cells()))
        name = Path(data[0]).name.split(".")[0] if data[0] != "-" else ""
        schema = Schema.template(tables, name, label=label or "")
    if out is None:
        screen.show(schema.to_entries(), schema.to_text().removesuffix("\n"))
        return
    out.write_text(schema.to_text(), encoding="utf-8")
    screen.note(f"Draft of {len(schema.columns)} columns written to {out}: check every line of it")


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


@app.command()
@command
def learn(
    screen: Screen,
    data: Data,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget; by default 5 % of the ledger's mu^2.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="By default a share of the ledger's slack.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column to predict, whose values are learned as well.")
    ] = None,
    numeric: Annotated[list[str] | None, typer.Option(help=_PATTERN.format("of numbers"))] = None,
    categorical: Annotated[list[str] | None, typer.Option(help=_PATTERN.format("of categories"))] = None,
    ignore: Annotated[list[str] | None, typer.Option(help=_PATTERN.format("that is not used"))] = None,
    functions: Annotated[
        str, typer.Option(help="Smooth functions of each number, or auto: from what the ledger has left.")
    ] = "0",
    neighbors: Neighbors = None,
    ledger: LedgerName = None,
    purpose: Purpose = "",
    by: By = "",
    file: File = Path("dperm-budget.db"),
    separator: Separator = None,
    header: Header = None,
    decimal: Decimal = ".",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="TOML file to write.")] = None,
) -> None:
    """Learn bounds and categories from a file, with a differential privacy guarantee."""
    from dperm.cli.schema import kinds_of_options, types_of_kinds

    account = charged(ledger, file, purpose=purpose, by=by, label=label or "")
    if out is not None:
        check_writable(out, force=False, size=1 << 20)
    given = {"numeric": numeric, "categorical": categorical, "ignored": ignore}
    with opened(data, separator, header, decimal) as inputs:
        kinds = kinds_of_options(inputs, {kind: names or [] for kind, names in given.items()}, label)
        screen.note(f"Reading {len(inputs.paths)} file(s), {inputs.n_bytes / 1e6:,.1f} MB")
        tables = inputs.tables(types_of_kinds(inputs, kinds))
        with Delivery(account, "schema", out, 1 << 20) as delivery:
            learned = Schema.learn(
                tables,
                epsilon,
                delta,
                kinds=kinds,
                label=label,
                ledger=account,
                neighbors=neighbors,
                functions=int(functions) if functions.isdigit() else functions,
            )
            delivery.write(learned.to_text())
            if out is None:
                screen.show(learned.to_entries(), learned.to_text().removesuffix("\n"))
                return
            screen.note(f"Schema written to {out}")
            facts = {"report": list(learned.report.columns), "privacy": learned.privacy.to_dict()}
            screen.show(facts, f"{learned.report}\n\n{learned.privacy}")


@app.command()
@command
def show(screen: Screen, path: Annotated[Path, typer.Argument(help="TOML file.")]) -> None:
    """Check a schema and list its columns."""
    schema = schema_in(path)
    table = Table("column", "values", "features")
    label = () if isinstance(schema.label, str) else (schema.label,)
    for column in (*schema.columns, *label):
        if isinstance(column, Numeric):
            values = f"{column.shown(column.low)} to {column.shown(column.high)}"
        else:
            values = f"{len(column.categories)} categories"
        features = "label" if column in label else str(len(column.feature_names))
        table.add_row(Text(column.name), values, features)
    for crossed in schema.parts[len(schema.columns) :]:
        table.add_row(Text(crossed.name), "interaction", str(len(crossed.feature_names)))
    summary = (
        f"{len(schema.columns)} columns, {schema.n_columns} features, row norm {schema.row_norm():.4g} "
        f"with an intercept.\nSHA-256 {schema.digest}"
    )
    facts = {
        "columns": list(schema.column_names),
        "features": list(schema.feature_names),
        "label": schema.label_name or None,
        "draft": schema.draft,
        "row_norm": schema.row_norm(),
        "sha256": schema.digest,
    }
    if schema.draft:
        screen.warn("this is a draft, read from data: every fit with it says that nothing is guaranteed")
    screen.show(facts, table, summary)
