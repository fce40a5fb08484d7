"""Time per draw of the exact samplers, compared with floating-point noise and with their random bytes.

    pytest bench/bench_samplers.py --benchmark-columns=median,iqr,rounds
    python bench/bench_samplers.py [--rounds 15] [--dimensions 1000000]

The extra column ``nanoseconds_per_draw`` of the first is the median time divided by the draws per call. The
second prints the ratio of numpy's time to ours for norm-Laplace noise. Our bytes are cryptographic, numpy's
are not.
"""

import numpy as np
import pytest

from dperm._kernels import samplers
from dperm.mechanisms import discrete_laplace, norm_laplace
from dperm.mechanisms.noise import gaussian_integers
from dperm.mechanisms.random_source import random_bits, random_source
from dperm.mechanisms.sampling import permutation, poisson_sample, sample_without_replacement
from dperm.mechanisms.selection import exponential_mechanism, permute_and_flip, report_noisy_min
from measuring import command_line, ratio, show

DRAWS = 200_000


def per_draw(benchmark, draws, function):
    benchmark(function)
    if benchmark.stats is not None:  # None if benchmarks only run as tests
        benchmark.extra_info["nanoseconds_per_draw"] = 1e9 * benchmark.stats.stats.median / draws


@pytest.mark.parametrize("grid_exponent", [0, -20, -40, -54])
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


@pytest.mark.parametrize("candidates", [2, 21, 1000])
def test_permute_and_flip(benchmark, candidates):
    bits, scores = random_bits(), np.arange(candidates) << 20
    per_draw(benchmark, 1, lambda: permute_and_flip(bits, scores, 0.1 / 2**20))


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_report_noisy_min(benchmark, noise):
    bits, scores = random_bits(), np.arange(21) << 20
    per_draw(benchmark, 21, lambda: report_noisy_min(bits, scores, 10 * 2.0**20, noise))


def test_discrete_laplace(benchmark):
    bits = random_bits()
    per_draw(benchmark, DRAWS, lambda: discrete_laplace(1000.0, DRAWS, bits))


DIMENSIONS = [110, 10_000, 1_000_000]


@pytest.mark.parametrize("d", DIMENSIONS)
def test_norm_laplace_float(benchmark, d):
    bits = random_bits()
    per_draw(benchmark, d, lambda: norm_laplace(2.0, d, bits))


@pytest.mark.parametrize("d", DIMENSIONS)
def test_norm_laplace_exact(benchmark, d):
    bits = random_bits()
    per_draw(benchmark, d, lambda: norm_laplace(2.0, d, bits, noise="exact", grid=2.0**-20))


def numpy_norm_laplace(rng, d):
    z = rng.standard_normal(d)
    z *= rng.gamma(d, 2.0) / np.linalg.norm(z)
    return z


@pytest.mark.parametrize("d", DIMENSIONS)
def test_numpy_norm_laplace(benchmark, d):
    rng = np.random.default_rng(1)
    per_draw(benchmark, d, lambda: numpy_norm_laplace(rng, d))


ROWS = 1_000_000
RATES = [0.00256, 0.01, 0.5]


@pytest.mark.parametrize("q", RATES)
def test_poisson_sample(benchmark, q):
    bits = random_bits()
    per_draw(benchmark, ROWS, lambda: poisson_sample(bits, q, ROWS))


@pytest.mark.parametrize("q", RATES)
def test_numpy_poisson_sample(benchmark, q):
    rng = np.random.default_rng(1)
    per_draw(benchmark, ROWS, lambda: np.flatnonzero(rng.random(ROWS) < q))


@pytest.mark.parametrize("n", [10_000, 1_000_000])
def test_permutation(benchmark, n):
    bits = random_bits()
    per_draw(benchmark, n, lambda: permutation(bits, n))


@pytest.mark.parametrize("n", [10_000, 1_000_000])
def test_numpy_permutation(benchmark, n):
    rng = np.random.default_rng(1)
    per_draw(benchmark, n, lambda: rng.permutation(n))


@pytest.mark.parametrize(("n", "size"), [(1_000_000, 10_000), (10**9, 1000)])
def test_sample_without_replacement(benchmark, n, size):
    bits = random_bits()
    per_draw(benchmark, size, lambda: sample_without_replacement(bits, n, size))


@pytest.mark.parametrize(("n", "size"), [(1_000_000, 10_000), (10**9, 1000)])
def test_numpy_sample_without_replacement(benchmark, n, size):
    rng = np.random.default_rng(1)
    per_draw(benchmark, size, lambda: rng.choice(n, size, replace=False, shuffle=False))


@pytest.mark.parametrize("random_state", [None, 1], ids=["cryptographic", "seeded"])
def test_bytes(benchmark, random_state):
    """Nanoseconds per 64-bit word, directly from the source."""
    source, buffer = random_source(random_state), memoryview(bytearray(65536))
    per_draw(benchmark, 8192, lambda: source.fill(buffer))


def test_uniform_words(benchmark):
    bits = random_bits()
    per_draw(benchmark, DRAWS, lambda: samplers.uniform_words(bits, DRAWS))


def print_norm_laplace_ratio(d, rounds):
    """Numpy compared with floating-point and with exact noise."""
    rng = np.random.default_rng(1)
    sides = {
        "float, cryptographic": (random_bits(), {}),
        "float, seeded": (random_bits(1), {}),
        "exact, cryptographic": (random_bits(), {"noise": "exact", "grid": 2.0**-20}),
    }
    for name, (bits, options) in sides.items():
        value = ratio(
            lambda: numpy_norm_laplace(rng, d),
            lambda bits=bits, options=options: norm_laplace(2.0, d, bits, **options),
            rounds,
        )
        show(f"norm-Laplace, {d} weights, numpy / {name}", value)


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=15, dimensions=[1_000_000])
    for d in arguments.dimensions:
        print_norm_laplace_ratio(d, arguments.rounds)
