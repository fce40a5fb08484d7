import itertools
import math
import sys
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, kstest

from dperm._kernels import samplers
from dperm.mechanisms.block_counts import block_counts
from dperm.mechanisms.noise import norm_laplace
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.sampling import (
    permutation,
    poisson_rate,
    poisson_sample,
    sample_without_replacement,
    uniform_integers,
)
from reference import sampling as twin
from reference.bit_reader import (
    ScriptedSource,
    assert_equals_twin,
    awkward_streams,
    constant_bits,
    pack,
    samples_on_each_instruction_set,
)
from reference.goodness_of_fit import (
    FALSE_ALARM,
    assert_fits,
    assert_rate,
    assert_uniform,
    chi_square_p_value,
)

# --- Poisson ---


@pytest.mark.parametrize(
    ("q", "threshold"),
    [(0.01, 184467440737095516), (0.00256, 47223664828696452), (0.5, 1 << 63), (2.0**-65, 0)],
)
def test_rate_is_rounded_down_to_64_bits(q, threshold):
    assert poisson_rate(q) == Fraction(threshold, 1 << 64)
    assert poisson_rate(np.float64(q)) == Fraction(threshold, 1 << 64)
    assert poisson_rate(Fraction(repr(q))) == Fraction(threshold, 1 << 64)


@given(st.floats(0, 1))
def test_rate_is_never_above_the_float_nor_the_decimal(q):
    rate = poisson_rate(q)
    assert rate <= Fraction(q)
    assert rate <= Fraction(repr(q))
    assert Fraction(q) - rate <= Fraction(1, 1 << 64) + Fraction(math.ulp(q))


def test_rate_at_the_ends():
    assert poisson_rate(0) == 0
    assert poisson_rate(1) == 1
    assert poisson_rate(Fraction(1, 1 << 64)) == Fraction(1, 1 << 64)
    assert poisson_rate(1 - Fraction(1, 1 << 60)) == 1 - Fraction(1, 1 << 60)
    assert poisson_sample(1, 0, 1000).tolist() == []
    assert poisson_sample(1, 1, 1000).tolist() == list(range(1000))
    assert poisson_sample(1, 0.5, 0).tolist() == []


@pytest.mark.parametrize(
    ("q", "n", "samples"),
    [
        (1e-7, 4_000_000, 100),
        (1e-4, 100_000, 2000),
        (0.00256, 5000, 5000),
        (0.01, 3000, 5000),
        (0.3, 200, 20_000),
        (0.5, 64, 20_000),
        (0.97, 130, 20_000),
    ],
)
def test_sizes_are_binomial(q, n, samples):
    bits = random_bits(1)
    sizes = [poisson_sample(bits, q, n).size for _ in range(samples)]
    largest = int(min(n, n * q + 20 * math.sqrt(n * q) + 30))  # beyond with probability below 1e-20
    assert max(sizes) <= largest
    assert_fits(np.bincount(sizes, minlength=largest + 1), binom.pmf(np.arange(largest + 1), n, q))


@pytest.mark.parametrize("q", [0.01, 1 / 3, 0.9])
def test_every_row_has_the_same_rate(q):
    n, samples, bits = 2500, 4000, random_bits(2)  # two blocks, the second not full
    counts = np.zeros(n)
    for _ in range(samples):
        counts[poisson_sample(bits, q, n)] += 1
    z = (counts - samples * q) / math.sqrt(samples * q * (1 - q))
    assert abs(z).max() < 6.5  # P(|z| > 6.5) = 8e-11, times 2500 rows; skewness at q = .01 is small
    assert abs((z**2).sum() - n) < 5.2 * math.sqrt(2 * n)


def test_neighbouring_rows_are_independent():
    chosen = poisson_sample(3, 0.4, 4_000_000)
    flags = np.zeros(4_000_000, int)
    flags[chosen] = 1
    patterns = np.bincount(flags.reshape(-1, 4) @ [8, 4, 2, 1], minlength=16)
    expected = [0.4 ** (p.bit_count()) * 0.6 ** (4 - p.bit_count()) for p in range(16)]
    assert_fits(patterns, expected)
    gaps = np.diff(chosen)
    lengths = np.arange(1, 60)
    assert_fits(np.bincount(gaps, minlength=60)[1:60], 0.4 * 0.6 ** (lengths - 1))


