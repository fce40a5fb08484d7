import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from dperm._kernels import samplers
from dperm.mechanisms import rounded_gaussian
from dperm.mechanisms.noise import gaussian_integers, gaussian_scale
from dperm.mechanisms.random_source import random_bits
from reference.bit_reader import (
    BitReader,
    ScriptedSource,
    assert_equals_twin,
    awkward_streams,
    constant_bits,
    pack,
    scripted,
)
from reference.exact_gaussian import (
    CUMULATIVE_BITS,
    ExactGaussian,
    accepted_fraction,
    cumulative,
    rounded_gaussian_probabilities,
)
from reference.goodness_of_fit import (
    FALSE_ALARM,
    assert_fits,
    assert_rate,
    assert_uniform,
    chi_square_p_value,
    counts_within,
)

DRAWS = 1_000_000
SCALES = [0.05, 0.15, 0.3, 1 / 3, 0.75, 1.0, 1.7, math.pi, 3.0, 10.0, 1000 / 7]


def p_value(values, scale):
    largest = math.ceil(7 * scale) + 1
    return chi_square_p_value(counts_within(values, largest), rounded_gaussian_probabilities(scale, largest))


@pytest.mark.parametrize(
    ("scale", "printed"),
    [
        (1.0, {0: 0.3829249225, 1: 0.2417303375, 5: 3.378683562e-6}),
        (3.0, {0: 0.1323676652, 1: 0.1252786287, 5: 0.03343069368}),
    ],
)
def test_reference_probabilities(scale, printed):
    probabilities = rounded_gaussian_probabilities(scale, 60)
    assert probabilities.sum() == pytest.approx(1, abs=1e-14)
    for k, value in printed.items():
        assert probabilities[60 + k] == pytest.approx(value, rel=1e-9)
        assert probabilities[60 - k] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_distribution(scale):
    assert p_value(rounded_gaussian(scale, 1.0, DRAWS, random_state=7), scale) > FALSE_ALARM


def test_distribution_of_cryptographic_draws():
    assert p_value(rounded_gaussian(3.0, 1.0, DRAWS), 3.0) > FALSE_ALARM


@pytest.mark.parametrize("scale", [s for s in SCALES if s >= 0.3])
@pytest.mark.parametrize("error", [0.98, 1.02])
def test_two_per_cent_of_sigma_would_be_noticed(scale, error):
    assert p_value(rounded_gaussian(error * scale, 1.0, DRAWS, random_state=8), scale) < FALSE_ALARM


def test_rounding_down_instead_of_to_nearest_would_be_noticed():
    normal = np.random.default_rng(0).standard_normal(DRAWS)
    assert p_value(np.sign(normal) * np.floor(np.abs(10 * normal)), 10.0) < FALSE_ALARM


def test_neighbouring_draws_are_independent():
    values = rounded_gaussian(0.6, 1.0, 2 * DRAWS, random_state=9).clip(-1, 1).astype(int) + 1
    pairs = np.bincount(3 * values[::2] + values[1::2], minlength=9)
    tail = norm.sf(0.5 / 0.6)
    cell = np.array([tail, 1 - 2 * tail, tail])
    assert_fits(pairs, np.outer(cell, cell).ravel())


@pytest.mark.parametrize("exponent", [20, 32, 40, 56])
def test_fine_grids_are_continuous_with_uniform_low_bits(exponent):
    draws = gaussian_integers(random_bits(10), 1.25, -exponent + 1, 200_000)
    scale = 1.25 * 2.0 ** (exponent - 1)
    assert kstest(draws / scale, norm.cdf).pvalue > FALSE_ALARM
    assert_uniform(draws & 255, 256)


def test_results_beyond_the_limit_are_cut_off():
    limit = 1 << 62
    draws = samplers.rounded_gaussian(random_bits(11), 1 << 63, 1, 100_000)  # scale 2^62
    assert abs(draws).max() == limit
    for sign in (-1, 1):
        assert_rate((draws == sign * limit).sum(), draws.size, norm.sf(1))


