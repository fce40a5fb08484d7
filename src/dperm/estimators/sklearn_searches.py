"""Warnings about what scikit-learn does with the records around a private fit, as far as that can be seen.

scikit-learn does not tell an estimator who fits it, and no interface says what ran before. So this looks on
the call stack, at best effort:

- A clone looks for a search, a cross-validation, a calibration or the like, which charge every fit and
  compute scores, thresholds and curves from the exact records: one warning each. (scikit-learn clones
  estimators before it fits them, nearly always in the caller's process.) Worker processes cannot charge a
  ledger in memory: an error.
- A fit looks for pipelines whose earlier steps have learned from its records without noise. Its statement
  names them.
- A fit looks for ensembles that set seeds.

What learned from the records outside a pipeline, or in other libraries, cannot be seen.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import joblib
import sklearn
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from dperm.accounting.gaussian import gdp_epsilon, gdp_mu
from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.errors import PrivacyWarning, SeededNoiseWarning, warn_caller

# Classes, with their subclasses, and functions of scikit-learn that fit a model several times.
_CLASSES = {"BaseSearchCV", "CalibratedClassifierCV", "TunedThresholdClassifierCV", "RFE",
            "SequentialFeatureSelector"}  # fmt: skip
_FUNCTIONS = {"cross_validate", "cross_val_predict", "permutation_test_score", "learning_curve",
              "validation_curve"}  # fmt: skip
_ENSEMBLES = {"BaseBagging", "BaseWeightBoosting"}  # they set the random_state of each of their models
# Transformers that must be fitted, and look at nothing but the number of columns.
_LEARN_NOTHING = {"PolynomialFeatures", "RBFSampler", "SkewedChi2Sampler", "PolynomialCountSketch"}
_WARNED = "dperm has warned"  # no name of a variable
SKLEARN_FOLDERS = tuple(str(Path(each.__file__ or "").parent) for each in (sklearn, joblib))


def warn_of_search(model: Any) -> None:
    """Warn if a search, a cross-validation or the like clones the model, and name the total cost.

    Raises
    ------
    TypeError
        If its worker processes could not charge the model's ledger.
    """
    found = {id(owner or frame): (frame, owner) for frame, owner in _frames() if _is_exact(frame, owner)}
    if not found or not model._is_private():
        return
    frame, owner = list(found.values())[-1]  # the outermost
    name = frame.f_code.co_name if owner is None else type(owner).__name__
    _check_ledger_serves(model.ledger, frame, owner, name)
    if _WARNED in frame.f_locals:  # by an earlier clone
        return
    frame.f_locals[_WARNED] = True
    fitted = frame.f_locals.get("estimator") if owner is None else owner.estimator
    alone = len(found) == 1 and bool({"PrivateLinearModel", "Pipeline"} & _bases(fitted))
    fits = _number_of_fits(frame, owner) if alone else None
    each = f"epsilon={model.epsilon:g}, delta={model.delta:g}"
    cost = f"fits a private model ({each}) several times"
    if fits is not None:
        total = _composed(model.epsilon, model.delta, fits)
        cost = f"is about to make {fits} private fits ({each}), together epsilon={total:.3g}"
    warn_caller(
        f"{name} {cost}, and what it computes from the records itself (scores, thresholds, curves, "
        "calibration) has no noise: no guarantee covers that or what is chosen by it. dperm.PrivateSearch "
        "chooses within one budget, dperm.metrics.evaluate releases scores and curves.",
        PrivacyWarning,
        beyond=SKLEARN_FOLDERS,
    )


def steps_that_learn() -> list[str]:
    """Transformers that learned from the records of the present fit before it, in a pipeline around it."""
    seen, found = set[int](), list[str]()
    for frame, owner in _frames():
        kinds = _bases(owner)
        if "Pipeline" in kinds and id(owner) not in seen:
            seen.add(id(owner))
            before = owner.steps[: frame.f_locals.get("step_idx", -1)]
            found = [name for _, step in before for name in learning(step)] + found
        elif "TransformedTargetRegressor" in kinds:
            found = learning(getattr(owner, "transformer_", None)) + found
    return list(dict.fromkeys(found))


def learning(step: Any) -> list[str]:
    """Names of the transformers in a step of a pipeline that learn from records."""
    if step is None or isinstance(step, str | FrozenEstimator):
        return []
    parts: Any = next((getattr(step, name) for name in ("steps", "transformers", "transformer_list")
                       if hasattr(step, name)), None)  # fmt: skip
    if parts is not None:
        inner = [each[1] for each in parts] + [getattr(step, "remainder", None)]
        return [name for each in inner for name in learning(each)]
    name = type(step).__name__
    known = name in _LEARN_NOTHING and getattr(step, "gamma", None) != "scale"
    known = known or not isinstance(getattr(step, "categories", "auto"), str)  # encoders of a public list
    fits = get_tags(step).requires_fit if hasattr(step, "__sklearn_tags__") else True
    return [name] if fits and not known else []


def check_seeds(model: Any) -> None:
    """Warn if an ensemble of scikit-learn has set the model's seed; ValueError if a ledger refuses seeds."""
    names = [type(owner).__name__ for _, owner in _frames() if _ENSEMBLES & _bases(owner)]
    if not names or model.random_state is None or not model._is_private():
        return
    problem = (
        f"{names[-1]} sets the random_state of each of its models itself, whatever yours is: whoever knows "
        "or guesses these seeds can remove the noise. Fit the models one by one, with random_state=None, and "
        "combine them by VotingClassifier or VotingRegressor"
    )
    if isinstance(model.ledger, PrivacyLedger) and not model.ledger.allow_seeded:
        raise ValueError(f"{problem}. The ledger refuses seeds; nothing was charged")
    warn_caller(problem, SeededNoiseWarning, beyond=SKLEARN_FOLDERS)


