"""Saving of a fitted model as a JSON file that `dperm.load` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.accounting.ledger.terms import LedgerTerms
from dperm.algorithms.inference import InferenceResult
from dperm.data.files.whole_files import write_whole
from dperm.estimators.storage.format import NAME, VERSION, checksum, to_json

#: The seed is never stored; ledger and schema have their own entries; the others do not affect the result.
NOT_STORED = frozenset({"ledger", "random_state", "schema", "n_threads", "verbose"})
# Entries that may hold millions of numbers.
_IN_ONE_LINE = frozenset({"coef", "intercept", "classes", "feature_names", "inference"})


def save_model(model: Any, path: str | PathLike[str], target: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model; an existing file is replaced atomically.

    Parameters
    ----------
    model : PrivateLinearModel
    path : str or path
    target : mapping, optional
        Description of the predicted column by the command line: "column", and "labels" and "positive", or
        "bound".

    Raises
    ------
    NotFittedError
        Before `fit`.
    ValueError
        For a parameter or labels that JSON cannot represent.
    """
    write_whole(path, model_text(model, target))


def model_text(model: Any, target: Mapping[str, Any] | None = None) -> str:
    """The text that `save_model` writes."""
    check_is_fitted(model)
    entries = entries_of(model, target)
    entries["checksum"] = checksum(entries)
    lines = [
        f" {json.dumps(name)}: {_json(value, name not in _IN_ONE_LINE)}" for name, value in entries.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any, indented: bool) -> str:
    text = json.dumps(value, indent=1 if indented else None, allow_nan=False, ensure_ascii=False)
    return text.replace("\n", "\n ")


def entries_of(model: Any, target: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The contents of the file, see ``model.schema.json``."""
    design, coef = model._design, np.atleast_2d(model.coef_)
    if not np.isfinite(coef).all() or not np.isfinite(model.intercept_).all():
        raise ValueError("the model cannot be saved: its weights are not finite")
    labels, names = getattr(model, "classes_", None), getattr(model, "feature_names_in_", None)
    return {
        "format": NAME,
        "format_version": VERSION,
        "model": type(model).__name__,
        "parameters": _parameters(model),
        "coef": coef.tolist(),
        "intercept": np.atleast_1d(model.intercept_).tolist(),
        "row_norm": to_json(design.row_norm),
        "fit_intercept": design.fit_intercept,
        "classes": None if labels is None else labels.tolist(),
        "classes_type": None if labels is None else _label_type(labels),
        "pos_label": getattr(model, "pos_label_", None),
        "n_iter": int(model.n_iter_),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(each) for each in names],
        "schema": None if design.schema is None else design.schema.to_entries(),
        "encoding": None if design.schema is not None else design.encoding or None,
        "privacy": model.privacy_.to_dict(),
        "inference": _inference(getattr(model, "inference_", None)),
        "importances": model._importances,
        "ledger": None if model.ledger is None else _terms(model.ledger),
        "target": None if target is None else dict(target),
    }


def _terms(ledger: PrivacyLedger) -> dict[str, Any]:
    """Name and terms of a ledger."""
    known = {each.name: getattr(ledger._terms, each.name) for each in fields(LedgerTerms)}
    words = {name: str(known[name]) for name in ("accountant", "neighbors")}
    return {name: to_json(value) for name, value in (known | words).items()}


def _parameters(model: Any) -> dict[str, Any]:
    found = {}
    for name, value in model.get_params(deep=False).items():
        if name not in NOT_STORED:
            try:
                found[name] = to_json(value)
            except TypeError as error:
                raise ValueError(
                    f"the model cannot be saved with {name}={value!r}: {error}. Predictions do not "
                    f"depend on it: model.set_params({name}=None) leaves it out"
                ) from None
    return found


def _label_type(labels: NDArray[Any]) -> str:
    name = {"U": "str", "T": "str", "O": "object"}.get(labels.dtype.kind, labels.dtype.name)
    numbers = labels.dtype.kind in "biuf" and labels.dtype.itemsize <= 8
    plain = all(isinstance(each, str | int | float | bool) for each in labels.tolist())
    if not plain or not (numbers or name in ("str", "object")):
        raise ValueError(f"the model cannot be saved: its labels are not strings or numbers, but {labels}")
    return str(name)


def _inference(result: InferenceResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    effects = result.effects
    return {
        **{name: to_json(getattr(result, name)) for name in ("covariance", "sampling_covariance",
                                                             "cautious_covariance", "down_weighted")},
        "effects": effects and {name: to_json(getattr(effects, name))
                                for name in ("value", "standard_error", "noise_share")},
    }  # fmt: skip
