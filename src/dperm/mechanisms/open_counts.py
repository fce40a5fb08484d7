"""Release of counts that reveal which values occur in many records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.budget import Budget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.selection import publication_threshold
from dperm.mechanisms.hooks import samplers, watched
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.records import ReleaseRecord
from dperm.mechanisms.release import Releaser
from dperm.private_values.open_counts import OpenCounts


@watched
def release_open_counts(
    release: Releaser, private: OpenCounts, noise_multiplier: float, slack: float
) -> tuple[NDArray[np.int64], list[dict[Any, int]]]:
    """Release counts in public bins, and values whose noisy counts exceed a threshold, with these counts.

    Parameters
    ----------
    release : Releaser
        With a `Budget` that has a slack, if there are columns of values.
    private : OpenCounts
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity of all counts together.
    slack : float
        Bound on the probability that a value which only one record has is published; spent from the budget's
        slack.

    Returns
    -------
    (ndarray of int64, list of dict)
        Noisy counts of the bins; for each column of values, the noisy counts of published values, sorted by
        value.

    Raises
    ------
    BudgetExceededError
        If the cost exceeds the budget; nothing is drawn.
    """
    sensitivity = private.sensitivity(release.neighbors)
    sigma, columns, threshold = noise_multiplier * sensitivity, len(private._values), 0
    gaussian_scale(sigma, private.grid)
    if columns:
        threshold = publication_threshold(sigma, slack, columns)
        if not isinstance(release.budget, Budget):
            raise TypeError("counts of values need a budget of mu^2 with a slack")
        release.budget.spend_slack(slack)
    release._spend(ReleaseRecord(GaussianRelease(noise_multiplier), sensitivity, sigma, private.grid))
    return private._noisy(lambda size: samplers().gaussian(release._bits, sigma, 0, (size,)), threshold)
