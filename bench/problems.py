"""Inputs of the benchmarks, made once."""

import functools
import sys
from pathlib import Path

import numpy as np

from dperm import Objective

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

SIZES = {"large": (1_000_000, 120), "small": (20_000, 120)}


@functools.cache
def problem(size: str, dtype: str):
    """A random logistic problem: rows of norm about 1, weights, direction, labels."""
    n, d = SIZES[size]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32).astype(dtype)
    X /= np.sqrt(np.asarray(d, dtype=dtype))
    w = rng.normal(size=d)
    y = np.where(X @ w.astype(dtype) + rng.normal(size=n) > 0, 1.0, -1.0).astype(dtype)
    return X, y, w, rng.normal(size=d) / np.sqrt(d)


@functools.cache
def objective(size: str, dtype: str) -> Objective:
    """The objective of `problem`, rows of norm at most 2: nothing is scaled."""
    X, y, _, _ = problem(size, dtype)
    return Objective("logistic", X, y, row_norm=2.0)
