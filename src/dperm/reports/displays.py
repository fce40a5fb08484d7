"""Plots of budgets, weights and accuracy, as displays in the style of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from dperm.accounting import PrivacyLedger
from dperm.accounting.ledger.ledger import check_ledger
from dperm.accounting.ledger.reports import spending
from dperm.data.schema.columns import Numeric
from dperm.data.schema.schema import Schema
from dperm.errors import ExactScoreWarning, warn_caller
from dperm.metrics.displays import new_axes

_CATEGORIES = 16  # that a small axis has room for
_TALL = 3.0  # times the median height of curves, from which on a curve has its own scale
_WIDE = 99.0  # range from which on an axis is logarithmic, if the column is
_LINES = 8  # levels that lines can be told apart for
_ROW = 0.24  # height of a row in inches
NOT_PRIVATE = "exact scores, for public or synthetic data: NOT private"


@dataclass
class BudgetDisplay:
    """The spending of a budget over time.

    Parameters
    ----------
    when : list of datetime
        Times of the entries, oldest first.
    spent : (n,) ndarray
        Epsilon spent after each entry, at the budget's delta.
    total : (n,) ndarray
        Total epsilon, which extensions raise.
    name : str

    Attributes
    ----------
    figure_, ax_, line_
        Objects of matplotlib, set by `plot`.

    Examples
    --------
    >>> import dperm
    >>> import matplotlib.pyplot as plt
    >>> ledger = dperm.accounting.Ledger(2.0, 1e-6, name="survey")
    >>> for epsilon in (0.5, 1.0):
    ...     entry = ledger.charge(epsilon=epsilon, delta=1e-8)
    >>> display = BudgetDisplay.from_ledger(ledger)
    >>> display.spent.round(2), display.total
    (array([0.4 , 0.93]), array([2., 2.]))
    >>> plt.close(display.figure_)
    """

    when: list[datetime]
    spent: NDArray[np.float64]
    total: NDArray[np.float64]
    name: str = ""

    @classmethod
    def from_ledger(cls, ledger: PrivacyLedger, *, ax: Any = None) -> Self:
        """Draw the entries of a ledger.

        Parameters
        ----------
        ledger : PrivacyLedger
        ax : matplotlib axes, optional

        Returns
        -------
        BudgetDisplay
        """
        course = spending(check_ledger(ledger))
        if not course:
            raise ValueError("nothing was charged to this ledger so far: there is nothing to draw")
        entries, spent, total = zip(*course, strict=True)
        return cls([each.when for each in entries], np.array(spent), np.array(total), ledger.name).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the spending, in new axes by default."""
        self.figure_, self.ax_ = new_axes(ax, (7.0, 3.2))
        from matplotlib import dates as untyped

        dates: Any = untyped

        (self.line_,) = self.ax_.step(self.when, self.spent, where="post", marker="o", label="spent")
        self.ax_.fill_between(self.when, 0.0, self.spent, step="post", alpha=0.15)
        if np.isfinite(self.total).all():
            style: dict[str, Any] = {"color": "C3", "linestyle": "--", "label": "total"}
            if (self.total == self.total[0]).all():
                self.ax_.axhline(self.total[0], **style)
            else:
                self.ax_.step(self.when, self.total, where="post", **style)
        locator = dates.AutoDateLocator(maxticks=8)
        self.ax_.xaxis.set_major_locator(locator)
        formatter = dates.ConciseDateFormatter(locator)
        self.ax_.xaxis.set_major_formatter(formatter)
        self.ax_.set(xlabel="time (UTC)", ylabel="epsilon", title=f"Budget {self.name}".rstrip())
        self.ax_.set_ylim(bottom=0.0)
        if self.when[0] == self.when[-1]:
            self.ax_.set_xlim(self.when[0] - timedelta(days=1), self.when[0] + timedelta(days=1))
        self.ax_.legend(frameon=False)
        return self