def _frames() -> Iterator[tuple[FrameType, Any]]:
    """Frames of the call stack in scikit-learn, and in libraries that build on it; `self` or None of each."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(("sklearn.", "imblearn.")):
            yield frame, frame.f_locals.get("self")
        frame = frame.f_back


def _bases(owner: Any) -> set[str]:
    return {each.__name__ for each in type(owner).__mro__}


def _is_exact(frame: FrameType, owner: Any) -> bool:
    name = frame.f_code.co_name
    return name in _FUNCTIONS if owner is None else name == "fit" and bool(_CLASSES & _bases(owner))


def _check_ledger_serves(ledger: Any, frame: FrameType, owner: Any, name: str) -> None:
    """Raise an error that is clearer than joblib's, which only says that pickling failed."""
    if not isinstance(ledger, PrivacyLedger) or ledger.serves_processes:
        return
    given = frame.f_locals.get("n_jobs") if owner is None else getattr(owner, "n_jobs", None)
    jobs = joblib.effective_n_jobs(given)
    backend, _ = joblib.parallel.get_active_backend()
    if jobs > 1 and not getattr(backend, "supports_sharedmem", False):
        raise TypeError(
            f"{name} fits in {jobs} processes, and its model has a ledger in memory, which other processes "
            "cannot charge. Use a durable ledger, dperm.accounting.open_ledger(file, name, epsilon, delta), "
            "n_jobs=1, or threads: joblib.parallel_config('threading')."
        )


def _number_of_fits(frame: FrameType, search: Any) -> int | None:
    """The number of fits to come, if it is known in advance."""
    from sklearn.model_selection import (
        GridSearchCV,
        ParameterGrid,
        ParameterSampler,
        RandomizedSearchCV,
        check_cv,
    )

    known = frame.f_locals
    X, y, groups = (known.get(name) for name in ("X", "y", "groups"))
    if search is None:
        cv: Any = known.get("cv")
        plain = frame.f_code.co_name in ("cross_validate", "cross_val_predict") and hasattr(
            cv, "get_n_splits"
        )
        return int(cv.get_n_splits(X, y, groups)) if plain else None
    if not isinstance(search, GridSearchCV | RandomizedSearchCV):  # others decide as they go
        return None
    grid = search.param_grid if isinstance(search, GridSearchCV) else search.param_distributions
    names = [name for each in ([grid] if isinstance(grid, dict) else grid) for name in each]
    if any(name.rpartition("__")[2] in ("epsilon", "delta") for name in names):
        return None
    if not (search.cv is None or hasattr(search.cv, "get_n_splits") or type(search.cv) is int):
        return None
    exhaustive = isinstance(search, GridSearchCV)
    candidates = len(ParameterGrid(grid) if exhaustive else ParameterSampler(grid, search.n_iter))
    cv = check_cv(search.cv, y, classifier=is_classifier(search.estimator))
    return int(candidates * cv.get_n_splits(X, y, groups) + (search.refit is not False))


def _composed(epsilon: float, delta: float, fits: int) -> float:
    return gdp_epsilon(math.sqrt(fits) * gdp_mu(epsilon, delta), delta) if delta > 0.0 else fits * epsilon
