"""Whitening of the rows, noisy spectra, and covariances of solutions, for `noisy_newton`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from dperm.algorithms.defaults.constants import Newton
from dperm.mechanisms.release import Releaser
from dperm.objective.counts import magnitude_counts, norm_counts
from dperm.objective.moments import DIAGONAL, symmetric_matrix
from dperm.objective.objective import Array, Objective
from dperm.objective.weighted_rows import leverage_counts, weighted_gram_sum
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform

_MAGNITUDE_BINS = 16  # octaves
_NORM_BINS = 16  # half octaves
_TABLE_BINS = 6  # octaves


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues and eigenvectors of a symmetric matrix that was released as a mean over the records."""

    values: Array
    vectors: Array
    deviation: float  # of the noise on the diagonal; off the diagonal it is 1 / sqrt(2) of that
    least: float  # precision of the arithmetic: smaller eigenvalues are unknown even without noise

    @classmethod
    def released(cls, release: Releaser, private: Bounded, multiplier: float, n: int) -> Spectrum:
        """Release a triangle of second moments."""
        bound = private.sensitivity(release.neighbors) / (DIAGONAL * n)
        matrix = symmetric_matrix(release.gaussian_sum(private, multiplier)) / n
        values, vectors = np.linalg.eigh(matrix)
        return cls(
            values,
            vectors,
            multiplier * bound,
            max(Newton.PRECISION * values[-1], Newton.LEAST_PRECISION * n * bound),
        )

    @property
    def noise(self) -> float:
        """Approximate spectral norm of the noise."""
        return max(self.deviation * math.sqrt(2.0 * len(self.values)), self.least)

    def floored(self, floor: float = 0.5) -> Array:
        """Eigenvalues, raised to at least ``floor * noise``."""
        return np.maximum(self.values, floor * self.noise)

    def solve(self, vector: Array, floor: float = 0.5) -> Array:
        """The inverse of the matrix with floored eigenvalues, times a vector."""
        return self.through(1.0 / self.floored(floor)) @ vector

    def through(self, values: Array) -> Array:
        """The matrix with these eigenvalues."""
        return np.asarray((self.vectors * values) @ self.vectors.T)

    def noise_times(self, vector: Array) -> Array:
        """Covariance of the noise times a vector."""
        outer = np.outer(vector, vector) + np.vdot(vector, vector) * np.eye(len(vector))
        return np.asarray(0.5 * self.deviation**2 * outer)


@dataclass(frozen=True)
class Covariance:
    """Covariance of whitened coordinates: ``H^-1 (sampling + noise) H^-1``."""

    hessian: Spectrum
    sampling: Array  # covariance of the mean gradient without noise
    noise: Array  # covariance of its noise
    doubt: Array  # squares of what a mean gradient may be wrong by beyond that
    to_weights: Array  # the matrix from whitened coordinates to weights

    def through(self, matrix: Array) -> tuple[Array, Array, Array]:
        """Covariances of ``matrix theta``: total, without noise, and for the smallest possible Hessian."""
        inverse = matrix @ self.hessian.through(1.0 / self.hessian.floored())
        least = np.maximum(
            self.hessian.values - self.hessian.noise, Newton.LEAST_CURVATURE * self.hessian.noise
        )
        cautious = matrix @ self.hessian.through(1.0 / least)
        both = self.sampling + self.noise
        cautious = cautious @ both @ cautious.T + inverse @ self.doubt @ inverse.T
        return inverse @ both @ inverse.T, inverse @ self.sampling @ inverse.T, cautious


def unexplained(gradient: Array, covariance: Array) -> Array:
    """What is left of a gradient that should be 0, up to this covariance; 0 where noise may explain it."""
    least = np.finfo(np.float64).tiny
    square = float(
        gradient @ np.linalg.solve(covariance + math.sqrt(least) * np.eye(len(gradient)), gradient)
    )
    return gradient * math.sqrt(
        max(0.0, 1.0 - chi2.isf(Newton.BY_CHANCE, len(gradient)) / max(square, least))
    )


