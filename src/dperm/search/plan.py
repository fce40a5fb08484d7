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
    """

    fit: int
    choice: int
    refit: int
    accountant: Accountant
    budget: Budget | ScheduledBudget
    law: TruncatedNegativeBinomial | None = None

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


def _all_candidates(terms: SearchTerms) -> SearchPlan:
    """Every candidate once. Fits and choice read different parts of the records: they cost the larger."""
    total = _units(terms.epsilon, terms.delta, terms.accountant)
    refit = math.floor(total * Fraction(terms.refit_share))
    search = total - refit
    budget = Budget(total, terms.accountant)
    return SearchPlan(search // terms.candidates, search, refit, terms.accountant, budget)


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


def affordable(
    price: Callable[[float], LedgerEntry], units: int, delta: float, accountant: Accountant
) -> LedgerEntry:
    """The charge of a fit that costs at most so much.

    Raises
    ------
    ValueError
        If the fit is accounted in another way.
    """
    epsilon = largest_epsilon(units, delta, accountant)
    for _ in range(20):
        entry = price(epsilon)
        if entry.cost.within(Cost(units)):
            return entry
        cost = entry.cost.units
        if entry.cost.slack or entry.cost.pure or cost == math.inf:
            break
        if accountant is Accountant.ZCDP and entry.accountant == Accountant.GDP:
            epsilon = min(0.999 * epsilon, largest_epsilon(2 * units, delta, Accountant.GDP))
        else:
            epsilon *= math.sqrt(units / cost) * (1.0 - 1e-6)
    raise ValueError(
        f"a candidate's fit is accounted by {entry.accountant!r}, and its cost is not one of mu^2 or rho "
        "alone: use a solver with full-batch Gaussian noise, such as 'noisy_gd' or 'preconditioned_gd'"
    )