def test_one_per_cent_of_the_rate_would_be_noticed():
    assert binomtest(poisson_sample(4, 0.0101, 60_000_000).size, 60_000_000, 0.01).pvalue < FALSE_ALARM


def assert_poisson_equals_twin(source, threshold, n, room):
    assert_equals_twin(
        source,
        lambda bits: samplers.poisson_sample(bits, threshold, n, room),
        lambda reader: twin.poisson_sample(reader, threshold, n),
    )


@settings(max_examples=60)
@given(awkward_streams, st.integers(0, 2**64 - 1), st.integers(0, 5000))
def test_poisson_equals_twin(source, threshold, n):
    assert_poisson_equals_twin(source, threshold, n, room=10)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 2047, 2048, 2049])
@pytest.mark.parametrize("low_bits", [0, 1, 0x123456789ABCDE, (1 << 56) - 1])
def test_ties_are_resolved_by_more_bits(n, low_bits):
    # Every lane equals that of the threshold; the words that follow are around its other 56 bits.
    lane = 0xA5
    threshold = lane << 56 | low_bits
    fields, expected = [], []
    for first in range(0, n, 2048):
        rows = min(2048, n - first)
        fields += [(8, lane)] * (rows + -rows % 4)
        for row in range(first, first + rows):
            rest = [max(low_bits - 1, 0), low_bits, min(low_bits + 1, (1 << 56) - 1)][row % 3]
            word = rest << 8 | (0xFF if row % 2 else 0)
            fields += [(32, word >> 32), (32, word & 0xFFFFFFFF)]
            if rest < low_bits:
                expected.append(first + row - first)
    source = ScriptedSource(pack(fields), tail_seed=0)
    assert samplers.poisson_sample(samplers.RandomBits(source), threshold, n, n).tolist() == expected


@pytest.mark.parametrize("threshold", [1 << 56, (1 << 56) - 1, (1 << 56) + 1, 0xFF << 56, (1 << 64) - 1, 1])
def test_poisson_with_a_threshold_at_the_edge_of_a_lane(threshold):
    lanes = np.array([0, 1, 2, 0xFE, 0xFF] * 600, dtype=np.uint8)
    assert_poisson_equals_twin(ScriptedSource(lanes.tobytes(), tail_seed=5), threshold, 3000, room=0)


def test_poisson_is_the_same_on_every_instruction_set_and_with_any_room():
    cases = [(q, n) for q in (0.04, 0.5, 0.999) for n in (1, 64, 100, 2048, 70_001)]
    expected = [poisson_sample(6, q, n).tolist() for q, n in cases]
    for drawn in samples_on_each_instruction_set(lambda: [poisson_sample(6, q, n) for q, n in cases]):
        assert [sample.tolist() for sample in drawn] == expected
    assert samplers.poisson_sample(random_bits(6), 1 << 63, 70_001, 0).tolist() == expected[9]


def test_a_sample_of_many_records():
    n = (1 << 31) + 1_000_000
    large = poisson_sample(1, 1e-6, n)
    assert large.dtype == poisson_sample(1, 0.5, 100).dtype == poisson_sample(1, 1.0, 100).dtype == np.int64
    assert np.all(np.diff(large) > 0)
    assert_rate(large.size, n, 1e-6)
    assert kstest(large / n, "uniform").pvalue > FALSE_ALARM


# --- Poisson at small rates: by blocks ---


@pytest.mark.parametrize(
    "threshold",
    [1 << 59, (1 << 59) - 1, (1 << 58) + 1, 3**36, 1 << 56, 10**16, 1 << 53, 1 << 34, 1 << 30, 2, 1],
)
def test_block_counts_are_binomial_to_every_digit(threshold):
    digits, log2_block = block_counts(threshold)
    block = 1 << log2_block
    assert threshold * block <= 4 << 64
    assert threshold * block > 2 << 64 or log2_block == 32
    exact = [at_most >> (twin.PRECISION - 1024) for at_most in twin.binomial_at_most(threshold, block)]
    for column, expected in itertools.zip_longest(digits.T.tolist(), exact):
        if column is None or expected is None:  # so near to 1 that no number drawn is above
            assert (column or [2**32 - 1] * 32) == [2**32 - 1] * 32
            assert (expected or 2**1024) >= 2**1024 - 1
        else:
            value = sum(digit << 32 * (31 - k) for k, digit in enumerate(column))
            assert value == min(expected, 2**1024 - 1)
    assert digits[:, -1].tolist() == [2**32 - 1] * 32


