"""LogisticRegression with more than two classes."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.model_selection import train_test_split

import dperm
from dperm import LogisticRegression
from dperm.errors import DataError, PrivacyWarning


def wine():
    """Columns on public ranges, roughly: [0, 1]; three classes."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    low = np.array([11, 0.5, 1, 10, 70, 0.5, 0, 0.1, 0.3, 1, 0.4, 1.2, 250])
    high = np.array([15, 6, 3.5, 30, 170, 4, 6, 0.7, 4, 14, 1.8, 4.2, 1700])
    return (X - low) / (high - low), np.array(["barolo", "grignolino", "barbera"])[y]


CLASSES = ["barbera", "barolo", "grignolino"]


def private(**keywords):
    return LogisticRegression(
        **{"epsilon": 20.0, "delta": 1e-4, "classes": CLASSES, "row_norm": 3.0, **keywords}
    )


def test_nonprivate_agrees_with_sklearn():
    X, y = wine()
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
    X, y = wine()
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


def test_labels_read_from_the_data_are_announced():
    X, y = wine()
    with pytest.warns(PrivacyWarning, match="labels were read from the data"):
        LogisticRegression().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private().fit(X, y)
        LogisticRegression(solver="nonprivate").fit(X, y)


def test_public_classes_keep_their_order_and_may_be_absent():
    X, y = wine()
    order = ["grignolino", "barolo", "merlot", "barbera"]
    model = private(classes=order, random_state=0).fit(X, y)
    assert list(model.classes_) == order
    assert model.predict_proba(X).shape == (len(X), 4)
    again = private(random_state=0, solver="nonprivate", l2=0.01, classes=CLASSES).fit(X, y)
    turned = private(random_state=0, solver="nonprivate", l2=0.01, classes=CLASSES[::-1]).fit(X, y)
    np.testing.assert_allclose(again.coef_, turned.coef_[::-1], atol=1e-6)
    np.testing.assert_array_equal(again.predict(X), turned.predict(X))


@pytest.mark.parametrize(
    "classes", [["barolo"], ["barolo", "barolo", "barbera"], [["barolo", "barbera"]], []]
)
def test_bad_classes(classes):
    with pytest.raises(ValueError, match="classes must be two or more different labels"):
        private(classes=classes).fit(*wine())


def test_a_label_that_is_not_public_charges_nothing(uncharged):
    with pytest.raises(DataError, match="'grignolino'"):
        private(classes=["barolo", "barbera", "merlot"], ledger=uncharged).fit(*wine())


def test_mnist_from_ten_thousand_records():
    try:
        data = dperm.datasets.load("mnist")
    except Exception as error:
        pytest.skip(f"MNIST is not here: {error}")
    X, y = data.X[:10_000], data.y[:10_000]
    model = LogisticRegression(
        2.0, 1e-5, classes=range(10), row_norm=9.0, neighbors="replace_one", random_state=0, n_threads=1
    ).fit(X, y)
    assert model.coef_.shape == (10, 784)
    assert model.score(data.X[60_000:], data.y[60_000:]) > 0.8
