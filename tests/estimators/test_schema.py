"""Estimators with a schema: data frames are encoded the same in training and prediction."""

import dataclasses
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dperm
from dperm import (
    Categorical,
    HuberRegressor,
    LinearSVC,
    LogisticRegression,
    Numeric,
    QuantileRegressor,
    Schema,
)
from dperm.accounting import Ledger, export_ledger, open_ledger
from dperm.errors import DataError, PrivacyWarning

SCHEMA = Schema(
    [
        Numeric("age", 0, 100, missing="column"),
        Categorical("job", ["farmer", "nurse", "pilot"], unknown="zero"),
        Numeric("income", 0, 1e5, "log1p", bins=4),
    ],
    name="people",
)


def people(n=3000):
    rng = np.random.default_rng(0)
    job = rng.choice(["farmer", "nurse", "pilot", "poet"], n)
    age = rng.uniform(-10, 110, n)
    frame = pd.DataFrame({"income": 10 ** rng.uniform(0, 5, n), "job": job, "age": age})
    score = (job == "nurse") + age / 100 - 1.0 + 0.1 * rng.normal(size=n)
    frame.loc[::7, "age"] = np.nan
    return frame, score, np.where(score > 0, "yes", "no")


ESTIMATORS = {
    "logistic": LogisticRegression(epsilon=2.0, classes=["no", "yes"], schema=SCHEMA, random_state=0),
    "svc": LinearSVC(epsilon=2.0, classes=["no", "yes"], schema=SCHEMA, random_state=0),
    "huber": HuberRegressor(epsilon=2.0, target_bound=2.0, schema=SCHEMA, random_state=0),
    "quantile": QuantileRegressor(epsilon=2.0, target_bound=2.0, schema=SCHEMA, random_state=0),
}


@pytest.fixture(params=sorted(ESTIMATORS))
def case(request):
    frame, score, label = people()
    estimator = clone(ESTIMATORS[request.param])
    return estimator, frame, score if "target_bound" in estimator.get_params() else label


def assert_same_predictions(actual, expected):
    """Labels, or numbers that are equal but for rounding."""
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(actual, expected)


def test_a_frame_is_what_it_is_encoded_into(case):
    estimator, frame, y = case
    from_frame = clone(estimator).fit(frame, y)
    encoded = SCHEMA.encode(frame)
    bound = SCHEMA.row_norm()
    plain = clone(estimator).set_params(schema=None, row_norm=bound)
    for X in (encoded, encoded.to_dense()):
        model = clone(plain).fit(X, y)
        np.testing.assert_array_equal(model.coef_, from_frame.coef_)
        assert_same_predictions(model.predict(X), from_frame.predict(frame))
        assert model.n_features_in_ == SCHEMA.n_columns == model.coef_.shape[-1]
    np.testing.assert_array_equal(clone(estimator).fit(encoded, y).coef_, from_frame.coef_)
    np.testing.assert_array_equal(from_frame.predict(encoded), from_frame.predict(frame))
    assert from_frame.score(frame, y) > 0.5


@pytest.mark.parametrize(
    "convert", [pl.from_pandas, pa.Table.from_pandas, lambda frame: frame.to_dict("list")]
)
def test_frames_of_all_libraries(convert):
    frame, _, y = people()
    model = clone(ESTIMATORS["logistic"]).fit(frame, y)
    other = clone(ESTIMATORS["logistic"]).fit(convert(frame), pl.Series(y))
    np.testing.assert_array_equal(other.coef_, model.coef_)
    np.testing.assert_array_equal(other.predict_proba(convert(frame)), model.predict_proba(frame))


def test_attributes_and_statement(case):
    estimator, frame, y = case
    model = estimator.fit(frame, y)
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["age", "job", "income"]
    assert model.coef_.shape[-1] == len(SCHEMA.feature_names) == 9
    assert model.privacy_.row_norm == SCHEMA.row_norm()
    described = model.privacy_.to_dict()["public"]["schema"]
    assert described == f"'people', 3 columns as 9, SHA-256 {SCHEMA.digest[:16]}..."
    assert described in " ".join(str(model.privacy_).split())
    assert (
        "schema"
        not in clone(model).set_params(schema=None, row_norm=2).fit(SCHEMA.encode(frame), y).privacy_.public
    )


