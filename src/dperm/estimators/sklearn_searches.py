"""Warnings about scikit-learn's searches and cross-validations, which charge every fit and score exactly.

Their worker processes cannot charge a ledger in memory either: that is an error.

scikit-learn does not tell an estimator who fits it. But it clones estimators before it fits them, always in
the caller's process, so a clone looks for the search on the call stack.
"""

from __future__ import annotations

import math
import sys
import weakref
from pathlib import Path
from types import FrameType
from typing import Any

import joblib
import sklearn
from sklearn.base import is_classifier

from dperm.accounting.gaussian import gdp_epsilon, gdp_mu
from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.errors import PrivacyWarning, warn_caller

_SEARCH, _VALIDATION = "sklearn.model_selection._search", "sklearn.model_selection._validation"
_warned: weakref.WeakSet[Any] = weakref.WeakSet()
_FUNCTIONS = ("cross_validate", "cross_val_predict")


def warn_of_search(model: Any) -> None:
    """Warn if a search or a cross-validation clones the model, and name the total cost.

    Raises
    ------
    TypeError
        If its worker processes could not charge the model's ledger.
    """
    frame = _search_frame()
    if frame is None or not model._is_private():
        return
    name = type(frame.f_locals["self"]).__name__ if _is_search(frame) else frame.f_code.co_name
    _check_ledger_serves(model.ledger, frame, name)
    if _was_warned_of(frame):
        return
    fits = _number_of_fits(frame)
    each = f"epsilon={model.epsilon:g}, delta={model.delta:g}"
    cost = f"fits a private model ({each}) several times"
    if fits is not None:
        total = _composed(model.epsilon, model.delta, fits)
        cost = f"is about to make {fits} private fits ({each}), together epsilon={total:.3g}"
    folders = tuple(str(Path(each.__file__ or "").parent) for each in (sklearn, joblib))
    warn_caller(
        f"{name} {cost}, and its scores are computed without noise: no guarantee covers them or what is "
        "chosen by them. dperm.PrivateSearch chooses within one budget.",
        PrivacyWarning,
        beyond=folders,
    )


def _check_ledger_serves(ledger: Any, frame: FrameType, name: str) -> None:
    """Raise an error that is clearer than joblib's, which only says that pickling failed."""
    if not isinstance(ledger, PrivacyLedger) or ledger.serves_processes:
        return
    known = frame.f_locals
    jobs = joblib.effective_n_jobs(known["self"].n_jobs if _is_search(frame) else known["n_jobs"])
    backend, _ = joblib.parallel.get_active_backend()
    if jobs > 1 and not getattr(backend, "supports_sharedmem", False):
        raise TypeError(
            f"{name} fits in {jobs} processes, and its model has a ledger in memory, which other processes "
            "cannot charge. Use a durable ledger, dperm.accounting.open_ledger(file, name, epsilon, delta), "
            "n_jobs=1, or threads: joblib.parallel_config('threading')."
        )


def _search_frame() -> FrameType | None:
    """The stack frame of the search or cross-validation, if this is called from one."""
    if _VALIDATION not in sys.modules:
        return None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        validates = frame.f_globals.get("__name__") == _VALIDATION and frame.f_code.co_name in _FUNCTIONS
        if validates or _is_search(frame):
            return frame
        frame = frame.f_back
    return None


def _was_warned_of(frame: FrameType) -> bool:
    """Whether an earlier clone has already warned about this search or cross-validation."""
    if _is_search(frame):
        return "base_estimator" in frame.f_locals  # which `fit` sets by its first clone
    workers = frame.f_locals.get("parallel")  # lives as long as the validation
    known = workers in _warned
    _warned.add(workers)
    return known


def _is_search(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == _SEARCH and frame.f_code.co_name == "fit"


def _number_of_fits(frame: FrameType) -> int | None:
    """The number of fits to come, if it is known in advance."""
    from sklearn.model_selection import ParameterGrid, check_cv

    known = frame.f_locals
    X, y, groups = (known.get(name) for name in ("X", "y", "groups"))
    if not _is_search(frame):
        cv = known["cv"]
        return int(cv.get_n_splits(X, y, groups)) if hasattr(cv, "get_n_splits") else None
    search = known["self"]
    grid = getattr(search, "param_grid", None)
    names = [name for each in ([grid] if isinstance(grid, dict) else grid or []) for name in each]
    if any(name.rpartition("__")[2] in ("epsilon", "delta") for name in names):
        return None
    candidates = len(ParameterGrid(grid)) if grid is not None else getattr(search, "n_iter", None)
    if candidates is None or not (
        search.cv is None or hasattr(search.cv, "get_n_splits") or type(search.cv) is int
    ):
        return None
    cv = check_cv(search.cv, y, classifier=is_classifier(search.estimator))
    return int(candidates * cv.get_n_splits(X, y, groups) + (search.refit is not False))


def _composed(epsilon: float, delta: float, fits: int) -> float:
    return gdp_epsilon(math.sqrt(fits) * gdp_mu(epsilon, delta), delta) if delta > 0.0 else fits * epsilon
