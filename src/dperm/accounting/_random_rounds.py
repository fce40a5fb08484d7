"""Delta of a composition whose number of steps is random, independent of the data.

For each number of steps the hockey-stick divergence is bounded as in `_pld`; the divergence of the mixture
(even with the number of steps published) is at most the mean. The mean is linear in the distribution of the
composed loss, so the characteristic functions are averaged and transformed back once.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dperm.accounting._pld import FFT_ERROR, MOST_STEPS, TRUNCATION, Grid, sampled_on_grid
from dperm.accounting._profiles import Array, Profile, StepProfiles

Counts = npt.NDArray[np.int64]

_MOST_CELLS = 2**23
_CHERNOFF_RATES = np.geomspace(1e-3, 1e3, 40)


def mean_delta(profiles: StepProfiles, counts: Counts, epsilon: float, delta: float, grid: Grid) -> float:
    """Upper bound on the mean over `counts` of delta at `epsilon`, the larger of the two directions.

    Parameters
    ----------
    profiles : StepProfiles
        One step.
    counts : array of int
        Equally likely numbers of steps, each >= 1.
    epsilon : float
        Where delta is evaluated.
    delta : float
        Target; it sets how much of the tails may be cut. Not a promise.
    grid : Grid
        Step of the grid in units of the spread, and the directions.

    Returns
    -------
    float
        At most 1; infinite where double precision cannot certify anything near `delta`.
    """
    step = grid.step * profiles.spread
    return max(_mean_delta(*profiles.pairs[i], counts, epsilon, delta, step) for i in grid.directions)


def _mean_delta(
    profile: Profile, reverse: Profile, counts: Counts, epsilon: float, delta: float, step: float
) -> float:
    most = int(counts.max())
    error = most * FFT_ERROR
    if error > 0.5 * delta or most > MOST_STEPS:
        return math.inf
    sampled = sampled_on_grid(profile, reverse, most, delta, step)
    if sampled is None:
        return math.inf
    deltas, bottom, top = sampled
    losses = step * np.arange(-bottom, top + 1, dtype=np.float64)
    masses = connected_dots(deltas, step)
    tail = TRUNCATION * delta
    low = min(_reach(-losses, masses, counts, tail, step), most * bottom)
    high = min(_reach(losses, masses, counts, tail, step), most * top)
    cells = 1 << max(1, int(low + high + 1).bit_length())
    if cells < masses.size or cells > _MOST_CELLS:
        return math.inf
    composed = _mean_composition(masses, bottom, counts, cells, low)
    grid = step * (np.arange(cells, dtype=np.float64) - low)
    gains = -np.expm1(np.minimum(epsilon - grid, 0.0))
    infinite = float(np.mean(-np.expm1(counts * math.log1p(-deltas[-1]))))
    return min(1.0, float(np.dot(composed, gains)) + infinite + tail + error)


def connected_dots(deltas: Array, step: float) -> Array:
    """Distribution of the loss whose profile is linear in e^epsilon between the points of a grid.

    Parameters
    ----------
    deltas : array
        Profile at consecutive multiples of `step`, decreasing; the last value is the infinite mass.
    step : float
        Distance of the points.

    Notes
    -----
    Doroshenko et al. 2022: it dominates the pair that has the profile. The mass below the first point goes
    to the first point.
    """
    drops = deltas[:-1] - deltas[1:]
    masses = np.empty_like(deltas)
    masses[1:] = drops / -math.expm1(-step)
    masses[1:-1] -= drops[1:] / math.expm1(step)
    masses[1:] = np.maximum(masses[1:], 0.0)
    masses[0] = max(0.0, 1.0 - deltas[-1] - float(np.sum(masses[1:])))
    return masses


def _mean_composition(masses: Array, bottom: int, counts: Counts, cells: int, low: int) -> Array:
    """Mean over `counts` of the powers of `masses` (circular; cell 0 is loss ``-low * step``)."""
    padded = np.zeros(cells)
    padded[: masses.size] = masses
    transform = np.fft.rfft(np.roll(padded, -bottom))
    powers: dict[int, npt.NDArray[np.complex128]] = {}
    product, total, done = np.ones_like(transform), np.zeros_like(transform), 0
    for count in np.sort(counts).tolist():
        if count > done:
            if count - done not in powers:
                powers[count - done] = transform ** float(count - done)
            product = product * powers[count - done]
            done = count
        total += product
    mean = np.fft.irfft(total / counts.size, cells)
    return np.asarray(np.maximum(np.roll(mean, low), 0.0), dtype=np.float64)


def _reach(losses: Array, masses: Array, counts: Counts, tail: float, step: float) -> int:
    """Cells from 0 beyond which the composed loss has mass at most `tail`, for every count (Chernoff)."""
    reach = math.inf
    scale = math.sqrt(float(np.dot(masses, losses * losses)) * float(counts.max()))
    for rate in _CHERNOFF_RATES / scale:
        if rate * float(losses.max()) > 600.0:
            break
        log_moment = math.log(float(np.dot(masses, np.exp(rate * losses))))
        growth = max(log_moment * int(counts.max()), log_moment * int(counts.min()))
        reach = min(reach, (growth - math.log(tail)) / rate)
    return math.ceil(max(reach, 0.0) / step) + 1 if reach < math.inf else _MOST_CELLS
