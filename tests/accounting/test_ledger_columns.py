"""The columns of a ledger (mu^2 or rho, slack, pure epsilon) and its single neighbouring relation."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtri

from dperm.accounting import Ledger, gaussian_delta, gdp_mu, open_ledger
from dperm.accounting.approximate_gdp import approximate_gdp
from dperm.accounting.ledger.cost import INFINITE, Cost, FitCost, caps_of, epsilon_of, slack_units
from dperm.accounting.units import Accountant, budget_units
from dperm.errors import BudgetExceededError, PrivacyWarning

DELTA = 1e-6


@cache
def sampled(slack):
    """Cost of a run of private gradient descent with secret batches."""
    mu = approximate_gdp(2.0, slack, batch_size=10, n_samples=1000, steps=100)
    return FitCost(mu=mu, slack=slack)


class TestCaps:
    @given(
        st.floats(0.05, 20.0),
        st.floats(3.0, 12.0).map(lambda x: 10.0**-x),
        st.floats(0.0, 0.5),
        st.floats(0.0, 0.5),
    )
    def test_full_use_is_what_was_promised(self, epsilon, delta, slack_share, pure_share):
        slack, pure = slack_share * delta, pure_share * epsilon
        caps = caps_of(epsilon, delta, Accountant.GDP, slack, pure)
        mu = math.sqrt(caps.units / 2**60)
        total = gaussian_delta(epsilon - pure, 1.0 / mu) + slack
        assert total <= delta * (1 + 1e-9)
        assert total == pytest.approx(delta, rel=1e-6)
        assert epsilon_of(caps, delta, Accountant.GDP) == pytest.approx(epsilon, rel=1e-9)

    def test_randomised_response_beside_a_gaussian(self):
        """Exactly 3.776e-5 at epsilon = 1; the bound is 6.862e-5."""
        p = 1.0 / (1.0 + math.exp(-0.2))
        mu, epsilon = 0.25, 1.0
        exact = p * gaussian_delta(epsilon - 0.2, 1 / mu) + (1 - p) * gaussian_delta(epsilon + 0.2, 1 / mu)
        bound = gaussian_delta(epsilon - 0.2, 1 / mu)
        assert (exact, bound) == (pytest.approx(3.776e-5, rel=1e-3), pytest.approx(6.862e-5, rel=1e-3))

    @pytest.mark.parametrize(
        ("terms", "words"),
        [
            ({"slack": 1e-6}, "slack must be a number from 0 to below delta"),
            ({"slack": -1e-9}, "slack must be"),
            ({"pure": 1.0}, "pure must be a number from 0 to below epsilon"),
            ({"ceiling": 0.5}, "ceiling must be at least epsilon = 1"),
            ({"neighbors": "both"}, "neighbors must be"),
        ],
    )
    def test_terms_out_of_range(self, terms, words):
        with pytest.raises(ValueError, match=words):
            Ledger(1.0, DELTA, **terms)
        with pytest.raises(TypeError, match="allow_seeded"):
            Ledger(1.0, DELTA, allow_seeded="yes")

    def test_terms_survive(self, make):
        terms = {"neighbors": "replace_one", "slack": 2e-8, "pure": 0.1, "ceiling": 2.0, "allow_seeded": True}
        make(1.0, DELTA, **terms)
        ledger = make(1.0, DELTA, **terms)
        assert {name: getattr(ledger._terms, name) for name in terms} == terms
        assert ledger.caps == caps_of(1.0, DELTA, Accountant.GDP, 2e-8, 0.1)


class TestSlack:
    def test_runs_with_secret_batches_add_up(self, make):
        ledger = make(1.0, DELTA)
        costs = [
            ledger.charge(epsilon=0.4, delta=DELTA, accountant="pld", cost=sampled).cost for _ in range(2)
        ]
        granted = [1e-7 / 8, (1e-7 - 1e-7 / 8) / 8]  # an eighth of what is left
        assert [cost.slack for cost in costs] == pytest.approx([slack_units(g, up=True) for g in granted])
        assert ledger.charged == costs[0] + costs[1]
        assert 0.0 < ledger.spent < 1.0
        assert ledger.remaining > 0.0
        ledger.charge(epsilon=ledger.remaining, delta=DELTA)

    def test_a_zcdp_ledger_counts_half_of_mu_squared(self, make):
        ledger = make(1.0, DELTA, "zcdp")
        ledger.charge(epsilon=0.4, delta=DELTA, accountant="pld", cost=FitCost(mu=0.125, slack=1e-9))
        assert ledger.charged.units == 2**60 // 128

    def test_without_slack_such_a_fit_takes_the_whole_ledger(self, make):
        ledger = make(1.0, DELTA, slack=0.0)
        assert ledger.caps.units == budget_units(1.0, DELTA)
        with pytest.warns(PrivacyWarning, match="takes the whole ledger"):
            ledger.charge(epsilon=0.4, delta=DELTA, accountant="pld", cost=sampled)
        assert ledger.remaining == 0.0

    def test_slack_never_runs_out_but_units_do(self):
        ledger = Ledger(1.0, DELTA)
        for _ in range(1000):
            try:
                ledger.charge(epsilon=0.4, delta=DELTA, cost=lambda slack: FitCost(mu=0.02, slack=slack))
            except BudgetExceededError:
                break
        assert ledger.charged.within(ledger.caps)
        assert ledger.remaining < 0.2


class TestPure:
    def test_the_cheaper_column_that_has_room(self, make):
        ledger = make(1.0, DELTA, pure=0.2)
        small, large = (ledger.charge(epsilon=epsilon, delta=0.0).cost for epsilon in (0.01, 0.15))
        assert (small.pure, large.units) == (0, 0)
        assert large.pure == math.ceil(0.15 * 2**60)
        third = ledger.charge(epsilon=0.06, delta=0.0).cost  # what is left of the other column is too little
        assert third.pure == 0
        assert ledger.spent <= 1.0

    def test_the_total_bounds_pure_and_gaussian_fits_together(self):
        """Randomised responses and a Gaussian release, composed exactly, against the ledger's epsilon."""
        ledger = Ledger(1.0, DELTA, pure=0.3, slack=0.0)
        for _ in range(2):
            ledger.charge(epsilon=0.15, delta=0.0)
        ledger.charge(epsilon=0.5, delta=DELTA)
        mu, spent = gdp_mu(0.5, DELTA), ledger.spent
        p = 1.0 / (1.0 + math.exp(-0.15))
        exact = 0.0
        for ones in range(3):
            weight = math.comb(2, ones) * p**ones * (1 - p) ** (2 - ones)
            exact += weight * gaussian_delta(max(spent - 0.15 * (2 * ones - 2), 0.0), 1.0 / mu)
        assert exact <= DELTA


