"""Test accuracy of the private solvers with their default settings.

    python bench/accuracy.py [--data adult adult_binned bank] [--solvers noisy_gd dp_agd]
                             [--repetitions 10] [--epsilons 0.1 0.4 1.6] [--delta 1e-8] [--l2 0]
    python bench/accuracy.py --data kddcup99 kddcup99_binned --epsilons 0.1 --delta 1e-12
                             --solvers whitened_gd
    python bench/accuracy.py --data mnist --solvers noisy_gd dp_agd dp_sgd dp_lssgd --repetitions 5
                             --epsilons 0.1 0.2 0.3 --delta 1e-5 --neighbors replace_one

Random 80/20 splits. "adult_binned" is Adult with public bins in place of numbers; "kddcup99" distinguishes
normal connections from attacks, "kddcup99_binned" does so with bins. MNIST keeps its own 10,000 test records,
and rows longer than 9 are scaled down to that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import dperm
from dperm import algorithms
from measuring import command_line, show_heading, show_row

DEFAULT_SOLVERS = ["whitened_gd", "noisy_gd", "dp_agd", "dp_sgd", "majority"]
MNIST_ROW_NORM = 9.0
IMAGES = {"dp_lssgd": {"image_shape": (28, 28)}}


def splits(name: str, repetitions: int) -> Iterator[tuple[Any, Any, np.ndarray, np.ndarray]]:
    """Rows for training and testing, then their labels."""
    data = dperm.datasets.load(name)
    for repetition in range(repetitions):
        if name == "mnist":
            yield data.X[:60_000], data.X[60_000:], data.y[:60_000], data.y[60_000:]
        else:
            yield train_test_split(data.X, data.y, test_size=0.2, random_state=repetition)


def accuracy(coef: np.ndarray, X: Any, y: np.ndarray) -> float:
    """Percentage of records that are classified correctly."""
    predictions = (X if isinstance(X, np.ndarray) else X.to_dense()) @ coef[:-1] + coef[-1]
    found = np.sign(predictions) if coef.ndim == 1 else np.argmax(predictions, axis=1)
    return 100.0 * float(np.mean(found == y))


def options(name: str, solver: str, neighbors: str) -> dict[str, Any]:
    """What describes the data or is required by the relation; all else are defaults."""
    if solver == "majority":
        return {"neighbors": neighbors}
    found = {"neighbors": neighbors, **(IMAGES.get(solver, {}) if name == "mnist" else {})}
    if neighbors == "replace_one" and solver in ("dp_sgd", "dp_lssgd", "dp_lsadam"):
        found["sampling"] = "without_replacement"
    return found


def measure(name: str, arguments: argparse.Namespace) -> None:
    """Print a table with one row per solver."""
    results: dict[str, list[list[float]]] = {solver: [] for solver in [*arguments.solvers, "nonprivate"]}
    settings = {"fit_intercept": True, "penalize_intercept": True, "l2": arguments.l2}
    settings |= {"row_norm": MNIST_ROW_NORM if name == "mnist" else dperm.datasets.load(name).row_norm}
    settings |= {"n_classes": 10} if name == "mnist" else {}
    for X, X_test, y, y_test in splits(name, arguments.repetitions):
        objective = dperm.Objective("softmax" if name == "mnist" else "logistic", X, y, **settings)
        for solver in arguments.solvers:
            fit, own = getattr(algorithms, solver), options(name, solver, arguments.neighbors)
            coefs = [fit(objective, epsilon, arguments.delta, **own).coef for epsilon in arguments.epsilons]
            results[solver].append([accuracy(coef, X_test, y_test) for coef in coefs])
        exact = accuracy(algorithms.nonprivate(objective, max_iter=300).coef, X_test, y_test)
        results["nonprivate"].append([exact] * len(arguments.epsilons))
    title = f"{name}: mean (standard deviation) of {arguments.repetitions} splits, %"
    show_heading(title, "solver", arguments.epsilons)
    for solver, values in results.items():
        show_row(solver, values)


if __name__ == "__main__":
    budgets = {"epsilons": [0.1, 0.4, 1.6], "delta": 1e-8, "neighbors": ("add_or_remove", "replace_one")}
    arguments = command_line(
        __doc__, data=["adult"], solvers=DEFAULT_SOLVERS, repetitions=10, **budgets, l2=0.0
    )
    for name in arguments.data:
        measure(name, arguments)
