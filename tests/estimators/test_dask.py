"""Estimators on Dask collections: the same model as on one machine, and lazy predictions."""

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dperm import (
    Categorical,
    HuberRegressor,
    LinearSVC,
    LogisticRegression,
    Numeric,
    QuantileRegressor,
    Schema,
)
from dperm.accounting import Ledger
from dperm.errors import DataError, PrivacyWarning
from reference.clusters import partitioned, random_records

N, D = 2000, 5
LENGTHS = (700, 1, 1299)
pytestmark = pytest.mark.usefixtures("cluster")

X, y = random_records(N, D)
# Passes over partitions are slow: a few steps test as much.
SETTINGS = {"row_norm": 1.5, "random_state": 3, "solver_options": {"steps": 15}}
MODELS = {
    "logistic": (
        LogisticRegression(classes=["no", "yes"], **SETTINGS),
        lambda s: np.where(s > 0, "yes", "no"),
    ),
    "three classes": (
        LogisticRegression(classes=[5, 3, 9], **SETTINGS),
        lambda s: np.array([3, 5, 9])[np.digitize(s, [-0.3, 0.3])],
    ),
    "hinge": (LinearSVC(loss="hinge", classes=[0, 1], **SETTINGS), lambda s: (s > 0).astype(int)),
    "huber": (HuberRegressor(target_bound=1.0, **SETTINGS), lambda s: s),
    "quantile": (QuantileRegressor(target_bound=1.0, **SETTINGS), lambda s: s),
}


@pytest.mark.parametrize("name", MODELS)
def test_fit_and_predict_are_those_of_one_machine(name):
    model, target = MODELS[name]
    y = target(X.sum(axis=1))
    lazy_X, lazy_y = partitioned(X, y, LENGTHS)
    here, there = clone(model).fit(X, y), clone(model).fit(lazy_X, lazy_y)
    assert np.array_equal(here.coef_, there.coef_)
    assert np.array_equal(here.intercept_, there.intercept_)
    assert there.privacy_.to_dict()["public"]["partitions"] == 3
    assert "partitions" in str(there.privacy_)
    assert there.n_features_in_ == D
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        if not hasattr(here, method):
            continue
        expected, lazy = getattr(here, method)(X), getattr(there, method)(lazy_X)
        assert isinstance(lazy, dask.array.Array)
        assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
        assert lazy.chunks[0] == LENGTHS
        got = lazy.compute()
        assert np.array_equal(got, expected) if got.dtype.kind in "iU" else np.allclose(got, expected, 1e-12)
        assert np.array_equal(getattr(there, method)(X), expected)  # local rows, too
    assert there.score(lazy_X, lazy_y) == pytest.approx(here.score(X, y), rel=1e-12)
    weights = np.linspace(1.0, 2.0, N)
    assert there.score(lazy_X, lazy_y, weights) == pytest.approx(here.score(X, y, weights), rel=1e-12)


def test_data_frames():
    frame = pd.DataFrame(X, columns=list("abcde")).assign(label=np.where(y > 0, "yes", "no"))
    lazy = dask.dataframe.from_pandas(frame, npartitions=3)
    here, there = (clone(MODELS["logistic"][0]) for _ in range(2))
    here.fit(frame[list("abcde")], frame["label"])
    there.fit(lazy[list("abcde")], lazy["label"])
    assert np.array_equal(here.coef_, there.coef_)
    assert there.feature_names_in_.tolist() == list("abcde")
    got = there.predict(lazy[list("abcde")])
    assert np.array_equal(got.compute(), here.predict(frame[list("abcde")]))
    assert there.score(lazy[list("abcde")], lazy["label"]) == here.score(frame[list("abcde")], frame["label"])
    with pytest.raises(DataError, match="sample_weight"):
        there.score(lazy[list("abcde")], lazy["label"], lazy["a"])
    with pytest.raises(DataError, match="Dask array or series"):
        there.score(lazy[list("abcde")], frame["label"])
    with pytest.raises(ValueError, match="feature names"):
        there.predict(lazy[list("edcba")]).compute()
    there.fit(*partitioned(X, frame["label"].to_numpy(), LENGTHS))
    assert not hasattr(there, "feature_names_in_")


def test_scores_of_frames_are_those_of_one_machine():
    """Also with empty partitions, and with constant targets."""
    frame = pd.DataFrame(X, columns=list("abcde")).assign(target=X.sum(axis=1), flat=1.0)
    kept = frame[frame.a > 0]
    lazy = dask.dataframe.from_pandas(frame.sort_values("a", ignore_index=True), npartitions=6)
    lazy = lazy[lazy.a > 0]
    features = list("abcde")
    model = clone(MODELS["huber"][0]).fit(kept[features], kept["target"])
    for name in ("target", "flat"):
        expected = model.score(kept[features], kept[name])
        assert model.score(lazy[features], lazy[name]) == pytest.approx(expected, rel=1e-10)
    with pytest.raises(DataError, match="at least one record"):
        model.score(lazy[lazy.a < 0][features], lazy[lazy.a < 0]["target"])


