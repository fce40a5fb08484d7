"""Exact sums of outer products compared with BLAS.

    pytest bench/bench_second_moments.py --benchmark-only [--size large]

BLAS only multiplies; the exact sums also scale and round every row. ``--size large`` uses a million rows.
"""

import numpy as np
import pytest

from dperm.private_values.linear_map import LinearMap
from problems import objective, problem

DTYPES = ["float64", "float32"]


@pytest.mark.benchmark(group="sum of outer products")
@pytest.mark.parametrize("dtype", DTYPES)
class TestOuterProducts:
    def test_gram_sum(self, benchmark, size, dtype):
        benchmark(objective(size, dtype).gram_sum)

    def test_hessian_sum(self, benchmark, size, dtype):
        benchmark(objective(size, dtype).hessian_sum, problem(size, dtype)[2])

    def test_blas(self, benchmark, size, dtype):
        X = problem(size, dtype)[0]
        benchmark(lambda: X.T @ X)


@pytest.mark.benchmark(group="gradient sum through a matrix")
@pytest.mark.parametrize("dtype", DTYPES)
class TestMappedGradient:
    def test_mapped(self, benchmark, size, dtype):
        w, linear_map = problem(size, dtype)[2], LinearMap.rounding(np.eye(120))
        benchmark(objective(size, dtype).mapped_gradient_sum, w, 0.5, linear_map)

    def test_plain(self, benchmark, size, dtype):
        benchmark(objective(size, dtype).clipped_gradient_sum, problem(size, dtype)[2], 0.5)
