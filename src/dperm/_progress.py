"""A progress bar for long fits, driven by the callback of an algorithm, and the logger of the package."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol

#: "dperm": at INFO what a fit does, its charge and its duration, at DEBUG its steps. Public values only.
log = logging.getLogger("dperm")
log.addHandler(logging.NullHandler())
_is_silent: ContextVar[bool] = ContextVar("_is_silent", default=False)
log.addFilter(lambda record: not _is_silent.get())

_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def unlogged() -> Iterator[None]:
    """Silence the logger in this thread, at every level: the number of fits may be secret."""
    before = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(before)


def progress(title: str = "fit") -> Progress:
    """Show the progress of a fit on standard error: ``solver_options={"callback": dperm.progress()}``.

    A bar with the step count and the time left, drawn by rich or tqdm if one is installed; otherwise, or if
    standard error is not a terminal, lines of text.

    Parameters
    ----------
    title : str
        Shown in front of the bar.

    Returns
    -------
    callable
        A callback for algorithms, which can be reused for one fit after another.

    Examples
    --------
    >>> import numpy as np
    >>> import dperm
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> options = {"steps": 5, "callback": dperm.progress("my model")}
    >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[False, True], solver_options=options)
    >>> model.fit(X, X[:, 0] > 0).n_iter_
    5
    """
    return Progress(title)


class Progress:
    """A callback that shows the progress of a fit.

    Parameters
    ----------
    title : str
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._bar: _Bar | None = None

    def __call__(self, released: Mapping[str, Any]) -> None:
        """Show a step."""
        if self._bar is None:
            self._bar = _bar(self.title, released.get("steps"))
        self._bar.move(int(released["iteration"]))

    def close(self) -> None:
        """Finish the display; the caller of the callback does so after the last step."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Bar(Protocol):
    def move(self, step: int) -> None: ...

    def close(self) -> None: ...


def _bar(title: str, steps: int | None) -> _Bar:
    if sys.stderr.isatty():
        for kind in (_RichBar, _TqdmBar):
            try:
                return kind(title, steps)
            except ImportError:
                continue
    return _Lines(title, steps)


class _RichBar:
    def __init__(self, title: str, steps: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(f"{title}: step", total=steps)
        self._progress.start()

    def move(self, step: int) -> None:
        self._progress.update(self._task, completed=step)

    def close(self) -> None:
        self._progress.stop()


class _TqdmBar:
    def __init__(self, title: str, steps: int | None) -> None:
        from tqdm.auto import tqdm

        self._progress = tqdm(desc=title, total=steps, unit="step")

    def move(self, step: int) -> None:
        self._progress.update(step - self._progress.n)

    def close(self) -> None:
        self._progress.close()


class _Lines:
    """A line every few seconds, and one at the end."""

    def __init__(self, title: str, steps: int | None) -> None:
        self._title, self._steps, self._step = title, steps, 0
        self._start = self._shown = time.monotonic()

    def move(self, step: int) -> None:
        self._step = step
        if time.monotonic() - self._shown > _SECONDS_BETWEEN_LINES:
            self._show()

    def close(self) -> None:
        self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        taken = self._shown - self._start
        of, left = "", ""
        if self._steps is not None:
            of = f" of {self._steps}"
            if self._step < self._steps:
                left = f", about {taken / max(self._step, 1) * (self._steps - self._step):.0f} s left"
        with suppress(OSError):  # a closed pipe must not lose a fit that was paid for
            print(f"{self._title}: step {self._step}{of}, {taken:.1f} s{left}", file=sys.stderr, flush=True)
