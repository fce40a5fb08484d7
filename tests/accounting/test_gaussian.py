import math

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting import high_precision
from dperm.accounting import gaussian_delta, gaussian_sigma, gdp_epsilon, gdp_mu

VECTOR = 1e-9  # the tables have 10 digits

SIGMAS = [
    (0.1, 1e-5, 30.74956613, 0.03252078406),
    (1, 1e-5, 3.730631635, 0.2680511232),
    (8, 1e-5, 0.6002290722, 1.666030598),
    (0.5, 1e-8, 9.863533796, 0.1013835427),
    (1.6, 1e-12, 4.166556182, 0.2400063641),
    (20, 1e-3, 0.2467217974, 4.053148164),
]

EXTREME_EPSILONS = [0.0, 1e-4, 0.03, 1.0, 17.0, 1e3]
EXTREME_DELTAS = [1e-300, 1e-100, 1e-20, 1e-8, 1e-5, 1e-3, 0.1, 0.5]

epsilons = st.floats(-4, 3).map(lambda x: 10.0**x)
deltas = st.floats(-300, math.log10(0.5)).map(lambda x: 10.0**x)


def textbook_sigma(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def smooth_erm_sigma(epsilon, delta):
    """Zhang et al. 2017, Algorithm 1."""
    return math.sqrt(2 * math.log(2 / delta)) / epsilon


@pytest.mark.parametrize(("epsilon", "delta", "sigma", "mu"), SIGMAS)
def test_sigma_and_mu_vectors(epsilon, delta, sigma, mu):
    assert gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=VECTOR)
    assert gaussian_sigma(epsilon, delta, sensitivity=2.5) == pytest.approx(2.5 * sigma, rel=VECTOR)
    assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=VECTOR)


@pytest.mark.parametrize(
    ("epsilon", "mu", "delta"), [(1, 0.5, 0.006829594983), (0, 1, 0.3829249225), (2, 0.25, 5.092130894e-17)]
)
def test_delta_vectors(epsilon, mu, delta):
    assert gaussian_delta(epsilon, sigma=1 / mu) == pytest.approx(delta, rel=VECTOR)
    assert gaussian_delta(epsilon, sigma=3 / mu, sensitivity=3) == pytest.approx(delta, rel=VECTOR)


@pytest.mark.parametrize(
    ("formula", "delta", "last_valid_epsilon"),
    [
        (smooth_erm_sigma, 1e-3, 8.512),
        (smooth_erm_sigma, 1e-5, 9.391),
        (smooth_erm_sigma, 1e-6, 9.733),
        (smooth_erm_sigma, 1e-8, 10.298),
        (smooth_erm_sigma, 1e-12, 11.144),
        (textbook_sigma, 1e-3, 7.463),
        (textbook_sigma, 1e-5, 8.420),
        (textbook_sigma, 1e-6, 8.782),
        (textbook_sigma, 1e-8, 9.374),
        (textbook_sigma, 1e-12, 10.248),
    ],
)
def test_published_formulas_fail_where_the_table_says(formula, delta, last_valid_epsilon):
    below, above = last_valid_epsilon - 1e-3, last_valid_epsilon + 1e-3
    assert gaussian_delta(below, formula(below, delta)) <= delta
    assert gaussian_delta(above, formula(above, delta)) > delta


@pytest.mark.parametrize(("epsilon", "delta", "true_delta"), [(20, 1e-3, 0.0663), (50, 1e-5, 0.508)])
def test_true_delta_of_published_noise(epsilon, delta, true_delta):
    assert gaussian_delta(epsilon, smooth_erm_sigma(epsilon, delta)) == pytest.approx(true_delta, rel=2e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta", "overhead"),
    [
        (0.1, 1e-3, 2.24),
        (1, 1e-3, 1.51),
        (0.1, 1e-5, 1.61),
        (1, 1e-5, 1.32),
        (0.1, 1e-8, 1.35),
        (1, 1e-8, 1.21),
    ],
)
def test_overhead_of_published_noise(epsilon, delta, overhead):
    ratio = smooth_erm_sigma(epsilon, delta) / gaussian_sigma(epsilon, delta)
    assert ratio == pytest.approx(overhead, abs=0.0051)


