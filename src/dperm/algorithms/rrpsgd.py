"""Random-round private SGD for smooth losses, convex or not: Zhang et al., IJCAI 2017, Algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dperm._kernels.samplers import RandomBits
from dperm.accounting import PrivacyLedger, paper
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.random_rounds import largest_rounds, random_round_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.noisy_descent import (
    NoisyDescentSchedule,
    check_calibration,
    noisy_descent,
    opened,
)
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules import sgd_step_size, small_batches, usual_clip
from dperm.algorithms.settings import setting
from dperm.algorithms.step_sizes import StepSize, StepSizes, step_sizes
from dperm.mechanisms.random_source import RandomState, random_bits
from dperm.mechanisms.sampling import uniform_integers
from dperm.objective.bounded_descent import gradient_bound
from dperm.objective.objective import Array, Objective

_cached_noise_multiplier = lru_cache(maxsize=256)(random_round_noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class RRPSGDSchedule(NoisyDescentSchedule):
    """Settings of :func:`rrpsgd`."""

    rounds: int = setting(check.step_count)
    burn_in: float = setting(check.below_one)


#: Default burn-in: an R among the first rounds leaves the weights near the start.
_BURN_IN = 0.5


@needs(smooth=True, linear_prediction=True, random_access=True)
def rrpsgd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    rounds: int | None = None,
    burn_in: float | None = None,
    batch_size: int | None = None,
    step_size: StepSize | None = None,
    clip: float | None = None,
    radius: float = math.inf,
    noise: str = "exact",
    report_every: int | None = None,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Descend along noisy gradients of single records for a random number of rounds.

    Pseudo-code, guarantee and proof: :doc:`/theory/rrpsgd`.

    Parameters
    ----------
    objective : Objective
        With a smooth loss, convex or not.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    rounds : int, optional
        Largest number of rounds N, at least 2; n^2 in the paper, by default 50 passes over the records,
        at most n^2. For ``10^9`` rounds and more raise :data:`dperm.algorithms.settings.MAX_STEPS`.
    burn_in : float, optional
        Portion of the rounds, from the first on, that R is not drawn from; in [0, 1). 0 in the paper, by
        default 0.5: an R among the first rounds leaves the weights near the start.
    batch_size : int, optional
        Records per step, 1 in the paper; by default ``sqrt(n)/2``.
    step_size : float, str, mapping or callable, optional
        Step on the mean gradient. One number, or ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in
        ``"0.5/sqrt(t)"``; a mapping from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a
        function of the step 1, 2, ... Below ``2 / (l2 + beta)``. By default it minimises a bound on the
        risk: ``min(1 / (l2 + beta), R / sqrt(N (G^2 + d sigma^2)))``.
    clip : float, optional
        Bound on the norm of one record's gradient. By default that of :mod:`dperm.algorithms.rules`; with
        ``calibration="paper"`` or a `radius` the loss's Lipschitz constant.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    noise : {"exact", "float"}
        "float": floating-point noise, for long runs; the guarantee is idealised.
    report_every : int, optional
        Steps between two calls of `callback`; by default one pass.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 4 (``batch_size=1``, ``replace_one``, no burn-in), if the claim holds.
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
        ``coef`` is ``w_(R-1)``, ``n_iter`` is ``R - 1``.

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    The probability that R is t, from 1 to N, is proportional to ``2 eta_t - (l2 + beta) eta_t^2``: uniform
    for constant steps (Ghadimi and Lan 2013), and 0 during the burn-in. R and all iterates may be published.
    The guarantee holds on average over R, not given R, and so does the cost: a ledger is charged first, and
    then R is drawn, so that nothing that others may spend depends on R.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (100, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = rrpsgd(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> result.coef.shape, result.privacy.sampling
    ((2,), 'poisson')
    """
    given = RRPSGDSchedule.checked(
        rounds=rounds, burn_in=burn_in, batch_size=batch_size, step_size=step_size, clip=clip, radius=radius,
        noise=noise, report_every=report_every,
    )  # fmt: skip
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        return _rrpsgd(fit, given)


