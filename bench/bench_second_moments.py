"""Exact sums of outer products compared with BLAS.

    pytest bench/bench_second_moments.py --benchmark-only [--size large]
    python bench/bench_second_moments.py adult kddcup99

BLAS only multiplies; the exact sums also scale and round every row. ``--size large`` uses a million rows. The
second prints median ratios on real data, both sides timed alternately in one process.
"""

import sys

import numpy as np
import pytest

import dperm
from dperm import Objective
from dperm.private_values.linear_map import LinearMap
from measuring import times_in_turn
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


def compare(name: str, rounds: int = 9) -> None:
    """Print times and the median ratios to BLAS."""
    data = dperm.datasets.load(name, dense=True)
    for dtype in (np.float64, np.float32):
        X = np.ascontiguousarray(data.X, dtype=dtype)
        tested = Objective("logistic", X, data.y.astype(dtype), row_norm=data.row_norm, fit_intercept=True)
        w = np.full(tested.dimension, 0.1)
        calls = {
            "X.T @ X": lambda X=X: X.T @ X,
            "gram_sum": tested.gram_sum,
            "hessian_sum": lambda tested=tested, w=w: tested.hessian_sum(w),
            "moment_sums": lambda tested=tested: tested.moment_sums(1.0),
        }
        times = times_in_turn(calls, rounds)
        for label, taken in times.items():
            ratio, median = np.median(taken / times["X.T @ X"]), 1e3 * np.median(taken)
            print(
                f"{name} {X.shape} {dtype.__name__:8} {label:12} {median:8.1f} ms  {ratio:5.2f}", flush=True
            )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        compare(argument)
