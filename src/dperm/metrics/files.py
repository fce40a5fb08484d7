"""Evaluations as JSON files. Files are untrusted: reading runs no code, and any deviation is an error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from dperm._files import read_limited
from dperm.errors import DataError
from dperm.estimators.storage.format import checksum
from dperm.metrics.intervals import Estimate
from dperm.metrics.plan import CLASSIFICATION, REGRESSION
from dperm.statement.privacy_statement import PrivacyStatement

FORMAT = {"format": "dperm evaluation", "version": 1}
#: Coordinates of the curves. Intervals are those of the last one, for calibration of "observed".
COORDINATES = {
    "roc_curve": ("fpr", "tpr"),
    "precision_recall_curve": ("recall", "precision"),
    "calibration": ("predicted", "observed", "fitted"),
}
_PARTS = {*FORMAT, "metrics", "n_records", "classes", "privacy", "checksum"}


def to_text(
    metrics: Mapping[str, Estimate], privacy: PrivacyStatement, n_records: float, classes: Any
) -> str:
    """The text of an evaluation file."""
    found = {name: {**jsonable(each), "note": each.note} for name, each in metrics.items()}
    labels = None if classes is None else classes.tolist()
    parts = {"metrics": found, "n_records": n_records, "classes": labels, "privacy": privacy.to_dict()}
    entries = {**FORMAT, **parts}
    return json.dumps({**entries, "checksum": checksum(entries)}, indent=1, allow_nan=False) + "\n"


def jsonable(estimate: Estimate) -> dict[str, Any]:
    """A metric and its interval as JSON types; None where a number is missing."""
    return {part: _plain(getattr(estimate, part)) for part in ("value", "low", "high")}


def read(path: str | Path) -> dict[str, Any]:
    """The arguments of an `Evaluation` that a file holds.

    Raises
    ------
    FileNotFoundError
    DataError
        For a file that is not a valid evaluation.
    """
    try:
        return _arguments(json.loads(read_limited(path), parse_constant=_no_constant))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise DataError(f"{path} is no evaluation that Evaluation.save wrote: {error}") from None


def _arguments(found: Any) -> dict[str, Any]:
    _check(isinstance(found, dict) and {key: found.get(key) for key in FORMAT} == FORMAT, "another format")
    _check(set(found) == _PARTS, "parts are missing, or unknown")
    _check(found["checksum"] == checksum(found), "its content does not match its checksum")
    classes = None if found["classes"] is None else _classes(found["classes"])
    _check(isinstance(found["metrics"], dict) and bool(found["metrics"]), "it has no metrics")
    known = REGRESSION if classes is None else CLASSIFICATION
    metrics = {name: _estimate(name, each, classes) for name, each in found["metrics"].items()}
    _check(set(metrics) <= set(known), "a metric is unknown")
    return {
        "metrics": metrics,
        "privacy": PrivacyStatement.from_dict(found["privacy"]),
        "n_records": _number(found["n_records"]),
        "classes": classes,
    }


def _estimate(name: str, found: Any, classes: Any) -> Estimate:
    _check(
        isinstance(found, dict) and set(found) == {"value", "low", "high", "note"}, f"{name} is incomplete"
    )
    _check(isinstance(found["note"], str), f"the note of {name} is not a string")
    value, low, high = found["value"], found["low"], found["high"]
    if name in COORDINATES:
        _check(isinstance(value, dict) and set(value) == set(COORDINATES[name]), f"{name} is not a curve")
        value = {key: _array(value[key]) for key in COORDINATES[name]}
        low, high = _array(low), _array(high)
        shapes = {each.shape for each in (*value.values(), low, high)}
        _check(len(shapes) == 1 and low.ndim == 1, f"the coordinates of {name} differ in length")
    elif name == "confusion_matrix":
        value, low, high = _array(value), _array(low), _array(high)
        size = 0 if classes is None else len(classes)
        _check({each.shape for each in (value, low, high)} == {(size, size)}, "no count for some classes")
    else:
        value, low, high = _number(value), _number(low), _number(high)
    return Estimate(value, low, high, found["note"])


def _classes(found: Any) -> Any:
    _check(isinstance(found, list) and len(found) > 1, "classes must be a list")
    kinds = {type(each) for each in found}
    _check(len(kinds) == 1 and kinds <= {str, int, float, bool}, "classes must be all strings or all numbers")
    _check(len(set(found)) == len(found), "a class occurs twice")
    return np.array(found)


def _number(found: Any) -> float:
    """A number; NaN for None."""
    _check(found is None or type(found) in (int, float), f"{found!r} is not a number")
    return math.nan if found is None else float(found)


def _array(found: Any) -> Any:
    _check(isinstance(found, list), "a list of numbers is missing")
    rows = [_array(each) if isinstance(each, list) else _number(each) for each in found]
    return np.array(rows, dtype=np.float64)


def _plain(value: Any) -> Any:
    """A number, or an array or mapping of them, as JSON types."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if np.ndim(value):
        return [_plain(each) for each in value]
    return float(value) if math.isfinite(value) else None


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise DataError(problem)


def _no_constant(name: str) -> NoReturn:
    raise DataError(f"{name} is not valid JSON")
