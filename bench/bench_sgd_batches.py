"""A DP-SGD epoch on Poisson batches compared with the best numpy, and Laplacian smoothing with numpy's FFT.

    python bench/bench_sgd_batches.py [--rounds 9] [--threads 1]

Numpy draws its samples by geometric gaps and its noise in floating point, neither of which is exact, and
gathers batches into a preallocated buffer; both sides keep one vector of weights and take plain steps. Whole
fits of Opacus are compared by ``peers/run.py``.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from dperm import Objective
from dperm.algorithms import dp_sgd
from dperm.mechanisms import laplacian_smoothing
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.sampling import poisson_sample
from measuring import command_line, milliseconds, ratio, show

N, D, BATCH, CLIP, STEP = 200_000, 100, 2048, 0.5, 0.1
STEPS = N // BATCH + 1
EPSILON, DELTA = 1.0, 1e-6


def data(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm about 1 and labels."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((N, D)) / math.sqrt(D)).astype(dtype)
    return X, np.where(X[:, 0] + rng.normal(size=N) > 0, 1.0, -1.0).astype(dtype)


def numpy_epoch(X: np.ndarray, y: np.ndarray, noise_multiplier: float) -> Callable[[], np.ndarray]:
    """One gather and two products per step, and no array of per-record gradients."""
    norms = np.linalg.norm(X, axis=1)
    rng = np.random.default_rng()
    rate = BATCH / N
    gaps = int(BATCH + 8 * math.sqrt(BATCH))
    room = np.empty((gaps, D), dtype=X.dtype)

    def epoch() -> np.ndarray:
        w = np.zeros(D)
        for _ in range(STEPS):
            batch = np.cumsum(rng.geometric(rate, gaps)) - 1
            batch = batch[: np.searchsorted(batch, N)]
            # Into a preallocated buffer, without checking the indices: half the time of X[batch].
            rows = np.take(X, batch, axis=0, out=room[: batch.size], mode="clip")
            targets = y[batch]
            s = -targets * expit(-targets * (rows @ w.astype(X.dtype)))
            s *= np.minimum(1.0, CLIP / np.maximum(np.abs(s) * norms[batch], 1e-30))
            noise = rng.normal(scale=noise_multiplier * CLIP, size=D)
            w = w - STEP * (s @ rows + noise) / BATCH
        return w

    return epoch


def epochs(dtype: str, threads: int | None, rounds: int) -> None:
    """Ratios of whole epochs."""
    X, y = data(dtype)
    objective = Objective("logistic", X, y, row_norm=2.0, n_threads=threads)
    settings = {"batch_size": BATCH, "steps": STEPS, "clip": CLIP, "step_size": STEP, "momentum": 0.0}
    z = dp_sgd(objective, EPSILON, DELTA, **settings).privacy.noise_scale / CLIP

    def compiled() -> object:
        return dp_sgd(objective, EPSILON, DELTA, **settings)

    numpy_best = numpy_epoch(X, y, z)
    show(f"{dtype}: DP-SGD epoch (milliseconds)", milliseconds(compiled))
    show(f"{dtype}: DP-SGD epoch, best numpy / dperm", ratio(numpy_best, compiled, rounds))
    sampling_share(objective, rounds)


def sampling_share(objective: Objective, rounds: int) -> None:
    """Time of drawing a batch, relative to the time of its gradient sum."""
    bits = random_bits(None)
    weights = np.full(D, 0.1)
    batches = SecretBatches("poisson", bits, BATCH, N)

    def draw() -> object:
        return [poisson_sample(bits, BATCH / N, N) for _ in range(50)]

    def draw_and_sum() -> object:
        return [objective.clipped_gradient_sum(weights, CLIP, rows=next(batches)) for _ in range(50)]

    share = 1.0 / ratio(draw_and_sum, draw, rounds)
    show("Poisson sample / the sum of its clipped gradients", share / (1.0 - share))


def smoothing(d: int, sigma: float, threads: int | None, rounds: int) -> None:
    """Ratio of one solve."""
    v = np.random.default_rng(0).normal(size=d)
    inverse = 1.0 / (1.0 + 4.0 * sigma * np.sin(np.pi * np.arange(d // 2 + 1) / d) ** 2)

    def transform() -> object:
        return np.fft.irfft(np.fft.rfft(v) * inverse, d)

    def recurrences() -> object:
        return laplacian_smoothing(v, sigma, n_threads=threads)

    show(f"smoothing, d = {d}, sigma = {sigma:g}: numpy FFT / dperm", ratio(transform, recurrences, rounds))


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=9, threads=int)
    for dtype in ("float64", "float32"):
        epochs(dtype, arguments.threads, arguments.rounds)
    for d in (1000, 1_000_000):
        for sigma in (1.0, 1e6):
            smoothing(d, sigma, arguments.threads, arguments.rounds)
