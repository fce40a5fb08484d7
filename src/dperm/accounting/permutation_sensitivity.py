"""Stability of SGD on non-smooth convex losses: how far one record can move the iterates.

The loss is convex with alpha-Hoelder subgradients, ``||g(w) - g(v)|| <= L ||w - v||^alpha``, alpha in [0, 1].
For indices i_1..i_T and a changed record i, ``D_t = ||w_t - w_t'||`` obeys: D_1 = 0;
``D_(t+1) <= D_t + a`` if i_t = i, with ``a = 2 eta G`` (G bounds the subgradients); otherwise
``D_(t+1) <= sqrt(D_t^2 + kappa^2)``, or 0 if D_t = 0 (Wang et al. 2022, Lemma 21). Neighbours: one record
replaced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dperm.accounting._checks import (
    check_delta,
    check_epsilon,
    check_non_negative,
    check_positive,
    check_probability,
    check_steps,
    decreasing_root,
)
from dperm.accounting.gaussian import gaussian_delta

_UP = 1.0 + 1e-12


def holder_kappa(alpha: float, holder: float, eta: float) -> float:
    """Expansion kappa of one step on a shared record: ``D^2`` grows by at most ``kappa^2``.

    Parameters
    ----------
    alpha : float
        Hoelder exponent in [0, 1].
    holder : float
        Hoelder constant L, > 0.
    eta : float
        Step size, > 0; at most 2/L for alpha = 1.

    Returns
    -------
    float
        ``sqrt((1-alpha)/(1+alpha)) (2^-alpha L eta)^(1/(1-alpha))``; 0 for alpha = 1.

    Notes
    -----
    Wang et al. 2022, equation (2) and Lemma 21.
    """
    holder, eta = check_positive(holder, "holder"), check_positive(eta, "eta")
    if _is_smooth(alpha, holder, eta):
        return 0.0
    root = 1.0 / (1.0 - alpha)
    return math.sqrt((1.0 - alpha) / (1.0 + alpha)) * math.pow(2.0**-alpha * holder * eta, root)


def glm_kappa(alpha: float, slope_holder: float, row_norm: float, eta: float) -> float:
    """`holder_kappa` for a loss of ``<w, x>`` with ``||x|| <= B``: smaller for 0 < alpha < 1.

    Parameters
    ----------
    alpha : float
        Hoelder exponent in [0, 1].
    slope_holder : float
        ``L_phi`` with ``|phi'(u) - phi'(v)| <= L_phi |u - v|^alpha``, > 0.
    row_norm : float
        B, > 0.
    eta : float
        Step size, > 0; at most ``2/(L_phi B^2)`` for alpha = 1.

    Notes
    -----
    ``holder_kappa * (2 alpha/(1+alpha))^(alpha/(1-alpha))`` with ``L = L_phi B^(1+alpha)``: monotonicity of
    phi' in place of the general inequality. Attained by ``|y - u|^q``.
    """
    holder = slope_holder * check_positive(row_norm, "row_norm") ** (1.0 + alpha)
    kappa = holder_kappa(alpha, holder, eta)
    if alpha in (0.0, 1.0):
        return kappa
    return kappa * math.pow(2.0 * alpha / (1.0 + alpha), alpha / (1.0 - alpha))


def permutation_pass_sensitivity(
    n_samples: int,
    passes: int,
    displacement: float,
    kappa: float,
    *,
    batch_size: int = 1,
    average: bool = True,
    radius: float = math.inf,
) -> float:
    """Sensitivity after passes that each use every record exactly once, in any order.

    Parameters
    ----------
    n_samples : int
        n, >= 1, a multiple of `batch_size`.
    passes : int
        m, >= 1.
    displacement : float
        ``a = 2 eta G``, > 0.
    kappa : float
        From `glm_kappa` or `holder_kappa`; 0 for smooth or smoothed losses.
    batch_size : int, default=1
        b; steps use the mean subgradient of the batch.
    average : bool, default=True
        Whether ``(w_1 + .. + w_T)/T`` is published; otherwise the last iterate.
    radius : float, default=inf
        Radius of the domain; the result is at most 2 radius.

    Returns
    -------
    float
        Sensitivity; for kappa = 0 ``m a/b`` (last) and ``(a/b) ((m+1)/2 - b/n)`` (average).
    """
    per_pass, rest = divmod(check_steps(n_samples, "n_samples"), check_steps(batch_size, "batch_size"))
    if rest:
        raise ValueError(f"batch_size must divide n_samples={n_samples}, got {batch_size}.")
    displacement = check_positive(displacement, "displacement") / batch_size
    square = check_non_negative(kappa, "kappa") ** 2
    own = (batch_size - 1) / batch_size * square
    done = np.arange(per_pass, dtype=np.float64)
    total, end = 0.0, 0.0
    for e in range(check_steps(passes, "passes")):
        if e == 0:
            within = np.sqrt(displacement * displacement + done * square)
        else:
            within = np.sqrt(end * end + done * square + own) + displacement
        end = float(within[-1])
        total += float(np.sum(within))
    last = end * _UP
    mean = (total - end) / (per_pass * passes) * _UP
    return min(mean if average else last, 2.0 * radius)


def count_sensitivity(
    count: int, steps: int, displacement: float, kappa: float, *, average: bool = False
) -> float:
    """Sensitivity given only that the record is used `count` times in `steps` steps.

    Notes
    -----
    Last iterate ``(K-1) a + sqrt(a^2 + (T-K) kappa^2)`` (attained); average
    ``(1/T) sum_{t=2..T} [(K-1) a + sqrt(a^2 + (t-2) kappa^2)]``; 0 for K = 0.
    """
    if count == 0:
        return 0.0
    if not average:
        return (
            (count - 1) * displacement
            + math.sqrt(displacement * displacement + (steps - count) * kappa * kappa)
        ) * _UP
    drift = np.sqrt(displacement * displacement + np.arange(steps - 1, dtype=np.float64) * kappa * kappa)
    return ((count - 1) * displacement * (steps - 1) + float(np.sum(drift))) / steps * _UP


def realised_sensitivity(
    indices: Sequence[int] | npt.NDArray[np.int64], displacement: float, kappa: float
) -> tuple[float, float]:
    """Sensitivity of the last iterate and of the average for indices that were drawn beforehand.

    Parameters
    ----------
    indices : sequence of int
        Record used in each step, drawn before the noise and independently of the data (any distribution).
    displacement, kappa : float
        a and kappa of the recursion.

    Returns
    -------
    last, average : float
        Each the maximum over records. The averages use a closed-form upper bound on sums of square roots.

    Notes
    -----
    A data-independent mixture of (epsilon, delta)-DP mechanisms is (epsilon, delta)-DP, even when the
    indices are published: calibrate the noise to these numbers at the full (epsilon, delta).
    """
    steps = len(indices)
    if kappa == 0.0:  # every use adds one displacement, which shared steps do not change
        used = np.asarray(indices, dtype=np.int64)
        after = np.arange(steps - 1, -1, -1, dtype=np.float64)  # averaged iterates that come after a use
        average = float(np.bincount(used, weights=after).max()) / steps
        return int(np.bincount(used).max()) * displacement * _UP, average * displacement * _UP
    positions: dict[int, list[int]] = {}
    for step, index in enumerate(indices):
        positions.setdefault(int(index), []).append(step)
    pairs = [_record_sensitivity(used, steps, displacement, kappa) for used in positions.values()]
    return max(p[0] for p in pairs) * _UP, max(p[1] for p in pairs) * _UP


def averaged_count_sigma(
    epsilon: float,
    delta: float,
    n_samples: int,
    steps: int,
    displacement: float,
    kappa: float,
    *,
    average: bool = False,
) -> float:
    """Noise for indices drawn uniformly with replacement, averaged over the count of one record.

    Parameters
    ----------
    epsilon, delta : float
        Target; epsilon >= 0, delta strictly between 0 and 1.
    n_samples, steps : int
        n and T.
    displacement, kappa, average
        As in `count_sensitivity`.

    Returns
    -------
    float
        Smallest sigma with ``sum_K Binom(T, 1/n)(K) delta_G(epsilon, D(K)/sigma) <= delta``; the tail
        beyond the largest count considered is added. The seed of the indices must be unpredictable.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    n_samples, steps = check_steps(n_samples, "n_samples"), check_steps(steps)
    if epsilon == math.inf:
        return 0.0
    from scipy.stats import binom

    most = int(binom.isf(1e-6 * delta, steps, 1.0 / n_samples)) + 1
    counts = np.arange(1, min(most, steps) + 1)
    weights = binom.pmf(counts, steps, 1.0 / n_samples)
    tail = float(binom.sf(counts[-1], steps, 1.0 / n_samples))
    moves = [count_sensitivity(int(k), steps, displacement, kappa, average=average) for k in counts]

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        total = tail + sum(w * gaussian_delta(epsilon, sigma, m) for w, m in zip(weights, moves, strict=True))
        return math.log(total / delta)

    return decreasing_root(excess, moves[0], stride=0.5) * _UP


