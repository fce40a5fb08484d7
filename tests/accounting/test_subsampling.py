import math
import os
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import norm

from accounting.dp_accounting_losses import composed_losses
from dperm.accounting import gaussian_delta, gaussian_sigma, gdp_epsilon, noise_multiplier, sgd_epsilon
from dperm.accounting.pld import profiles as profiles_of
from dperm.accounting.pld import refinement
from dperm.accounting.rdp import poisson_rdp, rdp_to_epsilon, symmetric_rdp
from dperm.accounting.subsampling import sgd_delta

VECTOR = 1e-9
PLD_VECTOR = 1e-3
WOR = {"sampling": "without_replacement", "neighbors": "replace_one"}
ORDERS = tuple(float(a) for a in (*range(2, 65), 80, 96, 128, 160, 192, 256))


def at(profile, epsilon):
    return float(profile(np.array([float(epsilon)]))[0])


def sampled(q, mu, epsilon):
    return at(profiles_of.sampled_profile(q, mu), epsilon)


def replaced(q, mu, epsilon):
    return at(profiles_of.replaced_poisson_profile(q, mu), epsilon)


def poisson(q, mu, order):
    return poisson_rdp(q, mu, (order,))[0]


def symmetric(q, mu, order):
    return symmetric_rdp(q, mu, (order,))[0]


@pytest.mark.parametrize(
    ("compute", "q", "mu", "epsilon_or_order", "value"),
    [
        (sampled, 0.01, 1, 0.1, 7.290037696e-5),
        (sampled, 0.00256, 0.5, 0.01, 5.333636604e-7),
        (sampled, 0.1, 0.5, 0.5, 8.449708149e-7),
        (sampled, 1e-4, 0.25, 1e-4, 2.928766173e-8),
        (sampled, 1e-3, 2 / 1.4, 0, 5.249494759e-4),
        (sampled, 1e-3, 2 / 1.4, 0.01, 7.508615766e-5),
        (sampled, 1e-3, 2 / 1.4, 0.1, 1.705717321e-6),
        (sampled, 1e-3, 2 / 1.4, 1, 7.707722661e-10),
        (replaced, 0.01, 1, 0.1, 3.161696975e-4),
        (replaced, 0.1, 0.5, 0.5, 4.482335871e-4),
        (replaced, 0.00256, 0.5, 0.01, 2.544847963e-5),
        (poisson, 0.01, 1, 8, 8.936439076e-4),
        (poisson, 0.00256, 1 / 0.9, 4, 3.268300786e-5),
        (poisson, 0.00256, 1 / 24.343, 64, 3.542945055e-7),
        (poisson, 0.1, 1 / 2, 16, 0.04529183908),
        (symmetric, 0.01, 1, 4, 5.678626598e-4),
        (symmetric, 0.00256, 0.5, 16, 2.061254549e-5),
        (symmetric, 0.00256, 1 / 24.343, 64, 3.657749647e-7),
        (symmetric, 0.1, 0.5, 8, 0.01579296639),
        (symmetric, 1e-3, 2 / 1.4, 2, 1.223016301e-5),
        (symmetric, 1e-3, 2 / 1.4, 4, 2.474197024e-5),
        (symmetric, 1e-3, 2 / 1.4, 8, 0.2895955747),
    ],
)
def test_vectors_of_one_step(compute, q, mu, epsilon_or_order, value):
    assert compute(q, mu, epsilon_or_order) == pytest.approx(value, rel=VECTOR)


