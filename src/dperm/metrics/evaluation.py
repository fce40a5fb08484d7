"""The result of an evaluation: metrics with intervals, as table, JSON or plots, and the privacy statement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm._document import Block, Document, Table, Text
from dperm.data.files.whole_files import write_whole
from dperm.metrics import files
from dperm.metrics.intervals import Estimate
from dperm.statement.privacy_statement import PrivacyStatement

if TYPE_CHECKING:
    from dperm.metrics.displays import EvaluationDisplay

CURVES = tuple(files.COORDINATES)
_DIGITS = 4
_MATRIX = "Confusion matrix (rows: true class, columns: predicted)"


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """Metrics of a model, each with a 95 % interval, and their privacy statement.

    ``evaluation["accuracy"].value`` is one of them, ``.low`` and ``.high`` its interval.

    Attributes
    ----------
    metrics : mapping of str to Estimate
        By name, in the requested order.
    privacy : PrivacyStatement
    n_records : float
        Number of records, noisy unless it is public.
    classes : ndarray or None
        Labels of a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm.metrics import evaluate
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.zeros((4000, 1)), np.arange(4000) % 4 == 0
    >>> found = evaluate(DummyClassifier().fit(X, y), X, y, epsilon=1.0, delta=1e-6)
    >>> list(found.metrics)[:3], found.privacy.epsilon
    (['confusion_matrix', 'accuracy', 'balanced_accuracy'], 1.0)
    """

    metrics: Mapping[str, Estimate]
    privacy: PrivacyStatement
    n_records: float
    classes: NDArray[Any] | None = None

    def __getitem__(self, name: str) -> Estimate:
        """A metric by name."""
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the metrics."""
        return iter(self.metrics)

    def to_dict(self) -> dict[str, Any]:
        """Metrics and statement as plain JSON types, with None for missing numbers and intervals.

        Returns
        -------
        dict
            ``{"metrics": {name: {"value", "low", "high"}}, "privacy": {...}}``. The value of a curve is a
            mapping of its coordinates, that of the confusion matrix a list of rows, one for each true class.

        Examples
        --------
        >>> import numpy as np
        >>> from dperm.metrics import evaluate
        >>> from sklearn.dummy import DummyClassifier
        >>> X, y = np.zeros((4000, 1)), np.arange(4000) % 4 == 0
        >>> model = DummyClassifier().fit(X, y)
        >>> found = evaluate(model, X, y, epsilon=np.inf, delta=1e-6, metrics="accuracy")
        >>> found.to_dict()["metrics"]["accuracy"]["value"]
        0.75
        """
        metrics = {name: files.jsonable(each) for name, each in self.metrics.items()}
        return {"metrics": metrics, "privacy": self.privacy.to_dict()}

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file that `load` reads; an existing file is replaced.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from dperm.metrics import Evaluation, evaluate
        >>> from sklearn.dummy import DummyClassifier
        >>> X, y = np.zeros((4000, 1)), np.arange(4000) % 4 == 0
        >>> path = tempfile.mkdtemp() + "/evaluation.json"
        >>> evaluate(DummyClassifier().fit(X, y), X, y, 1.0, 1e-6, metrics=["accuracy", "f1"]).save(path)
        >>> list(Evaluation.load(path))
        ['accuracy', 'f1']
        """
        write_whole(path, self.to_text())

    def to_text(self) -> str:
        """The text that `save` writes.

        Examples
        --------
        >>> import json
        >>> import numpy as np
        >>> from dperm.metrics import evaluate
        >>> from sklearn.dummy import DummyClassifier
        >>> X, y = np.zeros((4000, 1)), np.arange(4000) % 4 == 0
        >>> found = evaluate(DummyClassifier().fit(X, y), X, y, np.inf, 1e-6, metrics="accuracy")
        >>> json.loads(found.to_text())["metrics"]["accuracy"]["value"]
        0.75
        """
        return files.to_text(self.metrics, self.privacy, self.n_records, self.classes)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote; no code in it is run.

        Raises
        ------
        FileNotFoundError
        DataError
            For a file that is not an evaluation.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from dperm.metrics import Evaluation, evaluate
        >>> from sklearn.dummy import DummyClassifier
        >>> X, y = np.zeros((4000, 1)), np.arange(4000) % 4 == 0
        >>> path = tempfile.mkdtemp() + "/evaluation.json"
        >>> evaluate(DummyClassifier().fit(X, y), X, y, np.inf, 1e-6, metrics="accuracy").save(path)
        >>> Evaluation.load(path)["accuracy"].value
        0.75
        """
        return cls(**files.read(path))

    def plot(self) -> EvaluationDisplay:
        """Plot the curves and the confusion matrix; if there are none, the numbers with their intervals.

        Returns
        -------
        EvaluationDisplay
            With `figure_`, `axes_` and `displays_`, the displays drawn.

        Raises
        ------
        ImportError
            Without matplotlib (the extra ``plot``).

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> import numpy as np
        >>> from dperm.metrics import evaluate
        >>> from sklearn.dummy import DummyClassifier
        >>> X, y = np.zeros((4000, 1)), np.arange(4000) % 4 == 0
        >>> model = DummyClassifier().fit(X, y)
        >>> display = evaluate(model, X, y, epsilon=1.0, delta=1e-6, metrics="confusion_matrix").plot()
        >>> [type(part).__name__ for part in display.displays_]
        ['ConfusionMatrixDisplay']
        >>> plt.close(display.figure_)
        """
        from dperm.metrics.displays import EvaluationDisplay

        return EvaluationDisplay(self.metrics, self.classes, self.title).plot()

    @property
    def title(self) -> str:
        """Title of the table."""
        about = "" if "n" in self.privacy.public else "about "
        return f"Evaluation on {about}{max(round(self.n_records), 0):,} records"

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Name, value, interval and note of each number.

        Examples
        --------
        >>> import numpy as np
        >>> from dperm.metrics import evaluate
        >>> from sklearn.dummy import DummyClassifier
        >>> X, y = np.zeros((4000, 1)), np.arange(4000) % 4 == 0
        >>> model = DummyClassifier().fit(X, y)
        >>> evaluate(model, X, y, epsilon=np.inf, delta=1e-6, metrics="accuracy").rows()
        [('accuracy', '0.7500', '0.7363 to 0.7632', '')]
        """
        return [
            (name, _text(each.value), _interval(each), each.note)
            for name, each in self.metrics.items()
            if np.ndim(each.value) == 0 and not isinstance(each.value, Mapping)
        ]

    def __str__(self) -> str:
        """Return a table, the confusion matrix, and the guarantee in one line."""
        table = [("metric", "value", "95 % interval", ""), *self.rows()]
        parts = [self.title, _aligned(table)] if len(table) > 1 else [self.title]
        if "confusion_matrix" in self.metrics:
            parts.append(f"{_MATRIX}\n{_aligned(self._matrix())}")
        drawn = [name for name in self.metrics if name in CURVES]
        if drawn:
            parts.append(f"Curves, see plot(): {', '.join(drawn)}")
        return "\n\n".join([*parts, self.privacy.headline])

    __repr__ = __str__

    def _matrix(self) -> list[tuple[str, ...]]:
        assert self.classes is not None
        labels = [str(label) for label in self.classes]
        counts = self.metrics["confusion_matrix"].value
        rows = zip(labels, counts, strict=True)
        return [("", *labels), *((label, *(f"{count:,.0f}" for count in row)) for label, row in rows)]

    def _repr_html_(self) -> str:
        """Return tables for notebooks, with all text escaped."""
        return Document("", [Text(self.title), *self._blocks()]).to_fragment() + self.privacy._repr_html_()

    def _blocks(self) -> list[Block]:
        """The numbers and the confusion matrix as tables."""
        rows, found = self.rows(), list[Block]()
        if rows:
            found.append(Table(["metric", "value", "95 % interval", ""], rows))
        if "confusion_matrix" in self.metrics:
            head, *counts = self._matrix()
            found.append(Table(head, counts, _MATRIX))
        return found


def _text(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.{_DIGITS}f}" if abs(value) < 1e3 else f"{value:.{_DIGITS + 2}g}"


def _interval(estimate: Estimate) -> str:
    if math.isnan(estimate.low):
        return "-"
    return f"{_text(estimate.low)} to {_text(estimate.high)}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    ]
    return "\n".join(lines)
