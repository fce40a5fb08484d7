"""Objective perturbation: the privacy of ``argmin sum_i l(w; z_i) + l2/2 ||w||^2 + <b, w>``, b random.

Losses and l2 are on the scale of the *sum*. The loss is convex in one linear prediction, every coordinate is
regularised, and the minimiser is exact (an approximate one needs noise on the output as well).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import log_ndtr

from dperm.accounting._checks import check_delta, check_epsilon, check_positive, decreasing_root
from dperm.accounting.gaussian import gaussian_delta, gaussian_sigma
from dperm.accounting.neighbours import Neighbours


def logistic_threshold(l2: float, sigma: float, row_norm: float = 1.0) -> float:
    """``k = R^2 (1/l2 - 1/(2 sigma^2))``: for epsilon >= k the logistic profile equals the Gaussian one."""
    square = check_positive(row_norm, "row_norm") ** 2
    return square * (1.0 / check_positive(l2, "l2") - 0.5 / check_positive(sigma, "sigma") ** 2)


def logistic_objective_sigma(epsilon: float, delta: float, l2: float, row_norm: float = 1.0) -> float:
    """Noise of objective perturbation for the logistic loss, add-or-remove neighbours.

    Parameters
    ----------
    epsilon, delta : float
        Target; epsilon > 0, delta strictly between 0 and 1.
    l2 : float
        Regulariser on the sum, > 0.
    row_norm : float, default=1.0
        R, bound on ``||x||``.

    Returns
    -------
    float
        Standard deviation of b: ``R / mu*(epsilon, delta)``, as for the release of one sum, if the profile is
        Gaussian at epsilon (``l2 >= R^2/epsilon`` suffices); otherwise `objective_sigma` for monotone losses.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range, or no sigma is enough (``epsilon <= log(1 + R^2/(4 l2))``).

    Notes
    -----
    The loss of the pair is at most max(0, l) of the Gaussian pair for every epsilon >= `logistic_threshold`.
    """
    sigma = gaussian_sigma(epsilon, delta, row_norm)
    if logistic_threshold(l2, sigma, row_norm) <= epsilon:
        return sigma
    return objective_sigma(epsilon, delta, row_norm, row_norm * row_norm / 4.0, l2, monotone=True)


def objective_delta(
    epsilon: float, lipschitz: float, beta: float, l2: float, sigma: float, *, monotone: bool
) -> float:
    """Delta of objective perturbation for any convex generalised linear loss, add-or-remove neighbours.

    Parameters
    ----------
    epsilon : float
        At least 0.
    lipschitz, beta : float
        Constants L and beta of the loss in w, > 0.
    l2 : float
        Regulariser on the sum, > 0.
    sigma : float
        Standard deviation of b, > 0.
    monotone : bool
        Whether the derivative in the margin has one sign (logistic, Huberised hinge).

    Returns
    -------
    float
        With ``c = log(1 + beta/l2)`` and ``mu = L/sigma``: ``delta_G(epsilon - c, mu)`` if monotone;
        otherwise twice that if ``epsilon - c >= mu^2/2``, else ``1 - 2 e^(epsilon-c) Phi(-mu)``. It is
        1 if epsilon < c.

    Notes
    -----
    Kifer, Smith and Thakurta 2012; the Jacobian term c and the one-sided case are sharper than published.
    """
    shift = math.log1p(check_positive(beta, "beta") / check_positive(l2, "l2"))
    rest = check_epsilon(epsilon) - shift
    mu = check_positive(lipschitz, "lipschitz") / check_positive(sigma, "sigma")
    if rest < 0.0:
        return 1.0
    if monotone:
        return gaussian_delta(rest, sigma, lipschitz)
    if rest >= mu * mu / 2.0:
        return min(1.0, 2.0 * gaussian_delta(rest, sigma, lipschitz))
    rounding = (1.0 + rest) * 2.0**-50  # of the exponent, which is at most log(1/2)
    return min(1.0, max(0.0, 1.0 - 2.0 * math.exp(rest + float(log_ndtr(-mu))) + rounding))


def objective_sigma(
    epsilon: float, delta: float, lipschitz: float, beta: float, l2: float, *, monotone: bool
) -> float:
    """Smallest noise with `objective_delta` at most delta.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range, or ``epsilon <= log(1 + beta/l2)`` (then no noise is enough).
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    shift = math.log1p(check_positive(beta, "beta") / check_positive(l2, "l2"))
    if epsilon <= shift:
        raise ValueError(
            f"epsilon={epsilon!r} is at most log(1 + beta/l2) = {shift:.4g}: no noise is enough. Use "
            f"l2 above {beta / math.expm1(epsilon) if epsilon > 0.0 else math.inf:.4g}."
        )
    if monotone:
        return gaussian_sigma(epsilon - shift, delta, lipschitz)
    return _smallest_sigma(
        lambda sigma: objective_delta(epsilon, lipschitz, beta, l2, sigma, monotone=False), delta, lipschitz
    )