@pytest.mark.parametrize(
    ("rdp", "q", "mu", "steps", "delta", "epsilon", "order"),
    [
        (poisson_rdp, 0.01, 1, 1000, 1e-5, 2.107753075, 8),
        (poisson_rdp, 0.00256, 1 / 1.5117, 19550, 1e-5, 1.094364546, 16),
        (poisson_rdp, 0.05, 1 / 4, 500, 1e-6, 1.345177494, 17),
        (symmetric_rdp, 0.00256, 0.2, 19550, 1e-5, 0.2862577307, 51),
        (symmetric_rdp, 0.001, 0.25, 10**6, 1e-5, 1.136057248, 16),
        (symmetric_rdp, 0.05, 0.25, 500, 1e-6, 1.438753305, 16),
    ],
)
def test_vectors_of_composed_divergences(rdp, q, mu, steps, delta, epsilon, order):
    costs = [steps * cost for cost in rdp(q, mu, ORDERS)]
    assert rdp_to_epsilon(ORDERS, costs, delta) == pytest.approx((epsilon, order), rel=VECTOR)


MOMENTS = {"accountant": "moments"}


@pytest.mark.parametrize(
    ("settings", "batch_size", "n_samples", "multiplier", "steps", "delta", "epsilon", "digits"),
    [
        ({}, 10**4, 10**6, 1, 1000, 1e-5, 1.8282, PLD_VECTOR),
        ({}, 2560, 10**6, 1.5117, 19550, 1e-5, 0.9997, PLD_VECTOR),
        ({}, 50_000, 10**6, 4, 500, 1e-6, 1.2452, PLD_VECTOR),
        ({}, 2560, 10**6, 11.2153, 19550, 1e-5, 0.0983, PLD_VECTOR),
        (WOR, 128, 50000, 2 / 0.2, 19550, 1e-5, 0.25925, PLD_VECTOR),
        (WOR, 1, 1000, 2 / 0.25, 10**6, 1e-5, 1.0405, PLD_VECTOR),
        (WOR, 5, 100, 2 / 0.25, 500, 1e-6, 1.33575, PLD_VECTOR),
        (WOR, 128, 50000, 2 * 24.34317409, 19550, 1e-5, 0.042522, PLD_VECTOR),
        (WOR, 1, 1000, 1.4, 1000, 1e-6, 0.99620, PLD_VECTOR),
        (WOR, 64, 10**4, 2 * 1.0543, 156, 1e-8, 0.99986, PLD_VECTOR),
        (MOMENTS, 5200, 10**6, 4, 1, 1e-8, 0.5756753564, VECTOR),
        (MOMENTS, 10**4, 10**6, 1, 1000, 1e-5, 2.538347545, VECTOR),
        (MOMENTS, 5200, 10**6, 4, 1000, 1e-8, 0.6047294106, VECTOR),
        (MOMENTS, 2560, 10**6, 1.1, 19550, 1e-5, 2.085505456, VECTOR),
    ],
)
def test_vectors_of_epsilon(settings, batch_size, n_samples, multiplier, steps, delta, epsilon, digits):
    run = {"batch_size": batch_size, "n_samples": n_samples, "steps": steps, **settings}
    assert sgd_epsilon(multiplier, delta, **run) == pytest.approx(epsilon, rel=digits)


@pytest.mark.parametrize(("q", "mu", "epsilon"), [(0.1, 1.0, 0.05), (0.01, 0.5, 0.003), (0.5, 2.0, 0.6)])
def test_both_poisson_directions_against_integrals(q, mu, epsilon):
    def mixture(t):
        return (1 - q) * mp.npdf(t) + q * mp.npdf(t - mu)

    factor = mp.exp(epsilon)
    switch = mp.log((mp.exp(-epsilon) - (1 - q)) / q) / mu + mu / 2
    add = mp.quad(lambda t: mp.npdf(t) - factor * mixture(t), [-40, -10, -3, switch])
    assert at(profiles_of.reversed_sampled_profile(q, mu), epsilon) == pytest.approx(float(add), rel=VECTOR)
    switch = mp.log((factor - (1 - q)) / q) / mu + mu / 2
    remove = mp.quad(
        lambda t: mixture(t) - factor * mp.npdf(t), [switch, switch + 3, switch + 10, switch + 40]
    )
    assert at(profiles_of.sampled_profile(q, mu), epsilon) == pytest.approx(float(remove), rel=VECTOR)


