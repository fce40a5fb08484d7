"""Test accuracy of the private solvers with their default settings.

    python bench/accuracy.py [--data adult adult_binned bank] [--solvers noisy_gd dp_agd]
                             [--repetitions 10] [--epsilons 0.1 0.4 1.6] [--delta 1e-8] [--l2 0]
    python bench/accuracy.py --data kddcup99 kddcup99_binned --epsilons 0.1 --delta 1e-12
                             --solvers preconditioned_gd
    python bench/accuracy.py --solvers objective_perturbation output_perturbation_gd privgene --delta 0

Random 80/20 splits, add-or-remove neighbours. "adult_binned" is Adult with public bins in place of numbers;
"kddcup99" distinguishes normal connections from attacks, "kddcup99_binned" does so with bins.
output_perturbation_minimum needs a ridge term, such as ``--l2 1e-6``.
"""

import argparse

import numpy as np
from sklearn.model_selection import train_test_split

import dperm
from dperm import algorithms
from dperm.algorithms import nonprivate
from measuring import command_line, show_heading, show_row

DEFAULT_SOLVERS = ["preconditioned_gd", "noisy_gd", "dp_agd", "dp_sgd", "majority"]


def accuracy(coef: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Percentage of records that are classified correctly."""
    return 100.0 * float(np.mean(np.sign(X @ coef[:-1] + coef[-1]) == y))


def measure(name: str, arguments: argparse.Namespace) -> None:
    """Print a table with one row per solver."""
    data = dperm.datasets.load(name)
    results: dict[str, list[list[float]]] = {solver: [] for solver in [*arguments.solvers, "nonprivate"]}
    for repetition in range(arguments.repetitions):
        X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=repetition)
        X_test = X_test if isinstance(X_test, np.ndarray) else X_test.to_dense()
        settings = {"row_norm": data.row_norm, "fit_intercept": True, "penalize_intercept": True}
        objective = dperm.Objective("logistic", X, y, l2=arguments.l2, **settings)
        for solver in arguments.solvers:
            fit = getattr(algorithms, solver)
            coefs = [fit(objective, epsilon, arguments.delta).coef for epsilon in arguments.epsilons]
            results[solver].append([accuracy(coef, X_test, y_test) for coef in coefs])
        exact = accuracy(nonprivate(objective, max_iter=300).coef, X_test, y_test)
        results["nonprivate"].append([exact] * len(arguments.epsilons))
    title = f"{name}: mean (standard deviation) of {arguments.repetitions} splits, %"
    show_heading(title, "solver", arguments.epsilons)
    for solver, values in results.items():
        show_row(solver, values)


if __name__ == "__main__":
    budgets = {"epsilons": [0.1, 0.4, 1.6], "delta": 1e-8}
    arguments = command_line(
        __doc__, data=["adult"], solvers=DEFAULT_SOLVERS, repetitions=10, **budgets, l2=0.0
    )
    for name in arguments.data:
        measure(name, arguments)
