import math

import pytest

from dperm.accounting import (
    RDP_ORDERS,
    UNITS_PER_ONE,
    RenyiBudget,
    planned_renyi_order,
    poisson_rdp,
    rdp_to_epsilon,
    renyi_budget_units,
    sampled_gaussian_noise_multiplier,
    sampled_gaussian_units,
    sampled_selection_epsilon,
    sampled_selection_eta,
    sampled_selection_units,
    units_as_float,
    zcdp_rho_bun_steinke,
)
from dperm.errors import BudgetExceededError


def test_selection_vectors():
    assert sampled_selection_epsilon(1.0, 0.01) == pytest.approx(0.01703686324, rel=1e-9)
    assert sampled_selection_epsilon(0.1, 0.0102) == pytest.approx(0.001072168386, rel=1e-9)


def test_gradient_noise_of_equal_shares():
    """60 gradients with half the budget: sampling lowers sigma/C from about 816 to about 7.5."""
    assert math.sqrt(60.0 / zcdp_rho_bun_steinke(0.1, 1e-12)) == pytest.approx(816.0, rel=2e-3)
    order = planned_renyi_order(0.1, 1e-12, 0.0102, 60, fraction=0.5)
    units = RenyiBudget.from_epsilon(0.1, 1e-12, order).share(60, 0.5)
    noise = sampled_gaussian_noise_multiplier(units, 0.0102, order)
    assert noise == pytest.approx(7.5, rel=5e-3)


def test_planned_order_is_best():
    order = planned_renyi_order(1.0, 1e-6, 0.05, 100)

    def noise(a):
        return sampled_gaussian_noise_multiplier(RenyiBudget.from_epsilon(1.0, 1e-6, a).share(100), 0.05, a)

    place = RDP_ORDERS.index(order)
    assert all(noise(order) <= noise(RDP_ORDERS[place + offset]) for offset in (-3, -1, 1, 3))


@pytest.mark.parametrize("order", [8.0, 32.0, 256.0])
def test_budget_is_what_the_conversion_allows(order):
    units = renyi_budget_units(2.0, 1e-6, order)
    epsilon, _ = rdp_to_epsilon([order], [units_as_float(units)], 1e-6)
    assert epsilon == pytest.approx(2.0, rel=1e-12)
    assert rdp_to_epsilon([order], [units_as_float(units) * (1 - 1e-12)], 1e-6)[0] <= 2.0


@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_noise_costs_at_most_the_units(neighbors, rate):
    units = 2**50
    noise = sampled_gaussian_noise_multiplier(units, rate, 16.0, neighbors)
    assert sampled_gaussian_units(noise, rate, 16.0, neighbors) <= units
    assert sampled_gaussian_units(noise * (1.0 - 1e-8), rate, 16.0, neighbors) > units


def test_units_round_the_divergence_up():
    divergence = poisson_rdp(0.01, 0.5, (8.0,))[0]
    assert sampled_gaussian_units(2.0, 0.01, 8.0) == math.ceil(divergence * UNITS_PER_ONE)
    full = 8.0 / 2.0 * 0.25 * UNITS_PER_ONE
    assert full <= sampled_gaussian_units(2.0, 1.0, 8.0) <= full * (1.0 + 1e-11)


@pytest.mark.parametrize("units", [1, 2**30, 2**50, 2**58, 2**70, 2**71])
def test_selection_eta_costs_at_most_the_units(units):
    eta = sampled_selection_eta(units, 0.01, 32.0)
    assert sampled_selection_units(eta, 0.01, 32.0) <= units
    assert sampled_selection_units(eta * (1.0 + 1e-9) + 1e-7, 0.01, 32.0) > units


def test_filter_stops_before_the_budget_is_exceeded():
    budget = RenyiBudget(100, 16.0)
    budget.spend(30, count=3)
    assert (budget.spent_units, budget.remaining_units, budget.total_units) == (90, 10, 100)
    assert budget.fits(10)
    assert not budget.fits(11)
    with pytest.raises(BudgetExceededError, match="order 16"):
        budget.spend(11)
    assert budget.spent_units == 90
    assert budget.order == 16.0
    assert "order=16" in repr(budget)


def test_unlimited_budget():
    budget = RenyiBudget.from_epsilon(math.inf, 1e-6, 8.0)
    assert budget.share(10) == math.inf
    assert sampled_gaussian_noise_multiplier(math.inf, 0.1, 8.0) == 0.0
    assert sampled_selection_eta(math.inf, 0.1, 8.0) == math.inf
    assert sampled_selection_units(math.inf, 0.1, 8.0) == math.inf


def test_refusals():
    with pytest.raises(ValueError, match="order"):
        RenyiBudget(100, 1.0)
    with pytest.raises(ValueError, match="larger order"):
        renyi_budget_units(0.1, 1e-12, 4.0)
    with pytest.raises(ValueError, match="no order"):
        planned_renyi_order(1e-3, 1e-300, 0.01, 10)