@settings(max_examples=60)
@given(
    awkward_streams,
    st.sampled_from([1 << 59, (1 << 59) - 1, 3**36, 1 << 55, 1 << 50, 1 << 40, 1 << 34, 1]),
    st.floats(0, 70),
)
def test_sparse_sample_equals_twin(source, threshold, blocks):
    law, log2_block = block_counts(threshold)
    n = round(blocks * 2**log2_block)
    assert_equals_twin(
        source,
        lambda bits: samplers.sparse_sample(bits, law, log2_block, n, 0),
        lambda reader: twin.sparse_sample(reader, threshold, log2_block, n),
    )


@pytest.mark.parametrize("q", [1 / 32, 1 / 50])
def test_sets_of_a_few_rows_are_distributed_as_independent_draws(q):
    n, samples, bits = 3, 60_000, random_bits(10)
    sets = [sum(1 << row for row in poisson_sample(bits, q, n).tolist()) for _ in range(samples)]
    sizes = np.array([p.bit_count() for p in range(1 << n)])
    assert_fits(np.bincount(sets, minlength=1 << n), q**sizes * (1 - q) ** (n - sizes))


@pytest.mark.parametrize(("q", "n"), [(1 / 40, 8_000_000), (1e-3, 200_000_000), (3e-6, 60_000_000_000)])
def test_gaps_between_rows_are_geometric_and_independent(q, n):
    """Which characterises independent rows."""
    rows = poisson_sample(11, q, n)
    gaps = np.diff(rows, prepend=-1)
    edges = np.ceil(np.log1p(-np.arange(1, 12) / 12) / math.log1p(-q))  # about the twelfths
    cells = np.searchsorted(edges, gaps, side="left")
    share = np.diff(-np.expm1(edges * math.log1p(-q)), prepend=0.0, append=1.0)
    assert_fits(np.bincount(cells, minlength=12), share)
    pairs = cells[: cells.size // 2 * 2].reshape(-1, 2) @ [12, 1]
    assert_fits(np.bincount(pairs, minlength=144), np.outer(share, share).ravel())


@pytest.mark.parametrize("ties", [1, 2, 5])
@pytest.mark.parametrize("j", [0, 1, 3, 14, 15, 16, 17])
def test_counts_that_the_first_digits_do_not_determine(j, ties):
    """u agrees with the probability of at most j rows in some digits; the next one is above or below."""
    threshold = 3**36
    law, log2_block = block_counts(threshold)
    for beyond, count in ((1, j + 1), (-1, j)):
        digits = law[: ties + 1, j].astype(np.int64)
        digits[-1] += beyond
        rows = np.arange(count) << (32 - log2_block)
        script = [(32, int(digit)) for digit in [*digits, *rows]]
        source = ScriptedSource(pack(script), tail_seed=0)
        drawn = samplers.sparse_sample(samplers.RandomBits(source), law, log2_block, 1 << log2_block, 0)
        assert drawn.tolist() == list(range(count))


def test_rows_of_a_block_are_drawn_evenly_and_in_pairs():
    """Pairs of rows of one block are sampled with the square of the rate, like pairs of different blocks."""
    q, block, blocks = 1 / 32, 128, 200_000
    chosen = poisson_sample(9, q, block * blocks)
    assert block_counts(1 << 59)[1] == 7
    assert_uniform(chosen % block, block)
    flags = np.zeros((blocks, block), dtype=np.float32)  # counts below 2^24 are exact
    flags.reshape(-1)[chosen] = 1
    pairs = flags.T @ flags
    together = pairs[np.triu_indices(block, 1)]
    z = (together - blocks * q**2) / math.sqrt(blocks * q**2 * (1 - q**2))
    assert abs(z).max() < 7  # of 8128; P(|z| > 7) = 3e-12, skewness 0.05
    assert abs((z**2).mean() - 1) < 6 * math.sqrt(2 / z.size) * 1.1
    sizes = np.bincount(flags.sum(axis=1).astype(int), minlength=block + 1)
    assert_fits(sizes, binom.pmf(np.arange(block + 1), block, q))


@pytest.mark.parametrize("change", ["short", "few", "no end", "large block", "negative"])
def test_invalid_distributions(change):
    law, log2_block = block_counts(1 << 58)
    law = {"short": law[:-1], "few": law[:, -15:], "no end": law[:, :20]}.get(change, law)
    log2_block = 33 if change == "large block" else log2_block
    n = -1 if change == "negative" else 100
    with pytest.raises(ValueError, match="sample needs"):
        samplers.sparse_sample(random_bits(1), np.ascontiguousarray(law), log2_block, n, 0)


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan, math.inf])
def test_bad_rate(q):
    with pytest.raises(ValueError, match="q must be"):
        poisson_sample(1, q, 10)