def test_a_given_row_norm_comes_first():
    frame, _, y = people()
    model = clone(ESTIMATORS["logistic"]).set_params(row_norm=1.25).fit(frame, y)
    dense = LogisticRegression(epsilon=2.0, classes=["no", "yes"], row_norm=1.25, random_state=0)
    dense.fit(SCHEMA.encode(frame).to_dense(), y)
    assert model.privacy_.row_norm == 1.25
    np.testing.assert_array_equal(model.coef_, dense.coef_)
    assert_same_predictions(
        model.decision_function(frame), dense.decision_function(SCHEMA.encode(frame).to_dense())
    )
    without = clone(ESTIMATORS["logistic"]).set_params(fit_intercept=False).fit(frame, y)
    assert without.privacy_.row_norm == SCHEMA.row_norm(fit_intercept=False)
    assert LogisticRegression(classes=[0, 1]).fit(np.eye(2), [0, 1]).privacy_.row_norm == 1.0


@pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
def test_scikit_learn_takes_frames_and_tabular_matrices(case):
    estimator, frame, y = case
    X, X_test, z, z_test = train_test_split(frame, y, random_state=0)
    expected = clone(estimator).fit(X, z).score(X_test, z_test)
    encoded, encoded_test, *_ = train_test_split(SCHEMA.encode(frame), y, random_state=0)
    assert clone(estimator).fit(encoded, z).score(encoded_test, z_test) == expected
    pipeline = make_pipeline(FunctionTransformer(lambda each: each.assign(age=each["age"] + 0)), estimator)
    assert clone(pipeline).fit(X, z).score(X_test, z_test) == expected
    by_frame = cross_val_score(estimator, frame, y, cv=3)
    np.testing.assert_array_equal(cross_val_score(estimator, SCHEMA.encode(frame), y, cv=3), by_frame)
    search = GridSearchCV(
        estimator, {"schema": [SCHEMA, Schema(SCHEMA.columns[:2], ignored=["income"])]}, cv=2
    )
    assert search.fit(frame, y).best_estimator_.coef_.shape[-1] in (5, 9)


def test_models_survive_pickling(case):
    estimator, frame, y = case
    model = estimator.fit(frame, y)
    again = pickle.loads(pickle.dumps(model))
    assert again.schema == SCHEMA
    np.testing.assert_array_equal(again.predict(frame[:100]), model.predict(frame[:100]))


def test_long_predictions_come_in_blocks(monkeypatch):
    frame, _, y = people()
    model = clone(ESTIMATORS["logistic"]).fit(frame, y)
    whole = model.decision_function(frame)
    monkeypatch.setattr("dperm.estimators.design._BLOCK_ROWS", 7)
    np.testing.assert_allclose(model.decision_function(frame), whole, rtol=1e-12)
    assert model.predict(frame[:0]).shape == (0,)


class TestErrors:
    """Nothing is charged."""

    def model(self, ledger, **changes):
        return clone(ESTIMATORS["logistic"]).set_params(ledger=ledger, **changes)

    def test_bad_records(self, uncharged):
        frame, _, y = people()
        with pytest.raises(DataError, match="the table lacks column 'age'"):
            self.model(uncharged).fit(frame.drop(columns="age"), y)
        with pytest.raises(DataError, match="does not describe column 'id'"):
            self.model(uncharged).fit(frame.assign(id=1), y)
        with pytest.raises(DataError, match="column 'age' is numeric in the schema and holds String"):
            self.model(uncharged).fit(frame.assign(age="old").astype(object), y)
        frame.loc[2, "income"] = None
        with pytest.raises(DataError, match="'income' has a missing value at row 2"):
            self.model(uncharged).fit(frame, y)

    def test_bad_targets(self, uncharged):
        frame, _, y = people()
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            self.model(uncharged).fit(frame, y[:-1])
        with pytest.raises(DataError, match="label 'maybe', which is not in classes"):
            self.model(uncharged).fit(frame, np.where(y == "yes", "maybe", y))
        with pytest.raises(ValueError, match="requires y to be passed"):
            self.model(uncharged).fit(frame, None)
        with pytest.raises(DataError, match="at least one record"):
            self.model(uncharged).fit(frame[:0], y[:0])

    def test_bad_schemas(self, uncharged):
        frame, _, y = people()
        with pytest.raises(TypeError, match=r"schema must be a dperm\.Schema, got str"):
            self.model(uncharged, schema="people.toml").fit(frame, y)
        other = Schema([Numeric("age", 0, 1)]).encode({"age": np.zeros(len(y))})
        with pytest.raises(DataError, match="encoded already, by another schema"):
            self.model(uncharged).fit(other, y)

    def test_columns_of_text_need_a_schema(self, uncharged):
        frame, _, y = people()
        with pytest.raises(DataError, match=r"could not convert .*need schema=, a public description"):
            self.model(uncharged, schema=None).fit(frame, y)

    def test_other_records_in_prediction(self):
        frame, _, y = people()
        model = clone(ESTIMATORS["logistic"]).fit(frame, y)
        with pytest.raises(DataError, match="the table lacks column 'job'"):
            model.predict(frame[["age", "income"]])
        without = clone(ESTIMATORS["logistic"]).set_params(schema=None).fit(SCHEMA.encode(frame), y)
        other = Schema([Numeric("age", 0, 1)]).encode({"age": np.zeros(3)})
        with pytest.raises(DataError, match="encoded already, by another schema"):
            without.predict(other)


