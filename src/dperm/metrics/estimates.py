"""Estimates of the requested metrics, with intervals, from the released vector."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from dperm.metrics.intervals import (
    CLEAR,
    QUANTILE,
    TOO_NOISY,
    Array,
    Estimate,
    Metric,
    Noisy,
    Share,
    Support,
    around,
    matrix_itself,
    of_matrix,
    of_share,
    without_interval,
)
from dperm.metrics.parts import Determination, Loss, Scores
from dperm.metrics.plan import OF_MATRIX, OF_SCORES, Plan


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
    mean, square = (float(each) / size.n for each in sums) if size.n > 0.0 else (math.nan, math.nan)
    if not size.is_clear:
        return Estimate(part.unit * mean if mean >= 0.0 else math.nan, math.nan, math.nan, TOO_NOISY)
    sampling = max(square - mean * mean, 0.0) / size.n
    noise = (sigma**2 + mean * mean * size.variance) / size.n**2
    return around(part.unit * mean, part.unit**2 * (sampling + noise), least=0.0)


def mean_squared_error(part: Determination, sums: Array, sigma: float, size: Size) -> Estimate:
    """Mean squared error from the sums for the coefficient of determination."""
    n, e = size.n, float(sums[0]) / size.n if size.n > 0.0 else 0.0
    variance = _lifted(float(sums[3]) / part.minor - n * e**2, 2.0 * n * e**2, sigma / part.minor)
    return mean_loss(Loss("mse", part.bound), np.array([sums[0], variance + n * e**2]), sigma, size)


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
    ee, et, ett, ttt, tttt = sums[3:] / part.minor
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
        return Estimate(value, math.nan, math.nan, TOO_NOISY)
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return Estimate(value, 1.0 - scale * (b + root) / a, min(1.0 - scale * (b - root) / a, 1.0))


def _lifted(released: float, normal: float, noise: float) -> float:
    """A noisy sum of squares, raised by up to one standard deviation if it is below that of a normal law.

    A sum that the noise has made too small, or negative, would otherwise make the interval too short.
    """
    return max(released, min(normal, released + noise), 0.0 if normal > 0.0 else -math.inf)


@dataclass(frozen=True)
class ScoreCounts:
    """Noisy counts of the scores of two classes.

    Attributes
    ----------
    noisy : Noisy
        Shape (bins, 2).
    middles : ndarray
        Probability at the middle of each bin.
    """

    noisy: Noisy
    middles: Array

    def roc_auc(self) -> Share:
        """Area under the ROC curve, from the raw noisy counts: clipping them would bias it towards 1/2."""
        return Share.of(_roc_auc, self.noisy, self._supports)

    def average_precision(self) -> Share:
        """Average precision, with positives from the noisy counts and precisions from the fitted ones."""
        precisions = _precisions_at_middles(self._fitted.cells)
        positives = self.noisy.cells[:, 1]
        value = float(positives @ precisions / positives.sum())
        return Share.of(_average_precision, self._fitted, self._supports, value)

    def brier(self) -> Share:
        """Brier score of the probabilities at the middles of the bins."""
        losses = np.column_stack([np.square(self.middles), np.square(1.0 - self.middles)])
        supports = [(float(self.noisy.cells.sum()), self.noisy.cells.size)]
        return Share.of(
            lambda c: (c * losses).sum(axis=(-2, -1)) / c.sum(axis=(-2, -1)), self.noisy, supports
        )

    def roc_curve(self) -> Estimate:
        """Shares of both classes at or above each edge, with an interval for the second class."""
        band = self._band(lambda c: _rates(c)[..., 1], self.noisy.cells[:, 1].sum())
        x, y, low, high = (
            np.append(each, 0.0)[::-1]
            for each in (_rates(self._fitted.cells)[:, 0], band.value, band.low, band.high)
        )
        return self._curve({"fpr": x, "tpr": y}, low, high)

    def precision_recall_curve(self) -> Estimate:
        """Precision and recall at or above each edge with enough records."""
        above = _from_above(self._fitted.cells).sum(axis=-1)
        band = self._band(_precisions, above)
        kept = self.noisy.is_clear(above, self.noisy.cells.size)
        x, y, low, high = (
            each[kept][::-1] for each in (_rates(self._fitted.cells)[:, 1], band.value, band.low, band.high)
        )
        return self._curve({"recall": x, "precision": y}, low, high)

    def calibration(self) -> Estimate:
        """Share of the second class in each bin with enough records."""
        kept = self.noisy.is_clear(self.noisy.cells.sum(axis=-1), 2)
        in_bin = replace(self.noisy, cells=np.where(kept[:, None], self.noisy.cells, 1.0))
        size = in_bin.cells.sum(axis=-1)
        band = of_share(_outcomes(in_bin.cells), *in_bin.variances(_outcomes), size)
        observed, weight = np.clip(band.value[kept], 0.0, 1.0), size[kept]
        fitted = isotonic_regression(observed, sample_weight=weight) if observed.size else observed
        value = {"predicted": self.middles[kept], "observed": observed, "fitted": fitted}
        return Estimate(value, band.low[kept], band.high[kept])

    @property
    def _supports(self) -> list[Support]:
        """Number of records of each class."""
        return [(float(each), len(self.noisy.cells)) for each in self.noisy.cells.sum(axis=0)]

    @property
    def _fitted(self) -> Noisy:
        """Non-negative counts, from an isotonic fit to the shares of each class at or above an edge."""
        counts = np.empty_like(self.noisy.cells)
        for each, (shares, size) in enumerate(
            zip(_rates(self.noisy.cells).T, self.noisy.cells.sum(axis=0), strict=True)
        ):
            falling = isotonic_regression(np.nan_to_num(shares), y_min=0.0, y_max=1.0, increasing=False)
            counts[:, each] = -np.diff(falling, append=0.0) * max(size, 0.0)
        return replace(self.noisy, cells=counts)

    def _band(self, metric: Metric, support: Any) -> Estimate:
        return of_share(metric(self._fitted.cells), *self._fitted.variances(metric), support)

    def _curve(self, value: dict[str, Array], low: Array, high: Array) -> Estimate:
        if all(self.noisy.is_clear(*each) for each in self._supports):
            return Estimate(value, low, high)
        nothing = np.full(len(low), np.nan)
        return Estimate(value, nothing, nothing, TOO_NOISY)


def _roc_auc(c: NDArray[Any]) -> Any:
    negative, positive = c[..., 0], c[..., 1]
    below = np.cumsum(negative, axis=-1) - 0.5 * negative
    return (positive * below).sum(axis=-1) / (negative.sum(axis=-1) * positive.sum(axis=-1))


def _from_above(c: NDArray[Any]) -> Any:
    """Records with a score in each bin or above, by class."""
    return np.cumsum(c[..., ::-1, :], axis=-2)[..., ::-1, :]


def _rates(c: NDArray[Any]) -> Any:
    """Shares of both classes with a score in each bin or above."""
    return _from_above(c) / c.sum(axis=-2, keepdims=True)


def _precisions(c: NDArray[Any]) -> Any:
    """Share of the second class among the records with a score in each bin or above."""
    above = _from_above(c)
    return above[..., 1] / above.sum(axis=-1)


def _precisions_at_middles(c: NDArray[Any]) -> Any:
    above = _from_above(c) - 0.5 * c
    size = above.sum(axis=-1)
    return np.divide(above[..., 1], size, out=np.zeros_like(size), where=size != 0.0)


def _average_precision(c: NDArray[Any]) -> Any:
    return (c[..., 1] * _precisions_at_middles(c)).sum(axis=-1) / c[..., 1].sum(axis=-1)


def _outcomes(c: NDArray[Any]) -> Any:
    """Share of the second class in each bin."""
    return c[..., 1] / c.sum(axis=-1)


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
    """

    def __init__(self, plan: Plan, pieces: list[Array], sigma: float, n_records: int | None) -> None:
        self._parts, self._sigma, self._n_records = plan.parts, sigma, n_records
        self._pieces = dict(zip(plan.parts, pieces, strict=True))

    def estimate(self, name: str) -> Estimate:
        """A metric; after a division by zero it is NaN, with infinite variance."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self._estimate(name)

    def _estimate(self, name: str) -> Estimate:
        if name == "accuracy" and "hits" in self._parts:
            return hit_rate(self._pieces["hits"], self._sigma, self.size)
        if name in OF_MATRIX:
            matrix = self._noisy(self._pieces["confusion"])
            return matrix_itself(matrix) if name == "confusion_matrix" else of_matrix(name, matrix)
        if name in OF_SCORES and "scores" in self._parts:
            return self._of_scores(name)
        sums = "r2" if name == "mse" and "r2" in self._parts else name
        part, piece = self._parts[sums], self._pieces[sums]
        if isinstance(part, Determination):
            found = determination if name == "r2" else mean_squared_error
            return found(part, piece, self._sigma, self.size)
        assert isinstance(part, Loss)
        return mean_loss(part, piece, self._sigma, self.size)

    @cached_property
    def size(self) -> Size:
        """The number of records: public, or from the part with the fewest cells."""
        if self._n_records is not None:
            return Size(float(self._n_records), 0.0)
        for name in ("count", "hits", "confusion", "scores"):
            if name in self._pieces:
                cells, times = self._pieces[name], self._parts[name].times_counted
                return Size(float(cells.sum()) / times, self._sigma**2 * cells.size / times**2)
        raise AssertionError("a plan counts the records")

    def _of_scores(self, name: str) -> Estimate:
        part = self._parts["scores"]
        assert isinstance(part, Scores)
        tables = [ScoreCounts(self._noisy(cells), part.middles) for cells in self._pieces["scores"]]
        found = [getattr(each, name)() for each in tables]
        if isinstance(found[0], Share):
            return Share.mean(found).estimate()
        return found[0]  # type: ignore[no-any-return]  # curves are of two classes

    def _noisy(self, cells: Array) -> Noisy:
        if self._n_records is None:
            return Noisy(cells, self._sigma)
        return Noisy.of_known_size(cells, self._sigma, self._n_records)