def replaced_objective_delta(
    epsilon: float, lipschitz: float, beta: float, l2: float, sigma: float, *, monotone: bool
) -> float:
    """As `objective_delta`, for replace-one neighbours.

    Returns
    -------
    float
        With ``c = log(1 + beta/l2)`` and ``mu = L/sigma``: ``delta_G(epsilon - c, 2 mu)`` plus twice
        ``delta_G(epsilon - c, mu)`` if the loss is monotone, else four times the first. 1 if epsilon < c.

    Notes
    -----
    ``log p/q = Z + J``. J is the log of ``(1 + s)/(1 + t)`` for s and t in [0, beta/l2], hence at most c. Z
    is the privacy loss of the Gaussian mechanism with the shift ``g = a x - a' x'``, where a and a' are the
    derivatives of the two records' losses at the minimiser. ``<b, g>/sigma^2 + ||g||^2/(2 sigma^2)`` is
    convex in (a, a'), so it is at most its largest value at the four corners of their ranges, one of which is
    0 for a monotone loss. A corner of shift ``g_k`` is a Gaussian loss of ``mu_k = ||g_k||/sigma``: at most
    mu, mu and 2 mu; for other losses there are four of at most 2 mu. ``(1 - e^(epsilon - c - z))+`` of the
    largest z is at most the sum over all corners.
    """
    shift = math.log1p(check_positive(beta, "beta") / check_positive(l2, "l2"))
    rest = check_epsilon(epsilon) - shift
    if rest < 0.0:
        return 1.0
    far = gaussian_delta(rest, sigma, 2.0 * check_positive(lipschitz, "lipschitz"))
    if not monotone:
        return min(1.0, 4.0 * far)
    return min(1.0, far + 2.0 * gaussian_delta(rest, sigma, lipschitz))


def replaced_objective_sigma(
    epsilon: float, delta: float, lipschitz: float, beta: float, l2: float, *, monotone: bool
) -> float:
    """Smallest noise with `replaced_objective_delta` at most delta; infinite if no noise is enough."""
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if epsilon <= math.log1p(check_positive(beta, "beta") / check_positive(l2, "l2")):
        return math.inf
    return _smallest_sigma(
        lambda sigma: replaced_objective_delta(epsilon, lipschitz, beta, l2, sigma, monotone=monotone),
        delta,
        lipschitz,
    )


def _smallest_sigma(delta_of: Callable[[float], float], delta: float, lipschitz: float) -> float:
    """Smallest noise with ``delta_of(sigma) <= delta``, rounded up."""

    def excess(log_sigma: float) -> float:
        return math.log(max(delta_of(math.exp(log_sigma)), 1e-320) / delta)

    return decreasing_root(excess, check_positive(lipschitz, "lipschitz")) * (1.0 + 1e-12)


def pure_objective_scale(
    epsilon: float, l2: float, row_norm: float = 1.0, neighbors: str = "add_or_remove"
) -> float:
    """Scale of norm-Laplace b (density ``exp(-||b||/scale)``), logistic loss, pure guarantee.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    l2 : float
        Regulariser on the sum, at least ``s R^2/epsilon`` with s = 1 or 2.
    row_norm : float, default=1.0
        R.
    neighbors : {"add_or_remove", "replace_one"}
        Relation.

    Returns
    -------
    float
        ``s R / epsilon``.

    Raises
    ------
    ValueError
        If l2 is too small for the proof.
    """
    s = Neighbours.parse(neighbors).sum_factor
    least = s * row_norm * row_norm / check_positive(epsilon, "epsilon")
    if l2 < least:
        raise ValueError(f"l2 must be at least {s} R^2/epsilon = {least:.6g} (scale of the sum), got {l2!r}.")
    return math.nextafter(s * row_norm / epsilon, math.inf)
