"""Models that return anything: one record never changes the sums by more than the stated sensitivity."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.accounting.neighbours import Neighbours
from dperm.errors import DataError
from dperm.mechanisms import release_without_privacy
from dperm.mechanisms.hooks import watch_releases
from dperm.metrics import evaluate
from dperm.metrics.plan import CLASSIFICATION, REGRESSION

EXTREMES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1.5, 1e-320, 1e7, -1e7, 1e308, -1e308]
NUMBERS = st.sampled_from(EXTREMES) | st.floats()
DTYPES = [np.float64, np.float32, np.float16, np.longdouble, object]


class Table:
    """A model that looks its answers up: column 0 of X is the number of the answer."""

    def __init__(self, answers, dtype=np.float64):
        self.answers, self.dtype = np.asarray(answers, dtype=np.float64), dtype

    def answer(self, X):
        with np.errstate(over="ignore"):
            return self.answers[X[:, 0].astype(int)].astype(self.dtype)


class Classifier(Table):
    """Probabilities and log-probabilities that are none."""

    def __init__(self, answers, dtype=np.float64):
        super().__init__(answers, dtype)
        self.classes_ = np.arange(self.answers.shape[1])

    def predict(self, X):
        return self.classes_[X[:, 0].astype(int) % len(self.classes_)]

    predict_proba = Table.answer


class WithLogarithms(Classifier):
    """Gives log-probabilities of its own."""

    predict_log_proba = Table.answer


class Scorer(Table):
    """Scores without probabilities."""

    def __init__(self, answers, dtype=np.float64):
        super().__init__(answers, dtype)
        self.classes_ = np.arange(self.answers.shape[1])

    decision_function = Table.answer


class Regressor(Table):
    """Real predictions, in one column."""

    target_bound, quantile = 2.0, 0.5
    predict = Table.answer


def released(model, X, y, metrics, neighbors, **kwargs):
    """The exact sums that `evaluate` protects, in units of their sensitivity."""
    seen = []

    def watcher(releaser, method, private, *rest):
        seen.append(np.asarray(release_without_privacy(private)) / private.sensitivity(neighbors))
        return method(releaser, private, *rest)

    with watch_releases(watcher):
        evaluate(model, X, y, 1.0, 1e-6, metrics=metrics, neighbors=neighbors, random_state=0, **kwargs)
    return seen[0]


def largest_change(model, targets, metrics, neighbors):
    """The largest change of the sums as one record is added or replaced, over all answers and targets."""
    records = [([float(i)], y) for i in range(len(model.answers)) for y in targets]
    base = records[:1]

    def sums(chosen):
        X, y = np.array([x for x, _ in chosen]), np.array([y for _, y in chosen])
        return released(model, X, y, metrics, neighbors)

    whole = sums(base * 3)
    if neighbors is Neighbours.ADD_OR_REMOVE:
        changed = [sums(base * 3 + [each]) for each in records]
    else:
        changed = [sums(base * 2 + [each]) for each in records]
    pairs = [whole, *changed] if neighbors is Neighbours.REPLACE_ONE else [whole]
    return max(np.linalg.norm(one - other) for one in pairs for other in changed)


CASES = [
    *[(Classifier, name) for name in ("accuracy", "confusion_matrix", "roc_auc", "log_loss", "brier")],
    *[(Scorer, name) for name in ("accuracy", "confusion_matrix", "roc_auc")],
    (WithLogarithms, "log_loss"),
    *[(Regressor, name) for name in REGRESSION],
]


@pytest.mark.parametrize("neighbors", list(Neighbours))
@pytest.mark.parametrize(("kind", "metric"), CASES, ids=lambda case: getattr(case, "__name__", case))
@settings(max_examples=15)
@given(data=st.data())
def test_one_record_stays_within_the_sensitivity(kind, metric, neighbors, data):
    several = kind is not Regressor and metric in ("log_loss", "brier", "roc_auc", "accuracy")
    width = 1 if kind is Regressor else data.draw(st.sampled_from([2, 3])) if several else 2
    row = st.lists(NUMBERS, min_size=width, max_size=width)
    answers = data.draw(st.lists(row, min_size=1, max_size=4))
    model = kind(answers, data.draw(st.sampled_from(DTYPES)))
    targets = EXTREMES[3:] if kind is Regressor else model.classes_
    assert largest_change(model, targets, metric, neighbors) <= 1.0


@pytest.mark.parametrize("neighbors", list(Neighbours))
@pytest.mark.parametrize("answer", [3.5e7, -3.5e7])
def test_every_metric_at_once(neighbors, answer):
    model = Classifier([[answer, 1.0 - answer], [0.5, 0.5]])
    assert largest_change(model, [0, 1], list(CLASSIFICATION), neighbors) <= 1.0
    model = Regressor([[answer], [0.0]])
    assert largest_change(model, [-2.0, 2.0], list(REGRESSION), neighbors) <= 1.0


def test_probabilities_are_clipped_record_by_record():
    model = Classifier([[-6.0, 7.0], [0.25, 0.75]])
    found = evaluate(
        model, np.array([[0.0], [1.0]]), [1, 1], math.inf, 1e-6, metrics=["log_loss", "brier", "roc_auc"]
    )
    assert found["log_loss"].value == pytest.approx(-math.log(0.75) / 2)
    found = evaluate(
        Classifier([[-6.0, 7.0, 0.0]]), np.zeros((5, 1)), [1] * 5, math.inf, 1e-6, metrics="brier"
    )
    assert found["brier"].value == 0.0


@pytest.mark.parametrize("shape", [(7, 1), (5, 7), (1,), (5, 2)])
def test_an_answer_of_another_shape_is_refused(shape):
    class Misshapen:
        target_bound = 1.0

        def predict(self, X):
            return np.zeros(shape)

    with pytest.raises(DataError, match=r"shape \(5,\) for 5 records"):
        evaluate(Misshapen(), np.zeros((5, 1)), np.zeros(5), 1.0, 1e-6, metrics="mse")


def test_a_column_of_predictions_is_one_for_each_record():
    X = np.zeros((6, 1))
    found = evaluate(Regressor([[0.5]]), X, np.arange(6.0), math.inf, 0.0, metrics="mse")
    assert found["mse"].value == pytest.approx(np.mean((np.arange(6.0) - 0.5) ** 2))


def test_sums_that_could_overflow_are_refused():
    model, X = Regressor([[1.0]]), np.zeros((2, 1))
    with pytest.raises(DataError, match="too many for exact sums"):
        evaluate(model, X, [0.0, 0.0], 1.0, 1e-6, metrics="mae", counts=[1 << 43, 1])
    assert np.isfinite(
        evaluate(model, X, [0.0, 0.0], 1.0, 1e-6, metrics="mae", counts=[1 << 41, 1])["mae"].value
    )
