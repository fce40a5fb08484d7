"""``dperm fit``: a private classifier from a file, a schema and a budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from dperm.accounting import open_ledger
from dperm.cli.budget import File
from dperm.cli.messages import errors_for_people
from dperm.cli.tables import read_table, take_label
from dperm.data.schema.schema import Schema


def fit(
    data: Annotated[Path, typer.Argument(help="CSV file with a header, or Parquet file.")],
    schema: Annotated[Path, typer.Option(help="TOML file that describes the columns, see 'dperm schema'.")],
    label: Annotated[str, typer.Option(help="Column to predict.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this fit.")],
    delta: Annotated[float, typer.Option(help="Well below one over the number of records.")],
    positive: Annotated[
        str | None,
        typer.Option(
            help="Label that counts as positive; all others, misspelt ones too, are negative: --class checks."
        ),
    ] = None,
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="A label; name all that may occur, one by one.")
    ] = None,
    neighbors: Annotated[str, typer.Option(help="add_or_remove or replace_one.")] = "add_or_remove",
    solver: Annotated[str, typer.Option(help="An algorithm of dperm.algorithms, or auto.")] = "auto",
    l2: Annotated[float, typer.Option(help="Ridge strength on the scale of the mean loss.")] = 0.0,
    test: Annotated[
        Path | None, typer.Option(help="File of other records: prints the accuracy on them, NOT private.")
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", "-o", help="Where to write the model.")] = None,
    ledger: Annotated[str | None, typer.Option(help="Name of the data set's budget to charge.")] = None,
    file: File = Path("dperm-budget.db"),
) -> None:
    """Fit logistic regression to a table, with a differential privacy guarantee."""
    with errors_for_people():
        from dperm.estimators import LogisticRegression

        description = Schema.from_toml(schema)
        fitted = LogisticRegression(
            epsilon,
            delta,
            classes=_classes(positive, classes),
            schema=description,
            neighbors=neighbors,
            solver=solver,
            l2=l2,
            ledger=None if ledger is None else open_ledger(file, ledger),
        )
        console, progress = Console(), Console(stderr=True)
        with progress.status(f"reading {data}"):
            X, y = _records(data, description, label, positive)
        with progress.status(f"fitting {len(y)} records"):
            fitted.fit(X, y)
        console.print(str(fitted.privacy_), highlight=False, soft_wrap=True, markup=False)
        if test is not None:
            accuracy = fitted.score(*_records(test, description, label, positive))
            console.print(
                f"\nAccuracy on {test}: {100 * accuracy:.2f} %. Computed from that file without noise: this "
                "number is NOT private towards its records.",
                highlight=False,
                soft_wrap=True,
                markup=False,
            )
        if model is not None:
            model.write_text(json.dumps(_model(fitted, label), indent=1) + "\n", encoding="utf-8")
            progress.print(f"Model written to {model}", highlight=False, markup=False)


def _classes(positive: str | None, classes: list[str] | None) -> list[str]:
    """The labels, negative first where there are two."""
    if (positive is None) == (not classes):
        raise ValueError("name the labels: either --positive LABEL, or --class LABEL for each of them")
    return list(classes) if classes else [f"not {positive}", str(positive)]


def _records(path: Path, schema: Schema, label: str, positive: str | None) -> tuple[Any, np.ndarray]:
    table, labels = take_label(read_table(path, schema, label), label)
    if positive is not None:
        labels = np.where(labels == positive, positive, f"not {positive}")
    return table, labels


def _model(fitted: Any, label: str) -> dict[str, Any]:
    """All that prediction needs, and what was guaranteed."""
    schema: Schema = fitted.schema
    return {
        "model": type(fitted).__name__,
        "label": label,
        "classes": fitted.classes_.tolist(),
        "features": list(schema.feature_names),
        "coef": fitted.coef_.tolist(),
        "intercept": fitted.intercept_.tolist(),
        "schema": schema.to_text(),
        "privacy": fitted.privacy_.to_dict(),
    }