@dataclass
class CoefficientDisplay:
    """The weights of a model, with intervals if its solver gives standard errors.

    Parameters
    ----------
    names : list of str
    values : (n, k) ndarray
        A column for each class, or one.
    intervals : (n, 2) ndarray or None
        NaN where there is no interval.
    labels : list of str
        Labels of the classes, if there are several columns.
    left_out : int
        Number of smaller weights that are not shown.

    Attributes
    ----------
    figure_, ax_
        Objects of matplotlib, set by `plot`.

    Examples
    --------
    >>> import dperm
    >>> import matplotlib.pyplot as plt
    >>> schema = dperm.Schema([dperm.Categorical("job", ["cook", "clerk"])])
    >>> model = dperm.LogisticRegression(schema=schema, classes=[0, 1])
    >>> display = CoefficientDisplay.from_estimator(model.fit({"job": ["cook", "clerk"] * 50}, [0, 1] * 50))
    >>> display.names
    ['job = cook', 'job = clerk', '(intercept)']
    >>> plt.close(display.figure_)
    """

    names: list[str]
    values: NDArray[np.float64]
    intervals: NDArray[np.float64] | None = None
    labels: Sequence[str] = ()
    left_out: int = 0

    @classmethod
    def from_estimator(cls, estimator: Any, *, level: float = 0.95, most: int = 40, ax: Any = None) -> Self:
        """Draw the weights of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A model of :mod:`dperm.estimators`.
        level : float
            Coverage of the intervals, which exist after ``solver="noisy_newton"``.
        most : int
            Number of weights to show: the largest, in the order of the columns.
        ax : matplotlib axes, optional

        Returns
        -------
        CoefficientDisplay
        """
        check_is_fitted(estimator)
        columns, categories, *numbers = estimator.coefficient_values().items()
        names = [
            str(column) if category is None else f"{column} = {category}"
            for column, category in zip(columns[1], categories[1], strict=True)
        ]
        values = np.column_stack([each for _, each in numbers])
        intervals = None if getattr(estimator, "inference_", None) is None else estimator.conf_int(level)
        largest = np.sort(np.argsort(-np.abs(values).max(axis=1), kind="stable")[:most])
        return cls(
            [names[place] for place in largest],
            values[largest],
            None if intervals is None else intervals[largest],
            [label for label, _ in numbers] if len(numbers) > 1 else [],
            len(names) - len(largest),
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the weights, in new axes by default."""
        rows = np.arange(len(self.names))
        self.figure_, self.ax_ = new_axes(ax, (7.0, 1.2 + _ROW * len(rows)))
        self.ax_.axvline(0.0, color="0.5", linewidth=1)
        for place in range(self.values.shape[1]):
            label = self.labels[place] if self.labels else None
            self.ax_.plot(self.values[:, place], rows, "o", markersize=4, color=f"C{place}", label=label)
        if self.intervals is not None:
            self.ax_.hlines(rows, *self.intervals.T, color="C0", linewidth=1.5)
        self.ax_.set_yticks(rows, [_shortened(name) for name in self.names], fontsize="small")
        self.ax_.set(ylim=(len(rows) - 0.5, -0.5), xlabel=self._unit())
        self.ax_.grid(axis="x", alpha=0.3)
        if self.labels:
            self.ax_.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return self

    def _unit(self) -> str:
        text = "weight" if self.intervals is None else "weight with its interval"
        return text if not self.left_out else f"{text} (the largest; {self.left_out:,} others are not shown)"


@dataclass
class ShapesDisplay:
    """The curves of a model: what every column adds to the score, by its value.

    Curves are on one scale, except those that are far higher; interactions are maps or, by category, lines.

    Parameters
    ----------
    shapes : dict of str to list
        As ``model.shape_values()`` returns it. Bands are intervals of 95 %, where it has standard errors.
    most : int
        Number of columns to show: the most important, or else those of the widest range.
    importances : dict of str to float
        By column, the numbers beside its name; empty if they are not known.
    schema : Schema, optional
        For the scales and names of axes.

    Attributes
    ----------
    figure_, axes_
        Objects of matplotlib, set by `plot`.

    Examples
    --------
    >>> import dperm
    >>> import matplotlib.pyplot as plt
    >>> schema = dperm.Schema([dperm.Numeric("age", 0, 100), dperm.Categorical("job", ["cook", "clerk"])])
    >>> table = {"age": [20, 80] * 50, "job": ["cook", "clerk"] * 50}
    >>> model = dperm.LogisticRegression(schema=schema, classes=[0, 1], additive=True).fit(table, [0, 1] * 50)
    >>> display = ShapesDisplay.from_estimator(model)
    >>> len(display.axes_)
    2
    >>> plt.close(display.figure_)
    """

    shapes: dict[str, list[Any]]
    most: int = 24
    importances: Mapping[str, float] = field(default_factory=dict)
    schema: Schema | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, most: int = 24) -> Self:
        """Draw the curves of a fitted estimator with a schema."""
        shapes = estimator.shape_values()
        importances = dict(zip(*estimator.importance_values().values(), strict=True))
        return cls(shapes, most, importances, estimator.schema_).plot()

    def plot(self) -> Self:
        """Draw the curves, each in axes of its own."""
        facts = {name: np.array(each, dtype=object) for name, each in self.shapes.items()}
        heads = [name for name in list(facts)[4:] if name != "standard_error"]
        scores = np.column_stack([facts[head] for head in heads]).astype(float)
        errors = 1.96 * np.array(self.shapes.get("standard_error", np.full(len(scores), math.nan)))
        where = {name: facts["column"] == name for name in dict.fromkeys(self.shapes["column"])}
        ranges = {name: float(np.ptp(scores[own], axis=0).max()) for name, own in where.items()}
        names = sorted(where, key=lambda name: (-self.importances.get(name, 0.0), -ranges[name]))[: self.most]
        across = min(len(names), 4)
        down = -(-len(names) // across)
        self.figure_, _ = new_axes(None, (2.8 * across, 2.3 * down))
        self.figure_.clear()
        grid = self.figure_.subplots(down, across, squeeze=False).ravel()
        for axes in grid[len(names) :]:
            axes.remove()
        self.axes_, curves = grid[: len(names)], []
        for axes, name in zip(self.axes_, names, strict=True):
            kinds, values, others = (facts[fact][where[name]] for fact in ("kind", "value", "other"))
            if kinds[0] == "pair":
                widest = int(np.ptp(scores[where[name]], axis=0).argmax())
                self._draw_pairs(axes, name, values, others, scores[where[name], widest])
            else:
                _draw_shape(axes, kinds, values, scores[where[name]], errors[where[name]])
                self._scale(axes.xaxis, name, values)
                axes.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
                curves.append(axes)
            size = f" ({self.importances[name]:.2g})" if name in self.importances else ""
            axes.set_title(_shortened(name) + size, fontsize="small")
            axes.tick_params(labelsize="x-small")
        ends = np.array([axes.get_ylim() for axes in curves]).reshape(-1, 2)
        heights = ends[:, 1] - ends[:, 0]
        alike = heights <= _TALL * np.median(heights)
        for axes in np.array(curves, dtype=object)[alike]:
            axes.set_ylim(ends[alike, 0].min(), ends[alike, 1].max())
        if len(heads) > 1 and curves:
            curves[0].legend(heads, frameon=False, fontsize="x-small")
        return self

    def _draw_pairs(
        self, axes: Any, name: str, values: NDArray[Any], others: NDArray[Any], scores: NDArray[np.float64]
    ) -> None:
        """Lines for the levels of a category along a number, if they are few, or a map of colours."""
        count = int(np.argmax(values != values[0])) or len(values)
        named = (
            {each.name: (each.first, each.second) for each in self.schema.interactions} if self.schema else {}
        )
        (x, y), xs, ys, table = (
            named.get(name, ("", "")),
            values[::count],
            others[:count],
            scores.reshape(-1, count),
        )
        if isinstance(xs[0], str):  # a number along x
            x, y, xs, ys, table = y, x, ys, xs, table.T
        known = [np.array([each == each for each in side]) for side in (xs, ys)]  # no missing values
        xs, ys, table = xs[known[0]], ys[known[1]], table[np.ix_(*known)]
        if isinstance(ys[0], str) and not isinstance(xs[0], str) and len(ys) <= _LINES:
            lines = axes.plot(xs.astype(float), table, drawstyle="steps-mid")
            labels, small = [_shortened(each, 14) for each in ys], "xx-small"
            axes.legend(lines, labels, title=y, frameon=False, fontsize=small, title_fontsize=small)
        else:
            places = [
                np.arange(len(each)) if isinstance(each[0], str) else each.astype(float) for each in (xs, ys)
            ]
            most = float(np.abs(table).max()) or 1.0
            mesh = axes.pcolormesh(*places, table.T, shading="nearest", cmap="RdBu_r", vmin=-most, vmax=most)
            self.figure_.colorbar(mesh, ax=axes).ax.tick_params(labelsize="x-small")
            self._scale(axes.yaxis, y, ys)
            axes.set_ylabel(_shortened(y), fontsize="x-small")
        self._scale(axes.xaxis, x, xs)
        axes.set_xlabel(_shortened(x), fontsize="x-small")

    def _scale(self, axis: Any, name: str, values: NDArray[Any]) -> None:
        """The scale of an axis of numbers, dates as such, and the names of categories."""
        columns = () if self.schema is None else self.schema.columns
        column = next((each for each in columns if each.name == name), None)
        if isinstance(values[0], str):
            shown = range(len(values) if len(values) <= _CATEGORIES else 0)  # more would overlap
            turned = {"rotation": 60, "ha": "right"} if axis.axis_name == "x" else {}
            axis.set_ticks(shown, [_shortened(values[place], 12) for place in shown], **turned)
        elif isinstance(column, Numeric) and column.transform == "log1p" and column.high - column.low > _WIDE:
            low, span = column.low, column.high - column.low
            there, back = lambda x: np.log1p(np.maximum(x - low, 0.0)), lambda z: low + np.expm1(z)
            getattr(axis.axes, f"set_{axis.axis_name}scale")("function", functions=(there, back))
            ticks = low + np.array([0.0, *10.0 ** np.arange(np.log10(span) + 1e-9)])
            axis.set_ticks(ticks, [column.shown(tick) for tick in ticks])
        elif isinstance(column, Numeric) and column.unit is not None:
            axis.set_major_formatter(lambda number, _: column.shown(round(number)))


def _draw_shape(
    axes: Any,
    kinds: NDArray[Any],
    values: NDArray[Any],
    scores: NDArray[np.float64],
    errors: NDArray[np.float64],
) -> None:
    """Lines between numbers, markers at single values, bars of categories; bands of given half-widths."""
    line, alone, missing = kinds == "number", kinds == "value", kinds == "missing"
    if not line.any():
        places = np.arange(len(values))
        axes.hlines(scores, places[:, np.newaxis] - 0.4, places[:, np.newaxis] + 0.4, color="C0")
        axes.errorbar(places, scores[:, 0], errors, fmt="none", ecolor="C0", alpha=0.4)
        return
    for place in range(scores.shape[1]):
        color, x = f"C{place}", values.astype(float)
        axes.plot(x[line], scores[line, place], color=color, linewidth=1.2)
        ends = (scores[line, place] + side * errors[line] for side in (-1.0, 1.0))
        axes.fill_between(x[line], *ends, color=color, alpha=0.2, linewidth=0)
        axes.errorbar(x[alone], scores[alone, place], errors[alone], fmt="o", markersize=3, color=color)
        for score in scores[missing, place]:
            axes.axhline(score, linestyle=":", linewidth=0.9, color=color)


@dataclass
class PrivacyUtilityDisplay:
    """Accuracy against epsilon, measured without noise: for public or synthetic data only.

    Parameters
    ----------
    epsilons : (n,) ndarray
    scores : (n, repeats) ndarray
    baseline : (repeats,) ndarray or None
        Scores without privacy.
    score_name : str

    Attributes
    ----------
    figure_, ax_, line_
        Objects of matplotlib, set by `plot`.

    Examples
    --------
    >>> import dperm
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 2))  # made up: exact scores protect nothing
    >>> model = dperm.LogisticRegression(
    ...     row_norm=1.3, classes=[False, True], solver="objective_perturbation"
    ... )
    >>> display = PrivacyUtilityDisplay.from_estimator(model, X, X[:, 0] > 0, epsilons=[1.0, 10.0], repeats=2)
    >>> display.scores.shape
    (2, 2)
    >>> plt.close(display.figure_)
    """

    epsilons: NDArray[np.float64]
    scores: NDArray[np.float64]
    baseline: NDArray[np.float64] | None = None
    score_name: str = "score"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        epsilons: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0),
        repeats: int = 5,
        scoring: str | None = None,
        seed: int = 0,
        ax: Any = None,
    ) -> Self:
        """Fit and score at several epsilons, on random splits of the records.

        Parameters
        ----------
        estimator : estimator
            With ``epsilon`` and ``ledger``, which must be None.
        X, y : records and their labels or targets
            Public or synthetic: neither the fits together nor the curve are private.
        epsilons : sequence of float
        repeats : int
            Number of random splits, each with a quarter of the records for scoring.
        scoring : str, optional
            A scorer name of scikit-learn; by default the estimator's `score`.
        seed : int
            Seed of the splits; the estimator's `random_state` determines the noise.
        ax : matplotlib axes, optional

        Returns
        -------
        PrivacyUtilityDisplay

        Raises
        ------
        ValueError
            For an estimator with a ledger, which says that its records are private.

        Warns
        -----
        ExactScoreWarning
            Always.
        """
        if getattr(estimator, "ledger", None) is not None:
            raise ValueError(
                "a privacy-utility curve scores exactly and protects nothing: the ledger says that these "
                "records are private. Use public or synthetic records, and an estimator with ledger=None"
            )
        warn_caller(f"the curve shows {NOT_PRIVATE}", ExactScoreWarning)
        scorer = get_scorer(scoring) if scoring is not None else lambda model, X, y: model.score(X, y)
        splits = [train_test_split(X, y, random_state=seed + each) for each in range(repeats)]

        def scores(epsilon: float) -> list[float]:
            models = (clone(estimator).set_params(epsilon=epsilon) for _ in splits)
            return [
                float(scorer(model.fit(X_train, y_train), X_test, y_test))
                for model, (X_train, X_test, y_train, y_test) in zip(models, splits, strict=True)
            ]

        found, known = np.array([scores(each) for each in epsilons]), np.array(epsilons, dtype=np.float64)
        baseline = None
        if getattr(estimator, "solver", None) == "auto":
            baseline = np.array(scores(math.inf))
        return cls(known, found, baseline, scoring or "score").plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the curve, in new axes by default."""
        self.figure_, self.ax_ = new_axes(ax, (6.0, 4.4))
        mean = self.scores.mean(axis=1)
        if self.baseline is not None:
            self.ax_.axhline(self.baseline.mean(), color="0.4", linestyle="--", label="without privacy")
        (self.line_,) = self.ax_.plot(self.epsilons, mean, marker="o", label="mean")
        low, high = self.scores.min(axis=1), self.scores.max(axis=1)
        self.ax_.fill_between(self.epsilons, low, high, alpha=0.2, linewidth=0, label="all repetitions")
        self.ax_.set(xscale="log", xlabel="epsilon", ylabel=self.score_name, title="Privacy and utility")
        self.ax_.set_xticks(self.epsilons, [f"{each:g}" for each in self.epsilons], minor=False)
        self.ax_.minorticks_off()
        self.ax_.legend(frameon=False, loc="lower right")
        self.ax_.text(
            0.5, -0.2, NOT_PRIVATE, transform=self.ax_.transAxes, ha="center", fontsize="small", color="C3"
        )
        return self


def _shortened(name: str, most: int = 40) -> str:
    """A shortened name, with dollar signs escaped so that matplotlib does not parse it as mathematics."""
    text = name if len(name) <= most else f"{name[: most - 3]}..."
    return text.replace("$", r"\$")
