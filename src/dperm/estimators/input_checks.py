"""Checks of estimators on their arguments and data, made before any budget is charged."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import NoneType
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.accounting.ledger.records import rows_of
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms.fit import check_number_is_no_secret
from dperm.data import RecordFiles, TabularMatrix
from dperm.data.dask_collections import is_dask_collection
from dperm.data.files.record_files import DROP
from dperm.data.schema.table_columns import ArrayColumn, as_cells
from dperm.data.sparse import as_csr, is_sparse
from dperm.errors import DataError, DefaultBoundWarning, ExactSizeWarning, PrivacyWarning, warn_caller
from dperm.estimators.dask_input import found_labels, mapped_targets
from dperm.estimators.sklearn_searches import SKLEARN_FOLDERS

_NUMBER = (numbers.Real, "a number")
_NUMBER_OR_NONE = ((numbers.Real, NoneType), "a number or None")
_FLAG = ((bool, np.bool_), "True or False")
#: Accepted types of each parameter, and their description for error messages.
_KINDS: dict[str, tuple[Any, str]] = {
    "l2": _NUMBER,
    "fit_intercept": _FLAG,
    "additive": _FLAG,
    "penalize_intercept": _FLAG,
    "row_norm": _NUMBER_OR_NONE,
    "threshold": _NUMBER,
    "quantile": _NUMBER,
    "curvature": _NUMBER,
    "target_bound": _NUMBER_OR_NONE,
    "solver_options": ((Mapping, NoneType), "a mapping of keyword arguments or None"),
    "weight_bound": _NUMBER_OR_NONE,
    "class_weight": ((Mapping, str, NoneType), "a mapping of labels to weights, 'private' or None"),
    "ledger": ((PrivacyLedger, NoneType), "a ledger of dperm.accounting or None"),
    "verbose": ((numbers.Integral, np.bool_), "an integer"),
}

#: What replaces parameters of scikit-learn; `docs/guide/from_scikit_learn.md` explains them.
_SCIKIT_LEARN = {
    "C": "l2 is the ridge strength on the scale of the mean loss, l2 = 1 / (C n)",
    "alpha": "l2 is the ridge strength on the scale of the mean loss",
    "max_iter": "the number of steps is public, solver_options={'steps': ...}",
    "tol": "the number of steps is public, solver_options={'steps': ...}",
    "penalty": "there is a ridge term only, l2=...",
    "l1_ratio": "there is a ridge term only, l2=...",
    "n_jobs": "it is n_threads",
    "warm_start": "a fit is a single charge to a budget, and starts at 0",
    "intercept_scaling": "set penalize_intercept=False, the default",
    "multi_class": "more than two classes are for LogisticRegression, whose model is multinomial",
}


def check_epsilon_delta(epsilon: float, delta: float) -> None:
    """Raise ValueError unless ``epsilon > 0`` (infinite allowed) and ``0 <= delta < 1``.

    Solvers that need delta > 0 check that themselves.
    """
    if not (isinstance(epsilon, numbers.Real) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive number (inf for no privacy), got {epsilon!r}")
    if not (isinstance(delta, numbers.Real) and 0 <= delta < 1):
        raise ValueError(
            "delta must be at least 0 (a pure guarantee, where the solver has one) and below 1, "
            f"got {delta!r}"
        )


def check_names(estimator: str, known: Collection[str], given: Collection[str]) -> None:
    """Raise TypeError for a parameter that has another name here than in scikit-learn."""
    for name in given:
        if name in _SCIKIT_LEARN and name not in known:
            raise TypeError(f"{estimator} has no parameter {name!r} of scikit-learn: {_SCIKIT_LEARN[name]}")


def check_kinds(parameters: Mapping[str, Any]) -> None:
    """Raise TypeError for a parameter of the wrong type; values are checked where they are used."""
    for name, value in parameters.items():
        kinds, wanted = _KINDS.get(name, (object, ""))
        if not isinstance(value, kinds):
            raise TypeError(f"{name} must be {wanted}, got {value!r}")


def class_labels(
    y: ArrayLike, classes: Sequence[Any] | None, *, private: bool, max_classes: int | None = None
) -> NDArray[Any]:
    """The labels, ascending: the public ``classes``, or those found in ``y``, with a warning.

    `max_classes` is 2, or None for any number.

    Raises
    ------
    ValueError
        For fewer than two labels or more than `max_classes`, or if ``y`` holds a label not in ``classes``.
    """
    if not is_dask_collection(y):
        check_classification_targets(y)
        found = np.unique(np.asarray(y))
    elif classes is None:
        found = found_labels(y)
        check_classification_targets(found)
    else:  # the workers check the labels when they encode them
        found = np.unique(np.asarray(classes))
    if classes is None:
        if max_classes == 2 and len(found) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{len(found)} classes."
            )
        if len(found) < 2:
            raise ValueError(f"y has only one class, {found[0]!r}; pass classes=[negative, positive]")
        if private:
            warn_caller(
                "classes was not given, so the labels were read from the data. That reveals which labels "
                "occur, even if only one record has them. Pass classes=[negative, positive]"
                + (", or all classes where there are more." if max_classes is None else "."),
                PrivacyWarning,
            )
        return found
    public = np.asarray(classes)
    different = public.ndim == 1 and len(np.unique(public)) == len(public)
    if not (different and len(public) >= 2 and (max_classes is None or len(public) <= max_classes)):
        wanted = (
            "two different labels [negative, positive]"
            if max_classes == 2
            else "two or more different labels"
        )
        raise ValueError(f"classes must be {wanted}, got {classes!r}")
    _check_known(found, public)
    return np.unique(public)


def _check_known(found: NDArray[Any], classes: NDArray[Any]) -> None:
    unknown = np.setdiff1d(found, classes)
    if unknown.size:
        label, known = unknown.tolist()[0], classes.tolist()
        advice = ""
        if found.dtype.kind in "iu" and found.min() >= 0 and found.max() < len(classes):
            advice = (
                ". scikit-learn's VotingClassifier, StackingClassifier and cross_val_predict pass labels as "
                "0, 1, ... in ascending order: encode y in this way, and give these numbers as classes"
            )
        raise DataError(f"y holds the label {label!r}, which is not in classes={known}{advice}")


def labels_of(X: Any, y: Any) -> Any:
    """``y``; or the distinct labels in files, read in a separate pass."""
    if not isinstance(X, RecordFiles):
        return y
    if y is not None:
        raise ValueError(f"y must be None: the labels are in the column {X.label!r} of the files")
    return X.labels()


def with_targets(X: Any, y: Any, encode: Callable[[ArrayLike], NDArray[np.float64]]) -> tuple[Any, Any]:
    """``X`` and the encoded labels ``y``; files hold both, and encode the labels as they are read."""
    return (X.with_targets(encode), None) if isinstance(X, RecordFiles) else (X, encode(y))


def class_codes(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Index of each label in ``classes``, which holds them all; lazily for a Dask collection.

    There, the workers raise DataError for unknown labels.
    """
    if is_dask_collection(y):
        return cast(NDArray[np.float64], mapped_targets(y, functools.partial(checked_codes, classes=classes)))
    order = np.argsort(classes)
    return np.asarray(order[np.searchsorted(classes, np.asarray(y), sorter=order)], dtype=np.float64)


