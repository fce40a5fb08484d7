"""Coordinates whitened by private second moments: the Gram matrix, or mean squares of the columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.algorithms.fit import Fit
from dperm.algorithms.private_scales import ridge_as_norm
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Array, Objective
from dperm.objective.row_scaling import RowScaling
from dperm.objective.second_moments import DIAGONAL, denoised, mean_weight, symmetric_matrix

# Share of the weights that shrinkage leaves with labels where second moments are all the ridge's, and the
# largest standard deviation of predictions from their noise: the loss hardly depends on weights that short,
# the signs of predictions do.
_LEAST_KEPT, _MOST_NOISE_KEPT = 0.25, 0.5


@dataclass(frozen=True)
class Whitening:
    """Coordinates ``A z`` in which second moments, those of the ridge included, are near the identity.

    A ridge term counts as second moments of further rows, and leaves those of the records shorter: their
    clip is lower, too, but gradients of a typical length are not clipped for that.
    """

    matrix: Array
    of_rows: float  # trace of the second moments there
    with_ridge: float  # and together with those of the ridge
    longest: float  # bound on the row norms, in units of a typical one; 0 if that is not known

    @property
    def row_length(self) -> float:
        """Norm of a typical row."""
        return math.sqrt(self.of_rows)

    @property
    def ridge_share(self) -> float:
        """Share of the ridge in the second moments."""
        return 1.0 - self.of_rows / self.with_ridge

    def clip(self, relative: float) -> float:
        """Bound on gradients of slope 1."""
        return min(relative * math.sqrt(self.with_ridge), max(relative, 1.0) * self.row_length)

    def least_kept(self, noise: float) -> float:
        """Share of weights with that standard deviation that shrinkage leaves with labels."""
        share = _LEAST_KEPT * self.ridge_share
        return min(share, _MOST_NOISE_KEPT / (noise * self.row_length)) if noise > 0.0 else share


def private_whitening(
    fit: Fit, release: Releaser, multiplier: float, moments: str, scaling: RowScaling
) -> Whitening:
    """Release second moments of rows in these units, and whiten with them.

    Parameters
    ----------
    fit : Fit
    release : Releaser
    multiplier : float
        Noise multiplier; unused without moments.
    moments : {"gram", "columns", "none"}
    scaling : RowScaling
    """
    d, row_norm, scales = fit.objective.dimension, scaling.row_norm, scaling.column_scales
    if moments == "none":
        matrix, of_rows, with_ridge, longest = math.sqrt(d) / row_norm * np.eye(d), float(d), float(d), 0.0
    else:
        noisy_moments = _noisy_gram if moments == "gram" else _noisy_columns
        second_moments, noise = noisy_moments(fit.objective, release, multiplier, scaling)
        values, vectors = np.linalg.eigh(second_moments)
        values = np.maximum(values, 0.0)
        floor = max(noise, 1e-6 * values[-1], 1e-9 * row_norm**2)
        moments_of_rows = (vectors * values) @ vectors.T
        if fit.objective.l2 > 0.0:
            penalized = scales * fit.objective.penalty_gradient(np.ones(d)) / fit.objective.l2
            ridge = np.diag((ridge_as_norm(fit.objective) * penalized) ** 2)
            values, vectors = np.linalg.eigh(moments_of_rows + ridge)
        matrix = (vectors / np.sqrt(values + floor)) @ vectors.T
        of_rows = with_ridge = max(float(np.vdot(matrix @ moments_of_rows, matrix)), 1.0)
        if fit.objective.l2 > 0.0:
            with_ridge = max(float(np.sum(values / (values + floor))), of_rows)
        longest = max(row_norm / math.sqrt(max(float(np.trace(moments_of_rows)), floor)), 1.0)
    matrix *= scales
    if np.ptp(scales) > 0.0:
        matrix = _with_smaller_condition(matrix, fit.objective.largest_condition)
    return Whitening(matrix, of_rows, with_ridge, longest)


def _with_smaller_condition(matrix: Array, largest: float) -> Array:
    """The matrix with its singular values capped at `largest` times the smallest."""
    left, values, right = np.linalg.svd(matrix)
    if values[0] <= largest * values[-1]:
        return matrix
    return np.asarray((left * np.minimum(values, largest * values[-1])) @ right)


def _noisy_gram(
    objective: Objective, release: Releaser, multiplier: float, scaling: RowScaling
) -> tuple[Array, float]:
    """An estimate of ``E[z z^T]`` from the Gram matrix, and the noise of a diagonal entry."""
    gram = objective.gram_sum(scaling=scaling)
    noise = multiplier * gram.sensitivity(release.neighbors) / (DIAGONAL * objective.n_public)
    noisy = symmetric_matrix(release.gaussian_sum(gram, multiplier)) / objective.n_public
    return denoised(noisy, noise), noise


def _noisy_columns(
    objective: Objective, release: Releaser, multiplier: float, scaling: RowScaling
) -> tuple[Array, float]:
    """An estimate of ``E[z z^T]``, a rank-one plus a diagonal matrix, and half the noise of an entry.

    The squares of a row are clipped to norm ``R^2 / d^(1/4)``, between that of a row of equal entries
    (``R^2 / sqrt(d)``) and that of a row with a single nonzero entry (``R^2``).
    """
    d, n, row_norm = objective.dimension, objective.n_public, scaling.row_norm
    clip = row_norm**2 / d**0.25
    sums = objective.moment_sums(clip, scaling=scaling)
    noise = multiplier * sums.sensitivity(release.neighbors) / n
    weight = mean_weight(clip, row_norm, math.sqrt(sums.grid))
    mean, squares = release.gaussian_sum(sums, multiplier).reshape(2, d) / n
    mean /= weight
    return np.outer(mean, mean) + np.diag(np.maximum(squares - mean**2, 0.0)), 0.5 * noise
