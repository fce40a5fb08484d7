"""Metrics of sums of losses."""

from __future__ import annotations

import math

import numpy as np

from dperm.metrics.intervals import CLEAR, TOO_NOISY, Array, Estimate, around, floats, of_share, without_interval
from dperm.metrics.parts import Determination, Loss

_STEP = 1e-100


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
    """R^2 = 1 - r, r the mean squared error over the variance V of the targets.

    The sampling variance of r is ``E (e - r (t - mean)^2)^2 / (n V^2)``.
    """
    e, t, tt, *minor = sums
    scale = part.unit / part.target_unit**2  # squared errors and targets are in units of their own
    if size.n <= 0.0:
        return Estimate(math.nan, math.nan, math.nan, TOO_NOISY)
    mean = t / size.n
    variance = tt / size.n - mean * mean
    value = 1.0 - scale * (e / size.n) / variance if variance > 0.0 else math.nan
    noise_of_variance = sigma / size.n * math.sqrt(1.0 + 4.0 * mean * mean)
    if not (size.is_clear and variance > CLEAR * noise_of_variance):
        return Estimate(value, math.nan, math.nan, TOO_NOISY)
    r = 1.0 - value
    ee, et, ett, ttt, tttt = (each / size.n / part.minor for each in minor)
    from_mean = ett - 2.0 * mean * et + mean**2 * e / size.n  # E e (t - mean)^2
    fourth = tttt - 4.0 * mean * ttt + 6.0 * mean**2 * tt / size.n - 3.0 * mean**4
    spread = scale**2 * ee - 2.0 * r * scale * from_mean + r * r * fourth
    sampling = max(spread, 0.0) / (size.n * variance**2)
    slopes = scale * _slopes_of_ratio(np.array([e, t, tt, size.n]))
    noise = float(np.square(slopes) @ [sigma**2, sigma**2, sigma**2, size.variance])
    return around(value, sampling + noise, most=1.0)


def _slopes_of_ratio(sums: Array) -> Array:
    """Derivatives of (mean of e) / (variance of t) by the sums of e, t and t^2, and n: by complex steps."""
    e, t, tt, n = (sums + 1j * _STEP * np.eye(4)).T
    return np.asarray((e / (tt - t * t / n)).imag / _STEP)
