"""Output perturbation: one noisy release of weights that were trained in secret."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dperm.accounting.budget import Budget, ScheduledBudget
from dperm.accounting.events import GaussianRelease, PureRelease
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.norm_laplace import gaussian_or_norm_laplace
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.rules import usual_clip
from dperm.algorithms.settings import one_of
from dperm.mechanisms.noise import check_norm_laplace, gaussian_scale
from dperm.mechanisms.release import Releaser
from dperm.objective.bounded_training import Training, check_record_count
from dperm.objective.objective import Array
from dperm.private_values.bounded import Bounded, result_grid

#: Note on several phases in a privacy statement.
DISJOINT = "A record is used in one phase alone, so that all phases together cost what one does."
NULL_RECORD = (
    "Here 'add_or_remove' means that a record is replaced by an empty one, without loss: the number of "
    "records that sums are divided by is fixed and public."
)
SECRET_ITERATES = "The guarantee covers the published weights; the iterates that led to them stay secret."

#: Noise distributions by name, as statements spell them.
LAWS = {"gaussian": "Gaussian", "norm_laplace": "norm-Laplace"}


def clip_for(fit: Fit) -> float:
    """The clip of a fit for which none is given; infinite if the loss bounds gradients as well.

    Published algorithms have none.
    """
    if fit.as_published:
        return math.inf
    clip = usual_clip(fit.problem)
    return clip if clip < fit.objective.loss.lipschitz(fit.objective.row_norm) else math.inf


def add_or_remove_note(relation: Neighbours) -> tuple[str, ...]:
    """Note for a statement whose add_or_remove means to replace a record by an empty one."""
    return (NULL_RECORD,) if relation is Neighbours.ADD_OR_REMOVE else ()


#: Sensitivity of a computed result before it is rounded to its grid, under either relation.
ResultSensitivity = dict[Neighbours, float]


@dataclass(frozen=True)
class OutputNoise:
    """Noise for one vector."""

    law: str
    amount: float  # noise multiplier (Gaussian), or epsilon of the release (norm-Laplace)
    budget: Budget | ScheduledBudget  # exactly enough for the releases

    def claim(self, fit: Fit, moved: ResultSensitivity) -> None:
        """Before the charge: `check` the noise, and claim delta = 0 if it spends none."""
        self.check(moved, fit)
        if self.law == "norm_laplace":
            fit.claim_pure()

    def check(self, moved: ResultSensitivity, fit: Fit) -> None:
        """Raise ValueError unless the noise for a result of that sensitivity can be drawn on its grid."""
        bounds = moved[Neighbours.ADD_OR_REMOVE], moved[Neighbours.REPLACE_ONE]
        if not 1e-200 <= min(bounds) <= max(bounds) <= 1e200:
            raise ValueError(f"one record would move the result by {max(bounds):.3g}: no such noise is drawn")
        grid, rounding = result_grid(*bounds, math.prod(fit.objective.shape))
        sensitivity = moved[fit.neighbors] + rounding
        if self.law == "gaussian":
            gaussian_scale(self.amount * sensitivity, grid)
        else:
            scale = sensitivity / self.amount * (1.0 + 2.0**-50)
            check_norm_laplace(scale, math.frexp(grid)[1] - 1, fit.objective.shape)

    def release(self, mechanism: Releaser, private: Bounded) -> Array:
        """The vector plus noise."""
        draw = mechanism.gaussian_sum if self.law == "gaussian" else mechanism.norm_laplace_sum
        return draw(private, self.amount)


def noise_law(fit: Fit, mechanism: str) -> str:
    """The distribution of the noise on one vector; "auto" chooses the smaller mean square error."""
    if one_of("auto", *LAWS)("mechanism", mechanism) == "auto":
        return gaussian_or_norm_laplace(fit.epsilon, fit.delta, fit.objective.dimension).mechanism
    if mechanism == "gaussian" and fit.delta == 0.0:
        raise ValueError("delta must be above 0 for Gaussian noise; delta=0 takes mechanism='norm_laplace'")
    return mechanism


def output_noise(fit: Fit, law: str) -> OutputNoise:
    """The least noise of that distribution for an (epsilon, delta)-DP release of one vector."""
    if law == "norm_laplace":
        return norm_laplace_noise(fit.epsilon)
    budget = fit.budget()
    return OutputNoise("gaussian", fit.noise_multiplier(budget, 1), budget)


def for_disjoint_parts(noise: OutputNoise, count: int) -> OutputNoise:
    """The same noise on one vector from each of `count` disjoint parts of the records."""
    if count == 1:
        return noise
    gaussian = noise.law == "gaussian"
    event = GaussianRelease(noise.amount) if gaussian else PureRelease(noise.amount)
    return replace(noise, budget=ScheduledBudget(event, count, "gdp" if gaussian else "pure"))


def norm_laplace_noise(epsilon: float) -> OutputNoise:
    """Norm-Laplace noise for an epsilon-DP release."""
    return OutputNoise("norm_laplace", epsilon, ScheduledBudget(PureRelease(epsilon), 1, "pure"))


def published_noise(fit: Fit, scale: float, sensitivity: float) -> OutputNoise:
    """Noise of a published scale for a vector of proved sensitivity; ValueError if it is too small."""
    if fit.delta == 0.0:
        fit.confirm(sensitivity / scale <= fit.epsilon)
        return norm_laplace_noise(sensitivity / scale)
    budget = fit.budget()
    fit.confirm(budget.fits(GaussianRelease(scale / sensitivity)))
    return OutputNoise("gaussian", scale / sensitivity, budget)


def publish(
    fit: Fit,
    name: str,
    training: Training,
    noise: OutputNoise,
    *,
    description: str,
    steps: int,
    **facts: Any,
) -> FitResult:
    """Charge for a secret training run, run it, and release its result with noise."""
    fit.check_size_cap()
    check_record_count(fit.objective)
    noise.claim(fit, {relation: training.sensitivity(fit.objective, relation) for relation in Neighbours})
    release = fit.open(name, noise.budget, steps=steps, **facts, mechanism=noise.law)
    coef = noise.release(release, training.train(fit.objective))
    fit.show(1, coef)
    return fit.result(
        coef,
        f"{description} in secret, {LAWS[noise.law]} noise on the result",
        n_iter=steps,
        steps=steps,
        notes=(SECRET_ITERATES, *add_or_remove_note(fit.neighbors)),
    )