@pytest.mark.parametrize("durable", [False, True])
def test_a_draft_voids_everything_that_rests_on_it(durable, tmp_path):
    frame, _, answers = people()
    with pytest.warns(PrivacyWarning):
        draft = Schema.template(frame.assign(answer=answers), label="answer")
    ledger = open_ledger(tmp_path / "budget.db", "people", 3.0, 1e-5) if durable else Ledger(3.0, 1e-5)
    with pytest.warns(PrivacyWarning, match="nothing is guaranteed.*draft schema"):
        model = LogisticRegression(1.0, 1e-6, schema=draft, ledger=ledger).fit(frame, answers)
    loud = "NOT PRIVATE: it rests on the bounds and categories of a draft schema"
    model.save(tmp_path / "model.json")
    loaded = dperm.load(tmp_path / "model.json")
    for each in (model, loaded):
        assert each.privacy_.headline.startswith(loud)
        assert not each.privacy_.to_dict()["private"]
        assert "How strongly" not in dict(each.privacy_.sections())
        assert each.schema.draft
        page = dperm.report(each)
        assert page.to_markdown().startswith(f"# Privacy report: LogisticRegression\n\n> {loud}")
        assert f'<p class="warning">{loud}' in page.to_html()
        assert 'class="good"' not in page.to_html()
        assert "NOT PRIVATE" in each._repr_html_()
    budget = "> NOT PRIVATE: no charge covers what was learned from the data without noise. Entry 1 ("
    assert budget in dperm.report(ledger).to_markdown().partition("Everything that was charged")[0]
    exported = json.loads(export_ledger(ledger))
    assert exported["not_private"].startswith("NOT PRIVATE")
    assert exported["entries"][0]["statement"]["learned_exactly"]
    search = dperm.PrivateSearch(clone(model).set_params(ledger=None), {"l2": [0.0, 0.1]}, 50.0, 1e-6)
    with pytest.warns(PrivacyWarning, match="draft schema"):
        search.fit(frame, answers)
    assert search.privacy_.headline.startswith(loud)
    checked = dataclasses.replace(draft, draft=False)
    model = LogisticRegression(1.0, 1e-6, schema=checked, ledger=ledger).fit(frame, answers)
    assert model.privacy_.headline == "Differentially private (epsilon = 1, delta = 1e-06)."


def test_the_label_is_refused_as_a_feature():
    frame, score, answers = people()
    labelled = frame.assign(answer=answers, score=score)
    both = [*SCHEMA.columns, Categorical("answer", ["no", "yes"]), Numeric("score", -3, 3)]
    ledger = Ledger(3.0, 1e-5)
    model = LogisticRegression(schema=Schema(both), classes=["no", "yes"], ledger=ledger)
    for y in (labelled["answer"], answers, pl.Series("answer", answers)):
        for X in (labelled, pl.from_pandas(labelled), pa.Table.from_pandas(labelled), dict(labelled)):
            with pytest.raises(DataError, match="column 'answer' is a feature, and y is the same column"):
                model.fit(X, y)
    assert not ledger.history()


def test_the_schema_describes_the_label():
    frame, score, answers = people()
    labelled = frame.assign(answer=answers, score=score)
    schema = Schema(
        [*SCHEMA.columns, Categorical("answer", ["no", "yes"])], ignored=["score"], label="answer"
    )
    model = LogisticRegression(2.0, schema=schema, random_state=0).fit(labelled, labelled["answer"])
    plain = LogisticRegression(2.0, schema=SCHEMA, classes=["no", "yes"], random_state=0).fit(frame, answers)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.predict(labelled[:9]).tolist() == plain.predict(frame[:9]).tolist()
    schema = Schema([*SCHEMA.columns, Numeric("score", -3, 2)], ignored=["answer"], label="score")
    model = HuberRegressor(2.0, schema=schema, random_state=0).fit(labelled, labelled["score"])
    assert model.privacy_.public["target_bound"] == 3.0
    assert (
        dperm.metrics.evaluate(model, labelled, score, 1.0, 1e-6).privacy.public["loss_bound"]["mae"] == 3.0
    )
