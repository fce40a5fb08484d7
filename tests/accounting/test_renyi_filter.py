"""The Renyi filter for sampled accesses: costs against explicit pairs, caps, and the charge to a ledger."""

import math

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from dperm.accounting import gaussian_delta
from dperm.accounting.events import ExponentialMechanismRelease, GaussianRelease, PureRelease
from dperm.accounting.rdp import poisson_rdp, rdp_to_epsilon
from dperm.accounting.renyi_filter import RenyiFilter, divergence_cap, sampled_plan, sampled_rdp
from dperm.errors import BudgetExceededError

ORDERS = (1.1, 1.5, 2.0, 8.0, 64.0)


def test_without_sampling_a_gaussian_costs_what_it_does():
    found = sampled_rdp(GaussianRelease(2.0), 1.0, ORDERS)
    np.testing.assert_allclose(found, [order / 8.0 for order in ORDERS], rtol=1e-9)


def divergence(log_p, log_q, order):
    return logsumexp(order * log_p + (1.0 - order) * log_q) / (order - 1.0)


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("eta", [1e-3, 0.3, 2.0])
def test_no_selection_is_found_that_costs_more(rate, eta):
    """Exponential mechanisms on four candidates whose scores a record moves by up to eta."""
    rng = np.random.default_rng(0)
    largest = np.zeros(len(ORDERS))
    bounds = np.array(sampled_rdp(ExponentialMechanismRelease(eta), rate, ORDERS))
    for trial in range(150):
        base = -rng.exponential(3.0, 4) * (trial % 4)
        moved = base - eta * (rng.random(4) if trial % 2 else rng.integers(0, 2, 4))
        without, present = log_softmax(base), log_softmax(moved)
        mixed = logsumexp([without, present], axis=0, b=[[1.0 - rate], [rate]])
        pairs = (mixed, without), (without, mixed)
        both = [[divergence(*pair, order) for order in ORDERS] for pair in pairs]
        assert (np.max(both, axis=0) <= bounds * (1.0 + 1e-9) + 1e-13).all()
        largest = np.maximum(largest, np.max(both, axis=0))
    if rate == 1.0:
        assert (largest > 0.5 * bounds).all()  # the search finds something


@pytest.mark.parametrize(("epsilon", "delta", "order"), [(1.0, 1e-6, 20.0), (0.1, 1e-9, 300.0)])
def test_the_cap_is_the_inverse_of_the_conversion(epsilon, delta, order):
    cap = divergence_cap(epsilon, delta, order)
    assert rdp_to_epsilon([order], [cap], delta)[0] == pytest.approx(epsilon, rel=1e-12)


def test_caps_hold_at_every_order_and_a_refusal_changes_nothing():
    event, before = GaussianRelease(3.0), GaussianRelease(20.0)
    cost = dict(zip(ORDERS, sampled_rdp(event, 0.1, ORDERS), strict=True))
    caps = {order: 100.0 * each + order / 800.0 + 1e-9 for order, each in cost.items()}
    for tight in ORDERS:  # each in turn allows 10 accesses alone
        budget = RenyiFilter(caps | {tight: 10.5 * cost[tight] + tight / 800.0}, 0.1, [before])
        start = budget.spent_units
        budget.spend(before)
        assert budget.spent_units == start > 0  # counted from the start, once
        budget.spend(event, count=9)
        assert budget.fits(event)
        assert not budget.fits(event, event)
        left = budget.spent_units
        with pytest.raises(BudgetExceededError):
            budget.spend(event, count=2)
        assert budget.spent_units == left
        budget.spend(event)
        with pytest.raises(BudgetExceededError):
            budget.spend(before, count=10**4)
    with pytest.raises(TypeError, match="no cost"):
        budget.spend(PureRelease(1.0))


def test_the_plan_fits_and_no_more():
    plan, budget = sampled_plan(1.0, 1e-6, 0.05, 50, 0.2)
    events = (
        GaussianRelease(plan.noise_multiplier(plan.gradient)),
        ExponentialMechanismRelease(plan.eta(plan.selection)),
    )
    for _ in range(50):
        assert budget.fits(*events)
        for event in events:
            budget.spend(event)
    assert not budget.fits(events[0])
    free, unlimited = sampled_plan(math.inf, 1e-6, 0.05, 50, 0.2)
    assert (free.noise_multiplier(free.gradient), free.eta(free.selection)) == (0.0, math.inf)
    unlimited.spend(GaussianRelease(0.0))


def test_there_is_a_plan_for_every_claim():
    for epsilon, delta in [(1e-4, 1e-9), (0.01, 1e-9), (0.1, 0.4), (100.0, 1e-3)]:
        plan, _ = sampled_plan(epsilon, delta, 0.05, 50, 0.2)
        assert 0.0 < plan.noise_multiplier(plan.gradient) < 10.0 * math.log(1.0 / delta) / epsilon + 10.0


@pytest.mark.parametrize(("epsilon", "rate"), [(1.0, 0.05), (0.3, 0.5), (4.0, 0.01)])
def test_the_cost_to_a_ledger_covers_what_the_caps_allow(epsilon, rate):
    """Under all caps the profile is below that of the Gaussian mechanism plus slack, at every epsilon."""
    _, budget = sampled_plan(epsilon, 1e-6, rate, 100, 0.1)
    cost = budget.cost(5e-7)
    caps = [cap / 2.0**60 for cap in budget._caps]
    for delta in np.logspace(-7, -1, 30):
        at, _ = rdp_to_epsilon(budget.orders, caps, delta)  # the profile there is at most delta
        if at > 0.0:
            covered = gaussian_delta(at, 1.0 / cost.mu) + 5e-7
            assert covered >= min(delta, math.sqrt(min(caps) / 2.0)) * (1.0 - 1e-9)
    assert cost.mu < 3.0 * math.sqrt(2.0 * min(caps))  # and not far above


def test_sampled_gaussians_cost_what_the_accountant_says():
    found = sampled_rdp(GaussianRelease(1.5), 0.02, ORDERS)
    np.testing.assert_allclose(found, poisson_rdp(0.02, 1.0 / 1.5, ORDERS), rtol=1e-9)