def unbounded_iterate_radius(
    step: int, eta: float, alpha: float, self_bound: float, loss_at_zero: float
) -> float:
    """Bound on ``||w_t||`` of SGD from 0 without projection: ``sqrt((t-1) rho(eta))``.

    Parameters
    ----------
    step : int
        t, >= 1.
    eta : float
        Step size, > 0.
    alpha : float
        Hoelder exponent in [0, 1].
    self_bound : float
        c with ``||g|| <= c f^(alpha/(1+alpha))``; ``q B`` for the q-norm losses, G at alpha = 0.
    loss_at_zero : float
        ``f0 = sup f(0, z)``.

    Notes
    -----
    ``rho = 2 eta f0 + (1-alpha)/(1+alpha) (alpha/(1+alpha))^(2 alpha/(1-alpha)) c^(2(1+alpha)/(1-alpha))
    eta^(2/(1-alpha))``: the increment in the proof of Lemma 20 of Wang et al. 2022, not its upper bound.
    """
    rho = 2.0 * check_positive(eta, "eta") * check_non_negative(loss_at_zero, "loss_at_zero")
    if alpha < 1.0:
        ratio = alpha / (1.0 + alpha)
        power = ratio ** (2.0 * alpha / (1.0 - alpha)) if alpha > 0.0 else 1.0
        if self_bound > 0.0:
            log_growth = 2.0 / (1.0 - alpha) * ((1.0 + alpha) * math.log(self_bound) + math.log(eta))
            growth = math.exp(log_growth) if log_growth < 700.0 else math.inf
            rho += (1.0 - alpha) / (1.0 + alpha) * power * growth
    return math.sqrt((check_steps(step, "step") - 1) * rho)


