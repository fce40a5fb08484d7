"""Immutable descriptions of releases, independent of how they are accounted.

`cost` is a pure function of the event; only `Budget.spend` multiplies it by a number of repetitions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dperm.accounting._checks import check_non_negative, shown
from dperm.accounting.units import Units, bounded_range_cost, ceil_units, gaussian_cost


class PrivacyEvent(ABC):
    """One access to the data whose output is published.

    Examples
    --------
    >>> from dperm.accounting.budget import Budget
    >>> from dperm.accounting.events import GaussianRelease
    >>> budget = Budget.from_epsilon(1.0, 1e-6)
    >>> budget.spend(GaussianRelease(noise_multiplier=50.0), count=100)
    >>> budget
    Budget(accountant='gdp', mu^2: total=0.056029, spent=0.04)
    """

    @abstractmethod
    def cost(self, accountant: str) -> Fraction | float:
        """Upper bound on mu^2 ("gdp") or rho ("zcdp") of this release; infinite if there is none."""

    def cost_units(self, accountant: str) -> Units:
        """`cost` in integer units of 2^-60, rounded up; ``math.inf`` if there is no bound."""
        return _cost_units(self, accountant)

    def _check(self, *names: str) -> None:
        """Convert these fields to floats; TypeError or ValueError unless they are numbers >= 0."""
        for name in names:
            object.__setattr__(self, name, check_non_negative(getattr(self, name), name))


@lru_cache(maxsize=1024)  # an iterative algorithm asks for the same cost at each step
def _cost_units(event: PrivacyEvent, accountant: str) -> Units:
    return ceil_units(event.cost(accountant))


@dataclass(frozen=True)
class GaussianRelease(PrivacyEvent):
    """A vector plus independent N(0, sigma^2) noise on each coordinate.

    Parameters
    ----------
    noise_multiplier : float
        sigma divided by the Euclidean sensitivity of the vector under the neighbouring relation in use,
        at least 0 (0: no noise, infinite cost).

    Notes
    -----
    ``mu^2 = 1/noise_multiplier^2`` (Dong, Roth and Su 2022, Theorem 2.7), ``rho = mu^2 / 2`` (Bun and
    Steinke 2016, Proposition 1.6).

    Examples
    --------
    >>> float(GaussianRelease(2.0).cost("gdp")), float(GaussianRelease(2.0).cost("zcdp"))
    (0.25, 0.125)
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._check("noise_multiplier")

    def cost(self, accountant: str) -> Fraction | float:
        """mu^2 or rho of the release, exactly."""
        return gaussian_cost(self.noise_multiplier, accountant)


@dataclass(frozen=True)
class ExponentialMechanismRelease(PrivacyEvent):
    """A candidate j chosen with probability proportional to ``exp(-c u_j)``.

    Parameters
    ----------
    eta : float
        c times the range of one record's effect on the scores, at least 0: the log-ratios of the
        probabilities lie in an interval of length eta.

    Notes
    -----
    See `bounded_range_rho` and `bounded_range_mu`.

    Examples
    --------
    >>> choice = ExponentialMechanismRelease(eta=1.0)
    >>> round(float(choice.cost("gdp")), 4), round(float(choice.cost("zcdp")), 4)
    (0.3892, 0.125)
    """

    eta: float

    def __post_init__(self) -> None:
        self._check("eta")

    def cost(self, accountant: str) -> Fraction | float:
        """mu^2 or rho of the selection, rounded up."""
        return bounded_range_cost(self.eta, accountant)


@dataclass(frozen=True)
class PureRelease(PrivacyEvent):
    """Any release with a pure guarantee: norm-Laplace noise, report-noisy-max with Laplace noise.

    Parameters
    ----------
    epsilon : float
        The release is epsilon-DP, at least 0.

    Notes
    -----
    The cost is that of a selection of bounded range ``eta = 2 epsilon``. zCDP: ``epsilon^2/2`` (Bun and
    Steinke 2016, Proposition 1.4). GDP: the trade-off curve of epsilon-DP is two straight lines that meet on
    the diagonal at type I error ``1/(1 + e^epsilon)``. The Gaussian curve through that corner, for
    ``mu = -2 Phi^{-1}(1/(1 + e^epsilon))``, is convex, hence below both (Dong, Roth and Su 2022, section 2).

    Examples
    --------
    >>> round(float(PureRelease(0.5).cost("gdp")), 4), round(float(PureRelease(0.5).cost("zcdp")), 4)
    (0.3892, 0.125)
    """

    epsilon: float

    def __post_init__(self) -> None:
        self._check("epsilon")

    def cost(self, accountant: str) -> Fraction | float:
        """mu^2 or rho of the release, rounded up."""
        return bounded_range_cost(2.0 * self.epsilon, accountant)


@dataclass(frozen=True)
class PerturbedMinimumRelease(PrivacyEvent):
    """The minimiser of an objective with a random linear term, plus noise: one access to the data.

    Parameters
    ----------
    mechanism : {"gaussian", "norm_laplace"}
        Law of the linear term and of the noise on the output.
    scale : float
        Scale of the linear term, in units of the sum of losses; at least 0.
    output : float
        Noise on the output, relative to the distance of the computed minimisers from the exact ones on two
        data sets: the noise multiplier (Gaussian), or epsilon (norm-Laplace).

    Notes
    -----
    Its privacy depends on the ridge term and the loss (`dperm.accounting.objective_perturbation`), so it can
    be scheduled (`ScheduledBudget`) but not composed with other events.

    Examples
    --------
    >>> from dperm.accounting.budget import ScheduledBudget
    >>> event = PerturbedMinimumRelease("gaussian", scale=10.0, output=100.0)
    >>> budget = ScheduledBudget(event, count=1, accountant="objective_perturbation")
    >>> budget.spend(event)
    >>> budget.fits(event)
    False
    """

    mechanism: str
    scale: float
    output: float

    def __post_init__(self) -> None:
        if self.mechanism not in ("gaussian", "norm_laplace"):
            raise ValueError(f"mechanism must be 'gaussian' or 'norm_laplace', got {shown(self.mechanism)}.")
        self._check("scale", "output")

    def cost(self, accountant: str) -> Fraction | float:
        """Infinity: not known from the event alone."""
        return math.inf


@dataclass(frozen=True)
class RandomTrialsRelease(PrivacyEvent):
    """The best of a secret, random number of trials.

    Parameters
    ----------
    eta, gamma : float
        Parameters of the number of trials:
        :class:`dperm.accounting.random_trials.TruncatedNegativeBinomial`.
    trial : int
        Cost of a trial, in units.

    Notes
    -----
    Can be scheduled but not composed with other events: its profile is not that of Gaussian noise.
    """

    eta: float
    gamma: float
    trial: Units

    def cost(self, accountant: str) -> Fraction | float:
        """Infinity: not known from the event alone."""
        return math.inf