@pytest.mark.parametrize("q", [1e-6, 1e-3, 0.3, 1.0])
@pytest.mark.parametrize("mu", [1e-3, 0.3, 3.0, 60.0])
def test_profiles_are_decreasing_and_far_out_finite(q, mu):
    epsilon = np.array([0.0, 1e-9, 1e-4, 0.1, 1.0, 10.0, 29.9, 30.1, 500.0, 800.0])
    for profile in (profiles_of.sampled_profile, profiles_of.replaced_poisson_profile):
        values = profile(q, mu)(epsilon)
        assert np.all(np.isfinite(values))
        assert np.all(np.diff(values) <= 0)
        assert np.all(values <= q * (1 + 1e-12))


@pytest.mark.parametrize("order", [1.5, 3.25, 11.0])
@pytest.mark.parametrize(("q", "mu"), [(0.01, 1.0), (0.3, 0.2)])
def test_symmetric_rdp_is_that_of_the_explicit_pair(q, mu, order):
    def p(t):
        return (1 - q) * mp.npdf(t) + q * mp.npdf(t - mu)

    def loss(t):
        return mp.log(1 - q + q * mp.exp(mu * t - mp.mpf(mu) ** 2 / 2))

    points = [mp.mpf(mu) / 2, 1, 3, 6, order * mu + 2, order * mu + 8, order * mu + 40]
    moment = (
        mp.quad(lambda t: p(t) * mp.exp((order - 1) * loss(t)), points)
        + mp.quad(lambda t: mp.npdf(t) * mp.exp(-(order - 1) * loss(t)), points)
        + (1 - q) * (1 - 2 * mp.ncdf(-mp.mpf(mu) / 2))
    )
    computed = symmetric_rdp(q, mu, (order,))[0]
    assert computed == pytest.approx(float(mp.log(moment) / (order - 1)), rel=VECTOR)


@pytest.mark.parametrize(
    ("rate", "steps", "epsilon", "delta", "multiplier", "tight"),
    [
        (0.01, 100, 1, 1e-5, 3.598215544, 0.902),
        (0.0052, 125, 1.6, 1e-8, 3.164810139, 0.879),
        (0.00256, 1000, 0.5, 1e-6, 5.918178329, 1.006),
    ],
)
def test_advanced_composition_vectors(rate, steps, epsilon, delta, multiplier, tight):
    settings = {"batch_size": rate * 10**6, "n_samples": 10**6, "steps": steps}
    computed = noise_multiplier(epsilon, delta, accountant="advanced_composition", **settings)
    assert computed == pytest.approx(multiplier, rel=VECTOR)
    assert sgd_epsilon(computed, delta, accountant="advanced_composition", **settings) <= epsilon
    assert noise_multiplier(epsilon, delta, **settings) == pytest.approx(tight, rel=2e-3)


def assert_calibrated(epsilon, delta, less=0.999, **settings):
    """The noise meets the target, and a little less noise misses it."""
    noise = noise_multiplier(epsilon, delta, **settings)
    assert sgd_epsilon(noise, delta, **settings) <= epsilon < sgd_epsilon(less * noise, delta, **settings)


@pytest.mark.parametrize("accountant", ["pld", "rdp", "moments", "advanced_composition"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "batch_size", "n_samples", "steps"),
    [(1.0, 1e-5, 64, 1000, 100), (8.0, 1e-5, 10, 10**4, 2000), (1.5, 1e-6, 0.5, 100, 1)],
)
def test_calibration_meets_the_target_and_a_little_less_noise_misses_it(
    accountant, epsilon, delta, batch_size, n_samples, steps
):
    settings = {"batch_size": batch_size, "n_samples": n_samples, "steps": steps, "accountant": accountant}
    assert_calibrated(epsilon, delta, **settings)


