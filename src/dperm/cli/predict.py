"""Fitted models on the command line: the commands predict and evaluate."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dperm.cli.budget import File, Force
from dperm.cli.delivery import Delivery
from dperm.cli.fit import (
    By,
    Data,
    Decimal,
    DropMissingLabels,
    Header,
    LedgerName,
    Neighbors,
    Purpose,
    Separator,
    charged,
)
from dperm.cli.inputs import Inputs, files_named, opened
from dperm.cli.messages import check_writable
from dperm.cli.screen import Screen, command
from dperm.cli.targets import Target
from dperm.data.files.arrow_tables import pyarrow
from dperm.data.files.whole_files import written_whole
from dperm.errors import DataError

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

ModelFile = Annotated[
    Path, typer.Argument(help="Model that 'dperm fit' or model.save wrote.", metavar="MODEL")
]


@command
def predict(
    screen: Screen,
    model: ModelFile,
    data: Data,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="CSV (or .gz, .bz2, .zst, .lz4) or Parquet file; - for the screen."),
    ] = "-",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of each label.")
    ] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="Column to copy from the data; by default all.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the column of predictions.")] = "prediction",
    force: Force = False,
    separator: Separator = None,
    header: Header = None,
    decimal: Decimal = ".",
) -> None:
    """Predict every record of a table. Predictions reveal these records: treat them as just as private."""
    from dperm.cli.models import read

    fitted, target = read(model)
    if probabilities and not hasattr(fitted, "predict_proba"):
        raise ValueError(f"--probabilities: {type(fitted).__name__} has no probabilities")
    with opened(data, separator, header, decimal) as inputs:
        copied = tuple(keep or inputs.names)
        if name in copied:
            raise DataError(f"there is a column {name!r} already: --name another")
        if out != "-":
            reads = [model, *files_named(data)]
            check_writable(Path(out), force=force, size=inputs.n_bytes, reads=reads)
        n_rows = 0
        with (
            _writer(out, inputs.separator or ",") as write,
            screen.reading("scoring", inputs.n_bytes) as show,
        ):
            for place, (rows, cells) in enumerate(_blocks(fitted, target, inputs, copied), start=1):
                try:
                    scored = _scored(fitted, rows, cells, name, probabilities)
                except DataError as error:
                    raise DataError(f"rows from {n_rows} on: {error}" if n_rows else str(error)) from None
                write(scored)
                n_rows += scored.num_rows
                show(inputs.share(place, n_rows))
    if out != "-":
        screen.note(f"{n_rows:,} records scored, written to {out}")
        if screen.as_json:
            screen.show({"records": n_rows, "out": out})


def _blocks(
    fitted: Any, target: Target | None, inputs: Inputs, copied: tuple[str, ...]
) -> Iterator[tuple[Any, Any]]:
    """Blocks of records: the columns that the model reads, and those that are copied unchanged."""
    from dperm.cli.models import feature_types

    others = [name for name in inputs.names if target is None or name != target.column]
    copies = inputs.batches(dict.fromkeys(copied, pyarrow().string()))
    return zip(inputs.batches(feature_types(fitted, others)), copies, strict=True)


def _scored(fitted: Any, rows: Any, cells: Any, name: str, probabilities: bool) -> Any:
    """The copied columns of a block, with the predictions added."""
    arrow = pyarrow()
    table = arrow.Table.from_batches([rows])
    X = table if fitted.schema is not None else np.column_stack([each.to_numpy() for each in table.columns])
    found = {name: fitted.predict(X)}
    if probabilities:
        found |= {f"probability_{label}": column for label, column in
                  zip(fitted.classes_, fitted.predict_proba(X).T, strict=True)}  # fmt: skip
    scored = arrow.Table.from_batches([cells])
    for column, values in found.items():
        scored = scored.append_column(column, arrow.array(np.ascontiguousarray(values)))
    return scored


@contextmanager
def _writer(out: str, separator: str) -> Iterator[Any]:
    """A function that appends a table to a file, which appears only once it is complete."""
    writers, is_parquet = list[Any](), out.endswith((".parquet", ".pq"))
    with ExitStack() as stack:
        file = sys.stdout.buffer if out == "-" else stack.enter_context(written_whole(Path(out)))
        codec = None if is_parquet else _CODECS.get(Path(out).suffix)
        if codec is not None:  # the codec closes its output, so it gets a duplicate
            own = os.fdopen(os.dup(file.fileno()), "wb")
            file = stack.enter_context(pyarrow().CompressedOutputStream(own, codec))

        def write(table: Any) -> None:
            if not writers:
                writers.append(stack.enter_context(_TABLES[is_parquet](file, table.schema, separator)))
            writers[0].write_table(table)

        yield write


class _CsvWriter:
    """Writer of tables as CSV; strings are quoted in blocks where one of them needs it."""

    def __init__(self, file: Any, schema: Any, separator: str) -> None:
        self._file, self._separator = file, separator
        header = io.StringIO()
        csv.writer(header, delimiter=separator, lineterminator="\n").writerow(schema.names)
        file.write(header.getvalue().encode())

    def __enter__(self) -> _CsvWriter:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write_table(self, table: Any) -> None:
        """Append rows."""
        arrow = pyarrow()
        special = rf'["\r\n{re.escape(self._separator)}]'
        table = arrow.table([_plain_text(each) for each in table.columns], table.schema.names)
        texts = [each for each in table.columns if arrow.types.is_string(each.type)]
        matches = (arrow.compute.match_substring_regex(each, special) for each in texts)
        quoting = "needed" if any(arrow.compute.any(each).as_py() for each in matches) else "none"
        options = {"include_header": False, "delimiter": self._separator, "quoting_style": quoting}
        arrow.csv.write_csv(table, self._file, arrow.csv.WriteOptions(**options))


def _plain_text(column: Any) -> Any:
    """The column, as strings if it holds text of another type."""
    types = pyarrow().types
    inner = column.type.value_type if types.is_dictionary(column.type) else column.type
    kinds = (
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
    )
    return column.cast(pyarrow().string()) if any(is_(inner) for is_ in kinds) else column


def _parquet_writer(file: Any, schema: Any, separator: str) -> Any:
    return pyarrow().parquet.ParquetWriter(file, schema)


_TABLES = {True: _parquet_writer, False: _CsvWriter}


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
    drop_missing_labels: DropMissingLabels = False,
    neighbors: Neighbors = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSON file to write, for reports.")] = None,
    force: Force = False,
    separator: Separator = None,
    header: Header = None,
    decimal: Decimal = ".",
    ledger: LedgerName = None,
    purpose: Purpose = "",
    by: By = "",
    file: File = Path("dperm-budget.db"),
) -> None:
    """Evaluate a model on records that it was not fitted to, with noise, for a privacy budget."""
    from dperm import metrics
    from dperm.cli.models import check_epsilon, feature_types, in_classes, read, target_named
    from dperm.cli.targets import droppable, load
    from dperm.estimators.input_checks import warn_of_large_delta

    if exact and (ledger is not None or epsilon is not None):
        raise typer.BadParameter("--exact spends no budget: leave out --epsilon and --ledger")
    if not exact and (epsilon is None or delta is None):
        raise typer.BadParameter("give --epsilon and --delta, or --exact for numbers that are not private")
    terms = (math.inf, _UNUSED_DELTA) if epsilon is None or delta is None else (epsilon, delta)
    fitted, target = read(model)
    target = target_named(fitted, target, label)
    noted = {"purpose": purpose, "by": by, "model_file": str(model), "label": target.column}
    account = charged(ledger, file, **noted)
    drop = droppable(drop_missing_labels, neighbors, account)
    size = (1 << 18) + 100 * len(getattr(fitted, "classes_", ())) ** 2
    if out is not None:
        check_writable(out, force=force, size=size, reads=[model, *files_named(data)])
    with Delivery(account, "evaluation", out, size) as delivery:
        with opened(data, separator, header, decimal) as inputs:
            others = [name for name in inputs.names if name != target.column]
            X, y = load(inputs, target, screen, feature_types(fitted, others), fitted.schema, drop)
            y = in_classes(fitted, y)
        if not exact:
            check_epsilon(screen, terms[0])
            warn_of_large_delta(terms[1], len(y))
        found = metrics.evaluate(fitted, X, y, *terms, metrics=metric, ledger=account, neighbors=neighbors)
        delivery.write(found.to_text())
        if out is not None:
            screen.note(f"Evaluation written to {out}")
        screen.show(found.to_dict(), f"{found}\n\n{_note(exact, ledger)}".rstrip())


def _note(exact: bool, ledger: str | None) -> str:
    if exact:
        return _EXACT
    return "" if ledger is not None else "No ledger was charged: this release is not counted anywhere."
