"""Upper bounds on the profile of a composition; for the proof see `dperm.accounting.pld`, 3 and 4."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from dperm.accounting._checks import nudged
from dperm.accounting.pld.profiles import ROUNDING, Array, DiscreteLoss

Counts = npt.NDArray[np.int64]
Complex = npt.NDArray[np.complex128]

_MAX_CELLS = 2**24
# With more steps, the error bound may be as large as the result.
_MAX_STEPS = 10**12
# Mass beyond the last cell, as a share of delta; tilted mass below the first one, which only raises the
# bound.
_TAIL, _LOW_TAIL = 1e-4, 1e-5
# Mass that circular convolution wraps to too low a cell, as a share of the mass beyond the last one.
_ALIAS = 1e-3
# Rates of the Chernoff bounds, over the standard deviation of the composed loss: smallest, largest, number.
_RATES, _FALLING_RATES = (0.003, 300.0, 60), (0.1, 30.0, 12)
# Range of the rates, over the largest loss of one step. It matters where losses are rare, so that the
# standard deviation of their sum is far below a single one.
_RARE_EXPONENT, _LARGEST_EXPONENT = 0.1, 600.0
# The period is long enough for the tilt to reduce the next copy of the distribution to e^-30.
_PERIOD = 30.0
# Frequencies whose power is at most e^-75 are left out, and counted as errors.
_NEGLIGIBLE = 75.0
# Cells around 0 that prove high frequencies negligible; block size of a sum; limit on exponentials.
_BULK, _BLOCK, _MAX_PHASES = 512, 64, 2**20
# Relative rounding error of computations with positive terms only: sums of up to 2^24 terms, exponentials.
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
    origin = min(max(float(epsilons[best]), 0.0), max(steps * loss.highest, 1) * loss.step)
    composed = _compose(loss, counts, chernoff, best, origin, _TAIL * delta)
    return math.inf if composed is None else composed.epsilon(delta, infinite)


def mean_composed_deltas(loss: DiscreteLoss, counts: Counts, epsilons: Array, delta: float) -> Array:
    """Upper bounds on the mean over `counts` (equally likely, >= 1) of delta at ascending `epsilons`.

    At most 1, or infinite where nothing can be certified. One composition serves all epsilons that its tilt
    suits, so many epsilons cost little more than one. `delta` decides how much of the tails may be cut off;
    the result may be larger or smaller.
    """
    infinite = _infinite_mass(loss, counts)
    deltas = np.full(epsilons.size, min(1.0, infinite))
    start, stop = 0, int(np.searchsorted(epsilons, int(counts.max()) * loss.highest * loss.step))
    chernoff = _Chernoff(loss, counts)
    rising = np.flatnonzero(chernoff.rates > 0.0)
    rates = chernoff.rates[rising, None]
    log_deltas = chernoff.growths[rising, None] + _log_largest_gain(rates) - rates * epsilons[:stop]
    suits = log_deltas <= np.min(log_deltas, axis=0) + 1.0
    while start < stop:
        # The strongest tilt that is not much worse than the best one has the shortest period.
        best = int(np.flatnonzero(suits[:, start])[-1])
        end = start + int(np.argmin(np.append(suits[best, start:], False)))
        composed = _compose(loss, counts, chernoff, int(rising[best]), float(epsilons[start]), _TAIL * delta)
        for place in range(start, end):
            deltas[place] = (
                math.inf if composed is None else min(1.0, composed.delta(float(epsilons[place])) + infinite)
            )
        start = end
    return deltas


class _Chernoff:
    """``max over counts of T log sum_j m_j e^(rate x_j)`` at many rates of both signs, rounded up."""

    def __init__(self, loss: DiscreteLoss, counts: Counts) -> None:
        losses, most = loss.losses, float(counts.max())
        reach = max(float(losses[-1]), -float(losses[0]))
        scale = math.sqrt(max(float(np.sum(loss.masses * losses * losses)), 1e-300) * most)
        falling, rising = (_rates(units, scale, reach) for units in (_FALLING_RATES, _RATES))
        self.rates: Array = np.concatenate([-falling[::-1], rising])
        log_moments = [
            math.log(float(np.sum(loss.masses * np.exp(rate * losses))))
            + (64.0 + 4.0 * abs(rate) * reach) * ROUNDING
            for rate in self.rates.tolist()
        ]
        self.log_moments: Array = np.array(log_moments)
        self.growths: Array = np.maximum(most * self.log_moments, float(counts.min()) * self.log_moments)


def _rates(units: tuple[float, float, int], scale: float, reach: float) -> Array:
    """Positive rates between the bounds of `units` over `scale`, moved to where exponentials are finite."""
    low, high, number = units
    smallest, largest = min(low / scale, _RARE_EXPONENT / reach), min(high / scale, _LARGEST_EXPONENT / reach)
    return np.geomspace(smallest, largest, number)


class _Composed(ABC):
    """A composition around one loss: an upper bound on its profile, without infinite losses.

    Parameters
    ----------
    low, high : float
        Range of epsilon on which the bound holds and is of use.
    """

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Upper bound on the profile at `epsilon`, decreasing."""

    def epsilon(self, delta: float, infinite: float) -> float:
        """Where the bound plus the infinite mass meets `delta`, rounded up."""

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon) + infinite, 1e-320) / delta)

        if self._high <= self._low or excess(self._high) > 0.0:
            return math.inf
        if excess(self._low) <= 0.0:
            return self._low
        epsilon = float(brentq(excess, self._low, self._high, xtol=1e-300, rtol=1e-9))
        return nudged(epsilon, lambda epsilon: excess(epsilon) > 0.0, 1e-9)


