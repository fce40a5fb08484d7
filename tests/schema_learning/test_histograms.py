"""Public bins, and bounds from counts in them, compared with a record-by-record computation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dperm.schema_learning.bounds import OUTSIDE, Grid, Magnitudes, NoisyCounts, refined, rough_bounds

DOUBLES = st.lists(st.floats(), max_size=40)
AWKWARD = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, -5e-324, 2.0**-31, 2.0**-30, 1.0, -1.0]
AWKWARD += [math.nextafter(power, side) for power in (2.0**-30, 1.0, 2.0**50) for side in (0.0, np.inf)]
AWKWARD += [2.0**50, 2.0**51, -(2.0**50), 1.7e308, math.nextafter(-1.0, 0.0), math.nextafter(-1.0, -2.0)]


def magnitude_bin(value):
    """Of one number, from its exponent in exact arithmetic."""
    if math.isnan(value):
        return Magnitudes.n_bins - 1
    if value == 0.0 or abs(value) <= 2.0**-31:
        return 81
    mantissa, exponent = math.frexp(abs(value)) if math.isfinite(value) else (1.0, 99)
    exponent = min(exponent - (mantissa == 0.5), 50)  # 2^(e-1) < |x| <= 2^e
    return 81 + int(math.copysign(exponent + 31, value))


@pytest.mark.parametrize("values", [AWKWARD, [0.0] * 5, [np.nan], [-np.nan, 0.0], []])
def test_magnitudes_of_awkward_numbers(values):
    expected = np.bincount([magnitude_bin(value) for value in values], minlength=Magnitudes.n_bins)
    np.testing.assert_array_equal(Magnitudes().counts(np.array(values, np.float64)), expected)


@given(DOUBLES)
def test_magnitudes(values):
    expected = np.bincount([magnitude_bin(value) for value in values], minlength=Magnitudes.n_bins)
    np.testing.assert_array_equal(Magnitudes().counts(np.array(values, np.float64)), expected)


@given(st.floats(min_value=2.0**-30, max_value=2.0**50), st.booleans())
def test_a_number_lies_between_the_edges_of_its_bin(value, negative):
    value = -value if negative else value
    (place,) = np.flatnonzero(Magnitudes().counts(np.array([value])))
    low, high = Magnitudes().edges[place : place + 2]
    assert low <= value <= high


@given(
    DOUBLES, st.sampled_from([(0.0, 1.0), (-3.0, 5.0), (2.0**-30, 2.0**50), (-(2.0**50), -1.0), (0.5, 512.0)])
)
def test_grids(values, bounds):
    grid, (low, high) = Grid(*bounds), bounds
    counts = grid.counts(np.array([*values, low, high], np.float64))
    below = sum(value < low for value in values)
    above = sum(value > high for value in values)
    assert counts.shape == (66,)
    assert (counts[0], counts[-1]) == (below, above)
    assert counts.sum() == sum(value == value for value in values) + 2
    for value in values:
        if low < value <= high:
            (place,) = np.flatnonzero(grid.counts(np.array([value])))
            slack = (high - low) * 1e-13
            assert grid.edges[place - 1] - slack <= value <= grid.edges[place] + slack


def magnitudes_of(values, sigma=0.0):
    counts = Magnitudes().counts(np.asarray(values, np.float64)).astype(float)
    return NoisyCounts(counts, sigma, Magnitudes.n_bins)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300))
def test_without_noise_powers_of_two_leave_out_less_than_the_share(values):
    values = np.array(values)
    found = rough_bounds(magnitudes_of(values))
    tiny = 2.0**-30  # below it numbers count as 0
    below, above = (values < found.low - tiny).sum(), (values > found.high + tiny).sum()
    assert (found.below.value, found.above.value) == (below, above)
    assert max(below, above) <= OUTSIDE * len(values)
    if len(values) < 200 and not found.constant:  # then no record is left out: the next powers of two
        for bound, extreme in ((found.high, values.max()), (found.low, values.min())):
            assert abs(bound) <= 2.0 * abs(extreme) + 2.0**-29
            assert abs(bound) >= 0.5 * abs(extreme) - 2.0**-29


@given(st.lists(st.floats(1.0, 1000.0), min_size=200, max_size=400))
def test_without_noise_lines_of_the_grid_leave_out_less_than_the_share(values):
    values = np.array(values)
    rough = rough_bounds(magnitudes_of(values))
    grid = Grid(rough.low, rough.high)
    found = refined(rough, grid, NoisyCounts(grid.counts(values).astype(float), 0.0, Grid.n_bins))
    width = (rough.high - rough.low) / 64
    assert rough.low <= found.low < found.high <= rough.high
    assert (values < found.low).mean() <= OUTSIDE
    assert (values > found.high).mean() <= OUTSIDE
    assert found.high - width <= values.max()
    assert found.low + width >= values.min()


def test_a_grid_is_cut_where_little_is_outside_for_its_noise():
    """Bounds are refined as far as the noise allows, and stay as they are otherwise."""
    numbers = np.linspace(64.0, 100.0, 10_000)
    rough = rough_bounds(magnitudes_of(numbers))
    assert (rough.low, rough.high) == (64.0, 128.0)  # a width of 1
    counts = rough.grid.counts(numbers).astype(float)

    def high(sigma):
        return refined(rough, rough.grid, NoisyCounts(counts, sigma, 66)).high

    assert high(1.0) == 100.0
    assert high(100.0) < 100.0  # some of them could be noise
    counts[60] += 500.0  # noise that could be numbers
    assert high(30.0) == 124.0
    counts[:] = -1.0
    assert refined(rough, rough.grid, NoisyCounts(counts, 1.0, 66)) == rough


@pytest.mark.parametrize("sigma", [1.0, 100.0])
def test_noise_alone_is_hardly_ever_taken_for_a_column(sigma):
    """Of 2,000 tables without a record at most 1 % by design; 40 are five standard deviations more."""
    rng = np.random.default_rng(0)
    n_columns, found = 14, 0
    for _ in range(2000):
        noise = np.rint(rng.normal(0.0, sigma, (n_columns, Magnitudes.n_bins)))
        bins = [NoisyCounts(each, sigma, noise.size) for each in noise]
        found += any(rough_bounds(each) is not None for each in bins)
    assert found < 40


def test_what_is_stated_of_the_threshold():
    """4.45 standard deviations for 2,296 bins: 14 columns."""
    noisy = NoisyCounts(np.array([4.44, 4.46]), 1.0, 2296)
    np.testing.assert_array_equal(noisy.detected(), [0.0, 4.46])
