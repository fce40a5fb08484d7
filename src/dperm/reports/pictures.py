"""Pictures for reports: embedded SVG drawn by matplotlib, if it is installed."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from dperm._document import Block, Picture, Text
from dperm.metrics.displays import new_axes, pyplot
from dperm.reports.deployments import DEPLOYMENTS

_ABSENT = "There would be a picture here with matplotlib: pip install 'dperm[plot]'."


def picture(draw: Callable[[], Any], words: str) -> Block:
    """The figure drawn by `draw`, which returns a display with a `figure_`; a remark without matplotlib."""
    try:
        plt = pyplot()
    except ModuleNotFoundError:
        return Text(_ABSENT, "small")
    with plt.rc_context({"svg.fonttype": "path", "svg.hashsalt": "dperm"}):
        figure = draw().figure_
        try:
            file = io.BytesIO()
            figure.savefig(file, format="svg", metadata={"Date": None})
        finally:
            plt.close(figure)
    return Picture(file.getvalue(), words)


class EpsilonScale:
    """The epsilons of deployments and of a result on a common axis.

    Parameters
    ----------
    epsilon : float
        Epsilon of the result.
    """

    def __init__(self, epsilon: float) -> None:
        from matplotlib.ticker import LogLocator

        known = sorted(DEPLOYMENTS, key=lambda each: each.epsilon)
        self.figure_, ax = new_axes(None, (7.0, 0.9 + 0.27 * len(known)))
        rows = np.arange(len(known))
        ax.axvline(epsilon, color="C3", label=f"this result: {epsilon:g}")
        ax.plot([each.epsilon for each in known], rows, "o", color="C0")
        names = [f"{each.who}: {each.what}" for each in known]
        ax.set_yticks(rows, names, fontsize="small")
        ax.set(xscale="log", xlabel="epsilon (units and deltas differ)", ylim=(len(known) - 0.5, -0.5))
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.grid(axis="x", alpha=0.3)
        ax.legend(frameon=False, fontsize="small")
