"""Test accuracy in per cent on random fifths of the records."""

import numpy as np
from sklearn.model_selection import train_test_split

import dperm
from dperm import algorithms
from papers.framework import Refused
from papers.learning import records, repeated

LOSSES = {"logistic": "logistic", "svm": "huberized_hinge"}
#: What the programs of the paper set, without the terms of privacy.
PUBLISHED = {
    "dp_agd": {"splits": 60, "clip": 3.0, "loss_clip": 3.0},
    "output_perturbation_gd": {"steps": 50, "step_size": 0.1},
    "objective_perturbation": {},
    "privgene": {},
}
RELATION = {"output_perturbation_gd": "replace_one"}


def measure(
    mode: str, *, model: str, algorithm: str, data: str, epsilon: float, delta: float, repetitions: int
) -> tuple[float, float | None]:
    """Ridge 0.001, an intercept, columns scaled by their range."""
    X, y, row_norm = records(data)

    def accuracy(seed: int) -> float:
        rows, test, labels, truth = train_test_split(X, y, test_size=0.2, random_state=seed)
        problem = dperm.Objective(
            LOSSES[model],
            rows,
            labels,
            l2=1e-3,
            row_norm=row_norm,
            fit_intercept=True,
            penalize_intercept=True,
            n_threads=1,
        )
        terms = {"neighbors": RELATION.get(algorithm, "add_or_remove")}
        if mode != "default":
            terms |= PUBLISHED[algorithm] | {"calibration": mode}
        try:
            coef = getattr(algorithms, algorithm)(problem, epsilon, delta, random_state=seed, **terms).coef
        except ValueError as error:
            raise Refused(str(error)) from error
        return 100.0 * float(np.mean(np.sign(test @ coef[:-1] + coef[-1]) == truth))

    return repeated(accuracy, repetitions)