@pytest.mark.parametrize("accountant", ["pld", "rdp", "advanced_composition"])
@pytest.mark.parametrize(
    ("sampling", "neighbors"),
    [
        ("poisson", "replace_one"),
        ("without_replacement", "replace_one"),
        ("permutation", "replace_one"),
        ("permutation", "add_or_remove"),
    ],
)
def test_every_pair_calibrates(accountant, sampling, neighbors):
    settings = {"batch_size": 20, "n_samples": 1000, "steps": 120, "accountant": accountant}
    assert_calibrated(1.0, 1e-6, sampling=sampling, neighbors=neighbors, **settings)


def test_full_batches_are_exact():
    for neighbors, factor in (("add_or_remove", 1), ("replace_one", 2)):
        settings = {"batch_size": 50, "n_samples": 50, "steps": 16, "neighbors": neighbors}
        assert sgd_epsilon(3.0, 1e-6, **settings) == pytest.approx(
            gdp_epsilon(4 * factor / 3.0, 1e-6), rel=1e-12
        )
        exact = gaussian_sigma(0.7, 1e-6, 4 * factor)
        assert noise_multiplier(0.7, 1e-6, **settings) == pytest.approx(exact, rel=1e-12)


def test_permutations_count_epochs_rounded_up():
    settings = {"batch_size": 10, "n_samples": 100, "sampling": "permutation", "neighbors": "replace_one"}
    assert sgd_epsilon(5.0, 1e-6, steps=1, **settings) == gdp_epsilon(0.4, 1e-6)
    assert sgd_epsilon(5.0, 1e-6, steps=10, **settings) == gdp_epsilon(0.4, 1e-6)
    assert sgd_epsilon(5.0, 1e-6, steps=31, **settings) == pytest.approx(gdp_epsilon(0.8, 1e-6), rel=1e-12)
    # three batches per epoch, ten records left out
    settings |= {"batch_size": 30, "neighbors": "add_or_remove"}
    assert sgd_epsilon(5.0, 1e-6, steps=4, **settings) == pytest.approx(gdp_epsilon(math.sqrt(2) / 5, 1e-6))


@pytest.mark.parametrize("sampling", [{}, {"neighbors": "replace_one"}, WOR])
def test_monotone(sampling):
    base = {"batch_size": 20, "n_samples": 2000, "steps": 300, **sampling}
    epsilon = sgd_epsilon(1.5, 1e-6, **base)
    assert sgd_epsilon(1.6, 1e-6, **base) < epsilon
    assert sgd_epsilon(1.5, 1e-5, **base) < epsilon
    assert sgd_epsilon(1.5, 1e-6, **(base | {"steps": 330})) > epsilon
    assert sgd_epsilon(1.5, 1e-6, **(base | {"batch_size": 22})) > epsilon
    assert epsilon <= sgd_epsilon(1.5, 1e-6, accountant="rdp", **base)
    assert epsilon <= sgd_epsilon(1.5, 1e-6, accountant="advanced_composition", **base)


def test_one_step_is_the_profile():
    profile = profiles_of.sampled_profile(0.01, 0.5)
    delta = at(profile, 0.02)
    assert sgd_epsilon(4.0, delta, batch_size=1, n_samples=100, steps=1, **WOR) == pytest.approx(
        0.02, rel=1e-7
    )
    assert sgd_epsilon(2.0, delta, batch_size=1, n_samples=100, steps=1) == pytest.approx(0.02, rel=1e-7)


def test_every_grid_is_an_upper_bound_and_finer_is_tighter():
    profiles = profiles_of.without_replacement_replace_one(0.00256, 0.2)
    values = [
        refinement.composed_epsilons(profiles, 19550, 1e-5, refinement.Grid(step, (0,)))[0]
        for step in (2, 1, 0.5, 0.2, 0.1, 0.02)
    ]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(0.25925, rel=1e-4)


@pytest.mark.parametrize("sampling", [{}, {"neighbors": "replace_one"}, WOR])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-15])
def test_delta_is_the_inverse_of_epsilon(sampling, delta):
    settings = {"batch_size": 10, "n_samples": 500, "steps": 200, **sampling}
    epsilon = sgd_epsilon(1.2, delta, **settings)
    # epsilon is certified on a grid whose error is below 0.1 %; delta changes by at most e^(order * that)
    assert sgd_delta(1.2, epsilon, **settings) == pytest.approx(delta, rel=0.1)


