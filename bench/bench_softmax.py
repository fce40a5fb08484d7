"""The exact clipped softmax gradient on MNIST, compared with the best numpy.

    python bench/bench_softmax.py [--rounds 9] [--classes 10]

The numpy side computes two matrix products with BLAS in as many threads, and clips in floating point. With
``--classes`` other than 10 the labels are random.
"""

import numpy as np

import dperm
from measuring import command_line, entry_sum, milliseconds, show, show_ratios
from problems import twin

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
        return entry_sum(rows, threads)

    name = f"{X.dtype}, {n_classes} classes"
    sides = {
        f"{name}: best numpy / gradient pass": (numpy_best, gradient),
        f"{name}: gradient pass, in reads of the matrix": (gradient, read),
        f"{name}: plain / exact gradient": (plain, gradient),
        f"{name}: line search of 20 steps, in gradient passes": (line_search, gradient),
    }
    show_ratios(sides, rounds)
    show(f"{name}: gradient pass (milliseconds)", milliseconds(gradient, rounds))


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=9, classes=10)
    data = dperm.datasets.load("mnist")
    X, y = data.X[:60_000], data.y[:60_000].astype(np.float64)
    if arguments.classes != 10:
        y = np.random.default_rng(1).integers(0, arguments.classes, len(y)).astype(np.float64)
    for dtype in (np.float64, np.float32):
        report(np.ascontiguousarray(X, dtype=dtype), y, arguments.classes, arguments.rounds)
