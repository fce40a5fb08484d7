"""Additive models: what curves in place of straight lines gain and cost.

    python bench/additive.py [--data adult bank] [--epsilons 0.1 0.4 1 4] [--splits 8] [--ebm-splits 3]
    python bench/additive.py --study fit --functions 0 1 2 4 8 16 [--splits 4]
    python bench/additive.py --study "held out" --functions 0 -1

The first prints accuracy and AUC on held-out records of ``additive=True`` and of the linear model, of the
linear model and of boosted trees without privacy, and, with interpret-core, of DP-EBM. The second fits with
given numbers of functions, -1 for the rule of the package, on generated problems (additive, linear and
stepwise truths; values that pile up; heavy tails), data sets and tables of installed packages. It prints the
held-out loss and the change of accuracy or R^2 against the first number with its standard error over splits.
The half of a problem is a hash of its name.
"""

from __future__ import annotations

import functools
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

import dperm
import dperm.estimators.additive as additive
from default_problems import half, tables
from dperm import Categorical, Numeric, Schema
from measuring import command_line

DELTA = 1e-6
EPSILONS = (0.1, 0.4, 1.0, 4.0)
MOST_RECORDS = 16_000  # of a data set in the study


class Problem(NamedTuple):
    """A table of columns in [0, 1] or of codes, targets, and the public bound on these (None for labels)."""

    columns: dict[str, np.ndarray]
    y: np.ndarray
    bound: float | None
    schema: Schema


def data_set(name: str, most: int | None = None) -> Problem:
    """A data set, its numbers scaled by their public bounds."""
    data = dperm.datasets.load(name, dense=False)
    chosen = np.random.default_rng(0).permutation(len(data.y))[:most]
    numbers, codes = iter(data.X.numeric[chosen].T), iter(data.X.codes[chosen].T)
    columns = {each.name: next(numbers if each.n_numbers else codes) for each in data.schema.columns}
    described = [
        Numeric(each.name, 0, 1)
        if each.n_numbers
        else Categorical(each.name, range(len(each.categories)), "zero")
        for each in data.schema.columns
    ]
    return Problem(columns, data.y[chosen], None, Schema(described))


def of_matrix(X: np.ndarray, y: np.ndarray) -> Problem:
    """Numbers scaled to [0, 1] by their range; targets of at most 10 values are labels."""
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    columns = {f"x{j}": (X[:, j] - low[j]) / (span[j] or 1.0) for j in range(X.shape[1])}
    bound = 2.0 * float(np.abs(y).max()) if len(np.unique(y)) > 10 else None
    return Problem(columns, y, bound, Schema([Numeric(name, 0, 1) for name in columns]))


def generated(truth: str, n: int, d: int, labels: bool) -> Problem:
    """Correlated numbers and four columns of five categories, the truth a sum over the columns."""
    rng = np.random.default_rng(zlib.crc32(f"{truth} {n} {d} {labels}".encode()))
    X = 0.5 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))
    if truth == "heavy tails":
        X = np.exp(X)
    if truth == "values that pile up":
        X = np.where(rng.random((n, d)) < rng.uniform(0.2, 0.9, d), -9.0, np.round(3.0 * X).clip(-8.0, 20.0))
    parts = np.stack([_part(truth, X[:, j], rng) for j in range(d)], axis=1)
    score = parts / (parts.std(axis=0) + 1e-9) @ (1.0 / np.sqrt(1.0 + np.arange(d)))
    codes = rng.integers(0, 5, (n, 4))
    score += 0.7 * rng.normal(size=(4, 5))[np.arange(4), codes].sum(axis=1)
    score *= 1.5 / score.std()
    problem = of_matrix(X, score + rng.normal(size=n))
    columns = problem.columns | {f"c{j}": codes[:, j] for j in range(4)}
    described = [*problem.schema.columns, *(Categorical(f"c{j}", range(5)) for j in range(4))]
    y = np.where(score - score.mean() + rng.logistic(size=n) > 0.7, 1, -1) if labels else problem.y
    return Problem(columns, y, None if labels else problem.bound, Schema(described))


