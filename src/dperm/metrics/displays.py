"""Plots of an evaluation, as displays in the style of scikit-learn: they hold numbers that `plot` draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from dperm.metrics.files import COORDINATES
from dperm.metrics.intervals import TOO_NOISY, Estimate
from dperm.metrics.plan import REGRESSION

_SIDE = 4.4  # inches


class _Look(NamedTuple):
    title: str
    axes: tuple[str, str]
    area: tuple[str, str]  # metric for the legend, and its label there
    legend: str
    diagonal: bool


_CURVES = {
    "roc_curve": _Look(
        "ROC", ("false positive rate", "true positive rate"), ("roc_auc", "AUC"), "lower right", True
    ),
    "precision_recall_curve": _Look(
        "Precision and recall", ("recall", "precision"), ("average_precision", "average precision"),
        "lower left", False,
    ),
    "calibration": _Look(
        "Calibration", ("predicted probability", "share of positives"), ("brier", "Brier score"),
        "upper left", True,
    ),
}  # fmt: skip


@dataclass
class CurveDisplay:
    """A curve with its 95 % band: ROC, precision and recall, or calibration.

    Parameters
    ----------
    name : {"roc_curve", "precision_recall_curve", "calibration"}
    estimate : Estimate
        The curve.
    area : Estimate, optional
        The corresponding number, shown in the legend.

    Attributes
    ----------
    figure_, ax_, line_
        Objects of matplotlib, set by `plot`.
    """

    name: str
    estimate: Estimate
    area: Estimate | None = None

    def plot(self, ax: Any = None) -> Self:
        """Draw the curve, in new axes by default."""
        look = _CURVES[self.name]
        self.figure_, self.ax_ = new_axes(ax)
        if look.diagonal:
            self.ax_.plot([0, 1], [0, 1], linestyle=":", color="0.5", zorder=1)
        x, y = (self.estimate.value[axis] for axis in COORDINATES[self.name][:2])
        if self.estimate.note or not len(x):
            self.ax_.text(0.5, 0.5, self.estimate.note or TOO_NOISY, ha="center", fontsize="small")
        else:
            self._draw(x, y)
            self.ax_.legend(loc=look.legend, frameon=False)
        self.ax_.set(xlabel=look.axes[0], ylabel=look.axes[1], title=look.title, aspect="equal")
        self.ax_.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        return self

    def _draw(self, x: Any, y: Any) -> None:
        low, high = self.estimate.low, self.estimate.high
        if self.name != "calibration":
            (self.line_,) = self.ax_.plot(x, y, label=self._label())
            self.ax_.fill_between(x, low, high, alpha=0.2, linewidth=0, label="95 % of each point")
            return
        (self.line_,) = self.ax_.plot(x, self.estimate.value["fitted"], label=self._label())
        lengths = np.clip([y - low, high - y], 0.0, None)
        self.ax_.errorbar(x, y, lengths, fmt="o", markersize=3, linewidth=1, color="C0", label="bins, 95 %")

    def _label(self) -> str:
        if self.area is None or math.isnan(self.area.value):
            return "isotonic fit"
        text = f"{_CURVES[self.name].area[1]} {self.area.value:.3f}"
        return text if math.isnan(self.area.low) else f"{text} ({self.area.low:.3f} to {self.area.high:.3f})"


@dataclass
class IntervalsDisplay:
    """Numbers with their intervals, one above the other.

    Parameters
    ----------
    estimates : mapping of str to Estimate

    Attributes
    ----------
    figure_, ax_
        Objects of matplotlib, set by `plot`.
    """

    estimates: Mapping[str, Estimate]

    def plot(self, ax: Any = None) -> Self:
        """Draw the intervals, in new axes by default."""
        self.figure_, self.ax_ = new_axes(ax)
        for row, each in enumerate(self.estimates.values()):
            lengths = np.nan_to_num(np.clip([[each.value - each.low], [each.high - each.value]], 0.0, None))
            self.ax_.errorbar([each.value], [row], xerr=lengths, fmt="o", color="C0", capsize=3)
        self.ax_.set_yticks(range(len(self.estimates)), list(self.estimates))
        self.ax_.set(ylim=(len(self.estimates) - 0.5, -0.5), xlabel="value and interval of 95 %")
        self.ax_.grid(axis="x", alpha=0.3)
        return self


@dataclass
class EvaluationDisplay:
    """All plots of an evaluation, side by side.

    Parameters
    ----------
    metrics : mapping of str to Estimate
    classes : ndarray or None
        Labels of a classifier.
    title : str

    Attributes
    ----------
    displays_ : list
        The displays drawn, each with its `ax_`.
    figure_, axes_
        Objects of matplotlib, set by `plot`.
    """

    metrics: Mapping[str, Estimate]
    classes: Any = None
    title: str = ""

    def plot(self, columns: int | None = None) -> Self:
        """Draw the plots in a new figure with this many columns; by default all in one row."""
        pictures = self._pictures()
        columns = min(columns or len(pictures), len(pictures))
        rows = math.ceil(len(pictures) / columns)
        size = (_SIDE * columns, _SIDE * rows + 0.4)
        self.figure_, axes = pyplot().subplots(rows, columns, figsize=size, layout="constrained")
        self.axes_, unused = np.split(np.ravel(axes), [len(pictures)])
        for ax in unused:
            ax.remove()
        self.displays_ = [each.plot(ax=ax) for each, ax in zip(pictures, self.axes_, strict=True)]
        self.figure_.suptitle(self.title)
        return self

    def _pictures(self) -> list[Any]:
        found: list[Any] = [
            CurveDisplay(name, self.metrics[name], self.metrics.get(look.area[0]))
            for name, look in _CURVES.items()
            if name in self.metrics
        ]
        if "confusion_matrix" in self.metrics:
            found.append(_ConfusionMatrix(self.metrics["confusion_matrix"].value, self.classes))
        if found:
            return found
        own_units = {"log_loss", *REGRESSION[:3]}
        shared = {name: each for name, each in self.metrics.items() if name not in own_units}
        alone = [{name: each} for name, each in self.metrics.items() if name in own_units]
        return [IntervalsDisplay(each) for each in (shared, *alone) if each]


@dataclass
class _ConfusionMatrix:
    """scikit-learn's display, with rounded counts."""

    counts: Any
    classes: Any

    def plot(self, ax: Any) -> Any:
        from sklearn.metrics import ConfusionMatrixDisplay

        display = ConfusionMatrixDisplay(np.rint(self.counts), display_labels=self.classes)
        display.plot(ax=ax, values_format=",.0f", colorbar=False, cmap="Blues")
        ax.set_title("Confusion matrix")
        return display


def new_axes(ax: Any, size: tuple[float, float] = (_SIDE, _SIDE)) -> tuple[Any, Any]:
    """Figure and axes: the given ones, or new ones of that size in inches."""
    if ax is None:
        _, ax = pyplot().subplots(figsize=size, layout="constrained")
    return ax.figure, ax


def pyplot() -> Any:
    """``matplotlib.pyplot``; without matplotlib, an error that says how to install it."""
    try:
        import matplotlib.pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("pictures need matplotlib: pip install 'dperm[plot]'") from error
    return matplotlib.pyplot
