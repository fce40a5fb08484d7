"""Test accuracy on MNIST: 60,000 records to train on, 10,000 to test.

    python bench/accuracy_mnist.py [--repetitions 5] [--epsilons 0.1 0.2 0.3] [--row-norm 9]
                                   [--solvers noisy_gd dp_agd dp_sgd dp_lssgd] [--epochs 50]

Every solver with its default settings; dp_sgd and dp_lssgd also with exactly ``--epochs`` epochs, as in the
experiments that were published for them (``--epochs 0``: without these rows). Such a run has the default
settings but for its steps and a batch that divides the records.
delta = 1e-5, neighbours by replacing a record, ten classes, the softmax loss with an intercept. Pixels are in
[0, 1]; rows longer than the public row norm are scaled onto it, in training and in prediction. The test
records decide nothing: settings come from public numbers.
"""

import argparse
from typing import Any

import numpy as np
from sklearn.base import clone

import dperm
from dperm import LogisticRegression

DELTA = 1e-5
RECORDS, CLASSES = 60_000, 10
BATCH = 500  # with whole epochs: near the default, and a divisor of the records
# Options that say what the data are or what the relation asks for; all other settings are defaults.
SOLVERS = {
    "noisy_gd": {},
    "dp_agd": {},
    "dp_sgd": {"sampling": "without_replacement"},
    "dp_lssgd": {"sampling": "without_replacement", "image_shape": (28, 28)},
}
WITH_EPOCHS = ("dp_sgd", "dp_lssgd")


def mean_accuracy(
    model: LogisticRegression, data: dperm.datasets.Dataset, repetitions: int
) -> tuple[float, float]:
    """Mean and standard deviation over the noise, in %."""
    train, test = slice(RECORDS), slice(RECORDS, None)
    scores = []
    for _ in range(repetitions):
        fitted = clone(model).fit(data.X[train], data.y[train])
        scores.append(100.0 * fitted.score(data.X[test], data.y[test]))
    return float(np.mean(scores)), float(np.std(scores))


def epochs_options(epochs: int) -> dict[str, Any]:
    """Settings of so many whole epochs; a default step size makes up for more steps."""
    return {"batch_size": BATCH, "steps": epochs * RECORDS // BATCH}


def main() -> None:
    """Print one row per solver and number of epochs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.2, 0.3])
    parser.add_argument("--row-norm", type=float, default=9.0)
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--epochs", type=int, default=50)
    arguments = parser.parse_args()
    data = dperm.datasets.load("mnist")
    print(f"mnist: mean (standard deviation) of {arguments.repetitions} runs, %")
    print("| solver | " + " | ".join(f"epsilon {e:g}" for e in arguments.epsilons) + " |", flush=True)
    for solver in arguments.solvers:
        print_row(solver, solver, 0, data, arguments)
        if solver in WITH_EPOCHS and arguments.epochs > 0:
            print_row(f"{solver}, {arguments.epochs} epochs", solver, arguments.epochs, data, arguments)


def print_row(
    label: str, solver: str, epochs: int, data: dperm.datasets.Dataset, arguments: argparse.Namespace
) -> None:
    """One line of the table; default settings where `epochs` is 0."""
    cells = []
    for epsilon in arguments.epsilons:
        options = dict(SOLVERS[solver])
        if epochs:
            options |= epochs_options(epochs)
        model = LogisticRegression(
            epsilon,
            DELTA,
            solver=solver,
            solver_options=options,
            classes=range(CLASSES),
            row_norm=arguments.row_norm,
            neighbors="replace_one",
        )
        mean, deviation = mean_accuracy(model, data, arguments.repetitions)
        cells.append(f"{mean:.2f} ({deviation:.2f})")
    print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
