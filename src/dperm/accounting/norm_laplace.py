"""Gaussian or norm-Laplace noise for one vector: a rule that depends on public numbers only."""

from __future__ import annotations

import math
from typing import NamedTuple

from dperm.accounting._checks import check_positive, check_positive_epsilon, check_steps
from dperm.accounting.gaussian import gaussian_sigma
from dperm.accounting.units import check_target


class NoiseChoice(NamedTuple):
    """A noise distribution for a vector with a given Euclidean sensitivity.

    Attributes
    ----------
    mechanism : str
        ``"gaussian"`` (N(0, scale^2) on every coordinate) or ``"norm_laplace"`` (density proportional to
        ``exp(-||z|| / scale)``).
    scale : float
        In the unit of the vector.
    delta : float
        What the mechanism spends: 0 for norm-Laplace noise.

    Examples
    --------
    >>> noise = gaussian_or_norm_laplace(1.0, 1e-5, dimension=100)
    >>> noise.mechanism, round(noise.scale, 3), round(noise.mean_square(100))
    ('gaussian', 3.731, 1392)
    """

    mechanism: str
    scale: float
    delta: float

    def mean_square(self, dimension: int) -> float:
        """Mean of ``||z||^2``: ``d sigma^2``, or ``d (d+1) scale^2``."""
        factor = dimension if self.mechanism == "gaussian" else dimension * (dimension + 1)
        return factor * self.scale * self.scale


def gaussian_or_norm_laplace(
    epsilon: float, delta: float, dimension: int, sensitivity: float = 1.0
) -> NoiseChoice:
    """Choose the noise with the smaller mean square error for one release of a vector.

    Parameters
    ----------
    epsilon : float
        Greater than 0; infinite gives no noise.
    delta : float
        At least 0 and below 1; 0 asks for a pure guarantee (norm-Laplace).
    dimension : int
        Number of coordinates, >= 1.
    sensitivity : float, default=1.0
        Euclidean sensitivity, finite, > 0.

    Returns
    -------
    NoiseChoice
        Norm-Laplace noise of scale ``sensitivity / epsilon`` if ``delta == 0`` or
        ``d + 1 <= (sigma epsilon / sensitivity)^2``, else Gaussian noise of standard deviation sigma.

    Notes
    -----
    ``E||z||^2 = d (d+1) (sensitivity/epsilon)^2`` for the norm-Laplace law (Chaudhuri, Monteleoni and
    Sarwate 2011), ``d sigma^2`` for the Gaussian (Balle and Wang 2018, Theorem 8). The rule sees no data.

    Examples
    --------
    >>> gaussian_or_norm_laplace(1.0, 1e-5, dimension=10).mechanism
    'norm_laplace'
    """
    epsilon, (_, delta) = check_positive_epsilon(epsilon), check_target(epsilon, delta)
    dimension, sensitivity = check_steps(dimension, "dimension"), check_positive(sensitivity, "sensitivity")
    laplace = NoiseChoice("norm_laplace", math.nextafter(sensitivity / epsilon, math.inf), 0.0)
    if delta == 0.0:
        return laplace if epsilon < math.inf else NoiseChoice("norm_laplace", 0.0, 0.0)
    gaussian = NoiseChoice("gaussian", gaussian_sigma(epsilon, delta, sensitivity), delta)
    if epsilon < math.inf and laplace.mean_square(dimension) <= gaussian.mean_square(dimension):
        return laplace
    return gaussian
