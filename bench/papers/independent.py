"""Numbers of the tables that follow from formulas, computed a second time by other means.

    python bench/papers/independent.py

Prints the largest relative difference for each kind of number. The other means are written here, with
nothing of the package; theorems are those of the package's documentation. Takes a minute or two.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

sys.path.insert(0, str(Path(__file__).parents[1]))

from papers import framework
from papers.framework import Refused

#: (ours, by other means); None for both where there is no answer.
Pairs = Iterator[tuple[float | None, float | None]]


def cells(name: str, mode: str, **wanted: object) -> Iterator[tuple[dict, float | None]]:
    """Settings and value of the cells of a table whose settings are as wanted."""
    table = framework.read(name)
    for row in table.rows:
        if all(row.settings[key] == value for key, value in wanted.items()):
            try:
                yield row.settings, table.measure(mode, row.settings)
            except Refused:
                yield row.settings, None


def smoothing_exactly() -> Pairs:
    """Traces of A^-1 and A^-2 for d = 5 by elimination in rational numbers."""
    for row, ours in cells("lssgd_tables3_4", "paper", d=5):
        inverse = _first_column_of_inverse(Fraction(row["sigma"]), 5)
        yield ours, float({"gamma": inverse[0], "beta": sum(x * x for x in inverse)}[row["constant"]])


def _first_column_of_inverse(sigma: Fraction, d: int) -> list[Fraction]:
    """Gauss-Jordan; all columns of a circulant are shifts of the first."""
    rows = [[Fraction(0)] * d + [Fraction(int(i == 0))] for i in range(d)]
    for i, row in enumerate(rows):
        row[i] += 1 + 2 * sigma
        row[(i + 1) % d] -= sigma
        row[i - 1 if i else d - 1] -= sigma
    for k in range(d):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(d):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[d] for row in rows]


def smoothing_by_inversion() -> Pairs:
    """The same for d = 1000 from the inverse in floating point."""
    unit = np.eye(1000)
    for row, ours in cells("lssgd_tables3_4", "paper", d=1000):
        laplacian = np.roll(unit, 1, axis=0) + np.roll(unit, -1, axis=0) - 2.0 * unit
        inverse = np.linalg.inv(unit - row["sigma"] * laplacian)
        yield ours, float({"gamma": np.trace(inverse), "beta": np.sum(inverse**2)}[row["constant"]]) / 1000


def smoothing_in_the_limit() -> Pairs:
    """The same for d = 10,000 and 100,000, where the mean over the eigenvalues is an integral."""
    for d in (10_000, 100_000):
        for row, ours in cells("lssgd_tables3_4", "paper", d=d):
            power = {"gamma": -1, "beta": -2}[row["constant"]]

            def integrand(t: float, sigma: float = row["sigma"], power: int = power) -> float:
                return (1.0 + 2.0 * sigma * (1.0 - math.cos(t))) ** power

            yield ours, quad(integrand, 0.0, math.pi, epsabs=0.0, epsrel=1e-12)[0] / math.pi


def wang_theorem_8() -> Pairs:
    """Noise on the average of T iterates in the unit ball, from Theorems 7 and 8."""
    constants = {"absolute": (0.0, 2.0, 1.0), "hinge": (0.0, 1.0, 1.0), "logistic": (1.0, 0.25, 0.5)}
    for row, ours in cells("wang2022_noise", "paper", method="output"):
        alpha, holder, at_zero = constants[row["loss"]]
        n, steps = row["n"], round(row["n"] ** row["power"])
        eta, delta = math.sqrt(n) / steps, n**-2.0
        excess = 3.0 * n * math.log(2.0 * n / delta) / steps
        times = steps / n * (1.0 + max(excess, math.sqrt(excess)))
        square = 4.0 * eta**2 * (at_zero + holder) ** 2 * (1.0 + times) * times
        if alpha == 0.0:
            square += holder**2 * steps * eta**2
        yield ours, math.sqrt(2.0 * math.log(2.5 / delta) * math.e * square) / row["epsilon"]


def wang_theorem_11() -> Pairs:
    """Noise on a gradient: the least for which one of 800,000 values of beta is feasible, if any is."""
    beta = np.concatenate([np.geomspace(1e-8, 0.5, 400_000), 1.0 - np.geomspace(0.5, 1e-8, 400_000)])
    for row, ours in cells("wang2022_noise", "paper", method="gradient"):
        n, epsilon, steps = row["n"], row["epsilon"], round(row["n"] ** row["power"])
        order = 2.0 * math.log(n) / ((1.0 - beta) * epsilon) + 1.0
        square = 14.0 * steps * order / (beta * n**2 * epsilon)
        feasible = square / 4.0 >= 0.67
        feasible &= order - 1.0 <= square / 6.0 * np.log(n / (order * (1.0 + square / 4.0)))
        yield ours, math.sqrt(square[feasible].min()) if feasible.any() else None


def zhang_steps() -> Pairs:
    """Gradients for Theorems 2 and 3: the best number of steps, found by trying them all."""
    steps = np.arange(1, 2001)
    for row, ours in cells("zhang2017_rounds", "paper"):
        n, l2, beta = row["n"], row["l2"], 0.25 + row["l2"]
        moved = 3.0 * steps / (beta * n) if l2 == 0.0 else 5.0 * (l2 + beta) / (n * l2 * beta)
        noise = beta * row["d"] * math.log(2.0 / row["delta"]) * (moved / row["epsilon"]) ** 2
        if l2 == 0.0:
            best = steps[np.argmin(beta * row["distance"] ** 2 / (2.0 * steps) + noise)]
        else:
            left = 0.5 * beta * row["distance"] ** 2 * (beta / (l2 + beta)) ** (2.0 * steps)
            best = steps[np.argmax(left <= noise)]
        yield ours, float(n * best)


def composed_epsilon(
    pair: tuple[float, float], rate: float, scale: float, steps: int, delta: float, largest: float
) -> float:
    """Epsilon, below `largest`, of telling two shifts of a Gaussian apart that each step shows at a rate.

    By FFT from privacy losses on a grid. A loss is split between two points so that its mean stays, and the
    result is an estimate, not a bound.
    """
    size = 1 << 22
    grid = 2.0 * largest / size
    x = np.linspace(-9.0 * scale - 2.0, 9.0 * scale + 2.0, 400_001)

    def density(shift: float) -> np.ndarray:
        return (1.0 - rate) * np.exp(-0.5 * (x / scale) ** 2) + rate * np.exp(
            -0.5 * ((x - shift) / scale) ** 2
        )

    weights, loss = density(pair[0]), np.log(density(pair[0]) / density(pair[1])) / grid
    weights /= weights.sum()
    low = np.floor(loss).astype(np.int64)
    part = loss - low
    once = np.bincount(low % size, weights * (1.0 - part), size)
    once += np.bincount((low + 1) % size, weights * part, size)
    total = np.maximum(np.fft.irfft(np.fft.rfft(once) ** steps, size), 0.0)[: size // 2]
    losses = grid * np.arange(size // 2)

    def excess(epsilon: float) -> float:
        above = losses > epsilon
        return float(np.sum(total[above] * -np.expm1(epsilon - losses[above]))) - delta

    return brentq(excess, 0.0, largest, xtol=1e-9)


def poisson_noise() -> Pairs:
    """Epsilon at the tight noise of Poisson samples against its target, for DP-LSSGD and single records."""
    for row, ours in cells("lssgd_noise", "default"):
        steps, rate = row["epochs"] * -(-row["n"] // row["batch"]), row["batch"] / row["n"]
        yield row["epsilon"], _either_way(rate, ours * row["batch"], steps, row["delta"], 0.5)
    for row, ours in cells("wang2022_noise", "default", method="gradient"):
        n = row["n"]
        yield row["epsilon"], _either_way(1.0 / n, ours, round(n ** row["power"]), n**-2.0, 8.0)


def _either_way(*run: float) -> float:
    return max(composed_epsilon(pair, *run) for pair in ((1.0, 0.0), (0.0, 1.0)))


def replaced_record() -> Pairs:
    """Epsilon of two data sets at the tight noise of lssgd_noise: opposite gradients in a batch of zeros."""
    for row, ours in cells("lssgd_noise", "tight"):
        steps, rate = row["epochs"] * -(-row["n"] // row["batch"]), row["batch"] / row["n"]
        scale = ours * row["batch"]
        yield row["epsilon"], composed_epsilon((1.0, -1.0), rate, scale, steps, row["delta"], 0.5)


CHECKS: tuple[Callable[[], Pairs], ...] = (
    smoothing_exactly,
    smoothing_by_inversion,
    smoothing_in_the_limit,
    wang_theorem_8,
    wang_theorem_11,
    zhang_steps,
    poisson_noise,
    replaced_record,
)


def main() -> None:
    """One line for each check."""
    for check in CHECKS:
        found = list(check())
        if any((ours is None) != (other is None) for ours, other in found):
            difference = math.inf
        else:
            difference = max(abs(other / ours - 1.0) for ours, other in found if ours is not None)
        print(
            f"{check.__name__:24} {len(found):3} numbers, largest relative difference {difference:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
