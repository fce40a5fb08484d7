"""Random-round private SGD for smooth losses, convex or not: Zhang et al., IJCAI 2017, Algorithm 2."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dperm._kernels.samplers import RandomBits
from dperm.accounting import Neighbours, paper, random_round_noise_multiplier
from dperm.accounting.random_rounds import largest_rounds
from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms import rules_of_thumb as rules
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.learned_coordinates import Frame
from dperm.algorithms.noisy_descent import (
    NoisyDescentArguments,
    check_calibration,
    noisy_descent,
    opened,
    start_to_learn,
)
from dperm.algorithms.private_scales import LearnedScales, ScaleNoise
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Setting
from dperm.algorithms.step_sizes import StepSizes, step_sizes
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.sampling import uniform_integers
from dperm.objective.bounded_descent import gradient_bound
from dperm.objective.objective import Array

# Passes of the default number of rounds: for batches, and for single records, whose noise takes longer.
_PASSES, _PASSES_BY_RECORD = 80, 20
# Default batch size, times sqrt(n): larger batches have less noise, smaller ones make more rounds.
_BATCH = 0.5
# Default clip, in units of `typical_clip`: the last iterate has the whole noise of a step. For labels it is 1
# if many rows attain the bound on their norm, as slopes above 0.6 are frequent.
_CLIP = 0.6
# Distance to travel, in units of `typical_reach`: for labels or under a ridge term, and for real targets.
_REACH, _REACH_FOR_TARGETS = 0.15, 0.5
# The same for real targets whose spread is known, from this signal-to-noise number on; below in proportion.
_REACH_FROM_CONSTANT, _FULL_REACH_SIGNAL = 1.0, 20.0
_BURN_IN = 0.5
# Without noise: least number of gradient evaluations, and batch size.
_EXACT_GRADIENTS, _EXACT_BATCH = 1e8, 64

_cached_noise_multiplier = lru_cache(maxsize=256)(random_round_noise_multiplier)


class RRPSGDArguments(LearnedScales, NoisyDescentArguments):
    """Arguments of :func:`rrpsgd`.

    Attributes
    ----------
    learn_scales : {"auto", True, False}
        As for :func:`dperm.algorithms.dp_sgd_gradient`.
    rounds : int
        Largest number of rounds N, at least 2; n^2 in the paper. By default 80 passes over the records, or 20
        with a batch size of 1, and no more than n^2; without noise at least ``1e8`` gradients of records. For
        ``10^9`` rounds and more raise :data:`dperm.algorithms.settings.MAX_STEPS`.
    burn_in : float
        Portion of the rounds, from the first on, that R is not drawn from; in [0, 1). 0 in the paper, by
        default 0.5: an R among the first rounds leaves the weights near the start.
    """

    rounds: Setting[int] = Setting(check.step_count)
    burn_in: Setting[float] = Setting(check.below_one)


@algorithm(RRPSGDArguments, smooth=True, linear_prediction=True, random_access=True)
def rrpsgd(fit: Fit, given: RRPSGDArguments) -> FitResult:
    """Descend along noisy gradients of single records for a random number of rounds.

    Parameters
    ----------
    objective : Objective
        With a smooth loss, convex or not.
    batch_size : int, optional
        Records per step, 1 in the paper; by default ``sqrt(n)/2``, and without noise up to 64.
    step_size : float, str, mapping or callable, optional
        eta, below ``2 / (l2 + beta)``. By default it minimises a bound on the risk. One number, or
        ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in ``"0.5/sqrt(t)"``; a mapping from steps to the
        sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a function of the step 1, 2, .., rounds.
    clip : float, optional
        Bound on the norm of one record's gradient. By default 0.6 times
        :func:`dperm.algorithms.rules_of_thumb.typical_clip`, or once for labels if the row norm is learned,
        and for real targets at least as much as a ridge term keeps harmless; with ``calibration="paper"`` the
        loss's Lipschitz constant, and without noise that or, if there is none, 20 times the slope at the
        weights 0.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 4 (``batch_size=1``, ``replace_one``, no burn-in), if the claim holds.

    Returns
    -------
    FitResult
        ``coef`` is ``w_(R-1)``, ``n_iter`` is ``R - 1``.

    Notes
    -----
    The probability that R is t, from 1 to N, is proportional to ``2 eta_t - (l2 + beta) eta_t^2``: uniform
    for constant steps (Ghadimi and Lan 2013), and 0 during the burn-in. R and all iterates may be published.
    The guarantee holds on average over R, not given R, and so does the cost: a ledger is charged first, and
    then R is drawn, so that nothing that others may spend depends on R.
    Without noise the default settings end within 1e-3 of the optimum, or near a stationary point, if the loss
    is not convex. Without a burn-in they do not where R is among the first few per cent of N.

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
    given = given.completed(
        batch_size=_default_batch_size(fit),
        burn_in=0.0 if fit.as_published else _BURN_IN,
    )
    fit.check_batch_size(given.batch_size)
    given = given.completed(rounds=_default_rounds(fit, given.batch_size))
    if given.rounds < 2:
        raise ValueError(
            f"rounds must be at least 2, got {given.rounds}: their number is drawn from 0 to rounds - 1"
        )
    scales, noise = start_to_learn(fit, given)
    problem = fit.problem.without(scales.together)
    law = _RoundLaw.of(fit, given)
    sigma_over_clip = _sigma_over_clip(fit, given, law, noise)
    bits = random_bits(fit.spawn_source())
    release = opened(
        fit,
        "rrpsgd",
        _completed(fit, given, sigma_over_clip, problem),
        sigma_over_clip,
        counts=law.counts(),
        accountant="pld, averaged over the random number of rounds",
        scales=noise,
        **scales.facts(),
    )
    steps = law.draw(bits) - 1  # only now: what is charged holds on average over R, not given R
    frame = Frame.unscaled(fit, release, noise, problem)
    schedule = _completed(fit, given, sigma_over_clip, frame.problem)
    coef = noisy_descent(
        fit, release, schedule, sigma_over_clip, bits, steps=steps, average=False, start=frame.start
    )
    mechanism = frame.in_words("Gaussian noise on the sum of every batch; random number of rounds")
    return fit.result(coef, mechanism, n_iter=steps, clip=schedule.clip)


