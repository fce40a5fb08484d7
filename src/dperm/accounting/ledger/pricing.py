"""Pricing: converts the guarantee of a fit into a cost in the columns of a ledger."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dperm.accounting.ledger.account import Account
from dperm.accounting.ledger.cost import INFINITE, Cost, FitCost, pure_cost, slack_as_float
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant, budget_units
from dperm.errors import PrivacyWarning, warn_caller

# No accountant is evaluated for a smaller slack.
_LEAST_SLACK = 1e-100


@dataclass(frozen=True)
class Request:
    """Arguments of a charge; `PrivacyLedger.charge` documents them."""

    epsilon: float
    delta: float
    accountant: str
    neighbors: Neighbours
    cost: FitCost | Callable[[float], FitCost] | None


def price(request: Request, account: Account, part: str) -> Cost:
    """Cost of a fit on a part of the records; infinite if it does not compose with others.

    Raises
    ------
    ValueError
        If the fit's relation or accountant has no cost in this ledger.
    """
    kind, terms = request.accountant, account.terms
    if request.epsilon == math.inf:
        return INFINITE
    replacing = request.neighbors is not terms.neighbors
    if replacing and terms.neighbors is Neighbours.ADD_OR_REMOVE:
        raise ValueError(
            "This ledger is for neighbors='add_or_remove', which hides the number of records, and the fit is "
            "for neighbors='replace_one', which does not: give the fit neighbors='add_or_remove', or the "
            "data set a ledger of the other relation."
        )
    if request.cost is not None:
        cost = _given_cost(request.cost, terms.accountant, account.room(part))
    elif kind == "pure":
        if request.delta != 0.0:
            raise ValueError(f'accountant="pure" needs delta=0, got delta={request.delta!r}.')
        cost = pure_cost(request.epsilon, terms.accountant, account.caps, account.room(part))
    elif kind == Accountant.ZCDP and terms.accountant is Accountant.GDP:
        raise ValueError(
            'This ledger counts with accountant="gdp" and the fit has only a zCDP cost, which cannot be '
            'converted. Where the fit has these arguments, give it calibration="tight" and '
            'accountant="gdp", or open the ledger with accountant="zcdp".'
        )
    elif kind in tuple(Accountant):
        units = budget_units(request.epsilon, request.delta, kind)
        # mu-GDP implies (mu^2/2)-zCDP: half the units, rounded up
        cost = Cost(units if kind == terms.accountant else -(-units // 2))
    else:
        return INFINITE
    return cost.for_replacing() if replacing else cost


def _given_cost(given: FitCost | Callable[[float], FitCost], accountant: Accountant, room: Cost) -> Cost:
    if callable(given):
        # An eighth of what is left, so that it never runs out; mu grows only with its logarithm.
        granted = slack_as_float(room.slack) / 8.0
        if not granted > _LEAST_SLACK:
            return INFINITE
        given = given(min(granted, 0.5))
    return given.counted(accountant)


def advice_on(entry: LedgerEntry, account: Account) -> str:
    """Advice on a fit that needs a whole, unused ledger and has none; empty for other fits."""
    accountant = str(account.terms.accountant)
    alike = entry.accountant == accountant
    if (
        entry.cost.within(account.caps)
        or entry.epsilon == math.inf
        or (alike and entry.epsilon > account.epsilon)
    ):
        return ""
    instead = (
        "ask for a smaller epsilon or a larger delta"
        if alike
        else f"use an algorithm that is accounted with {accountant!r}"
    )
    return (
        f"A guarantee of this size by accountant {entry.accountant!r} does not add up with others here, so "
        "it takes a whole, unused ledger of at least its own epsilon and delta: give the fit a ledger of its "
        f"own, or {instead}."
    )


def warn_of_the_last(entry: LedgerEntry, account: Account) -> None:
    """Warn of a fit that is about to take a whole ledger of a larger epsilon than its own."""
    whole = account.fits(entry) and account.counted(entry) != entry.cost
    if whole and entry.epsilon < account.epsilon:
        warn_caller(
            f"This fit of epsilon={entry.epsilon:g}, delta={entry.delta:g} takes the whole ledger "
            f"(epsilon={account.epsilon:g}, delta={account.terms.delta:g}): its guarantee by "
            f"{entry.accountant!r} does not add up with others here, and nothing remains after it.",
            PrivacyWarning,
        )
