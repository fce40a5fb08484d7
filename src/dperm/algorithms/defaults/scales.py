"""How much of the budget is worth spending on scales before a descent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Scales
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class ScaleShares(Settings):
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
        initialise the intercept; or for the class frequencies if classes are weighted by them.
    """

    column_share: float = setting(check.portion, 0.0)
    norm_share: float = setting(check.portion, 0.0)
    label_share: float = setting(check.portion, 0.0)

    @property
    def together(self) -> float:
        """Share of the budget spent before the descent."""
        return self.column_share + self.norm_share + self.label_share

    def shares(self) -> dict[str, Any]:
        """The three shares by name."""
        return {name: getattr(self, name) for name in ("column_share", "norm_share", "label_share")}


def learn_scales_choice(name: str, value: object) -> bool | str:
    """True, False or "auto"."""
    if isinstance(value, str) and value == "auto":
        return value
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True, False or 'auto', got {value!r}")
    return bool(value)


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
    Column scales come from counts over a fraction of the records. The noise on these counts grows with the
    square root of the number of columns that a record counts in, which is assumed to be all of them. The row
    norm needs a single histogram, whose share falls as the signal grows. The mean label is worth its share if
    there is some signal: without it the intercept would take many steps to follow rare labels. A constant
    prediction of real targets is worth its share, which falls with the signal, almost always: a descent from
    there has a short way to go. For softmax only scales are learned, those of columns with as much signal as
    if every class had its own.
    """
    label_share = Scales.LABELS if problem.private_class_weight else 0.0
    if learn is False or not problem.private:
        return ScaleShares(label_share=label_share)
    signal, loss = problem.n * problem.mu, problem.loss
    by_column = signal * math.sqrt(Scales.COLUMNS / problem.dimension)
    columns = learn is True or by_column > Scales.COLUMN_SIGNAL
    least = Scales.LABEL_SIGNAL if loss.classification else Scales.TARGET_SIGNAL
    if can_start_from_labels(problem) and (learn is True or signal >= least):
        by_signal = max((Scales.CONSTANT_SIGNAL / signal) ** 2, Scales.LEAST_CONSTANT)
        label_share = Scales.LABELS if loss.classification else min(by_signal, Scales.MOST_CONSTANT)
    return ScaleShares(
        column_share=Scales.COLUMNS if columns else 0.0,
        norm_share=min(max((Scales.NORM_SIGNAL / signal) ** 2, Scales.LEAST_NORM), Scales.MOST_NORM),
        label_share=label_share,
    )


def can_start_from_labels(problem: PublicProblem) -> bool:
    """Whether the intercept can be initialised with a constant prediction of two labels or real targets."""
    if problem.loss.classification:
        return problem.intercept and problem.loss.n_classes is None
    return problem.intercept and problem.loss.convex and problem.loss.prediction_bound < math.inf
