"""Every solver's default settings, and the one that ``solver="auto"`` takes, on problems of many kinds.

    python bench/solver_choice.py --write                   all problems, into the published table
    python bench/solver_choice.py --solvers privgene --write             adds or replaces these columns
    python bench/solver_choice.py --problems wine adult --repetitions 5

``--problems`` takes the beginnings of names in `solver_problems`; `default_problems` has generated ones.

A score is the mean loss on held-out records, minus that of the optimum without privacy, over that of the best
constant minus the same, in thousandths: 0 is the optimum, 1000 what the targets alone give. With labels the
accuracy in per cent stands behind it. Then it says where "auto" is below another solver by more than
max(0.5 points, 4 standard errors) of accuracy (with real targets, of score), where a solver does so much
worse with more budget, and where it is worse than a constant. Add-or-remove neighbours; all is seeded.
"""

from __future__ import annotations

import argparse
import csv
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import train_test_split

import dperm
from dperm import algorithms
from dperm.estimators.solvers import SOLVERS, choose_solver, pure_solvers, solver_call
from dperm.losses import Loss
from solver_problems import PROBLEMS, Problem

TABLE = Path(__file__).parents[1] / "docs" / "decisions" / "solver-choice.csv"
NEIGHBORS = "add_or_remove"
POINTS, ERRORS = 0.5, 4.0

Budget = tuple[float, float]  # epsilon and delta
#: Score and accuracy (NaN for real targets) of each budget and solver, of one split or of several.
Run = dict[tuple[Budget, str], tuple[float, float]]
Runs = dict[tuple[Budget, str], np.ndarray]


def valid_solvers(problem: Problem, objective: dperm.Objective, delta: float) -> list[str]:
    """Solvers to compare at that delta: all that the objective and the guarantee admit, unless told."""
    names = list(problem.solvers or SOLVERS) if delta > 0.0 else pure_solvers(problem.loss)
    return [name for name in names if name != "nonprivate" and SOLVERS[name].needs.refusal(objective) is None]


def objective_of(problem: Problem, X: object, y: np.ndarray, row_norm: float, l2: float) -> dperm.Objective:
    """With a ridge term on every weight, as some solvers want it."""
    return dperm.Objective(
        problem.loss, X, y, l2=l2, row_norm=row_norm, fit_intercept=True, penalize_intercept=l2 > 0.0,
        n_threads=1,
    )  # fmt: skip


def constant_loss(loss: Loss, train: np.ndarray, test: np.ndarray) -> float:
    """Held-out loss of the best constant prediction."""
    fit, score = (dperm.Objective(loss, np.zeros((len(y), 1)), y, fit_intercept=True) for y in (train, test))
    return score.value(algorithms.nonprivate(fit).coef)


