"""LogisticRegression with more than two classes."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.model_selection import train_test_split

from dperm import LogisticRegression
from dperm.errors import DataError
from reference.real_data import load_or_skip

X, codes = load_wine(return_X_y=True)
# Columns on public ranges, roughly: [0, 1].
low = np.array([11, 0.5, 1, 10, 70, 0.5, 0, 0.1, 0.3, 1, 0.4, 1.2, 250])
high = np.array([15, 6, 3.5, 30, 170, 4, 6, 0.7, 4, 14, 1.8, 4.2, 1700])
X = (X - low) / (high - low)
y = np.array(["barolo", "grignolino", "barbera"])[codes]


CLASSES = ["barbera", "barolo", "grignolino"]


def private(**keywords):
    return LogisticRegression(
        **{"epsilon": 20.0, "delta": 1e-4, "classes": CLASSES, "row_norm": 3.0, **keywords}
    )


def test_nonprivate_agrees_with_sklearn():
    ours = LogisticRegression(solver="nonprivate", l2=1e-2, row_norm=10.0).fit(X, y)
    peer = SklearnLogisticRegression(C=1 / (1e-2 * len(X)), tol=1e-12, max_iter=10_000).fit(X, y)
    assert ours.coef_.shape == (3, 13)
    assert ours.intercept_.shape == (3,)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))
    assert not ours.privacy_.private


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_private_wine_beats_the_trivial_classifier(fit_intercept):
    scores = []
    for seed in range(5):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.3, random_state=seed, stratify=y
        )
        model = private(fit_intercept=fit_intercept, random_state=seed).fit(X_train, y_train)
        scores.append(model.score(X_test, y_test))
    assert np.mean(scores) > 0.75  # the largest class has 40 %
    assert model.privacy_.private
    assert model.privacy_.to_dict()["public"]["n_classes"] == 3


def test_public_classes_are_sorted_and_may_be_absent():
    order = ["grignolino", "barolo", "merlot", "barbera"]
    model = private(classes=order, random_state=0).fit(X, y)
    assert list(model.classes_) == sorted(order)
    assert model.predict_proba(X).shape == (len(X), 4)
    again = private(random_state=0, solver="nonprivate", l2=0.01, classes=CLASSES).fit(X, y)
    turned = private(random_state=0, solver="nonprivate", l2=0.01, classes=CLASSES[::-1]).fit(X, y)
    np.testing.assert_array_equal(again.coef_, turned.coef_)
    np.testing.assert_array_equal(again.predict(X), turned.predict(X))


@pytest.mark.parametrize(
    "classes", [["barolo"], ["barolo", "barolo", "barbera"], [["barolo", "barbera"]], []]
)
def test_bad_classes(classes):
    with pytest.raises(ValueError, match="classes must be two or more different labels"):
        private(classes=classes).fit(X, y)


def test_a_label_that_is_not_public_charges_nothing(uncharged):
    with pytest.raises(DataError, match="'grignolino'"):
        private(classes=["barolo", "barbera", "merlot"], ledger=uncharged).fit(X, y)


def test_mnist_from_ten_thousand_records():
    data = load_or_skip("mnist")
    model = LogisticRegression(
        2.0, 1e-5, classes=range(10), row_norm=9.0, neighbors="replace_one", random_state=0, n_threads=1
    ).fit(data.X[:10_000], data.y[:10_000])
    assert model.coef_.shape == (10, 784)
    assert model.score(data.X[60_000:], data.y[60_000:]) > 0.8
