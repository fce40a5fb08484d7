"""Test accuracy in per cent or final objective on the training records, mean over folds."""

import functools
import math

import numpy as np

import dperm
from dperm import algorithms
from papers.framework import Refused
from papers.learning import fold, records, repeated, tuned_ridge

LOSSES = {"logistic": "logistic", "svm": "hinge"}
SMOOTH = ("objective_perturbation", "output_perturbation_gd", "nonprivate")
#: Published settings. Output perturbation is tuned, to values that are not stated. Its program takes steps of
#: 1; its sensitivity holds up to 2/(l2 + beta) only, and 0.1 is the default in the algorithm's file.
PUBLISHED = {
    "dp_agd": {
        "splits": 60,
        "clip": 3.0,
        "loss_clip": 3.0,
        "step_max": 2.0,
        "growth": 0.1,
        "n_candidates": 20,
    }
    | {"step_window": 10, "momentum": 0.0, "shrink": 1.0, "average": False, "learn_scales": False},
    "objective_perturbation": {"clip": math.inf},
    "output_perturbation_gd": {"steps": 50, "step_size": 0.1, "clip": math.inf},
    "privgene": {"entry_bound": 1.0},
    "sgd_moments": {"clip": 4.0, "step_size": 0.05, "steps": 10_000},
    "sgd_advanced_composition": {"clip": 3.0, "step_size": 0.1},
}
RELATION = {"output_perturbation_gd": "replace_one"}
#: Not published, or without noise.
ONLY_DEFAULT = ("whitened_gd", "nonprivate", "majority")


def measure(
    mode: str, *, model: str, quantity: str, algorithm: str, data: str, repetitions: int, **settings: float
) -> tuple[float, float | None] | None:
    """Intercept, columns scaled by their range, ridge chosen without noise; `settings` of the algorithm."""
    if (mode == "default") != (algorithm in ONLY_DEFAULT):
        return None
    run = (mode, model, algorithm, data)
    return repeated(lambda seed: _fit(*run, seed, **settings)[quantity], repetitions)


@functools.cache
def _fit(mode: str, model: str, algorithm: str, data: str, seed: int, **settings: float) -> dict[str, float]:
    X, y, row_norm = records(data)
    train, test = fold(data, seed)
    epsilon, n, loss = settings["epsilon"], len(train), LOSSES[model]
    smooth = "huberized_hinge" if loss == "hinge" and algorithm in SMOOTH else loss
    l2 = tuned_ridge(data, loss)
    if algorithm == "objective_perturbation":  # rows of norm 1, and the ridge that its guarantee needs
        beta = dperm.Objective(smooth, X[:2], y[:2], row_norm=1.0, n_public=2).loss.smoothness(1.0)
        row_norm, l2 = 1.0, max(l2, 2.0 * beta / (epsilon * n))
    problem = dperm.Objective(
        smooth,
        X[train],
        y[train],
        l2=l2,
        row_norm=row_norm,
        fit_intercept=True,
        penalize_intercept=True,
        n_threads=1,
    )
    terms = _terms(mode, algorithm, epsilon, n) | settings | {"random_state": seed}
    if algorithm == "nonprivate":
        terms = {}
    call = getattr(algorithms, "dp_sgd" if algorithm.startswith("sgd") else algorithm)
    try:
        coef = call(problem, **terms).coef
    except ValueError as error:
        raise Refused(str(error)) from error

    def margins(rows: np.ndarray) -> np.ndarray:
        X_rows = X[rows]
        if row_norm == 1.0:  # as the objective does
            X_rows = np.column_stack([X_rows, np.ones(len(rows))])
            return y[rows] * (X_rows @ coef) / np.maximum(1.0, np.linalg.norm(X_rows, axis=1))
        return y[rows] * (X_rows @ coef[:-1] + coef[-1])

    on_train = margins(train)
    each = np.logaddexp(0.0, -on_train) if loss == "logistic" else np.maximum(0.0, 1.0 - on_train)
    objective = float(each.mean()) + 0.5 * tuned_ridge(data, loss) * float(coef @ coef)
    return {"accuracy": 100.0 * float(np.mean(margins(test) > 0.0)), "objective": objective}


def _terms(mode: str, algorithm: str, epsilon: float, n: int) -> dict:
    if algorithm == "majority":
        return {}
    terms = {"neighbors": RELATION.get(algorithm, "add_or_remove")}
    if mode == "default":
        return terms
    terms |= {"calibration": mode} | PUBLISHED[algorithm]
    if algorithm == "privgene":  # T = c n epsilon with the c of its own paper
        terms["generations"] = max(1, round(1.25e-3 * n * epsilon))
    if algorithm.startswith("sgd"):
        terms |= {"batch_size": int(math.sqrt(n)), "momentum": 0.0, "tail": 0.0, "learn_scales": False}
        terms.setdefault("steps", max(round(n * epsilon / 500.0), 1))
        if mode == "paper":
            terms["accountant"] = algorithm.removeprefix("sgd_")
    return terms