def accuracy(loss: Loss, coef: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Share of right labels, in per cent; NaN for real targets."""
    predictions = X @ coef[:-1] + coef[-1]
    if loss.n_classes is not None:
        return 100.0 * float(np.mean(np.argmax(predictions, axis=1) == y))
    return 100.0 * float(np.mean((predictions > 0.0) == (y > 0.0))) if loss.classification else math.nan


def measure(name: str, repetition: int, solvers: Sequence[str]) -> tuple[int, int, Run]:
    """Records, weights, and what each solver (if any are named, of these) reaches on one split."""
    problem = PROBLEMS[name]
    X, targets, row_norm = problem.data()
    y = targets if problem.loss.n_classes else targets.astype(X.dtype)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=repetition)
    train = objective_of(problem, X, y, row_norm, problem.l2)
    test = objective_of(problem, X_test, y_test, row_norm, 0.0)
    best = test.value(algorithms.nonprivate(train, max_iter=300).coef)
    # Where no column tells anything the optimum predicts new records no better than a constant.
    unit = max(constant_loss(problem.loss, y, y_test) - best, 1e-3 * test.value(np.zeros(test.shape)))
    run: Run = {}
    for budget in problem.budgets():
        chosen = automatic(problem.loss, train.n_public, train.dimension, budget)
        for solver in valid_solvers(problem, train, budget[1]):
            if not solvers or solver in solvers or (solver == chosen and "auto" in solvers):
                coef = fitted(name, train, solver, budget, repetition)
                if coef is not None:
                    score = (test.value(coef) - best) / unit
                    run[budget, solver] = score, accuracy(problem.loss, coef, X_test, y_test)
    return train.n_public, train.dimension, run


def fitted(
    name: str, train: dperm.Objective, solver: str, budget: Budget, repetition: int
) -> np.ndarray | None:
    """Weights of one run, from noise of its own; None where there are too few records for intervals."""
    epsilon, delta = budget
    seed = zlib.crc32(f"{name}, {solver}, {epsilon}, {delta}, {repetition}".encode())
    common = {
        "neighbors": NEIGHBORS,
        "calibration": "tight",
        "learn_scales": "auto",
        "ledger": None,
        "random_state": seed,
    }
    try:
        call = solver_call(solver, train, epsilon, delta, common=common, options=None, verbose=0)
        return call.run(train).coef
    except ValueError as refused:
        if "no interval" not in str(refused):
            raise
        return None


def automatic(loss: Loss, n: int, dimension: int, budget: Budget) -> str:
    """The solver that the rule takes for these public numbers."""
    epsilon, delta = budget
    return choose_solver(
        n=n, dimension=dimension, epsilon=epsilon, delta=delta, loss=loss, neighbors=NEIGHBORS
    )


def shown(runs: Runs, chosen: Mapping[Budget, str]) -> str:
    """A line for each solver, with a star where "auto" takes it."""
    lines = [" " * 28 + "".join(f"{epsilon:>11g}{'' if delta else ' pure':5}" for epsilon, delta in chosen)]
    for solver in sorted({solver for _, solver in runs}):
        cells = []
        for budget, auto in chosen.items():
            score, right = runs.get((budget, solver), np.full((1, 2), math.nan)).mean(axis=0)
            cell = "" if math.isnan(score) else f"{1000.0 * score:.0f}" if score < 100.0 else ">99999"
            cell += "" if math.isnan(right) else f" {right:.1f}"
            cells.append(f"{cell + ('*' if auto == solver else ' '):>16}")
        lines.append(f"{solver:28}" + "".join(cells))
    return "\n".join(lines)


def complaints(runs: Runs, chosen: Mapping[Budget, str]) -> Iterator[str]:
    """What is wrong with default settings on one problem."""
    points = {key: _points(run) for key, run in runs.items()}
    for budget, auto in chosen.items():
        others = {solver: own for (at, solver), own in points.items() if at == budget}
        if auto in others:
            best = max(others, key=lambda solver: others[solver].mean())
            if gap := _gap(others[best], others[auto]):
                yield f"auto ({auto}) is {gap:.1f} points below {best} at {budget}"
    for solver in sorted({solver for _, solver in runs}):
        budgets = [budget for budget in chosen if (budget, solver) in runs]
        for less, more in pairwise(budgets):
            if less[1] == more[1] and (gap := _gap(points[less, solver], points[more, solver])):
                yield f"{solver} falls by {gap:.1f} points from {less} to {more}"
        scores = {budget: runs[budget, solver][:, 0].mean() for budget in budgets}
        bad = [f"{budget} ({score:.3g})" for budget, score in scores.items() if score > 1.1]
        if bad:
            yield f"{solver} is worse than a constant at {', '.join(bad)}"


def _points(run: np.ndarray) -> np.ndarray:
    """Accuracy, or with real targets what is left of 100 points of score: more is better."""
    scores, right = run.T
    return 100.0 * (1.0 - scores) if np.isnan(right).any() else right


def _gap(better: np.ndarray, worse: np.ndarray) -> float:
    """Points between them where these are more than chance and more than half a point, else 0."""
    gap, n = float(better.mean() - worse.mean()), len(better)
    error = math.sqrt((better.var(ddof=1) + worse.var(ddof=1)) / n) if n > 1 else 0.0
    return gap if gap > max(POINTS, ERRORS * error) else 0.0


def read_table() -> dict[tuple[str, float, float], dict[str, str]]:
    """Lines of the published table by problem, epsilon and delta: public numbers, then scores and errors."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return {(line["problem"], float(line["epsilon"]), float(line["delta"])): line for line in lines}


def write_table(name: str, n: int, dimension: int, runs: Runs) -> None:
    """Put what was measured in the place of the same problem's numbers."""
    table = read_table()
    for (budget, solver), run in runs.items():
        about = {"problem": name, "n": n, "d": dimension, "epsilon": budget[0], "delta": budget[1]}
        line = table.setdefault((name, *budget), {})
        line |= {
            key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in about.items()
        }
        scores = 1000.0 * run[:, 0]
        line[solver] = f"{scores.mean():.0f}"
        error = scores.std(ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else math.nan
        line[f"{solver} error"] = "" if math.isnan(error) else f"{error:.0f}"
    solvers = [solver for solver in SOLVERS if any(line.get(solver) for line in table.values())]
    columns = ["problem", "n", "d", "epsilon", "delta"]
    columns += [column for solver in solvers for column in (solver, f"{solver} error")]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
        lines.writeheader()
        lines.writerows(line for problem in PROBLEMS for key, line in table.items() if key[0] == problem)


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", nargs="+", default=[""], help="beginnings of names")
    parser.add_argument("--solvers", nargs="+", choices=["auto", *SOLVERS], default=[], help="these alone")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes; -1: one per core")
    parser.add_argument("--write", action="store_true", help=f"keep the scores in {TABLE.name}")
    arguments = parser.parse_args()
    names = [name for name in PROBLEMS if name.startswith(tuple(arguments.problems))]
    splits = range(arguments.repetitions)
    workers = Parallel(arguments.jobs, batch_size=1, return_as="generator")
    results = workers(delayed(measure)(name, split, arguments.solvers) for name in names for split in splits)
    for name in names:
        measured = [next(results) for _ in splits]
        n, dimension, first = measured[0]
        everywhere = [key for key in first if all(key in run for *_, run in measured)]
        runs = {key: np.array([run[key] for *_, run in measured]) for key in everywhere}
        problem = PROBLEMS[name]
        chosen = {budget: automatic(problem.loss, n, dimension, budget) for budget, _ in everywhere}
        print(f"\n## {name}: n = {n}, d = {dimension}\n{shown(runs, chosen)}")
        for complaint in complaints(runs, chosen):
            print(f"! {complaint}", flush=True)
        if arguments.write:
            write_table(name, n, dimension, runs)


if __name__ == "__main__":
    main()
