"""Exact evaluations agree with scikit-learn; metrics of binned scores come close."""

import math

import numpy as np
import pytest
from sklearn import metrics as reference
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import dperm
from dperm.metrics import evaluate
from reference.real_data import load_or_skip

N = 3000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
LABELS = {2: np.array(["no", "yes"]), 3: np.array([7, 3, 5])}


def labels(k):
    scores = X @ RNG.normal(size=(4, k)) + RNG.gumbel(size=(N, k))
    return LABELS[k][scores.argmax(axis=1)]


Y = {k: labels(k) for k in LABELS}
MODELS = {
    "logistic": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(20, random_state=0),
}
AVERAGED = {"precision": "precision_score", "recall": "recall_score", "f1": "f1_score"}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("k", LABELS)
def test_classification(name, k):
    y, half = Y[k], N // 2
    model = MODELS[name].fit(X[:half], y[:half])
    truth, predicted = y[half:], model.predict(X[half:])
    names = ["accuracy", "balanced_accuracy", *AVERAGED, "mcc", "confusion_matrix", "log_loss"]
    found = evaluate(model, X[half:], truth, math.inf, 1e-6, metrics=names)
    classes = model.classes_
    average = {"average": "macro"} if k > 2 else {"pos_label": classes[1]}
    expected = {
        "accuracy": reference.accuracy_score(truth, predicted),
        "balanced_accuracy": reference.balanced_accuracy_score(truth, predicted),
        "mcc": reference.matthews_corrcoef(truth, predicted),
        "log_loss": reference.log_loss(truth, model.predict_proba(X[half:]), labels=classes),
        **{short: getattr(reference, long)(truth, predicted, **average) for short, long in AVERAGED.items()},
    }
    assert {each: found[each].value for each in expected} == pytest.approx(expected, rel=1e-10)
    matrix = reference.confusion_matrix(truth, predicted, labels=classes)
    assert np.array_equal(found["confusion_matrix"].value, matrix)
    assert evaluate(model, X[half:], truth, math.inf, 1e-6, metrics="accuracy")["accuracy"].value == (
        pytest.approx(expected["accuracy"], rel=1e-12)
    )
    assert not found.privacy.private
    assert "NOT PRIVATE" in str(found)


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_regression(shift):
    y = X @ [1.0, 0.5, 0.0, -0.3] + RNG.standard_t(5, size=N) + shift
    model = LinearRegression().fit(X[:1000], y[:1000])
    model.quantile = 0.3
    found = evaluate(model, X, y, math.inf, 1e-6, metrics=["mae", "mse", "pinball", "r2"])
    predicted = model.predict(X)
    expected = {
        "mae": reference.mean_absolute_error(y, predicted),
        "mse": reference.mean_squared_error(y, predicted),
        "pinball": reference.mean_pinball_loss(y, predicted, alpha=0.3),
        "r2": reference.r2_score(y, predicted),
    }
    assert {each: found[each].value for each in expected} == pytest.approx(expected, rel=1e-9)
    assert all(found[each].low < found[each].value < found[each].high for each in found)


def test_brier_score_of_three_classes_is_a_loss():
    model = LogisticRegression().fit(X, Y[3])
    outcome = np.array([3, 5, 7]) == Y[3][:, None]
    expected = np.square(model.predict_proba(X) - outcome).sum(axis=1).mean()
    assert evaluate(model, X, Y[3], math.inf, 1e-6, metrics="brier")["brier"].value == pytest.approx(expected)


@pytest.mark.parametrize("model", [LogisticRegression(), LinearSVC()], ids=["probabilities", "margins"])
def test_bins_come_close(model):
    model.fit(X, Y[2])
    scores, positive = model.decision_function(X), Y[2] == "yes"
    names = ["roc_auc", "average_precision"]
    expected = [
        reference.roc_auc_score(positive, scores),
        reference.average_precision_score(positive, scores),
    ]
    found = evaluate(model, X, Y[2], math.inf, 1e-6, metrics=names, bins=200)
    assert [found[name].value for name in names] == pytest.approx(expected, abs=2e-3)
    if hasattr(model, "predict_proba"):
        brier = reference.brier_score_loss(positive, model.predict_proba(X)[:, 1])
        exact = evaluate(model, X, Y[2], math.inf, 1e-6, metrics="brier", bins=200)
        assert exact["brier"].value == pytest.approx(brier, abs=1e-4)


def test_more_classes_one_against_the_others():
    model, classes = LogisticRegression().fit(X, Y[3]), np.array([3, 5, 7])
    probabilities, outcome = model.predict_proba(X), classes == Y[3][:, None]
    names = ["roc_auc", "average_precision"]
    expected = [
        reference.roc_auc_score(Y[3], probabilities, multi_class="ovr"),
        reference.average_precision_score(outcome, probabilities),
    ]
    found = evaluate(model, X, Y[3], math.inf, 1e-6, metrics=names, bins=200)
    assert [found[name].value for name in names] == pytest.approx(expected, abs=2e-3)
    with pytest.raises(ValueError, match="two classes"):
        evaluate(model, X, Y[3], 1.0, 1e-6, metrics="roc_curve")


def test_auc_of_adult_in_128_bins():
    data = load_or_skip("adult")
    rows = np.random.default_rng(0).permutation(len(data.y))
    test, train = rows[:9768], rows[9768:20000]
    model = dperm.LogisticRegression(1.0, 1e-6, schema=data.schema, classes=[-1, 1], random_state=0)
    model.fit(data.X[train], np.asarray(data.y)[train])
    truth = np.asarray(data.y)[test]
    exact = reference.roc_auc_score(truth, model.decision_function(data.X[test]))
    found = evaluate(model, data.X[test], truth, math.inf, 1e-6, metrics="roc_auc", bins=128)
    assert found["roc_auc"].value == pytest.approx(exact, abs=1e-3)
    for epsilon, bound in [(1.0, 0.015), (0.1, 0.07)]:
        noisy = evaluate(model, data.X[test], truth, epsilon, 1e-6, metrics="roc_auc", random_state=0)
        assert noisy["roc_auc"].high - noisy["roc_auc"].low < 2.0 * bound
        assert noisy["roc_auc"].low < exact < noisy["roc_auc"].high
