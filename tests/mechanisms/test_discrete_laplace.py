import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm._kernels import samplers
from dperm.mechanisms import discrete_laplace
from dperm.mechanisms.random_source import random_bits
from reference import noisy_selection as twin
from reference.bit_reader import assert_equals_twin, awkward_streams, constant_bits
from reference.goodness_of_fit import (
    FALSE_ALARM,
    assert_fits,
    assert_rate,
    assert_uniform,
    chi_square_p_value,
    counts_within,
)

DRAWS = 300_000


def probabilities(scale, largest):
    p = math.exp(-1 / scale)
    return (1 - p) / (1 + p) * p ** abs(np.arange(-largest, largest + 1))


def p_value(draws, scale):
    largest = math.ceil(40 * scale) + 1
    return chi_square_p_value(counts_within(draws, largest), probabilities(scale, largest))


@pytest.mark.parametrize("scale", [0.1, 0.5, 1, 1.5, 2, Fraction(10, 3), 16, 100.7])
def test_distribution(scale):
    assert p_value(discrete_laplace(scale, DRAWS, random_state=1), float(scale)) > FALSE_ALARM


def test_distribution_of_cryptographic_draws():
    assert p_value(discrete_laplace(3.0, DRAWS), 3.0) > FALSE_ALARM


@pytest.mark.parametrize("error", [0.97, 1.03])
def test_three_per_cent_of_the_scale_would_be_noticed(error):
    assert p_value(discrete_laplace(10 * error, DRAWS, random_state=2), 10.0) < FALSE_ALARM


def test_zero_counted_twice_would_be_noticed():
    rng = np.random.default_rng(0)
    magnitude = rng.geometric(1 - math.exp(-1 / 5), DRAWS) - 1
    assert p_value(magnitude * rng.choice([-1, 1], DRAWS), 5.0) < FALSE_ALARM


@pytest.mark.parametrize("scale", [0.4, 1.0, 30.0])
def test_geometric(scale):
    bits = random_bits(3)
    draws = samplers.discrete_laplace(bits, math.floor(2**40 / scale), 40, DRAWS, two_sided=False)
    assert draws.min() == 0
    p = math.exp(-1 / scale)
    assert_fits(np.bincount(draws), (1 - p) * p ** np.arange(draws.max() + 1))


def test_wide_noise():
    draws = discrete_laplace(2.0**50, 100_000, random_state=4)
    for edge in (0.1, 1.0, 3.0):
        assert_rate((abs(draws) > edge * 2.0**50).sum(), draws.size, math.exp(-edge))
    assert_uniform(draws & 255, 256)


def test_magnitudes_beyond_the_limit_are_cut_off():
    draws = discrete_laplace(2.0**60, 20_000, random_state=5)
    assert abs(draws).max() == 1 << 62
    assert_rate((abs(draws) == 1 << 62).sum(), draws.size, math.exp(-4))


awkward_digits = st.lists(
    st.sampled_from([0, 1, 0x80000000, 0xFFFFFFFF]) | st.integers(0, 2**32 - 1), max_size=40
)
rates = st.tuples(st.integers(1, 2**64 - 1), st.integers(0, 127)).filter(lambda r: r[0] << 60 >= 1 << r[1])


@settings(max_examples=300)
@given(awkward_streams, rates, st.booleans())
def test_equals_twin(source, rate, two_sided):
    draw = twin.discrete_laplace if two_sided else twin.geometric
    assert_equals_twin(
        source,
        lambda bits: samplers.discrete_laplace(bits, *rate, 20, two_sided),
        lambda reader: [draw(reader, *rate) for _ in range(20)],
    )


def test_shape_and_arguments():
    draws = discrete_laplace(2.0, (3, 4), random_state=0)
    assert draws.shape == (3, 4)
    assert draws.dtype == np.int64
    for scale in (0.0, -1.0, math.nan, math.inf, 2.0**61):
        with pytest.raises(ValueError, match="scale"):
            discrete_laplace(scale, 1)
    for rate in [(0, 0), (1, 61), (1 << 64, 0), (1 << 20, 81)]:
        with pytest.raises(ValueError, match="rate"):
            samplers.discrete_laplace(random_bits(0), *rate, 1)


def test_constant_streams_end():
    for byte in (b"\x00", b"\xff"):
        with pytest.raises(RuntimeError, match="broken"):
            samplers.discrete_laplace(constant_bits(byte), 1, 3, 1_000_000)
