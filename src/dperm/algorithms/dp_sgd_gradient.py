"""Stochastic gradient descent with noise on every gradient, for losses with kinks.

Wang, Lei, Ying and Zhang 2022, Algorithm 2, with small batches as in Bassily et al., NeurIPS 2019.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dperm.accounting import PrivacyLedger, noise_multiplier, paper
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.sgd_calibration import noise_multiplier_after
from dperm.algorithms import settings as check
from dperm.algorithms.defaults import dp_sgd_gradient as defaults
from dperm.algorithms.defaults.dp_sgd_gradient import NoisyBatches
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.noisy_descent import (
    NoisyDescentSchedule,
    check_calibration,
    noisy_descent,
    opened,
    sampling_name,
    start_to_learn,
)
from dperm.algorithms.preconditioner import Preconditioner
from dperm.algorithms.private_scales import ScaleNoise, scale_facts
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import setting
from dperm.algorithms.step_sizes import StepSize
from dperm.mechanisms.random_source import RandomState, random_bits
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
    learn_scales: bool | str = "auto",
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
        T; by default 50 passes over the records, and without noise at least ``2e7`` gradients of records.
    batch_size : int, optional
        Records per step, a fresh set of them each time; 1 in the paper. By default the power of 2 that
        minimises a bound on the risk, from public numbers, among those with at most 100,000 steps.
    step_size : float, str, mapping or callable, optional
        Step on the mean gradient. One number, or ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in
        ``"0.5/sqrt(t)"``; a mapping from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a
        function of the step 1, 2, ... By default
        ``R / sqrt(T (G^2 + d sigma^2))``, with R the radius or an estimate from `row_norm` and the target
        bound, and at most ``1 / (l2 + beta)``, with beta the smoothness or an estimate at a kink.
    clip : float, optional
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it. By default from
        public numbers: see :func:`dperm.algorithms.defaults.rules.typical_clip`, or the longest gradient for
        a loss that is steeper on one side; with a `radius`, the loss's bound there.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    output : {"average", "last"}
        Mean of the iterates ``w_1 .. w_T`` or ``w_(T+1)``.
    noise : {"exact", "float"}
        "float": floating-point noise, for long runs; the guarantee is idealised.
    report_every : int, optional
        Steps between two calls of `callback`; by default one pass.
    learn_scales : {"auto", True, False}
        Whether to spend part of the budget on a bound on the row norms, and on the mean label or the best
        constant prediction of real targets and their distance from it, first. Clip and step size follow from
        these, and the descent starts there; columns keep their scales. "auto": as for :func:`noisy_gd`.
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
    loss. Without noise the default settings end within 1e-3 of the optimum on problems of a few thousand
    records; an unbounded slope is clipped at 20 times the slope at the weights 0.

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
        return _dp_sgd_gradient(fit, given, learn_scales)


def _dp_sgd_gradient(fit: Fit, given: Mapping[str, Any], learn_scales: bool | str) -> FitResult:
    fit.check_batch_size(given.get("batch_size", 1))
    scales, noise = start_to_learn(fit, learn_scales, given)
    problem = fit.problem.without(scales.together)
    if fit.as_published:
        batches = _published_batches(fit, given)
    else:
        batches = _calibrated_batches(fit, given, problem, noise)
    completed = functools.partial(_completed, fit, given, batches)
    bits = random_bits(fit.spawn_source())
    release = opened(
        fit,
        "dp_sgd_gradient",
        completed(problem),
        batches.sigma_over_clip,
        counts=[batches.steps],
        accountant="pld",
        scales=noise,
        **scale_facts(scales),
    )
    preconditioner = Preconditioner.unscaled(fit, release, noise, problem)
    schedule = completed(preconditioner.problem)
    coef = noisy_descent(
        fit,
        release,
        schedule,
        batches.sigma_over_clip,
        bits,
        steps=batches.steps,
        average=schedule.output == "average",
        start=preconditioner.start,
    )
    mechanism = preconditioner.description("Gaussian noise on the sum of every batch")
    return fit.result(coef, mechanism, n_iter=batches.steps, clip=schedule.clip)


def _completed(
    fit: Fit, given: Mapping[str, Any], batches: NoisyBatches, problem: PublicProblem
) -> DPSGDGradientSchedule:
    """All settings for this problem."""
    clip = defaults.bounded_clip(problem, given, as_published=fit.as_published)
    size = given.get("step_size")
    if size is None:
        size = defaults.default_step_size(problem, clip, given["radius"], batches)[0]
    chosen = {"clip": clip, "batch_size": batches.size, "steps": batches.steps, "step_size": size}
    return DPSGDGradientSchedule(**{**given, **chosen})


def _calibrated_batches(
    fit: Fit, given: Mapping[str, Any], problem: PublicProblem, noise: ScaleNoise
) -> NoisyBatches:
    """Batches, steps and noise, for the batch size with the smallest bound on the risk."""
    size = given.get("batch_size") or defaults.default_batch_size(problem, given)
    steps = given.get("steps") or defaults.default_steps(problem, size)
    check_calibration(fit, size, steps)
    plan: dict[str, Any] = {
        "batch_size": size,
        "n_samples": fit.n,
        "steps": steps,
        "sampling": sampling_name(fit.neighbors),
        "neighbors": fit.neighbors,
    }
    if noise.releases:
        sigma_over_clip = noise_multiplier_after(noise.mu, fit.epsilon, fit.delta, **plan)
    else:
        sigma_over_clip = noise_multiplier(fit.epsilon, fit.delta, **plan)
    return NoisyBatches(size, steps, sigma_over_clip)


def _published_batches(fit: Fit, given: Mapping[str, Any]) -> NoisyBatches:
    """Theorem 11."""
    fit.check_published("dp_sgd_gradient", neighbors=None)
    replaces = fit.neighbors is Neighbours.REPLACE_ONE
    if given.get("batch_size", 1) != 1 or not replaces or given["radius"] == math.inf:
        raise ValueError(
            "calibration='paper' is for batch_size=1, neighbors='replace_one' and a finite radius"
        )
    count = given.get("steps", fit.n)
    return NoisyBatches(1, count, paper.sgd_gradient(fit.epsilon, fit.delta, n_samples=fit.n, steps=count))
