"""Default settings of `noisy_newton`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Newton
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Settings, setting


def _columns(name: str, value: object) -> list[int]:
    if (
        not isinstance(value, Sequence | np.ndarray)
        or isinstance(value, str)
        or not all(isinstance(each, numbers.Integral) and int(each) >= 0 for each in value)
        or len(set(value)) < len(value)
    ):
        raise ValueError(f"{name} must be a list of distinct column numbers, got {value!r}")
    return sorted(int(each) for each in value)


@dataclass(frozen=True, kw_only=True)
class NoisyNewtonSchedule(Settings):
    """Settings of :func:`dperm.algorithms.noisy_newton`."""

    covariance: str = setting(check.one_of("auto", "model", "robust"))
    leverage: float = setting(check.within("from 0.5 to 100", lambda x: 0.5 <= x <= Newton.MOST_LEVERAGE))
    steps: int = setting(check.step_count)
    omit: Sequence[int] = setting(_columns)
    effects: bool = setting(check.boolean, False)


def noisy_newton_schedule(problem: PublicProblem, covariance: str = "auto") -> NoisyNewtonSchedule:
    """Default settings from public numbers alone.

    Notes
    -----
    Rarer positives and stronger signals, which many records with little noise can tell, need more steps. The
    thresholds of steps for Huber's loss fall by factors of 2, from the target bound to its own.
    """
    loss = problem.loss
    if covariance == "auto":
        covariance = "model" if loss.classification else "robust"
    thresholds = 1.0 if loss.classification else loss.target_bound / loss.lipschitz(1.0)
    accuracy = problem.n * problem.mu / problem.dimension / Newton.ACCURACY
    more = round(math.log2(min(max(accuracy, 1.0), 2.0**Newton.MORE_STEPS)))
    halvings = math.ceil(math.log2(min(max(thresholds, 1.0), Newton.MOST_THRESHOLDS)))
    return NoisyNewtonSchedule(
        covariance=covariance,
        leverage=Newton.LEVERAGE if covariance == "model" else Newton.ROBUST_LEVERAGE,
        steps=Newton.STEPS + more + halvings,
        omit=[],
    )
