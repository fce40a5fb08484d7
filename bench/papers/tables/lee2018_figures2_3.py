"""Test accuracy in per cent, mean over folds."""

import math

import numpy as np

import dperm
from dperm import algorithms
from papers.framework import Refused
from papers.learning import fold, records, repeated

LOSSES = {"logistic": "logistic", "svm": "huberized_hinge"}
#: Settings of the authors' programs. Their output perturbation takes steps of 1, but its sensitivity holds up
#: to 2/(l2 + beta) only; 0.1 is the default in the file of the algorithm itself.
PUBLISHED = {
    "dp_agd": {"splits": 60, "clip": 3.0, "loss_clip": 3.0},
    "objective_perturbation": {"clip": math.inf},
    "output_perturbation_gd": {"steps": 50, "step_size": 0.1, "clip": math.inf},
    "privgene": {"entry_bound": 1.0},
    "sgd_moments": {"clip": 4.0, "step_size": 0.05, "steps": 10_000, "momentum": 0.0, "tail": 0.0},
    "sgd_advanced_composition": {"clip": 3.0, "step_size": 0.1, "momentum": 0.0, "tail": 0.0},
}
RELATION = {"output_perturbation_gd": "replace_one"}
#: Not published, or without noise.
ONLY_DEFAULT = ("whitened_gd", "nonprivate", "majority")


def measure(
    mode: str, *, model: str, algorithm: str, data: str, repetitions: int, **settings: float
) -> tuple[float, float | None] | None:
    """Ridge 0.001, an intercept, columns scaled by their range; `settings` of the algorithm."""
    if mode != "default" and algorithm in ONLY_DEFAULT:
        return None
    X, y, row_norm = records(data)
    run = getattr(algorithms, "dp_sgd" if algorithm.startswith("sgd") else algorithm)

    def accuracy(seed: int) -> float:
        train, test = fold(data, seed)
        problem = dperm.Objective(
            LOSSES[model],
            X[train],
            y[train],
            l2=1e-3,
            row_norm=row_norm,
            fit_intercept=True,
            penalize_intercept=True,
            n_threads=1,
        )
        terms = _terms(mode, algorithm, settings["epsilon"], len(train)) | settings | {"random_state": seed}
        try:
            coef = run(problem, **({} if algorithm == "nonprivate" else terms)).coef
        except ValueError as error:
            raise Refused(str(error)) from error
        return 100.0 * float(np.mean(np.sign(X[test] @ coef[:-1] + coef[-1]) == y[test]))

    return repeated(accuracy, repetitions)


def _terms(mode: str, algorithm: str, epsilon: float, n: int) -> dict:
    if algorithm == "majority":
        return {}
    terms = {"neighbors": RELATION.get(algorithm, "add_or_remove")}
    if mode != "default":
        terms |= {"calibration": mode} | PUBLISHED.get(algorithm, {})
    if mode != "default" and algorithm.startswith("sgd"):
        terms |= {"batch_size": int(math.sqrt(n) + 10)}
        terms.setdefault("steps", max(round(n * epsilon / 500.0), 1))
        if mode == "paper":
            terms["accountant"] = algorithm.removeprefix("sgd_")
    return terms
