"""Loading of model files. Files are untrusted: reading one runs no code."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm._files import read_limited
from dperm.accounting.ledger.ledger import ClosedLedger
from dperm.accounting.ledger.terms import LedgerTerms
from dperm.algorithms.inference import Estimates, InferenceResult
from dperm.data.schema.schema import Schema
from dperm.estimators.classifiers import LinearSVC, LogisticRegression
from dperm.estimators.design import FittedDesign
from dperm.estimators.linear_model import PrivateLinearModel
from dperm.estimators.regressors import HuberRegressor, QuantileRegressor
from dperm.estimators.standard_errors import WithStandardErrors
from dperm.estimators.storage.format import check_entries, checksum, from_json
from dperm.estimators.storage.saving import NOT_STORED
from dperm.statement.privacy_statement import PrivacyStatement

Array = NDArray[np.float64]

_CLASSES: dict[str, Any] = {
    each.__name__: each for each in (HuberRegressor, LinearSVC, LogisticRegression, QuantileRegressor)
}
#: Largest file that is read by default: some three million weights.
MAX_BYTES = 64 << 20
_CHANGED = (
    "its content does not match its checksum: it is damaged, or was changed after it was saved. "
    "dperm.load(path, edited=True) reads it, with a statement that says so"
)
_EDITED = (
    "EDITED: the file of this model did not match its checksum, so that weights, labels and this statement "
    "may not be those of the fit."
)
_TOO_LARGE = 1 << 64
_MAX_MESSAGE = 300  # characters: a message may quote the file


def load(
    path: str | PathLike[str], *, max_bytes: int = MAX_BYTES, edited: bool = False
) -> LogisticRegression | LinearSVC | HuberRegressor | QuantileRegressor:
    """Read a model that ``model.save`` or ``dperm fit`` wrote.

    Its predictions are bit for bit those of the saved model, and `privacy_` is the same. Its ledger is known
    by name and terms, but cannot be charged: set one to fit the model again. The file is JSON, described by
    ``model.schema.json`` in ``dperm/estimators/storage``; reading it runs no code, whoever wrote it. Whether
    the statement in a file is true depends on whether you trust its source.

    Parameters
    ----------
    path : str or path
    max_bytes : int
        A larger file is refused; parsing may take thirty times its size in memory.
    edited : bool, default=False
        Whether to read a file whose content does not match its checksum, because it is damaged or was changed
        after it was saved. The statement then says so. The checksum is no signature: somebody who changes
        a file on purpose can change it, too.

    Returns
    -------
    LogisticRegression, LinearSVC, HuberRegressor or QuantileRegressor

    Raises
    ------
    ValueError
        For a file that is not a valid model; the message says what is wrong.
    OSError
        For a file that cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> import dperm
    >>> model = dperm.LogisticRegression(row_norm=1.5, classes=[0, 1]).fit([[0.0], [1.0]] * 50, [0, 1] * 50)
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> model.save(path)
    >>> bool((dperm.load(path).coef_ == model.coef_).all())
    True
    """
    model: Any = read_model(path, max_bytes=max_bytes, edited=edited)[0]
    return model  # type: ignore[no-any-return]


def read_model(
    path: str | PathLike[str], *, max_bytes: int = MAX_BYTES, edited: bool = False
) -> tuple[PrivateLinearModel, dict[str, Any] | None]:
    """The model in a file, and the `target` that `save_model` was given."""
    text = _text(Path(path), max_bytes)
    try:
        entries = json.loads(
            text, object_pairs_hook=_different_keys, parse_int=_integer, parse_constant=_refuse_constant
        )
        check_entries(entries)
        intact = entries.get("checksum") == checksum(entries)
        if not intact and not edited:
            raise ValueError(_CHANGED)
        model = _model(entries)
        if not intact:
            model.privacy_ = replace(model.privacy_, notes=(*model.privacy_.notes, _EDITED))
        return model, entries.get("target")
    except RecursionError:
        problem = "it is nested too deeply"
    except (ValueError, TypeError, OverflowError) as error:
        problem = " ".join(str(error).split())[:_MAX_MESSAGE]
    raise ValueError(f"{path} is not a model that dperm can read: {problem}")


def _text(path: Path, max_bytes: int) -> str:
    content = read_limited(path, max_bytes)
    try:
        text = content.decode("utf-8")
        if "\\u" in text:  # an escaped lone surrogate cannot be printed
            json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")
    except (UnicodeError, RecursionError):
        raise ValueError(f"{path} is not a model that dperm can read: it is not text in UTF-8") from None
    except ValueError:
        pass  # not JSON: the caller reports that
    return text


def _different_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a duplicate key")
    return found


def _integer(digits: str) -> int:
    number = int(digits)
    if abs(number) >= _TOO_LARGE:
        raise ValueError(f"an integer has {len(digits)} digits")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON")


def _model(entries: Mapping[str, Any]) -> PrivateLinearModel:
    """The model from entries that are valid under the JSON Schema."""
    coef, intercept = _array(entries["coef"], "coef"), _array(entries["intercept"], "intercept")
    if intercept.shape != coef.shape[:1]:
        raise ValueError(f"intercept must have {len(coef)} numbers, as many as coef has rows")
    schema = _schema(entries.get("schema"), coef.shape[1])
    model = _unfitted(entries, schema)
    row_norm = float(entries["row_norm"])
    if not row_norm > 0.0 or (intercept.any() and not entries["fit_intercept"]):
        raise ValueError("row_norm must be above 0, and intercept 0 without an intercept")
    encoding = (entries.get("encoding") or "") if schema is None else schema.encoding
    model._design = FittedDesign(schema, row_norm, entries["fit_intercept"], encoding)
    _set_labels(model, entries, len(coef))
    _set_features(model, entries, schema, coef.shape[1])
    rows = np.vstack([coef.T, intercept])
    if hasattr(model, "classes_"):
        model._set_weights(rows[:-1], rows[-1])
    else:
        model._set_weights(rows[:-1, 0], rows[-1, 0])
    model._importances = entries.get("importances")
    if model._importances and (schema is None or len(model._importances) != len(schema.parts)):
        raise ValueError("importances must be those of the columns and interactions of the schema")
    model.n_iter_, model.privacy_ = entries["n_iter"], PrivacyStatement.from_dict(entries["privacy"])
    if entries.get("ledger") is not None:
        terms = {name: from_json(each) for name, each in entries["ledger"].items()}
        model.ledger = ClosedLedger(LedgerTerms(**terms))
    if isinstance(model, WithStandardErrors):
        model.inference_ = _inference(entries.get("inference"), model)
    elif entries.get("inference") is not None:
        raise ValueError(f"{entries['model']} has no inference")
    return model


def _array(values: Any, name: str) -> Array:
    try:
        found = np.array(values, dtype=np.float64)
    except ValueError:
        raise ValueError(f"the rows of {name} differ in length") from None
    if not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite")
    return found


def _schema(entries: dict[str, Any] | None, n_weights: int) -> Schema | None:
    if entries is None:
        return None
    features = (each for each in entries["columns"] if each["name"] != entries.get("label"))
    least = sum(map(_least_features, features))
    if least > n_weights:  # checked before a huge schema is built
        raise ValueError(f"the schema has {least} features or more, and there are {n_weights} weights")
    schema = Schema.from_entries(entries)
    if schema.n_columns != n_weights:
        raise ValueError(f"the schema has {schema.n_columns} features, and there are {n_weights} weights")
    _ = schema.privacy  # parses the statement of a learned schema
    return schema


def _least_features(column: Mapping[str, Any]) -> int:
    bins = column.get("bins", 1)
    counted: list[int] = [bins if isinstance(bins, int) else len(bins), column.get("functions", 0)]
    return max(*counted, len(column.get("categories", ())))


def _unfitted(entries: Mapping[str, Any], schema: Schema | None) -> PrivateLinearModel:
    kind = _CLASSES[entries["model"]]
    known = set(inspect.signature(kind).parameters) - NOT_STORED
    unknown = sorted(set(entries["parameters"]) - known)
    if unknown:
        raise ValueError(f"{entries['model']} has no parameter {unknown[0]!r:.40}")
    parameters = {name: from_json(each) for name, each in entries["parameters"].items()}
    model: PrivateLinearModel = kind(**parameters, schema=schema)
    model._check_parameters()
    return model


def _set_labels(model: Any, entries: Mapping[str, Any], n_rows: int) -> None:
    labels, kind = entries.get("classes"), entries.get("classes_type")
    if not isinstance(model, LogisticRegression | LinearSVC):
        if labels is not None or kind is not None or n_rows > 1:
            raise ValueError(f"a {entries['model']} has no classes, and one row of coef")
        return
    if labels is None or kind is None:
        raise ValueError(f"a {entries['model']} must have classes and classes_type")
    found = np.array(labels, dtype=kind)
    if found.tolist() != labels or np.unique(found).tolist() != labels:
        raise ValueError(f"classes must be different labels of type {kind} in ascending order")
    positive = entries.get("pos_label")
    if (positive is None) != (len(labels) > 2) or (positive is not None and positive not in labels):
        raise ValueError("pos_label must be one of two classes")
    if n_rows != (1 if len(labels) == 2 else len(labels)) or len(labels) > (
        model._max_classes or len(labels)
    ):
        raise ValueError(f"a {entries['model']} of {len(labels)} classes cannot have {n_rows} rows of coef")
    model.classes_, model.pos_label_ = found, positive


def _set_features(model: Any, entries: Mapping[str, Any], schema: Schema | None, n_weights: int) -> None:
    names, n = entries.get("feature_names"), entries["n_features"]
    wanted = n_weights if schema is None else len(schema.columns)
    if n != wanted:
        raise ValueError(f"n_features must be {wanted}, and is {n}")
    if names is not None and (len(names) != n or (schema is not None and names != list(schema.column_names))):
        raise ValueError("feature_names must name every column, as the schema does if there is one")
    model.n_features_in_ = n
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def _inference(entries: Mapping[str, Any] | None, model: Any) -> InferenceResult | None:
    if entries is None:
        return None
    coef = np.append(model.coef_, model.intercept_) if model._design.fit_intercept else np.ravel(model.coef_)
    known: dict[str, Any] = {name: _reals(entries[name], (len(coef),) * 2, name)
             for name in ("covariance", "sampling_covariance", "cautious_covariance")}  # fmt: skip
    facts = model.privacy_.public
    stated = facts.get("covariance") in ("model", "robust") and type(facts.get("n")) is int
    if not stated or type(facts.get("fit_intercept")) is not bool or np.size(model.intercept_) > 1:
        raise ValueError("privacy does not say what inference rests on: covariance, n and fit_intercept")
    effects = entries["effects"]
    if effects is not None:
        effects = Estimates(*(_reals(effects[name], (len(coef) - model._design.fit_intercept,), name)
                              for name in ("value", "standard_error", "noise_share")))  # fmt: skip
    down_weighted = float(entries["down_weighted"])
    return InferenceResult(
        coef, model.privacy_, model.n_iter_, effects=effects, down_weighted=down_weighted, **known
    )


def _reals(values: Any, shape: tuple[int, ...], name: str) -> Array:
    try:
        found = np.array(values, dtype=np.float64)  # which reads "inf" and "nan"
    except ValueError:
        found = np.zeros(0)
    if found.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}")
    return found
