"""The public numbers of a problem. Default settings are functions of these and of nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from dperm.accounting.neighbours import Neighbours
from dperm.losses import Loss

#: Number of weights beyond which a square matrix of that size is slower than a descent without one: 1,000
#: columns and an intercept.
MANY_WEIGHTS = 1001


@dataclass(frozen=True)
class PublicProblem:
    """Public numbers of a fit."""

    n: int  # public number of records
    dimension: int  # number of weights
    mu: float  # budget in Gaussian differential privacy; infinite without noise
    loss: Loss
    row_norm: float  # bound on the norm of a row
    l2: float = 0.0
    neighbors: Neighbours = Neighbours.ADD_OR_REMOVE

    @property
    def signal(self) -> float:
        """The signal-to-noise number ``n mu / sqrt(dimension)``.

        The norm of a sum over n records that agree, relative to the norm of the noise on one release of it.
        """
        return self.n * self.mu / math.sqrt(self.dimension)

    @property
    def private(self) -> bool:
        """Whether there is any noise."""
        return self.mu < math.inf

    def per_record(self) -> Self:
        """The problem with mu halved under replace_one, where the same sums need twice the noise.

        Idempotent: the result is an add_or_remove problem.
        """
        mu = self.mu / self.neighbors.sum_factor
        return replace(self, mu=mu, neighbors=Neighbours.ADD_OR_REMOVE)