def _is_smooth(alpha: float, holder: float, eta: float) -> bool:
    alpha = check_probability(alpha, "alpha")
    if alpha == 1.0 and eta * holder > 2.0:
        raise ValueError(f"eta must be at most 2/L = {2.0 / holder:.6g} for alpha = 1, got {eta!r}.")
    return alpha == 1.0


def _record_sensitivity(
    used: list[int], steps: int, displacement: float, kappa: float
) -> tuple[float, float]:
    """Recursion for one record used at `used` (0-based): D_(T+1) and the mean of D_1..D_T."""
    distance, total = 0.0, 0.0
    for this, following in zip(used, [*used[1:], steps], strict=True):
        distance += displacement
        run = following - this - 1
        # D after this step, then `run` shared steps; the last of all belongs to D_(T+1), not to the average
        total += distance + _root_sum(distance * distance, run, kappa)
        distance = math.sqrt(distance * distance + run * kappa * kappa)
    return distance, (total - distance) / steps


def _root_sum(square: float, run: int, kappa: float) -> float:
    """Upper bound on ``sum_{m=1..run} sqrt(square + m kappa^2)``; exact up to 64 terms and for kappa = 0."""
    if kappa == 0.0:
        return run * math.sqrt(square)
    if run <= 64:
        return math.fsum(math.sqrt(square + m * kappa * kappa) for m in range(1, run + 1))
    end = square + run * kappa * kappa
    smooth = 2.0 / (3.0 * kappa * kappa) * (math.pow(end, 1.5) - math.pow(square, 1.5))
    return smooth + (math.sqrt(end) - math.sqrt(square)) / 2.0
