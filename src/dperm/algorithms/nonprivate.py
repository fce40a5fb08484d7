"""The non-private optimum, by L-BFGS on the same kernels."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from dperm.algorithms.fit_result import Callback, FitResult, public_facts
from dperm.algorithms.requirements import needs
from dperm.objective import Objective
from dperm.privacy_statement import PrivacyStatement


@needs()
def nonprivate(
    objective: Objective,
    *,
    max_iter: int = 5000,
    tolerance: float = 1e-10,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise the objective exactly. NOTHING is protected.

    Parameters
    ----------
    objective : Objective
        Smooth losses converge to the optimum; for the hinge loss L-BFGS stops near it.
    max_iter : int
        Most L-BFGS iterations.
    tolerance : float
        Stop when no entry of the gradient of the mean objective is larger.
    callback : callable, optional
        Called with ``{"iteration", "coef"}``.

    Returns
    -------
    FitResult
        ``privacy.private`` is False.

    References
    ----------
    D. C. Liu, J. Nocedal, "On the limited memory BFGS method", 1989; the implementation is SciPy's.
    """
    iteration = 0

    def report(w: np.ndarray) -> None:
        nonlocal iteration
        iteration += 1
        if callback is not None:
            callback({"iteration": iteration, "coef": w.copy()})

    result = minimize(
        objective.value_and_gradient,
        np.zeros(objective.dimension),
        jac=True,
        method="L-BFGS-B",
        callback=report,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tolerance, "ftol": 1e-16, "maxcor": 30},
    )
    privacy = PrivacyStatement(
        epsilon=math.inf,
        delta=0.0,
        neighbors="add_or_remove",
        mechanism="none: the exact minimiser (L-BFGS)",
        accountant="none",
        row_norm=objective.row_norm,
        steps=int(result.nfev),
        non_finite=objective.non_finite,
        public=public_facts(objective),
    )
    return FitResult(coef=result.x, privacy=privacy, n_iter=int(result.nit))
