"""``dperm inspect``: show the contents of a model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from dperm.cli.predict import ModelFile
from dperm.cli.screen import Screen, command

Rows = Sequence[Mapping[str, Any]]


@command
def inspect(
    screen: Screen,
    model: ModelFile,
    top: Annotated[
        int, typer.Option(min=0, help="Number of coefficients to show, the largest first; 0 for all.")
    ] = 20,
) -> None:
    """Show what a model predicts, its guarantee, its coefficients and its schema."""
    from dperm.cli.models import read

    fitted, target = read(model)
    column = None if target is None else target.column
    classes = fitted.classes_.tolist() if hasattr(fitted, "classes_") else None
    coefficients = _coefficients(fitted)
    facts = {
        "model": type(fitted).__name__,
        "label": column,
        "classes": classes,
        "schema_sha256": None if fitted.schema is None else fitted.schema.digest,
        "coefficients": coefficients,
        "privacy": fitted.privacy_.to_dict(),
    }
    shown = sorted(coefficients, key=_size, reverse=True)[: top or None]
    screen.show(facts, *_parts(facts, shown), str(fitted.privacy_))


def _coefficients(fitted: Any) -> list[dict[str, Any]]:
    """Each weight by column and category; with more than two classes, one value for each class."""
    columns = fitted.coefficient_values()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _size(row: Mapping[str, Any]) -> float:
    return max(abs(value) for value in row.values() if isinstance(value, float))


def _parts(facts: Mapping[str, Any], shown: Rows) -> list[Any]:
    classes, coefficients = facts["classes"], facts["coefficients"]
    text = facts["model"] + ("" if facts["label"] is None else f", predicts {facts['label']!r}")
    text += "" if classes is None else f": {', '.join(map(str, classes))}"
    if classes is not None and len(classes) == 2:
        text += f"\nA positive coefficient is evidence for {classes[1]}."
    if facts["schema_sha256"] is not None:
        text += "\nNumbers are scaled from 0 at their lower bound to 1 at their upper bound."
        text += f"\nSchema: SHA-256 {facts['schema_sha256']}"
    hidden = len(coefficients) - len(shown)
    rest = f"{hidden} smaller ones are not shown (--top 0 shows all).\n" if hidden else ""
    return [text, _table(shown), rest]


def _table(rows: Rows) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in rows[0]:
        table.add_column(name, justify="left" if name in ("column", "category") else "right")
    for row in rows:
        table.add_row(*(Text("" if each is None else each if isinstance(each, str) else f"{each:.4g}")
                        for each in row.values()))  # fmt: skip
    return table
