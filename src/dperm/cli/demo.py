"""The demo: accuracy against privacy on scikit-learn's breast cancer data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.model_selection import train_test_split

from dperm import datasets
from dperm.algorithms import FitResult, dp_agd, majority, noisy_gd, nonprivate, whitened_gd
from dperm.cli.screen import Screen
from dperm.objective.objective import Objective

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
PRIVATE_SOLVERS: dict[str, Callable[..., FitResult]] = {
    "whitened_gd": whitened_gd,
    "noisy_gd": noisy_gd,
    "dp_agd": dp_agd,
    "majority": majority,
}
EXAMPLE = "whitened_gd", EPSILONS[1]  # the fit whose statement is shown


@dataclass
class Scores:
    """Test accuracies, one per repetition: by solver and epsilon, and without privacy."""

    private: dict[tuple[str, float], list[float]]
    nonprivate: list[float]
    majority: list[float]


def run_demo(screen: Screen, plot: Path, repetitions: int, seed: int) -> None:
    """Fit, print the table and one privacy statement, save the plot."""
    data = datasets.load("breast_cancer")
    screen.note(
        f"Breast cancer (Wisconsin): {data.X.shape[0]} records, {data.X.shape[1]} columns, scaled by "
        f"public bounds.\nLogistic regression, delta = {DELTA:g}; neighbours differ by one record added or "
        f"removed.\nTest accuracy over {repetitions} random splits.\n"
    )
    scores, example = _measure(screen, data, repetitions, seed)
    accuracy = {
        name: {f"{epsilon:g}": np.mean(scores.private[name, epsilon]) for epsilon in EPSILONS}
        for name in PRIVATE_SOLVERS
    }
    facts = {"accuracy": accuracy, "exact": np.mean(scores.nonprivate), "privacy": example.privacy.to_dict()}
    statement = f"\nThe statement of one fit ({EXAMPLE[0]}, epsilon = {EXAMPLE[1]:g}):\n\n{example.privacy}"
    screen.show(facts, _table(scores), statement)
    saved = _save_plot(scores, plot)
    screen.note(f"\nPlot saved to {plot}" if saved else "\nNo plot: pip install 'dperm[plot]'")


def _measure(screen: Screen, data: datasets.Dataset, repetitions: int, seed: int) -> tuple[Scores, FitResult]:
    scores = Scores({}, [], [])
    example = None
    fits_per_split = 2 + len(EPSILONS) * len(PRIVATE_SOLVERS)
    with Progress(console=Console(stderr=True), transient=True, disable=screen.quiet) as progress:
        task = progress.add_task("fitting", total=repetitions * fits_per_split)
        for repetition in range(repetitions):
            X, X_test, y, y_test = train_test_split(
                data.X, data.y, test_size=0.2, random_state=seed + repetition, stratify=data.y
            )
            objective = Objective(  # how many records were published is public
                "logistic", X, y, row_norm=data.row_norm, fit_intercept=True, n_public=len(y)
            )
            scores.nonprivate.append(_accuracy(nonprivate(objective), X_test, y_test))
            scores.majority.append(_accuracy(majority(objective), X_test, y_test))
            progress.advance(task, 2)
            for epsilon in EPSILONS:
                for name, solver in PRIVATE_SOLVERS.items():
                    result = solver(objective, epsilon, DELTA)
                    accuracy = _accuracy(result, X_test, y_test)
                    scores.private.setdefault((name, epsilon), []).append(accuracy)
                    if (name, epsilon) == EXAMPLE:
                        example = result
                    progress.advance(task)
    assert example is not None
    return scores, example


def _accuracy(result: FitResult, X: np.ndarray, y: np.ndarray) -> float:
    # Scaling a row down to the row norm does not change the sign of its prediction.
    return float(np.mean(np.sign(X @ result.coef[:-1] + result.coef[-1]) == y))


def _table(scores: Scores) -> Table:
    table = Table(
        title="Test accuracy, % (mean ± standard deviation)",
        caption="exact: without privacy",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    table.add_column("solver", no_wrap=True)
    for epsilon in EPSILONS:
        table.add_column(f"ε = {epsilon:g}", justify="right", no_wrap=True)
    table.add_column("exact", justify="right", no_wrap=True)
    for name in PRIVATE_SOLVERS:
        cells = [_cell(scores.private[name, epsilon]) for epsilon in EPSILONS]
        exact = scores.majority if name == "majority" else scores.nonprivate
        table.add_row(name, *cells, _cell(exact))
    return table


def _cell(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f}±{100 * np.std(values):.1f}"


def _save_plot(scores: Scores, path: Path) -> bool:
    """Accuracy against epsilon; False when matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for name in PRIVATE_SOLVERS:
        if name == "majority":
            continue  # drawn as a line: the level that a useful model must exceed
        values = 100 * np.array([scores.private[name, epsilon] for epsilon in EPSILONS])
        axes.errorbar(EPSILONS, values.mean(axis=1), values.std(axis=1), marker="o", capsize=3, label=name)
    axes.axhline(100 * float(np.mean(scores.nonprivate)), color="black", linestyle="--", label="no privacy")
    axes.axhline(100 * float(np.mean(scores.majority)), color="grey", linestyle=":", label="majority label")
    axes.set_xscale("log", base=2)
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.set_xlabel(f"epsilon (delta = {DELTA:g})")
    axes.set_ylabel("test accuracy, %")
    axes.set_title("Private logistic regression, breast cancer data")
    axes.legend(loc="center right")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    return True
