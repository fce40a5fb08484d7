"""How a search spends its budget: decided from public numbers, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dperm.accounting import Accountant, Budget, FitCost, Neighbours, PrivacyLedger, ScheduledBudget
from dperm.accounting.events import RandomTrialsRelease
from dperm.accounting.ledger.cost import Cost, largest_epsilon
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.random_trials import (
    TruncatedNegativeBinomial,
    profile_cost,
    profile_mu,
    renyi_cost,
    renyi_rho,
)
from dperm.accounting.units import UNITS_PER_ONE, budget_units, units_as_float

METHODS = ("auto", "all_candidates", "random_trials")

# With geometrically many trials, 9 (k - 1) on average, each of k candidates is tried with probability 0.9.
_TRIALS_PER_OTHER_CANDIDATE = 9
_UP = 1.0 + 1e-11


@dataclass(frozen=True)
class SearchPlan:
    """What the parts of a search may cost, in units of mu^2 or rho.

    Attributes
    ----------
    fit : int
        Of one fit on the training part.
    choice : int
        Of the choice on the validation part; of the score of one trial.
    refit : int
        Of the last fit, on all records; 0 for none.
    accountant : Accountant
        What the units count.
    budget : Budget or ScheduledBudget
        What the whole search is charged.
    law : TruncatedNegativeBinomial, optional
        Of the number of trials; None where every candidate is tried.
    slack : float
        In delta, of one fit, beside its units.
    """

    fit: int
    choice: int
    refit: int
    accountant: Accountant
    budget: Budget | ScheduledBudget
    law: TruncatedNegativeBinomial | None = None
    slack: float = 0.0

    @property
    def method(self) -> str:
        """Its name."""
        return "all_candidates" if self.law is None else "random_trials"


@dataclass(frozen=True)
class SearchTerms:
    """Public numbers that a plan is made of."""

    candidates: int
    epsilon: float
    delta: float
    refit_share: float
    neighbors: Neighbours
    ledger: PrivacyLedger | None
    method: str = "auto"

    @property
    def accountant(self) -> Accountant:
        """What is counted: what the ledger counts, else mu^2."""
        return Accountant.GDP if self.ledger is None else self.ledger.accountant


def search_plan(method: str, terms: SearchTerms) -> SearchPlan:
    """The plan by that name; of "auto" the one whose fits get more, as far as the ledger can pay it."""
    every = _all_candidates(terms)
    if method == "all_candidates" or (method == "auto" and terms.candidates == 1):
        return every
    if terms.candidates == 1:
        raise ValueError("method='random_trials' needs at least two candidates")
    trials = _random_trials(terms)
    if method == "random_trials":
        return trials
    return trials if trials.fit > every.fit and _can_be_paid(trials, terms) else every


def plan_with_slack(terms: SearchTerms) -> SearchPlan:
    """A plan for fits with secret batches: each costs mu^2, and an equal part of some slack in delta.

    The slack is a tenth of delta at most, and an eighth of what a ledger has left: see `Ledger`.

    Raises
    ------
    ValueError
        Where there is none: for random trials, without a slack in the ledger, or where it counts rho.
    """
    if terms.method == "random_trials" or terms.accountant is not Accountant.GDP:
        instead = (
            "a ledger that counts mu^2" if terms.accountant is Accountant.ZCDP else "method='all_candidates'"
        )
        raise ValueError(
            "a candidate's fit has secret batches, whose cost is mu^2 and a slack in delta: that takes "
            f"{instead}, or solvers with full-batch Gaussian noise such as 'noisy_gd'"
        )
    return _all_candidates(terms, _granted_slack(terms))


def _granted_slack(terms: SearchTerms) -> float:
    slack = 0.1 * terms.delta if terms.ledger is None or terms.ledger.caps.slack else 0.0
    if slack and terms.ledger is not None:
        granted: list[float] = []

        def cost(own: float) -> FitCost:
            granted.append(own)
            return FitCost(0.0, own)

        def charge(ledger: PrivacyLedger) -> None:
            ledger.charge(epsilon=terms.epsilon, delta=terms.delta, neighbors=terms.neighbors, cost=cost)

        terms.ledger.cost_of(charge)
        slack = min([slack, *granted]) if granted else 0.0
    if slack == 0.0:
        raise ValueError(
            "a candidate's fit has secret batches, whose cost has a slack in delta, and the ledger has none "
            "left (Ledger: slack): use a solver with full-batch Gaussian noise, such as 'noisy_gd'"
        )
    return slack


def _all_candidates(terms: SearchTerms, slack: float = 0.0) -> SearchPlan:
    """Every candidate once. Fits and choice read different parts of the records: they cost the larger."""
    total = _units(terms.epsilon, terms.delta - slack, terms.accountant)
    refit = math.floor(total * Fraction(terms.refit_share))
    search = total - refit
    budget = Budget(total, terms.accountant, slack=slack or None)
    own = slack / (terms.candidates + (refit > 0)) * (1.0 - 1e-9)
    return SearchPlan(search // terms.candidates, search, refit, terms.accountant, budget, slack=own)


def _random_trials(terms: SearchTerms) -> SearchPlan:
    """A random number of candidates, drawn uniformly, of which the best is returned."""
    law = TruncatedNegativeBinomial(1.0, 1.0 / (_TRIALS_PER_OTHER_CANDIDATE * (terms.candidates - 1)))
    # With a last fit: epsilons and deltas add up
    epsilon = terms.epsilon * (1.0 - terms.refit_share)
    delta = terms.delta if terms.refit_share == 0.0 else terms.delta / 2.0
    gaussian = terms.accountant is Accountant.GDP
    if gaussian:
        amount = Fraction(profile_mu(law, epsilon, delta)) ** 2
    else:
        amount = Fraction(renyi_rho(law, epsilon, delta))
    trial, refit = math.floor(amount * UNITS_PER_ONE), 0
    if terms.refit_share > 0.0:
        refit = _units(terms.epsilon - epsilon, terms.delta - delta, terms.accountant)
    event = RandomTrialsRelease(law.eta, law.gamma, trial)
    cost = _cost(law, trial, refit, terms) if terms.ledger is not None and terms.ledger.caps.pure else None
    budget = ScheduledBudget(event, 1, "privacy_profile" if gaussian else "rdp", cost)
    return SearchPlan(trial, trial, refit, terms.accountant, budget, law)


def _units(epsilon: float, delta: float, accountant: Accountant) -> int:
    units = budget_units(epsilon, delta, accountant)
    assert isinstance(units, int), "epsilon is finite"
    return units


def _cost(
    law: TruncatedNegativeBinomial, trial: int, refit: int, terms: SearchTerms
) -> Callable[[float], FitCost] | FitCost:
    """What a ledger with a column for pure epsilons is charged: less than it all."""
    assert terms.ledger is not None
    amount, last = units_as_float(trial) * _UP, units_as_float(refit) * _UP
    if terms.accountant is Accountant.ZCDP:
        own = renyi_cost(law, amount)
        return FitCost(math.hypot(own.mu, math.sqrt(2.0 * last)) * _UP, own.slack, own.epsilon)
    of_trials = profile_cost(law, math.sqrt(amount) * _UP, terms.ledger.caps)

    def cost(slack: float) -> FitCost:
        own = of_trials(slack)
        return FitCost(math.hypot(own.mu, math.sqrt(last)) * _UP, own.slack, own.epsilon)

    return cost


def _can_be_paid(plan: SearchPlan, terms: SearchTerms) -> bool:
    ledger = terms.ledger
    if ledger is None:
        return True
    cost = plan.budget.cost if isinstance(plan.budget, ScheduledBudget) else None
    if cost is None:
        return False

    def charge(ledger: PrivacyLedger) -> None:
        ledger.charge(epsilon=terms.epsilon, delta=terms.delta, neighbors=terms.neighbors, cost=cost)

    return ledger.affords(ledger.cost_of(charge))


class NotAdditive(ValueError):
    """The cost of a fit is more than mu^2 or rho and the slack that it may have."""


def affordable(
    price: Callable[[float], LedgerEntry], caps: Cost, delta: float, accountant: Accountant
) -> LedgerEntry:
    """The charge of a fit that costs at most so much.

    Raises
    ------
    NotAdditive
        If the fit is accounted in another way.
    """
    assert isinstance(caps.units, int)
    epsilon = largest_epsilon(caps.units, delta, accountant)
    for _ in range(20):
        entry = price(epsilon)
        if entry.cost.within(caps):
            return entry
        cost = entry.cost.units
        if entry.cost.slack > caps.slack or entry.cost.pure or cost == math.inf:
            break
        if accountant is Accountant.ZCDP and entry.accountant == Accountant.GDP:
            epsilon = min(0.999 * epsilon, largest_epsilon(2 * caps.units, delta, Accountant.GDP))
        else:
            epsilon *= math.sqrt(caps.units / cost) * (1.0 - (1e-3 if entry.cost.slack else 1e-6))
    raise NotAdditive(
        f"a candidate's fit is accounted by {entry.accountant!r}, and its cost at epsilon={epsilon:.3g} is "
        "not one of mu^2 or rho: use a solver with full-batch Gaussian noise, such as 'noisy_gd' or "
        "'preconditioned_gd'"
    )
