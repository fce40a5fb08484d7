"""Test accuracy of the private solvers with their default settings.

    python bench/accuracy.py [--data adult] [--repetitions 10] [--epsilons 0.1 0.4 1.6]

Random 80/20 splits, delta = 1e-8, neighbours by adding or removing a record.
"""

import argparse

import numpy as np
from sklearn.model_selection import train_test_split

import dperm
from dperm.algorithms import dp_agd, dp_sgd, majority, noisy_gd, nonprivate

SOLVERS = {"noisy_gd": noisy_gd, "dp_agd": dp_agd, "dp_sgd": dp_sgd, "majority": majority}


def accuracy(coef: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Share of records on the right side."""
    return 100.0 * float(np.mean(np.sign(X @ coef[:-1] + coef[-1]) == y))


def main() -> None:
    """Print one row per solver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="adult")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.4, 1.6])
    parser.add_argument("--delta", type=float, default=1e-8)
    arguments = parser.parse_args()
    data = dperm.datasets.load(arguments.data)
    results: dict[str, list[list[float]]] = {name: [] for name in [*SOLVERS, "nonprivate"]}
    for repetition in range(arguments.repetitions):
        X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=repetition)
        objective = dperm.Objective("logistic", X, y, row_norm=data.row_norm, fit_intercept=True)
        for name, solver in SOLVERS.items():
            coefs = [solver(objective, epsilon, arguments.delta).coef for epsilon in arguments.epsilons]
            results[name].append([accuracy(coef, X_test, y_test) for coef in coefs])
        exact = accuracy(nonprivate(objective).coef, X_test, y_test)
        results["nonprivate"].append([exact] * len(arguments.epsilons))
    print(f"{arguments.data}: mean (standard deviation) of {arguments.repetitions} splits, %")
    print("| solver | " + " | ".join(f"epsilon {e:g}" for e in arguments.epsilons) + " |")
    for name, values in results.items():
        mean, deviation = np.mean(values, axis=0), np.std(values, axis=0)
        cells = [f"{m:.2f} ({s:.2f})" for m, s in zip(mean, deviation, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
