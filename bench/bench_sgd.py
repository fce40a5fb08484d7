"""Single-record stochastic gradient descent compared with the same loop in numpy.

    pytest bench/bench_sgd.py --benchmark-only
    python bench/bench_sgd.py [--rounds 3] [--steps 10000000]

The second prints ratios: batches of one record, 110 weights, noise on every step. "float" and "none" run for
``--steps`` steps, exact noise for a 200th of that. The last column extrapolates to n^2 steps, the published
number for `rrpsgd`, for the 32,561 records of Adult. With two or more threads the second one draws the noise.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from dperm import Objective
from dperm.accounting import GaussianRelease, ScheduledBudget
from dperm.mechanisms.descent_batches import UniformBatches
from dperm.mechanisms.random_source import random_bits, random_source
from dperm.mechanisms.release import Releaser
from dperm.objective.stochastic_descent import CyclicBatches, DescentPlan
from measuring import command_line, times_in_turn

N, D, CLIP, ETA, SIGMA = 32_561, 110, 0.5, 0.01, 0.7
NUMPY_STEPS = 50_000


def records(dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """As many records as Adult has, of norm about 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) / np.sqrt(D)
    y = np.where(X @ rng.normal(size=D) + rng.normal(size=N) > 0, 1.0, -1.0)
    return X.astype(dtype), y.astype(dtype)


def numpy_loop(X: np.ndarray, y: np.ndarray, steps: int, noisy: bool = True) -> np.ndarray:
    """One uniformly drawn record, clip and noise per step; indices are drawn in advance."""
    rng = np.random.default_rng(1)
    norms = np.linalg.norm(X, axis=1)
    w, total = np.zeros(D), np.zeros(D)
    for i in rng.integers(0, N, steps):
        total += w
        x = X[i]
        s = -y[i] * expit(-y[i] * (x @ w))
        s *= min(1.0, CLIP / max(abs(s) * norms[i], 1e-300))
        gradient = s * x
        if noisy:
            gradient = gradient + rng.normal(scale=2 * CLIP * SIGMA, size=D)
        w -= ETA * gradient
    return total / steps


def dperm_loop(
    objective: Objective, steps: int, noise: str = "float", random_state: int | None = None
) -> np.ndarray:
    """The same with cryptographic batches and noise, or in a random order without noise."""
    plan = DescentPlan(objective.loss, steps, 1, ETA, CLIP)
    if noise == "none":
        run = objective._descent(plan, CLIP, 0.0)
        return run.make(CyclicBatches(np.random.default_rng(1).permutation(N), 1)).average
    source = random_source(random_state)
    bits = random_bits(source.spawn(1)[0])
    budget = ScheduledBudget(GaussianRelease(SIGMA), steps, "pld")
    settings = {"neighbors": "replace_one", "ledger": None, "description": "bench"}
    releaser = Releaser(1.0, 1e-6, budget, random_state=source, **settings)
    descent = objective.stochastic_descent(plan, UniformBatches(bits, N, 1))
    return releaser.noisy_descent(descent, SIGMA, noise=noise).average


@pytest.mark.benchmark(group="20,000 steps of one record, 110 columns")
class TestSteps:
    @pytest.mark.parametrize("noise", ["float", "exact", "none"])
    def test_dperm(self, benchmark, noise):
        X, y = records()
        benchmark(dperm_loop, Objective("logistic", X, y, row_norm=2.0), 20_000, noise)

    @pytest.mark.parametrize("noisy", [True, False])
    def test_numpy(self, benchmark, noisy):
        benchmark.pedantic(numpy_loop, (*records(), 20_000, noisy), rounds=2)


def compare(dtype: str, noise: str, steps: int, rounds: int) -> None:
    """One line of the table."""
    X, y = records(dtype)
    objective = Objective("logistic", X, y, row_norm=2.0)
    sides = {
        "dperm": lambda: dperm_loop(objective, steps, noise),
        "numpy": lambda: numpy_loop(X, y, NUMPY_STEPS, noise != "none"),
    }
    times = times_in_turn(sides, rounds)
    per_step, numpy_per_step = times["dperm"] / steps, times["numpy"] / NUMPY_STEPS
    ours, theirs = np.median(per_step), np.median(numpy_per_step)
    ratio = np.median(numpy_per_step / per_step)
    print(
        f"| {dtype} | {noise} | {steps:.0e} | {1 / ours:,.0f} | {1 / theirs:,.0f} | {ratio:.1f} "
        f"| {ours * N**2 / 60:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=3, steps=10_000_000)
    print("| rows | noise | steps | steps a second | numpy's | numpy / dperm | n^2 = 1.06e9 steps, minutes |")
    for dtype in ("float64", "float32"):
        for noise in ("float", "none", "exact"):
            steps = arguments.steps if noise != "exact" else max(1, arguments.steps // 200)
            compare(dtype, noise, steps, arguments.rounds)
