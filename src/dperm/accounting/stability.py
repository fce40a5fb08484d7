"""Counts of values that nobody listed in advance: from which noisy count on one may be shown."""

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
        In (0, 1): what the release may exceed the profile of its Gaussian noise by.
    columns : int
        In each of so many columns a record counts once at most.

    Returns
    -------
    int
        ``T = ceil(3/2 + sigma Phi^-1((1 - slack)^(1/columns)))``, its quantile rounded up.

    Notes
    -----
    What is released is every count of the values that occur, plus noise that is rounded to an integer, and
    shown where that is at least T. Let this be mu-GDP on the values that two neighbouring data sets have in
    common. A value that only one of them has was counted once, so it shows if ``round(Z) >= T - 1``, which
    has probability ``1 - Phi((T - 3/2) / sigma)``. There is one in each column at most, on either side, so
    with probabilities pi_U and pi_V, both at least ``1 - slack``, none of them shows; and then what shows
    are common values. With H the profile of the common part, at most that of the Gaussian pair, the
    profile is at ``g = e^epsilon``

        1 - pi_U + pi_U H(g pi_V / pi_U) <= slack + (1 - slack) delta_G(epsilon; mu),

    as the left side decreases in pi_V and, at ``pi_V = 1 - slack``, in pi_U: with pi_U it changes by
    ``-1 + H(h) - h H'(h)``, ``h = g pi_V / pi_U``, and ``H(h) - h H'(h)`` is a probability. It is mu-GDP up
    to `slack` (see `dperm.accounting.approximate_gdp`), and adds up as such.

    Examples
    --------
    >>> publication_threshold(2.0, 1e-6, 1), publication_threshold(5.0, 1e-7, 14)
    (12, 30)
    """
    sigma = check_non_negative(sigma, "sigma")
    tail = -math.expm1(math.log1p(-check_delta(slack, "slack")) / check_steps(columns, "columns"))
    quantile = max(-float(ndtri(tail)), 0.0) * (1.0 + 1e-12)
    return math.ceil(1.5 + sigma * quantile)
