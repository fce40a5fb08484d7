"""Passes over the data compared with numpy: ``pytest bench --benchmark-only [--size large]``.

``--size large`` uses a million rows. BLAS only multiplies; exact sums also scale, clip and round every row.
"""

import numpy as np
import pytest

from dperm.objective.gradients import mapped_gradient_sum
from dperm.objective.moments import gram_sum
from dperm.private_values.transform import Transform
from measuring import entry_sum
from problems import numpy_passes, objective, passes, problem


@pytest.fixture(params=["float64", "float32"])
def dtype(request):
    return request.param


def ours(size, dtype):
    return passes(objective(size, dtype), *problem(size, dtype)[2:])


@pytest.mark.benchmark(group="gradient pass")
class TestGradientPass:
    def test_dperm(self, benchmark, size, dtype):
        benchmark(ours(size, dtype)[0])

    def test_best_numpy(self, benchmark, size, dtype):
        benchmark(numpy_passes(*problem(size, dtype))[0])

    def test_materialising_numpy(self, benchmark, size, dtype):
        benchmark(numpy_passes(*problem(size, dtype))[1])

    def test_read_only(self, benchmark, size, dtype):
        obj = objective(size, dtype)
        benchmark(entry_sum, obj._rows, obj._threads())


@pytest.mark.benchmark(group="line search, 20 steps")
class TestLineSearch:
    def test_dperm(self, benchmark, size, dtype):
        benchmark(ours(size, dtype)[1])

    def test_best_numpy(self, benchmark, size, dtype):
        benchmark(numpy_passes(*problem(size, dtype))[2])


@pytest.mark.benchmark(group="sum of outer products")
class TestOuterProducts:
    def test_gram_sum(self, benchmark, size, dtype):
        benchmark(gram_sum, objective(size, dtype))

    def test_blas(self, benchmark, size, dtype):
        X = problem(size, dtype)[0]
        benchmark(lambda: X.T @ X)


@pytest.mark.benchmark(group="gradient sum through a matrix")
class TestMappedGradient:
    def test_mapped(self, benchmark, size, dtype):
        w, linear_map = problem(size, dtype)[2], Transform.rounding(np.eye(120))
        benchmark(mapped_gradient_sum, objective(size, dtype), w, 0.5, linear_map)
