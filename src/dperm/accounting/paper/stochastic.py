"""Published noise of stochastic gradient methods: random rounds, smoothing, advanced composition, moments."""

from __future__ import annotations

import math
from typing import Any

from dperm.accounting._checks import check_positive, check_rate, check_steps
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.paper.comparison import (
    PaperComparison,
    check_claim,
    compared,
    published,
    verified_noise,
)
from dperm.accounting.sgd_calibration import noise_multiplier
from dperm.accounting.subsampling import sgd_epsilon

_WITHOUT_REPLACEMENT = {"sampling": "without_replacement", "neighbors": "replace_one"}
_POISSON = {"sampling": "poisson", "neighbors": "add_or_remove"}


@published("rrpsgd")
def rrpsgd(epsilon: float, delta: float, *, n_samples: int) -> PaperComparison:
    """Noise of random-round private SGD per coordinate, over the Lipschitz constant; replace_one.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_samples : int
        n; one uniform record per step, at most n^2 steps.

    Returns
    -------
    float
        ``sigma/L = sqrt(4 log(3n/delta) log(2/delta))/epsilon``.

    Raises
    ------
    ValueError
        Where the accountant does not certify the claim (n = 1000, epsilon = 20, delta = 1e-3).

    Notes
    -----
    Zhang et al. 2017, Algorithm 2 and Theorem 4 (epsilon <= 1).

    Examples
    --------
    >>> round(rrpsgd(1.0, 1e-6, n_samples=1000), 2)
    35.59
    """
    epsilon, delta = check_claim(epsilon, delta)
    noise = rrpsgd_sigma(epsilon, delta, check_steps(n_samples, "n_samples"))
    settings = {"batch_size": 1, "n_samples": n_samples, "steps": n_samples**2, **_WITHOUT_REPLACEMENT}
    return _compare("rrpsgd", noise, epsilon, delta, settings, proved=epsilon <= 1.0)


def rrpsgd_sigma(epsilon: float, delta: float, n_samples: int) -> float:
    """Return the noise of `rrpsgd` without verification."""
    return math.sqrt(4.0 * math.log(3.0 * n_samples / delta) * math.log(2.0 / delta)) / epsilon


@published("dp_lssgd")
def dp_lssgd(
    epsilon: float,
    delta: float,
    *,
    batch_size: int,
    n_samples: int,
    steps: int,
    neighbors: str = "replace_one",
) -> PaperComparison:
    """Noise of DP-LSSGD on the *averaged* gradient, over the clip G.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    batch_size, n_samples, steps : int
        b, n and T.
    neighbors : {"replace_one", "add_or_remove"}
        The former with batches without replacement, the latter with Poisson sampling.

    Returns
    -------
    float
        ``nu/G = sqrt(8 T alpha/epsilon)/n``, ``alpha = 2 log(1/delta)/epsilon + 1``.

    Raises
    ------
    ValueError
        Where the accountant does not certify the claim; Theorem 1 is false for few steps.

    Notes
    -----
    DP-LSSGD, Theorem 1, claimed for ``epsilon^2 <= 5 T log(1/delta) b^2/n^2``.

    Examples
    --------
    >>> round(dp_lssgd(1.0, 1e-5, batch_size=10, n_samples=100, steps=20), 4)
    0.62
    """
    epsilon, delta = check_claim(epsilon, delta)
    noise = dp_lssgd_sigma(epsilon, delta, check_steps(n_samples, "n_samples"), check_steps(steps))
    rate = check_rate(check_positive(batch_size, "batch_size") / n_samples, "batch_size / n_samples")
    claimed = epsilon * epsilon <= 5.0 * steps * math.log(1.0 / delta) * rate**2
    replaced = Neighbours.parse(neighbors) is Neighbours.REPLACE_ONE
    scheme = _WITHOUT_REPLACEMENT if replaced else _POISSON
    settings = {"batch_size": batch_size, "n_samples": n_samples, "steps": steps, **scheme}
    return _compare("dp_lssgd", noise, epsilon, delta, settings, proved=claimed, unit=1.0 / batch_size)


