"""Stochastic gradient descent, and Laplacian smoothing of its gradients, compared with the best numpy.

    pytest bench/bench_sgd.py --benchmark-only
    python bench/bench_sgd.py [--rounds 9] [--steps 10000000] [--threads 1]

Single records: batches of one, noise on every step; exact noise for a 200th of the steps. Batches: an epoch
of DP-SGD on Poisson samples; numpy draws samples by geometric gaps and noise in floating point, neither of
which is exact, and gathers batches into a preallocated buffer. Smoothing: one solve, against numpy's FFT.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from dperm import Objective
from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.algorithms import dp_sgd
from dperm.mechanisms import laplacian_smoothing
from dperm.mechanisms.descent_batches import UniformBatches
from dperm.mechanisms.random_source import random_bits, random_source
from dperm.mechanisms.release import Releaser
from dperm.objective import descents
from dperm.objective.descents import CyclicBatches, DescentPlan, stochastic_descent
from measuring import command_line, milliseconds, ratio, show, times_in_turn

CLIP, SIGMA, ETA = 0.5, 0.7, 0.01
SINGLE = (32_561, 110)  # records and columns, as many as Adult has
BATCHES = (200_000, 100)
BATCH, STEP = 2048, 0.1
NUMPY_STEPS = 50_000


def records(shape: tuple[int, int], dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm about 1, and labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) / math.sqrt(shape[1])
    y = np.where(X @ rng.normal(size=shape[1]) + rng.normal(size=shape[0]) > 0, 1.0, -1.0)
    return X.astype(dtype), y.astype(dtype)


def numpy_steps(X: np.ndarray, y: np.ndarray, steps: int, noisy: bool = True) -> np.ndarray:
    """One uniformly drawn record, clip and noise per step; indices are drawn in advance."""
    rng = np.random.default_rng(1)
    norms, d = np.linalg.norm(X, axis=1), X.shape[1]
    w, total = np.zeros(d), np.zeros(d)
    for i in rng.integers(0, len(X), steps):
        total += w
        x = X[i]
        s = -y[i] * expit(-y[i] * (x @ w))
        s *= min(1.0, CLIP / max(abs(s) * norms[i], 1e-300))
        gradient = s * x
        if noisy:
            gradient = gradient + rng.normal(scale=2 * CLIP * SIGMA, size=d)
        w -= ETA * gradient
    return total / steps


def single_steps(objective: Objective, steps: int, noise: str = "float") -> np.ndarray:
    """The same with cryptographic batches and noise, or in a random order without noise."""
    n, plan = objective.n_public, DescentPlan(objective.loss, steps, 1, ETA, CLIP)
    if noise == "none":
        run = descents._descent(objective, plan, CLIP, 0.0)
        return run.make(CyclicBatches(np.random.default_rng(1).permutation(n), 1)).average
    source = random_source(None)
    batches = UniformBatches(random_bits(source.spawn(1)[0]), n, 1)
    budget = ScheduledBudget(GaussianRelease(SIGMA), steps, "pld")
    settings = {"neighbors": "replace_one", "ledger": None, "description": "bench"}
    releaser = Releaser(1.0, 1e-6, budget, random_state=source, **settings)
    return releaser.noisy_descent(stochastic_descent(objective, plan, batches), SIGMA, noise=noise).average


def numpy_epoch(X: np.ndarray, y: np.ndarray, noise_multiplier: float) -> Callable[[], np.ndarray]:
    """One gather and two products per step, and no array of per-record gradients."""
    (n, d), rng, norms = X.shape, np.random.default_rng(), np.linalg.norm(X, axis=1)
    gaps = int(BATCH + 8 * math.sqrt(BATCH))
    buffer = np.empty((gaps, d), dtype=X.dtype)

    def epoch() -> np.ndarray:
        w = np.zeros(d)
        for _ in range(n // BATCH + 1):
            batch = np.cumsum(rng.geometric(BATCH / n, gaps)) - 1
            batch = batch[: np.searchsorted(batch, n)]
            # Into a preallocated buffer, without checking the indices: half the time of X[batch].
            rows = np.take(X, batch, axis=0, out=buffer[: batch.size], mode="clip")
            targets = y[batch]
            s = -targets * expit(-targets * (rows @ w.astype(X.dtype)))
            s *= np.minimum(1.0, CLIP / np.maximum(np.abs(s) * norms[batch], 1e-30))
            noise = rng.normal(scale=noise_multiplier * CLIP, size=d)
            w = w - STEP * (s @ rows + noise) / BATCH
        return w

    return epoch


def epoch(objective: Objective) -> Callable[[], object]:
    """The same by `dp_sgd`."""
    settings = {
        "batch_size": BATCH,
        "steps": objective.n_public // BATCH + 1,
        "clip": CLIP,
        "step_size": STEP,
    }
    return lambda: dp_sgd(objective, 1.0, 1e-6, momentum=0.0, **settings)


@pytest.mark.benchmark(group="20,000 steps of one record, 110 columns")
class TestSteps:
    @pytest.mark.parametrize("noise", ["float", "exact", "none"])
    def test_dperm(self, benchmark, noise):
        benchmark(single_steps, Objective("logistic", *records(SINGLE), row_norm=2.0), 20_000, noise)

    def test_numpy(self, benchmark):
        benchmark.pedantic(numpy_steps, (*records(SINGLE), 20_000), rounds=2)


def show_single(dtype: str, noise: str, steps: int, rounds: int) -> None:
    """Lines of single records."""
    X, y = records(SINGLE, dtype)
    objective = Objective("logistic", X, y, row_norm=2.0)
    sides = {
        "dperm": lambda: single_steps(objective, steps, noise),
        "numpy": lambda: numpy_steps(X, y, NUMPY_STEPS, noise != "none"),
    }
    times = times_in_turn(sides, rounds)
    ours, theirs = times["dperm"] / steps, times["numpy"] / NUMPY_STEPS
    show(f"{dtype}: steps of one record a second, {noise} noise", 1.0 / float(np.median(ours)))
    show(f"{dtype}: step of one record, {noise} noise, numpy / dperm", float(np.median(theirs / ours)))


def show_epoch(dtype: str, threads: int | None, rounds: int) -> None:
    """Lines of an epoch."""
    X, y = records(BATCHES, dtype)
    ours = epoch(Objective("logistic", X, y, row_norm=2.0, n_threads=threads))
    theirs = numpy_epoch(X, y, ours().privacy.noise_scale / CLIP)
    show(f"{dtype}: DP-SGD epoch (milliseconds)", milliseconds(ours))
    show(f"{dtype}: DP-SGD epoch, best numpy / dperm", ratio(theirs, ours, rounds))


def show_smoothing(d: int, sigma: float, threads: int | None, rounds: int) -> None:
    """One line."""
    v = np.random.default_rng(0).normal(size=d)
    inverse = 1.0 / (1.0 + 4.0 * sigma * np.sin(np.pi * np.arange(d // 2 + 1) / d) ** 2)
    value = ratio(
        lambda: np.fft.irfft(np.fft.rfft(v) * inverse, d),
        lambda: laplacian_smoothing(v, sigma, n_threads=threads),
        rounds,
    )
    show(f"smoothing, d = {d}, sigma = {sigma:g}: numpy FFT / dperm", value)


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=9, steps=10_000_000, threads=int)
    for dtype in ("float64", "float32"):
        for noise in ("float", "none", "exact"):
            steps = arguments.steps if noise != "exact" else max(1, arguments.steps // 200)
            show_single(dtype, noise, steps, min(arguments.rounds, 3))
        show_epoch(dtype, arguments.threads, arguments.rounds)
    for d in (1000, 1_000_000):
        show_smoothing(d, 1.0, arguments.threads, arguments.rounds)
