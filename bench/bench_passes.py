"""Passes over the data compared with numpy: ``pytest bench --benchmark-only``."""

import pytest

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
