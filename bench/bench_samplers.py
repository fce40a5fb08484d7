"""Time per draw of the exact samplers, next to floating-point noise and to the bytes they need.

Run: pytest bench/bench_samplers.py --benchmark-columns=median,iqr,rounds
The extra column ``nanoseconds_per_draw`` is the median divided by the number of draws of a call.
"""

import numpy as np
import pytest

from dperm._kernels import samplers
from dperm.mechanisms.noise import gaussian_integers
from dperm.mechanisms.random_source import random_bits, random_source
from dperm.mechanisms.selection import exponential_mechanism

DRAWS = 200_000


def per_draw(benchmark, draws, function):
    benchmark(function)
    if benchmark.stats is not None:  # None when benchmarks only run as tests
        benchmark.extra_info["nanoseconds_per_draw"] = 1e9 * benchmark.stats.stats.median / draws


@pytest.mark.parametrize("grid_exponent", [0, -20, -40, -56])
@pytest.mark.parametrize("random_state", [None, 1], ids=["cryptographic", "seeded"])
def test_rounded_gaussian(benchmark, random_state, grid_exponent):
    bits = random_bits(random_state)
    per_draw(benchmark, DRAWS, lambda: gaussian_integers(bits, 3.7, grid_exponent, DRAWS))


def test_rounded_gaussian_one_draw_a_call(benchmark):
    bits = random_bits()
    per_draw(benchmark, 1, lambda: gaussian_integers(bits, 3.7, -20, 1))


def test_rounded_gaussian_from_a_new_source(benchmark):
    per_draw(benchmark, 100, lambda: gaussian_integers(random_bits(), 3.7, -20, 100))


def test_numpy_normal_rounded(benchmark):
    rng = np.random.default_rng(1)
    per_draw(benchmark, DRAWS, lambda: np.rint(rng.standard_normal(DRAWS) * (3.7 * 2**20)).astype(np.int64))


@pytest.mark.parametrize("candidates", [2, 21, 1000])
def test_exponential_mechanism(benchmark, candidates):
    bits, scores = random_bits(), np.arange(candidates) << 20
    per_draw(benchmark, 1, lambda: exponential_mechanism(bits, scores, 0.1 / 2**20))


@pytest.mark.parametrize("random_state", [None, 1], ids=["cryptographic", "seeded"])
def test_bytes(benchmark, random_state):
    """Nanoseconds per 64-bit word, straight from the source."""
    source, buffer = random_source(random_state), memoryview(bytearray(65536))
    per_draw(benchmark, 8192, lambda: source.fill(buffer))


def test_uniform_words(benchmark):
    bits = random_bits()
    per_draw(benchmark, DRAWS, lambda: samplers.uniform_words(bits, DRAWS))
