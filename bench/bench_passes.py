"""Passes over the data next to numpy: ``pytest bench --benchmark-only``."""

import numpy as np
import pytest

from problems import objective, problem
from reference import numpy_algorithms as twin

CLIP = 0.5
STEPS = np.linspace(0.0, 2.0, 20)
DTYPES = ["float64", "float32"]


@pytest.fixture(params=DTYPES)
def dtype(request):
    return request.param


@pytest.mark.benchmark(group="gradient pass")
class TestGradientPass:
    def test_dperm(self, benchmark, size, dtype):
        w = problem(size, dtype)[2]
        benchmark(objective(size, dtype).clipped_gradient_sum, w, CLIP)

    def test_best_numpy(self, benchmark, size, dtype):
        X, y, w, _ = problem(size, dtype)
        norms = np.linalg.norm(X, axis=1)
        benchmark(twin.clipped_logistic_gradient, X, y, norms, w.astype(dtype), CLIP)

    def test_materialising_numpy(self, benchmark, size, dtype):
        X, y, w, _ = problem(size, dtype)
        benchmark(twin.clipped_logistic_gradient_materialised, X, y, w.astype(dtype), CLIP)

    def test_read_only(self, benchmark, size, dtype):
        obj = objective(size, dtype)
        benchmark(obj._rows.entry_sum, obj._threads())


@pytest.mark.benchmark(group="line search, 20 steps")
class TestLineSearch:
    def test_dperm(self, benchmark, size, dtype):
        _, _, w, direction = problem(size, dtype)
        benchmark(objective(size, dtype).clipped_loss_sums, w, direction, STEPS, 4.0)

    def test_best_numpy(self, benchmark, size, dtype):
        X, y, w, direction = problem(size, dtype)
        benchmark(twin.clipped_logistic_losses, X, y, w.astype(dtype), direction.astype(dtype), STEPS, 4.0)