def _part(truth: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    rank = np.argsort(np.argsort(x)) / len(x)
    if truth == "linear":
        return x
    if truth == "heavy tails":
        return np.log(x)
    if truth == "steps":
        return rng.normal(size=4)[np.digitize(rank, np.sort(rng.random(3)))]
    if truth == "values that pile up":
        return 2.0 * rng.normal() * (x == -9.0) + np.sin(x / 4.0)
    return sum(rng.normal() / k * np.cos(math.pi * k * rank) for k in range(1, 6))


def problems() -> Iterator[tuple[str, Callable[[], Problem]]]:
    """All problems of the study by name."""
    for name in ("adult", "bank", "kddcup99", "wine"):
        yield name, functools.partial(data_set, name, MOST_RECORDS)
    truths = ("additive", "linear", "steps", "values that pile up", "heavy tails")
    sizes = ((16_000, 6, True), (4_000, 12, True), (16_000, 20, False), (6_000, 4, False))
    for truth in truths:
        for n, d, labels in sizes:
            name = f"{truth}, {n:,} x {d}, {'labels' if labels else 'targets'}"
            yield name, functools.partial(generated, truth, n, d, labels)
    for name, rows, targets in tables():
        X = np.asarray(rows).reshape(len(rows), -1)
        y = np.asarray(targets, float).reshape(len(rows), -1)[:, 0]
        if len(X) >= 150 and X.dtype.kind == "f":
            yield name, functools.partial(of_matrix, X, y)


def model_for(problem: Problem, epsilon: float, n: int, **settings: Any) -> Any:
    """The default model, which is told a public number of records."""
    common = {"schema": problem.schema, "n_public": n, "n_threads": 1, **settings}
    if problem.bound is None:
        return dperm.LogisticRegression(epsilon, DELTA, classes=np.unique(problem.y).tolist(), **common)
    return dperm.HuberRegressor(epsilon, DELTA, threshold=math.inf, target_bound=problem.bound, **common)


def split(
    problem: Problem, seed: int
) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Columns and targets for training, then those for testing."""
    order = np.random.default_rng(seed).permutation(len(problem.y))
    train, test = order[: int(0.8 * len(order))], order[int(0.8 * len(order)) :]
    taken = [{name: each[rows] for name, each in problem.columns.items()} for rows in (train, test)]
    return taken[0], problem.y[train], taken[1], problem.y[test]


def scores(problem: Problem, model: Any, X: Any, y: np.ndarray) -> list[float]:
    """Accuracy or R^2 in per cent, AUC in per cent, and the loss: logarithmic, or unexplained variance."""
    if problem.bound is not None:
        r2 = r2_score(y, model.predict(X))
        return [100.0 * r2, math.nan, 1.0 - r2]
    chances = model.predict_proba(X)
    auc = 100.0 * roc_auc_score(y, chances[:, 1]) if chances.shape[1] == 2 else math.nan
    return [100.0 * accuracy_score(y, model.predict(X)), auc, log_loss(y, chances, labels=model.classes_)]


def fixed(functions: int) -> Callable[..., int]:
    """In place of the rule; -1 is the rule itself."""
    return additive.functions_of_budget if functions < 0 else lambda *_: functions


def study(which: str, numbers: list[int], splits: int) -> None:
    """Print a line per problem and epsilon."""
    rules = {functions: fixed(functions) for functions in numbers}
    logarithms = {functions: [] for functions in numbers}
    for name, make in problems():
        if half(name) != which:
            continue
        problem = make()
        for epsilon in EPSILONS:
            found = {}
            for functions, rule in rules.items():
                additive.functions_of_budget = rule
                rows = []
                for seed in range(splits):
                    X, y, other, targets = split(problem, seed)
                    model = model_for(problem, epsilon, len(y), additive=True, random_state=seed).fit(X, y)
                    rows.append(scores(problem, model, other, targets))
                found[functions] = np.array(rows)
            base = found[numbers[0]]
            cells = []
            for functions, each in found.items():
                change, ratio = each[:, 0] - base[:, 0], each[:, 2].mean() / base[:, 2].mean()
                error = change.std(ddof=1) / math.sqrt(splits)
                logarithms[functions].append(math.log(ratio))
                cells.append(f"{functions}: {ratio:.3f} ({change.mean():+.1f} +- {error:.1f})")
            print(
                f"{name}, {len(problem.y):,} x {len(problem.columns)}, {epsilon:g} | " + " | ".join(cells),
                flush=True,
            )
    for functions, each in logarithms.items():
        print(f"{functions}: geometric mean of loss ratios {math.exp(np.mean(each)):.3f} on {len(each)}")


def lines(name: str, epsilons: list[float], splits: int) -> None:
    """Print the table of a data set."""
    problem, found = data_set(name), dict[str, list[list[float]]]()
    for seed in range(splits):
        X, y, other, targets = split(problem, seed)
        for title, budget, settings in (
            *((f"additive, epsilon {e:g}", e, {"additive": True}) for e in epsilons),
            *((f"linear, epsilon {e:g}", e, {}) for e in epsilons),
            ("linear, not private", math.inf, {"solver": "nonprivate"}),
        ):
            model = model_for(problem, budget, len(y), random_state=seed, **settings).fit(X, y)
            found.setdefault(title, []).append(scores(problem, model, other, targets))
        codes = [not column.n_numbers for column in problem.schema.columns]
        trees = HistGradientBoostingClassifier(categorical_features=codes, random_state=seed)
        matrix, held = (np.column_stack(list(each.values())) for each in (X, other))
        found.setdefault("boosted trees, not private", []).append(
            scores(problem, trees.fit(matrix, y), held, targets)
        )
    print(f"{name}: means over {splits} splits\n| model | accuracy, % | AUC, % |\n|---|---|---|")
    for title, rows in found.items():
        accuracy, auc, _ = np.mean(rows, axis=0)
        print(f"| {title} | {accuracy:.1f} | {auc:.1f} |", flush=True)


def dp_ebm(name: str, epsilons: list[float], splits: int) -> None:
    """Print accuracy and AUC of interpret's private explainable boosting machine."""
    from interpret.privacy import DPExplainableBoostingClassifier

    problem = data_set(name)
    kinds = ["continuous" if each.n_numbers else "nominal" for each in problem.schema.columns]
    bounds = np.tile([0.0, 1.0], (len(kinds), 1))
    for epsilon in epsilons:
        rows = []
        for seed in range(splits):
            X, y, other, targets = split(problem._replace(y=(problem.y > 0).astype(int)), seed)
            matrix, held = (np.column_stack(list(each.values())) for each in (X, other))
            model = DPExplainableBoostingClassifier(
                feature_types=kinds, epsilon=epsilon, delta=DELTA, privacy_bounds=bounds, n_jobs=1
            )
            rows.append(scores(problem, model.fit(matrix, y), held, targets))
        accuracy, auc, _ = np.mean(rows, axis=0)
        print(f"| DP-EBM, epsilon {epsilon:g} | {accuracy:.1f} | {auc:.1f} |", flush=True)


if __name__ == "__main__":
    given = command_line(
        __doc__, data=["adult", "bank"], epsilons=list(EPSILONS), splits=8, study="", functions=[0, -1],
        ebm_splits=0,
    )  # fmt: skip
    warnings.simplefilter("ignore")
    if given.study:
        study(given.study, given.functions, given.splits)
    else:
        for each in given.data:
            lines(each, given.epsilons, given.splits)
            if given.ebm_splits:
                dp_ebm(each, given.epsilons, given.ebm_splits)
