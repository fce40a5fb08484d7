"""How a search spends its budget: a function of public numbers alone, before any randomness is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dperm.accounting import PrivacyLedger
from dperm.accounting.budget import Budget, ScheduledBudget
from dperm.accounting.events import RandomTrialsRelease
from dperm.accounting.ledger.cost import Cost, FitCost, largest_epsilon
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.random_trials import (
    TruncatedNegativeBinomial,
    profile_cost,
    profile_mu,
    renyi_cost,
    renyi_rho,
)
from dperm.accounting.units import UNITS_PER_ONE, Accountant, budget_units, units_as_float

METHODS = ("auto", "all_candidates", "random_trials")

# With a geometric number of trials of mean 9 (k - 1), each of k candidates is tried with probability 0.9.
_TRIALS_PER_OTHER_CANDIDATE = 9
_UP = 1.0 + 1e-11


@dataclass(frozen=True)
class SearchPlan:
    """What the parts of a search may cost, in units of mu^2 or rho.

    Attributes
    ----------
    fit : int
        One fit on the training part.
    choice : int
        The selection on the validation part, or the score of one trial.
    refit : int
        The final fit on all records; 0 for none.
    accountant : Accountant
        The measure that the units count.
    budget : Budget or ScheduledBudget
        The charge for the whole search.
    law : TruncatedNegativeBinomial, optional
        Distribution of the number of trials; None if every candidate is tried.
    slack : float
        Slack in delta of one fit, in addition to its units.
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
        """Name of the method."""
        return "all_candidates" if self.law is None else "random_trials"


@dataclass(frozen=True)
class SearchTerms:
    """The public numbers that determine a plan."""

    candidates: int
    epsilon: float
    delta: float
    refit_share: float
    neighbors: Neighbours
    ledger: PrivacyLedger | None
    method: str = "auto"

    @property
    def accountant(self) -> Accountant:
        """The accountant of the ledger, or mu^2 without one."""
        return Accountant.GDP if self.ledger is None else self.ledger.accountant


def search_plan(method: str, terms: SearchTerms) -> SearchPlan:
    """The plan for the method; for "auto", the affordable one with more budget for each fit."""
    every = _all_candidates(terms)
    if method == "all_candidates" or (method == "auto" and terms.candidates == 1):
        return every
    if terms.candidates == 1:
        raise ValueError("method='random_trials' needs at least two candidates")
    trials = _random_trials(terms)
    if method == "random_trials":
        return trials
    return trials if trials.fit > every.fit and _is_affordable(trials, terms) else every


def plan_with_slack(terms: SearchTerms) -> SearchPlan:
    """A plan for fits with secret batches: each costs mu^2 and an equal share of a slack in delta.

    The slack is at most a tenth of delta, and at most an eighth of what the ledger has left: see `Ledger`.

    Raises
    ------
    ValueError
        For random trials, for a ledger that counts rho, or if the ledger has no slack left.
    """
    if terms.method == "random_trials" or terms.accountant is not Accountant.GDP:
        instead = (
            "a ledger that counts mu^2" if terms.accountant is Accountant.ZCDP else "method='all_candidates'"
        )
        raise ValueError(
            "a candidate's fit has secret batches, whose cost is mu^2 and a slack in delta: that needs "
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

        _priced(terms.ledger, terms, cost)
        slack = min([slack, *granted]) if granted else 0.0
    if slack == 0.0:
        raise ValueError(
            "a candidate's fit has secret batches, whose cost has a slack in delta, and the ledger has none "
            "left (Ledger: slack): use a solver with full-batch Gaussian noise, such as 'noisy_gd'"
        )
    return slack


def _all_candidates(terms: SearchTerms, slack: float = 0.0) -> SearchPlan:
    """Every candidate once. Fits and selection read disjoint records: together they cost the maximum."""
    total = _units(terms.epsilon, terms.delta - slack, terms.accountant)
    refit = math.floor(total * Fraction(terms.refit_share))
    search = total - refit
    budget = Budget(total, terms.accountant, slack=slack or None)
    own = slack / (terms.candidates + (refit > 0)) * (1.0 - 1e-9)
    return SearchPlan(search // terms.candidates, search, refit, terms.accountant, budget, slack=own)


def _random_trials(terms: SearchTerms) -> SearchPlan:
    """A random number of uniformly drawn candidates, of which the best is returned."""
    law = TruncatedNegativeBinomial(1.0, 1.0 / (_TRIALS_PER_OTHER_CANDIDATE * (terms.candidates - 1)))
    # With a final fit, epsilons and deltas add up.
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
    """The charge to a ledger that also accounts for pure epsilon: less than all of it."""
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


def _is_affordable(plan: SearchPlan, terms: SearchTerms) -> bool:
    ledger = terms.ledger
    if ledger is None:
        return True
    cost = plan.budget.cost if isinstance(plan.budget, ScheduledBudget) else None
    return cost is not None and ledger.affords(_priced(ledger, terms, cost))


def _priced(
    ledger: PrivacyLedger, terms: SearchTerms, cost: Callable[[float], FitCost] | FitCost
) -> LedgerEntry:
    """What the ledger would be charged for a search of this cost."""
    own = {"epsilon": terms.epsilon, "delta": terms.delta, "neighbors": terms.neighbors, "cost": cost}
    return ledger.cost_of(lambda ledger: ledger.charge(**own))


class NotAdditive(ValueError):
    """The cost of a fit is not just mu^2 or rho and the slack that it may have."""


def affordable(
    price: Callable[[float], LedgerEntry], caps: Cost, delta: float, accountant: Accountant
) -> LedgerEntry:
    """The charge of a fit with the largest epsilon whose cost stays within `caps`.

    Raises
    ------
    NotAdditive
        If the fit is accounted for in another way.
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
        "'whitened_gd'"
    )
