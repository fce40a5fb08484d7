"""Step sizes of private stochastic gradient descent from public numbers.

They minimise a bound on the excess risk, so they matter for utility only; they do not depend on the data, so
choosing them costs no privacy. `radius` bounds ``||w*||``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import minimize_scalar

from dperm.accounting._checks import check_non_negative, check_positive, check_steps


def output_step_size(
    radius: float,
    n_samples: int,
    passes: int,
    gradient_bound: float,
    dimension: int,
    mu: float,
    *,
    jump: float = 0.0,
    smoothness: float = 0.0,
) -> float:
    """Step size of permutation passes whose average is released with Gaussian noise; kappa = 0.

    Parameters
    ----------
    radius : float
        R, > 0.
    n_samples, passes : int
        n and m, >= 1; T = n m steps. n m >= 2.
    gradient_bound : float
        G, > 0.
    dimension : int
        d, >= 1.
    mu : float
        ``mu*(epsilon, delta)`` from `gdp_mu`, > 0; infinite without privacy.
    jump : float, default=0.0
        J, jump of a gradient's norm at a smoothed kink: jump of the derivative times the largest norm of a
        row; 0 for smooth losses.
    smoothness : float, default=0.0
        L of a smooth loss; the result is at most 2/L. 0 for no limit (smoothed kinks adapt to eta).

    Returns
    -------
    float
        ``R / sqrt(T (G^2 + J^2/8 + 2 G sqrt(d) C/mu))`` with ``C = 2 G ((m+1)/2 - 1/n)``.

    Notes
    -----
    Minimises ``R^2/(2 eta T) + eta G^2/2 + eta J^2/16 + G sqrt(d) C eta/mu``. For one pass over
    independent records the first terms bound the expected population risk; otherwise a heuristic.
    """
    radius, bound = check_positive(radius, "radius"), check_positive(gradient_bound, "gradient_bound")
    n_samples, passes = check_steps(n_samples, "n_samples"), check_steps(passes, "passes")
    per_step = 2.0 * bound * ((passes + 1) / 2.0 - 1.0 / n_samples)
    noise = 2.0 * bound * math.sqrt(check_steps(dimension, "dimension")) * per_step / _check_mu(mu)
    kink = check_non_negative(jump, "jump") ** 2 / 8.0
    eta = radius / math.sqrt(n_samples * passes * (bound * bound + kink + noise))
    return min(eta, _largest_step(smoothness))


def numeric_step_size(
    sensitivity: Callable[[float], float],
    radius: float,
    steps: int,
    gradient_bound: float,
    dimension: int,
    mu: float,
    *,
    smoothness: float = 0.0,
) -> float:
    """Step size where the sensitivity is not proportional to it (Hoelder exponents below 1).

    Parameters
    ----------
    sensitivity : callable
        Sensitivity of the average as a function of eta (`permutation_pass_sensitivity`).
    radius, gradient_bound, dimension, mu, smoothness
        As in `output_step_size`.
    steps : int
        T, >= 1.

    Returns
    -------
    float
        Minimiser of ``R^2/(2 eta T) + eta G^2/2 + G sqrt(d) sensitivity(eta)/mu``, to about 1e-6 relative if
        the bound has one minimum in log(eta).
    """
    radius, bound = check_positive(radius, "radius"), check_positive(gradient_bound, "gradient_bound")
    noise = bound * math.sqrt(check_steps(dimension, "dimension")) / _check_mu(mu)
    steps = check_steps(steps)

    def risk(log_eta: float) -> float:
        eta = math.exp(log_eta)
        return radius**2 / (2.0 * eta * steps) + eta * bound**2 / 2.0 + noise * sensitivity(eta)

    # Noise only makes steps shorter, so the step size without noise is an upper bound.
    high = math.log(min(radius / (bound * math.sqrt(steps)), _largest_step(smoothness)))
    found = minimize_scalar(risk, bounds=(high - 35.0, high), method="bounded", options={"xatol": 1e-7})
    return math.exp(min(high, float(found.x)))


def gradient_step_size(
    radius: float, steps: int, gradient_bound: float, sigma: float, dimension: int
) -> float:
    """Step size under noise on every gradient: ``R / sqrt(T (G^2 + d sigma^2))``.

    Parameters
    ----------
    radius, gradient_bound : float
        R and G, > 0.
    steps, dimension : int
        T and d, >= 1.
    sigma : float
        Standard deviation of the noise on the *mean* subgradient, per coordinate, >= 0.

    Notes
    -----
    Minimises ``R^2/(2 eta T) + eta (G^2 + d sigma^2)/2``; the minimum is
    ``R sqrt((G^2 + d sigma^2)/T)``.
    """
    variance = check_steps(dimension, "dimension") * check_non_negative(sigma, "sigma") ** 2
    square = check_positive(gradient_bound, "gradient_bound") ** 2 + variance
    return check_positive(radius, "radius") / math.sqrt(check_steps(steps) * square)


def _check_mu(mu: float) -> float:
    if not check_non_negative(mu, "mu") > 0.0:
        raise ValueError(f"mu must be > 0 (math.inf without privacy), got {mu!r}.")
    return float(mu)


def _largest_step(smoothness: float) -> float:
    smoothness = check_non_negative(smoothness, "smoothness")
    return 2.0 / smoothness if smoothness > 0.0 else math.inf
