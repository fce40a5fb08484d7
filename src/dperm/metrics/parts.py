"""The contribution of one record to the released vector, part by part.

Every entry is scaled to at most 1. Parts with cells count records; parts with moments sum bounded numbers,
rounded to a public grid. The squared sensitivity of the vector is the sum of those of its parts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dperm.accounting.neighbours import Neighbours
from dperm.errors import DataError
from dperm.metrics.judging import Block, Judge, Judged
from dperm.private_values.bounded import Bounded

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Grid steps per unit for vectors with moments: 2^31 records add up to 2^51 steps.
RESOLUTION = 1 << 20

# Sums of 64-bit integers keep one bit free for the noise.
_MAX_STEPS = 1 << 62

#: Into how many bins of the next level each bin of scores is divided.
BRANCHES = 8
# What a record counts at each level: more in wide bins, in which most of the order of the scores is seen.
_WEIGHTS = (0.75, 0.5, 0.375, 0.375, 0.375)
_MAX_NARROW = 1 << 22  # narrowest bins of all trees together


class Part(Protocol):
    """A part of the vector."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the released numbers."""

    @property
    def times_counted(self) -> int:
        """How many cells count a record; 0 in parts that do not count."""

    def squared_sensitivity(self, neighbors: Neighbours) -> float:
        """Largest squared Euclidean change between neighbours, before rounding."""

    def sums(self, judged: Judged, resolution: int | None) -> NDArray[np.generic]:
        """Contribution of a block: integers in units of ``1 / resolution``, or exact numbers for None."""


class _Cells:
    """Counts of records in cells."""

    shape: tuple[int, ...]
    times_counted = 1

    def squared_sensitivity(self, neighbors: Neighbours) -> float:
        """See `Part`."""
        return float(neighbors.sum_factor)


class _OneCell(_Cells, ABC):
    """Counts of records in cells, one cell for each record."""

    @abstractmethod
    def cells(self, judged: Judged) -> Integers:
        """Flat index of each record's cell."""

    def sums(self, judged: Judged, resolution: int | None) -> Integers:
        """See `Part`."""
        counts = np.zeros(math.prod(self.shape), dtype=np.int64)
        np.add.at(counts, self.cells(judged), judged.counts)
        return counts * (resolution or 1)


@dataclass(frozen=True)
class Count(_OneCell):
    """The number of records."""

    shape = (1,)

    def cells(self, judged: Judged) -> Integers:
        """Flat index of each record's cell."""
        return np.zeros_like(judged.counts)


@dataclass(frozen=True)
class Hits(_Cells):
    """The number of right predictions, and, unless the number of records is public, of wrong ones."""

    size_known: bool

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the released numbers."""
        return (1,) if self.size_known else (2,)

    def squared_sensitivity(self, neighbors: Neighbours) -> float:
        """See `Part`."""
        return 1.0 if self.size_known else super().squared_sensitivity(neighbors)

    def sums(self, judged: Judged, resolution: int | None) -> Integers:
        """See `Part`."""
        right = judged.predicted == judged.truth
        counts = np.array([judged.counts[right].sum(), judged.counts[~right].sum()])
        return counts[: self.shape[0]] * (resolution or 1)


@dataclass(frozen=True)
class Confusion(_OneCell):
    """Records by true and predicted class."""

    n_classes: int

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the released numbers."""
        return (self.n_classes, self.n_classes)

    def cells(self, judged: Judged) -> Integers:
        """Flat index of each record's cell."""
        return judged.truth * self.n_classes + judged.predicted


