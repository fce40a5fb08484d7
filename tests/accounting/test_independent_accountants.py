"""Epsilon of sampled steps against the accountants of other packages, dp-accounting on 200 settings."""

import itertools
import math

import pytest

from accounting.dp_accounting_losses import composed_losses
from dperm.accounting import noise_multiplier, sgd_epsilon
from dperm.accounting.subsampling import first_guess, make_plan

pytestmark = pytest.mark.slow

RATES = (1e-3, 1e-2, 0.1, 0.5)
STEPS = (1, 10, 100, 1000, 5000)
TARGETS = (0.1, 0.5, 1.0, 3.0, 8.0)
DELTAS = (1e-5, 1e-8)
GRID = list(itertools.product(RATES, STEPS, TARGETS, DELTAS))


@pytest.fixture(scope="module")
def dp_accounting():
    return pytest.importorskip("dp_accounting")


def event_epsilon(dp, accountant, q, multiplier, steps, delta):
    event = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(multiplier))
    accountant.compose(dp.SelfComposedDpEvent(event, steps))
    return accountant.get_epsilon(delta)


def test_the_grid_has_200_settings():
    assert len(GRID) == 200


@pytest.mark.parametrize("q", RATES)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("steps", STEPS)
def test_between_the_lower_bound_and_the_tightest_upper_bound(dp_accounting, q, steps, delta):
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    n_samples = 10**6
    for target in TARGETS:
        settings = {"batch_size": q * n_samples, "n_samples": n_samples, "steps": steps}
        plan = make_plan(sampling="poisson", neighbors="add_or_remove", **settings)
        multiplier = max(0.4, first_guess(plan, target, delta))
        ours = sgd_epsilon(multiplier, delta, **settings)
        rdp = event_epsilon(dp_accounting, RdpAccountant(), q, multiplier, steps, delta)
        accountant = PLDAccountant(value_discretization_interval=max(2e-4, ours / 2e3))
        pld = event_epsilon(dp_accounting, accountant, q, multiplier, steps, delta)
        assert ours <= 1.01 * min(rdp, pld) + 1e-12
        assert sgd_epsilon(multiplier, delta, accountant="rdp", **settings) <= 1.01 * rdp
        step = max(1e-4, ours / 2e3)
        lower = composed_losses(multiplier, q, steps, step, lower=True).get_epsilon_for_delta(delta)
        assert ours >= lower * (1 - 1e-6)
        # rounding down loses at most one grid step per composition
        assert ours <= 1.01 * lower + steps * step or math.isinf(lower)


@pytest.mark.parametrize("q", [1e-3, 0.05])
@pytest.mark.parametrize("multiplier", [0.8, 3.0])
@pytest.mark.parametrize("steps", [50, 2000])
def test_replace_one_is_above_the_explicit_pair(q, multiplier, steps):
    # the pair "mixture against one Gaussian" is one pair of neighbours, so it is a lower bound
    settings = {"n_samples": 1000, "steps": steps, "batch_size": q * 1000}
    explicit, added = (sgd_epsilon(z, 1e-6, **settings) for z in (multiplier / 2, multiplier))
    poisson, replaced = (
        sgd_epsilon(multiplier, 1e-6, sampling=sampling, neighbors="replace_one", **settings)
        for sampling in ("poisson", "without_replacement")
    )
    assert explicit <= replaced * (1 + 1e-3)
    assert added < poisson < replaced


def test_noise_is_that_of_an_independent_calibration(dp_accounting):
    from dp_accounting.pld import PLDAccountant

    def make_event(multiplier):
        event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(multiplier))
        return dp_accounting.SelfComposedDpEvent(event, 500)

    def fine_accountant():
        return PLDAccountant(value_discretization_interval=1e-4)

    theirs = dp_accounting.calibrate_dp_mechanism(fine_accountant, make_event, 1.0, 1e-6, tol=1e-5)
    ours = noise_multiplier(1.0, 1e-6, batch_size=10, n_samples=1000, steps=500)
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("q", [1e-3, 0.01, 0.1])
@pytest.mark.parametrize("steps", [100, 2000])
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_within_the_certified_interval_of_the_prv_accountant(q, steps, delta):
    dpsgd = pytest.importorskip("prv_accountant.dpsgd")
    settings = {"batch_size": q * 10**6, "n_samples": 10**6, "steps": steps}
    plan = make_plan(sampling="poisson", neighbors="add_or_remove", **settings)
    multiplier = max(0.5, first_guess(plan, 1.0, delta))
    theirs = dpsgd.DPSGDAccountant(
        noise_multiplier=multiplier,
        sampling_probability=q,
        eps_error=0.01,
        delta_error=delta / 1000,
        max_steps=steps,
    )
    low, _, high = theirs.compute_epsilon(delta=delta, num_steps=steps)
    assert low <= sgd_epsilon(multiplier, delta, **settings) <= 1.01 * high


@pytest.mark.parametrize(
    ("q", "multiplier", "steps", "delta"),
    [(0.01, 1.0, 1000, 1e-5), (0.00256, 1.5117, 19550, 1e-5), (0.05, 4.0, 500, 1e-6), (0.2, 5.0, 50, 1e-8)],
)
def test_moments_accountant_is_that_of_autodp(q, multiplier, steps, delta):
    """autodp converts Renyi divergences as the moments accountant does, over all orders."""
    rdp_acct = pytest.importorskip("autodp.rdp_acct")
    from autodp import rdp_bank

    accountant = rdp_acct.anaRDPacct()
    accountant.compose_poisson_subsampled_mechanisms(
        lambda order: rdp_bank.RDP_gaussian({"sigma": multiplier}, order), q, coeff=steps
    )
    theirs = accountant.get_eps(delta)
    settings = {"batch_size": q * 10**6, "n_samples": 10**6, "steps": steps}
    moments = sgd_epsilon(multiplier, delta, accountant="moments", max_moment=128, **settings)
    assert moments == pytest.approx(theirs, rel=0.01)
    assert sgd_epsilon(multiplier, delta, accountant="rdp", **settings) <= theirs
    assert sgd_epsilon(multiplier, delta, **settings) <= theirs
