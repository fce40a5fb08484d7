"""Test accuracy on MNIST: 60,000 training records, 10,000 test records.

    python bench/accuracy_mnist.py [--repetitions 5] [--epsilons 0.1 0.2 0.3] [--row-norm 9]
                                   [--solvers noisy_gd dp_agd dp_sgd dp_lssgd] [--epochs 50]

Every solver with its default settings; dp_sgd and dp_lssgd also with exactly ``--epochs`` epochs, as in the
published experiments (``--epochs 0`` omits these rows). Such a run has default settings apart from its steps
and a batch size that divides the number of records.
delta = 1e-5, replace-one neighbours, ten classes, the softmax loss with an intercept. Pixels are in [0, 1];
rows longer than the public row norm are scaled down to it, in training and in prediction. The test records
determine nothing: settings come from public numbers.
"""

import argparse

import numpy as np
from sklearn.base import clone

import dperm
from dperm import LogisticRegression
from measuring import command_line, show_heading, show_row

DELTA = 1e-5
RECORDS, CLASSES = 60_000, 10
BATCH = 500  # for whole epochs: near the default, and divides the number of records
# Options that describe the data or that the relation requires; all other settings are defaults.
SOLVERS = {
    "noisy_gd": {},
    "dp_agd": {},
    "dp_sgd": {"sampling": "without_replacement"},
    "dp_lssgd": {"sampling": "without_replacement", "image_shape": (28, 28)},
}
WITH_EPOCHS = ("dp_sgd", "dp_lssgd")


def accuracies(model: LogisticRegression, data: dperm.datasets.Dataset, repetitions: int) -> list[float]:
    """Accuracy in %, one for each draw of the noise."""
    train, test = slice(RECORDS), slice(RECORDS, None)
    fits = (clone(model).fit(data.X[train], data.y[train]) for _ in range(repetitions))
    return [100.0 * fitted.score(data.X[test], data.y[test]) for fitted in fits]


def show_solver(
    solver: str, epochs: int, data: dperm.datasets.Dataset, arguments: argparse.Namespace
) -> None:
    """One line of the table; default settings if `epochs` is 0."""
    own = dict(SOLVERS[solver])
    if epochs:  # the default step size adapts to the number of steps
        own |= {"batch_size": BATCH, "steps": epochs * RECORDS // BATCH}
    common = {"classes": range(CLASSES), "row_norm": arguments.row_norm, "neighbors": "replace_one"}
    columns = [
        accuracies(
            LogisticRegression(epsilon, DELTA, solver=solver, solver_options=own, **common),
            data,
            arguments.repetitions,
        )
        for epsilon in arguments.epsilons
    ]
    show_row(f"{solver}, {epochs} epochs" if epochs else solver, np.transpose(columns))


if __name__ == "__main__":
    arguments = command_line(
        __doc__, repetitions=5, epsilons=[0.1, 0.2, 0.3], row_norm=9.0, solvers=list(SOLVERS), epochs=50
    )
    data = dperm.datasets.load("mnist")
    title = f"mnist: mean (standard deviation) of {arguments.repetitions} runs, %"
    show_heading(title, "solver", arguments.epsilons)
    for solver in arguments.solvers:
        show_solver(solver, 0, data, arguments)
        if solver in WITH_EPOCHS and arguments.epochs > 0:
            show_solver(solver, arguments.epochs, data, arguments)
