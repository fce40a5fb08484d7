"""Published noise of full-batch algorithms: output perturbation, noisy descent, adaptive descent."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dperm.accounting._checks import check_non_negative, check_positive, check_positive_epsilon, check_steps
from dperm.accounting.gaussian import gaussian_delta, gaussian_sigma, gdp_epsilon
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.objective_perturbation import (
    logistic_objective_sigma,
    logistic_threshold,
    pure_objective_scale,
)
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
    within_doubles,
)
from dperm.accounting.selection import offspring_range, privgene_rate
from dperm.accounting.units import check_target
from dperm.accounting.zcdp import zcdp_epsilon, zcdp_rho, zcdp_rho_bun_steinke


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


# Standard deviation of Laplace over Gumbel noise at equal zCDP cost: sqrt(2) over pi/(2 sqrt 6).
LAPLACE_OVER_GUMBEL = 4.0 * math.sqrt(3.0) / math.pi


class AgdSplit(NamedTuple):
    """Initial split of the budget of adaptive gradient descent.

    Attributes
    ----------
    rho, rho_selection, rho_gradient : float
        Total, and cost of one selection and of one gradient (zCDP).
    gradient_sigma : float
        Noise on the clipped gradient sum.
    laplace_scale : float
        Scale of report-noisy-max on the clipped loss sums.
    first_try_iterations : int
        Iterations that fit if every first step size is accepted.

    Examples
    --------
    >>> split = dp_agd(1.0, 1e-6, splits=60)
    >>> split.first_try_iterations, round(split.gradient_sigma)
    (485, 1908)
    """

    rho: float
    rho_selection: float
    rho_gradient: float
    gradient_sigma: float
    laplace_scale: float
    first_try_iterations: int


class PureObjective(NamedTuple):
    """Pure objective perturbation as published.

    Attributes
    ----------
    epsilon_p : float
        Epsilon left for the noise, whose density is ``exp(-epsilon_p ||b||/2)``.
    extra_l2 : float
        What is added to the regulariser (mean scale).

    Examples
    --------
    >>> objective_perturbation_pure(1.0, n_samples=1000, l2=0.01).extra_l2
    0.0
    """

    epsilon_p: float
    extra_l2: float


@within_doubles
def dp_agd(
    epsilon: float,
    delta: float,
    *,
    clip_gradient: float = 3.0,
    clip_loss: float = 3.0,
    splits: int = 60,
    neighbors: str = "add_or_remove",
) -> AgdSplit:
    """Initial parameters of adaptive gradient descent as published.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    clip_gradient, clip_loss : float
        Clips C of gradients and losses.
    splits : int, default=60
        Assumed number of iterations.
    neighbors : {"add_or_remove"}
        replace_one is refused, because it needs twice the Laplace scale.

    Returns
    -------
    AgdSplit
        ``rho_sel = (epsilon/(2 splits))^2/2``, ``rho_ng = (epsilon/(2 splits))^2/(4 log(1.25/delta))``.

    Notes
    -----
    Lee and Kifer 2018, inequality (5), Algorithm 2 and Section 6.

    Examples
    --------
    >>> split = dp_agd(1.0, 1e-6, splits=60)
    >>> round(split.gradient_sigma, 1), round(split.laplace_scale, 1)
    (1907.6, 360.0)
    """
    refuse_replace_one(neighbors, "dp_agd", "C of a loss sum")
    epsilon, delta = check_claim(check_positive(epsilon, "epsilon"), delta)
    share = epsilon / (2.0 * check_steps(splits, "splits"))
    selection, gradient = share**2 / 2.0, share**2 / (4.0 * math.log(1.25 / delta))
    rho = zcdp_rho_bun_steinke(epsilon, delta)
    return AgdSplit(
        rho,
        selection,
        gradient,
        check_positive(clip_gradient, "clip_gradient") / math.sqrt(2.0 * gradient),
        check_positive(clip_loss, "clip_loss") / math.sqrt(2.0 * selection),
        int(rho / (selection + gradient)),
    )


@compared("dp_agd")
def compare_dp_agd(epsilon: float, delta: float, *, part: str = "gradient") -> PaperComparison:
    """Noise at the same share of the budget; `part` is "gradient" or "selection"."""
    epsilon, delta = check_claim(epsilon, delta)
    published, tight = zcdp_rho_bun_steinke(epsilon, delta), zcdp_rho(epsilon, delta)
    if part not in ("gradient", "selection"):
        raise ValueError(f"part must be 'gradient' or 'selection', got {part!r}.")
    # Noise is proportional to 1/sqrt(rho); bounded range makes a selection four times cheaper.
    factor, cost = (LAPLACE_OVER_GUMBEL, published / 4.0) if part == "selection" else (1.0, published)
    noise, tight_noise, true = (
        factor / math.sqrt(published),
        1.0 / math.sqrt(tight),
        zcdp_epsilon(cost, delta),
    )
    return PaperComparison(f"dp_agd {part}", noise, tight_noise, epsilon, delta, true, "add_or_remove")


@published("objective_perturbation")
def objective_perturbation(
    epsilon: float, delta: float, *, l2: float, row_norm: float = 1.0, beta: float | None = None
) -> PaperComparison:
    """Noise of Gaussian objective perturbation as published; logistic loss, scale of the sum, add_or_remove.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    l2 : float
        Regulariser on the sum, at least ``2 beta/epsilon``.
    row_norm : float, default=1.0
        R.
    beta : float, optional
        Smoothness, R^2/4 unless given.

    Returns
    -------
    float
        ``R sqrt(8 log(2/delta) + 4 epsilon)/epsilon``; for an exact minimiser only.

    Notes
    -----
    Kifer, Smith and Thakurta 2012, Algorithm 1, as used by Lee and Kifer 2018.

    Examples
    --------
    >>> round(objective_perturbation(1.0, 1e-6, l2=1.0), 2)
    10.96
    """
    epsilon, delta = check_claim(epsilon, delta)
    l2, row_norm = check_positive(l2, "l2"), check_positive(row_norm, "row_norm")
    beta = row_norm * row_norm / 4.0 if beta is None else check_positive(beta, "beta")
    least = 2.0 * beta / epsilon
    if l2 < least:
        raise ValueError(f"l2 must be at least 2 beta/epsilon = {least:.6g} (scale of the sum), got {l2!r}.")
    noise = row_norm * math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon
    tight = logistic_objective_sigma(epsilon, delta, l2, row_norm)
    shift = math.log1p(row_norm * row_norm / 4.0 / l2)
    gaussian = gdp_epsilon(row_norm / noise, delta)
    true = min(max(gaussian, logistic_threshold(l2, noise, row_norm)), gaussian + shift)
    return PaperComparison("objective_perturbation", noise, tight, epsilon, delta, true, "add_or_remove")


@within_doubles
def objective_perturbation_pure(
    epsilon: float, *, n_samples: int, l2: float, curvature: float = 0.25
) -> PureObjective:
    """Pure objective perturbation as published; rows of norm at most 1, mean scale, replace_one.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    n_samples : int
        n.
    l2 : float
        Lambda, regulariser on the mean, > 0.
    curvature : float, default=0.25
        c, bound on the second derivative of the loss in the margin.

    Notes
    -----
    Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2 and Theorem 9; for an exact minimiser only.

    Examples
    --------
    >>> round(objective_perturbation_pure(1.0, n_samples=1000, l2=0.01).epsilon_p, 4)
    0.9506
    """
    epsilon = check_positive_epsilon(epsilon)
    curvature, l2 = check_positive(curvature, "curvature"), check_positive(l2, "l2")
    share = curvature / (check_steps(n_samples, "n_samples") * l2)
    left = epsilon - math.log1p(2.0 * share + share * share)
    if left > 0.0:
        return PureObjective(left, 0.0)
    return PureObjective(epsilon / 2.0, curvature / (n_samples * math.expm1(epsilon / 4.0)) - l2)


@compared("objective_perturbation_pure")
def compare_objective_perturbation_pure(epsilon: float, *, n_samples: int, l2: float) -> PaperComparison:
    """Published against tight scale of b for the logistic loss, R = 1, replace_one."""
    published = objective_perturbation_pure(epsilon, n_samples=n_samples, l2=l2)
    tight = pure_objective_scale(epsilon, n_samples * (l2 + published.extra_l2), neighbors="replace_one")
    scale = 2.0 / published.epsilon_p
    needed = min(epsilon, max(published.epsilon_p, 2.0 / (n_samples * (l2 + published.extra_l2))))
    return PaperComparison("objective_perturbation_pure", scale, tight, epsilon, 0.0, needed, "replace_one")


def privgene(rho: float, *, generations: int, entry_bound: float, stride: float) -> float:
    """Rate of the exponential mechanism of PrivGene as published: ``sqrt(2 rho/T)/(4 L_inf h)``.

    Notes
    -----
    Lee and Kifer 2018, Section 6; valid for both relations, 2 or 4 times too small.

    Examples
    --------
    >>> round(privgene(0.1, generations=10, entry_bound=1.0, stride=0.5), 4)
    0.0707
    """
    share = check_positive(rho, "rho") / check_steps(generations, "generations")
    entry_bound, stride = check_positive(entry_bound, "entry_bound"), check_positive(stride, "stride")
    return math.sqrt(2.0 * share) / (4.0 * entry_bound * stride)


@compared("privgene")
def compare_privgene(
    epsilon: float, delta: float, *, generations: int = 1, neighbors: str = "add_or_remove"
) -> PaperComparison:
    """Published against tight scale ``1/c`` of the selection noise, with both conversions of the budget."""
    epsilon, delta = check_claim(epsilon, delta)
    published = privgene(
        zcdp_rho_bun_steinke(epsilon, delta), generations=generations, entry_bound=1.0, stride=1.0
    )
    score_range = offspring_range(1.0, 1.0, neighbors)
    tight = privgene_rate(zcdp_rho(epsilon, delta), generations, score_range)
    spent = generations * (published * score_range) ** 2 / 8.0
    true = zcdp_epsilon(spent, delta)
    return PaperComparison("privgene", 1.0 / published, 1.0 / tight, epsilon, delta, true, neighbors)
