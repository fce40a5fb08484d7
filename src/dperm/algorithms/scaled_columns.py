"""``learn_scales=True`` of the published algorithms: their descents on columns that are scaled privately.

A part of the budget buys the histograms of magnitudes with which the default descent starts, see
:func:`dperm.algorithms.profile.column_scales`. The descent takes its steps in the coordinates in which every
column has entries of about 1; all else is as for rows that come so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dperm.accounting.budget import Budget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import WhitenedGD
from dperm.algorithms.fit import Fit
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.profile import column_scales
from dperm.mechanisms.release import Releaser
from dperm.objective.gradients import clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.objective import Array, Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform

_IN_UNITS_OF_THE_DATA = ("clip", "step_size", "step_max", "radius")


@dataclass(frozen=True)
class ScaleNoise:
    """The noise on the histograms of magnitudes; a multiplier of 0 if scales are not learned."""

    multiplier: float = 0.0

    @classmethod
    def of(cls, fit: Fit, learn_scales: bool, given: Mapping[str, Any], rest: Budget) -> Self:
        """That which a fixed share of the budget buys, whose cost is spent from `rest`.

        Raises
        ------
        ValueError
            If scales cannot be learned.

        Notes
        -----
        Without noise columns keep their scales.
        """
        if not check.boolean("learn_scales", learn_scales):
            return cls()
        if not fit.objective.reads_whole_rows or fit.as_published:
            raise ValueError(
                "learn_scales=True needs rows that can be made dense and calibration='tight': leave it out"
            )
        for name in _IN_UNITS_OF_THE_DATA:
            if given.get(name, math.inf) != math.inf:
                raise ValueError(
                    f"{name} is in units of the data, which learn_scales=True changes: give one of the two"
                )
        if fit.epsilon == math.inf:
            return cls()
        whole = fit.budget(rest.accountant)
        noise = cls(gaussian_noise_multiplier(whole.share(1, WhitenedGD.SCALES), whole.accountant))
        rest.spend(noise.releases[0])
        return noise

    def problems(self, fit: Fit) -> list[PublicProblem]:
        """The problem, or those with the least and the largest rows that scaled columns may have."""
        if not self.multiplier:
            return [fit.problem]
        left = replace(fit.problem, mu=fit.mu * math.sqrt(1.0 - WhitenedGD.SCALES))
        return [replace(left, row_norm=size) for size in (1.0, math.sqrt(fit.objective.shape[0]))]

    @property
    def releases(self) -> list[GaussianRelease]:
        """What is released before the descent."""
        return [GaussianRelease(self.multiplier)] if self.multiplier else []

    @property
    def mu(self) -> float:
        """Gaussian differential privacy of the releases, rounded up."""
        return 1.0 / self.multiplier * (1.0 + 2.0**-48) if self.multiplier else 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """For the ledger and the statement; None for settings that depend on learned scales."""
        if not self.multiplier:
            return {}
        unknown = dict.fromkeys(("clip", "step_size", "step_max"))
        return {"scale_share": WhitenedGD.SCALES, **unknown}


@dataclass(frozen=True)
class ScaledColumns:
    """Coordinates ``u`` in which a descent takes its steps, with weights ``w = factors u``.

    Attributes
    ----------
    problem : PublicProblem
        In these coordinates.
    factors : ndarray or float
        Of the weights along a column, for all classes.
    transform : Transform or None
        The factors as a map; None if they are 1.
    """

    problem: PublicProblem
    factors: Array | float = 1.0
    transform: Transform | None = None

    @classmethod
    def learned(cls, fit: Fit, release: Releaser, noise: ScaleNoise) -> Self:
        """Release the scales, if there is noise for it, and divide the columns by them."""
        public = noise.problems(fit)[0]
        if not noise.multiplier:
            return cls(public)
        objective = fit.objective
        scales, _ = column_scales(fit, release, noise.multiplier)
        intercept = np.ones(int(objective.fit_intercept))
        transform = Transform.powers_of_two(np.append(1.0 / scales, intercept), objective.largest_condition)
        factors = transform.values
        of_columns = factors[: objective.n_columns]
        # Of rows that are nearly in a cube, and no longer than the public bound.
        row_norm = min(
            float(np.linalg.norm(of_columns * scales)), objective.row_norm * float(of_columns.max())
        )
        there = replace(
            public,
            row_norm=math.hypot(row_norm, float(factors[-1]) * len(intercept)),
            l2=public.l2 * float(factors.max()) ** 2,
        )
        return cls(there, factors.reshape(-1, *[1] * (len(objective.shape) - 1)), transform)

    def gradient_sum(
        self,
        objective: Objective,
        w: Array,
        clip: float,
        *,
        radius: float = math.inf,
        keep_predictions: bool = False,
    ) -> Bounded:
        """Sum of the records' gradients in these coordinates, each clipped to norm `clip`.

        In the original ones, `radius` bounds the norm of `w`, which may tighten the sensitivity.
        """
        keep = keep_predictions
        if self.transform is None:
            return clipped_gradient_sum(objective, w, clip, radius=radius, keep_predictions=keep)
        return mapped_gradient_sum(objective, w, clip, self.transform, keep_predictions=keep)

    def description(self, mechanism: str) -> str:
        """Description of the mechanism and of the release before it."""
        if self.transform is None:
            return mechanism
        return f"Gaussian noise on histograms of magnitudes, by which columns are scaled; then {mechanism}"
