"""SGD on the hinge loss: test accuracy in per cent."""

import numpy as np

import dperm
from dperm import algorithms
from papers.framework import Refused
from papers.learning import fold, records, repeated


def measure(
    mode: str, *, data: str, method: str, epsilon: float, radius: float, repetitions: int
) -> tuple[float, float | None]:
    """Rows of norm 1, delta = 1/n^2; n steps of R/sqrt(n) on single records, in a ball."""
    X, y, _ = records(data)

    def accuracy(seed: int) -> float:
        train, test = fold(data, seed)
        problem = dperm.Objective("hinge", X[train], y[train], row_norm=1.0, fit_intercept=True, n_threads=1)
        n = len(train)
        terms = {"neighbors": "replace_one", "random_state": seed, "calibration": mode, "clip": 1.0}
        terms |= {"radius": radius, "batch_size": 1, "step_size": radius / n**0.5}
        if method == "output":
            terms |= {"passes": 1, "sampling": "uniform", "output": "average", "smooth_kink": False}
        else:
            terms |= {"steps": n, "output": "average"}
        try:
            coef = getattr(algorithms, f"dp_sgd_{method}")(problem, epsilon, n**-2.0, **terms).coef
        except ValueError as error:
            raise Refused(str(error)) from error
        return 100.0 * float(np.mean(np.sign(X[test] @ coef[:-1] + coef[-1]) == y[test]))

    return repeated(accuracy, repetitions)