def test_delta_at_the_ends():
    settings = {"batch_size": 10, "n_samples": 500, "steps": 200}
    assert sgd_delta(0.0, 1.0, **settings) == 1.0
    assert sgd_delta(math.inf, 1.0, **settings) == sgd_delta(1.0, math.inf, **settings) == 0.0
    full = {"batch_size": 500, "n_samples": 500, "steps": 16}
    assert sgd_delta(2.0, 1.0, **full) == pytest.approx(gaussian_delta(1.0, 2.0, 4.0))
    deltas = [sgd_delta(1.0, epsilon, **settings) for epsilon in (0.0, 0.5, 1.0, 3.0, 9.0)]
    assert deltas == sorted(deltas, reverse=True)
    with pytest.raises(ValueError, match="epsilon"):
        sgd_delta(1.0, -1.0, **settings)


def test_many_steps_are_certified_where_renyi_bounds_are_loose():
    settings = {"batch_size": 1, "n_samples": 10**4, "steps": 10**8, **WOR}
    assert sgd_epsilon(11.59, 1e-8, accountant="rdp", **settings) == pytest.approx(1.0, rel=2e-3)
    assert 0.93 < sgd_epsilon(11.59, 1e-8, **settings) < 0.945


@pytest.mark.parametrize(("q", "multiplier", "steps"), [(0.01, 0.7, 10), (1e-3, 0.5, 100)])
def test_rare_large_losses_are_composed_tightly(q, multiplier, steps):
    """A single step that sampled the record dominates: far from a Gaussian."""
    theirs = composed_losses(multiplier, q, steps, 1e-3).get_epsilon_for_delta(1e-5)
    ours = sgd_epsilon(multiplier, 1e-5, batch_size=q * 1e6, n_samples=10**6, steps=steps)
    assert ours == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize(
    ("q", "multiplier", "steps", "delta"),
    [(1e-5, 0.41, 3, 1e-9), (1e-6, 0.3745, 100, 1e-9), (1e-6, 0.4, 1000, 1e-10), (1e-5, 0.495, 100, 1e-10)],
)
def test_small_rates_are_composed_tightly(q, multiplier, steps, delta):
    """Losses so rare that the standard deviation of their sum is far below a single one."""
    theirs, lower = (
        composed_losses(multiplier, q, steps, 1e-3, lower=lower).get_epsilon_for_delta(delta)
        for lower in (False, True)
    )
    ours = sgd_epsilon(multiplier, delta, batch_size=q * 1e9, n_samples=10**9, steps=steps)
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert ours >= lower


def test_tiny_deltas_are_certified():
    settings = {"batch_size": 10, "n_samples": 1000, "steps": 10**5, **WOR}
    assert sgd_epsilon(4.0, 1e-40, **settings) < sgd_epsilon(4.0, 1e-40, accountant="rdp", **settings)


def test_what_cannot_be_certified_is_not_guessed():
    profiles = profiles_of.without_replacement_replace_one(1e-6, 0.5)
    assert refinement.refined_epsilon(profiles, 10**14, 1e-5)[0] == math.inf
    settings = {"batch_size": 1, "n_samples": 10**6, "steps": 10**14, **WOR}
    renyi = sgd_epsilon(11.59, 1e-8, accountant="rdp", **settings)
    assert sgd_epsilon(11.59, 1e-8, **settings) == renyi  # falls back