# --- against the twin, bit for bit ---


def assert_draws_equal(source, numerator, shift, draws):
    def twin(reader):
        sampler = ExactGaussian(reader)
        return [sampler.draw(Fraction(numerator, 1 << shift)) for _ in range(draws)]

    assert_equals_twin(source, lambda bits: samplers.rounded_gaussian(bits, numerator, shift, draws), twin)


@settings(max_examples=300)
@given(awkward_streams, st.integers(1, 2**63), st.integers(1, 63))
def test_equals_twin_on_awkward_streams(source, numerator, shift):
    assert_draws_equal(source, numerator, shift, draws=12)


@pytest.mark.parametrize("scale", SCALES)
def test_equals_twin_on_random_streams(scale):
    assert_draws_equal(scripted([], 1), *gaussian_scale(scale, 1.0), draws=2000)


@pytest.mark.parametrize("width", [1, 5])
def test_twin_that_spends_its_bits_differently_has_the_same_distribution(width):
    # The twin is a witness for the chi-square tests: its bits are revealed one (or five) at a time.
    reader = BitReader(np.random.default_rng(12).bytes(400_000))
    twin = ExactGaussian(reader, width=width, first_digits=1)
    draws = np.array([twin.draw(Fraction(3, 1)) for _ in range(20_000)])
    compiled = rounded_gaussian(3.0, 1.0, 20_000, random_state=12)
    assert p_value(draws, 3.0) > FALSE_ALARM
    assert p_value(compiled, 3.0) > FALSE_ALARM


# --- streams that leave the cell open: a number next to the upper end of a cell ---


def near_the_end(cell, digits, change):
    """Fields of a number whose first `digits` are those of the end, the last one changed."""
    first = (cumulative()[cell] >> (CUMULATIVE_BITS - 32 * digits)) + change
    first = min(max(first, 0), (1 << (32 * digits)) - 1)
    return [(32, first >> (32 * i) & 0xFFFFFFFF) for i in reversed(range(digits))]


@pytest.mark.parametrize("digits", [1, 2, 15, 16])
@pytest.mark.parametrize("change", [-1, 0, 1])
def test_every_bit_of_every_cell_counts(digits, change):
    for cell in range(len(cumulative()) - 1):  # the last end is never decided
        if digits == 16 and change == 0:
            with pytest.raises(RuntimeError, match="broken"):
                draw_after(near_the_end(cell, digits, 0))
        else:
            source = ScriptedSource(pack(near_the_end(cell, digits, change)), tail_seed=cell)
            assert_draws_equal(source, 1 << 40, 1, draws=1)


def draw_after(fields):
    return samplers.rounded_gaussian(samplers.RandomBits(ScriptedSource(pack(fields), tail_seed=0)), 3, 1, 1)


# --- streams that leave the rounding open ---

THIRD = 0x55555555  # a digit of 1/3


def draw_at_one_third(digits_of_x, sign=0):
    """round(1.5 x) for an x near 1/3, where 1.5 x + 1/2 passes 1."""
    fields = [*accepted_fraction(THIRD), *[(32, digit) for digit in digits_of_x], (1, sign)]
    return int(draw_after(fields)[0])


@pytest.mark.parametrize("open_digits", [1, 2, 3, 4, 5, 31])
def test_more_bits_are_revealed_until_the_integer_is_known(open_digits):
    below = [THIRD] * (open_digits - 1) + [THIRD - 1]
    above = [THIRD] * (open_digits - 1) + [THIRD + 1]
    assert draw_at_one_third(below) == 0
    assert draw_at_one_third(above) == 1
    assert draw_at_one_third(above, sign=1) == -1


