import contextlib
import os
import pickle
import time

import pytest

from accounting.ledger_contract import ChargingEstimator, LedgerContract
from dperm.accounting import Ledger
from dperm.accounting.ledger.ledger import check_ledger
from dperm.accounting.units import budget_units
from dperm.errors import BudgetExceededError
from reference.threads import in_threads


class TestLedger(LedgerContract):
    def make(self, epsilon, delta, accountant="gdp", *, name="data", **terms):
        return Ledger(epsilon, delta, accountant, name=name, **terms)


def test_pickling_says_why_not():
    with pytest.raises(TypeError, match=r"cannot be pickled.*durable ledger"):
        pickle.dumps(ChargingEstimator(ledger=Ledger(1.0, 1e-6)))


def test_a_forked_process_cannot_charge(monkeypatch):
    ledger = Ledger(1.0, 1e-6)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked process"):
        ledger.charge(epsilon=0.1, delta=1e-6)
    assert ledger.history() == []


class SlowSum(Ledger):
    """Slow sums, which let other threads run between the check and the entry."""

    def _account(self):
        account = super()._account()
        time.sleep(1e-3)
        return account


def test_threads_never_overspend():
    ledger = SlowSum(1.0, 1e-6)
    unit = budget_units(0.2, 1e-6)
    possible = ledger.caps.units // unit
    accepted = []

    def hammer(_):
        for _ in range(5):
            with contextlib.suppress(BudgetExceededError):
                accepted.append(ledger.charge(epsilon=0.2, delta=1e-6))

    in_threads(hammer, 8)
    assert len(accepted) == len(ledger.history()) == possible
    assert ledger.charged.units <= ledger.caps.units


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 1e-6), "epsilon must be > 0"),
        ((1.0, 0.0), "delta must be > 0.*pure"),
        ((1.0, 1e-6, "rdp"), "accountant must be 'gdp' or 'zcdp'"),
    ],
)
def test_bad_ledgers(arguments, words):
    with pytest.raises(ValueError, match=words):
        Ledger(*arguments)


@pytest.mark.parametrize("other", ["x", None, Ledger, 3])
def test_only_a_ledger_is_taken_for_one(other):
    with pytest.raises(TypeError, match=r"ledger must be a dperm\.accounting\.Ledger"):
        check_ledger(other)
    ledger = Ledger(1.0, 1e-6)
    assert check_ledger(ledger) is ledger


def test_repr():
    ledger = Ledger(3.0, 1e-6, name="adult")
    ledger.charge(epsilon=1.0, delta=1e-6)
    assert repr(ledger) == (
        "Ledger('adult', epsilon=3, delta=1e-06, accountant='gdp', neighbors='add_or_remove': spent=1, "
        "left=2, charges=1)"
    )
