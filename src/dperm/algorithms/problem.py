"""What is public about a problem: default settings are functions of this and of nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from dperm.accounting import Neighbours
from dperm.losses import Loss


@dataclass(frozen=True)
class PublicProblem:
    """Public numbers of a fit.

    Attributes
    ----------
    n : int
        Public number of records.
    dimension : int
        Number of weights.
    mu : float
        Privacy parameter of Gaussian differential privacy; infinite without noise.
    loss : Loss
        For its constants.
    row_norm : float
        Bound on the norm of a row.
    l2 : float
        Strength of the ridge term.
    neighbors : Neighbours
        Neighbouring relation.
    intercept : bool
        Whether one of the weights is an intercept.
    attained : bool
        Whether many rows are known to be about as long as the bound says.
    weighs_privately : bool
        Whether classes are weighed by their frequencies, which are released before.
    """

    n: int
    dimension: int
    mu: float
    loss: Loss
    row_norm: float
    l2: float = 0.0
    neighbors: Neighbours = Neighbours.ADD_OR_REMOVE
    intercept: bool = False
    attained: bool = False
    weighs_privately: bool = False

    @property
    def signal(self) -> float:
        """The signal-to-noise number ``n mu / sqrt(dimension)``.

        A sum over n records that agree, over the length of the noise that one release of it needs.
        """
        return self.n * self.mu / math.sqrt(self.dimension)

    @property
    def private(self) -> bool:
        """Whether there is any noise."""
        return self.mu < math.inf

    def per_record(self) -> Self:
        """The same with mu halved where records are replaced: twice the noise for the same sums.

        Where it is already so, nothing changes.
        """
        mu = self.mu / self.neighbors.sum_factor
        return replace(self, mu=mu, neighbors=Neighbours.ADD_OR_REMOVE)

    def without(self, share: float) -> Self:
        """The same with a share of the budget, in mu^2, spent."""
        return replace(self, mu=self.mu * math.sqrt(1.0 - share))
