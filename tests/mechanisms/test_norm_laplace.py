import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, gamma, kstest, norm

from dperm._kernels import samplers
from dperm.mechanisms import norm_laplace
from dperm.mechanisms.noise import norm_laplace_integers
from dperm.mechanisms.random_source import random_bits
from reference.bit_reader import (
    BitReader,
    ScriptedSource,
    awkward_streams,
    constant_bits,
    pack,
    samples_on_each_instruction_set,
    scripted,
)
from reference.exact_gaussian import accepted_fraction
from reference.goodness_of_fit import FALSE_ALARM, assert_fits, assert_uniform, counts_within
from reference.norm_laplace import NormLaplace, rounded_laplace_probabilities, rounded_marginal_in_3d

# Every statistical test here has one p-value per parameter, compared with FALSE_ALARM.
VECTORS = 20_000
KINDS = {"float": {}, "exact": {"noise": "exact", "grid": 2.0**-20}}


def vectors(kind, d, scale=1.5, k=VECTORS, seed=5):
    return norm_laplace(scale, (k, d), random_state=seed, **KINDS[kind])


# --- the distribution ---


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3, 10, 60])
def test_radius_is_gamma(kind, d):
    radius = np.linalg.norm(vectors(kind, d), axis=1)
    assert kstest(radius, gamma(d, scale=1.5).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [2, 3, 10, 60])
def test_direction_is_uniform(kind, d):
    z = vectors(kind, d)
    direction = z / np.linalg.norm(z, axis=1)[:, None]
    fixed = np.random.default_rng(0).standard_normal(d)
    for component in (direction[:, 0], direction[:, -1], direction @ (fixed / np.linalg.norm(fixed))):
        # (1 + cosine) / 2 for a uniform direction
        assert kstest((1 + component) / 2, beta((d - 1) / 2, (d - 1) / 2).cdf).pvalue > FALSE_ALARM
    if d == 2:
        turns = np.arctan2(z[:, 1], z[:, 0]) / (2 * np.pi) + 0.5
        assert kstest(turns, "uniform").pvalue > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_radius_and_direction_are_independent(kind):
    z = vectors(kind, 3)
    radius = np.linalg.norm(z, axis=1)
    cosine = (1 + z[:, 1] / radius) / 2
    cells = 4 * (4 * gamma(3, scale=1.5).cdf(radius)).astype(int) + (4 * cosine).astype(int)
    assert_uniform(cells, 16)


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.7, 40.0])
def test_one_dimension_is_a_rounded_laplace_number(scale):
    draws = norm_laplace(scale, (100_000, 1), random_state=6, noise="exact", grid=1.0)[:, 0]
    largest = math.ceil(40 * scale)
    assert_fits(counts_within(draws, largest), rounded_laplace_probabilities(scale, largest))


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_marginal_in_three_dimensions_on_a_coarse_grid(scale):
    draws = norm_laplace(scale, (100_000, 3), random_state=7, noise="exact", grid=1.0)
    largest = math.ceil(45 * scale)
    for j in range(3):
        assert_fits(counts_within(draws[:, j], largest), rounded_marginal_in_3d(scale, largest))


@pytest.mark.parametrize("kind", KINDS)
def test_three_per_cent_of_the_scale_would_be_noticed(kind):
    radius = np.linalg.norm(vectors(kind, 10, scale=1.545, k=200_000), axis=1)
    assert kstest(radius, gamma(10, scale=1.5).cdf).pvalue < FALSE_ALARM


def test_a_gaussian_radius_would_be_noticed():
    z = np.random.default_rng(1).standard_normal((VECTORS, 10)) * 1.5 * math.sqrt(11)
    assert kstest(np.linalg.norm(z, axis=1), gamma(10, scale=1.5).cdf).pvalue < FALSE_ALARM


