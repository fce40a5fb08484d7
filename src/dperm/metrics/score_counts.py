"""Curves, areas and calibration from noisy counts of scores in a tree of bins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression

from dperm._cached import cached_property
from dperm.metrics.intervals import (
    CLEAR,
    TOO_NOISY,
    Array,
    Estimate,
    Metric,
    Noisy,
    Share,
    Support,
    of_share,
)
from dperm.metrics.parts import BRANCHES

#: Bins of about equal counts in calibration curves: their noise would hide a share in narrower ones.
_CALIBRATION_BINS = 16


@dataclass(frozen=True)
class ScoreCounts:
    """Noisy counts of the scores of two classes, in bins where the scores are.

    Attributes
    ----------
    noisy : Noisy
        Shape (bins, 2).
    middles : ndarray
        Probability in the middle of each bin.
    """

    noisy: Noisy
    middles: Array

    @classmethod
    def of(
        cls, released: Array, weights: Array, sigma: float, bins: int, n_records: int | None
    ) -> ScoreCounts:
        """The bins of a tree that are not divided further, with their likeliest counts.

        A bin is divided if it has a share of more than ``1 / bins`` of either class, and both classes are
        clear of the noise: otherwise the noise of narrower bins would outweigh what the order within the bin
        can change. The counts returned are those that agree best, in least squares, with all levels.

        Parameters
        ----------
        released : ndarray
            Noisy counts in all bins, the widest first, each times its weight; shape (nodes, 2).
        """
        tree = released / weights[:, None]
        share = tree[:BRANCHES].sum(axis=0) / bins
        large = (tree > share).any(axis=1) & (released > CLEAR * sigma).all(axis=1)
        divided, offset, width, levels = np.ones(1, dtype=bool), 0, 1.0, []
        while offset < len(tree):
            bin_of_level = np.flatnonzero(np.repeat(divided, BRANCHES))
            node, width = offset + bin_of_level, width / BRANCHES
            offset += BRANCHES * len(divided)
            divided = np.zeros(BRANCHES * len(divided), dtype=bool)
            divided[bin_of_level] = large[node] & (offset < len(tree))
            edges = bin_of_level * width, (bin_of_level + 1) * width
            levels.append([node, *edges, divided[bin_of_level]])
        node, start, end, inner = (np.concatenate(each) for each in zip(*levels, strict=True))
        leaves = np.flatnonzero(~inner)
        leaves = leaves[np.argsort(start[leaves])]
        within = (start[:, None] <= start[leaves]) & (end[leaves] <= end[:, None])
        weighted = within * weights[node, None]
        covariance = np.asarray(np.linalg.inv(weighted.T @ weighted), dtype=np.float64)
        noisy = Noisy(covariance @ (weighted.T @ released[node]), sigma, covariance).of_size(n_records)
        return cls(noisy, expit(2.0 * logit(0.5 * (start + end)[leaves])))

    def roc_auc(self) -> Share:
        """Area under the ROC curve, from the raw noisy counts: clipping them would bias it towards 1/2."""
        negative, positive = (self._fitted.cells / self._fitted.cells.sum(axis=0)).T
        return self._with_ties(Share.of(_roc_auc, self.noisy, self._supports), negative * positive)

    def average_precision(self) -> Share:
        """Average precision, with positives from the noisy counts and precisions from the fitted ones."""
        precisions = _precisions_at_middles(self._fitted.cells)
        positives = self.noisy.cells[:, 1]
        value = float(positives @ precisions / positives.sum())
        share = Share.of(_average_precision, self._fitted, self._supports, value)
        cells = self._fitted.cells
        above = _from_above(cells) - cells
        negative, positive = above[:, 0], above[:, 1] + 0.5 * cells[:, 1]
        first, last = positive / (negative + positive), positive / (negative + positive + cells[:, 0])
        return self._with_ties(share, cells[:, 1] / cells[:, 1].sum() * np.nan_to_num(first - last))

    @staticmethod
    def _with_ties(share: Share, widths: Array) -> Share:
        """Add the variance of the unknown order within bins: any share of each width is as likely."""
        return replace(share, noise=share.noise + float(np.square(widths).sum()) / 12.0)

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
        noise = 2.0 * np.diag(_from_above(_from_above(self._covariance).T))
        kept = self.noisy.is_clear(above, noise)
        x, y, low, high = (
            each[kept][::-1] for each in (_rates(self._fitted.cells)[:, 1], band.value, band.low, band.high)
        )
        return self._curve({"recall": x, "precision": y}, low, high)

    def calibration(self) -> Estimate:
        """Share of the second class in bins of about equal counts, those with enough records."""
        counts = self._fitted.cells.sum(axis=1)
        below = np.cumsum(counts) - 0.5 * counts
        chosen = np.floor(_CALIBRATION_BINS * below / counts.sum()) == np.arange(_CALIBRATION_BINS)[:, None]
        size, noise = chosen @ counts, np.diag(chosen @ self._covariance @ chosen.T)
        kept = self.noisy.is_clear(size, 2.0 * noise)
        chosen = chosen[kept]

        def metric(c: NDArray[Any]) -> Any:
            return _outcomes(chosen @ c)

        band = of_share(metric(self.noisy.cells), *self.noisy.variances(metric), size[kept])
        observed = np.clip(band.value, 0.0, 1.0)
        fitted = isotonic_regression(observed, sample_weight=size[kept]) if observed.size else observed
        predicted = chosen @ (counts * self.middles) / size[kept]
        return Estimate({"predicted": predicted, "observed": observed, "fitted": fitted}, band.low, band.high)

    @property
    def _covariance(self) -> Array:
        assert self.noisy.covariance is not None
        return self.noisy.covariance

    @property
    def _supports(self) -> list[Support]:
        """Number of records of each class."""
        return [(float(each), float(self._covariance.sum())) for each in self.noisy.cells.sum(axis=0)]

    @cached_property
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
    """Sums over each bin and those above, by class."""
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
