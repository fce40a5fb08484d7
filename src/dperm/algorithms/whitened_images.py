"""Whitening: coordinates in which the rows' noisy second moments are about the identity."""

from __future__ import annotations

import math

import numpy as np

from dperm.algorithms.noisy_spectrum import Spectrum
from dperm.mechanisms.release import Releaser
from dperm.objective.counts import norm_counts
from dperm.objective.objective import Array, Objective
from dperm.objective.weighted_rows import leverage_counts, weighted_gram_sum
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform


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
    reach = release.gaussian_sum(counts, multiplier).cumsum()
    reached = reach > max(0.05 * objective.n_public, 3.0 * noise * math.sqrt(_NORM_BINS))
    return float(bound * 2.0 ** (-0.5 * reached.argmax()))


def _factors_of_rare_axes(release: Releaser, table: Bounded, multiplier: float) -> Array:
    """Factors below 1 for axes along which rows are far too long for full weight.

    Indicators of rare categories are such axes after whitening; only their rows carry information on them.
    """
    noise = multiplier * table.sensitivity(release.neighbors)
    found = release.gaussian_sum(table, multiplier) > 4.5 * noise
    highest = _TABLE_BINS - found[::-1].argmax(axis=0)
    return np.where(found.any(axis=0), 2.0 ** -highest.astype(np.float64), 1.0)


_NORM_BINS = 16  # half octaves
_TABLE_BINS = 6  # octaves