@pytest.mark.parametrize("n", [-1, 1 << 62])
def test_bad_number_of_rows(n):
    with pytest.raises(ValueError, match="n must be"):
        poisson_sample(1, 0.1, n)


# --- bounded integers ---


@pytest.mark.parametrize("bound", [1, 2, 3, 6, 10, 255, 1000])
def test_small_bounds(bound):
    draws = uniform_integers(1, bound, 200_000)
    assert draws.min() >= 0
    assert_uniform(draws, bound)


def test_a_product_without_rejection_would_be_noticed():
    bound = 3 << 30
    biased = (np.random.default_rng(0).integers(0, 1 << 32, 200_000) * bound) >> 32
    assert chi_square_p_value(np.bincount(biased % 3, minlength=3), np.full(3, 1 / 3)) < FALSE_ALARM


bounds = st.sampled_from([1, 2, 3, 3 << 30, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 3 << 61, 1 << 63])


@settings(max_examples=100)
@given(awkward_streams, bounds | st.integers(1, 2**63))
def test_integers_equal_twin(source, bound):
    assert_equals_twin(
        source,
        lambda bits: samplers.uniform_integers(bits, bound, 30),
        lambda reader: [twin.below(reader, bound) for _ in range(30)],
    )


def test_shapes_and_bad_bounds():
    assert uniform_integers(1, 5, (2, 3)).shape == (2, 3)
    assert uniform_integers(1, 5, 0).size == 0
    for bound in (0, -1, (1 << 63) + 1):
        with pytest.raises(ValueError, match="bound"):
            uniform_integers(1, bound, 1)


# --- permutations ---


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_orders_are_equally_likely(n):
    bits, index = random_bits(1), {p: i for i, p in enumerate(itertools.permutations(range(n)))}
    drawn = [index[tuple(permutation(bits, n).tolist())] for _ in range(30_000)]
    assert_uniform(drawn, len(index))


@settings(max_examples=60)
@given(awkward_streams, st.integers(0, 400), st.booleans())
def test_permutation_equals_twin(source, n, narrow):
    assert_equals_twin(
        source,
        lambda bits: samplers.permutation(bits, n, narrow),
        lambda reader: twin.permutation(reader, n),
    )


def test_bad_permutations():
    with pytest.raises(ValueError, match="n must be"):
        permutation(1, -1)
    with pytest.raises(ValueError, match="int32"):
        samplers.permutation(random_bits(1), (1 << 31) + 1, True)


# --- without replacement ---


@pytest.mark.parametrize(("n", "size"), [(5, 1), (6, 3), (7, 7), (7, 5), (4, 0)])
def test_all_sets_are_equally_likely(n, size):
    bits, index = random_bits(1), {s: i for i, s in enumerate(itertools.combinations(range(n), size))}
    drawn = [index[tuple(sample_without_replacement(bits, n, size).tolist())] for _ in range(20_000)]
    assert_uniform(drawn, len(index))


def assert_set_equals_twin(source, n, size):
    assert_equals_twin(
        source,
        lambda bits: samplers.sample_without_replacement(bits, n, size),
        lambda reader: twin.sample_without_replacement(reader, n, size),
    )


sizes = st.tuples(st.integers(0, 3000), st.integers(0, 200)).filter(lambda s: s[1] <= s[0])


@settings(max_examples=150)
@given(awkward_streams, sizes | st.tuples(st.integers(10**5, 2**62), st.integers(0, 100)))
def test_sets_equal_twin(source, case):
    assert_set_equals_twin(source, *case)