def _rrpsgd(fit: Fit, given: dict[str, Any]) -> FitResult:
    given = {"burn_in": 0.0 if fit.as_published else _BURN_IN, **given}
    size, rounds = small_batches(fit.n, 1 if fit.as_published else given.get("batch_size"))
    given = {"batch_size": size, "rounds": min(rounds, fit.n**2), **given}
    fit.check_batch_size(given["batch_size"])
    if given["rounds"] < 2:
        raise ValueError(
            f"rounds must be at least 2, got {given['rounds']}: their number is drawn from 0 to rounds - 1"
        )
    law = _RoundLaw.of(fit.problem, given)
    sigma_over_clip = _sigma_over_clip(fit, given, law)
    schedule = _completed(fit, given, sigma_over_clip)
    bits = random_bits(fit.spawn_source())
    release = opened(
        fit,
        "rrpsgd",
        schedule,
        sigma_over_clip,
        counts=law.counts(),
        accountant="pld, averaged over the random number of rounds",
    )
    steps = law.draw(bits) - 1  # only now: what is charged holds on average over R, not given R
    coef = noisy_descent(fit, release, schedule, sigma_over_clip, bits, steps=steps, average=False)
    mechanism = "Gaussian noise on the sum of every batch; random number of rounds"
    return fit.result(coef, mechanism, n_iter=steps, clip=schedule.clip)


def _completed(fit: Fit, given: Mapping[str, Any], sigma_over_clip: float) -> RRPSGDSchedule:
    """The given settings, completed by the one rule."""
    problem, radius = fit.problem, given["radius"]
    unclipped = fit.as_published or radius < math.inf
    clip = given.get("clip", math.inf if unclipped else usual_clip(problem))
    clip = gradient_bound(problem.loss, problem.row_norm, radius, clip)
    size = given.get("step_size") or sgd_step_size(
        problem,
        steps=given["rounds"],
        batch_size=given["batch_size"],
        clip=clip,
        sigma_over_clip=sigma_over_clip,
        radius=radius,
    )
    if "step_size" not in given:
        size = min(size, 1.0 / (problem.loss.smoothness(problem.row_norm) + problem.l2))
    return RRPSGDSchedule(**{**given, "clip": clip, "step_size": size})


class _RoundLaw(NamedTuple):
    """The distribution of R."""

    rounds: int  # N
    first: int  # the least R
    weights: Array | None  # probabilities of R = 1 .. N as proportional integers; None for a uniform R

    @classmethod
    def of(cls, problem: PublicProblem, given: Mapping[str, Any]) -> _RoundLaw:
        """Sums of the integers are exact doubles: R is drawn from exactly the law that is accounted for."""
        rounds, size = given["rounds"], given.get("step_size")
        first = min(int(given["burn_in"] * rounds) + 1, rounds)
        uniform = cls(rounds, first, None)
        if size is None:
            return uniform
        smoothness = problem.loss.smoothness(problem.row_norm) + problem.l2
        sizes = step_sizes(size, rounds)
        if not sizes.max() * smoothness < 2.0:
            limit = 2.0 / smoothness
            raise ValueError(f"step_size must be below 2/(l2 + beta) = {limit:.6g}, got {sizes.max():.6g}")
        if not isinstance(size, StepSizes):
            return uniform
        law = paper.round_probabilities(sizes, smoothness)
        law[: first - 1] = 0.0
        return cls(rounds, first, np.asarray(np.floor(law / law.max() * 2.0 ** (52 - rounds.bit_length()))))

    def counts(self) -> list[int]:
        """Equally likely numbers of steps; their law bounds that of R - 1 from above."""
        first = self.first if self.weights is None else 1
        rounds = largest_rounds(self.rounds, self.weights, first=first)
        return [int(count) - 1 for count in rounds]

    def draw(self, bits: RandomBits) -> int:
        """R."""
        if self.weights is None:
            return self.first + int(uniform_integers(bits, self.rounds - self.first + 1, 1)[0])
        below = np.cumsum(self.weights)
        drawn = uniform_integers(bits, int(below[-1]), 1)[0]
        return 1 + int(np.searchsorted(below, float(drawn), side="right"))


def _sigma_over_clip(fit: Fit, given: Mapping[str, Any], law: _RoundLaw) -> float:
    """Standard deviation of the noise on a batch's sum, relative to the clip."""
    fit.check_published("rrpsgd", neighbors=None)
    batch_size, rounds = given["batch_size"], given["rounds"]
    if not fit.as_published:
        check_calibration(fit, batch_size, rounds - 1)
        plan = fit.epsilon, fit.delta, fit.n, batch_size, rounds
        if law.weights is None:
            return _cached_noise_multiplier(*plan, neighbors=fit.neighbors, first_round=law.first)
        return random_round_noise_multiplier(*plan, neighbors=fit.neighbors, round_weights=law.weights)
    one = batch_size == 1 and given["burn_in"] == 0.0
    if not one or rounds > fit.n**2 or fit.neighbors is not Neighbours.REPLACE_ONE:
        raise ValueError(
            "calibration='paper' is for batch_size=1, burn_in=0, at most n^2 rounds and "
            "neighbors='replace_one'"
        )
    return paper.rrpsgd(fit.epsilon, fit.delta, n_samples=fit.n)
