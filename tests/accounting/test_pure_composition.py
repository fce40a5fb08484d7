import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from dperm.accounting.pure_composition import advanced_composition, amplified_epsilon
from dperm.accounting.rdp import rdp_to_epsilon


def test_advanced():
    expected = 0.1 * math.sqrt(2 * 100 * math.log(1e6)) + 100 * 0.1 * math.expm1(0.1)
    assert advanced_composition(0.1, 100, 1e-6) == pytest.approx(expected, rel=1e-12)
    assert advanced_composition(0.0, 100, 1e-6) == 0.0
    assert advanced_composition(1e4, 1, 1e-6) == math.inf


@pytest.mark.parametrize("steps", [1, 10, 300])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_advanced_covers_randomised_response(epsilon, steps):
    """Kairouz, Oh and Viswanath 2015, Theorem 3.3: no epsilon-DP releases compose to more."""
    total = advanced_composition(epsilon, steps, 1e-6)
    rounds = np.arange(steps + 1)
    gains = np.maximum((2 * rounds - steps) * epsilon - total, 0.0)
    weights = binom.pmf(rounds, steps, expit(epsilon))
    assert weights @ -np.expm1(-gains) <= 1e-6


def test_amplification_vectors():
    assert amplified_epsilon(1.0, 0.01) == pytest.approx(0.01703686324, rel=1e-9)
    assert amplified_epsilon(0.1, 0.0102) == pytest.approx(0.001072168386, rel=1e-9)
    assert amplified_epsilon(50.0, 0.5) == pytest.approx(50 - math.log(2), rel=1e-12)
    assert amplified_epsilon(2.0, 1.0) == pytest.approx(2.0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="rate must be a number in"):
        amplified_epsilon(1.0, 0.0)
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        advanced_composition(1.0, 0, 1e-6)
    with pytest.raises(ValueError, match="slack must be > 0"):
        advanced_composition(1.0, 5, 0.0)
    with pytest.raises(ValueError, match="same length"):
        rdp_to_epsilon([2.0, 3.0], [0.1], 1e-6)
    with pytest.raises(ValueError, match="orders must be > 1"):
        rdp_to_epsilon([1.0], [0.1], 1e-6)
    assert rdp_to_epsilon([2.0], [math.inf], 1e-6)[0] == math.inf
