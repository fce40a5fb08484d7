import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from accounting import high_precision
from dperm.accounting.events import PureRelease
from dperm.accounting.selection import (
    bounded_range_eta,
    bounded_range_eta_from_mu,
    bounded_range_mu,
    bounded_range_rho,
    exponential_mechanism_rate,
)

VECTOR = 1e-9
etas = st.floats(-12, 2).map(lambda x: 10.0**x)


@pytest.mark.parametrize(("eta", "mu"), [(0.1, 0.06266290554), (1, 0.6238925921), (4, 2.357961486)])
def test_mu_vectors(eta, mu):
    assert bounded_range_mu(eta) == pytest.approx(mu, rel=VECTOR)


@pytest.mark.parametrize(("eta", "exact"), [(0.5, 0.03114209226), (1, 0.1233015615), (2, 0.4744746471)])
def test_rho_is_the_simple_bound_on_the_exact_value(eta, exact):
    assert float(high_precision.bounded_range_exact_rho(eta)) == pytest.approx(exact, rel=VECTOR)
    assert exact <= bounded_range_rho(eta) == pytest.approx(eta**2 / 8, rel=1e-15)
    if eta <= 1:
        assert bounded_range_rho(eta) <= 1.014 * exact


def test_gdp_cost_of_small_selections_is_half_pi_times_the_zcdp_cost():
    assert bounded_range_mu(1e-3) ** 2 / (2 * bounded_range_rho(1e-3)) == pytest.approx(math.pi / 2, rel=1e-6)


@pytest.mark.parametrize("eta", [1e-10, 1e-3, 0.5, 3.9, 4.0, 4.1, 30.0, 500.0])
def test_mu_is_rounded_up_by_little(eta):
    exact = high_precision.symmetric_pair_mu(eta)
    assert exact <= mp.mpf(bounded_range_mu(eta)) <= exact * (1 + mp.mpf("1e-12"))


@pytest.mark.parametrize("eta", [0.1, 1.0, 4.0, 12.0])
def test_no_pair_of_the_same_range_is_easier_to_tell_apart_than_the_symmetric_one(eta):
    # two points with log-ratios t and t - eta: the corner of the trade-off curve, in mu
    t = np.linspace(0, eta, 2001)[1:-1]
    q = np.expm1(eta - t) / np.expm1(eta)
    mu = norm.ppf(np.exp(t) * q) - norm.ppf(q)
    assert mu.max() <= bounded_range_mu(eta)
    assert mu.max() == pytest.approx(bounded_range_mu(eta), rel=1e-9)


@given(etas)
def test_inverses_stay_within_the_cost(eta):
    rho, mu = bounded_range_rho(eta), bounded_range_mu(eta)
    assert bounded_range_eta(rho) == pytest.approx(eta, rel=1e-10)
    assert bounded_range_eta_from_mu(mu) == pytest.approx(eta, rel=1e-10)
    assert bounded_range_rho(bounded_range_eta(rho)) <= rho
    assert bounded_range_mu(bounded_range_eta_from_mu(mu)) <= mu


@given(etas, st.floats(1.001, 10))
def test_monotone(eta, factor):
    assert bounded_range_mu(eta) < bounded_range_mu(factor * eta)
    assert bounded_range_rho(eta) < bounded_range_rho(factor * eta)


def test_pure_release_costs_four_times_a_selection_in_zcdp():
    assert PureRelease(0.7).cost("zcdp") == pytest.approx(4 * bounded_range_rho(0.7), rel=1e-15)
    assert bounded_range_mu(2.0) == pytest.approx(-2 * norm.ppf(1 / (1 + math.e)), rel=1e-12)


def test_pure_mu_dominates_randomised_response():
    epsilon = 1.3
    alpha = np.linspace(0, 1, 999)
    pure = np.maximum(0, np.maximum(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha)))
    gaussian = norm.cdf(norm.ppf(1 - alpha) - bounded_range_mu(2 * epsilon))
    assert (gaussian <= pure + 1e-12).all()


def test_rate():
    assert exponential_mechanism_rate(1.5, 4.0) == pytest.approx(3 / 8, rel=1e-15)
    for eta, score_range in [(0.1, 3.0), (1.0, 0.7), (2.0, 1e-5)]:
        rate = exponential_mechanism_rate(eta, score_range)
        assert Fraction(rate) * Fraction(score_range) <= Fraction(eta)
    with pytest.raises(ValueError, match="score_range must be a finite number > 0"):
        exponential_mechanism_rate(1.0, 0.0)


def test_selection_probabilities_vector():
    losses = np.array([10, 12, 17, 10, 30])
    weights = np.exp(-exponential_mechanism_rate(1.5, 4.0) * (losses - losses.min()))
    expected = [0.3928718287, 0.1855795114, 0.02845953982, 0.3928718287, 0.0002172912680]
    np.testing.assert_allclose(weights / weights.sum(), expected, rtol=VECTOR)


def test_limits():
    for function in (bounded_range_rho, bounded_range_mu, bounded_range_eta, bounded_range_eta_from_mu):
        assert function(0.0) == 0.0
        assert function(math.inf) == math.inf
        with pytest.raises(ValueError, match="must be a number >= 0"):
            function(-1.0)
