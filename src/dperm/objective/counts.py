"""Counts of records, and sums of targets."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.data.passes import (
    WEIGHT_GRID,
    MagnitudeCounts,
    NormCounts,
    TargetCounts,
)
from dperm.objective import moments
from dperm.objective.arguments import real_array
from dperm.objective.hooks import private_sum
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform

_MAGNITUDE_GRID = 2.0**-12


@private_sum
def label_sum(objective: Objective) -> Bounded:
    """``sum_i y_i`` over the finite records, shape ``(1,)``; one record contributes -1 or +1.

    Examples
    --------
    >>> from dperm import Objective
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = Objective("hinge", [[0.5], [-1.0], [0.2]], [1, -1, 1])
    >>> release_without_privacy(label_sum(objective))
    NOT PRIVATE ([1.])
    """
    if not objective.loss.classification or objective.loss.n_classes is not None:
        raise TypeError(f"the targets of the {objective.loss.name} loss are not labels")
    negative, positive = objective._run(TargetCounts(np.zeros(1)))
    return Bounded(np.array([positive - negative]), grid=1.0, add_or_remove=1.0)


@private_sum
def target_counts(objective: Objective, edges: ArrayLike) -> Bounded:
    """Histogram of the finite records' targets, shape ``(len(edges) + 1,)``.

    The first bin counts targets below the first edge, the last one those from the last edge on.

    Parameters
    ----------
    edges : array_like
        Ascending.

    Returns
    -------
    Bounded
        Each record adds 1 to one bin; if records are weighted, its weight over the largest, rounded down.

    Examples
    --------
    >>> from dperm import Objective
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = Objective("softmax", [[0.5], [-1.0], [0.2]], [0, 2, 2], n_classes=3)
    >>> release_without_privacy(target_counts(objective, [0.5, 1.5]))
    NOT PRIVATE ([1., 0., 2.])
    """
    places = real_array("edges", edges)
    if places.ndim != 1 or not (np.diff(places) > 0.0).all():
        raise ValueError(f"edges must be ascending numbers, got {edges!r}")
    weights = objective.weights
    largest, grid = (None, 1.0) if weights is None else (weights.largest, WEIGHT_GRID)
    return _histogram(objective._run(TargetCounts(places, largest)), grid)


@private_sum
def class_counts(objective: Objective) -> Bounded:
    """Number of finite records of each class, shape ``(n_classes,)``.

    Examples
    --------
    >>> from dperm import Objective
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = Objective("softmax", [[0.5], [-1.0], [0.2]], [0, 2, 2], n_classes=3)
    >>> release_without_privacy(class_counts(objective))
    NOT PRIVATE ([1., 0., 2.])
    """
    if objective.loss.n_classes is None:
        raise TypeError(f"the targets of the {objective.loss.name} loss are not class codes")
    edges = np.arange(1, objective.loss.n_classes, dtype=np.float64) - 0.5
    return _histogram(objective._run(TargetCounts(edges)))


@private_sum
def magnitude_counts(objective: Objective, n_bins: int) -> Bounded:
    """For each column, the number of records with an entry in each of `n_bins` octaves.

    Bin k of column j counts ``row_norm 2^-(k + 1) < |z_ij| <= row_norm 2^-k``; smaller entries are not
    counted. A record with entries in m columns counts ``1/sqrt(m)`` in each, rounded down.

    Returns
    -------
    Bounded
        Shape ``(n_columns, n_bins)``; a record contributes a vector of norm at most 1.

    Examples
    --------
    >>> import dperm
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = dperm.Objective("logistic", [[0.5, 0.0], [0.0, 0.01]], [1, -1])
    >>> release_without_privacy(magnitude_counts(objective, n_bins=7)).round(3)
    array([[0., 1., 0., 0., 0., 0., 0.],
           [0., 0., 0., 0., 0., 0., 1.]])
    """
    integers = objective._run(MagnitudeCounts(objective.row_norm, _MAGNITUDE_GRID, n_bins))
    return _counts(integers, _MAGNITUDE_GRID)


@private_sum
def norm_counts(objective: Objective, n_bins: int, transform: Transform) -> Bounded:
    """Histogram of the norms of ``t = (s_j z_j)_j``, in factors of ``sqrt(2)`` below `row_norm`.

    Bin k counts ``row_norm 2^(-(k + 1)/2) < ||t_i|| <= row_norm 2^(-k/2)``, with the `row_norm` of the
    scaling. The first bin includes longer rows, the last one shorter rows.

    Returns
    -------
    Bounded
        Shape ``(n_bins,)``; one record counts 1 in one bin.
    """
    row_norm, columns = moments.scaled_rows(objective, transform)
    assert columns is not None
    return _counts(objective._run(NormCounts(row_norm, n_bins, columns)))


def _histogram(counts: NDArray[np.int64], grid: float = 1.0) -> Bounded:
    """Counts of records, each in one bin."""
    return Bounded(counts, grid=grid, add_or_remove=1.0, replace_one=math.sqrt(2.0))  # rounded up


def _counts(integers: NDArray[np.int64], grid: float = 1.0) -> Bounded:
    """Sums of non-negative vectors of norm at most 1, any two of which are at most sqrt(2) apart."""
    return Bounded(integers, grid=grid, add_or_remove=1.0, replace_one=math.sqrt(2.0) * (1.0 + 2.0**-50))