class TestOneRelation:
    def test_an_add_or_remove_ledger_takes_no_replace_one(self, make):
        ledger = make(1.0, DELTA)
        with pytest.raises(ValueError, match=r"add_or_remove.*hides the number of records"):
            ledger.charge(epsilon=0.1, delta=DELTA, neighbors="replace_one")
        assert ledger.history() == []

    def test_a_replace_one_ledger_takes_add_or_remove_at_twice_its_mu(self, make):
        ledger = make(1.0, DELTA, neighbors="replace_one", pure=0.5)
        plain = ledger.charge(epsilon=0.1, delta=DELTA)
        converted = ledger.charge(epsilon=0.1, delta=DELTA, neighbors="add_or_remove")
        assert converted.cost == Cost(units=4 * plain.cost.units)
        pure = ledger.charge(epsilon=0.1, delta=0.0, neighbors="add_or_remove")
        assert pure.cost.pure in (0, 2 * math.ceil(0.1 * 2**60))
        with pytest.raises(ValueError, match=r"slack.*replace_one"):
            ledger.charge(epsilon=0.1, delta=DELTA, neighbors="add_or_remove", cost=FitCost(0.1, 1e-9))

    def test_a_converted_guarantee_never_takes_the_whole_ledger(self, make):
        ledger = make(1.0, DELTA, neighbors="replace_one")
        with pytest.raises(BudgetExceededError):
            ledger.charge(epsilon=1.0, delta=DELTA, neighbors="add_or_remove")
        ledger.charge(epsilon=0.4, delta=DELTA, neighbors="add_or_remove")
        assert 0.4 < ledger.spent <= 1.0


def test_seeded_fits_are_refused(make):
    with pytest.raises(ValueError, match=r"random_state=None only.*cancels"):
        make(1.0, DELTA).charge(epsilon=0.1, delta=DELTA, seeded=True)
    Ledger(1.0, DELTA, allow_seeded=True).charge(epsilon=0.1, delta=DELTA, seeded=True)
    Ledger(math.inf, DELTA).charge(epsilon=0.1, delta=DELTA, seeded=True)


class TestPrices:
    def test_a_price_is_what_is_charged(self, make):
        ledger = make(1.0, DELTA)

        def fit(epsilon, *, ledger):
            ledger.charge(epsilon=epsilon, delta=DELTA, accountant="pld", cost=sampled)
            raise AssertionError("the fit continues after its price is known")

        priced = ledger.cost_of(fit, 0.4)
        assert ledger.history() == []
        assert ledger.affords(priced)
        assert ledger.charge(epsilon=0.4, delta=DELTA, accountant="pld", cost=sampled).cost == priced.cost

    def test_what_cannot_be_paid_has_a_price_too(self, make):
        ledger = make(1.0, DELTA)
        ledger.charge(epsilon=0.9, delta=DELTA)
        entry = ledger.cost_of(lambda ledger: ledger.charge(epsilon=0.9, delta=DELTA))
        assert not ledger.affords(entry)

    def test_a_fit_without_a_charge(self, make):
        with pytest.raises(ValueError, match="without a charge"):
            make(1.0, DELTA).cost_of(lambda ledger: None)


