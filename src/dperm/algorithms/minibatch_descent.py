"""The shared loop of the private stochastic gradient methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dperm._cached import cached_property
from dperm.accounting import noise_multiplier
from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.fit_costs import sampled_gaussian_cost
from dperm.accounting.sgd_calibration import noise_multiplier_after
from dperm.accounting.subsampling import Sampling
from dperm.algorithms.defaults.minibatch import MinibatchSchedule, default_schedule, smoothed_schedule
from dperm.algorithms.defaults.scales import ScaleShares, learn_scales_choice
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.preconditioner import Preconditioner
from dperm.algorithms.private_scales import ScaleNoise, scale_facts, scales_to_learn
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.step_rules import Adam, HeavyBall
from dperm.algorithms.step_sizes import step_sizes
from dperm.algorithms.suffix_average import average_of
from dperm.mechanisms.batches import SecretBatches
from dperm.objective.descents import check_places
from dperm.objective.objective import Array
from dperm.objective.projection import project

OPTIMIZERS = ("momentum", "adam")


@dataclass(frozen=True)
class MinibatchRun:
    """A run with all its settings."""

    fit: Fit
    given: Mapping[str, Any]  # settings; missing ones are chosen by a rule
    learn_scales: bool | str
    sampling: str
    accountant: str
    optimizer: str = "momentum"  # update rule on the noisy gradients
    smooth: Callable[[Array], Array] | None = None  # applied to the noisy gradients

    @cached_property
    def scales(self) -> ScaleShares:
        """What is learned first; needs ``accountant="pld"``, which alone composes it with the batches."""
        if self.accountant == "pld":
            return scales_to_learn(self.fit, self.learn_scales, self.given)
        if learn_scales_choice("learn_scales", self.learn_scales) is True:
            raise ValueError(f"learn_scales=True needs accountant='pld', got {self.accountant!r}")
        if self.fit.objective.weighs_privately:
            raise ValueError(f"class_weight='private' needs accountant='pld', got {self.accountant!r}")
        return ScaleShares()

    @property
    def problem(self) -> PublicProblem:
        """The public problem, with the budget that is left for the descent."""
        return self.fit.problem.without(self.scales.together)

    @cached_property
    def schedule(self) -> MinibatchSchedule:
        """All settings; ValueError for batches larger than the data set."""
        schedule = self.schedule_for(self.problem)
        self.fit.check_batch_size(schedule.batch_size)
        return schedule

    def schedule_for(self, problem: PublicProblem) -> MinibatchSchedule:
        """The given settings, completed for this problem."""
        default = default_schedule if self.smooth is None else smoothed_schedule
        return replace(default(problem, self.optimizer, self.given.get("steps")), **self.given)

    def noise_multiplier(self) -> float:
        """``sigma / clip`` of each noisy sum, from the accountant."""
        fit, plan = self.fit, self._plan()
        if self.scales.together:
            return noise_multiplier_after(self._scale_noise().mu, fit.epsilon, fit.delta, **plan)
        return noise_multiplier(fit.epsilon, fit.delta, **plan, accountant=self.accountant)

    def _plan(self) -> dict[str, Any]:
        return {
            "batch_size": self.schedule.batch_size,
            "n_samples": self.fit.n,
            "steps": self.schedule.steps,
            "sampling": self.sampling,
            "neighbors": self.fit.neighbors,
        }

    def _scale_noise(self) -> ScaleNoise:
        return ScaleNoise.of(self.scales, self.fit.objective.loss, self.fit.budget(), self.fit.budget())

    def descend(self, name: str, sigma_over_clip: float, **facts: Any) -> FitResult:
        """Charge, run the loop, and write the statement."""
        fit, schedule, sampling = self.fit, self.schedule, Sampling(self.sampling)
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
        accountant = "gdp" if gaussian else self.accountant
        noise = self._scale_noise()
        noise.check(fit, schedule.clip, multiplier)
        cost = sampled_gaussian_cost(sigma_over_clip, **self._plan(), beside=noise.mu)
        budget = ScheduledBudget(
            GaussianRelease(multiplier), schedule.steps, accountant, cost, before=noise.releases
        )
        facts = facts | scale_facts(self.scales)
        release = fit.open(name, budget, schedule, sampling=str(sampling), **facts)

        preconditioner = Preconditioner.learned(fit, release, noise, self.problem)
        schedule = self.schedule_for(preconditioner.problem)
        batch_size, radius, factors = schedule.batch_size, schedule.radius, preconditioner.factors
        noisy_sum = release.noisy_batch_sums(
            objective,
            SecretBatches(sampling, release.sampling_bits(), batch_size, fit.n),
            multiplier,
            clip=schedule.clip,
            steps=schedule.steps,
            radius=radius,
            linear_map=preconditioner.linear_map,
        )
        rule: Adam | HeavyBall = Adam(schedule.momentum)
        sizes = step_sizes(schedule.step_size, schedule.steps)
        if self.optimizer == "momentum":
            rule = HeavyBall(schedule.momentum)
            sizes = preconditioner.step_sizes(sizes, schedule.momentum, objective.l2)
        extended = "tail" not in self.given
        average = average_of(schedule.steps + 1, schedule.tail, extended=extended, units=factors)
        w = preconditioner.start
        average.add(w)
        for t, size in enumerate(sizes, 1):
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
            preconditioner.description(mechanism),
            n_iter=schedule.steps,
            clip=schedule.clip,
            notes=() if gaussian else ("Which records were in which batch stays secret.",),
        )
