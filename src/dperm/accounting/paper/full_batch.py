"""Published noise of full-batch algorithms: output perturbation and noisy gradient descent."""

from __future__ import annotations

import math
from typing import Any

from dperm.accounting._checks import check_non_negative, check_positive, check_steps
from dperm.accounting.gaussian import gaussian_delta, gaussian_sigma, gdp_epsilon
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.output_sensitivity import (
    DescentRun,
    gradient_descent_sensitivity,
    logistic_sensitivity,
)
from dperm.accounting.paper.comparison import (
    PaperComparison,
    check_claim,
    compared,
    published,
    verified_noise,
)
from dperm.accounting.units import check_target


def textbook_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """``sqrt(2 log(1.25/delta)) sensitivity/epsilon`` (Dwork and Roth 2014, Theorem A.1: epsilon < 1).

    Examples
    --------
    >>> from dperm.accounting import gaussian_sigma
    >>> round(textbook_sigma(0.5, 1e-6), 3), round(gaussian_sigma(0.5, 1e-6), 3)
    (10.598, 8.058)
    """
    return _gaussian("textbook_gaussian", 1.25, 1.0, epsilon, delta, sensitivity)


def smooth_erm_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """``sqrt(2 log(2/delta)) sensitivity/epsilon``, claimed for any epsilon (Zhang et al. 2017, Theorem 1).

    Raises
    ------
    ValueError
        Where the claim is false: epsilon above 8.5, 9.4, 10.3 at delta = 1e-3, 1e-5, 1e-8.

    Examples
    --------
    >>> round(smooth_erm_sigma(1.0, 1e-5), 3)
    4.941
    >>> smooth_erm_sigma(10.0, 1e-5)
    Traceback (most recent call last):
        ...
    ValueError: The published Gaussian noise 'smooth_erm_gaussian' is not (10, 1e-05)-DP: its ...
    """
    return _gaussian("smooth_erm_gaussian", 2.0, math.inf, epsilon, delta, sensitivity)


def smooth_erm_sensitivity(
    n_samples: int, steps: int, eta: float, lipschitz: float, beta: float, l2: float = 0.0
) -> float:
    """Sensitivity published for gradient descent: ``3 L T eta/n``, or ``5 L (mu + b)/(n mu b)``.

    Notes
    -----
    Zhang et al. 2017, Lemma 2 (convex) and Lemma 3, whose constants are those of the regularised loss:
    ``mu = l2`` and smoothness ``b = l2 + beta``.

    Examples
    --------
    >>> round(smooth_erm_sensitivity(1000, steps=100, eta=0.1, lipschitz=1.0, beta=0.25), 6)
    0.03
    """
    eta, lipschitz = check_positive(eta, "eta"), check_positive(lipschitz, "lipschitz")
    beta, l2 = check_positive(beta, "beta"), check_non_negative(l2, "l2")
    n_samples, steps = check_steps(n_samples, "n_samples"), check_steps(steps)
    if l2 == 0.0:
        return 3.0 * lipschitz * steps * eta / n_samples
    total = l2 + beta
    return 5.0 * lipschitz * (l2 + total) / (n_samples * l2 * total)


def output_perturbation(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    steps: int,
    eta: float,
    lipschitz: float,
    beta: float,
    l2: float = 0.0,
) -> float:
    """Noise of output perturbation as published; replace_one.

    Parameters
    ----------
    epsilon, delta : float
        Target; delta = 0 gives the scale of norm-Laplace noise.
    n_samples, steps, eta, lipschitz, beta, l2
        As in `smooth_erm_sensitivity`.

    Returns
    -------
    float
        ``sqrt(2 log(2/delta)) Delta/epsilon`` with `smooth_erm_sensitivity`.

    Raises
    ------
    ValueError
        If the Gaussian step is false at (epsilon, delta), or the whole is not certified.

    Notes
    -----
    Zhang et al. 2017, Algorithm 1, Lemmas 2 and 3, Theorem 1.

    Examples
    --------
    >>> round(output_perturbation(1.0, 1e-6, n_samples=1000, steps=100, eta=0.1, lipschitz=1.0, beta=0.25), 4)
    0.1616
    """
    comparison = compare_output_perturbation(
        epsilon, delta, n_samples=n_samples, steps=steps, eta=eta, lipschitz=lipschitz, beta=beta, l2=l2
    )
    if comparison.delta > 0.0:
        smooth_erm_sigma(epsilon, delta)
    return verified_noise(comparison)