def dp_lssgd_sigma(epsilon: float, delta: float, n_samples: int, steps: int) -> float:
    """Return the noise of `dp_lssgd` without verification."""
    order = 2.0 * math.log(1.0 / delta) / epsilon + 1.0
    return math.sqrt(8.0 * steps * order / epsilon) / n_samples


def sgd_advanced_composition(epsilon: float, delta: float, *, rate: float, steps: int) -> float:
    """Noise multiplier of SGD with advanced composition as published (SGD-Adv); Poisson, add_or_remove.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    rate : float
        Sampling rate q.
    steps : int
        T.

    Returns
    -------
    float
        ``2 sqrt(2 log(1.25/delta_t)) 2q/epsilon_t``, ``epsilon_t = epsilon/(2 sqrt(2 T log(2/delta)))``,
        ``delta_t = delta/(2T)``.

    Raises
    ------
    ValueError
        If ``epsilon_t/(2q) >= 1``: the Gaussian mechanism behind it is proved below 1 only.

    Notes
    -----
    Lee and Kifer 2018, Section 6; Bassily, Smith and Thakurta 2014.

    Examples
    --------
    >>> round(sgd_advanced_composition(1.0, 1e-6, rate=0.1, steps=10), 2)
    79.54
    """
    return verified_noise(compare_sgd_advanced_composition(epsilon, delta, rate=rate, steps=steps))


@compared("sgd_adv")
def compare_sgd_advanced_composition(
    epsilon: float, delta: float, *, rate: float, steps: int, accountant: str = "pld"
) -> PaperComparison:
    """Published against tight noise; `accountant` "advanced_composition" stays within the method."""
    (epsilon, delta), rate = check_claim(epsilon, delta), check_rate(rate)
    epsilon_t = epsilon / (2.0 * math.sqrt(2.0 * check_steps(steps) * math.log(2.0 / delta)))
    if epsilon_t / (2.0 * rate) >= 1.0:
        raise ValueError(
            f"SGD with advanced composition needs epsilon_t/(2 q) < 1, got {epsilon_t / (2.0 * rate):.4g}: "
            "the published Gaussian noise is proved for epsilon below 1 only. Use accountant='pld'."
        )
    noise = 2.0 * math.sqrt(2.0 * math.log(1.25 * 2.0 * steps / delta)) * 2.0 * rate / epsilon_t
    return _compare("sgd_adv", noise, epsilon, delta, _poisson(rate, steps), accountant=accountant)


@published("sgd_ma")
def sgd_moments(
    epsilon: float, delta: float, *, rate: float, steps: int, max_moment: int = 32
) -> PaperComparison:
    """Noise multiplier by the moments accountant with few moments (SGD-MA); Poisson, add_or_remove.

    Notes
    -----
    Abadi et al. 2016, Theorem 2; Lee and Kifer 2018 use moments up to 32, which leaves a floor of
    log(1/delta)/32.

    Examples
    --------
    >>> round(sgd_moments(1.0, 1e-6, rate=0.1, steps=10), 2)
    2.45
    """
    settings = _poisson(check_rate(rate), steps)
    noise = noise_multiplier(epsilon, delta, accountant="moments", max_moment=max_moment, **settings)
    return _compare("sgd_ma", noise, epsilon, delta, settings)


def _poisson(rate: float, steps: int) -> dict[str, Any]:
    n_samples = 10**9
    return {"batch_size": rate * n_samples, "n_samples": n_samples, "steps": steps, **_POISSON}


def _compare(
    algorithm: str,
    noise: float,
    epsilon: float,
    delta: float,
    settings: dict[str, Any],
    *,
    accountant: str = "pld",
    proved: bool = True,
    unit: float = 1.0,
) -> PaperComparison:
    """Compare the noise, in `unit` times the clipping norm of a sum, with what `accountant` requires."""
    tight = noise_multiplier(epsilon, delta, accountant=accountant, **settings)
    true = sgd_epsilon(noise / unit, delta, **settings)
    neighbors = settings["neighbors"]
    return PaperComparison(algorithm, noise, tight * unit, epsilon, delta, true, neighbors, proved)