def _completed(
    fit: Fit, given: RRPSGDArguments, sigma_over_clip: float, problem: PublicProblem
) -> RRPSGDArguments:
    """All settings for this problem."""
    given = given.completed(clip=_default_clip(fit, given.radius, problem))
    clip = gradient_bound(problem.loss, problem.row_norm, given.radius, given.clip)
    given = replace(given, clip=clip)
    return given.completed(step_size=_default_step_size(fit, given, sigma_over_clip, problem))


def _default_batch_size(fit: Fit) -> int:
    if fit.as_published:
        return 1
    if fit.epsilon == math.inf:
        return min(fit.n, _EXACT_BATCH)
    return max(1, int(_BATCH * math.sqrt(fit.n)))


def _default_clip(fit: Fit, radius: float, problem: PublicProblem) -> float:
    """Infinite where the bound on gradients from the loss or the radius is the clip."""
    loss, row_norm = problem.loss, problem.row_norm
    if fit.as_published:
        return math.inf
    if fit.epsilon == math.inf:
        return rules.exact_clip(loss, row_norm) if radius == math.inf else math.inf
    longest = rules.longest_gradient(loss, row_norm, noisy=True, spread=problem.spread)
    share = 1.0 if problem.attained and loss.classification else _CLIP
    clip = share * min(longest, rules.typical_clip(problem))
    if loss.classification:
        return clip
    return max(clip, min(rules.share_under_ridge(problem, longest), 1.0) * longest)


