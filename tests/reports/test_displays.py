"""Plots show the given numbers, and refuse private records."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import dperm
from dperm import HuberRegressor, LogisticRegression
from dperm.accounting import Ledger
from dperm.errors import ExactScoreWarning
from dperm.reports import BudgetDisplay, CoefficientDisplay, PrivacyUtilityDisplay

mpl.use("Agg")
X, Y = load_breast_cancer(return_X_y=True)
X = minmax_scale(X)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    mpl.pyplot.close("all")


def test_a_budget_over_time():
    ledger, spent = Ledger(3.0, 1e-6, name="a $name$", ceiling=6.0), []
    for epsilon in (0.5, 1.0):
        ledger.charge(epsilon=epsilon, delta=1e-6)
        spent.append(ledger.spent)
    ledger.extend(5.0)
    parts = ledger.split({"train": 0.5, "test": 0.5})
    parts["train"].charge(epsilon=2.0, delta=1e-6)
    display = BudgetDisplay.from_ledger(ledger)
    assert display.spent.tolist() == [*spent, spent[-1], spent[-1], ledger.spent]
    assert display.total.tolist() == [3.0, 3.0, 5.0, 5.0, 5.0]
    np.testing.assert_array_equal(display.line_.get_ydata(), display.spent)
    part = BudgetDisplay.from_ledger(parts["train"])
    assert part.spent.tolist() == [parts["train"].spent]
    with pytest.raises(ValueError, match="nothing was charged"):
        BudgetDisplay.from_ledger(parts["test"])
    with pytest.raises(TypeError, match="ledger must be"):
        BudgetDisplay.from_ledger("adult")


def test_a_ledger_of_one_fit_and_one_without_end():
    for epsilon in (3.0, np.inf):
        ledger = Ledger(epsilon, 1e-6)
        ledger.charge(epsilon=1.0, delta=1e-6)
        display = BudgetDisplay.from_ledger(ledger)
        assert display.spent.tolist() == [ledger.spent]
        display.figure_.canvas.draw()


def test_weights_with_intervals():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (20_000, 3))
    targets = rows @ [2.0, -1.0, 0.0] + 0.5
    model = HuberRegressor(4.0, 1e-6, solver="noisy_newton", row_norm=1.4, target_bound=3.0)
    display = CoefficientDisplay.from_estimator(model.fit(rows, targets))
    np.testing.assert_array_equal(display.values[:, 0], [*model.coef_, model.intercept_])
    np.testing.assert_array_equal(display.intervals, model.conf_int())
    largest = CoefficientDisplay.from_estimator(model, most=2)
    assert (largest.names, largest.left_out) == (["x0", "x1"], 2)
    np.testing.assert_array_equal(largest.intervals, model.conf_int()[:2])


def test_weights_of_classes():
    model = LogisticRegression(8.0, 1e-6, row_norm=5.6, classes=["a", "b", "c"])
    model.fit(X, np.array(["a", "b", "c"])[np.arange(len(X)) % 3])
    display = CoefficientDisplay.from_estimator(model, most=5)
    assert display.values.shape == (5, 3)
    assert (list(display.labels), display.intervals) == (["a", "b", "c"], None)


def test_privacy_and_utility():
    model = LogisticRegression(1.0, 1e-5, row_norm=5.6, classes=[0, 1], random_state=0)
    with pytest.warns(ExactScoreWarning, match="NOT private"):
        display = PrivacyUtilityDisplay.from_estimator(model, X, Y, epsilons=[0.01, 30.0], repeats=2)
    assert display.scores.shape == (2, 2)
    assert display.scores[1].min() > max(display.scores[0].max(), 0.85)
    assert display.baseline.min() > 0.85
    assert any("NOT private" in text.get_text() for text in display.ax_.texts)
    with pytest.warns(ExactScoreWarning):
        losses = PrivacyUtilityDisplay.from_estimator(
            model, X, Y, epsilons=[8.0], repeats=1, scoring="neg_log_loss"
        )
    assert losses.scores[0, 0] < 0.0


def test_private_records_are_refused():
    ledger = Ledger(3.0, 1e-6)
    model = LogisticRegression(1.0, 1e-6, row_norm=5.6, classes=[0, 1], ledger=ledger)
    with pytest.raises(ValueError, match="these records are private"):
        PrivacyUtilityDisplay.from_estimator(model, X, Y)
    assert not ledger.history()
    dperm.config(require_ledger=True)
    try:
        with pytest.warns(ExactScoreWarning), pytest.raises(ValueError, match="ledger is required"):
            PrivacyUtilityDisplay.from_estimator(model.set_params(ledger=None), X, Y)
    finally:
        dperm.config(require_ledger=False)