def test_fast_noise_far_out():
    z = norm_laplace(1.0, 4_000_000, random_state=9)
    entries = z / np.linalg.norm(z) * math.sqrt(z.size)
    for edge in (1.0, 3.0, 4.0, 4.8):
        expected = z.size * norm.sf(edge)
        for beyond in ((entries > edge).sum(), (entries < -edge).sum()):
            assert abs(beyond - expected) < 5.5 * math.sqrt(expected) + 1
    assert abs(np.corrcoef(entries[:256], entries[256:512])[0, 1]) < 0.4
    blocks = entries[: z.size // 512 * 512].reshape(-1, 512)
    assert abs((blocks[:, :256] * blocks[:, 256:]).mean()) < 5.5 / math.sqrt(blocks.size / 2)
    assert abs((blocks[:, :256] ** 2 * blocks[:, 256:] ** 2).mean() - 1) < 5.5 * 3 / math.sqrt(
        blocks.size / 2
    )


def test_fast_noise_is_the_same_on_every_instruction_set():
    sizes = [(3, 1), (3, 2), (2, 15), (2, 16), (2, 17), (1, 511), (2, 512), (1, 5000)]
    baseline, *others = samples_on_each_instruction_set(
        lambda: [norm_laplace(2.0, size, random_state=3) for size in sizes]
    )
    for a, *same in zip(baseline, *others, strict=True):
        assert np.isfinite(a).all()
        assert all(np.array_equal(a, b) for b in same)


# --- exactness: the twin, and the real numbers behind the bits ---


def assert_exact(source, numerator, shift, dimension, first_digits, draws):
    bits = samplers.RandomBits(source)
    compiled = samplers.norm_laplace(bits, numerator, shift, draws, dimension, first_digits)
    reader, rng = BitReader(source.given), np.random.default_rng(0)
    rounds = 0
    for row in compiled.tolist():
        twin = NormLaplace(reader, numerator, shift, first_digits)
        assert twin.draw(dimension) == row
        # Whatever digits would have followed: none, all ones (short of the next integer), or anything.
        count = 2 * dimension + 1
        for continuations in ([0] * count, [1 - 2**-40] * count, rng.random(count).tolist()):
            assert twin.rounded(continuations) == row
        rounds += twin.rounds
    return rounds


@settings(max_examples=150)
@given(awkward_streams, st.integers(1, 2**63), st.integers(1, 63), st.integers(1, 4), st.integers(1, 32))
def test_equals_twin_on_awkward_streams(source, numerator, shift, dimension, first_digits):
    assert_exact(source, numerator, shift, dimension, first_digits, draws=3)


@pytest.mark.parametrize(("numerator", "shift"), [(1, 1), (5, 1), (3 << 30, 1), ((1 << 57) - 1, 2)])
@pytest.mark.parametrize("first_digits", [1, 3])
def test_equals_twin_on_random_streams(numerator, shift, first_digits):
    rounds = assert_exact(scripted([], 1), numerator, shift, 3, first_digits, draws=150)
    if first_digits == 1 and numerator > 1 << 20:
        assert rounds >= 150  # one digit cannot decide


# d = 1 and a scale of 8: numbers 3/8 and 1/2 make a radius of 5/8, and an entry of 1/2 is then on the
# boundary between 2 and 3. An entry that begins like 1/2 - 2^-k stays open.
def number(first_digit, rest, negative=0):
    return [*accepted_fraction(first_digit), (1, negative), *[(32, d) for d in rest]]


def draw_on_the_boundary(rounds, last_round, negative=0):
    """`rounds` more sets of digits that leave the entry open, then `last_round`: (radius, entry) digits."""
    ones = 0xFFFFFFFF
    fields = [*number(0x60000000, [0, 0]), *number(0x80000000, [0, 0])]
    fields += number(0x7FFFFFFF, [ones, ones], negative)
    for r in range(rounds):
        added = [3, 6, 12, 8][r]
        radius, entry = (0, ones) if r < rounds - 1 else last_round
        fields += [(32, radius)] * (2 * added) + [(32, entry)] * added
    source = ScriptedSource(pack(fields), tail_seed=0)
    return int(samplers.norm_laplace(samplers.RandomBits(source), 16, 1, 1, 1)[0, 0])


def test_digits_that_the_acceptance_drew_are_kept():
    # x and z agree in their first digit, so that the second ones decide: z's is drawn first, then x's.
    fields = []
    for first, second in [(0x60000000, 0x12345678), (0x80000000, 0x9ABCDEF0), (0x7FFFFFFF, 0x0FEDCBA9)]:
        cell, rest, _ = accepted_fraction(first)
        tie = [(9, 0), rest, (32, 0xFFFFFFFF), (32, second)]
        fields += [cell, rest, *tie, (1, 1), (32, second ^ 0xFFFFFFFF)]
    for numerator, shift in [(1 << 62, 1), (1 << 40, 1)]:
        assert_exact(
            ScriptedSource(pack(fields), tail_seed=0), numerator, shift, dimension=1, first_digits=3, draws=2
        )


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_more_bits_of_the_same_numbers_are_drawn_until_the_integer_is_known(rounds):
    assert draw_on_the_boundary(rounds, (0, 0)) == 2
    assert draw_on_the_boundary(rounds, (0, 0), negative=1) == -2
    assert draw_on_the_boundary(rounds, (0xFFFFFFFF, 0xFFFFFFFF)) == 3


def test_rounding_that_stays_open_is_an_error():
    with pytest.raises(RuntimeError, match="broken"):
        draw_on_the_boundary(4, (0, 0xFFFFFFFF))


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_constant_streams_are_errors(byte):
    with pytest.raises(RuntimeError, match="broken"):
        samplers.norm_laplace(constant_bits(byte), 3, 1, 1, 2)


def test_results_beyond_the_limit_are_cut_off():
    draws = samplers.norm_laplace(random_bits(1), 1 << 63, 1, 3000, 1)
    beyond = (abs(draws) == 1 << 62).mean()
    assert abs(draws).max() == 1 << 62
    assert abs(beyond - math.exp(-1)) < 5.2 * 0.5 / math.sqrt(3000)


# --- arguments ---


def test_shapes_grid_and_seeds():
    for kind, options in KINDS.items():
        assert norm_laplace(1.0, 7, **options).shape == (7,)
        assert norm_laplace(1.0, np.int64(7), **options).shape == (7,)
        assert norm_laplace(1.0, (4, 7), **options).shape == (4, 7)
        assert norm_laplace(1.0, (0, 7), **options).shape == (0, 7)
        assert np.array_equal(vectors(kind, 40, k=3), vectors(kind, 40, k=3))
        assert not np.array_equal(vectors(kind, 40, k=3), vectors(kind, 40, k=3, seed=6))
        assert not norm_laplace(0.0, 5, **options).any()
    exact = vectors("exact", 5, k=10) * 2.0**20
    assert np.array_equal(exact, np.rint(exact))
    integers = norm_laplace_integers(random_bits(2), 1.0, -20, (3, 4))
    assert integers.shape == (3, 4)
    assert np.array_equal(integers.ravel(), norm_laplace_integers(random_bits(2), 1.0, -20, (12,)))
    assert norm_laplace_integers(random_bits(2), 1.0, -20, (0, 4)).shape == (0, 4)


def test_scale_zero_reads_nothing():
    source = ScriptedSource()
    assert not norm_laplace_integers(samplers.RandomBits(source), 0.0, -5, (7,)).any()
    assert source.given == b""


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_bad_scale(scale, kind):
    with pytest.raises(ValueError, match="scale"):
        norm_laplace(scale, 3, **KINDS[kind])


@pytest.mark.parametrize("size", [0, (3, 0), (-1, 3), (1, 2, 3), ()])
def test_bad_size(size):
    with pytest.raises(ValueError, match="size"):
        norm_laplace(1.0, size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "exact"}, "grid"),
        ({"grid": 1.0}, "grid"),
        ({"noise": "fast"}, "noise"),
        ({"noise": "exact", "grid": 0.0}, "grid"),
        ({"noise": "exact", "grid": math.nan}, "grid"),
        ({"noise": "exact", "grid": 2.0**-56}, "grid"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        norm_laplace(1.0, 3, **options)


# --- the mean squared error on which the choice between Gaussian and norm-Laplace noise is based ---
