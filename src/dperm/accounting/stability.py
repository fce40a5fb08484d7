"""Stability-based histograms: thresholds for noisy counts of values that are not known in advance."""

from __future__ import annotations

import math

from scipy.special import ndtri

from dperm.accounting._checks import check_delta, check_non_negative, check_steps


def publication_threshold(sigma: float, slack: float, columns: int) -> int:
    """Smallest noisy count at which a value may be shown.

    Parameters
    ----------
    sigma : float
        Standard deviation of the Gaussian noise of a count, before it is rounded to an integer; at least 0.
    slack : float
        By how much the release may exceed the profile of its Gaussian noise; in (0, 1).
    columns : int
        Number of columns; a record counts at most once in each.

    Returns
    -------
    int
        ``T = ceil(3/2 + sigma Phi^-1((1 - slack)^(1/columns)))``, with the quantile rounded up.

    Notes
    -----
    Every value that occurs is counted; noise, rounded to an integer, is added to its count, and the result is
    shown if it is at least T. Let this be mu-GDP on the values that two neighbouring data sets have in
    common. A value that only one of them has was counted once, so it is shown if ``round(Z) >= T - 1``, which
    has probability ``1 - Phi((T - 3/2) / sigma)``. Each data set has at most one such value in each column,
    so none of them is shown with probabilities pi_U and pi_V, both at least ``1 - slack``; then only common
    values are shown. With H the profile of the common part, which is at most that of the Gaussian pair, the
    profile at ``g = e^epsilon`` is

        1 - pi_U + pi_U H(g pi_V / pi_U) <= slack + (1 - slack) delta_G(epsilon; mu),

    because the left side decreases in pi_V and, at ``pi_V = 1 - slack``, in pi_U: its derivative in pi_U is
    ``-1 + H(h) - h H'(h)``, ``h = g pi_V / pi_U``, and ``H(h) - h H'(h)`` is a probability. So the release is
    mu-GDP up to `slack`, and composes as in `dperm.accounting.approximate_gdp`.

    Examples
    --------
    >>> publication_threshold(2.0, 1e-6, 1), publication_threshold(5.0, 1e-7, 14)
    (12, 30)
    """
    sigma = check_non_negative(sigma, "sigma")
    tail = -math.expm1(math.log1p(-check_delta(slack, "slack")) / check_steps(columns, "columns"))
    quantile = max(-float(ndtri(tail)), 0.0) * (1.0 + 1e-12)
    return math.ceil(1.5 + sigma * quantile)
