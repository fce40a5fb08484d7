"""Classes are in ascending order, as scikit-learn expects; which one is positive is kept apart."""

import numpy as np
import pytest
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.metrics import get_scorer, log_loss, precision_score, recall_score, roc_auc_score
from sklearn.model_selection import cross_val_predict

import dperm
from dperm.errors import DataError
from dperm.metrics import evaluate

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (3000, 2))
Y = np.where(X[:, 0] + 0.1 * RNG.normal(size=3000) > 0.15, 1, 0)
TEXT = np.array(["healthy", "sick"])[Y]


def model(classes, kind=dperm.LogisticRegression, **settings):
    return kind(epsilon=8.0, row_norm=1.3, classes=classes, n_public=3000, random_state=0, **settings)


@pytest.mark.parametrize("classes", [[0, 1], [1, 0]])
def test_scores_of_scikit_learn(classes):
    """With classes=[1, 0] the area under the curve was .02, the log loss 12."""
    fitted = model(classes).fit(X, Y)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.pos_label_ == classes[1]
    area = roc_auc_score(Y, X[:, 0])
    assert get_scorer("roc_auc")(fitted, X, Y) == pytest.approx(area, abs=0.02)
    assert get_scorer("neg_log_loss")(fitted, X, Y) == -log_loss(Y, fitted.predict_proba(X)) > -0.4
    assert get_scorer("roc_auc")(model(classes, dperm.LinearSVC).fit(X, Y), X, Y) > 0.9
    assert np.corrcoef(fitted.decision_function(X), Y)[0, 1] > 0.5
    assert fitted.coef_[0, 0] > 0


def test_several_classes():
    labels = np.array(["a", "b", "c"])[(X[:, 0] > -0.15).astype(int) + (X[:, 0] > 0.15)]
    fitted = model(["c", "a", "b"]).fit(X, labels)
    assert (fitted.classes_.tolist(), fitted.pos_label_) == (["a", "b", "c"], None)
    likely = fitted.classes_[fitted.predict_proba(X).argmax(axis=1)]
    np.testing.assert_array_equal(fitted.predict(X), likely)
    assert np.mean(likely == labels) > 0.8


@pytest.mark.parametrize(("classes", "positive"), [(["healthy", "sick"], 1), (["sick", "healthy"], 0)])
def test_metrics_are_of_the_class_that_was_named_as_positive(classes, positive, tmp_path):
    fitted = model(classes).fit(X, TEXT)
    fitted.save(tmp_path / "model.json")
    for each in (fitted, dperm.load(tmp_path / "model.json")):
        found = evaluate(each, X, TEXT, np.inf, 1e-6, metrics=["precision", "recall", "roc_auc", "log_loss"])
        assert found.classes.tolist() == classes
        known = {"pos_label": classes[1], "y_pred": each.predict(X)}
        assert found["precision"].value == pytest.approx(precision_score(TEXT, **known))
        assert found["recall"].value == pytest.approx(recall_score(TEXT, **known))
        probabilities = each.predict_proba(X)
        area = roc_auc_score(classes[1] == TEXT, probabilities[:, positive])
        assert found["roc_auc"].value == pytest.approx(area, abs=0.02)
        assert found["log_loss"].value == pytest.approx(log_loss(TEXT, probabilities))


@pytest.mark.filterwarnings("ignore:.*no guarantee covers:dperm.errors.PrivacyWarning")
def test_ensembles_of_scikit_learn_want_numbers():
    """They replace labels by 0 and 1, which would have to be guessed."""
    ensembles = (
        lambda each: VotingClassifier([("one", each)], voting="soft"),
        lambda each: StackingClassifier([("one", each)], cv=2),
    )
    for ensemble in ensembles:
        with pytest.raises(DataError, match=r"label 0, .*VotingClassifier.*give these numbers as classes"):
            ensemble(model(["healthy", "sick"])).fit(X, TEXT)
        assert ensemble(model([1, 0])).fit(X, TEXT).score(X, TEXT) > 0.85
    with pytest.raises(DataError, match="cross_val_predict"):
        cross_val_predict(model(["healthy", "sick"]), X, TEXT, cv=2, method="predict_proba")
    probabilities = cross_val_predict(model([1, 0]), X, Y, cv=2, method="predict_proba")
    assert roc_auc_score(Y, probabilities[:, 1]) > 0.9
    assert np.mean(cross_val_predict(model(["sick", "healthy"]), X, TEXT, cv=2) == TEXT) > 0.85