def test_ends_of_the_range():
    settings = {"batch_size": 1, "n_samples": 10, "steps": 3}
    assert sgd_epsilon(0.0, 1e-6, **settings) == math.inf
    assert sgd_epsilon(math.inf, 1e-6, **settings) == 0.0
    assert noise_multiplier(math.inf, 1e-6, **settings) == 0.0
    assert sgd_epsilon(1e9, 1e-6, **settings) == 0.0
    assert 1e3 < sgd_epsilon(0.03, 1e-6, **settings) < math.inf


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"sampling": "without_replacement"}, ValueError, "as if one were replaced"),
        ({"sampling": "shuffle"}, ValueError, "sampling must be one of 'poisson'"),
        ({"neighbors": "none"}, ValueError, "neighbors must be"),
        ({"accountant": "magic"}, ValueError, "accountant must be one of 'pld'"),
        ({"accountant": "moments", **WOR}, ValueError, "'moments' covers Poisson sampling"),
        ({"batch_size": 101}, ValueError, "at most n_samples=100"),
        ({"batch_size": 0}, ValueError, "batch_size must be a finite number > 0"),
        ({"batch_size": 2.5, **WOR}, ValueError, "must be an integer"),
        ({"steps": 0}, ValueError, "steps must be an integer >= 1, got 0"),
        ({"steps": 1.5}, TypeError, "steps must be an integer >= 1, got 1.5"),
        ({"n_samples": 10.0}, TypeError, "n_samples must be an integer"),
    ],
)
def test_refusals(settings, error, words):
    settings = {"batch_size": 10, "n_samples": 100, "steps": 10} | settings
    with pytest.raises(error, match=words):
        sgd_epsilon(1.0, 1e-6, **settings)
    with pytest.raises(error, match=words):
        noise_multiplier(1.0, 1e-6, **settings)


def test_importing_the_accounting_does_not_import_dp_accounting():
    code = "import sys, dperm.accounting; assert 'dp_accounting' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


def delta_of_an_adversary(directions, rate, multiplier, steps, epsilon, step=5e-4, reach=10_000):
    """Lower bound for batches of fixed size, if the other records' gradients may be chosen anew at each step.

    The record's gradient is 1 in one data set and -1 in the other; in a batch without it another gradient, 1
    or
    -1 from `directions`, takes its place, and the choice may depend on what was released. The value of t + 1
    steps at epsilon is the largest expectation of that of t steps at epsilon minus the loss.
    """
    x = np.linspace(-9.0, 9.0, 40_001)
    laws = []
    for other in directions:
        rest = norm.pdf(x, other / multiplier)
        p, q = ((1 - rate) * rest + rate * norm.pdf(x, own / multiplier) for own in (1.0, -1.0))
        losses = np.clip(np.floor(np.log(p / q) / step), -reach, reach).astype(int)
        laws.append(np.bincount(losses + reach, weights=p, minlength=2 * reach + 1) / p.sum())
    epsilons = step * np.arange(-2 * reach, reach + 1)
    values, below = np.maximum(-np.expm1(epsilons), 0.0), -np.expm1(epsilons[:reach] - step * reach)
    for _ in range(steps):
        padded = np.concatenate([below, values, np.zeros(reach)])
        values = np.max([fftconvolve(padded, law, mode="valid") for law in laws], axis=0)
    return float(np.interp(epsilon, epsilons, values))


def test_the_larger_of_two_directions_is_no_bound_for_batches_of_fixed_size():
    """An adversary who changes direction exceeds both, and stays below what is certified."""
    rate, multiplier, steps, epsilon = 0.1, 2.0, 10, 1.58
    both, upwards, downwards = (
        delta_of_an_adversary(directions, rate, multiplier, steps, epsilon)
        for directions in ((-1.0, 1.0), (-1.0,), (1.0,))
    )
    run = {"batch_size": 100, "n_samples": 1000, "steps": steps}
    # with Poisson samples and a record of the same sensitivity, the direction is the same at each step
    one_way = sgd_delta(multiplier / 2.0, epsilon, **run)
    assert max(upwards, downwards) == pytest.approx(one_way, rel=0.02)
    assert both > 1.03 * one_way
    assert both < sgd_delta(multiplier, epsilon, **run, **WOR) < 1.3 * both
