"""Columns of targets and of weights: how they are named, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm._files import read_limited
from dperm.accounting import PrivacyLedger
from dperm.accounting.ledger.terms import relation_of
from dperm.cli.inputs import Inputs
from dperm.cli.screen import Screen
from dperm.data.files.arrow_tables import csv_type, pyarrow
from dperm.data.files.record_files import RecordFiles
from dperm.data.schema.columns import Categorical
from dperm.data.schema.schema import Schema
from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError
from dperm.estimators.input_checks import check_droppable

Array = NDArray[Any]


@dataclass(frozen=True)
class Labels:
    """A column of labels.

    Attributes
    ----------
    column : str
    known : tuple of str
        All labels that may occur.
    positive : str or None
        The one to distinguish from all others.
    """

    column: str
    known: tuple[str, ...]
    positive: str | None = None

    arrow_type = "string"

    @property
    def classes(self) -> list[str]:
        """The labels of the model, the positive one last if there is one."""
        if self.positive is None:
            return list(self.known)
        others = [each for each in self.known if each != self.positive]
        return [others[0] if len(others) == 1 else f"not {self.positive}", self.positive]

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for an estimator."""
        return {"classes": self.classes}

    @property
    def entries(self) -> dict[str, Any]:
        """Description for a model file."""
        return {"column": self.column, "labels": list(self.known), "positive": self.positive}

    def read(self, cells: Array, first_row: int) -> Array:
        """The labels as the model's; raises DataError for an unknown one."""
        values = cells.tolist()
        text_of = {each: as_text(each) for each in set(values)}
        texts = [text_of[each] for each in values]
        unknown = set(text_of.values()).difference(self.known)
        if unknown:
            row = next(place for place, each in enumerate(texts) if each in unknown)
            raise DataError(
                f"column {self.column!r} holds the label {texts[row]!r} at row {first_row + row}, "
                f"which is not in classes {list(self.known)}"
            )
        labels = np.array(texts, dtype=str)
        if self.positive is not None and len(self.known) > 2:
            return np.where(labels == self.positive, self.positive, f"not {self.positive}")
        return labels


@dataclass(frozen=True)
class Numbers:
    """A column of numbers.

    Attributes
    ----------
    column : str
    bound : float or None
        Public bound on the absolute value.
    """

    column: str
    bound: float | None = None

    arrow_type = "float64"

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for an estimator."""
        return {"target_bound": self.bound}

    @property
    def entries(self) -> dict[str, Any]:
        """Description for a model file."""
        return {"column": self.column, "bound": self.bound}

    def read(self, cells: Array, first_row: int) -> Array:
        """The numbers; raises DataError for anything else."""
        try:
            return cells.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column {self.column!r} must hold numbers, from row {first_row} on") from None


Target = Labels | Numbers


def target_from(entries: Mapping[str, Any]) -> Target:
    """The predicted column, as described in a model file."""
    if "labels" in entries:
        return Labels(entries["column"], tuple(entries["labels"]), entries.get("positive"))
    return Numbers(entries["column"], entries.get("bound"))


def schema_in(path: Path) -> Schema:
    """The schema in a file; errors name the file."""
    try:
        return Schema.from_text(read_limited(path, pipes=True).decode())
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def as_text(cell: Any) -> str:
    """A label as written in a shell."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def with_label(schema: Schema, column: str) -> Schema:
    """The schema with that column as the one to predict, which is no feature."""
    if schema.label_name not in ("", column):
        raise ValueError(f"--label {column!r}: the schema says that the label is {schema.label_name!r}")
    if schema.label:
        return schema
    described = next((each for each in schema.columns if each.name == column), None)
    if described is None:
        return schema
    label = replace(described, missing="error")
    label = replace(label, unknown="error") if isinstance(label, Categorical) else label
    return changed(schema, columns=[each for each in schema.columns if each is not described], label=label)


def changed(schema: Schema, **changes: Any) -> Schema:
    """The schema with other fields, still marked as learned."""
    other = replace(schema, **changes)
    object.__setattr__(other, "_learned", schema._learned)
    return other


def labels_of(
    schema: Schema, column: str, positive: str | None = None, classes: Sequence[str] | None = None
) -> Labels:
    """The labels from the options, or else from the schema."""
    if not classes and schema.classes is not None:
        classes = [as_text(each) for each in schema.classes]
    if not classes or len(set(classes)) < 2:
        close = get_close_matches(column, schema.column_names, 1) if isinstance(schema.label, str) else []
        raise ValueError(
            f"name the labels, all that may occur: --class LABEL for each, or describe column {column!r} as "
            f"categorical in the schema{f', which has {close[0]!r}' if close else ''}"
        )
    if positive is not None and positive not in classes:
        raise ValueError(f"--positive {positive!r} is not one of the labels {list(classes)}")
    return Labels(column, tuple(classes), positive)


def numbers_of(schema: Schema, column: str, bound: float | None = None) -> Numbers:
    """The numbers with the bound from the option, or else from the schema."""
    if bound is None and schema.target_bounds is not None:
        bound = float(max(map(abs, schema.target_bounds)))
    return Numbers(column, bound)


def schema_types(schema: Schema) -> dict[str, Any]:
    """Arrow types of the columns in CSV files."""
    return {column.name: csv_type(column) for column in schema.columns}


