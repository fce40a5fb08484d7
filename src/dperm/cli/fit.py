"""``dperm fit``: a private classifier from a file, a schema and a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from dperm.accounting import open_ledger
from dperm.cli.budget import File
from dperm.cli.messages import errors_for_people, interrupted_after_charge
from dperm.cli.outputs import check_writable
from dperm.cli.tables import csv_types, read_table, take_label
from dperm.data.schema.columns import Categorical
from dperm.data.schema.schema import Schema
from dperm.errors import DataError


def fit(
    data: Annotated[Path, typer.Argument(help="CSV file with a header, or Parquet file.")],
    schema: Annotated[Path, typer.Option(help="TOML file that describes the columns, see 'dperm schema'.")],
    label: Annotated[str, typer.Option(help="Column to predict.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this fit.")],
    delta: Annotated[float, typer.Option(help="Well below one over the number of records.")],
    positive: Annotated[str | None, typer.Option(help="The label that counts as positive.")] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            help="A label: name all that may occur, one by one, unless the schema describes their column.",
        ),
    ] = None,
    neighbors: Annotated[
        str | None, typer.Option(help="add_or_remove or replace_one; by default the ledger's.")
    ] = None,
    solver: Annotated[str, typer.Option(help="An algorithm of dperm.algorithms, or auto.")] = "auto",
    l2: Annotated[float, typer.Option(help="Ridge strength on the scale of the mean loss.")] = 0.0,
    test: Annotated[
        Path | None, typer.Option(help="File of other records: prints the accuracy on them, NOT private.")
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", "-o", help="Where to write the model.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a model that is there.")] = False,
    ledger: Annotated[str | None, typer.Option(help="Name of the data set's budget to charge.")] = None,
    file: File = Path("dperm-budget.db"),
) -> None:
    """Fit logistic regression to a table, with a differential privacy guarantee."""
    with errors_for_people():
        from dperm.estimators import LogisticRegression
        from dperm.estimators.storage.saving import save_model

        # Everything that can fail without the fit does so before it is charged.
        description, labels = _labels(Schema.from_toml(schema), label, positive, classes)
        account = None if ledger is None else open_ledger(file, ledger)
        fitted = LogisticRegression(
            epsilon,
            delta,
            classes=labels.classes,
            schema=description,
            neighbors=neighbors,
            solver=solver,
            l2=l2,
            ledger=account,
        )
        if model is not None:
            check_writable(model, force=force, size=4096 + 64 * description.n_columns)
        console, progress = Console(), Console(stderr=True)
        with progress.status(f"reading {data}"):
            X, y = labels.read(data, description)
        other = None if test is None else labels.read(test, description)
        with progress.status(f"fitting {len(y)} records"), interrupted_after_charge(account):
            fitted.fit(X, y)
            if model is not None:  # first of all: it was paid for
                save_model(fitted, model, labels.entries)
        if model is not None:
            progress.print(f"Model written to {model}", highlight=False, markup=False)
        console.print(str(fitted.privacy_), highlight=False, soft_wrap=True, markup=False)
        if other is not None:
            console.print(
                f"\nAccuracy on {test}: {100 * fitted.score(*other):.2f} %. Computed from that file without "
                "noise: this number is NOT private towards its records.",
                highlight=False,
                soft_wrap=True,
                markup=False,
            )


@dataclass(frozen=True)
class _Labels:
    """The column to predict.

    Attributes
    ----------
    column : str
    known : tuple of str
        All that may occur.
    positive : str or None
    """

    column: str
    known: tuple[str, ...]
    positive: str | None

    @property
    def entries(self) -> dict[str, Any]:
        """What a model file says of it."""
        return {"column": self.column, "labels": list(self.known), "positive": self.positive}

    @property
    def classes(self) -> list[str]:
        """Those of the model, the positive one last if there is one."""
        if self.positive is None:
            return list(self.known)
        others = [each for each in self.known if each != self.positive]
        return [others[0] if len(others) == 1 else f"not {self.positive}", self.positive]

    def read(self, path: Path, schema: Schema) -> tuple[Any, np.ndarray]:
        """Records and labels of a file.

        Raises
        ------
        DataError
            For a label that is not known, and whatever `read_table` raises.
        """
        table, labels = take_label(read_table(path, csv_types(schema, self.column)), self.column)
        unknown = ~np.isin(labels, self.known)
        if unknown.any():
            row = int(unknown.argmax())
            raise DataError(
                f"{path} holds the label {str(labels[row])!r} at row {row}, which is not in classes "
                f"{list(self.known)}"
            )
        if self.positive is not None and len(self.known) > 2:
            labels = np.where(labels == self.positive, self.positive, f"not {self.positive}")
        return table, labels


def _labels(
    schema: Schema, column: str, positive: str | None, classes: list[str] | None
) -> tuple[Schema, _Labels]:
    """The schema of the features, and the labels: from the options, or from the schema."""
    described = [each for each in schema.columns if each.name == column]
    if described:
        schema = replace(schema, columns=[each for each in schema.columns if each.name != column])
    if not classes and described and isinstance(described[0], Categorical):
        classes = [str(each) for each in described[0].categories]
    if not classes and schema.classes is not None:
        classes = [str(each) for each in schema.classes]
    if not classes or len(set(classes)) < 2:
        raise ValueError(
            f"name the labels, all that may occur: --class LABEL for each of them, or column {column!r} as "
            "categorical in the schema"
        )
    if positive is not None and positive not in classes:
        raise ValueError(f"--positive {positive!r} is not one of the labels {classes}")
    return schema, _Labels(column, tuple(classes), positive)
