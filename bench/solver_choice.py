"""Held-out loss of every solver, and the one that ``solver="auto"`` takes, on problems of many kinds.

    python bench/solver_choice.py --write               all of it into docs/decisions/solver-choice.md
    python bench/solver_choice.py --problems wine --repetitions 2     only prints
    python bench/solver_choice.py --problems adult --write            replaces these problems' tables
    python bench/solver_choice.py --solvers privgene --write          adds or replaces these columns
    python bench/solver_choice.py --rule                when the rule has changed, and nothing else has

``--problems`` takes the beginnings of names in `solver_problems`. A score is the mean loss on held-out
records, minus that of the optimum without privacy, over that of the constant predictor minus the same: 0 is
the optimum, 1 is what the targets alone give. Default settings, add-or-remove neighbours; splits and noise
are seeded, so that a table changes only where the package does. `tests/test_solver_choice.py`
holds the table against the rule.
"""

from __future__ import annotations

import argparse
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import train_test_split

import dperm
from dperm import algorithms
from dperm.estimators.solvers import SOLVERS, choose_solver, pure_solvers, solver_call
from dperm.losses import Loss
from solver_problems import PROBLEMS, Problem

TABLE = Path(__file__).parents[1] / "docs" / "decisions" / "solver-choice.md"
NEIGHBORS = "add_or_remove"

Budget = tuple[float, float]  # epsilon and delta


@dataclass(frozen=True)
class Score:
    """Mean over splits, and its standard error."""

    mean: float
    error: float


@dataclass(frozen=True)
class ProblemTable:
    """What was measured on one problem.

    Attributes
    ----------
    n, dimension : int
        Records that were trained on, and weights.
    repetitions : int
    chosen : dict
        Budget to the solver that "auto" takes.
    scores : dict
        Budget to the score of each solver.
    """

    n: int
    dimension: int
    repetitions: int
    chosen: dict[Budget, str] = field(default_factory=dict)
    scores: dict[Budget, dict[str, Score]] = field(default_factory=dict)


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


def measure(
    name: str, repetition: int, solvers: Sequence[str] = ()
) -> tuple[int, int, dict[tuple[Budget, str], float]]:
    """Records, weights, and the score of each budget and solver (if any are named, of these) on one split."""
    problem = PROBLEMS[name]
    X, targets, row_norm = problem.data()
    y = targets if problem.loss.n_classes else targets.astype(X.dtype)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=repetition)
    train = objective_of(problem, X, y, row_norm, problem.l2)
    test = objective_of(problem, X_test, y_test, row_norm, 0.0)
    best = test.value(algorithms.nonprivate(train, max_iter=300).coef)
    unit = constant_loss(problem.loss, y, y_test) - best
    if not unit > 0.0:
        raise ValueError(f"{name}: the optimum on the training records predicts no better than a constant")
    scores = {}
    for epsilon, delta in problem.budgets():
        for solver in valid_solvers(problem, train, delta):
            if not solvers or solver in solvers:
                coef = fitted(name, train, solver, epsilon, delta, repetition)
                score = math.inf if coef is None else (test.value(coef) - best) / unit
                scores[(epsilon, delta), solver] = score
    return train.n_public, train.dimension, scores


def fitted(
    name: str, train: dperm.Objective, solver: str, epsilon: float, delta: float, repetition: int
) -> np.ndarray | None:
    """Weights of one run, from noise of its own; None where there are too few records for intervals."""
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


def summary(name: str, runs: list[tuple[int, int, dict[tuple[Budget, str], float]]]) -> ProblemTable:
    """Means and standard errors."""
    n, dimension, first = runs[0]
    table = ProblemTable(n, dimension, len(runs))
    for budget, solver in first:
        values = np.array([scores[budget, solver] for _, _, scores in runs])
        known = len(values) > 1 and np.isfinite(values).all()
        error = values.std(ddof=1) / math.sqrt(len(values)) if known else 0.0
        table.scores.setdefault(budget, {})[solver] = Score(float(values.mean()), float(error))
    for budget in table.scores:
        table.chosen[budget] = automatic(PROBLEMS[name].loss, n, dimension, budget)
    return table


def automatic(loss: Loss, n: int, dimension: int, budget: Budget) -> str:
    """The solver that the rule takes for these public numbers."""
    epsilon, delta = budget
    return choose_solver(
        n=n, dimension=dimension, epsilon=epsilon, delta=delta, loss=loss, neighbors=NEIGHBORS
    )


def renewed(tables: Mapping[str, ProblemTable]) -> dict[str, ProblemTable]:
    """The same scores, and what the rule takes now."""
    known = {name: table for name, table in tables.items() if name in PROBLEMS}
    for name, table in known.items():
        for budget in table.scores:
            table.chosen[budget] = automatic(PROBLEMS[name].loss, table.n, table.dimension, budget)
    return known