@pytest.mark.parametrize("numerator", [3, 5, 7, 11, 13, 3**20, 3**39, 2**63 - 1])
def test_the_last_unit_decides_whether_more_bits_are_needed(numerator):
    # 64 bits X of x for which numerator * (X + 1) / 2^64 passes a rounding boundary by `excess` units of
    # 2^-64: the integer is open, and with excess 1 only the largest digits that can follow change it.
    tested = set()
    for excess, shift in itertools.product([1, 2, 3, numerator - 1], range(1, 16)):
        modulus = 1 << (64 + shift)
        x = (excess - (1 << (63 + shift))) * pow(numerator, -1, modulus) % modulus - 1
        if not 0 <= x < 0xFFFFFFFF << 32:
            continue
        for digit in (0, 0xFFFFFFFF):
            fields = [*accepted_fraction(x >> 32), (32, x & 0xFFFFFFFF), (32, digit), (32, digit)]
            assert_draws_equal(ScriptedSource(pack(fields), tail_seed=0), numerator, shift, draws=3)
        tested.add(excess)
    assert tested


def test_rounding_that_stays_open_is_an_error():
    with pytest.raises(RuntimeError, match="broken"):
        draw_at_one_third([THIRD] * 40)


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_constant_streams_are_errors(byte):
    with pytest.raises(RuntimeError, match="broken"):
        samplers.rounded_gaussian(constant_bits(byte), 3, 1, 1)


# --- arguments ---


def test_shape_grid_and_type():
    noise = rounded_gaussian(2.0, 0.25, (3, 4), random_state=0)
    assert noise.shape == (3, 4)
    assert noise.dtype == np.float64
    assert np.array_equal(noise / 0.25, np.round(noise / 0.25))
    assert gaussian_integers(random_bits(0), 2.0, -2, (3, 4)).dtype == np.int64
    assert np.array_equal(gaussian_integers(random_bits(0), 2.0, -2, (3, 4)) * 0.25, noise)
    assert rounded_gaussian(2.0, 0.25, 0).shape == (0,)


def test_sigma_zero_gives_zeros_without_a_source():
    source = ScriptedSource()
    assert not gaussian_integers(samplers.RandomBits(source), 0.0, -5, 7).any()
    assert source.given == b""


@pytest.mark.parametrize("sigma", [-1.0, math.nan, math.inf, -math.inf])
def test_bad_sigma(sigma):
    with pytest.raises(ValueError, match="sigma"):
        rounded_gaussian(sigma, 1.0, 1)


@pytest.mark.parametrize("grid", [0.0, -1.0, math.nan, math.inf, 2.0**-60])
def test_bad_grid(grid):
    with pytest.raises(ValueError, match="grid"):
        rounded_gaussian(1.0, grid, 1)


@pytest.mark.parametrize(("numerator", "shift"), [(0, 1), (2**63 + 1, 1), (1, 0), (1, 64), (-1, 1)])
def test_bad_scale(numerator, shift):
    with pytest.raises(ValueError, match="scale needs"):
        samplers.rounded_gaussian(random_bits(0), numerator, shift, 1)


@given(st.floats(2.0**-40, 2.0**56), st.integers(-30, 30))
def test_scale_is_exact_or_rounded_up(ratio, grid_exponent):
    sigma = ratio * 2.0**grid_exponent
    numerator, shift = gaussian_scale(sigma, 2.0**grid_exponent)
    assert 1 <= numerator <= 1 << 63
    assert 1 <= shift <= 63
    used = Fraction(numerator, 1 << shift)
    if ratio >= 2.0**-10:
        assert used == Fraction(ratio)
    assert 0 <= used - Fraction(ratio) < Fraction(1, 1 << 63)


@given(st.floats(1e-3, 1e9), st.floats(1e-6, 1.0))
def test_any_grid_is_rounded_up_by_little(sigma, grid):
    numerator, shift = gaussian_scale(sigma, grid)
    exact = Fraction(sigma) / Fraction(grid)
    assert exact <= Fraction(numerator, 1 << shift) <= exact * (1 + Fraction(1, 10**9))


def test_tiny_sigma_is_valid():
    assert not rounded_gaussian(1e-300, 1.0, 1000, random_state=0).any()
    assert not rounded_gaussian(np.float32(1e-30), 1.0, 1000, random_state=0).any()
