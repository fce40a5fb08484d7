"""Upper bounds on the profile of a composition, with a proof of what floating point does to it.

The loss is tilted before it is composed: with ``w_j = m_j e^(tilt x_j - log_scale)`` the composed mass at loss
y is ``e^(T log_scale - tilt y)`` times the T-th convolution power of w at y. Near epsilon the tilted power is
of order 1, so that errors of the transforms are relative to delta, not to 1, and as good for a delta of
1e-30 as for 1e-3. The bound is the sum of

* what the transforms say: ``e^(T log_scale) sum_y e^(-tilt y) (1 - e^(epsilon - y))_+ p_y``. Circular
  convolution only adds mass to a cell, and masses below 0 become 0;
* what they may miss. A transform of ``N = 2^L`` cells has L levels of butterflies; each adds two numbers, one of
  them times a rounded root of unity, with a relative error below ``7 * 2^-53`` (complex product: sqrt(5),
  Brent, Percival and Zimmermann 2007; root and sum: 1 to 2 each; radix 4 and 8 merge two and three levels
  and round less). Every term of every output passes L of them, so the transform of w is off by at most
  ``k = 10 L 2^-53 sum(w)`` at *each* frequency, and an l2 norm by at most the factor ``10 L 2^-53``. A power of a
  number that is off by k is off by at most ``T k (|.| + k)^(T-1)``; logarithm and angle, each correctly rounded
  to a few units, count as 24 * 2^-53 more in k. By Parseval and Cauchy-Schwarz the sum above is off by at
  most the l2 norm of its weights times that of these errors;
* the mass beyond the last cell (Chernoff) and the infinite loss.

Everything is about ``3 T 2^-44`` of delta: 1e-7 for a million steps, 1e-3 for ten billion.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from dperm.accounting._discrete_loss import ROUNDING, DiscreteLoss
from dperm.accounting._profiles import Array

Counts = npt.NDArray[np.int64]

_MOST_CELLS = 2**24
# Steps times levels of a transform: above, errors of the size of the result are possible.
_MOST_ROUNDINGS = 1e13
# Mass beyond the last cell, as a share of delta; tilted mass before the first one, which can only add.
_TAIL, _LOW_TAIL = 1e-4, 1e-5
# Mass that a circular convolution may put into too low a cell, as a share of the mass beyond the last one.
_ALIAS = 1e-3
# Rates of the Chernoff bounds, in units of the inverse standard deviation of the composed loss.
_RATES = np.geomspace(0.02, 300.0, 60)
_LARGEST_EXPONENT = 600.0
# Frequencies whose power is at most e^-75 are left out, and counted as errors.
_NEGLIGIBLE = 75.0
# Rounding of what is computed with positive terms only: sums of up to 2^24 of them, exponentials.
_UP = 1.0 + 2.0**-28


def composed_epsilon(loss: DiscreteLoss, steps: int, delta: float) -> float:
    """Smallest epsilon certified at `delta` for `steps` compositions; infinite if there is none."""
    counts = np.array([steps], dtype=np.int64)
    infinite = _infinite_mass(loss, counts)
    if infinite > 0.5 * delta:
        return math.inf
    chernoff = _Chernoff(loss, counts)
    epsilons = (chernoff.growths + _log_largest_gain(chernoff.rates) - math.log(delta)) / chernoff.rates
    best = int(np.argmin(np.where(chernoff.rates > 0.0, epsilons, math.inf)))
    composed = _compose(loss, counts, chernoff, best, max(float(epsilons[best]), 0.0), _TAIL * delta)
    return math.inf if composed is None else composed.epsilon(delta, infinite)


def mean_composed_delta(loss: DiscreteLoss, counts: Counts, epsilon: float, delta: float) -> float:
    """Upper bound on the mean over `counts` (equally likely, >= 1) of delta at `epsilon`.

    At most 1, or infinite where nothing can be certified. `delta` sets how much of the tails may be cut; it is not a promise.
    """
    chernoff = _Chernoff(loss, counts)
    log_deltas = chernoff.growths + _log_largest_gain(chernoff.rates) - chernoff.rates * epsilon
    best = int(np.argmin(np.where(chernoff.rates > 0.0, log_deltas, math.inf)))
    composed = _compose(loss, counts, chernoff, best, epsilon, _TAIL * delta)
    if composed is None:
        return math.inf
    return min(1.0, composed.delta(epsilon) + _infinite_mass(loss, counts))


class _Chernoff:
    """``max over counts of T log sum_j m_j e^(rate x_j)`` at many rates of both signs, rounded up."""

    def __init__(self, loss: DiscreteLoss, counts: Counts) -> None:
        losses, most = loss.losses, float(counts.max())
        reach = max(float(losses[-1]), -float(losses[0]))
        scale = math.sqrt(max(float(np.dot(loss.masses, losses * losses)), 1e-300) * most)
        sizes = _RATES / scale
        sizes = sizes[sizes * reach <= _LARGEST_EXPONENT]
        if sizes.size == 0:
            sizes = np.array([_LARGEST_EXPONENT / reach])
        self.rates: Array = np.concatenate([-sizes[::-1], sizes])
        log_moments = [
            math.log(float(np.sum(loss.masses * np.exp(rate * losses))))
            + (64.0 + 4.0 * abs(rate) * reach) * ROUNDING
            for rate in self.rates.tolist()
        ]
        self.log_moments: Array = np.array(log_moments)
        self.growths: Array = np.maximum(most * self.log_moments, float(counts.min()) * self.log_moments)


class _Composed:
    """Tilted masses of a composition on part of the grid, and how far off they may be.

    The profile at epsilon is at most ``scale * (sum weights * gains * masses + error |weights * gains|)``
    plus `beyond`; the weights are ``e^(-tilt (loss - origin))``.
    """

    def __init__(
        self,
        losses: Array,
        masses: Array,
        error: float,
        tilt: float,
        origin: float,
        scale: float,
        beyond: float,
    ) -> None:
        self._losses, self._error, self._scale, self._beyond = losses, error, scale, beyond
        self._weights = np.exp(-tilt * (losses - origin))
        self._products = self._weights * masses

    def delta(self, epsilon: float) -> float:
        """Upper bound on the profile at `epsilon`, without infinite losses."""
        first = int(np.searchsorted(self._losses, epsilon))
        gains = -np.expm1(epsilon - self._losses[first:])
        found = float(np.dot(self._products[first:], gains))
        missed = self._error * float(np.linalg.norm(self._weights[first:] * gains))
        return self._scale * (found + missed) * _UP + self._beyond

    def epsilon(self, delta: float, infinite: float) -> float:
        """Where the bound meets `delta`, rounded up."""

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon) + infinite, 1e-320) / delta)

        low, high = max(0.0, float(self._losses[0])), float(self._losses[-1])
        if high <= low or excess(high) > 0.0:
            return math.inf
        if excess(low) <= 0.0:
            return low
        epsilon = float(brentq(excess, low, high, xtol=1e-300, rtol=1e-10))
        step = 1e-10
        while excess(epsilon) > 0.0:
            epsilon, step = epsilon * (1.0 + step), 2.0 * step
        return epsilon


def _compose(
    loss: DiscreteLoss, counts: Counts, chernoff: _Chernoff, best: int, origin: float, tail: float
) -> _Composed | None:
    """Mean composition around the loss `origin` with tilt ``chernoff.rates[best]``; None if it is too long."""
    most, step = int(counts.max()), loss.step
    tilt, log_scale = float(chernoff.rates[best]), max(0.0, float(chernoff.log_moments[best]))
    rising = chernoff.rates > 0.0
    high = float(np.min((chernoff.growths[rising] - math.log(tail)) / chernoff.rates[rising]))
    top = min(math.ceil(max(high, origin) / step) + 2, most * loss.highest)
    lower = chernoff.rates < tilt
    room = math.log(_LOW_TAIL) + most * log_scale - chernoff.growths[lower]
    bottom = max(math.floor(float(np.max(room / (tilt - chernoff.rates[lower]))) / step), most * loss.lowest)
    bottom = min(bottom, math.floor(origin / step), top - 1)
    # Losses beyond the cells appear N cells lower, with the weight of that place: few, but valid.
    higher = chernoff.rates > tilt
    room = chernoff.growths[higher] - tilt * origin - math.log(_ALIAS * tail)
    last = float(np.min(room / (chernoff.rates[higher] - tilt), initial=math.inf)) / step
    last = min(max(math.ceil(min(last, 2.0**53)), top), most * loss.highest)
    cells = 1 << max(last - bottom, loss.masses.size).bit_length()
    if cells > _MOST_CELLS or most * math.log2(cells) > _MOST_ROUNDINGS:
        return None
    masses, error = _mean_power(_tilted(loss, tilt, log_scale), loss.lowest, counts, cells, log_scale)
    # Losses that no epsilon of interest reaches have no weight; others would overflow.
    first = max(bottom, 0, math.floor((origin - 60.0 / tilt) / step))
    window = np.arange(first, bottom + cells, dtype=np.int64)
    window = window[: max(top - first + 1, 1)]
    scale = math.exp(min(most * log_scale - tilt * origin, 700.0))
    beyond = tail * _UP if top < most * loss.highest else 0.0
    return _Composed(step * window, masses[window % cells], error, tilt, origin, scale, beyond)


def _tilted(loss: DiscreteLoss, tilt: float, log_scale: float) -> Array:
    """``m_j e^(tilt x_j - log_scale)``, each rounded up."""
    exponents = tilt * loss.losses
    increase = 1.0 + (8.0 + 4.0 * log_scale + 4.0 * np.abs(exponents)) * ROUNDING
    return np.asarray(loss.masses * np.exp(exponents - log_scale) * increase)


def _mean_power(
    masses: Array, lowest: int, counts: Counts, cells: int, log_scale: float
) -> tuple[Array, float]:
    """Mean over counts T of ``e^((T - largest T) log_scale)`` times the T-th circular convolution power.

    Returns
    -------
    power : ndarray, shape (cells,)
        Never negative; entry y is the mass of all losses that are y modulo `cells`.
    error : float
        Bound on the l2 norm of the error of `power`.
    """
    placed = np.zeros(cells)
    placed[: masses.size] = masses
    spectrum = np.fft.rfft(np.roll(placed, lowest))
    levels = math.log2(cells)
    off = (10.0 * levels + 24.0) * ROUNDING * float(np.sum(masses)) * _UP
    least, most = float(counts.min()), float(counts.max())
    modulus = np.abs(spectrum)
    kept = np.flatnonzero(least * np.log(modulus + off) > -_NEGLIGIBLE)
    modulus = modulus[kept]
    log_bounds, angles = np.log(modulus + off), np.angle(spectrum[kept])
    with np.errstate(divide="ignore"):
        logs = np.log(modulus)
    total, errors = np.zeros(kept.size, dtype=np.complex128), np.zeros(kept.size)
    for count in counts.astype(np.float64).tolist():
        shift = (count - most) * log_scale
        total += np.exp(shift + count * logs) * np.exp(1j * (count * angles))
        errors += count * off * np.exp(shift + (count - 1.0) * log_bounds)
    total, errors = total / counts.size, errors / counts.size
    power_spectrum = np.zeros(cells // 2 + 1, dtype=np.complex128)
    power_spectrum[kept] = total
    power = np.maximum(np.fft.irfft(power_spectrum, cells), 0.0)
    norm = math.sqrt(2.0 * float(np.sum(np.abs(total) ** 2)) / cells)
    error = math.sqrt(2.0 * float(np.sum(errors**2)) / cells) + math.exp(-_NEGLIGIBLE)
    # 2^-40: exponentials of up to e^600 and sums of up to 10^4 counts
    return power, (error + (10.0 * levels * ROUNDING + 2.0**-40) * norm) * _UP


def _infinite_mass(loss: DiscreteLoss, counts: Counts) -> float:
    """Mean over counts of a bound on the mass at infinite loss."""
    taken = counts.astype(np.float64)
    excess = max(0.0, math.fsum([*loss.masses.tolist(), loss.infinite]) - 1.0)
    return float(np.mean(np.minimum(taken * loss.infinite * np.exp(taken * excess), 1.0))) * _UP


def _log_largest_gain(rates: Array) -> Array:
    """Log of ``max_x e^(-rate x) (1 - e^-x)``, for positive rates."""
    safe = np.maximum(rates, 1e-300)
    return np.asarray(-safe * np.log1p(1.0 / safe) - np.log1p(safe))