def test_a_schema_is_applied_by_the_workers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(10, 90, N), "job": rng.choice(["cook", "clerk", "smith"], N)})
    y = pd.Series(np.where((frame.job == "cook") | (frame.age > 70), "yes", "no"))
    schema = Schema([Numeric("age", 0, 100), Categorical("job", ["clerk", "cook", "smith"])])
    lazy, lazy_y = (dask.dataframe.from_pandas(each, npartitions=3) for each in (frame, y))
    model = LogisticRegression(classes=["no", "yes"], schema=schema, random_state=3)
    here, there = clone(model).fit(frame, y), clone(model).fit(lazy, lazy_y)
    assert np.array_equal(here.coef_, there.coef_)
    assert there.feature_names_in_.tolist() == ["age", "job"]
    assert {"schema", "partitions"} <= set(there.privacy_.to_dict()["public"])
    assert np.array_equal(there.predict_proba(lazy).compute(), here.predict_proba(frame))
    assert there.score(lazy, lazy_y) == here.score(frame, y)
    with pytest.raises(DataError, match="data frame"):
        clone(model).fit(*partitioned(X, X[:, 0], LENGTHS))


def test_labels_found_in_the_data_are_warned_of():
    with pytest.warns(PrivacyWarning, match="classes was not given"):
        model = LogisticRegression(**SETTINGS).fit(*partitioned(X, y, LENGTHS))
    assert model.classes_.tolist() == [-1.0, 1.0]
    with pytest.raises(ValueError, match=r"[Cc]ontinuous"):
        LogisticRegression(**SETTINGS).fit(*partitioned(X, X[:, 0], LENGTHS))


def test_nothing_is_charged_for_data_that_cannot_be_used():
    ledger = Ledger(10.0, 1e-3, allow_seeded=True)
    bad = X.copy()
    bad[1500, 2] = np.nan
    model = LogisticRegression(classes=[-1, 1], ledger=ledger, **SETTINGS)
    for X_, y_, message in [
        (X, np.where(np.arange(N) == 1600, 7.0, y), "label 7.0, which is not in classes"),
        (bad, y, "row 1500, column 2"),
        (X[:, 0], y, "two dimensions"),
    ]:
        lazy_X = dask.array.from_array(X_, chunks=(LENGTHS, *X_.shape[1:]))
        with pytest.raises(DataError, match=message):
            model.fit(lazy_X, dask.array.from_array(y_, chunks=(LENGTHS,)))
    with pytest.raises(DataError, match="must be a Dask array or series"):
        model.fit(dask.array.from_array(X, chunks=(LENGTHS, D)), y)
    with pytest.raises(ValueError, match="use dp_sgd"):
        clone(model).set_params(solver="dp_sgd_output").fit(*partitioned(X, y, LENGTHS))
    assert not ledger.history()
    model.fit(*partitioned(X, y, LENGTHS))
    assert len(ledger.history()) == 1


def test_records_that_count_for_nothing():
    spoilt, targets = X.copy(), y.copy()
    spoilt[3, 1], targets[1999] = np.inf, np.nan
    model = HuberRegressor(target_bound=1.0, non_finite="zero", **SETTINGS)
    here, there = clone(model).fit(spoilt, targets), clone(model).fit(*partitioned(spoilt, targets, LENGTHS))
    assert np.array_equal(here.coef_, there.coef_)


def test_a_prediction_takes_no_ledger_along():
    model = LogisticRegression(classes=[-1, 1], ledger=Ledger(10.0, 1e-3, allow_seeded=True), **SETTINGS)
    lazy_X, lazy_y = partitioned(X, y, LENGTHS)
    lazy = model.fit(lazy_X, lazy_y).predict(lazy_X.rechunk((500, 2)))
    assert model.ledger is not None
    assert np.array_equal(lazy.compute(), model.predict(X))


def test_dask_sees_the_whole_state_of_a_model():
    lazy = dask.array.from_array(X, chunks=(N // 2, D))
    models = [LogisticRegression(classes=[-1, 1], **SETTINGS).fit(X, sign * y) for sign in (1, 1, -1)]
    same, again, other = (lazy.map_blocks(model.predict, drop_axis=1, dtype=float).name for model in models)
    assert same == again != other
    copy, _ = dask.compute(models[0], lazy.sum())
    assert np.array_equal(copy.coef_, models[0].coef_)
