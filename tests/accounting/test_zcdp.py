import math

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting import high_precision
from dperm.accounting import gdp_mu, zcdp_epsilon, zcdp_rho
from dperm.accounting.zcdp import zcdp_rho_bun_steinke

VECTOR = 1e-9

# epsilon, delta, rho Bun-Steinke, rho, its ratio, ratio of mu*^2/2
RHOS = [
    (0.05, 1e-8, 3.388328659e-5, 5.526124800e-5, 1.631, 1.860),
    (0.1, 1e-8, 1.353498885e-4, 2.088163809e-4, 1.543, 1.751),
    (0.2, 1e-8, 5.399408921e-4, 7.898640313e-4, 1.463, 1.652),
    (0.4, 1e-8, 2.148211134e-3, 2.985645567e-3, 1.390, 1.563),
    (0.8, 1e-8, 8.502246769e-3, 1.124438879e-2, 1.323, 1.480),
    (1.6, 1e-8, 3.331190134e-2, 4.197577630e-2, 1.260, 1.403),
    (0.05, 1e-12, 2.259906170e-5, 3.131086169e-5, 1.386, 1.514),
    (0.1, 1e-12, 9.031466103e-5, 1.210893328e-4, 1.341, 1.462),
    (0.2, 1e-12, 3.606081604e-4, 4.682620238e-4, 1.299, 1.413),
    (0.4, 1e-12, 1.437263702e-3, 1.808819491e-3, 1.259, 1.367),
    (0.8, 1e-12, 5.708252488e-3, 6.966143193e-3, 1.220, 1.322),
    (1.6, 1e-12, 2.251508061e-2, 2.665280357e-2, 1.184, 1.279),
]

epsilons = st.floats(-3, 3).map(lambda x: 10.0**x)
deltas = st.floats(-300, math.log10(0.5)).map(lambda x: 10.0**x)
rhos = st.floats(-8, 2).map(lambda x: 10.0**x)


def bun_steinke_epsilon(rho, delta):
    """Bun and Steinke 2016, Proposition 1.3."""
    return rho + 2.0 * math.sqrt(-rho * math.log(delta))


@pytest.mark.parametrize(("epsilon", "delta", "bun_steinke", "rho", "ratio", "gdp_ratio"), RHOS)
def test_rho_vectors(epsilon, delta, bun_steinke, rho, ratio, gdp_ratio):
    assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=VECTOR)
    assert zcdp_rho_bun_steinke(epsilon, delta) == pytest.approx(bun_steinke, rel=VECTOR)
    assert zcdp_rho(epsilon, delta) / bun_steinke == pytest.approx(ratio, abs=5.1e-4)
    assert gdp_mu(epsilon, delta) ** 2 / 2 / bun_steinke == pytest.approx(gdp_ratio, abs=6e-4)


def test_more_vectors():
    assert zcdp_rho(1, 1e-5) == pytest.approx(0.03055659520, rel=VECTOR)
    assert zcdp_rho_bun_steinke(1, 1e-5) == pytest.approx(0.02081993834, rel=VECTOR)
    assert gdp_mu(1, 1e-5) ** 2 / 2 == pytest.approx(0.03592570233, rel=VECTOR)
    assert zcdp_epsilon(0.01, 1e-6) == pytest.approx(0.6216926546, rel=VECTOR)
    assert zcdp_epsilon(0.1, 1e-5) == pytest.approx(1.914238832, rel=VECTOR)
    assert zcdp_epsilon(1, 1e-8) == pytest.approx(8.977218434, rel=VECTOR)


@pytest.mark.parametrize("epsilon", [1e-4, 0.03, 1.0, 17.0, 1e3])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-20, 1e-8, 1e-5, 1e-3, 0.1, 0.5])
def test_conversions_are_safe_and_tight_in_many_digits(epsilon, delta):
    log_delta = mp.log(mp.mpf(delta))
    rho = zcdp_rho(epsilon, delta)
    assert high_precision.zcdp_log_delta(rho, epsilon) <= log_delta
    assert high_precision.zcdp_log_delta(rho * (1 + 1e-9), epsilon) > log_delta
    back = zcdp_epsilon(rho, delta)
    assert high_precision.zcdp_log_delta(rho, back) <= log_delta
    assert back == pytest.approx(epsilon, rel=1e-8)


@given(epsilons, deltas)
def test_largest_rho_meets_the_target_and_a_little_more_misses_it(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert high_precision.zcdp_log_delta(rho, epsilon, 60) <= mp.log(delta)
    assert high_precision.zcdp_log_delta(1.001 * rho, epsilon, 60) > mp.log(delta)
    assert zcdp_rho_bun_steinke(epsilon, delta) <= rho <= gdp_mu(epsilon, delta) ** 2 / 2


@given(rhos, deltas, st.floats(1.001, 10))
def test_monotone_and_never_worse_than_bun_steinke(rho, delta, factor):
    epsilon = zcdp_epsilon(rho, delta)
    assert epsilon <= bun_steinke_epsilon(rho, delta)
    assert zcdp_epsilon(rho * factor, delta) >= epsilon
    assert zcdp_epsilon(rho, delta / factor) >= epsilon


def test_bun_steinke_is_the_root_of_its_formula():
    assert bun_steinke_epsilon(0.01, 1e-6) == pytest.approx(0.7533844378, rel=VECTOR)
    assert bun_steinke_epsilon(zcdp_rho_bun_steinke(0.7, 1e-6), 1e-6) == pytest.approx(0.7, rel=1e-12)
    assert zcdp_rho_bun_steinke(math.inf, 1e-6) == math.inf


def test_limits():
    assert zcdp_rho(math.inf, 1e-6) == math.inf
    assert zcdp_epsilon(0.0, 1e-6) == 0.0
    assert zcdp_epsilon(math.inf, 1e-6) == math.inf
    assert zcdp_epsilon(1e-300, 1e-6) == 0.0


@pytest.mark.parametrize("function", [zcdp_rho, zcdp_epsilon, zcdp_rho_bun_steinke])
def test_bad_arguments(function):
    with pytest.raises(ValueError, match=r"delta must be > 0.*pure"):
        function(1.0, 0.0)
    with pytest.raises(ValueError, match=r"must be a number >= 0.*got -1"):
        function(-1, 1e-6)