@compared("output_perturbation_gd")
def compare_output_perturbation(
    epsilon: float, delta: float, *, refined: bool = False, **settings: Any
) -> PaperComparison:
    """Published against tight output perturbation; `refined`: logistic sensitivity with R = lipschitz."""
    _, delta = check_target(epsilon, delta)
    epsilon, _ = check_claim(epsilon, delta or 0.5)
    published = smooth_erm_sensitivity(**settings)
    beta, l2, eta = settings["beta"], settings.get("l2", 0.0), settings["eta"]
    run = DescentRun(settings["n_samples"], settings["steps"], eta, l2=l2)
    if refined:
        tight = logistic_sensitivity(run, settings["lipschitz"])
    else:
        tight = gradient_descent_sensitivity(run, settings["lipschitz"], beta)
    largest_step = 1.0 / beta if l2 == 0.0 else 1.0 / (2.0 * l2 + beta)
    small_step = eta <= largest_step * (1.0 + 1e-12)
    if delta == 0.0:
        noise, tight_noise, true = published / epsilon, tight / epsilon, epsilon * tight / published
    else:
        noise = math.sqrt(2.0 * math.log(2.0 / delta)) * published / epsilon
        tight_noise, true = gaussian_sigma(epsilon, delta, tight), gdp_epsilon(tight / noise, delta)
    return PaperComparison(
        "output_perturbation_gd", noise, tight_noise, epsilon, delta, true, "replace_one", small_step
    )


@published("noisy_gd")
def noisy_gd(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    steps: int,
    clip: float = 1.0,
    neighbors: str = "add_or_remove",
) -> PaperComparison:
    """Noise on the mean gradient as published: ``sqrt(T) sqrt(2 log(1.25/delta)) C/(n epsilon)``.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_samples : int
        Public N.
    steps : int
        T, number of averaged iterates; T - 1 noisy gradients, >= 2.
    clip : float, default=1.0
        Norm bound C of one gradient.
    neighbors : {"add_or_remove"}
        replace_one is refused, because it has twice the published sensitivity C/n.

    Notes
    -----
    Nikolov, lecture notes on private ERM, Section 6; Bassily, Smith and Thakurta 2014.

    Examples
    --------
    >>> round(noisy_gd(0.5, 1e-6, n_samples=1000, steps=100), 4)
    0.106
    """
    refuse_replace_one(neighbors, "noisy_gd", "C/n, the contribution of one record")
    (epsilon, delta), releases = check_claim(epsilon, delta), check_steps(steps, least=2) - 1
    mean_clip = check_positive(clip, "clip") / check_steps(n_samples, "n_samples")
    noise = math.sqrt(steps) * math.sqrt(2.0 * math.log(1.25 / delta)) * mean_clip / epsilon
    together = math.sqrt(releases) * mean_clip  # sensitivity of all releases: Gaussian composition is exact
    tight, true = gaussian_sigma(epsilon, delta, together), gdp_epsilon(together / noise, delta)
    return PaperComparison("noisy_gd", noise, tight, epsilon, delta, true, neighbors, epsilon < 1.0)


def refuse_replace_one(neighbors: str, algorithm: str, sensitivity: str) -> None:
    """Raise ValueError for replace_one, where this sensitivity is half of what is needed."""
    if Neighbours.parse(neighbors) is Neighbours.REPLACE_ONE:
        raise ValueError(
            f"The published calibration of {algorithm!r} uses the sensitivity {sensitivity}: under "
            "'replace_one' it has half of the noise it needs. Use neighbors='add_or_remove', or "
            "calibration='tight'."
        )


def _gaussian(
    name: str, constant: float, proved_below: float, epsilon: float, delta: float, sensitivity: float
) -> float:
    epsilon, delta = check_claim(epsilon, delta)
    sigma = math.sqrt(2.0 * math.log(constant / delta)) * check_positive(sensitivity, "sensitivity") / epsilon
    if gaussian_delta(epsilon, sigma, sensitivity) > delta:
        raise ValueError(
            f"The published Gaussian noise {name!r} is not ({epsilon:g}, {delta:g})-DP: its delta is "
            f"{gaussian_delta(epsilon, sigma, sensitivity):.3g}. Use dperm.accounting.gaussian_sigma."
        )
    true = gdp_epsilon(sensitivity / sigma if sigma > 0.0 else math.inf, delta)
    tight = gaussian_sigma(epsilon, delta, sensitivity)
    return verified_noise(
        PaperComparison(name, sigma, tight, epsilon, delta, true, "any", epsilon < proved_below)
    )