def whitened_images(
    objective: Objective,
    release: Releaser,
    kept: Array,
    leverage: float,
    noise: Mapping[str, float],
    *,
    robust: bool,
) -> Transform:
    """Whiten scaled columns by two noisy Gram matrices, the second in the coordinates of the first.

    `kept` has a unit row for each of the k columns to use; images of squared norm above ``leverage k`` are
    down-weighted. `noise` has the noise multipliers of counts of the columns' magnitudes, of a histogram of
    row norms ("norms"), of each Gram matrix, and of a table of the axes along which the longest rows lie:
    those of a weight below 1/2, or below 1 if estimates should be `robust` to a wrong model.
    """
    unit = 2.0 ** -math.ceil(math.log2(objective.row_norm))  # entries have sizes up to about 1
    factors = unit * _column_factors(objective, release, noise["columns"])
    matrix, length = kept * factors, math.sqrt(leverage * len(kept))
    for bound in (_typical_norm(objective, release, noise["norms"], factors), length):
        images = Transform.rounding(matrix, bound)
        moments = Spectrum.released(
            release, weighted_gram_sum(objective, images), noise["gram"], objective.n_public
        )
        matrix = (moments.vectors / np.sqrt(moments.floored())).T @ images.values
    shortest = math.sqrt(0.5) if robust else 1.0
    images = Transform.rounding(matrix, shortest * length)
    factors = _factors_of_rare_axes(release, leverage_counts(objective, images, _TABLE_BINS), noise["table"])
    return Transform.rounding(factors[:, np.newaxis] * images.values, length)


def _column_factors(objective: Objective, release: Releaser, multiplier: float) -> Array:
    """Factors, powers of 2, that make columns as long as the bound on the rows.

    A column's size is that which 5 % of its entries reach, if so many stand out from noise.
    """
    counts = magnitude_counts(objective, _MAGNITUDE_BINS)
    noise = multiplier * counts.sensitivity(release.neighbors) * math.sqrt(_MAGNITUDE_BINS)
    reaching = release.gaussian_sum(counts, multiplier).cumsum(axis=1)
    reached = reaching > np.maximum(Newton.LONG_ROWS * reaching[:, -1:], Newton.LONG_DEVIATIONS * noise)
    factors = 2.0 ** reached.argmax(axis=1)
    intercept = 2.0 ** min(max(math.floor(math.log2(objective.row_norm)), 0), _MAGNITUDE_BINS - 1)
    return np.append(factors, intercept)[: objective.dimension]


def _typical_norm(objective: Objective, release: Releaser, multiplier: float, factors: Array) -> float:
    """A norm that at most 5 % of the rows exceed, according to a noisy histogram."""
    bound = float(factors.min()) * objective.row_norm * math.sqrt(len(factors))
    counts = norm_counts(objective, _NORM_BINS, Transform.scaling(factors, bound))
    noise = multiplier * counts.sensitivity(release.neighbors)
    reaching = release.gaussian_sum(counts, multiplier).cumsum()
    reached = reaching > max(
        Newton.LONG_ROWS * objective.n_public, Newton.LONG_DEVIATIONS * noise * math.sqrt(_NORM_BINS)
    )
    return float(bound * 2.0 ** (-0.5 * reached.argmax()))


def _factors_of_rare_axes(release: Releaser, table: Bounded, multiplier: float) -> Array:
    """Factors below 1 for axes along which rows are far too long for full weight.

    Indicators of rare categories are such axes after whitening; only their rows carry information on them.
    """
    noise = multiplier * table.sensitivity(release.neighbors)
    found = release.gaussian_sum(table, multiplier) > Newton.RARE_DEVIATIONS * noise
    highest = _TABLE_BINS - found[::-1].argmax(axis=0)
    return np.where(found.any(axis=0), 2.0 ** -highest.astype(np.float64), 1.0)
