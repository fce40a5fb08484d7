"""Passes over sparse data compared with the best of scipy.sparse, in one run.

    python bench/bench_sparse.py [--rounds 9] [--rows 200000] [--columns 1000000] [--threads 2]

50 entries per row in random columns, uniform or Zipf-distributed. scipy gets the better of two forms of its
transposed product: the CSR matrix transposed, or a CSC copy, which doubles its memory.
"""

import argparse

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

import dperm
from measuring import Call, command_line, ratio, show
from problems import CLIP, LOSS_CLIP, STEPS, passes

ENTRIES_PER_ROW = 50


def random_matrix(n_rows: int, n_columns: int, law: str, dtype: str) -> sp.csr_array:
    """A canonical CSR matrix; duplicate entries are summed."""
    rng = np.random.default_rng(0)
    size = (n_rows, ENTRIES_PER_ROW)
    columns = rng.integers(0, n_columns, size) if law == "uniform" else (rng.zipf(1.2, size) - 1) % n_columns
    starts = np.arange(0, n_rows * ENTRIES_PER_ROW + 1, ENTRIES_PER_ROW, dtype=np.int32)
    values = rng.standard_normal(n_rows * ENTRIES_PER_ROW).astype(dtype)
    matrix = sp.csr_array((values, columns.ravel().astype(np.int32), starts), (n_rows, n_columns))
    matrix.sum_duplicates()
    return matrix


def scipy_gradient(X, transposed, y, norms, w) -> Call:
    """The clipped sum from two products."""

    def run() -> np.ndarray:
        s = -y * expit(-y * (X @ w))
        s *= np.minimum(1.0, CLIP / np.maximum(np.abs(s) * norms, 1e-30))
        return transposed @ s

    return run


def scipy_losses(X, y, w, direction) -> Call:
    """Clipped losses along a line from two products."""

    def run() -> np.ndarray:
        p, q = y * (X @ w), y * (X @ direction)
        return np.array([np.minimum(np.logaddexp(0.0, a * q - p), LOSS_CLIP).sum() for a in STEPS])

    return run


def compare(law: str, dtype: str, arguments: argparse.Namespace) -> None:
    """The lines of the table for one matrix."""
    X = random_matrix(arguments.rows, arguments.columns, law, dtype)
    rng = np.random.default_rng(1)
    y = np.where(rng.random(arguments.rows) < 0.5, -1.0, 1.0).astype(dtype)
    w, direction = 0.1 * rng.standard_normal((2, arguments.columns))
    row_norm = float(np.sqrt(X.multiply(X).sum(axis=1).max())) * 1.001
    objective = dperm.Objective("logistic", X, y, row_norm=row_norm, n_threads=arguments.threads)
    norms, real = objective._rows.norms.astype(dtype), w.astype(dtype)
    by_rows, by_columns = (scipy_gradient(X, t, y, norms, real) for t in (X.T, X.tocsc().T))

    gradient, line = passes(objective, w, direction)
    rounds, name = arguments.rounds, f"{law}, {dtype}"
    best = min(ratio(each, gradient, rounds) for each in (by_rows, by_columns))
    show(f"{name}: best scipy / gradient pass", best)
    show(
        f"{name}: floating-point product of scipy / gradient pass", ratio(lambda: X @ real, gradient, rounds)
    )
    lines = scipy_losses(X, y, real, direction.astype(dtype))
    show(f"{name}: scipy / line search of 20 steps", ratio(lines, line, 3))


if __name__ == "__main__":
    arguments = command_line(
        __doc__, rounds=9, rows=200_000, columns=1_000_000, threads=int, dtypes=["float64", "float32"]
    )
    for dtype in arguments.dtypes:
        for law in ("uniform", "Zipf"):
            compare(law, dtype, arguments)
