"""The shared loop of the private stochastic gradient methods."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dperm.accounting import GaussianRelease, Sampling, ScheduledBudget, noise_multiplier
from dperm.accounting.fit_costs import sampled_gaussian_cost
from dperm.accounting.sgd_calibration import noise_multiplier_after
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Fit, FitResult, PublishedTerms
from dperm.algorithms.learned_coordinates import Frame
from dperm.algorithms.noisy_gd import noisy_gd_schedule
from dperm.algorithms.private_scales import (
    LearnedScales,
    ScaleNoise,
    ScaleShares,
    no_scales,
    scales_to_learn,
)
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import longest_gradient, quicker_under_ridge
from dperm.algorithms.settings import Schedule, Setting
from dperm.algorithms.step_rules import Adam, HeavyBall
from dperm.algorithms.step_sizes import StepSize, step_size, step_sizes
from dperm.algorithms.suffix_average import average_of
from dperm.mechanisms.batches import SecretBatches
from dperm.objective.descents import check_places
from dperm.objective.objective import Array
from dperm.objective.projection import project

OPTIMIZERS = ("momentum", "adam")


class MinibatchSchedule(Schedule):
    """Public settings of a run of stochastic gradient descent.

    Attributes
    ----------
    batch_size : float
        Expected size of a Poisson batch, which may be fractional; size of other batches.
    steps : int
        Number of noisy gradients.
    clip : float
        Bound on the norm of one record's gradient.
    step_size : float
        Step on the mean gradient; for Adam the length of a typical step in one coordinate.
    momentum : float
        Heavy-ball coefficient in [0, 1); Adam's first decay.
    tail : float
        The last ``ceil(tail * (steps + 1))`` iterates are averaged, in [0, 1]; 0 returns the last one. By
        default half of them are, and earlier ones as far back as they show no drift.
    """

    batch_size: Setting[float] = Setting(check.positive)
    steps: Setting[int] = Setting(check.step_count)
    clip: Setting[float] = Setting(check.clip_norm)
    step_size: Setting[float] = Setting(check.positive)
    momentum: Setting[float] = Setting(check.below_one)
    tail: Setting[float] = Setting(check.portion)


def minibatch_schedule(problem: PublicProblem) -> MinibatchSchedule:
    """Default settings from public numbers alone: those of noisy gradient descent, on small batches.

    Notes
    -----
    With as many steps as noisy gradient descent and the same clip, the privacy noise on a mean gradient is
    the same for every batch size (while the noise multiplier is above 1). The batch can therefore be as small
    as its sampling error stays well below that noise. With ``k = n mu / sqrt(dimension)`` the ratio of their
    squared norms is at most ``k^2 / (batch_size steps)``; the batch size makes it 1/10.
    """
    full = noisy_gd_schedule(problem)
    n, own = problem.n, problem.per_record()
    signal = replace(own, mu=min(own.mu, 1e3)).signal
    hidden = 10.0 * signal**2 / full.steps
    batch_size = min(n, max(round(min(hidden, n)), min(512, n)))
    return MinibatchSchedule(batch_size=batch_size, **full.chosen)


# Passes over the records of a softmax run: 3 points more accuracy on MNIST at epsilon = 0.1 with Laplacian
# smoothing, and 1 without. Losses with one prediction gain nothing from more passes.
_SOFTMAX_PASSES = 15


def default_schedule(problem: PublicProblem, optimizer: str, steps: int | None = None) -> MinibatchSchedule:
    """`minibatch_schedule` for an optimizer, and for a given number of steps, if any.

    Softmax runs take more and shorter steps. A few small batches out of many records would need so small a
    noise multiplier that subsampling hardly amplifies privacy; more steps are amplified better, and their
    total noise is less.
    """
    schedule = minibatch_schedule(problem)
    if optimizer == "adam":
        reach = 0.3
        if problem.spread < math.inf:
            # From the best constant, predictions need to move by the spread at most if the ridge is weak.
            longest = longest_gradient(problem.loss, problem.row_norm, noisy=True, spread=problem.spread)
            reach = 0.04 * problem.spread * quicker_under_ridge(problem, longest, schedule.steps)
        return replace(schedule, step_size=reach / problem.row_norm, momentum=0.9)
    if steps is None:
        steps = math.ceil(_SOFTMAX_PASSES * problem.n / schedule.batch_size)
    if problem.loss.n_classes is None or steps <= schedule.steps:
        return schedule
    return replace(schedule, steps=steps, step_size=schedule.step_size * schedule.steps / steps)


# Factor on the reach of softmax runs with smoothed gradients, which are shorter and have less noise.
_REACH_OF_SMOOTHED = 3.0


def _farther(schedule: MinibatchSchedule, farthest: MinibatchSchedule) -> MinibatchSchedule:
    """The schedule with a longer reach, ``step_size / (1 - momentum)``, at most that of `farthest`."""
    reach, most = (own.step_size / (1.0 - own.momentum) for own in (schedule, farthest))
    reach = min(_REACH_OF_SMOOTHED * reach, most)
    step_size = min(farthest.step_size, 0.5 * reach)
    return replace(schedule, step_size=step_size, momentum=1.0 - step_size / reach)


class MinibatchArguments(MinibatchSchedule, LearnedScales, PublishedTerms):
    """Arguments of private stochastic gradient methods.

    Attributes
    ----------
    step_size : float, str, mapping or callable
        Step on the mean gradient; for Adam the length of a typical step in one coordinate. One number, or
        ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in ``"0.5/sqrt(t)"``; a mapping from steps to the
        sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a function of the step 1, 2, ...
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    sampling : {"poisson", "without_replacement", "permutation"}
        Every record in each batch with probability ``batch_size / n_public``; fresh batches of fixed size
        (``replace_one`` only); or shuffled epochs, without privacy amplification.
    accountant : {"pld", "rdp", "moments", "advanced_composition"}
        How costs are composed: privacy loss distributions; Renyi divergences; the moments accountant with
        moments up to 32 (Poisson, ``add_or_remove``); amplification and advanced composition, as tight as
        the method allows. Shuffled epochs are Gaussian, and exact with any of them.
    """

    step_size: Setting[StepSize] = Setting(step_size)  # type: ignore[assignment]
    radius: Setting[float] = Setting(check.positive_or_infinite, math.inf)
    sampling: str = "poisson"
    accountant: str = "pld"


@dataclass(frozen=True)
class MinibatchRun:
    """A run with all its settings."""

    fit: Fit
    given: MinibatchArguments  # its settings; missing ones are chosen by a rule
    optimizer: str = "momentum"  # update rule on the noisy gradients
    smooth: Callable[[Array], Array] | None = None  # applied to the noisy gradients

    @functools.cached_property
    def scales(self) -> ScaleShares:
        """What is learned first; needs ``accountant="pld"``, which alone composes it with the batches."""
        fit, given = self.fit, self.given
        if given.accountant == "pld":
            return scales_to_learn(fit, given)
        if given.learn_scales is True:
            raise ValueError(f"learn_scales=True needs accountant='pld', got {given.accountant!r}")
        if fit.objective.weighs_privately:
            raise ValueError(f"class_weight='private' needs accountant='pld', got {given.accountant!r}")
        return no_scales()

    @property
    def problem(self) -> PublicProblem:
        """The public problem, with the budget that is left for the descent."""
        return self.fit.problem.without(self.scales.together)

    @functools.cached_property
    def schedule(self) -> MinibatchArguments:
        """All settings; ValueError for batches larger than the data set."""
        schedule = self.schedule_for(self.problem)
        self.fit.check_batch_size(schedule.batch_size)
        return schedule

    def schedule_for(self, problem: PublicProblem) -> MinibatchArguments:
        """The given settings, completed for this problem."""
        steps = self.given.chosen.get("steps")
        default = default_schedule(problem, self.optimizer, steps)
        if self.smooth is not None and self.optimizer == "momentum" and problem.loss.n_classes is not None:
            default = _farther(default, default_schedule(replace(problem, attained=False), "momentum", steps))
        return self.given.completed(default)

    def noise_multiplier(self) -> float:
        """``sigma / clip`` of each noisy sum, from the accountant."""
        fit, plan = self.fit, self._plan()
        if self.scales.together:
            return noise_multiplier_after(self._scale_noise().mu, fit.epsilon, fit.delta, **plan)
        return noise_multiplier(fit.epsilon, fit.delta, **plan, accountant=self.schedule.accountant)

    def _plan(self) -> dict[str, Any]:
        return {
            "batch_size": self.schedule.batch_size,
            "n_samples": self.fit.n,
            "steps": self.schedule.steps,
            "sampling": self.schedule.sampling,
            "neighbors": self.fit.neighbors,
        }

    def _scale_noise(self) -> ScaleNoise:
        return ScaleNoise.of(self.scales, self.fit.objective.loss, self.fit.budget(), self.fit.budget())

    def _step_sizes(self, schedule: MinibatchArguments, frame: Frame) -> Array:
        sizes = step_sizes(schedule.step_size, schedule.steps)
        if self.optimizer == "adam":
            return sizes
        return frame.step_sizes(sizes, schedule.momentum, self.fit.objective.l2)

    def descend(self, name: str, sigma_over_clip: float, **facts: Any) -> FitResult:
        """Charge, run the loop, and write the statement."""
        fit, schedule, sampling = self.fit, self.schedule, Sampling(self.schedule.sampling)
        objective, gaussian = fit.objective, sampling is Sampling.PERMUTATION
        if sampling is not Sampling.POISSON:
            fit.check_size_cap()
            check_places(objective)
        multiplier = sigma_over_clip / fit.neighbors.sum_factor
        fit.check_gradient_noise(schedule.clip, multiplier, schedule.radius)
        momentum = 0.0 if self.optimizer == "adam" else schedule.momentum
        sizes = step_sizes(schedule.step_size, schedule.steps)
        if schedule.radius == math.inf:
            fit.check_growth(sizes, momentum, schedule.clip)
        accountant = "gdp" if gaussian else schedule.accountant
        noise = self._scale_noise()
        noise.check(fit, schedule.clip, multiplier)
        cost = sampled_gaussian_cost(sigma_over_clip, **self._plan(), beside=noise.mu)
        budget = ScheduledBudget(
            GaussianRelease(multiplier), schedule.steps, accountant, cost, before=noise.releases
        )
        release = fit.open(name, budget, schedule, sampling=str(sampling), **self.scales.facts(), **facts)

        frame = Frame.learned(fit, release, noise, self.problem)
        schedule = self.schedule_for(frame.problem)
        batches = SecretBatches(sampling, release.sampling_bits(), schedule.batch_size, fit.n)
        noisy_sum = release.noisy_batch_sums(
            objective,
            batches,
            multiplier,
            clip=schedule.clip,
            steps=schedule.steps,
            radius=schedule.radius,
            linear_map=frame.linear_map,
        )
        w, sizes = frame.start, self._step_sizes(schedule, frame)
        rule = (Adam if self.optimizer == "adam" else HeavyBall)(schedule.momentum)
        batch_size, radius = schedule.batch_size, schedule.radius
        count = schedule.steps + 1  # iterates, the start among them
        extended = "tail" not in self.given.chosen
        average = average_of(count, schedule.tail, extended=extended, units=frame.factors)
        average.add(w)
        for t in range(1, schedule.steps + 1):
            # 1. noisy gradient: the sum over a secret batch, over its public size, and the ridge term
            gradient = noisy_sum(w) / batch_size
            if objective.l2 > 0.0:
                gradient += frame.factors * objective.penalty_gradient(w)
            # 2. smoothing, step and projection: post-processing
            if self.smooth is not None:
                gradient = self.smooth(gradient)
            w = project(w + frame.factors * rule.move(gradient, sizes[t - 1]), radius)
            average.add(w)
            fit.report(t, w, gradient=gradient)
        return fit.result(
            average.mean(),
            frame.in_words(
                "stochastic gradient descent, Gaussian noise on the clipped gradient sum of each batch"
            ),
            n_iter=schedule.steps,
            clip=schedule.clip,
            notes=() if gaussian else ("Which records were in which batch stays secret.",),
        )
