import itertools
import math

import pytest

from dperm.accounting import (
    advanced_composition,
    amplified_epsilon,
    basic_composition,
    optimal_composition_delta,
    rdp_to_epsilon,
)


def test_basic():
    assert basic_composition(0.1, 1e-6, 10) == pytest.approx((1.0, 1e-5))
    assert basic_composition(0.1, 0.5, 10)[1] == 1.0


def test_advanced():
    expected = 0.1 * math.sqrt(2 * 100 * math.log(1e6)) + 100 * 0.1 * math.expm1(0.1)
    assert advanced_composition(0.1, 100, 1e-6) == pytest.approx(expected, rel=1e-12)
    assert advanced_composition(0.0, 100, 1e-6) == 0.0
    assert advanced_composition(1e4, 1, 1e-6) == math.inf


def test_amplification_vectors():
    assert amplified_epsilon(1.0, 0.01) == pytest.approx(0.01703686324, rel=1e-9)
    assert amplified_epsilon(0.1, 0.0102) == pytest.approx(0.001072168386, rel=1e-9)
    assert amplified_epsilon(50.0, 0.5) == pytest.approx(50 - math.log(2), rel=1e-12)
    assert amplified_epsilon(2.0, 1.0) == pytest.approx(2.0)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_optimal_composition_is_that_of_randomised_response(steps, epsilon):
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    for total in (0.0, 0.3, 1.1, 4.0):
        exact = 0.0
        for answers in itertools.product((0, 1), repeat=steps):
            ones = sum(answers)
            p = truth**ones * (1 - truth) ** (steps - ones)
            q = truth ** (steps - ones) * (1 - truth) ** ones
            exact += max(0.0, p - math.exp(total) * q)
        assert optimal_composition_delta(epsilon, 0.0, steps, total) == pytest.approx(
            exact, rel=1e-9, abs=1e-15
        )
        with_delta = 1 - (1 - 1e-3) ** steps * (1 - exact)
        assert optimal_composition_delta(epsilon, 1e-3, steps, total) == pytest.approx(with_delta, rel=1e-9)


def test_optimal_is_no_worse_than_basic_and_advanced():
    for steps in (10, 300):
        assert optimal_composition_delta(0.1, 1e-7, steps, 0.1 * steps) <= 1e-7 * steps * (1 + 1e-9)
        total = advanced_composition(0.1, steps, 1e-6)
        assert optimal_composition_delta(0.1, 0.0, steps, total) <= 1e-6


def test_bad_arguments():
    with pytest.raises(ValueError, match="rate must be a number in"):
        amplified_epsilon(1.0, 0.0)
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        basic_composition(1.0, 1e-6, 0)
    with pytest.raises(ValueError, match="slack must be > 0"):
        advanced_composition(1.0, 5, 0.0)
    with pytest.raises(ValueError, match="delta must be a number from 0 to 1"):
        optimal_composition_delta(1.0, 1.5, 5, 1.0)
    with pytest.raises(ValueError, match="same length"):
        rdp_to_epsilon([2.0, 3.0], [0.1], 1e-6)
    with pytest.raises(ValueError, match="orders must be > 1"):
        rdp_to_epsilon([1.0], [0.1], 1e-6)
    assert rdp_to_epsilon([2.0], [math.inf], 1e-6)[0] == math.inf
