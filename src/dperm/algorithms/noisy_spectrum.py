"""Spectra of noisy matrices, and covariances of solutions of linear systems with them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.mechanisms.release import Releaser
from dperm.objective.moments import DIAGONAL, symmetric_matrix
from dperm.objective.objective import Array
from dperm.private_values.bounded import Bounded


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
        return cls(values, vectors, multiplier * bound, max(1e-5 * values[-1], 1e-9 * n * bound))

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
        least = np.maximum(self.hessian.values - self.hessian.noise, _LEAST_CURVATURE * self.hessian.noise)
        cautious = matrix @ self.hessian.through(1.0 / least)
        both = self.sampling + self.noise
        return inverse @ both @ inverse.T, inverse @ self.sampling @ inverse.T, cautious @ both @ cautious.T


# Chosen such that a direction of unknown curvature rules out only intervals with a quarter of their variance
# in it. Eigenvectors of noisy matrices always mix a little.
_LEAST_CURVATURE = 0.2
