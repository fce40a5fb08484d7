"""Test accuracy on MNIST with default settings: 60,000 records to train on, 10,000 to test.

    python bench/accuracy_mnist.py [--repetitions 5] [--epsilons 0.1 0.2 0.3] [--row-norm 9]

delta = 1e-5, neighbours by replacing a record, ten classes, the softmax loss with an intercept. Pixels are in
[0, 1]; rows longer than the public row norm are scaled onto it, in training and in prediction. The test
records decide nothing: settings come from public numbers.
"""

import argparse

import numpy as np
from sklearn.base import clone

import dperm
from dperm import LogisticRegression

DELTA = 1e-5
# Options that say what the data are or what the relation asks for; all other settings are defaults.
SOLVERS = {
    "noisy_gd": {},
    "dp_agd": {},
    "dp_sgd": {"sampling": "without_replacement"},
    "dp_lssgd": {"sampling": "without_replacement", "image_shape": (28, 28)},
}


def mean_accuracy(
    model: LogisticRegression, data: dperm.datasets.Dataset, repetitions: int
) -> tuple[float, float]:
    """Mean and standard deviation over the noise, in %."""
    train, test = slice(60_000), slice(60_000, None)
    scores = []
    for _ in range(repetitions):
        fitted = clone(model).fit(data.X[train], data.y[train])
        scores.append(100.0 * fitted.score(data.X[test], data.y[test]))
    return float(np.mean(scores)), float(np.std(scores))


def main() -> None:
    """Print one row per solver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.2, 0.3])
    parser.add_argument("--row-norm", type=float, default=9.0)
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    arguments = parser.parse_args()
    data = dperm.datasets.load("mnist")
    print(f"mnist: mean (standard deviation) of {arguments.repetitions} runs, %")
    print("| solver | " + " | ".join(f"epsilon {e:g}" for e in arguments.epsilons) + " |", flush=True)
    for solver in arguments.solvers:
        cells = []
        for epsilon in arguments.epsilons:
            model = LogisticRegression(
                epsilon,
                DELTA,
                solver=solver,
                solver_options=SOLVERS[solver],
                classes=range(10),
                row_norm=arguments.row_norm,
                neighbors="replace_one",
            )
            mean, deviation = mean_accuracy(model, data, arguments.repetitions)
            cells.append(f"{mean:.2f} ({deviation:.2f})")
        print(f"| {solver} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
