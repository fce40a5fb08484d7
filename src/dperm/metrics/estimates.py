"""Estimates of the requested metrics, with intervals, from the released vector."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dperm._cached import cached_property
from dperm.metrics.intervals import (
    CLEAR,
    QUANTILE,
    Array,
    Estimate,
    Noisy,
    Share,
    around,
    matrix_itself,
    of_matrix,
    without_interval,
)
from dperm.metrics.parts import BRANCHES, CLIPPED, Determination, Loss, Scores
from dperm.metrics.plan import OF_MATRIX, OF_SCORES, Plan
from dperm.metrics.score_counts import ScoreCounts


class Size:
    """The number of records, exact or noisy.

    Parameters
    ----------
    n : float
    variance : float
        Variance of its noise; 0 if it is public.
    """

    def __init__(self, n: float, variance: float) -> None:
        self.n, self.variance = n, variance

    @property
    def is_clear(self) -> bool:
        """Whether it is large compared to its noise."""
        return self.n > CLEAR * math.sqrt(self.variance) and self.n > 0.0


def hit_rate(hits: Array, sigma: float, size: Size) -> Estimate:
    """Accuracy: from the counts of right and wrong predictions, or of right ones if the size is public."""
    if size.n <= 0.0:
        return without_interval(math.nan)
    value = float(hits[0]) / size.n
    share = min(max(value, 0.0), 1.0)
    noise = (1.0 - value) ** 2 + value**2 if hits.size == 2 else 1.0
    variances = share * (1.0 - share) / size.n, noise * (sigma / size.n) ** 2
    return Share(value, *variances, size.n, size.is_clear).estimate()


def mean_loss(part: Loss, sums: Array, sigma: float, size: Size) -> Estimate:
    """Mean of a loss, with the sampling variance from the sum of squares."""
    mean, square = sums[:2] / [size.n, part.minor * size.n] if size.n > 0.0 else (math.nan, math.nan)
    if not size.is_clear:
        return without_interval(part.unit * mean)
    sampling = max(square - mean * mean, 0.0) / size.n
    noise = (sigma**2 + mean * mean * size.variance) / size.n**2
    return around(part.unit * mean, part.unit**2 * (sampling + noise))


def mean_squared_error(part: Determination, sums: Array, sigma: float, size: Size) -> Estimate:
    """Mean squared error from the sums for the coefficient of determination."""
    n, e = size.n, float(sums[0]) / size.n if size.n > 0.0 else 0.0
    variance = _lifted(float(sums[3]) / part.minor - n * e**2, 2.0 * n * e**2, sigma / part.minor)
    square = Loss.minor * (variance + n * e**2)
    return mean_loss(Loss("mse", part.bound), np.array([sums[0], square]), sigma, size)


def determination(part: Determination, sums: Array, sigma: float, size: Size) -> Estimate:
    """R^2 = 1 - e/v, with e the mean squared error and v the variance of the targets.

    The interval is Fieller's: all ratios r for which ``|e - r v|`` is at most the quantile times its standard
    deviation, which is valid for noisy denominators, too.
    """
    n, noise, moment_noise = size.n, sigma**2, sigma / part.minor
    if n <= 0.0:
        return without_interval(math.nan)
    scale = part.unit / part.target_unit**2  # squared errors and targets have different units
    e, mean, tt = sums[:3] / n
    ee, et, ett, ttt, tttt = sums[3:8] / part.minor
    v = tt - mean**2
    e_v = ett - 2.0 * mean * et + mean**2 * e * n  # sum of e (t - mean)^2
    v_v = tttt - 4.0 * mean * ttt + (6.0 * mean**2 * tt - 3.0 * mean**4) * n
    # Sums of squares and products about the means; for normal targets and errors: 2 e^2, 2 v^2, 2 e^2.
    ee = _lifted(ee - n * e**2, 2.0 * n * e**2, moment_noise)
    vv = _lifted(v_v - n * v**2, 2.0 * n * v**2, moment_noise * math.sqrt(1.0 + 16.0 * mean**2))
    ev = n * e * v - e_v
    ev = -_lifted(ev, -2.0 * n * scale * e**2, moment_noise * math.sqrt(1.0 + 4.0 * mean**2))
    away = v - mean**2  # at fixed sums dv/dn = -away / n, as de/dn = -e / n
    var_e = (ee + noise + e**2 * size.variance) / n**2
    var_v = (vv + noise * (1.0 + 4.0 * mean**2) + away**2 * size.variance) / n**2
    both = (ev + e * away * size.variance) / n**2
    both = math.copysign(min(abs(both), math.sqrt(var_e * var_v)), both)
    value = 1.0 - scale * e / v if v > 0.0 else math.nan
    a, b, c = v**2 - QUANTILE**2 * var_v, e * v - QUANTILE**2 * both, e**2 - QUANTILE**2 * var_e
    noise_of_v = sigma / n * math.sqrt(1.0 + 4.0 * mean**2)
    if not (size.is_clear and v > CLEAR * noise_of_v and a > 0.0):
        return without_interval(value)
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return Estimate(value, 1.0 - scale * (b + root) / a, 1.0 - scale * (b - root) / a)


def _lifted(released: float, normal: float, noise: float) -> float:
    """A noisy sum of squares, raised by up to one standard deviation if it is below that of a normal law.

    A sum that the noise has made too small, or negative, would otherwise make the interval too short.
    """
    return max(released, min(normal, released + noise), 0.0 if normal > 0.0 else -math.inf)


class Released:
    """The released numbers, by part.

    Parameters
    ----------
    plan : Plan
    pieces : list of ndarray
        The numbers of each part of the plan.
    sigma : float
        Standard deviation of the noise on every number.
    n_records : int or None
        The number of records, if it is public.
    bins : int
        About how many bins the scores are sorted into.
    """

    def __init__(
        self, plan: Plan, pieces: list[Array], sigma: float, n_records: int | None, bins: int
    ) -> None:
        self._parts, self._sigma, self._n_records, self._bins = plan.parts, sigma, n_records, bins
        self._pieces = dict(zip(plan.parts, pieces, strict=True))

    def estimate(self, name: str) -> Estimate:
        """A metric within its range; after a division by zero it is NaN, with infinite variance."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self._estimate(name)

    def _estimate(self, name: str) -> Estimate:
        if name == "accuracy" and "hits" in self._parts:
            return hit_rate(self._pieces["hits"], self._sigma, self.size).within(0.0, 1.0)
        if name in OF_MATRIX:
            matrix = Noisy(self._pieces["confusion"], self._sigma).of_size(self._n_records)
            if name == "confusion_matrix":
                return matrix_itself(matrix).within(0.0, math.inf)
            return of_matrix(name, matrix).within(-1.0 if name == "mcc" else 0.0, 1.0)
        if name in OF_SCORES:
            tables = [getattr(each, name)() for each in self._scores]
            if isinstance(tables[0], Share):
                return Share.mean(tables).estimate().within(0.0, 1.0)
            return tables[0]  # type: ignore[no-any-return]  # curves are of two classes
        sums = "r2" if name == "mse" and "r2" in self._parts else name
        part, piece = self._parts[sums], self._pieces[sums]
        if isinstance(part, Determination):
            find = determination if name == "r2" else mean_squared_error
            found = find(part, piece, self._sigma, self.size)
        else:
            assert isinstance(part, Loss)
            found = mean_loss(part, piece, self._sigma, self.size)
        found = found.within(-math.inf, 1.0) if name == "r2" else found.within(0.0, part.bound)
        return replace(found, note=found.note or self._clipping(part, float(piece[-1])))

    def _clipping(self, part: Loss | Determination, released: float) -> str:
        """At what losses were clipped, and of how many records."""
        if part.bound == math.inf or (isinstance(part, Loss) and part.name == "brier"):
            return ""
        targets = f", targets at {part.target_bound:g}" if isinstance(part, Determination) else ""
        noise = QUANTILE * self._sigma
        shares = np.clip(
            np.array([released, released - noise, released + noise]) / (CLIPPED * self.size.n), 0.0, 1.0
        )
        return f"clipped at {part.bound:g}{targets}: {{:.2g}} % of records ({{:.2g}} to {{:.2g}})".format(
            *100.0 * shares
        )

    @cached_property
    def size(self) -> Size:
        """The number of records: public, or from the part with the fewest cells."""
        if self._n_records is not None:
            return Size(float(self._n_records), 0.0)
        for name in ("count", "hits", "confusion"):
            if name in self._pieces:
                cells = self._pieces[name]
                return Size(float(cells.sum()), self._sigma**2 * cells.size)
        part = self._parts["scores"]
        assert isinstance(part, Scores)
        cells, times = self._pieces["scores"][:, :BRANCHES], part.weights[0] * part.times_counted
        return Size(float(cells.sum()) / times, self._sigma**2 * cells.size / times**2)

    @cached_property
    def _scores(self) -> list[ScoreCounts]:
        """The scores of two classes, or of each class against the rest."""
        part = self._parts["scores"]
        assert isinstance(part, Scores)
        return [
            ScoreCounts.of(tree, part.node_weights, self._sigma, self._bins, self._n_records)
            for tree in self._pieces["scores"]
        ]
