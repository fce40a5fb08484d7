"""What is learned privately before a descent, and how much of the budget that is worth.

Noise is proportional to the public bound on the row norms, so a bound that is too loose, or columns much
smaller than it allows, waste most of the budget. A few noisy counts, released first, give a tighter bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dperm.accounting import Budget, GaussianRelease, gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Fit
from dperm.algorithms.private_constant import (
    COST,
    LEAST_SPREAD,
    MOST_SPREAD,
    check_noise_of_constant,
    releases_for_constant,
)
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import longest_gradient
from dperm.algorithms.settings import Schedule, Setting
from dperm.losses import Loss


class ScaleShares(Schedule):
    """Shares of the budget, in mu^2, for the estimates released before a descent; 0 for none.

    Attributes
    ----------
    column_share : float
        For a histogram of the magnitudes in each column: columns far smaller than the others are scaled up.
    norm_share : float
        For a histogram of the row norms without the intercept: rows are clipped to a norm that few exceed,
        and the intercept is scaled down to about half of it if it is larger.
    label_share : float
        For the mean label, or the slopes from which a constant prediction of real targets is found, which
        initialise the intercept, or for the class frequencies if classes are weighted by them.
    """

    column_share: Setting[float] = Setting(check.portion)
    norm_share: Setting[float] = Setting(check.portion)
    label_share: Setting[float] = Setting(check.portion)

    @property
    def together(self) -> float:
        """Share of the budget spent before the descent."""
        return self.column_share + self.norm_share + self.label_share

    def facts(self) -> dict[str, Any]:
        """Settings for the ledger and the privacy statement; None for those that depend on learned scales."""
        learned = self.column_share + self.norm_share > 0.0
        return self.chosen | (dict.fromkeys(_IN_UNITS_OF_THE_DATA) if learned else {})


_IN_UNITS_OF_THE_DATA = ("clip", "step_size", "step_max", "step_cap", "shift", "ridge")


def no_scales() -> ScaleShares:
    """Shares with which nothing is learned."""
    return ScaleShares(column_share=0.0, norm_share=0.0, label_share=0.0)


def learn_scales_choice(name: str, value: object) -> bool | str:
    """True, False or "auto"."""
    if isinstance(value, str) and value == "auto":
        return value
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True, False or 'auto', got {value!r}")
    return bool(value)


class LearnedScales(Schedule):
    """The argument of an algorithm that can learn scales.

    Attributes
    ----------
    learn_scales : {"auto", True, False}
        Whether to spend part of the budget on estimates of the column scales, the row norm and the mean
        label, or the best constant prediction of real targets, first (for softmax scales alone). Steps are
        then taken in coordinates in which columns have similar scales, and clip and step size follow from
        the row norm there. "auto": what :func:`dperm.algorithms.private_scales.scale_shares` considers
        worthwhile, unless a setting in the units of the data was given.
    """

    learn_scales: Setting[bool | str] = Setting(learn_scales_choice, "auto", stated=False)


@dataclass(frozen=True)
class ScaleNoise:
    """Noise multipliers of the releases before a descent; 0 for those that are not made."""

    columns: float = 0.0
    norms: float = 0.0
    labels: float = 0.0
    of_targets: bool = False  # whether labels are of real targets: the multiplier of sums of slopes

    @classmethod
    def of(cls, shares: ScaleShares, loss: Loss, whole: Budget, rest: Budget) -> Self:
        """The multipliers that these shares of the whole budget buy; their cost is spent from `rest`."""

        def bought(share: float) -> float:
            return share_of_budget(share, whole, rest) if share > 0.0 else 0.0

        columns, norms = bought(shares.column_share), bought(shares.norm_share)
        if loss.classification or not shares.label_share > 0.0:
            return cls(columns, norms, bought(shares.label_share))
        of_slopes = gaussian_noise_multiplier(whole.share(COST, shares.label_share), whole.accountant)
        for each in releases_for_constant(of_slopes):
            rest.spend(each)
        return cls(columns, norms, of_slopes, of_targets=True)

    @property
    def releases(self) -> list[GaussianRelease]:
        """The releases that are made."""
        scales = [GaussianRelease(each) for each in (self.columns, self.norms) if each]
        if self.of_targets:
            return scales + releases_for_constant(self.labels)
        return scales + ([GaussianRelease(self.labels)] if self.labels else [])

    @property
    def slope_factors(self) -> tuple[float, float]:
        """Least and largest factor by which slopes may change if the spread of the targets is learned."""
        return (LEAST_SPREAD, MOST_SPREAD) if self.of_targets else (1.0, 1.0)

    @property
    def mu(self) -> float:
        """Gaussian differential privacy of the releases, rounded up."""
        return math.hypot(*(1.0 / each.noise_multiplier for each in self.releases)) * (1.0 + 2.0**-48)

    def in_words(self, loss: Loss) -> list[str]:
        """What is released before a descent."""
        counts = (
            "counts from which columns and rows are scaled" if self.columns else "counts of the row norms"
        )
        scaled = [counts] if self.columns or self.norms else []
        if not self.labels:
            return scaled
        of_targets = "slopes and distances of targets at constant predictions"
        return [*scaled, "the frequency of labels" if loss.classification else of_targets]

    def check_labels(self, fit: Fit) -> None:
        """Raise ValueError unless noise can be added to what is released of the labels."""
        if self.of_targets:
            check_noise_of_constant(fit, self.labels)

    def check(self, fit: Fit, clip: float, multiplier: float) -> None:
        """Raise ValueError unless gradients with this clip and noise can be summed in any learned frame."""
        self.check_labels(fit)
        if not (self.columns or self.norms):
            return
        least, most = self.slope_factors
        unit = clip / fit.objective.row_norm
        # Norms are 2 at most; the clip there may keep a larger share of the longest gradient.
        clips = [2.0**-11 * least * unit, 2.0**4 * most * unit]
        if self.of_targets:
            clips.append(farthest_gradient(fit.objective.loss, 2.0))
        for possible in clips:
            fit.check_gradient_noise(check.clip_norm("clip", possible), multiplier)


def farthest_gradient(loss: Loss, row_norm: float) -> float:
    """The longest gradient, and clip, for targets that are found to be as far away as is possible."""
    return longest_gradient(loss, row_norm, noisy=True, spread=MOST_SPREAD * loss.target_bound)


def share_of_budget(share: float, whole: Budget, rest: Budget) -> float:
    """Noise multiplier of a release that costs this share of the whole budget; spends it from `rest`."""
    multiplier = gaussian_noise_multiplier(whole.share(1, share), whole.accountant)
    rest.spend(GaussianRelease(multiplier))
    return multiplier


def scale_shares(problem: PublicProblem, learn: bool | str = "auto") -> ScaleShares:
    """Shares of the budget that are worth spending on scales, from public numbers alone.

    Parameters
    ----------
    problem : PublicProblem
        With mu per record.
    learn : True, False or "auto"
        Learn everything possible, nothing, or what is worthwhile.

    Notes
    -----
    Column scales are read off counts over a fraction of the records, which must exceed noise proportional to
    the square root of the number of columns that a record counts in; it is assumed to count in all of them.
    The row norm needs a single histogram, whose share falls as the signal grows. The mean label is worth its
    share if there is some signal: the intercept would otherwise take many steps to follow rare labels. A
    constant prediction of real targets, whose share falls with the signal, too, is worth it almost always: a
    descent from there needs to go but a fraction of the way. For softmax only scales are learned, and those
    of columns with as much signal as if every class had its own.
    """
    label_share = _LABEL_SHARE if problem.weighs_privately else 0.0
    if learn is False or not problem.private:
        return ScaleShares(column_share=0.0, norm_share=0.0, label_share=label_share)
    signal, loss = problem.n * problem.mu, problem.loss
    columns = learn is True or signal * math.sqrt(_COLUMN_SHARE / problem.dimension) > 12.0
    if can_start_from_labels(problem) and (
        learn is True or signal >= (100.0 if loss.classification else 10.0)
    ):
        label_share = _LABEL_SHARE if loss.classification else min(max((60.0 / signal) ** 2, 0.01), 0.2)
    return ScaleShares(
        column_share=_COLUMN_SHARE if columns else 0.0,
        norm_share=min(max((20.0 / signal) ** 2, 0.02), 0.15),
        label_share=label_share,
    )


def can_start_from_labels(problem: PublicProblem) -> bool:
    """Whether the intercept can be initialised with a constant prediction of two labels or real targets."""
    if problem.loss.classification:
        return problem.intercept and problem.loss.n_classes is None
    return problem.intercept and problem.loss.target_bound < math.inf


_COLUMN_SHARE, _LABEL_SHARE = 0.04, 0.01


def after_releases(released: list[str], mechanism: str) -> str:
    """Description of a mechanism after these Gaussian releases."""
    if not released:
        return mechanism
    *others, last = released
    before = f"{', on '.join(others)} and on {last}" if others else last
    return f"Gaussian noise on {before}; then {mechanism}"


def scales_to_learn(fit: Fit, given: LearnedScales) -> ScaleShares:
    """Shares for descents without whitening, as `LearnedScales` describes.

    Raises
    ------
    ValueError
        If ``learn_scales=True`` and scales cannot be learned.
    """
    learn, objective = given.learn_scales, fit.objective
    settings = given.chosen
    in_units = [
        name for name in (*_IN_UNITS_OF_THE_DATA, "radius") if settings.get(name, math.inf) != math.inf
    ]
    possible = objective.reads_whole_rows and not fit.as_published
    if learn is True and not possible:
        raise ValueError(
            "learn_scales=True needs rows that can be made dense and calibration='tight': leave it out"
        )
    if learn is True and in_units:
        raise ValueError(
            f"{in_units[0]} is in units of the data, which learn_scales=True changes: give one of the two"
        )
    if learn == "auto" and (in_units or not possible):
        learn = False
    return scale_shares(fit.problem.per_record(), learn)
