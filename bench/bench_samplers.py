"""Time per draw of the exact samplers, compared with numpy and with their random bytes.

    pytest bench/bench_samplers.py --benchmark-columns=median,iqr,rounds

The extra column ``nanoseconds_per_draw`` is the median time divided by the draws per call. Our bytes are
cryptographic, numpy's are not.
"""

from collections.abc import Callable

import numpy as np
import pytest

from dperm.mechanisms import discrete_laplace, norm_laplace
from dperm.mechanisms.noise import gaussian_integers
from dperm.mechanisms.random_source import random_bits, random_source
from dperm.mechanisms.sampling import permutation, poisson_sample, sample_without_replacement
from dperm.mechanisms.selection import exponential_mechanism, permute_and_flip, report_noisy_min

DRAWS, ROWS, RATE, BATCH = 200_000, 1_000_000, 0.00256, 10_000
BITS, SEEDED, RNG = random_bits(), random_bits(1), np.random.default_rng(1)
SCORES = np.arange(21) << 20
SOURCE, BUFFER = random_source(), memoryview(bytearray(65536))


def numpy_norm_laplace(d: int) -> np.ndarray:
    """Noise whose density falls with the norm, in floating point."""
    z = RNG.standard_normal(d)
    return z * (RNG.gamma(d, 2.0) / np.linalg.norm(z))


#: What is drawn: draws per call, and the call.
CALLS: dict[str, tuple[int, Callable[[], object]]] = {
    "words of the source": (8192, lambda: SOURCE.fill(BUFFER)),
    "rounded Gaussian": (DRAWS, lambda: gaussian_integers(BITS, 3.7, -20, DRAWS)),
    "rounded Gaussian, fine grid": (DRAWS, lambda: gaussian_integers(BITS, 3.7, -54, DRAWS)),
    "rounded Gaussian, seeded": (DRAWS, lambda: gaussian_integers(SEEDED, 3.7, -20, DRAWS)),
    "rounded Gaussian, one a call": (1, lambda: gaussian_integers(BITS, 3.7, -20, 1)),
    "rounded Gaussian, a new source": (100, lambda: gaussian_integers(random_bits(), 3.7, -20, 100)),
    "rounded Gaussian, numpy": (
        DRAWS,
        lambda: np.rint(RNG.standard_normal(DRAWS) * (3.7 * 2**20)).astype(np.int64),
    ),
    "discrete Laplace": (DRAWS, lambda: discrete_laplace(1000.0, DRAWS, BITS)),
    "norm-Laplace": (DRAWS, lambda: norm_laplace(2.0, DRAWS, BITS)),
    "norm-Laplace, exact": (
        DRAWS,
        lambda: norm_laplace(2.0, DRAWS, BITS, noise="exact", grid=2.0**-20),
    ),
    "norm-Laplace, numpy": (DRAWS, lambda: numpy_norm_laplace(DRAWS)),
    "exponential mechanism, 21": (1, lambda: exponential_mechanism(BITS, SCORES, 0.1 / 2**20)),
    "permute and flip, 21": (1, lambda: permute_and_flip(BITS, SCORES, 0.1 / 2**20)),
    "report noisy min, 21": (21, lambda: report_noisy_min(BITS, SCORES, 10 * 2.0**20, "exponential")),
    "Poisson sample": (ROWS, lambda: poisson_sample(BITS, RATE, ROWS)),
    "Poisson sample, numpy": (ROWS, lambda: np.flatnonzero(RNG.random(ROWS) < RATE)),
    "permutation": (ROWS, lambda: permutation(BITS, ROWS)),
    "permutation, numpy": (ROWS, lambda: RNG.permutation(ROWS)),
    "without replacement": (BATCH, lambda: sample_without_replacement(BITS, ROWS, BATCH)),
    "without replacement, numpy": (
        BATCH,
        lambda: RNG.choice(ROWS, BATCH, replace=False, shuffle=False),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_draws(benchmark, name):
    draws, call = CALLS[name]
    benchmark(call)
    if benchmark.stats is not None:  # None if benchmarks only run as tests
        benchmark.extra_info["nanoseconds_per_draw"] = 1e9 * benchmark.stats.stats.median / draws