@pytest.mark.parametrize("n", [100, 1_000_000])
def test_repeated_numbers_are_replaced(n):
    with pytest.raises(RuntimeError, match="broken"):  # a zero is rejected unless the bound is a power of two
        samplers.sample_without_replacement(constant_bits(b"\x00"), n, 40)
    same = pack([(32, 0x40000000), (32, 0x40000001)] * 2000)
    assert_set_equals_twin(ScriptedSource(same, tail_seed=0), n, 40)
    drawn = samplers.sample_without_replacement(samplers.RandomBits(ScriptedSource(same, tail_seed=0)), n, 40)
    assert len(set(drawn.tolist())) == 40
    assert drawn.dtype == np.int64


@pytest.mark.parametrize(("n", "size"), [(3, 4), (-1, 0), (3, -1), ((1 << 62) + 1, 1)])
def test_bad_sizes(n, size):
    with pytest.raises(ValueError, match="size must be"):
        sample_without_replacement(1, n, size)


# --- all of them ---

LONG = {
    "poisson": lambda bits: poisson_sample(bits, 0.04, 60_000_000),
    "poisson, small rate": lambda bits: poisson_sample(bits, 0.01, 200_000_000),
    "permutation": lambda bits: permutation(bits, 3_000_000),
    "integers": lambda bits: uniform_integers(bits, 1000, 5_000_000),
    "without replacement": lambda bits: sample_without_replacement(bits, 10_000_000, 1_000_000),
    "norm-Laplace, float": lambda bits: norm_laplace(1.0, 6_000_000, bits),
    "norm-Laplace, exact": lambda bits: norm_laplace(1.0, 100_000, bits, noise="exact", grid=2.0**-20),
    "discrete Laplace": lambda bits: samplers.discrete_laplace(bits, 1, 5, 400_000),
}


class RepeatingSource:
    """Returns the same bytes over and over, in a single call that keeps the GIL."""

    block = np.random.default_rng(0).bytes(65536)

    def fill(self, buffer):
        buffer[:] = self.block[: len(buffer)]
        return len(buffer)


def share_of_time_without_others(draw):
    """The share of the running time of `draw` that had passed when another thread first ran."""
    bits, running, done = samplers.RandomBits(RepeatingSource()), threading.Event(), threading.Event()
    ends = []

    def work():
        running.set()
        ends.append(time.perf_counter())
        draw(bits)
        ends.append(time.perf_counter())
        done.set()

    # No thread is forced to switch, and this source (unlike OpenSSL's) never releases the GIL: another thread
    # can run only when the sampler does.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    thread = threading.Thread(target=work)
    try:
        thread.start()
        running.wait()
        time.sleep(0)
        first_turn = time.perf_counter()
        while not done.is_set():
            time.sleep(0.001)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    return (first_turn - ends[0]) / (ends[1] - ends[0])


@pytest.mark.parametrize("draw", LONG.values(), ids=LONG)
def test_other_threads_run_meanwhile(draw):
    # Several attempts, as the machine may be busy; with a sampler that keeps the GIL, others run at the end.
    assert any(share_of_time_without_others(draw) < 0.3 for _ in range(10))


@pytest.mark.parametrize("draw", LONG.values(), ids=LONG)
def test_failure_of_the_source_comes_out(draw):
    error = OSError("no entropy")
    script = np.random.default_rng(0).bytes(256 + 512 + 1024)
    with pytest.raises(OSError, match="no entropy") as caught:
        draw(samplers.RandomBits(ScriptedSource(script, error=error)))
    assert caught.value is error


SHORT = {
    "poisson": lambda bits: poisson_sample(bits, 0.1, 5000),
    "poisson, small rate": lambda bits: poisson_sample(bits, 0.01, 50_000),
    "permutation": lambda bits: permutation(bits, 1000),
    "integers": lambda bits: uniform_integers(bits, 1000, 500),
    "without replacement": lambda bits: sample_without_replacement(bits, 10_000, 100),
    "discrete Laplace": lambda bits: samplers.discrete_laplace(bits, 1, 5, 400),
}


@pytest.mark.parametrize("draw", SHORT.values(), ids=SHORT)
def test_seeded_samples_repeat_and_others_differ(draw):
    assert np.array_equal(draw(random_bits(5)), draw(random_bits(5)))
    bits = random_bits(5)
    first, second = draw(bits), draw(bits)
    assert first.shape != second.shape or not np.array_equal(first, second)
    third, fourth = draw(random_bits()), draw(random_bits())
    assert third.shape != fourth.shape or not np.array_equal(third, fourth)


def test_unknown_instruction_set():
    with pytest.raises(ValueError, match="sse9"):
        samplers.use_instruction_set("sse9")
