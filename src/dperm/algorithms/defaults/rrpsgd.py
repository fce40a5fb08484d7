"""Default settings of `rrpsgd`."""

from __future__ import annotations

import math
from dataclasses import replace

from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms import settings as check
from dperm.algorithms.defaults import rules
from dperm.algorithms.defaults.constants import RandomRounds
from dperm.algorithms.problem import PublicProblem


def default_batch_size(problem: PublicProblem) -> int:
    """Larger batches have less noise, smaller ones make more rounds."""
    if not problem.private:
        return min(problem.n, RandomRounds.EXACT_BATCH)
    return max(1, int(RandomRounds.BATCH * math.sqrt(problem.n)))


def default_rounds(problem: PublicProblem, batch_size: int) -> int:
    """The largest number of rounds."""
    n, passes = problem.n, RandomRounds.PASSES if batch_size > 1 else RandomRounds.PASSES_BY_RECORD
    rounds = passes * n // batch_size
    if problem.private:
        rounds = min(n**2, rounds)
    else:
        rounds = max(rounds, int(RandomRounds.EXACT_GRADIENTS) // batch_size)
    return min(max(2, rounds), check.MAX_STEPS - 1)


def default_clip(problem: PublicProblem, radius: float) -> float:
    """Infinite where the bound on gradients from the loss or the radius is the clip.

    The last iterate has the whole noise of a step, so the clip is 0.6 of the typical one. For labels and
    tight row norms it is all of it, as slopes above 0.6 are frequent.
    """
    loss, row_norm = problem.loss, problem.row_norm
    if not problem.private:
        return rules.exact_clip(loss, row_norm) if radius == math.inf else math.inf
    longest = rules.longest_gradient(loss, row_norm, noisy=True, target_scale=problem.target_scale)
    fraction = 1.0 if problem.tight_row_norm and loss.classification else RandomRounds.CLIP
    clip = fraction * min(longest, rules.typical_clip(problem))
    if loss.classification:
        return clip
    return max(clip, min(rules.fraction_under_ridge(problem, longest), 1.0) * longest)


def default_step_size(
    problem: PublicProblem,
    *,
    rounds: int,
    batch_size: int,
    clip: float,
    radius: float,
    sigma_over_clip: float,
) -> float:
    """The step size that minimises a bound on the risk, unless curvature requires a smaller one."""
    loss, row_norm = problem.loss, problem.row_norm
    if not problem.private:
        # The sampling error of a batch of size b costs the last iterate at most step_size G^2/(4 b).
        affordable = RandomRounds.EXACT_COST * rules.typical_loss_at_zero(loss)
        usual = min(clip, rules.usual_gradient(loss, row_norm))
        best = RandomRounds.EXACT_STEP * batch_size * affordable / usual**2
    else:
        sigma, error = sigma_over_clip * clip / batch_size, clip / math.sqrt(batch_size)
        best = gradient_step_size(_distance(problem, radius), rounds, error, sigma, problem.dimension)
    return min(1.0 / (loss.smoothness(row_norm) + problem.l2), best)


def _distance(problem: PublicProblem, radius: float) -> float:
    """The distance that steps are to travel: short, as the last iterate has the whole noise of a step."""
    of_targets = RandomRounds.DISTANCE_OF_TARGETS
    fraction = RandomRounds.DISTANCE if problem.loss.classification else of_targets
    if problem.target_scale < math.inf:
        by_signal = min(problem.per_record().signal / RandomRounds.FULL_SIGNAL, 1.0)
        fraction = by_signal * RandomRounds.FROM_CONSTANT
    far = fraction * rules.typical_distance(replace(problem, l2=0.0), radius)
    return min(far, RandomRounds.DISTANCE * rules.distance_under_ridge(problem))