def check_described(inputs: Inputs, schema: Schema, target: Target) -> None:
    """Raise DataError for columns that are missing or not described."""
    inputs.check_has([*schema.column_names, target.column])
    known = {*schema.column_names, *schema.ignored, target.column}
    unknown = [name for name in inputs.names if name not in known]
    if unknown:
        raise DataError(
            f"the schema does not describe column {unknown[0]!r}; 'ignored' lists what is not used"
        )


def droppable(drop: bool, neighbors: str | None, ledger: PrivacyLedger | None) -> bool:
    """Whether to leave out records without a label; raises ValueError under replace_one."""
    if drop:
        check_droppable(relation_of(neighbors, ledger))
    return drop


def load_described(
    inputs: Inputs, target: Target, screen: Screen, schema: Schema, drop: bool = False, *, raw: bool = False
) -> tuple[Any, NDArray[Any]]:
    """All records of files whose columns are all described; as a table instead of encoded with `raw`."""
    check_described(inputs, schema, target)
    if raw:
        source = _source(inputs, target, schema_types(schema), schema, drop)
        return pyarrow().Table.from_batches(source.blocks()), target.read(source.targets(), 0)
    return load(inputs, target, screen, schema_types(schema), schema, drop)


def load(
    inputs: Inputs,
    target: Target,
    screen: Screen,
    types: Mapping[str, Any],
    schema: Schema | None,
    drop: bool = False,
) -> tuple[Any, NDArray[Any]]:
    """All records, or with `drop` those with a label, encoded as they are read, and the column to predict.

    Without a schema, the records are a matrix of the columns in `types`.
    """
    source, parts, row = _source(inputs, target, types, schema, drop), [], 0
    with screen.reading("reading", inputs.n_bytes) as show:
        for matrix, cells in source.labelled_matrices():
            parts.append((matrix, target.read(cells, row)))
            row += len(matrix)
            show(inputs.share(len(parts), row))
    if not row:
        raise DataError(f"there are no records in {inputs.paths[0]}")
    matrices, targets = zip(*parts, strict=True)
    if schema is None:
        return np.concatenate(matrices), np.concatenate(targets)
    first: TabularMatrix = matrices[0]
    numeric = np.concatenate([each.numeric for each in matrices])
    codes = np.concatenate([each.codes for each in matrices])
    return first.with_rows(numeric, codes), np.concatenate(targets)


def _source(
    inputs: Inputs, target: Target, types: Mapping[str, Any], schema: Schema | None, drop: bool
) -> RecordFiles:
    label_type = getattr(pyarrow(), target.arrow_type)()
    source = RecordFiles(inputs.tables(dict(types) | {target.column: label_type}), target.column, schema)
    return source.labelled() if drop else source


def weight_arguments(target: Target, of_classes: Sequence[str] | None, bound: float | None) -> dict[str, Any]:
    """Arguments of an estimator for weights.

    Raises
    ------
    ValueError
        For weights of unknown classes, or of a regressor.
    """
    arguments: dict[str, Any] = {} if bound is None else {"weight_bound": bound}
    if not of_classes:
        return arguments
    if not isinstance(target, Labels):
        raise ValueError("--class-weight is for labels, and the estimator predicts numbers")
    if list(of_classes) == ["private"]:
        return arguments | {"class_weight": "private"}
    weights = dict(_weight_of_class(text, target.classes) for text in of_classes)
    if len(weights) < len(of_classes):
        raise ValueError("--class-weight names a label twice")
    return arguments | {"class_weight": weights}


def _weight_of_class(text: str, classes: Sequence[str]) -> tuple[str, float]:
    label, equals, number = text.rpartition("=")  # the label may contain "=" itself
    try:
        weight = float(number if equals else "")
    except ValueError:
        raise ValueError(f"--class-weight must be 'private' or LABEL=NUMBER, got {text!r}") from None
    if label not in classes:
        raise ValueError(f"--class-weight {text!r}: {label!r} is not one of {list(classes)}")
    return label, weight


def without_weights(schema: Schema, column: str | None, bound: float | None, target: Target) -> Schema:
    """The schema without the column of weights, which is not a feature.

    Raises
    ------
    ValueError
        Without a bound, or if it is the column to predict.
    """
    if column is None and bound is None:
        return schema
    if column is None or bound is None:
        raise ValueError(
            "--weight-column and --weight-bound go together: weights are clipped at the bound, which is "
            "public and must not be read from the data"
        )
    if column == target.column:
        raise ValueError(f"--weight-column {column!r} is the column to predict")
    ignored = [*(each for each in schema.ignored if each != column), column]
    features = [each for each in schema.columns if each.name != column]
    return changed(schema, columns=features, ignored=ignored)


def load_weights(inputs: Inputs, column: str, target: Target, drop: bool) -> NDArray[Any]:
    """The weights of all records that `load` reads; NaN where one is missing."""
    tables = _source(inputs, target, {column: pyarrow().float64()}, None, drop).tables.only((column,))
    cells = [each.column(0).to_numpy(zero_copy_only=False) for each in tables.batches(threads=True)]
    return Numbers(column).read(np.concatenate(cells), 0)
