"""The exact clipped softmax gradient on MNIST next to the best numpy.

    python bench/bench_softmax.py [--rounds 9] [--classes 10]

The numpy side makes two matrix products with BLAS in as many threads, and clips in floating point. Both sides
are timed alternately; the median of the rounds' ratios is shown. ``--classes`` other than 10 takes labels
and weights at random.
"""

import argparse
from collections.abc import Callable

import numpy as np

import dperm
from ratios import ratio, seconds, show
from reference import numpy_algorithms as twin

CLIP, ROW_NORM = 2.0, 9.0


def report(X: np.ndarray, y: np.ndarray, n_classes: int, rounds: int) -> None:
    """Lines of one element type."""
    rng = np.random.default_rng(0)
    objective = dperm.Objective("softmax", X, y, n_classes=n_classes, row_norm=ROW_NORM)
    w = 0.1 * rng.normal(size=objective.shape)
    direction, steps = rng.normal(size=objective.shape), np.linspace(0.0, 1.0, 20)
    norms = np.linalg.norm(X, axis=1)
    w_real, codes = w.astype(X.dtype), y.astype(np.int64)
    rows, threads = objective._rows, objective._threads()

    def gradient() -> object:
        return objective.clipped_gradient_sum(w, CLIP)

    def numpy_best() -> object:
        return twin.clipped_softmax_gradient(X, codes, norms, w_real, CLIP)

    def line_search() -> object:
        return objective.clipped_loss_sums(w, direction, steps, 4.0)

    def plain() -> object:
        return objective.value_and_gradient(w)

    def read() -> object:
        return rows.entry_sum(threads)

    def with_rounds(slow: Callable[[], object], fast: Callable[[], object]) -> float:
        return ratio(slow, fast, rounds)

    name = f"{X.dtype}, {n_classes} classes"
    show(f"{name}: best numpy / gradient pass", with_rounds(numpy_best, gradient))
    show(f"{name}: gradient pass, in reads of the matrix", with_rounds(gradient, read))
    show(f"{name}: plain / exact gradient", with_rounds(plain, gradient))
    show(f"{name}: line search of 20 steps, in gradient passes", with_rounds(line_search, gradient))
    show(f"{name}: gradient pass (milliseconds)", 1e3 * min(seconds(gradient) for _ in range(rounds)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--classes", type=int, default=10)
    arguments = parser.parse_args()
    data = dperm.datasets.load("mnist")
    X, y = data.X[:60_000], data.y[:60_000].astype(np.float64)
    if arguments.classes != 10:
        y = np.random.default_rng(1).integers(0, arguments.classes, len(y)).astype(np.float64)
    print(dperm.build_info())
    for dtype in (np.float64, np.float32):
        report(np.ascontiguousarray(X, dtype=dtype), y, arguments.classes, arguments.rounds)


if __name__ == "__main__":
    main()
