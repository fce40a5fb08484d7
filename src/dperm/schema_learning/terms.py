"""The privacy terms of learning a schema."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dperm.accounting import PrivacyLedger, gaussian_noise_multiplier, gdp_epsilon
from dperm.accounting._checks import check_delta, check_positive_epsilon
from dperm.accounting.budget import Budget
from dperm.accounting.ledger.cost import slack_as_float
from dperm.accounting.ledger.privacy_ledger import check_ledger
from dperm.accounting.ledger.terms import relation_of
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant, Units, budget_units, units_as_float

_SHARE_OF_LEDGER = Fraction(1, 20)  # of mu^2, by default
_SHARE_OF_SLACK = 0.125  # of what the ledger has left, by default; so it never runs out
_SLACK = 0.1  # share of delta for values that only one record has
_MIN_EPSILON = 1e-9  # in statements


@dataclass(frozen=True)
class Terms:
    """The guarantee to give, checked."""

    epsilon: float  # of all releases together
    delta: float
    units: Units  # their mu^2
    slack: float  # the part of delta for values that only one record has
    neighbors: Neighbours
    ledger: PrivacyLedger | None

    @property
    def mu(self) -> float:
        """Gaussian differential privacy, up to the slack."""
        return math.sqrt(units_as_float(self.units))

    def budget(self) -> Budget:
        """The budget of all releases."""
        return Budget(self.units, slack=self.slack)

    def multipliers(self, first: Fraction) -> tuple[float, float]:
        """Noise multipliers of two releases, the first of which takes a given share of mu^2."""
        budget = self.budget()
        one = budget.share(1, first)
        budget.spend(0 if one == math.inf else one)
        other = budget.share(1) if first < 1 else one
        return gaussian_noise_multiplier(one, "gdp"), gaussian_noise_multiplier(other, "gdp")


def terms_of(
    epsilon: float | None,
    delta: float | None,
    *,
    categories: bool,
    neighbors: str | None,
    ledger: PrivacyLedger | None,
) -> Terms:
    """Checked terms; those not given are a share of what the ledger has.

    Raises ValueError or TypeError for terms out of range, or if there is no ledger to take a share of.
    """
    if ledger is not None:
        check_ledger(ledger)
    elif epsilon is None or delta is None:
        raise ValueError("give epsilon and delta, or a ledger to take a share of")
    relation = relation_of(neighbors, ledger)
    delta, slack = _delta_and_slack(delta, categories, ledger)
    remaining_delta = math.nextafter(delta - slack, 0.0)
    if epsilon is not None:
        epsilon = check_positive_epsilon(epsilon)
        return Terms(epsilon, delta, budget_units(epsilon, remaining_delta), slack, relation, ledger)
    assert ledger is not None
    whole = ledger.caps.units
    if whole == math.inf:
        return Terms(math.inf, delta, math.inf, slack, relation, ledger)
    squares = 2 if ledger.accountant is Accountant.ZCDP else 1  # mu^2 = 2 rho
    units = math.floor(_SHARE_OF_LEDGER * squares * Fraction(whole))
    epsilon = max(gdp_epsilon(math.sqrt(units_as_float(units)), remaining_delta), _MIN_EPSILON)
    return Terms(epsilon, delta, units, slack, relation, ledger)


def _delta_and_slack(
    delta: float | None, categories: bool, ledger: PrivacyLedger | None
) -> tuple[float, float]:
    if delta is not None:
        delta = check_delta(delta)
        return delta, _SLACK * delta if categories else 0.0
    assert ledger is not None
    if not categories:
        return ledger.delta, 0.0
    room = ledger.room.slack
    if room == 0:
        raise ValueError(
            "the ledger has no slack left, which publishing unlisted values requires: use "
            "Ledger(..., slack=...), or declare the columns yourself"
        )
    slack = _SLACK * ledger.delta if room == math.inf else _SHARE_OF_SLACK * slack_as_float(room)
    return slack / _SLACK, slack