class TestLife:
    def test_extend_up_to_the_ceiling(self, make):
        ledger = make(1.0, DELTA, ceiling=2.0)
        ledger.charge(epsilon=1.0, delta=DELTA)
        with pytest.raises(BudgetExceededError):
            ledger.charge(epsilon=0.5, delta=DELTA)
        ledger.extend(2.0)
        assert (ledger.epsilon, ledger.ceiling) == (2.0, 2.0)
        assert ledger.caps == caps_of(2.0, DELTA, Accountant.GDP, 1e-7, 0.0)
        ledger.charge(epsilon=0.5, delta=DELTA)
        assert [entry.kind for entry in ledger.history()] == ["charge", "extend", "charge"]
        for epsilon in (2.0, 2.5):
            with pytest.raises(ValueError, match="at most the ceiling 2"):
                ledger.extend(epsilon)

    def test_an_extension_counts_what_took_the_whole_ledger_for_what_it_costs(self, make):
        """With all of delta it costs more than the cap, for which a tenth of delta is reserved as slack."""
        ledger = make(1.0, DELTA, ceiling=2.0)
        own = ledger.charge(epsilon=1.0, delta=DELTA).cost
        assert own.units == budget_units(1.0, DELTA) > ledger.caps.units == ledger.charged.units
        ledger.extend(2.0)
        assert ledger.charged == own
        assert ledger.spent <= 1.0

    @pytest.mark.parametrize("part", [False, True])
    def test_no_extension_after_a_fit_that_adds_up_with_nothing(self, make, part):
        """An (epsilon, delta) guarantee does not bound the profile with which further fits would compose."""
        ledger = make(1.0, DELTA, ceiling=2.0)
        seen = ledger.split({"train": 0.5})["train"] if part else ledger
        seen.charge(epsilon=1.0, delta=DELTA, accountant="pld")
        with pytest.raises(ValueError, match="does not add up"):
            ledger.extend(2.0)
        assert ledger.epsilon == 1.0

    def test_no_extension_without_a_ceiling(self, make):
        with pytest.raises(ValueError, match="at most the ceiling 1"):
            make(1.0, DELTA).extend(1.5)

    def test_close(self, make):
        ledger = make(1.0, DELTA, ceiling=2.0)
        ledger.charge(epsilon=0.1, delta=DELTA)
        ledger.close()
        assert ledger.remaining == 0.0
        with pytest.raises(BudgetExceededError, match="was closed"):
            ledger.charge(epsilon=0.1, delta=DELTA)
        for again in (ledger.close, lambda: ledger.extend(2.0)):
            with pytest.raises(ValueError, match="closed"):
                again()

    def test_a_whole_charge_is_priced_again_when_the_total_was_extended_meanwhile(self, path):
        first = open_ledger(path, "data", 1.0, DELTA, ceiling=2.0)
        second = open_ledger(path, "data")
        second.extend(2.0)
        with pytest.warns(PrivacyWarning, match="takes the whole ledger"):
            entry = first.charge(epsilon=1.0, delta=DELTA, accountant="pld")
        assert entry.cost == INFINITE
        assert first.charged == first.caps == caps_of(2.0, DELTA, Accountant.GDP, 1e-7, 0.0)
        assert second.remaining == 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta", "e0"), [(1.0, 1e-8, 0.045), (1.0, 1e-6, 0.064), (3.0, 1e-6, 0.156)]
)
def test_units_are_cheaper_for_small_pure_fits(epsilon, delta, e0):
    """At e0 both columns cost the same epsilon of the total."""
    pure_mu = 2.0 * ndtri(expit(e0))
    left = math.sqrt(gdp_mu(epsilon, delta) ** 2 - pure_mu**2)
    assert left == pytest.approx(gdp_mu(epsilon - e0, delta), rel=2e-3)


def test_costs_are_exact_integers():
    a, b = Cost(2**1000, 3, 5), Cost(1, 2**700, 7)
    assert (a + b) - b == a
    assert a | b == Cost(2**1000, 2**700, 7)
    assert Cost(math.inf, 0, 0) + Cost(2**1100) == Cost(math.inf, 0, 0)
    assert np.all([isinstance(column, int) for column in (a + b).columns])
