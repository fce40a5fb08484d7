"""Variance of the noise after Laplacian smoothing ``A^-1``, ``A = I - s L`` (circulant), in closed form.

Smoothing is post-processing of the noisy gradient: it changes the utility and never the guarantee.
"""

from __future__ import annotations

import math

from dperm.accounting._checks import check_non_negative, check_steps


def smoothing_gamma(smoothing: float, dimension: int) -> float:
    """Mean of ``z' A^-1 z / d`` for standard normal z: ``(1/d) trace(A^-1)``.

    Parameters
    ----------
    smoothing : float
        s, at least 0 (the result is 1 at s = 0).
    dimension : int
        d, >= 1.

    Returns
    -------
    float
        ``(1 + a^d)/((1 - a^d) sqrt(4 s + 1))``, ``a = (2 s + 1 - sqrt(4 s + 1))/(2 s)``; tends to
        ``1/sqrt(1 + 4 s)``, not to 0, as d grows.

    Notes
    -----
    DP-LSSGD, Proposition 1.

    Examples
    --------
    >>> round(smoothing_gamma(1.0, 5), 10)
    0.4545454545
    """
    smoothing, dimension = check_non_negative(smoothing, "smoothing"), check_steps(dimension, "dimension")
    if smoothing == 0.0:
        return 1.0
    power = _decay(smoothing) ** dimension
    return (1.0 + power) / ((1.0 - power) * math.sqrt(4.0 * smoothing + 1.0))


def smoothing_beta(smoothing: float, dimension: int) -> float:
    """Mean of ``||A^-1 z||^2 / d`` for standard normal z: ``(1/d) trace(A^-2)``.

    Parameters
    ----------
    smoothing, dimension
        As in `smoothing_gamma`.

    Returns
    -------
    float
        With ``r = sqrt(4 s + 1)``, ``(2 s + 1)(1 + a^d)/(r^3 (1 - a^d)) + 2 d a^d/(r^2 (1 - a^d)^2)``; tends
        to ``(1 + 2 s)/(1 + 4 s)^(3/2)`` as d grows.

    Notes
    -----
    DP-LSSGD, Proposition 2.

    Examples
    --------
    >>> round(smoothing_beta(1.0, 5), 10)
    0.2892561983
    """
    smoothing, dimension = check_non_negative(smoothing, "smoothing"), check_steps(dimension, "dimension")
    if smoothing == 0.0:
        return 1.0
    power, root = _decay(smoothing) ** dimension, math.sqrt(4.0 * smoothing + 1.0)
    leading = (2.0 * smoothing + 1.0) * (1.0 + power) / (root**3 * (1.0 - power))
    return leading + 2.0 * dimension * power / (root * root * (1.0 - power) ** 2)


def _decay(smoothing: float) -> float:
    return 2.0 * smoothing / (2.0 * smoothing + 1.0 + math.sqrt(4.0 * smoothing + 1.0))
