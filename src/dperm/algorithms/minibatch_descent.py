"""The shared loop of the private stochastic gradient methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm._cached import cached_property
from dperm.accounting import noise_multiplier
from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.fit_costs import sampled_gaussian_cost
from dperm.accounting.sgd_calibration import noise_multiplier_after
from dperm.accounting.subsampling import Sampling
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Usual
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules import heavy_ball_step, usual_clip, usual_steps
from dperm.algorithms.scaled_columns import ScaledColumns, ScaleNoise
from dperm.algorithms.settings import Settings, setting
from dperm.algorithms.step_rules import Adam, HeavyBall
from dperm.algorithms.step_sizes import step_size, step_sizes
from dperm.algorithms.tail_average import TailAverage
from dperm.mechanisms.batches import SecretBatches
from dperm.objective.descents import check_places
from dperm.objective.objective import Array
from dperm.objective.projection import project

OPTIMIZERS = ("momentum", "adam")


@dataclass(frozen=True, kw_only=True)
class MinibatchSchedule(Settings):
    """Settings of :func:`dperm.algorithms.dp_sgd` and of its variants."""

    batch_size: float = setting(check.positive)
    steps: int = setting(check.step_count)
    clip: float = setting(check.clip_norm)
    step_size: float = setting(step_size)  # or StepSizes
    momentum: float = setting(check.below_one, Usual.MOMENTUM)
    tail: float = setting(check.portion, Usual.TAIL)
    radius: float = setting(check.positive_or_infinite, math.inf)

    @classmethod
    def of(cls, problem: PublicProblem, given: Mapping[str, Any], optimizer: str) -> MinibatchSchedule:
        """The given settings, completed by the one rule.

        With as many steps and the same clip as a full batch, the privacy noise on a mean gradient is the same
        for every batch size (while the noise multiplier is above 1). The batch can therefore be as small as
        its sampling error stays well below that noise. With ``k = n mu / sqrt(dimension)`` the ratio of their
        squared norms is at most ``k^2 / (batch_size steps)``; the batch size makes it 1/10.
        """
        steps = given.get("steps", usual_steps(problem))
        hidden = Usual.SAMPLING * problem.per_record().signal ** 2 / steps
        default = {
            "batch_size": min(problem.n, max(round(min(hidden, problem.n)), Usual.LEAST_BATCH)),
            "steps": steps,
            "clip": usual_clip(problem),
            "step_size": heavy_ball_step(problem),
        }
        if optimizer == "adam":
            default |= {"step_size": Usual.ADAM / problem.row_norm, "momentum": Usual.ADAM_DECAY}
        return cls(**{**default, **given})


@dataclass(frozen=True)
class MinibatchRun:
    """A run with all its settings."""

    fit: Fit
    given: Mapping[str, Any]  # settings; missing ones are chosen by a rule
    learn_scales: bool
    sampling: str
    accountant: str
    optimizer: str = "momentum"  # update rule on the noisy gradients
    smooth: Callable[[Array], Array] | None = None  # applied to the noisy gradients

    @cached_property
    def scales(self) -> ScaleNoise:
        """What is learned first; needs ``accountant="pld"``, which alone composes it with the batches."""
        scales = ScaleNoise.of(self.fit, self.learn_scales, self.given, self.fit.budget())
        if scales.multiplier and self.accountant != "pld":
            raise ValueError(f"learn_scales=True needs accountant='pld', got {self.accountant!r}")
        return scales

    @cached_property
    def schedules(self) -> list[MinibatchSchedule]:
        """All settings, of each problem that scaled columns may lead to.

        ValueError for batches larger than the data set.
        """
        schedules = [self.schedule_for(problem) for problem in self.scales.problems(self.fit)]
        self.fit.check_batch_size(schedules[0].batch_size)
        return schedules

    @property
    def schedule(self) -> MinibatchSchedule:
        """The settings; those in the units of the data are unknown before scales are learned."""
        return self.schedules[0]

    def schedule_for(self, problem: PublicProblem) -> MinibatchSchedule:
        """The given settings, completed for this problem."""
        return MinibatchSchedule.of(problem, self.given, self.optimizer)

    def noise_multiplier(self) -> float:
        """``sigma / clip`` of each noisy sum, from the accountant."""
        fit, plan = self.fit, self._plan()
        if self.scales.multiplier:
            return noise_multiplier_after(self.scales.mu, fit.epsilon, fit.delta, **plan)
        return noise_multiplier(fit.epsilon, fit.delta, **plan, accountant=self.accountant)

    def _plan(self) -> dict[str, Any]:
        return {
            "batch_size": self.schedule.batch_size,
            "n_samples": self.fit.n,
            "steps": self.schedule.steps,
            "sampling": self.sampling,
            "neighbors": self.fit.neighbors,
        }

    def descend(self, name: str, sigma_over_clip: float, **facts: Any) -> FitResult:
        """Charge, run the loop, and write the statement."""
        fit, schedule, sampling = self.fit, self.schedule, Sampling(self.sampling)
        objective, gaussian = fit.objective, sampling is Sampling.PERMUTATION
        if sampling is not Sampling.POISSON:
            fit.check_size_cap()
            check_places(objective)
        multiplier = sigma_over_clip / fit.neighbors.sum_factor
        for possible in self.schedules:
            fit.check_gradient_noise(possible.clip, multiplier, possible.radius)
        momentum = 0.0 if self.optimizer == "adam" else schedule.momentum
        sizes = step_sizes(schedule.step_size, schedule.steps)
        if schedule.radius == math.inf:
            fit.check_growth(sizes, momentum, schedule.clip)
        accountant = "gdp" if gaussian else self.accountant
        cost = sampled_gaussian_cost(sigma_over_clip, **self._plan(), beside=self.scales.mu)
        budget = ScheduledBudget(
            GaussianRelease(multiplier), schedule.steps, accountant, cost, before=self.scales.releases
        )
        facts = facts | self.scales.facts
        release = fit.open(name, budget, schedule, sampling=str(sampling), **facts)

        there = ScaledColumns.learned(fit, release, self.scales)
        schedule = self.schedule_for(there.problem)
        batch_size, radius, factors = schedule.batch_size, schedule.radius, there.factors
        noisy_sum = release.noisy_batch_sums(
            objective,
            SecretBatches(sampling, release.sampling_bits(), batch_size, fit.n),
            multiplier,
            clip=schedule.clip,
            steps=schedule.steps,
            radius=radius,
            linear_map=there.transform,
        )
        adam = self.optimizer == "adam"
        rule: Adam | HeavyBall = Adam(schedule.momentum) if adam else HeavyBall(schedule.momentum)
        average = TailAverage(schedule.steps + 1, schedule.tail)
        w = np.zeros(objective.shape)
        average.add(w)
        for t, size in enumerate(step_sizes(schedule.step_size, schedule.steps), 1):
            # 1. noisy gradient: the sum over a secret batch, over its public size, and the ridge term
            gradient = noisy_sum(w) / batch_size
            if objective.l2 > 0.0:
                gradient += factors * objective.penalty_gradient(w)
            # 2. smoothing, step and projection: post-processing
            if self.smooth is not None:
                gradient = self.smooth(gradient)
            w = project(w + factors * rule.move(gradient, size), radius)
            average.add(w)
            fit.report(t, w, gradient=gradient)
        mechanism = "stochastic gradient descent, Gaussian noise on the clipped gradient sum of each batch"
        return fit.result(
            average.mean(),
            there.description(mechanism),
            n_iter=schedule.steps,
            clip=schedule.clip,
            notes=() if gaussian else ("Which records were in which batch stays secret.",),
        )
