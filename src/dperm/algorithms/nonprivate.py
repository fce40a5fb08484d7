"""The non-private optimum, by L-BFGS on the same kernels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from dperm._config import check_ledger_is_given
from dperm.algorithms.defaults.constants import NonPrivate
from dperm.algorithms.fit import Callback, FitResult, exact_statement
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_callback, positive, step_count
from dperm.objective.objective import Array, Objective


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
        Smooth convex losses converge to the optimum. A loss with kinks is smoothed less and less. For a
        non-convex loss L-BFGS finds a local minimum from 0, and the result says so.
    max_iter : int
        Largest number of L-BFGS iterations, per smoothed loss.
    tolerance : float
        Stop when no entry of the gradient of the mean objective is larger.
    callback : callable, optional
        Called with ``{"iteration", "coef"}``.

    Returns
    -------
    FitResult
        ``privacy.private`` is False. For a convex loss the last entry of ``history`` is a certificate: the
        objective at distance ``D`` from the result is lower by at most ``bias + gradient_norm * D``.

    Notes
    -----
    The implementation of L-BFGS is SciPy's. Kinks are smoothed by ramps whose curvature grows from run to
    run: :doc:`/theory/nonprivate`.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = nonprivate(objective)
    >>> np.sign(result.coef), result.privacy.private
    (array([ 1., -1.]), False)
    """
    check_ledger_is_given(None)
    max_iter, tolerance = step_count("max_iter", max_iter), positive("tolerance", tolerance)
    check_callback(callback)
    iteration = 0

    def report(w: Array) -> None:
        nonlocal iteration
        iteration += 1
        if callback is not None:
            callback({"iteration": iteration, "coef": w.reshape(objective.shape).copy()})

    w, accesses = np.zeros(objective.dimension), 0
    for smooth, bias in _smooth_objectives(objective):
        result = minimize(
            _of_flat_weights(smooth),
            w,
            jac=True,
            method="L-BFGS-B",
            callback=report,
            options={
                "maxiter": max_iter,
                "maxfun": 2 * max_iter,
                "gtol": tolerance,
                "ftol": NonPrivate.PRECISION,
                "maxcor": 30,
            },
        )
        w, accesses = result.x, accesses + int(result.nfev)
        certificate = {"bias": bias, "gradient_norm": math.sqrt(result.jac @ result.jac)}
    privacy = exact_statement(objective, f"none: {_what_was_found(objective)} (L-BFGS)", accesses)
    history = [certificate] if objective.loss.convex else []
    return FitResult(coef=w.reshape(objective.shape), privacy=privacy, n_iter=iteration, history=history)


def _of_flat_weights(objective: Objective) -> Callable[[Array], tuple[float, Array]]:
    """Value and gradient as functions of a vector."""

    def value_and_gradient(w: Array) -> tuple[float, Array]:
        value, gradient = objective.value_and_gradient(w.reshape(objective.shape))
        return value, gradient.ravel()

    return value_and_gradient


def _smooth_objectives(objective: Objective) -> list[tuple[Objective, float]]:
    """Smooth objectives that approach the given one, each with the bias by which it exceeds it."""
    loss = objective.loss
    if loss.kink_jump == 0.0:
        return [(objective, 0.0)]
    at_zero = objective.value(np.zeros(objective.shape))
    sequence = []
    for fraction in NonPrivate.BIASES:
        curvature = loss.kink_jump**2 / (NonPrivate.RAMP * max(fraction * at_zero, 2.0**-60))
        curvature = min(max(curvature, loss.least_curvature), 2.0**60)
        smooth = objective.with_loss(loss.smoothed(curvature))
        sequence.append((smooth, loss.kink_jump**2 / (NonPrivate.RAMP * curvature)))
    return sequence


def _what_was_found(objective: Objective) -> str:
    if not objective.loss.convex:
        return f"a local minimum of the {objective.loss.name} objective, which is not convex"
    if objective.loss.kink_jump > 0.0:
        return "the minimiser, of losses smoothed less and less"
    return "the exact minimiser"