@dataclass(frozen=True)
class Scores(_Cells):
    """Records by score and by class, in a tree of bins: once, or for each class against the rest.

    The bins of a level have equal width in ``u = expit(log_odds / 2)``: they are narrow around even odds,
    where decisions are close, and the tails reach far enough for rare classes. The next level divides each of
    them. A record is in one bin of every level; which of them are used is decided from the noisy counts.
    """

    n_classes: int = 2

    @property
    def weights(self) -> tuple[float, ...]:
        """What a record counts at each level; there are fewer levels if there are very many classes."""
        return _WEIGHTS[: ((_MAX_NARROW // self.times_counted).bit_length() - 1) // 3]

    @property
    def node_weights(self) -> Array:
        """The weight of each bin."""
        return np.repeat(self.weights, [BRANCHES ** (level + 1) for level in range(len(self.weights))])

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the released numbers."""
        return (self.times_counted, self.node_weights.size, 2)

    @property
    def times_counted(self) -> int:  # type: ignore[override]
        """How many trees a record is in."""
        return 1 if self.n_classes == 2 else self.n_classes

    def squared_sensitivity(self, neighbors: Neighbours) -> float:
        """See `Part`."""
        squares = sum(weight**2 for weight in self.weights)
        return squares * self.times_counted * super().squared_sensitivity(neighbors)

    def sums(self, judged: Judged, resolution: int | None) -> NDArray[np.generic]:
        """See `Part`."""
        narrow = BRANCHES ** len(self.weights)
        classes = range(self.n_classes) if self.n_classes > 2 else [1]
        trees = []
        for each in classes:
            bins = np.minimum((expit(0.5 * judged.log_odds[:, each]) * narrow).astype(np.int64), narrow - 1)
            level = np.zeros((narrow, 2), dtype=np.int64)
            np.add.at(level, (bins, (judged.truth == each).astype(np.int64)), judged.counts)
            tree = [level]
            while len(level) > BRANCHES:
                level = level.reshape(-1, BRANCHES, 2).sum(axis=1)
                tree.append(level)
            trees.append(np.concatenate(tree[::-1]))
        weights = self.node_weights[:, None] * (resolution or 1)  # whole numbers, unless the sums are exact
        weighted = np.array(trees) * (weights if resolution is None else weights.astype(np.int64))
        return np.asarray(weighted.ravel())


#: What a record counts in the number of those that are clipped.
CLIPPED = 0.25


class _Moments(ABC):
    """Sums of numbers of absolute value at most 1, and of their products."""

    shape: tuple[int, ...]
    times_counted = 0

    @abstractmethod
    def values(self, judged: Judged) -> Array:
        """Contribution of each record, shape (n, m)."""

    def sums(self, judged: Judged, resolution: int | None) -> NDArray[np.generic]:
        """See `Part`."""
        with np.errstate(over="ignore", invalid="ignore"):  # clipped, or exact and infinite
            values = self.values(judged)
        if resolution is None:
            return np.asarray(judged.counts.astype(np.float64) @ values)
        return np.asarray(judged.counts @ np.rint(values * resolution).astype(np.int64))


@dataclass(frozen=True)
class Loss(_Moments):
    """A loss, clipped at `bound` and divided by it; at smaller scales its square, and whether it is clipped.

    Attributes
    ----------
    name : str
    bound : float
        Infinite for no clipping, in exact evaluations.
    """

    name: str
    bound: float
    shape = (3,)
    #: Factor on the square, which only the interval needs.
    minor = 0.5

    def squared_sensitivity(self, neighbors: Neighbours) -> float:
        """See `Part`."""
        return 1.0 + self.minor**2 + CLIPPED**2

    @property
    def unit(self) -> float:
        """Unit of the released numbers."""
        return _unit(self.bound)

    def values(self, judged: Judged) -> Array:
        """Contribution of each record, shape (n, m)."""
        loss = _LOSSES[self.name](judged)
        share = _clipped(loss, self.bound)
        return np.column_stack([share, self.minor * np.square(share), CLIPPED * ~(loss <= self.bound)])


@dataclass(frozen=True)
class Determination(_Moments):
    """Moments of squared error e and target t, both clipped and scaled, for the coefficient of determination.

    First ``e, t, t^2``; then, at a smaller scale, ``e^2, e t, e t^2, t^3, t^4``, which only the interval
    needs, and whether one of the two is clipped.

    Attributes
    ----------
    bound, target_bound : float
        Bounds on squared error and target.
    """

    bound: float
    target_bound: float
    shape = (9,)
    #: Factor on the moments that only the interval needs: they add little to the sensitivity.
    minor = 0.25

    @property
    def unit(self) -> float:
        """Unit of the squared error."""
        return _unit(self.bound)

    @property
    def target_unit(self) -> float:
        """Unit of the target."""
        return _unit(self.target_bound)

    def squared_sensitivity(self, neighbors: Neighbours) -> float:
        """See `Part`."""
        # Adding: all entries are at most 1. Replacing: 1 from e, and at most 4 from t and t^2 together, whose
        # squared change (s - t)^2 (1 + (s + t)^2) is largest at t = -s = 1; the others are bounded one by
        # one.
        if neighbors is Neighbours.ADD_OR_REMOVE:
            return 3.0 + 5.0 * self.minor**2 + CLIPPED**2
        return 5.0 + (1.0 + 4.0 + 1.0 + 4.0 + 1.0) * self.minor**2 + CLIPPED**2

    def values(self, judged: Judged) -> Array:
        """Contribution of each record, shape (n, m)."""
        e = _clipped(_LOSSES["mse"](judged), self.bound)
        t = np.nan_to_num(judged.target / self.target_unit, nan=0.0)
        if self.target_bound < math.inf:
            t = np.clip(t, -1.0, 1.0)
        moments = [e * e, e * t, e * t * t, t**3, t**4]
        within = (_LOSSES["mse"](judged) <= self.bound) & (np.abs(judged.target) <= self.target_bound)
        return np.column_stack([e, t, t * t, *(self.minor * each for each in moments), CLIPPED * ~within])


def _unit(bound: float) -> float:
    return bound if bound < math.inf else 1.0


def _clipped(losses: Array, bound: float) -> Array:
    """Losses in units of their bound, from 0 to 1, with 1 for NaN; unchanged if the bound is infinite."""
    if bound == math.inf:
        return losses
    return np.clip(np.nan_to_num(losses / bound, nan=1.0), 0.0, 1.0)


def _pinball(judged: Judged) -> Array:
    error, level = judged.target - judged.prediction, judged.judge.quantile
    return np.asarray(np.maximum(level * error, (level - 1.0) * error))


def _brier(judged: Judged) -> Array:
    outcome = np.eye(judged.probabilities.shape[1])[judged.truth]
    errors = np.square(judged.probabilities - outcome)
    return np.asarray(errors[:, 1] if errors.shape[1] == 2 else errors.sum(axis=1))


_LOSSES: dict[str, Callable[[Judged], Array]] = {
    "log_loss": lambda judged: judged.log_loss,
    "brier": _brier,
    "mae": lambda judged: np.abs(judged.target - judged.prediction),
    "mse": lambda judged: np.square(judged.target - judged.prediction),
    "pinball": _pinball,
}


@dataclass(frozen=True)
class JointSum:
    """The vector of all parts, summed over a block of records.

    Attributes
    ----------
    judge : Judge
    parts : sequence of Part
    exact : bool
        Whether to skip rounding, for evaluations without privacy.
    """

    judge: Judge
    parts: Sequence[Part]
    exact: bool = False

    @property
    def resolution(self) -> int | None:
        """Grid steps per unit; None for exact numbers."""
        if self.exact:
            return None
        return RESOLUTION if any(isinstance(part, _Moments | Scores) for part in self.parts) else 1

    @property
    def grid(self) -> float:
        """Grid of the vector."""
        return 1.0 / (self.resolution or 1)

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(math.prod(part.shape) for part in self.parts)

    def __call__(self, block: Block) -> NDArray[np.generic]:
        """Contribution of a block."""
        judged = Judged(self.judge, block)
        return np.concatenate([part.sums(judged, self.resolution) for part in self.parts])

    def sensitivity(self, neighbors: Neighbours) -> float:
        """Sensitivity of the vector, including the rounding to the grid."""
        squares = sum(part.squared_sensitivity(neighbors) for part in self.parts)
        numbers = sum(math.prod(part.shape) for part in self.parts if isinstance(part, _Moments))
        return math.sqrt(squares) * (1.0 + 2.0**-50) + self.grid * math.sqrt(numbers)

    def bounded(self, total: Integers, n_records: int) -> Bounded:
        """The sum over all records as a private value; DataError if it could have overflowed."""
        if n_records > _MAX_STEPS // (self.resolution or 1):
            raise DataError(
                f"{n_records} records are too many for exact sums of losses, of at most "
                f"{_MAX_STEPS // RESOLUTION} records: evaluate on a sample, or pass smaller counts"
            )
        return Bounded(
            total,
            grid=self.grid,
            add_or_remove=self.sensitivity(Neighbours.ADD_OR_REMOVE),
            replace_one=self.sensitivity(Neighbours.REPLACE_ONE),
        )

    def split(self, vector: Array) -> list[Array]:
        """The released numbers of each part, reshaped."""
        ends = np.cumsum([math.prod(part.shape) for part in self.parts])
        pieces = np.split(vector, ends[:-1])
        return [piece.reshape(part.shape) for part, piece in zip(self.parts, pieces, strict=True)]
