"""Whole algorithms, passes of other losses and the circulant solve, compared with numpy.

pytest bench/bench_algorithms.py --benchmark-only [--size large]

Both sides do the same steps; our noise is exact and cryptographic, numpy's is neither.
"""

import numpy as np
import pytest

from dperm import Objective
from dperm.algorithms import noisy_gd, output_perturbation_gd
from dperm.losses import Huber
from dperm.mechanisms import laplacian_smoothing
from dperm.objective.gradients import clipped_gradient_sum
from problems import CLIP, objective, problem, twin

STEPS, STEP_SIZE = 30, 1.0

#: Slopes of a prediction, in place.
SLOPES = {
    "huber": lambda p, y: np.clip(np.subtract(p, y, out=p), -0.5, 0.5, out=p),
    "hinge": lambda p, y: np.where(p * y < 1.0, -y, 0.0),
}


def numpy_gradient(loss: str, X: np.ndarray, y: np.ndarray, norms: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Two products with the matrix, no gradients of single records."""
    slopes = SLOPES[loss](X @ w.astype(X.dtype), y)
    slopes *= np.minimum(1.0, CLIP / np.maximum(np.abs(slopes) * norms, 1e-30))
    return slopes @ X


@pytest.mark.parametrize("loss", SLOPES)
@pytest.mark.benchmark(group="gradient pass, other losses")
class TestPasses:
    def test_dperm(self, benchmark, size, loss):
        X, y, w, _ = problem(size, "float64")
        of_records = Huber(0.5, target_bound=1.0) if loss == "huber" else loss
        benchmark(clipped_gradient_sum, Objective(of_records, X, y, row_norm=2.0), w, CLIP)

    def test_numpy(self, benchmark, size, loss):
        X, y, w, _ = problem(size, "float64")
        benchmark(numpy_gradient, loss, X, y, np.linalg.norm(X, axis=1), w)


@pytest.mark.parametrize("d", [1000, 1_000_000])
@pytest.mark.benchmark(group="circulant solve")
class TestSmoothing:
    def test_dperm(self, benchmark, d):
        benchmark(laplacian_smoothing, np.random.default_rng(0).normal(size=d), 1.0)

    def test_numpy(self, benchmark, d):
        v = np.random.default_rng(0).normal(size=d)
        inverse = 1.0 / (1.0 + 4.0 * np.sin(np.pi * np.arange(d // 2 + 1) / d) ** 2)
        benchmark(lambda: np.fft.irfft(np.fft.rfft(v) * inverse, d))


def numpy_descent(X: np.ndarray, y: np.ndarray, step_noise: float, last_noise: float) -> np.ndarray:
    """Gradient descent with noise on every step, or on the result."""
    norms, w, rng = np.linalg.norm(X, axis=1), np.zeros(X.shape[1]), np.random.default_rng()
    for _ in range(STEPS):
        gradient = twin.clipped_logistic_gradient(X, y, norms, w, CLIP)
        w = w - STEP_SIZE * (gradient + step_noise * rng.normal(size=w.size)) / len(y)
    return w + last_noise * rng.normal(size=w.size)


@pytest.mark.benchmark(group=f"noisy_gd, {STEPS} steps")
class TestNoisyDescent:
    def test_dperm(self, benchmark, size):
        terms = {"steps": STEPS, "step_size": STEP_SIZE, "clip": CLIP, "momentum": 0.0, "tail": 1.0}
        benchmark(noisy_gd, objective(size, "float64"), 1.0, 1e-6, learn_scales=False, **terms)

    def test_numpy(self, benchmark, size):
        benchmark(numpy_descent, *problem(size, "float64")[:2], 10.0, 0.0)


@pytest.mark.benchmark(group=f"output_perturbation_gd, {STEPS} steps")
class TestOutputPerturbation:
    def test_dperm(self, benchmark, size):
        terms = {"steps": STEPS, "step_size": STEP_SIZE, "clip": CLIP, "mechanism": "gaussian"}
        benchmark(output_perturbation_gd, objective(size, "float64"), 1.0, 1e-6, **terms)

    def test_numpy(self, benchmark, size):
        benchmark(numpy_descent, *problem(size, "float64")[:2], 0.0, 0.1)
