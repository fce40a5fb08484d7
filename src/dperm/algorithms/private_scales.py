"""The releases of scales before a descent: which are made, and their noise.

Noise is proportional to the public bound on the row norms. A bound that is too loose, or columns much smaller
than it allows, waste most of the budget. A few noisy counts, released first, give a tighter bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dperm.accounting.budget import Budget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.rules import longest_gradient
from dperm.algorithms.defaults.scales import ScaleShares, learn_scales_choice, scale_shares
from dperm.algorithms.fit import Fit
from dperm.algorithms.private_constant import (
    COST,
    LEAST_SCALE,
    MOST_SCALE,
    check_noise_of_constant,
    releases_for_constant,
)
from dperm.losses import Loss

_IN_UNITS_OF_THE_DATA = ("clip", "step_size", "step_max")


def scales_to_learn(fit: Fit, learn_scales: bool | str, given: Mapping[str, Any]) -> ScaleShares:
    """Shares of the budget for descents without whitening, from `learn_scales` and the given settings.

    Raises
    ------
    ValueError
        If ``learn_scales=True`` and scales cannot be learned.
    """
    learn, objective = learn_scales_choice("learn_scales", learn_scales), fit.objective
    in_units = [name for name in (*_IN_UNITS_OF_THE_DATA, "radius") if given.get(name, math.inf) != math.inf]
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


def scale_facts(shares: ScaleShares) -> dict[str, Any]:
    """Facts for the ledger and the privacy statement; None for settings that depend on learned scales."""
    learned = shares.column_share + shares.norm_share > 0.0
    return shares.shares() | (dict.fromkeys(_IN_UNITS_OF_THE_DATA) if learned else {})


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
        """Least and largest factor by which slopes may change if the target scale is learned."""
        return (LEAST_SCALE, MOST_SCALE) if self.of_targets else (1.0, 1.0)

    @property
    def mu(self) -> float:
        """Gaussian differential privacy of the releases, rounded up."""
        return math.hypot(*(1.0 / each.noise_multiplier for each in self.releases)) * (1.0 + 2.0**-48)

    def description(self, loss: Loss) -> list[str]:
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
        """Raise ValueError unless gradients with this clip and noise can be summed for any learned scales."""
        self.check_labels(fit)
        if not (self.columns or self.norms):
            return
        least, most = self.slope_factors
        unit = clip / fit.objective.row_norm
        # Norms are 2 at most; the clip there may keep a larger part of the longest gradient.
        clips = [2.0**-11 * least * unit, 2.0**4 * most * unit]
        if self.of_targets:
            clips.append(farthest_gradient(fit.objective.loss, 2.0))
        for possible in clips:
            fit.check_gradient_noise(check.clip_norm("clip", possible), multiplier)


def farthest_gradient(loss: Loss, row_norm: float) -> float:
    """The longest gradient, and clip, for targets that are found to be as far away as is possible."""
    return longest_gradient(loss, row_norm, noisy=True, target_scale=MOST_SCALE * loss.target_bound)


def share_of_budget(share: float, whole: Budget, rest: Budget) -> float:
    """Noise multiplier of a release that costs this share of the whole budget; spends it from `rest`."""
    multiplier = gaussian_noise_multiplier(whole.share(1, share), whole.accountant)
    rest.spend(GaussianRelease(multiplier))
    return multiplier


def after_releases(released: list[str], mechanism: str) -> str:
    """Description of a mechanism after these Gaussian releases."""
    if not released:
        return mechanism
    *others, last = released
    before = f"{', on '.join(others)} and on {last}" if others else last
    return f"Gaussian noise on {before}; then {mechanism}"
