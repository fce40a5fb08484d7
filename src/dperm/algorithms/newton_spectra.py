"""Whitening of the rows, noisy spectra, and covariances of solutions, for `noisy_newton`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.algorithms.defaults.constants import Newton
from dperm.mechanisms.release import Releaser
from dperm.objective.counts import norm_counts
from dperm.objective.moments import DIAGONAL, symmetric_matrix
from dperm.objective.objective import Array, Objective
from dperm.objective.weighted_rows import leverage_counts, weighted_gram_sum
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform

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
    to_weights: Array  # the matrix from whitened coordinates to weights

    def through(self, matrix: Array) -> tuple[Array, Array, Array]:
        """Covariances of ``matrix theta``: total, without noise, and for the smallest possible Hessian."""
        inverse = matrix @ self.hessian.through(1.0 / self.hessian.floored())
        least = np.maximum(
            self.hessian.values - self.hessian.noise, Newton.LEAST_CURVATURE * self.hessian.noise
        )
        cautious = matrix @ self.hessian.through(1.0 / least)
        both = self.sampling + self.noise
        return inverse @ both @ inverse.T, inverse @ self.sampling @ inverse.T, cautious @ both @ cautious.T


def whitened_images(
    objective: Objective,
    release: Releaser,
    kept: Array,
    leverage: float,
    *,
    norms: float,
    gram: float,
    table: float,
) -> Transform:
    """Whiten by two noisy Gram matrices, the second in the coordinates of the first.

    `kept` has a unit row for each of the k columns to use; images of squared norm above ``leverage k`` are
    down-weighted. `norms`, `gram` and `table` are the noise multipliers of a histogram of row norms, of each
    Gram matrix, and of a table of the axes along which the longest rows lie.
    """
    unit = 2.0 ** -math.ceil(math.log2(objective.row_norm))  # rows have norms up to about 1
    matrix, length = unit * kept, math.sqrt(leverage * len(kept))
    for bound in (_typical_norm(objective, release, norms, unit), length):
        images = Transform.rounding(matrix, bound)
        moments = Spectrum.released(release, weighted_gram_sum(objective, images), gram, objective.n_public)
        matrix = (moments.vectors / np.sqrt(moments.floored())).T @ images.values
    images = Transform.rounding(matrix, length)
    factors = _factors_of_rare_axes(release, leverage_counts(objective, images, _TABLE_BINS), table)
    return Transform.rounding(factors[:, np.newaxis] * images.values, length)


def _typical_norm(objective: Objective, release: Releaser, multiplier: float, unit: float) -> float:
    """A norm that at most 5 % of the rows exceed, according to a noisy histogram."""
    bound = unit * objective.row_norm
    counts = norm_counts(objective, _NORM_BINS, Transform.scaling(np.full(objective.dimension, unit), bound))
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