def _default_rounds(fit: Fit, batch_size: int) -> int:
    passes = (_PASSES if batch_size > 1 else _PASSES_BY_RECORD) * fit.n // batch_size
    if fit.epsilon == math.inf:
        most = max(passes, int(_EXACT_GRADIENTS) // batch_size)
    else:
        most = min(fit.n**2, passes)
    return min(max(2, most), check.MAX_STEPS - 1)


class _RoundLaw(NamedTuple):
    """The distribution of R."""

    rounds: int  # N
    first: int  # the least R
    weights: Array | None  # probabilities of R = 1 .. N as proportional integers; None for a uniform R

    @classmethod
    def of(cls, fit: Fit, given: RRPSGDArguments) -> _RoundLaw:
        """Sums of the integers are exact doubles: R is drawn from exactly the law that is accounted for."""
        rounds = given.rounds
        first = min(int(given.burn_in * rounds) + 1, rounds)
        uniform = cls(rounds, first, None)
        if given.step_size is None:
            return uniform
        sizes, smoothness = step_sizes(given.step_size, rounds), _smoothness(fit.problem)
        if not sizes.max() * smoothness < 2.0:
            limit = 2.0 / smoothness
            raise ValueError(f"step_size must be below 2/(l2 + beta) = {limit:.6g}, got {sizes.max():.6g}")
        if not isinstance(given.step_size, StepSizes):
            return uniform
        law = paper.round_probabilities(sizes, smoothness)
        law[: first - 1] = 0.0
        return cls(rounds, first, np.asarray(np.floor(law / law.max() * 2.0 ** (52 - rounds.bit_length()))))

    def counts(self) -> list[int]:
        """Equally likely numbers of steps; their law bounds that of R - 1 from above."""
        first = self.first if self.weights is None else 1
        return (largest_rounds(self.rounds, self.weights, first=first) - 1).tolist()

    def draw(self, bits: RandomBits) -> int:
        """R."""
        if self.weights is None:
            return self.first + int(uniform_integers(bits, self.rounds - self.first + 1, 1)[0])
        below = np.cumsum(self.weights)
        place = uniform_integers(bits, int(below[-1]), 1)[0]
        return 1 + int(np.searchsorted(below, float(place), side="right"))


def _sigma_over_clip(fit: Fit, given: RRPSGDArguments, law: _RoundLaw, noise: ScaleNoise) -> float:
    """Standard deviation of the noise on a batch's sum, relative to the clip."""
    fit.check_published("rrpsgd", neighbors=None)
    if not fit.as_published:
        check_calibration(fit, given.batch_size, given.rounds - 1)
        plan = fit.epsilon, fit.delta, fit.n, given.batch_size, given.rounds
        relation, after = fit.neighbors, noise.mu
        if law.weights is None:
            return _cached_noise_multiplier(*plan, neighbors=relation, first_round=law.first, after=after)
        return random_round_noise_multiplier(
            *plan, neighbors=relation, round_weights=law.weights, after=after
        )
    one = given.batch_size == 1 and given.burn_in == 0.0
    if not one or given.rounds > fit.n**2 or fit.neighbors is not Neighbours.REPLACE_ONE:
        raise ValueError(
            "calibration='paper' is for batch_size=1, burn_in=0, at most n^2 rounds and "
            "neighbors='replace_one'"
        )
    return paper.rrpsgd(fit.epsilon, fit.delta, n_samples=fit.n)


def _smoothness(problem: PublicProblem) -> float:
    return problem.loss.smoothness(problem.row_norm) + problem.l2


def _default_step_size(
    fit: Fit, given: RRPSGDArguments, sigma_over_clip: float, problem: PublicProblem
) -> float:
    """The step size that minimises a bound on the risk, unless curvature requires a smaller one."""
    loss, row_norm = problem.loss, problem.row_norm
    longest, batch_size = given.clip, given.batch_size
    if fit.epsilon == math.inf:
        # The sampling error of a batch of size b costs the last iterate at most step_size G^2/(4 b).
        affordable = 1e-3 * rules.typical_loss_at_zero(loss)
        usual = min(longest, rules.usual_gradient(loss, row_norm))
        best = 4.0 * batch_size * affordable / usual**2
    else:
        sigma, error = sigma_over_clip * longest / batch_size, longest / math.sqrt(batch_size)
        reach = _default_reach(problem, given.radius)
        best = gradient_step_size(reach, given.rounds, error, sigma, fit.objective.dimension)
    return min(1.0 / _smoothness(problem), best)


def _default_reach(problem: PublicProblem, radius: float) -> float:
    """The distance that steps are to travel: short, as the last iterate has the whole noise of a step."""
    share = _REACH if problem.loss.classification else _REACH_FOR_TARGETS
    if problem.spread < math.inf:
        share = min(problem.per_record().signal / _FULL_REACH_SIGNAL, 1.0) * _REACH_FROM_CONSTANT
    far = share * rules.typical_reach(replace(problem, l2=0.0), radius)
    return min(far, _REACH * rules.reach_under_ridge(problem))
