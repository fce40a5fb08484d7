"""The table of ratios: dperm compared with numpy and with the read bandwidth, in one run.

python bench/ratios.py [--rounds 9] [--size large]
"""

import numpy as np

import dperm
from dperm.algorithms import dp_agd
from dperm.data.passes import ClippedGradientSum, GradientSum
from dperm.mechanisms import rounded_gaussian
from measuring import command_line, entry_sum, median_ratio, per_unit, seconds, show, show_ratios
from problems import CLIP, STEPS, dp_agd_twin, numpy_passes, objective, passes, problem, twin


def pass_ratios(size: str, dtype: str, rounds: int) -> None:
    """Gradient pass and line search on a dense matrix."""
    X, y, w, direction = problem(size, dtype)
    obj = objective(size, dtype)
    rows, threads, spec = obj._rows, obj._threads(), obj.loss.kernel
    gradient, line_search = passes(obj, w, direction)
    best, materialised, lines = numpy_passes(X, y, w, direction)

    def read() -> object:
        return entry_sum(rows, threads)

    def exact_kernel() -> object:
        return rows.run(ClippedGradientSum(spec, w, CLIP * 0.999, 2.0**-21), threads)

    def float_kernel() -> object:
        return rows.run(GradientSum(spec, w, with_loss=False), threads)

    show(f"{dtype}: read bandwidth (GB/s)", X.nbytes / seconds(read) / 1e9)
    gradients = {
        f"{dtype}: share of the read bandwidth, gradient pass": (read, gradient),
        f"{dtype}: best numpy / gradient pass": (best, gradient),
    }
    show_ratios(gradients, rounds)
    show_ratios({f"{dtype}: materialising numpy / gradient pass": (materialised, gradient)}, 3)
    others = {
        f"{dtype}: exact / floating-point accumulation": (exact_kernel, float_kernel),
        f"{dtype}: line search of {len(STEPS)} steps, in gradient passes": (line_search, gradient),
    }
    show_ratios(others, rounds)
    show_ratios({f"{dtype}: numpy / line search of {len(STEPS)} steps": (lines, line_search)}, 3)


def softmax_ratios(records: int, rounds: int) -> None:
    """Gradient pass and line search for ten classes on MNIST; numpy has two products with BLAS."""
    data, rng = dperm.datasets.load("mnist"), np.random.default_rng(0)
    for dtype in ("float64", "float32"):
        X, y = np.ascontiguousarray(data.X[:records], dtype=dtype), data.y[:records].astype(np.float64)
        obj = dperm.Objective("softmax", X, y, n_classes=10, row_norm=9.0)
        w, direction = 0.1 * rng.normal(size=obj.shape), rng.normal(size=obj.shape)
        gradient, line_search = passes(obj, w, direction)
        own = X, y.astype(np.int64), np.linalg.norm(X, axis=1), w.astype(dtype), CLIP
        sides = {
            "best numpy / gradient pass": (lambda own=own: twin.clipped_softmax_gradient(*own), gradient),
            f"line search of {len(STEPS)} steps, in gradient passes": (line_search, gradient),
        }
        show_ratios({f"{dtype}, 10 classes: {name}": pair for name, pair in sides.items()}, rounds)


def dp_agd_ratio(rounds: int) -> None:
    """A whole DP-AGD fit on Adult compared with its numpy twin, time per update."""
    data = dperm.datasets.load("adult", dense=True)
    obj = dperm.Objective("logistic", data.X, data.y, row_norm=data.row_norm, fit_intercept=True)
    numpy_updates = dp_agd_twin(obj, data.X, data.y, epsilon=0.4, delta=1e-8)

    def updates() -> int:
        return dp_agd(obj, 0.4, 1e-8, accountant="zcdp").n_iter

    value = median_ratio(lambda: per_unit(numpy_updates), lambda: per_unit(updates), rounds)
    show("dp_agd on Adult: numpy twin / dperm, per update", value)


def noise_cost() -> None:
    """Exact Gaussian noise from cryptographic bytes."""
    draws = 1_000_000
    per_draw = min(seconds(lambda: rounded_gaussian(1e6, 1.0, draws)) for _ in range(3)) / draws
    show("rounded Gaussian, cryptographic (nanoseconds a draw)", 1e9 * per_draw)


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=9, size=("large", "small"))
    for dtype in ("float64", "float32"):
        pass_ratios(arguments.size, dtype, arguments.rounds)
    softmax_ratios(60_000 if arguments.size == "large" else 2_000, arguments.rounds)
    dp_agd_ratio(min(arguments.rounds, 5))
    noise_cost()
