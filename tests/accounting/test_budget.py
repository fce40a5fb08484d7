import math
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dperm.accounting import gaussian_sigma, gdp_mu, zcdp_rho
from dperm.accounting.budget import Budget
from dperm.accounting.events import ExponentialMechanismRelease, GaussianRelease, PureRelease
from dperm.accounting.selection import bounded_range_mu
from dperm.accounting.units import (
    UNITS_PER_ONE,
    budget_units,
    gaussian_noise_multiplier,
    pure_epsilon,
    selection_eta,
)
from dperm.errors import BudgetExceededError
from reference.threads import in_threads

ACCOUNTANTS = ["gdp", "zcdp"]
EVENTS = [GaussianRelease(3.0), ExponentialMechanismRelease(0.01), PureRelease(0.01), GaussianRelease(0.0)]
some_units = st.integers(1, 2**70)


def test_budget_is_the_calibrated_amount_rounded_down():
    assert budget_units(1, 1e-5, "gdp") == math.floor(Fraction(gdp_mu(1, 1e-5)) ** 2 * UNITS_PER_ONE)
    assert budget_units(1, 1e-5, "zcdp") == math.floor(Fraction(zcdp_rho(1, 1e-5)) * UNITS_PER_ONE)


def test_costs_are_the_amounts_rounded_up():
    assert GaussianRelease(2.0).cost_units("gdp") == UNITS_PER_ONE // 4
    assert GaussianRelease(2.0).cost_units("zcdp") == UNITS_PER_ONE // 8
    assert GaussianRelease(3.0).cost_units("gdp") == -(-UNITS_PER_ONE // 9)
    assert GaussianRelease(1e30).cost_units("gdp") == 1
    assert GaussianRelease(math.inf).cost_units("gdp") == 0
    assert ExponentialMechanismRelease(1.0).cost("zcdp") == pytest.approx(1 / 8)
    assert ExponentialMechanismRelease(1.0).cost("gdp") == pytest.approx(bounded_range_mu(1.0) ** 2)
    assert PureRelease(1.0).cost("zcdp") == pytest.approx(1 / 2)
    assert PureRelease(1.0).cost("gdp") == pytest.approx(bounded_range_mu(2.0) ** 2)
    for accountant in ACCOUNTANTS:
        for event in (GaussianRelease(0.0), PureRelease(math.inf)):
            assert event.cost_units(accountant) == math.inf


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_spending_n_times_is_n_spends(event, accountant):
    total = math.inf if event == GaussianRelease(0.0) else 10 * UNITS_PER_ONE
    once, one_by_one = Budget(total, accountant), Budget(total, accountant)
    once.spend(event, count=7)
    for _ in range(7):
        one_by_one.spend(event)
    assert once.spent_units == one_by_one.spent_units == 7 * event.cost_units(accountant)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@given(units=some_units)
def test_noise_costs_what_it_may_and_hardly_less(accountant, units):
    multiplier = gaussian_noise_multiplier(units, accountant)
    assert GaussianRelease(multiplier).cost_units(accountant) <= units
    assert GaussianRelease(multiplier * (1 - 1e-12)).cost(accountant) * UNITS_PER_ONE > units


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@given(units=some_units)
def test_selection_costs_what_it_may_and_hardly_less(accountant, units):
    eta = selection_eta(units, accountant)
    assert ExponentialMechanismRelease(eta).cost_units(accountant) <= units
    assert ExponentialMechanismRelease(eta * (1 + 1e-10)).cost(accountant) * UNITS_PER_ONE > units
    assert PureRelease(pure_epsilon(units, accountant)).cost_units(accountant) <= units


def test_one_release_of_the_whole_budget_is_the_calibrated_gaussian():
    units = Budget.from_epsilon(1, 1e-5).share(1)
    assert gaussian_noise_multiplier(units) == pytest.approx(gaussian_sigma(1, 1e-5), rel=1e-10)
    shared = Budget.from_epsilon(1, 1e-5).share(100)
    assert gaussian_noise_multiplier(shared) == pytest.approx(10 * gaussian_sigma(1, 1e-5), rel=1e-10)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_one_unit_too_much_is_refused_and_changes_nothing(accountant):
    budget = Budget(1000, accountant)
    budget.spend(400)
    assert not budget.fits(601)
    with pytest.raises(BudgetExceededError, match=r"total .*spent .*left .*requested .*Nothing was charged"):
        budget.spend(601)
    assert (budget.spent_units, budget.remaining_units) == (400, 600)
    assert budget.fits(600)
    budget.spend(600)
    assert budget.remaining_units == 0
    assert not budget.fits(1)
    assert budget.fits(0)


@given(st.integers(1, 2**64), st.lists(st.integers(0, 2**62), max_size=30))
def test_never_over_the_total(total, costs):
    budget = Budget(total)
    accepted = 0
    for cost in costs:
        fits = budget.fits(cost)
        try:
            budget.spend(cost)
            accepted += cost
        except BudgetExceededError:
            assert not fits
        else:
            assert fits
        assert budget.spent_units == accepted <= total


@given(st.integers(1, 10**6), st.floats(0.01, 1.0))
def test_shares_fit_exactly(parts, fraction):
    budget = Budget.from_epsilon(0.7, 1e-7, "zcdp")
    units = budget.share(parts, fraction)
    assert parts * units <= fraction * budget.total_units
    assert parts * (units + 1) > Fraction(fraction) * budget.total_units
    budget.spend(units, count=parts)
    if fraction == 1.0:
        assert budget.remaining_units < parts


def test_share_divides_what_remains():
    budget = Budget(1000)
    budget.spend(400)
    assert budget.share(3) == 200
    assert budget.share(3, 0.5) == 100


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_no_privacy_is_unlimited_and_needs_no_noise(delta):
    budget = Budget.from_epsilon(math.inf, delta)
    budget.spend(GaussianRelease(0.0), count=3)
    units = budget.share(10)
    assert budget.remaining_units == math.inf
    assert gaussian_noise_multiplier(units, "zcdp") == 0.0
    assert selection_eta(units) == math.inf
    with pytest.raises(BudgetExceededError):
        Budget.from_epsilon(100.0, 1e-6).spend(GaussianRelease(0.0))


def test_no_floating_point_drift():
    # a float sum of a million costs would be off by thousands of units
    budget = Budget(10**6 * 7)
    for _ in range(10**4):
        budget.spend(7, count=100)
    assert budget.remaining_units == 0


class SlowCost(int):
    """Slow addition, which lets other threads run between the check and the spending."""

    def __radd__(self, other):
        time.sleep(1e-5)
        return other + int(self)


def test_threads_never_overspend():
    budget = Budget(500)
    budget._units = lambda cost, count: SlowCost(cost)
    accepted = []

    def hammer(_):
        count = 0
        for _ in range(150):
            try:
                budget.spend(1)
                count += 1
            except BudgetExceededError:
                pass
        accepted.append(count)

    in_threads(hammer, 8)
    assert sum(accepted) == budget.spent_units == 500


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Budget.from_epsilon(1.0, 0.0), ValueError, "delta must be > 0"),
        (lambda: Budget.from_epsilon(math.inf, 1.0), ValueError, "delta must be"),
        (lambda: Budget.from_epsilon(0.0, 1e-6), ValueError, "epsilon must be > 0"),
        (lambda: Budget.from_epsilon(1e-12, 1e-300), ValueError, "too small to count"),
        (
            lambda: Budget.from_epsilon(1.0, 1e-6, "pld"),
            ValueError,
            "accountant must be 'gdp' or 'zcdp', got 'pld'",
        ),
        (lambda: Budget(1.5), TypeError, "integer number of units"),
        (lambda: Budget(-1), ValueError, "at least 0"),
        (lambda: Budget(10).share(11), ValueError, "split into too many parts"),
        (lambda: Budget(10).share(0), ValueError, "parts must be an integer >= 1"),
        (lambda: Budget(10).share(1, 1.5), ValueError, "fraction must be a number in"),
        (lambda: Budget(10).spend(-1), ValueError, "at least 0"),
        (lambda: Budget(10).spend(0.5), TypeError, "integer number of units"),
        (lambda: Budget(10).spend(1, count=-1), ValueError, "count must be an integer >= 0"),
        (lambda: gaussian_noise_multiplier(0), ValueError, "at least 1"),
        (lambda: GaussianRelease(-1.0), ValueError, "noise_multiplier must be a number >= 0"),
        (lambda: ExponentialMechanismRelease(math.nan), ValueError, "eta must be a number >= 0"),
    ],
)
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_repr_shows_amounts():
    assert repr(Budget(UNITS_PER_ONE, "zcdp")) == "Budget(accountant='zcdp', rho: total=1, spent=0)"