class _OnCells(_Composed):
    """Tilted masses on part of the grid, with a bound on the l2 norm of their errors.

    The profile is at most ``scale * (sum weights * gains * masses + error |weights * gains|)`` plus `beyond`;
    the weights are ``e^(-tilt (loss - origin))``.
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
        super().__init__(max(0.0, float(losses[0])), float(losses[-1]))
        self._losses, self._error, self._scale, self._beyond = losses, error, scale, beyond
        self._weights = np.exp(-tilt * (losses - origin))
        self._products = self._weights * masses

    def delta(self, epsilon: float) -> float:
        first = int(np.searchsorted(self._losses, epsilon))
        gains = -np.expm1(epsilon - self._losses[first:])
        found = float(np.sum(self._products[first:] * gains))
        missed = self._error * math.sqrt(float(np.sum((self._weights[first:] * gains) ** 2)))
        return self._scale * (found + missed) * _UP + self._beyond


class _OfFrequencies(_Composed):
    """Spectrum of the tilted composition at angles ``2 pi k / period``, with a bound on each error.

    With y0 the grid point at or above epsilon and ``c = e^(epsilon - y0)``, the sum over all ``y >= y0`` of
    ``e^(-tilt (y - origin)) (1 - e^(epsilon - y)) e^(i angle y)`` is ``e^(-tilt (y0 - origin) + i angle y0)``
    times ``(1 - c + r (c - e^-step)) / ((1 - r) (1 - r'))``, with ``r = e^(i angle - tilt step)`` and ``r' =
    r e^-step``.
    """

    def __init__(
        self,
        spectrum: Complex,
        errors: Array,
        period: int,
        tilt: float,
        origin: float,
        scale: float,
        step: float,
    ) -> None:
        super().__init__(max(0.0, origin - 60.0 / tilt), origin + 60.0 / tilt)
        self._angles = 2.0 * math.pi / period * np.arange(spectrum.size)
        self._tilt, self._origin, self._scale, self._step = tilt, origin, scale, step
        exponents = 1j * self._angles - tilt * step
        series = 1.0 / (np.expm1(exponents) * np.expm1(exponents - step))
        sides = np.where(self._angles > 0.0, 2.0, 1.0) / period  # and the negative frequencies
        self._at, self._after = sides * spectrum * series, sides * spectrum * series * np.exp(exponents)
        phases = 2.0**-32 + 4.0 * ROUNDING * self._angles * (self._high / step)
        missed = float(np.sum(np.abs(series) * sides * (errors + phases * np.abs(spectrum))))
        missed += math.exp(-_NEGLIGIBLE) * float(abs(series[0]))
        self._missed = missed * -math.expm1(-step)

    def delta(self, epsilon: float) -> float:
        epsilon = min(epsilon, self._high)
        place = math.ceil(epsilon / self._step * (1.0 - 4.0 * ROUNDING))
        short = max(0.0, place * self._step - epsilon)
        at, after = -math.expm1(-short), math.exp(-short) * -math.expm1(short - self._step)
        turns = np.exp(1j * (self._angles * place))
        found = float(np.sum((at * self._at + after * self._after) * turns).real)
        weight = math.exp(-self._tilt * (place * self._step - self._origin))
        return self._scale * weight * (max(found, 0.0) + self._missed) * _UP


def _compose(
    loss: DiscreteLoss, counts: Counts, chernoff: _Chernoff, best: int, origin: float, tail: float
) -> _Composed | None:
    """Mean composition around the loss `origin` with tilt ``chernoff.rates[best]``; None if too large."""
    most, step = int(counts.max()), loss.step
    if most > _MAX_STEPS:
        return None
    tilt, log_scale = float(chernoff.rates[best]), max(0.0, float(chernoff.log_moments[best]))
    scale = math.exp(min(most * log_scale - tilt * origin, 700.0))
    bottom, top, last = _reach(loss, counts, chernoff, tilt, log_scale, origin, tail)
    tilted = _tilted(loss, tilt, log_scale)
    period = max(last - bottom, math.ceil(min(_PERIOD / tilt / step, 2.0**53)))
    cells = 1 << max(last - bottom, loss.masses.size).bit_length()
    phases = min(_MAX_PHASES, 8 * cells)  # more would take longer than the transforms
    low = _low_frequencies(tilted, loss.lowest, counts, period, log_scale, phases)
    if low is not None:
        return _OfFrequencies(*low, period, tilt, origin, scale, step)
    if cells > _MAX_CELLS:
        return None
    masses, error = _mean_power(tilted, loss.lowest, counts, cells, log_scale)
    # Lower losses are below every epsilon of interest, and their weights would overflow.
    first = max(bottom, 0, math.floor((origin - 60.0 / tilt) / step))
    window = np.arange(first, bottom + cells, dtype=np.int64)
    window = window[: max(top - first + 1, 1)]
    beyond = tail * _UP if top < most * loss.highest else 0.0
    losses = np.asarray(step * window, dtype=np.float64)
    return _OnCells(losses, masses[window % cells], error, tilt, origin, scale, beyond)


def _reach(
    loss: DiscreteLoss,
    counts: Counts,
    chernoff: _Chernoff,
    tilt: float,
    log_scale: float,
    origin: float,
    tail: float,
) -> tuple[int, int, int]:
    """Range of cells that holds nearly all mass, in steps of the grid.

    Returns
    -------
    bottom : int
        A share of at most 1e-5 of the tilted mass is below.
    top : int
        The mass above is at most `tail`.
    last : int
        The mass above is negligible even when circular convolution wraps it ``last - bottom`` cells down.
    """
    most, step = int(counts.max()), loss.step
    rising = chernoff.rates > 0.0
    high = float(np.min((chernoff.growths[rising] - math.log(tail)) / chernoff.rates[rising]))
    top = min(math.ceil(max(high, origin) / step) + 2, most * loss.highest)
    lower = chernoff.rates < tilt
    room = math.log(_LOW_TAIL) + most * log_scale - chernoff.growths[lower]
    bottom = max(math.floor(float(np.max(room / (tilt - chernoff.rates[lower]))) / step), most * loss.lowest)
    bottom = min(bottom, math.floor(origin / step), top - 1)
    higher = chernoff.rates > tilt
    room = chernoff.growths[higher] - tilt * origin - math.log(_ALIAS * tail)
    last = float(np.min(room / (chernoff.rates[higher] - tilt), initial=math.inf)) / step
    return bottom, top, min(max(math.ceil(min(last, 2.0**53)), top), most * loss.highest)


def _tilted(loss: DiscreteLoss, tilt: float, log_scale: float) -> Array:
    """``m_j e^(tilt x_j - log_scale)``, each rounded up."""
    exponents = tilt * loss.losses
    increase = 1.0 + (8.0 + 4.0 * log_scale + 4.0 * np.abs(exponents)) * ROUNDING
    return np.asarray(loss.masses * np.exp(exponents - log_scale) * increase)


def _low_frequencies(
    masses: Array, lowest: int, counts: Counts, period: int, log_scale: float, phases: int
) -> tuple[Complex, Array] | None:
    """Spectrum of the mean power at the angles ``2 pi k / period``, k = 0, 1, ..., and bounds on its errors.

    None unless all other frequencies are proved to be at most e^-75 and the computation needs at most
    `phases` exponentials.
    """
    total, least = float(np.sum(masses)) * (1.0 + 128.0 * ROUNDING), float(counts.min())
    first = max(0, -lowest - _BULK // 2)
    bulk = masses[first : first + _BULK]
    pairs = np.correlate(bulk, bulk, "full")[bulk.size :]
    moments = np.cumsum(np.arange(1, bulk.size) ** 2 * pairs) / _UP
    octaves = 0  # below pi, in which all frequencies are negligible
    for octave in range(1, 64):
        reach = min(2 ** (octave - 1), moments.size)
        square = total * total - (4.0 / 4.0**octave * float(moments[reach - 1]) if reach else 0.0)
        if least * (0.5 * math.log(max(square, 1e-300)) + 16.0 * ROUNDING) > -_NEGLIGIBLE:
            break
        octaves = octave
    frequencies = (period >> (octaves + 1)) + 2
    n_blocks = -(-masses.size // _BLOCK)
    if frequencies > min(phases // (n_blocks + _BLOCK), period // 2):
        return None
    angles = 2.0 * math.pi / period * np.arange(frequencies)
    blocks = np.zeros((n_blocks, _BLOCK))
    blocks.ravel()[: masses.size] = masses
    inner = np.outer(np.arange(_BLOCK), angles)
    starts = lowest + _BLOCK * np.arange(n_blocks, dtype=np.float64)
    terms = np.exp(-1j * np.outer(angles, starts))
    terms *= (blocks @ np.cos(inner) - 1j * (blocks @ np.sin(inner))).T
    spectrum = np.sum(terms, axis=1)
    # Error of sums of 64 products, pairwise sums of up to 2^15 blocks, complex products, and the phases.
    largest = float(angles[-1]) * max(abs(lowest), abs(lowest + masses.size))
    off = (256.0 + 4.0 * largest) * ROUNDING * total
    return _mean_of_powers(spectrum, off, counts, log_scale)


def _mean_of_powers(spectrum: Complex, off: float, counts: Counts, log_scale: float) -> tuple[Complex, Array]:
    """Mean of ``e^((T - largest T) log_scale)`` times T-th powers of numbers with an error of at most `off`.

    Returns
    -------
    mean, errors : ndarray
        The means, and upper bounds on their errors.
    """
    most = float(counts.max())
    modulus = np.abs(spectrum)
    log_bounds, angles = np.log(modulus + off), np.angle(spectrum)
    with np.errstate(divide="ignore"):
        logs = np.log(modulus)
    total, errors = np.zeros(spectrum.size, dtype=np.complex128), np.zeros(spectrum.size)
    alive = np.arange(spectrum.size)
    for count in np.sort(counts).astype(np.float64).tolist():
        alive = alive[count * log_bounds[alive] > -_NEGLIGIBLE]
        shift = (count - most) * log_scale
        total[alive] += np.exp(shift + count * logs[alive]) * np.exp(1j * (count * angles[alive]))
        errors[alive] += count * off * np.exp(shift + (count - 1.0) * log_bounds[alive])
    # 2^-40: exponentials down to e^-600 and sums of up to 10^4 counts; e^-75: what was left out
    total, errors = total / counts.size, errors / counts.size
    return total, (errors + 2.0**-40 * np.abs(total) + math.exp(-_NEGLIGIBLE)) * _UP


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
    kept = np.flatnonzero(float(counts.min()) * np.log(np.abs(spectrum) + off) > -_NEGLIGIBLE)
    total, errors = _mean_of_powers(spectrum[kept], off, counts, log_scale)
    power_spectrum = np.zeros(cells // 2 + 1, dtype=np.complex128)
    power_spectrum[kept] = total
    power = np.maximum(np.fft.irfft(power_spectrum, cells), 0.0)
    norm = math.sqrt(2.0 * float(np.sum(np.abs(total) ** 2)) / cells)
    error = math.sqrt(2.0 * float(np.sum(errors**2)) / cells) + math.exp(-_NEGLIGIBLE)
    return power, (error + 10.0 * levels * ROUNDING * norm) * _UP


def _infinite_mass(loss: DiscreteLoss, counts: Counts) -> float:
    """Mean over counts of a bound on the mass at infinite loss."""
    taken = counts.astype(np.float64)
    excess = max(0.0, math.fsum([*loss.masses.tolist(), loss.infinite]) - 1.0)
    return float(np.mean(np.minimum(taken * loss.infinite * np.exp(taken * excess), 1.0))) * _UP


def _log_largest_gain(rates: Array) -> Array:
    """Log of ``max_x e^(-rate x) (1 - e^-x)``, for positive rates."""
    safe = np.maximum(rates, 1e-300)
    return np.asarray(-safe * np.log1p(1.0 / safe) - np.log1p(safe))
