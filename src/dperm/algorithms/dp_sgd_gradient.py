"""Stochastic gradient descent with noise on every gradient, for losses with kinks.

Wang, Lei, Ying and Zhang 2022, Algorithm 2, with small batches as in Bassily et al., NeurIPS 2019.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dperm.accounting import PrivacyLedger, noise_multiplier, paper
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.noisy_descent import (
    NoisyDescentSchedule,
    check_calibration,
    noisy_descent,
    opened,
    sampling_name,
)
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules import sgd_step_size, small_batches, usual_clip
from dperm.algorithms.settings import setting
from dperm.algorithms.step_sizes import StepSize
from dperm.mechanisms.random_source import RandomState, random_bits
from dperm.objective.bounded_descent import gradient_bound
from dperm.objective.objective import Objective


@dataclass(frozen=True, kw_only=True)
class DPSGDGradientSchedule(NoisyDescentSchedule):
    """Settings of :func:`dp_sgd_gradient`."""

    steps: int = setting(check.step_count)
    output: str = setting(check.one_of("average", "last"), "average")


@needs(convex=True, linear_prediction=True, random_access=True)
def dp_sgd_gradient(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    steps: int | None = None,
    batch_size: int | None = None,
    step_size: StepSize | None = None,
    clip: float | None = None,
    radius: float = math.inf,
    output: str = "average",
    noise: str = "exact",
    report_every: int | None = None,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by stochastic gradient descent with Gaussian noise on every gradient.

    Pseudo-code, guarantee and proof: :doc:`/theory/dp_sgd_gradient`.

    Parameters
    ----------
    objective : Objective
        With a convex loss of a linear prediction, smooth or not.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    steps : int, optional
        T; by default 50 passes over the records.
    batch_size : int, optional
        Records per step, a fresh set of them each time; 1 in the paper, by default half of sqrt(n).
    step_size : float, str, mapping or callable, optional
        Step on the mean gradient. One number, or ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in
        ``"0.5/sqrt(t)"``; a mapping from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a
        function of the step 1, 2, ... By default
        ``R / sqrt(T (G^2 + d sigma^2))``, with R the radius or an estimate from `row_norm` and the target
        bound, and at most ``1 / (l2 + beta)``, with beta the smoothness or an estimate at a kink.
    clip : float, optional
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it. By default that
        of :mod:`dperm.algorithms.rules`; with a `radius`, the loss's bound there.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    output : {"average", "last"}
        Mean of the iterates ``w_1 .. w_T`` or ``w_(T+1)``.
    noise : {"exact", "float"}
        "float": floating-point noise, for long runs; the guarantee is idealised.
    report_every : int, optional
        Steps between two calls of `callback`; by default one pass.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 11 (``batch_size=1``, ``replace_one``, a radius) with the feasible beta
        of least noise, if there is one.
    neighbors : {"add_or_remove", "replace_one"}, optional
        A batch is a Poisson sample of rate ``batch_size / n`` (add_or_remove), or a fresh set of fixed size
        (replace_one). By default the ledger's relation, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called with ``{"iteration", "coef"}``, released values.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    All iterates are (epsilon, delta)-DP. The guarantee relies on the clip alone, not on properties of the
    loss.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("hinge", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_sgd_gradient(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    given = DPSGDGradientSchedule.checked(
        steps=steps, batch_size=batch_size, step_size=step_size, clip=clip, radius=radius, output=output,
        noise=noise, report_every=report_every,
    )  # fmt: skip
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        return _dp_sgd_gradient(fit, given)


def _dp_sgd_gradient(fit: Fit, given: Mapping[str, Any]) -> FitResult:
    size, steps = small_batches(fit.n, given.get("batch_size"))
    if fit.as_published:
        size, steps = 1, fit.n
    steps = given.get("steps", steps)
    fit.check_batch_size(size)
    sigma_over_clip = _published_noise(fit, given, steps) if fit.as_published else _noise(fit, size, steps)
    problem, radius = fit.problem, given["radius"]
    unclipped = fit.as_published or radius < math.inf
    clip = given.get("clip", math.inf if unclipped else usual_clip(problem))
    clip = gradient_bound(problem.loss, problem.row_norm, radius, clip)
    step_size = given.get("step_size") or sgd_step_size(
        problem, steps=steps, batch_size=size, clip=clip, sigma_over_clip=sigma_over_clip, radius=radius
    )
    chosen = {"clip": clip, "batch_size": size, "steps": steps, "step_size": step_size}
    schedule = DPSGDGradientSchedule(**{**given, **chosen})
    bits = random_bits(fit.spawn_source())
    release = opened(fit, "dp_sgd_gradient", schedule, sigma_over_clip, counts=[steps], accountant="pld")
    coef = noisy_descent(
        fit, release, schedule, sigma_over_clip, bits, steps=steps, average=schedule.output == "average"
    )
    return fit.result(coef, "Gaussian noise on the sum of every batch", n_iter=steps, clip=clip)


def _noise(fit: Fit, size: int, steps: int) -> float:
    """Standard deviation of the noise on a batch's sum, relative to the clip."""
    check_calibration(fit, size, steps)
    return noise_multiplier(
        fit.epsilon,
        fit.delta,
        batch_size=size,
        n_samples=fit.n,
        steps=steps,
        sampling=sampling_name(fit.neighbors),
        neighbors=fit.neighbors,
    )


def _published_noise(fit: Fit, given: Mapping[str, Any], steps: int) -> float:
    """Theorem 11."""
    fit.check_published("dp_sgd_gradient", neighbors=None)
    replaces = fit.neighbors is Neighbours.REPLACE_ONE
    if given.get("batch_size", 1) != 1 or not replaces or given["radius"] == math.inf:
        raise ValueError(
            "calibration='paper' is for batch_size=1, neighbors='replace_one' and a finite radius"
        )
    return paper.sgd_gradient(fit.epsilon, fit.delta, n_samples=fit.n, steps=steps)
