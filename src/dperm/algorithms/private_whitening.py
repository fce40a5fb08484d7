"""Coordinates whitened by private second moments: the Gram matrix, or mean squares of the columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.algorithms.defaults.constants import Whitened
from dperm.algorithms.fit import Fit
from dperm.algorithms.preconditioner import ridge_as_norm
from dperm.algorithms.problem import MANY_WEIGHTS
from dperm.mechanisms.release import Releaser
from dperm.objective.moments import DIAGONAL, denoised, gram_sum, mean_weight, moment_sums, symmetric_matrix
from dperm.objective.objective import Array, Objective
from dperm.private_values.transform import Transform


@dataclass(frozen=True)
class Whitening:
    """Coordinates ``A z`` in which second moments, those of the ridge included, are near the identity.

    A ridge term counts as second moments of further rows, and leaves those of the records shorter: their
    clip is lower, too, but gradients of a typical length are not clipped for that.
    """

    linear_map: Transform
    of_rows: float  # trace of the second moments there
    with_ridge: float  # and together with those of the ridge
    longest: float  # bound on the row norms, in units of a typical one; 0 if that is not known
    along_mean: float = 0.0  # second moment that is left along the mean of the rows
    typical_ridge_share: float = 0.0  # share of the ridge in the second moment along the median direction

    @property
    def row_length(self) -> float:
        """Norm of a typical row."""
        return math.sqrt(self.of_rows)

    @property
    def ridge_share(self) -> float:
        """Share of the ridge in the second moments."""
        return 1.0 - self.of_rows / self.with_ridge

    def clip(self, relative: float, slope_at_zero: float, *, given: bool = False) -> float:
        """Bound on gradients, in units of the largest slope of the loss; at least 0.3 `relative`.

        A ridge term that is most of the second moments keeps the weights near 0, where the loss has that
        slope: if it is below 1, larger ones are hardly met, and clipped unless `relative` was given.
        """
        slope = 1.0 - (1.0 - slope_at_zero) * self.ridge_share**Whitened.RIDGE_POWER
        if given or slope_at_zero == 1.0:
            slope = max(relative, slope)
        longest = slope * max(self.row_length, slope_at_zero)
        return min(relative * math.sqrt(self.with_ridge), max(longest, relative * Whitened.SHORTEST_ROW))

    def least_kept(self, noise: float) -> float:
        """Share of weights with that standard deviation that shrinkage leaves with labels."""
        share = Whitened.LEAST_KEPT * self.ridge_share
        return min(share, Whitened.MOST_NOISE_KEPT / (noise * self.row_length)) if noise > 0.0 else share


def private_whitening(
    fit: Fit, release: Releaser, multiplier: float, moments: str, scaling: Transform
) -> Whitening:
    """Release second moments of rows in these units, and whiten with them.

    Parameters
    ----------
    fit : Fit
    release : Releaser
    multiplier : float
        Noise multiplier; unused without moments.
    moments : {"gram", "columns", "diagonal", "none"}
        Whether to whiten by the Gram matrix, by the means and mean squares of the columns, by a diagonal
        matrix from these, or not at all.
    scaling : Transform
    """
    if moments == "diagonal":
        return _by_diagonal(fit.objective, release, multiplier, scaling)
    if moments == "none":
        return _by_nothing(fit.objective, scaling)
    noisy_moments = _noisy_gram if moments == "gram" else _noisy_columns
    return _by_matrix(fit.objective, scaling, *noisy_moments(fit.objective, release, multiplier, scaling))


def _by_matrix(objective: Objective, scaling: Transform, second_moments: Array, noise: float) -> Whitening:
    """By the inverse square root of the second moments, with noise of that size on their entries."""
    row_norm, scales = scaling.row_norm, scaling.values
    values, vectors = np.linalg.eigh(second_moments)
    values = np.maximum(values, 0.0)
    floor = _floor(float(values[-1]), noise, row_norm)
    moments_of_rows = (vectors * values) @ vectors.T
    if objective.l2 > 0.0:
        values, vectors = np.linalg.eigh(moments_of_rows + np.diag(_ridge(objective, scales)))
    matrix = (vectors / np.sqrt(values + floor)) @ vectors.T
    along_vectors = np.einsum("ij,ij->j", vectors, moments_of_rows @ vectors)
    of_rows = with_ridge = max(float(np.sum(along_vectors / (values + floor))), Whitened.SHORTEST_ROW**2)
    if objective.l2 > 0.0:
        with_ridge = max(float(np.sum(values / (values + floor))), of_rows)
    typical_share = float(np.median((values - along_vectors) / (values + floor)))
    longest = _longest(row_norm, float(np.trace(moments_of_rows)), floor)
    matrix *= scales
    if np.ptp(scales) > 0.0:
        matrix = _with_smaller_condition(matrix, objective.largest_condition)
    return Whitening(
        Transform.rounding(matrix), of_rows, with_ridge, longest, typical_ridge_share=max(typical_share, 0.0)
    )


def _by_diagonal(objective: Objective, release: Releaser, multiplier: float, scaling: Transform) -> Whitening:
    """By the roots of the mean squares of the columns, which takes no square matrices."""
    row_norm, scales = scaling.row_norm, scaling.values
    mean, squares, noise_of_mean, noise = _noisy_means(objective, release, multiplier, scaling)
    squares = np.maximum(squares, 0.0)
    floor = _floor(float(squares.max()), 0.5 * noise, row_norm)
    with_ridge = squares + _ridge(objective, scales) if objective.l2 > 0.0 else squares
    diagonal = Transform.powers_of_two(scales / np.sqrt(with_ridge + floor), objective.largest_condition)
    there = (diagonal.values / scales) ** 2
    of_rows = max(float(there @ squares), Whitened.SHORTEST_ROW**2)
    return Whitening(
        diagonal,
        of_rows,
        max(float(there @ with_ridge), of_rows),
        _longest(row_norm, float(squares.sum()), floor),
        along_mean=max(float(there @ (mean**2 - noise_of_mean**2)), 0.0),
        typical_ridge_share=float(np.median(there * (with_ridge - squares))),
    )


def _by_nothing(objective: Objective, scaling: Transform) -> Whitening:
    """Units in which the rows have norm ``sqrt(dimension)`` at most, or up to sqrt(2) times as much."""
    d, scales = objective.dimension, scaling.values
    unit = math.sqrt(d) / scaling.row_norm
    if d > MANY_WEIGHTS:
        # A power of two, so that scales are rounded as in other algorithms, whatever the row norm.
        unit = 2.0 ** round(math.log2(unit))
        linear_map = Transform.powers_of_two(unit * scales, objective.largest_condition)
    else:
        linear_map = Transform.rounding(np.diag(unit * scales))
    square = (unit * scaling.row_norm) ** 2
    return Whitening(linear_map, of_rows=square, with_ridge=square, longest=0.0)


def _floor(largest: float, noise: float, row_norm: float) -> float:
    """What is added to second moments before they are inverted."""
    return max(noise, Whitened.FLOOR * largest, Whitened.LEAST_FLOOR * row_norm**2)


def _longest(row_norm: float, mean_square: float, floor: float) -> float:
    """The bound on the row norms in units of a typical norm."""
    return max(row_norm / math.sqrt(max(mean_square, floor)), 1.0)


def _ridge(objective: Objective, scales: Array) -> Array:
    """Diagonal of the second moments that the ridge term counts as."""
    penalized = scales * objective.penalty_gradient(np.ones(objective.dimension)) / objective.l2
    return np.asarray((ridge_as_norm(objective) * penalized) ** 2)


def _with_smaller_condition(matrix: Array, largest: float) -> Array:
    """The matrix with its singular values capped at `largest` times the smallest."""
    left, values, right = np.linalg.svd(matrix)
    if values[0] <= largest * values[-1]:
        return matrix
    return np.asarray((left * np.minimum(values, largest * values[-1])) @ right)


def _noisy_gram(
    objective: Objective, release: Releaser, multiplier: float, scaling: Transform
) -> tuple[Array, float]:
    """An estimate of ``E[z z^T]`` from the Gram matrix, and the noise of a diagonal entry."""
    gram = gram_sum(objective, transform=scaling)
    noise = multiplier * gram.sensitivity(release.neighbors) / (DIAGONAL * objective.n_public)
    noisy = symmetric_matrix(release.gaussian_sum(gram, multiplier)) / objective.n_public
    return denoised(noisy, noise), noise


def _noisy_columns(
    objective: Objective, release: Releaser, multiplier: float, scaling: Transform
) -> tuple[Array, float]:
    """An estimate of ``E[z z^T]``, a rank-one plus a diagonal matrix, and half the noise of an entry."""
    mean, squares, _, noise = _noisy_means(objective, release, multiplier, scaling)
    return np.outer(mean, mean) + np.diag(np.maximum(squares - mean**2, 0.0)), 0.5 * noise


def squares_clip(row_norm: float, dimension: int) -> float:
    """Bound on the norm of the vector of a row's squares: ``R^2 / d^(1/4)``.

    That is between its norm for a row of equal entries (``R^2 / sqrt(d)``) and for one with a single nonzero
    entry (``R^2``).
    """
    return float(row_norm**2 / dimension**Whitened.SQUARES_POWER)


def _noisy_means(
    objective: Objective, release: Releaser, multiplier: float, scaling: Transform
) -> tuple[Array, Array, float, float]:
    """Estimates of ``E[z]`` and of ``E[z_j^2]``, and the noise of an entry of each."""
    d, n, row_norm = objective.dimension, objective.n_public, scaling.row_norm
    clip = squares_clip(row_norm, d)
    sums = moment_sums(objective, clip, transform=scaling)
    noise = multiplier * sums.sensitivity(release.neighbors) / n
    weight = mean_weight(clip, row_norm, math.sqrt(sums.grid))
    mean, squares = release.gaussian_sum(sums, multiplier).reshape(2, d) / n
    return mean / weight, squares, noise / weight, noise