@pytest.mark.parametrize("epsilon", EXTREME_EPSILONS)
@pytest.mark.parametrize("delta", EXTREME_DELTAS)
def test_mu_is_safe_and_tight_in_many_digits(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    digits = 700 if delta < 1e-30 else 60  # at epsilon = 0 the two terms agree to log10(1/delta) digits
    assert high_precision.gaussian_delta(epsilon, mu, digits) <= mp.mpf(delta)
    assert high_precision.gaussian_delta(epsilon, mu * (1 + 1e-9), digits) > mp.mpf(delta)


@pytest.mark.parametrize("epsilon", EXTREME_EPSILONS[1:])
@pytest.mark.parametrize("delta", EXTREME_DELTAS)
@pytest.mark.parametrize("factor", [0.7, 1.0, 1.9])
def test_delta_is_rounded_up_by_little(epsilon, delta, factor):
    mu = gdp_mu(epsilon, delta) * factor
    true = high_precision.gaussian_delta(epsilon, mu)
    computed = gaussian_delta(epsilon, sigma=1.0, sensitivity=mu)
    if true < 1e-305:
        assert 0 < computed <= 1e-304
    else:
        assert true <= computed <= true * (1 + 1e-10)


def test_small_and_large_regimes_of_the_profile_meet():
    # the evaluation changes method where mu crosses half of max(1, a)
    for epsilon in (1e-3, 0.1, 0.125, 2.0, 30.0):
        for step in range(-40, 41):
            mu = math.sqrt(epsilon) * 10 ** (step / 20)
            true = high_precision.gaussian_delta(epsilon, mu)
            if true > 1e-300:
                assert true <= gaussian_delta(epsilon, 1.0, mu) <= true * (1 + 1e-11)


@given(epsilons, deltas)
def test_calibration_meets_the_target_and_a_little_less_noise_misses_it(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_delta(epsilon, sigma) <= delta * (1 + 1e-9)
    assert gaussian_delta(epsilon, 0.999 * sigma) > delta


@given(st.floats(-2, 3).map(lambda x: 10.0**x), st.floats(-300, -2).map(lambda x: 10.0**x))
def test_epsilon_inverts_mu_from_above(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    back = gdp_epsilon(mu, delta)
    assert back == pytest.approx(epsilon, rel=1e-9)
    assert high_precision.gaussian_delta(back, mu) <= mp.mpf(delta)


@given(epsilons, deltas, st.floats(1.001, 10))
def test_monotone(epsilon, delta, factor):
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_sigma(epsilon * factor, delta) < sigma
    assert gaussian_sigma(epsilon, min(0.9, delta * factor)) < sigma
    assert gdp_epsilon(factor / sigma, delta) > gdp_epsilon(1 / sigma, delta)


def test_limits():
    assert gaussian_sigma(math.inf, 1e-6) == 0.0
    assert gdp_mu(math.inf, 1e-6) == math.inf
    assert gdp_epsilon(0.0, 1e-6) == 0.0
    assert gdp_epsilon(math.inf, 1e-6) == math.inf
    assert gdp_epsilon(1e-9, 1e-6) == 0.0  # delta alone covers it
    assert gaussian_delta(1.0, 0.0) == 1.0
    assert gaussian_delta(1.0, math.inf) == 0.0
    assert gaussian_delta(math.inf, 0.0) == 0.0
    assert gaussian_delta(0.0, 1e-3) == 1.0
    assert gaussian_delta(1.0, 1e300) == math.ulp(0.0)  # finite noise never has delta 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gaussian_sigma(1.0, 0), ValueError, "delta must be > 0.*pure"),
        (
            lambda: gaussian_sigma(1.0, 1.0),
            ValueError,
            "delta must be a number strictly between 0 and 1, got 1.0",
        ),
        (lambda: gdp_mu(-1.0, 1e-6), ValueError, "epsilon must be a number >= 0.*got -1.0"),
        (lambda: gdp_mu(math.nan, 1e-6), ValueError, "epsilon.*nan"),
        (lambda: gdp_mu("1", 1e-6), TypeError, "epsilon.*'1' of type str"),
        (lambda: gdp_mu(True, 1e-6), TypeError, "epsilon.*bool"),
        (lambda: gaussian_sigma(1.0, 1e-6, 0.0), ValueError, "sensitivity must be a finite number > 0"),
        (lambda: gaussian_delta(1.0, -1.0), ValueError, "sigma must be a number >= 0"),
        (lambda: gdp_epsilon(-0.5, 1e-6), ValueError, "mu must be a number >= 0"),
    ],
)
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()
