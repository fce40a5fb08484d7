"""The default solver on problems of many kinds, against another solver and the best constant prediction.

    python bench/default_problems.py --write                      all, into docs/decisions/default-problems.md
    python bench/default_problems.py --half fit --constant WhitenedGD.STEP=0.5

`GENERATED` are 60 problems drawn from seeds: 500 to 50,000 records, 2 to 200 columns; dense, correlated,
off-centre, heavy-tailed and one-hot rows, in one unit or many; rare labels, up to 30 classes, real targets
far from 0; public bounds that are exact or too large. `tables` adds those of installed packages with at
least 150 records: scikit-learn's ``load_*``, and statsmodels' if it is there, with bounds that one would
guess.

Constants of the default may be chosen on the half "fit" of the problems, by a hash of the name; the half
"held out" is for reports alone. The page that is written says what its scores are.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import pkgutil
import textwrap
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets
from sklearn.model_selection import train_test_split

import dperm
from dperm import algorithms
from dperm.algorithms.defaults import constants
from dperm.losses import Loss, get_loss
from solver_choice import constant_loss

PAGE = Path(__file__).parents[1] / "docs" / "decisions" / "default-problems.md"
EPSILONS, DELTA = (0.1, 0.4, 1.6), 1e-6
LEAST_RECORDS, MOST_CLASSES = 150, 10
LEAST_GAIN = 0.02  # of the optimum over a constant, relative to that: less cannot be told from chance
RIDGES = (0.0, 1e-3, 1e-1)
FLOOR = 0.01  # of a score in geometric means

Data = tuple[
    np.ndarray, np.ndarray, Loss, float
]  # rows, targets, loss, bound on the norm of a row with its 1

Split = tuple[np.ndarray, np.ndarray]

LABELS = ["logistic"] * 4 + ["hinge", "squared_hinge"]
TARGETS = ["squared_error"] * 3 + ["huber", "absolute", "pinball"]


@dataclass(frozen=True)
class Generated:
    """What a problem is generated from."""

    loss: str
    n: int
    d: int
    rows: str
    units: float  # standard deviation of the logarithms of the columns' units
    loose: float  # public bounds on rows and targets, over those of these records
    positives: float  # share of positive labels
    classes: int
    strength: float  # standard deviation of the log-odds, or of what can be learned of targets over the rest

    @classmethod
    def drawn(cls, seed: int) -> Generated:
        """From a seed, whose remainder by 4 says what is predicted."""
        rng = np.random.default_rng(seed)
        loss = str(rng.choice([LABELS, TARGETS, LABELS, ["softmax"]][seed % 4]))
        return cls(
            loss,
            n=round(10.0 ** rng.uniform(math.log10(500), math.log10(50_000))),
            d=round(10.0 ** rng.uniform(math.log10(2), math.log10(200))),
            rows=str(rng.choice(["even", "correlated", "off-centre", "heavy", "one-hot"])),
            units=float(rng.choice([0.0, 0.0, 2.0])),
            loose=float(rng.choice([1.0, 1.0, 3.0, 20.0])),
            positives=float(rng.choice([0.5, 0.3, 0.1, 0.03])),
            classes=int(rng.choice([3, 10, 30])),
            strength=float(rng.choice([1.0, 2.0, 5.0])),
        )

    def __str__(self) -> str:
        units = ", many units" if self.units and self.rows != "one-hot" else ""
        loose = f", bounds x {self.loose:g}" if self.loose > 1.0 else ""
        labels = f"{100 * self.positives:g} % positive, " if self.loss in LABELS else ""
        labels = f"{self.classes} classes, " if self.loss == "softmax" else labels
        return f"{self.loss}, {labels}{self.rows}{units}{loose}, strength {self.strength:g}"

    def data(self) -> Data:
        """Rows, targets, loss and row norm."""
        rng = np.random.default_rng(zlib.crc32(f"{self} {self.n} {self.d}".encode()))
        X = self._rows(rng)
        rule = rng.normal(size=(X.shape[1], self.classes if self.loss == "softmax" else 1))
        margin = ((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)) @ rule
        margin *= self.strength / margin.std()
        if self.rows != "one-hot":
            X *= np.exp(self.units * rng.normal(size=X.shape[1]))
        y, loss = self._targets(margin, rng)
        return X, y, loss, self.loose * math.sqrt(1.0 + float((X**2).sum(axis=1).max()))

    def _rows(self, rng: np.random.Generator) -> np.ndarray:
        n, d = self.n, self.d
        if self.rows == "one-hot":  # columns of 2 to 40 categories, some of them rare
            columns, left = [], d
            while left >= 2:
                size = int(min(left, rng.integers(2, 41)))
                columns.append(np.eye(size)[rng.choice(size, n, p=rng.dirichlet(np.full(size, 0.5)))])
                left -= size
            return np.hstack(columns)
        X = rng.normal(size=(n, d)).clip(-4.0, 4.0)
        if self.rows == "correlated":
            factors = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d))
            X = 0.3 * X * np.linspace(0.2, 1.0, d) + factors
        if self.rows == "off-centre":
            X = 0.2 * X + rng.uniform(-3.0, 3.0, size=d)
        if self.rows == "heavy":  # few entries are not 0, and few of these are large
            X = np.exp(1.5 * X) * (rng.random((n, d)) < max(0.1, 1.0 / d))
        return np.ascontiguousarray(X)

    def _targets(self, margin: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Loss]:
        if self.loss == "softmax":
            codes = np.argmax(margin + rng.gumbel(size=margin.shape), axis=1)
            return codes, get_loss("softmax", self.classes)
        margin = margin[:, 0]
        if self.loss in LABELS:
            noisy = margin + rng.logistic(size=self.n)
            cut = np.quantile(noisy, 1.0 - self.positives)
            return np.where(noisy > cut, 1.0, -1.0), get_loss(self.loss)
        y = margin + rng.normal(size=self.n)
        y += float(rng.choice([0.0, 3.0, 30.0])) * y.std()
        return y, _of_targets(self.loss, self.loose * float(np.abs(y).max()))


def _of_targets(name: str, bound: float) -> Loss:
    """A loss of real targets with that bound on them."""
    own = {"huber": {"threshold": 1.0}, "pinball": {"level": 0.8}}.get(name, {})
    return type(get_loss(name))(**own, target_bound=bound)


GENERATED = {f"{seed:02d}": Generated.drawn(seed) for seed in range(60)}


def tables() -> Iterator[tuple[str, Any, Any]]:
    """Name, rows and targets of tables of installed packages."""
    for name in ("iris", "wine", "breast_cancer", "digits", "diabetes", "linnerud"):
        table = getattr(datasets, f"load_{name}")()
        yield f"scikit-learn {name}", table.data, table.target
    try:
        theirs: ModuleType = importlib.import_module("statsmodels.datasets")
    except ImportError:
        return
    for module in pkgutil.iter_modules(theirs.__path__):
        own = importlib.import_module(f"{theirs.__name__}.{module.name}") if module.ispkg else None
        table = own.load_pandas() if hasattr(own, "load_pandas") else {}
        if table.get("exog") is not None and table.get("endog") is not None:
            yield f"statsmodels {module.name}", table["exog"], table["endog"]


def _of_table(rows: Any, targets: Any) -> Data:
    """With bounds that are 1, 2 or 5 times a power of ten; targets of few values are classes."""
    columns, y = np.asarray(rows).reshape(len(rows), -1).T, np.asarray(targets, float)
    X = np.ascontiguousarray(np.column_stack([_encoded(column) for column in columns]))
    y = y if y.ndim == 1 else y[:, 0]
    values, codes = np.unique(y, return_inverse=True)
    row_norm = math.sqrt(1.0 + len(columns))
    if len(values) == 2:
        return X, 2.0 * codes - 1.0, get_loss("logistic"), row_norm
    if len(values) <= MOST_CLASSES:
        return X, codes, get_loss("softmax", len(values)), row_norm
    return X, y, _of_targets("squared_error", _round_bound(y)), row_norm


def _encoded(column: np.ndarray) -> np.ndarray:
    """Numbers within [-1, 1]; texts one-hot."""
    try:
        numbers = column.astype(float)
    except ValueError:
        return (column[:, np.newaxis] == np.unique(column)).astype(float)
    return numbers / _round_bound(numbers)


def _round_bound(values: np.ndarray) -> float:
    largest = float(np.abs(values).max())
    power = 10.0 ** math.floor(math.log10(largest or 1.0))
    return next(power * step for step in (1.0, 2.0, 5.0, 10.0) if power * step >= largest)


def half(name: str) -> str:
    """The half of the problems that one belongs to."""
    return "held out" if zlib.crc32(name.encode()) % 2 else "fit"


@dataclass(frozen=True)
class Result:
    """Scores by solver and epsilon, and what the problem is."""

    what: str
    size: str
    scores: np.ndarray


def optimum(loss: Loss, train: Split, test: Split) -> float:
    """Held-out loss without privacy: of the best of some ridges, on standardised columns."""
    centre, deviation = train[0].mean(axis=0), train[0].std(axis=0)
    rows = [(each - centre) / np.where(deviation > 0.0, deviation, 1.0) for each in (train[0], test[0])]
    common = {"row_norm": 1.0 + max(float(np.linalg.norm(each, axis=1).max()) for each in rows)}
    score = dperm.Objective(loss, rows[1], test[1], fit_intercept=True, n_threads=1, **common)
    fits = [
        dperm.Objective(loss, rows[0], train[1], l2=l2, fit_intercept=True, n_threads=1, **common)
        for l2 in RIDGES
    ]
    return min(score.value(algorithms.nonprivate(fit, max_iter=200).coef) for fit in fits)


def measure(data: Data, solvers: list[str], seeds: int, changed: list[str]) -> np.ndarray:
    """Scores by solver and epsilon, means over splits; NaN where a constant is as good as the optimum."""
    for each in changed:
        place, value = each.split("=")
        rule, constant = place.split(".")
        setattr(getattr(constants, rule), constant, float(value))
    X, y, loss, row_norm = data
    found = np.zeros((seeds, 2 + len(solvers) * len(EPSILONS)))
    for seed in range(seeds):
        rows, others, targets, other_targets = train_test_split(X, y, test_size=0.25, random_state=seed)
        common: dict[str, Any] = {"row_norm": row_norm, "fit_intercept": True, "n_threads": 1}
        train = dperm.Objective(loss, rows, targets, **common)
        test = dperm.Objective(loss, others, other_targets, **common)
        found[seed, 0] = constant_loss(loss, targets, other_targets)
        found[seed, 1] = optimum(loss, (rows, targets), (others, other_targets))
        found[seed, 2:] = [
            test.value(getattr(algorithms, solver)(train, epsilon, DELTA, random_state=seed).coef)
            for solver in solvers
            for epsilon in EPSILONS
        ]
    constant, best, *losses = found.mean(axis=0)
    if constant - best < LEAST_GAIN * constant:
        return np.full((len(solvers), len(EPSILONS)), math.nan)
    return ((np.array(losses) - best) / (constant - best)).reshape(len(solvers), len(EPSILONS))


def page(results: dict[str, Result], solvers: list[str], command: str) -> str:
    """All results as one page of Markdown."""
    known = {name: each for name, each in results.items() if not np.isnan(each.scores).any()}
    columns = [f"`{solver}` {epsilon:g}" for solver in solvers for epsilon in EPSILONS]
    heading = " | ".join(columns) + " |\n|" + "---|" * (2 + len(columns))
    epsilons = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    lines = [
        "# The default on problems of many kinds\n",
        f"`{command}`: default settings at epsilon {epsilons} and delta = {DELTA:g},",
        "add-or-remove neighbours. A score is the mean loss on held-out records, minus that of the optimum",
        "without privacy (the best of three ridges), over that of the best constant minus the same: 0 is the",
        "optimum, 1 a constant.",
        'Constants of the default may be chosen on problems of the half "fit"; the others are held out from',
        "every choice. The half is a hash of the name. `bench/default_problems.py` says how the problems are",
        "made.\n",
        f"| | problems | {heading}",
    ]
    for group in ("fit", "held out"):
        values = np.array([each.scores.ravel() for name, each in known.items() if half(name) == group])
        for what, cells in _summaries(values) if len(values) else ():
            lines.append(f"| {group}, {what} | {len(values)} | " + " | ".join(cells) + " |")
    lines += ["\nEach problem; *: held out.\n", f"| problem | n x d | {heading}"]
    for name, each in known.items():
        star = " *" if half(name) == "held out" else ""
        cells = [each.what + star, each.size, *(f"{score:.2f}" for score in each.scores.ravel())]
        lines.append("| " + " | ".join(cells) + " |")
    left_out = "; ".join(each.what for name, each in results.items() if name not in known) or "none"
    least = f"{100 * LEAST_GAIN:g} % better than a constant"
    last = (
        f"Left out, because the optimum without privacy predicts new records less than {least}: {left_out}."
    )
    lines += ["", *textwrap.wrap(last, 118), ""]
    return "\n".join(lines)


def _summaries(values: np.ndarray) -> Iterator[tuple[str, list[str]]]:
    means = np.exp(np.log(np.maximum(values, FLOOR)).mean(axis=0))
    yield "geometric mean", [f"{v:.3f}" for v in means]
    yield "worst", [f"{v:.2f}" for v in values.max(axis=0)]
    yield "worse than a constant by 2 %", [str(v) for v in (values > 1.02).sum(axis=0)]


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--solvers", nargs="+", default=["whitened_gd", "noisy_gd"])
    parser.add_argument("--seeds", type=int, default=3, help="splits")
    parser.add_argument("--half", choices=("fit", "held out"))
    parser.add_argument("--constant", nargs="+", default=[], help="such as WhitenedGD.STEP=0.5")
    parser.add_argument("--jobs", type=int, default=1, help="processes; -1: one per core")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    given = parser.parse_args()
    problems: dict[str, Any] = {
        name: functools.partial(_of_table, rows, targets)
        for name, rows, targets in tables()
        if len(rows) >= LEAST_RECORDS
    }
    problems |= {f"{name} {each}": each.data for name, each in GENERATED.items()}
    chosen = [name for name in problems if given.half in (None, half(name))]

    def one(name: str) -> Result:
        X, y, loss, row_norm = problems[name]()
        scores = measure((X, y, loss, row_norm), given.solvers, given.seeds, given.constant)
        what = name if name[0].isdigit() else f"{name}, {loss.name}"
        print(what, X.shape, scores.round(2).tolist(), flush=True)
        return Result(what, f"{len(X):,} x {X.shape[1]}", scores)

    measured = Parallel(given.jobs, batch_size=1)(delayed(one)(name) for name in chosen)
    command = f"python bench/default_problems.py --seeds {given.seeds}" + (" --write" if given.write else "")
    text = page(dict(zip(chosen, measured, strict=True)), given.solvers, command)
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
