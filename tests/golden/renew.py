"""Coefficients and statements of every algorithm on small seeded problems.

Write them anew, after a change of results that the changelog explains::

    python tests/golden/renew.py

`coefficients.json` changes only if results do, `statements.json` also with names and words. Both are rounded:
a matrix product of BLAS differs in its last bits from one processor to the next, and so does what an
algorithm derives from one. Sums over records are integers, and do not differ.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dperm import Objective, algorithms, estimators
from dperm.algorithms import InferenceResult
from dperm.losses import Huber, SquaredError

HERE = Path(__file__).parent
RELATIONS = ("add_or_remove", "replace_one")
N_RECORDS, N_COLUMNS, N_CLASSES, ROW_NORM = 2000, 4, 3, 2.0
#: Losses of the three problems.
LOSSES: dict[str, Any] = {"binary": "logistic", "real": SquaredError(target_bound=1.0), "softmax": "softmax"}
SOLVERS = [name for name in algorithms.__all__ if hasattr(getattr(algorithms, name), "needs")]
#: Objectives of algorithms that refuse the common one, and settings of those that take long by default.
BOUNDED_SLOPE = {"real": Huber(0.5, target_bound=1.0)}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "noisy_newton": {"l2": 0.0, **BOUNDED_SLOPE},
    "privgene": BOUNDED_SLOPE,
}
SETTINGS = {"rrpsgd": {"rounds": 4000}}
#: Estimators, which choose a solver themselves, and their problems.
ESTIMATORS = {
    "LogisticRegression": ["binary", "softmax"],
    "LinearSVC": ["binary"],
    "HuberRegressor": ["real"],
    "QuantileRegressor": ["real"],
}


def records(problem: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows in an ellipsoid whose centre is not 0, and targets that depend on them."""
    rng = np.random.default_rng(20)
    X = rng.normal(size=(N_RECORDS, N_COLUMNS)) * [0.9, 0.6, 0.3, 0.1] + [0.2, 0.0, -0.1, 0.0]
    score = 2.0 * X @ rng.normal(size=(N_COLUMNS, N_CLASSES)) + rng.gumbel(size=(N_RECORDS, N_CLASSES))
    if problem == "binary":
        return X, np.where(score[:, 0] > score[:, 1], 1.0, -1.0)
    if problem == "softmax":
        return X, score.argmax(axis=1).astype(float)
    return X, np.clip(0.2 * score[:, 0], -1.0, 1.0)


def solver_fit(name: str, problem: str, relation: str) -> tuple[np.ndarray, Any]:
    """Weights, and their standard errors if there are any, and statement of an algorithm."""
    X, y = records(problem)
    own = OBJECTIVES.get(name, {})
    objective = Objective(
        own.get(problem, LOSSES[problem]),
        X,
        y,
        l2=own.get("l2", 0.01),
        row_norm=ROW_NORM,
        fit_intercept=True,
        penalize_intercept=True,
        n_public=N_RECORDS,
        n_classes=N_CLASSES if problem == "softmax" else None,
    )
    fit = getattr(algorithms, name)
    terms = {"epsilon": 1.0, "delta": 1e-6, "neighbors": relation, "random_state": 7}
    known = inspect.signature(fit).parameters  # the algorithm without privacy has no terms
    result = fit(objective, **{k: v for k, v in terms.items() if k in known}, **SETTINGS.get(name, {}))
    errors = [np.sqrt(np.diag(result.covariance))] if isinstance(result, InferenceResult) else []
    return np.array([result.coef, *errors]) if errors else result.coef, result.privacy


def estimator_fit(name: str, problem: str, relation: str) -> tuple[np.ndarray, Any]:
    """Weights, the intercepts last, and statement of an estimator."""
    X, y = records(problem)
    public = {"target_bound": 1.0} if problem == "real" else {"classes": np.unique(y)}
    model = getattr(estimators, name)(
        1.0, 1e-6, neighbors=relation, row_norm=ROW_NORM, random_state=7, n_public=N_RECORDS, **public
    ).fit(X, y)
    return np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)]), model.privacy_


def rounded(value: Any) -> Any:
    """Numbers with 8 significant digits, also those within a text."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, str):
        return re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.8g}", value)
    return float(f"{value:.8g}") if isinstance(value, float) else value


def results(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coefficients and statements of all cases of an algorithm or an estimator.

    A statement is all its facts, and for the first case the text, too. An algorithm that refuses a problem
    has no coefficients, and its message instead of a statement.
    """
    coefficients: dict[str, Any] = {}
    statements: dict[str, Any] = {}
    fit = solver_fit if name in SOLVERS else estimator_fit
    for problem, relation in itertools.product(ESTIMATORS.get(name, LOSSES), RELATIONS):
        case = f"{name} {problem} {relation}"
        try:
            coef, privacy = fit(name, problem, relation)
        except ValueError as refusal:
            coefficients[case], statements[case] = None, str(refusal)
            continue
        if not privacy.private:  # how many iterations converge differs between processors
            privacy = replace(privacy, steps=None)
        coefficients[case] = rounded(coef.tolist())
        if not statements:
            said = [f"{title}. {text}" for title, text in privacy.sections() if title != "Software"]
            statements[f"{name} in words"] = rounded([privacy.headline, *said])
        statements[case] = rounded({fact: v for fact, v in privacy.to_dict().items() if fact != "version"})
    return coefficients, statements


def write(file: str, cases: dict[str, Any]) -> None:
    """One case a line; of a text, one paragraph a line."""
    lines = [
        f"{json.dumps(case)}: {json.dumps(value, indent=1 if case.endswith('in words') else None)}"
        for case, value in cases.items()
    ]
    (HERE / file).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the seed
    kept: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for name in [*SOLVERS, *ESTIMATORS]:
        for cases, own in zip(kept, results(name), strict=True):
            cases.update(own)
    write("coefficients.json", kept[0])
    write("statements.json", kept[1])