def checked_codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Index of each label in ``classes``; raises DataError for an unknown one."""
    _check_known(np.unique(y), classes)
    return class_codes(y, classes)


def check_options(
    function: Callable[..., Any], options: Mapping[str, Any] | None, own: Collection[str] = ()
) -> dict[str, Any]:
    """``options`` as keyword arguments of ``function``.

    Raises
    ------
    TypeError
        For arguments that the function does not take, and for the estimator's `own` arguments.
    """
    chosen = dict(options or {})
    taken = sorted(set(chosen) & set(own))
    if taken:
        instead = ", ".join(f"{name}=..." for name in taken)
        raise TypeError(
            f"solver_options must not hold {taken}, the estimator's own arguments: pass {instead} to it"
        )
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise TypeError(
            f"solver_options {unknown} are unknown to {function.__name__}; it takes {sorted(known)}"
        )
    return chosen


def warn_of_exact_number(neighbors: Neighbours, ledger: PrivacyLedger | None) -> None:
    """Warn that a fit without `n_public` publishes the exact number of records.

    Raises
    ------
    ValueError
        If that number is secret, in a part of a split.
    """
    check_number_is_no_secret(neighbors, ledger)
    if neighbors is Neighbours.ADD_OR_REMOVE:
        warn_caller(
            "n_public was not given, so the exact number of records is published. That reveals whether "
            "there is one more or less. Pass n_public=..., a number that is publicly known, rounded or exact",
            ExactSizeWarning,
        )


@contextmanager
def missing_labels_named(y: Any) -> Iterator[None]:
    """Turn what numpy and scikit-learn raise for missing labels into a DataError that says what to do."""
    try:
        yield
    except (ValueError, TypeError) as error:
        missing = np.zeros(0) if y is None or is_dask_collection(y) or np.ndim(y) != 1 else _missing(y)
        if not missing.any():
            raise
        raise DataError(f"y holds no label at row {int(missing.argmax())}{DROP}") from error


def _missing(y: Any) -> NDArray[np.bool_]:
    return ArrayColumn("y", as_cells("y", y)).missing()


def check_droppable(neighbors: Neighbours) -> None:
    """Raise ValueError if leaving out records changes a number of records that is public."""
    if neighbors is Neighbours.REPLACE_ONE:
        raise ValueError(
            "drop_missing_labels is for neighbors='add_or_remove': under replace_one the number of records "
            "is public, but not how many have a label. Give the others any label, and 0 as sample_weight"
        )


def labelled(neighbors: Neighbours, X: Any, y: Any, *others: Any) -> tuple[Any, ...]:
    """`X`, `y` and further arrays or None, without the records that have no label.

    Whether a record is left out depends on that record alone, so what is left of neighbouring data differs in
    one record at most.

    Raises
    ------
    ValueError
        Under replace_one; for a Dask collection.
    """
    check_droppable(neighbors)
    if isinstance(X, RecordFiles):
        return X.labelled(), y, *others
    if is_dask_collection(X):
        raise ValueError("drop_missing_labels is for records in memory or in files: use dropna of Dask")
    rows = np.flatnonzero(~_missing(y))

    def kept(each: Any) -> Any:
        if isinstance(each, Mapping):  # a table
            return {name: rows_of(as_cells(name, cells), rows) for name, cells in each.items()}
        each = each.tocsr() if is_sparse(each) else each
        return each if each is None else rows_of(each, rows)

    return tuple(map(kept, (X, y, *others)))


def warn_of_large_delta(delta: float, n: int) -> None:
    """Warn of a delta that a single published record would satisfy."""
    if delta * n >= 1.0:
        warn_caller(
            f"delta = {delta:g} is no less than one over the number of records ({n:,}): publishing a random "
            "record would satisfy it. Choose it well below",
            PrivacyWarning,
        )


def warn_of_default_bounds(*, row_norm: bool, weight_bound: bool) -> None:
    """Warn of public bounds that were not given, for which a default clips the records."""
    if row_norm:
        warn_caller(
            "neither row_norm nor schema was given, so each row is scaled down to a norm of 1, its intercept "
            "included. Pass row_norm=..., a bound that is publicly known: with columns between -1 and 1 that "
            "is (number of columns + 1) ** 0.5. Or pass schema=..., which describes the columns",
            DefaultBoundWarning,
        )
    if weight_bound:
        warn_caller(
            "weight_bound was not given, so weights above 1 count as 1. Pass weight_bound=..., a bound on "
            "sample_weight that is publicly known",
            DefaultBoundWarning,
        )


def warn_of_learned(found: Sequence[str]) -> None:
    """Warn of what was learned from the data without noise before a fit."""
    if found:
        warn_caller(
            "nothing is guaranteed, since the fit rests on what was learned from the data without noise: "
            f"{', '.join(found)}. Use a schema of what is publicly known: check each line of a draft, then "
            "delete its first lines (draft=False). A FrozenEstimator may have been fitted to public data",
            PrivacyWarning,
            beyond=SKLEARN_FOLDERS,
        )


def sound_matrix(X: Any) -> Any:
    """`X`; a sparse matrix is validated and converted to canonical CSR form."""
    return as_csr(X) if is_sparse(X) else X


def finite_rows(X: Any) -> NDArray[np.bool_]:
    """Whether each row of a dense or sparse matrix is finite."""
    if not is_sparse(X):
        return np.asarray(np.isfinite(np.asarray(X, dtype=np.float64)).all(axis=1))
    rows = X.tocsr()
    finite = np.ones(rows.shape[0], dtype=np.bool_)
    row_of_entry = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    finite[row_of_entry[~np.isfinite(rows.data[: row_of_entry.size])]] = False  # data may be longer
    return finite


def row_scales(X: Any, row_norm: float, fit_intercept: bool) -> NDArray[np.float64]:
    """``min(1, row_norm / norm)`` of each row, as in training; the norm includes the intercept's 1."""
    if is_sparse(X):
        entries = X.astype(np.float64)
        squares = np.asarray(entries.multiply(entries).sum(axis=1)).ravel()
    elif isinstance(X, TabularMatrix):
        squares = X.squared_norms()
    else:
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    squares = squares + float(fit_intercept)
    norms = np.sqrt(squares)
    scales: NDArray[np.float64] = np.divide(row_norm, norms, out=np.ones_like(norms), where=norms > row_norm)
    return scales


def is_private(epsilon: float, solver: str) -> bool:
    """Whether a fit with this solver has a privacy guarantee."""
    return solver != "nonprivate" and epsilon < math.inf
