"""Metrics of binned scores, from the counts ``c[..., bin, class]``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from dperm.metrics.intervals import (
    TOO_NOISY,
    Array,
    Estimate,
    Metric,
    Noisy,
    Share,
    Support,
    of_share,
)


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