HEADER = """# Which solver is best, and which one `solver="auto"` takes

Written by `python bench/solver_choice.py --write`, which says what a score is; read by
`tests/test_solver_choice.py`. Scores are in thousandths (0: the optimum without privacy, 1000: a
constant), mean ± standard error over random splits; n is the number of records trained on, d that of weights,
the intercept included. Add-or-remove neighbours, default settings; >99999 where `noisy_newton`, which is for
intervals, refuses so few records.
"""


def markdown(name: str, table: ProblemTable) -> str:
    """One problem's table, columns in the order of their mean."""
    solvers = sorted({solver for scores in table.scores.values() for solver in scores})
    lines = [
        f"\n## {name}\n\nn = {table.n}, d = {table.dimension}, {table.repetitions} splits\n",
        f"| epsilon | delta | auto | {' | '.join(solvers)} |",
        "|---" * (len(solvers) + 3) + "|",
    ]
    for (epsilon, delta), scores in table.scores.items():
        cells = [_cell(scores[solver]) if solver in scores else "" for solver in solvers]
        lines.append(f"|{epsilon:g}|{delta:g}|{table.chosen[epsilon, delta]}|{'|'.join(cells)}|")
    return "\n".join(lines) + "\n"


def _cell(score: Score) -> str:
    if not abs(score.mean) < 100.0:
        return ">99999"
    return f"{1000.0 * score.mean:.0f}±{1000.0 * score.error:.0f}"


def _score(cell: str) -> Score:
    if cell.startswith(">"):
        return Score(math.inf, 0.0)
    mean, _, error = cell.partition("±")
    return Score(float(mean) / 1000.0, float(error) / 1000.0)


def read_tables(text: str) -> dict[str, ProblemTable]:
    """What `markdown` wrote, by the name of the problem."""
    return {part.partition("\n")[0]: _read_table(part) for part in text.split("\n## ")[1:]}


def _read_table(part: str) -> ProblemTable:
    numbers = re.search(r"n = (\d+), d = (\d+), (\d+) splits", part)
    assert numbers is not None, part
    table = ProblemTable(*map(int, numbers.groups()))
    heading, _, *lines = (line for line in part.splitlines() if line.startswith("|"))
    solvers = [cell.strip() for cell in heading.split("|")[4:-1]]
    for line in lines:
        epsilon, delta, chosen, *cells = line.split("|")[1:-1]
        budget = float(epsilon), float(delta)
        table.chosen[budget] = chosen
        table.scores[budget] = {
            solver: _score(cell) for solver, cell in zip(solvers, cells, strict=True) if cell
        }
    return table


def write(measured: Mapping[str, ProblemTable]) -> None:
    """Put what was measured in the place of the same problems' tables; drop problems that are no more."""
    kept = dict(_parts(TABLE.read_text(encoding="utf-8"))) if TABLE.exists() else {}
    kept.update({name: markdown(name, table) for name, table in measured.items()})
    text = HEADER + "".join(kept[name] for name in PROBLEMS if name in kept)
    TABLE.write_text(text, encoding="utf-8")


def with_columns(table: ProblemTable, measured: ProblemTable) -> ProblemTable:
    """The table with what was measured of some solvers."""
    for budget, scores in measured.scores.items():
        table.scores[budget] |= scores
    return table


def _parts(text: str) -> list[tuple[str, str]]:
    return [(part.partition("\n")[0], f"\n## {part.rstrip()}\n") for part in text.split("\n## ")[1:]]


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--problems", nargs="+", default=[""], help="beginnings of names")
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=[], help="these columns alone")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; -1: one per core")
    parser.add_argument("--rule", action="store_true", help="measure nothing, renew the column auto")
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {TABLE.name}")
    arguments = parser.parse_args()
    if arguments.rule:
        write(renewed(read_tables(TABLE.read_text(encoding="utf-8"))))
        return
    names = [name for name in PROBLEMS if name.startswith(tuple(arguments.problems))]
    splits = range(arguments.repetitions)
    workers = Parallel(arguments.jobs, batch_size=1, return_as="generator")
    results = workers(delayed(measure)(name, split, arguments.solvers) for name in names for split in splits)
    for name in names:
        table = summary(name, [next(results) for _ in splits])
        if arguments.solvers:
            table = with_columns(read_tables(TABLE.read_text(encoding="utf-8"))[name], table)
        print(markdown(name, table), flush=True)
        if arguments.write:
            write({name: table})


if __name__ == "__main__":
    main()
