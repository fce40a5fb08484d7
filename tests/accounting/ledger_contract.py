"""Tests that every kind of ledger must pass, as a base class."""

import copy
import dataclasses
import math
import pickle
from abc import ABC, abstractmethod
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from dperm.accounting.units import budget_units
from dperm.errors import BudgetExceededError, PrivacyWarning


class ChargingEstimator(BaseEstimator):
    """The smallest estimator that a grid search accepts."""

    def __init__(self, epsilon=0.1, delta=1e-6, ledger=None):
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger

    def fit(self, X, y):
        self.ledger.charge(epsilon=self.epsilon, delta=self.delta, description="fit")
        return self

    def score(self, X, y):
        return 0.0


class LedgerContract(ABC):
    @abstractmethod
    def make(self, epsilon, delta, accountant="gdp", *, name="data", **terms):
        """A new, unused ledger."""

    @pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.01, 1e-12), (30.0, 1e-3)])
    def test_a_fit_of_the_same_size_fits_exactly_once(self, accountant, epsilon, delta):
        ledger = self.make(epsilon, delta, accountant)
        assert (ledger.spent, ledger.remaining) == (0.0, epsilon)
        entry = ledger.charge(epsilon=epsilon, delta=delta)
        assert entry.cost_units >= ledger.caps.units == ledger.charged.units
        assert (ledger.spent, ledger.remaining) == (epsilon, 0.0)
        with pytest.raises(BudgetExceededError):
            ledger.charge(epsilon=epsilon / 1000, delta=delta)
        assert len(ledger.history()) == 1

    def test_two_halves_in_mu_squared(self):
        ledger = self.make(3.0, 1e-6)
        ledger.charge(epsilon=1.0, delta=1e-6)
        assert ledger.spent == 1.0
        ledger.charge(epsilon=1.0, delta=1e-6)
        assert 1.0 < ledger.spent < 2.0  # better than adding epsilons
        assert ledger.charged.units == 2 * budget_units(1.0, 1e-6)

    # Both ledgers run the same test.
    @settings(max_examples=40, suppress_health_check=[HealthCheck.differing_executors])
    @given(
        st.floats(-1, 1).map(lambda x: 10.0**x),
        st.lists(st.floats(0.001, 0.9), min_size=1, max_size=5),
        st.sampled_from(["gdp", "zcdp"]),
    )
    def test_what_remains_can_be_charged(self, epsilon, fractions, accountant):
        ledger = self.make(epsilon, 1e-6, accountant)
        for fraction in fractions:
            if ledger.remaining > 0.01 * epsilon:
                ledger.charge(epsilon=fraction * ledger.remaining, delta=1e-6)
                assert ledger.spent <= epsilon
                assert ledger.charged.units <= ledger.caps.units
        remaining = ledger.remaining
        if remaining > 0.01 * epsilon:
            ledger.charge(epsilon=remaining, delta=1e-6)
        assert ledger.spent <= epsilon
        used_up = ledger.charged.units == pytest.approx(ledger.caps.units, rel=1e-6)
        assert used_up or remaining <= 0.01 * epsilon

    def test_a_charge_that_does_not_fit_changes_nothing_and_says_so(self):
        ledger = self.make(1.0, 1e-6, name="adult")
        ledger.charge(epsilon=0.8, delta=1e-6)
        before = (ledger.spent, ledger.remaining, ledger.history())
        with pytest.raises(
            BudgetExceededError, match=r"ledger 'adult'.*total 1, spent 0.8.*requested 0.9"
        ) as caught:
            ledger.charge(epsilon=0.9, delta=1e-6)
        assert (ledger.spent, ledger.remaining, ledger.history()) == before
        error = pickle.loads(pickle.dumps(caught.value))
        assert (error.total, error.spent, error.requested, str(error)) == (1.0, 0.8, 0.9, str(caught.value))

    def test_other_delta_is_charged_what_the_fit_really_used(self):
        ledger = self.make(1.0, 1e-6)
        entry = ledger.charge(epsilon=0.5, delta=1e-9)
        assert entry.cost_units == budget_units(0.5, 1e-9) < budget_units(0.5, 1e-6)
        assert ledger.spent < 0.5

    def test_gdp_ledger_refuses_a_zcdp_fit_and_says_what_to_do(self):
        ledger = self.make(1.0, 1e-6)
        with pytest.raises(ValueError, match=r'accountant="gdp", or open the ledger with accountant="zcdp"'):
            ledger.charge(epsilon=0.1, delta=1e-6, accountant="zcdp")
        assert ledger.history() == []

    def test_zcdp_ledger_takes_a_gdp_fit_at_half_its_mu_squared(self):
        ledger = self.make(1.0, 1e-6, "zcdp")
        entry = ledger.charge(epsilon=0.5, delta=1e-6, accountant="gdp")
        assert entry.cost_units == math.ceil(Fraction(budget_units(0.5, 1e-6, "gdp"), 2))
        assert entry.cost_units > budget_units(0.5, 1e-6, "zcdp")

    @pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
    def test_pure_fits(self, accountant):
        ledger = self.make(1.0, 1e-6, accountant)
        ledger.charge(epsilon=0.01, delta=0.0)
        ledger.charge(epsilon=0.01, delta=0.0, accountant="pure")
        assert 0.0 < ledger.spent < 0.1
        assert [entry.accountant for entry in ledger.history()] == ["pure", "pure"]
        with pytest.raises(ValueError, match="needs delta=0"):
            ledger.charge(epsilon=0.01, delta=1e-6, accountant="pure")
        # alone, a pure fit keeps its own epsilon although its mu is worth more
        alone = self.make(1.0, 1e-6, accountant)
        alone.charge(epsilon=1.0, delta=0)
        assert (alone.spent, alone.remaining) == (1.0, 0.0)

    def test_a_guarantee_that_does_not_add_up_takes_a_whole_unused_ledger(self):
        ledger = self.make(2.0, 1e-6)
        with pytest.warns(PrivacyWarning, match=r"takes the whole ledger.*nothing remains"):
            ledger.charge(epsilon=1.5, delta=1e-7, accountant="pld")
        assert (ledger.spent, ledger.remaining) == (1.5, 0.0)

        used = self.make(2.0, 1e-6)
        used.charge(epsilon=0.1, delta=1e-6)
        with pytest.raises(BudgetExceededError, match=r"'pld'.*ledger of its own"):
            used.charge(epsilon=0.1, delta=1e-7, accountant="pld")
        for epsilon, delta in [(2.1, 1e-7), (0.1, 1e-5)]:
            with pytest.raises(BudgetExceededError, match="ledger of its own"):
                self.make(2.0, 1e-6).charge(epsilon=epsilon, delta=delta, accountant="pld")

    def test_non_private_fits_only_in_an_unlimited_ledger(self):
        with pytest.raises(BudgetExceededError):
            self.make(100.0, 1e-6).charge(epsilon=math.inf, delta=1e-6)
        ledger = self.make(math.inf, 1e-6)
        ledger.charge(epsilon=math.inf, delta=1e-6)
        assert (ledger.spent, ledger.remaining) == (math.inf, math.inf)

    def test_history_is_immutable(self):
        facts = {"steps": [1, 2]}
        ledger = self.make(1.0, 1e-6)
        entry = ledger.charge(epsilon=0.1, delta=1e-6, description="first", statement=facts)
        facts["steps"].append(3)
        assert ledger.history() == [entry]
        assert entry.statement["steps"] == [1, 2]
        assert (entry.description, entry.epsilon, entry.delta) == ("first", 0.1, 1e-6)
        assert entry.when.tzinfo is not None
        with pytest.raises(dataclasses.FrozenInstanceError):
            entry.cost_units = 0
        with pytest.raises(TypeError):
            entry.statement["steps"] = []
        ledger.history().clear()
        assert len(ledger.history()) == 1
        assert pickle.loads(pickle.dumps(entry)) == entry

    def test_copies_are_the_same_ledger(self):
        ledger = self.make(1.0, 1e-6)
        assert copy.copy(ledger) is copy.deepcopy(ledger) is clone(ledger) is ledger
        assert copy.deepcopy({"a": [ledger]})["a"][0] is ledger
        assert clone(ChargingEstimator(ledger=ledger)).ledger is ledger

    def test_grid_search_charges_every_fit(self):
        ledger = self.make(3.0, 1e-6)
        search = GridSearchCV(ChargingEstimator(ledger=ledger), {"epsilon": [0.1, 0.2]}, cv=3, refit=False)
        search.fit([[0.0]] * 6, [0, 1] * 3)
        assert sorted(entry.epsilon for entry in ledger.history()) == [0.1] * 3 + [0.2] * 3

    def test_grid_search_in_threads_charges_every_fit(self):
        from joblib import parallel_backend

        ledger = self.make(3.0, 1e-6)
        search = GridSearchCV(ChargingEstimator(ledger=ledger), {"epsilon": [0.1, 0.2]}, cv=3, n_jobs=2)
        with parallel_backend("threading"):
            search.fit([[0.0]] * 6, [0, 1] * 3)
        assert len(ledger.history()) == 7

    def test_bad_charges_change_nothing(self):
        ledger = self.make(1.0, 1e-6)
        for bad in [
            *({"epsilon": epsilon} for epsilon in (0.0, -1.0, math.nan, 10**400, Fraction(1, 10**400))),
            *({"epsilon": epsilon} for epsilon in ("0.1", None, True, Decimal("0.1"))),
            *({"delta": delta} for delta in (1.5, False, "0", Fraction(1, 10**400))),
            {"accountant": 3},
            {"description": b"fit"},
            {"description": "\ud800"},
            {"statement": ["a"]},
            {"statement": "a"},
        ]:
            (name,) = bad
            with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
                ledger.charge(**({"epsilon": 0.1, "delta": 1e-6} | bad))
        assert ledger.history() == []
