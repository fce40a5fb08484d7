"""Noisy gradient descent when only the last iterate is published."""

from __future__ import annotations

import math

from dperm.accounting._checks import check_positive, check_positive_epsilon, check_probability, check_steps
from dperm.accounting.gaussian import gaussian_sigma


def last_iterate_factor(contraction: float, steps: int) -> float:
    """Factor that replaces ``sqrt(steps)`` in the GDP cost when intermediate iterates stay secret.

    Parameters
    ----------
    contraction : float
        Lipschitz constant c of a step, in [0, 1].
    steps : int
        T, >= 1.

    Returns
    -------
    float
        ``sqrt((1-c^T)/(1+c^T) (1+c)/(1-c))``, bounded in T for c < 1; ``sqrt(T)`` at c = 1.

    Notes
    -----
    Bok, Su and Altschuler 2024, Theorem 4.1: strongly convex losses, full batches, equality on quadratics.
    """
    steps = check_steps(steps)
    contraction = check_probability(contraction, "contraction")
    if contraction == 1.0:
        return math.sqrt(steps)
    if contraction == 0.0:
        return 1.0
    log_power = steps * math.log(contraction)
    ratio = -math.expm1(log_power) / (1.0 + math.exp(log_power))
    return math.sqrt(ratio * (1.0 + contraction) / (1.0 - contraction)) * (1.0 + 1e-13)


def noisy_gd_sigma(
    epsilon: float,
    delta: float,
    steps: int,
    n_samples: int,
    sensitivity: float,
    *,
    contraction: float | None = None,
) -> float:
    """Noise on the *mean* gradient of noisy gradient descent.

    Parameters
    ----------
    epsilon, delta : float
        Target, epsilon > 0, delta strictly between 0 and 1.
    steps : int
        Number of noisy gradients, >= 1 (one less than the number of averaged iterates).
    n_samples : int
        Public N by which the sum is divided, >= 1.
    sensitivity : float
        Change of the gradient *sum* between neighbours, > 0: C or 2 C after clipping.
    contraction : float, optional
        If given, only the last iterate is accounted for: all others must stay secret.

    Returns
    -------
    float
        ``sqrt(steps) sensitivity / (N mu*)``, or with `last_iterate_factor` in place of the root.

    Notes
    -----
    Adaptive Gaussian composition is exact (Dong, Roth and Su 2022, Corollary 3.3).
    """
    check_positive_epsilon(epsilon)
    per_step = check_positive(sensitivity, "sensitivity") / check_steps(n_samples, "n_samples")
    factor = math.sqrt(check_steps(steps)) if contraction is None else last_iterate_factor(contraction, steps)
    return gaussian_sigma(epsilon, delta, per_step * factor)
