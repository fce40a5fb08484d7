"""Metrics of sums of losses."""

from __future__ import annotations

import math

import numpy as np

from dperm.metrics.intervals import (
    CLEAR,
    QUANTILE,
    TOO_NOISY,
    Array,
    Estimate,
    around,
    floats,
    of_share,
    without_interval,
)
from dperm.metrics.parts import Determination, Loss


class Size:
    """The number of records, as far as it is known.

    Parameters
    ----------
    n : float
    variance : float
        Of its noise; 0 where it is public.
    """

    def __init__(self, n: float, variance: float) -> None:
        self.n, self.variance = n, variance

    @property
    def is_clear(self) -> bool:
        """Whether it stands out of its noise."""
        return self.n > CLEAR * math.sqrt(self.variance) and self.n > 0.0


def hit_rate(hits: Array, sigma: float, size: Size) -> Estimate:
    """Accuracy: from those that are right and wrong, or, of a public number of records, right alone."""
    value = float(hits[0]) / size.n if size.n > 0.0 else math.nan
    if not size.is_clear:
        return without_interval(value)
    share = min(max(value, 0.0), 1.0)
    noise = (1.0 - value) ** 2 + value**2 if hits.size == 2 else 1.0
    return floats(of_share(value, share * (1.0 - share) / size.n, noise * (sigma / size.n) ** 2, size.n))


def mean_loss(part: Loss, sums: Array, sigma: float, size: Size) -> Estimate:
    """Mean of a loss, its sampling variance from the squares."""
    mean, square = (float(each) / size.n for each in sums) if size.n > 0.0 else (math.nan, math.nan)
    if not size.is_clear:
        return Estimate(part.unit * mean if mean >= 0.0 else math.nan, math.nan, math.nan, TOO_NOISY)
    sampling = max(square - mean * mean, 0.0) / size.n
    noise = (sigma**2 + mean * mean * size.variance) / size.n**2
    return around(part.unit * mean, part.unit**2 * (sampling + noise), least=0.0)


def mean_squared_error(part: Determination, sums: Array, sigma: float, size: Size) -> Estimate:
    """The same from the sums for the coefficient of determination."""
    loss = Loss("mse", part.bound)
    return mean_loss(loss, np.array([sums[0], sums[3] / part.minor]), sigma, size)


def determination(part: Determination, sums: Array, sigma: float, size: Size) -> Estimate:
    """R^2 = 1 - e/v, e the mean squared error and v the variance of the targets.

    The interval is Fieller's: all ratios r for which ``e - r v`` is within its own standard deviation times
    the quantile, which holds for noisy denominators, too.
    """
    n, noise = size.n, sigma**2
    if n <= 0.0:
        return without_interval(math.nan)
    e, mean, tt = sums[:3] / n
    ee, et, ett, ttt, tttt = sums[3:] / n / part.minor
    v = tt - mean**2
    e_v = ett - 2.0 * mean * et + mean**2 * e  # mean of e (t - mean)^2
    v_v = tttt - 4.0 * mean * ttt + 6.0 * mean**2 * tt - 3.0 * mean**4
    away = v - mean**2  # with e, by how much more than n records v and e change with n
    var_e = (max(ee - e**2, 0.0) * n + noise + e**2 * size.variance) / n**2
    var_v = (max(v_v - v**2, 0.0) * n + noise * (1.0 + 4.0 * mean**2) + away**2 * size.variance) / n**2
    both = ((e_v - e * v) * n + e * away * size.variance) / n**2
    both = math.copysign(min(abs(both), math.sqrt(var_e * var_v)), both)
    scale = part.unit / part.target_unit**2  # squared errors and targets are in units of their own
    value = 1.0 - scale * e / v if v > 0.0 else math.nan
    a, b, c = v**2 - QUANTILE**2 * var_v, e * v - QUANTILE**2 * both, e**2 - QUANTILE**2 * var_e
    noise_of_v = sigma / n * math.sqrt(1.0 + 4.0 * mean**2)
    if not (size.is_clear and v > CLEAR * noise_of_v and a > 0.0):
        return Estimate(value, math.nan, math.nan, TOO_NOISY)
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return Estimate(value, 1.0 - scale * (b + root) / a, min(1.0 - scale * (b - root) / a, 1.0))
