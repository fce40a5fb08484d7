"""The prediction for a record depends on that record alone, not on its position or the number of records."""

import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from dperm import Categorical, HuberRegressor, LogisticRegression, Numeric, Schema
from dperm.data import scan_parquet
from dperm.errors import DataError

N, D = 1201, 203
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) / np.sqrt(D)
SCHEMA = Schema([*(Numeric(f"x{j}", -9, 9) for j in range(9)), Categorical("c", ["a", "b"])])


def table():
    import pandas as pd

    frame = pd.DataFrame(3.0 * RNG.normal(size=(N, 9)), columns=SCHEMA.column_names[:9])
    return SCHEMA.encode(frame.assign(c=RNG.choice(["a", "b"], N)))


DATA = {
    "double": lambda: X,
    "single": lambda: X.astype(np.float32),
    "by columns": lambda: np.asfortranarray(X),
    "strided": lambda: np.repeat(X, 2, axis=1)[:, ::2],
    "sparse": lambda: scipy.sparse.random_array((N, D), density=0.2, rng=1, format="csr"),
    "table": table,
}
MODELS = {
    "binary": LogisticRegression(1.0, 1e-6, classes=[0, 1], solver="noisy_gd"),
    "three classes": LogisticRegression(1.0, 1e-6, classes=[0, 1, 2], solver="noisy_gd"),
    "regression": HuberRegressor(1.0, 1e-6, target_bound=2.0, solver="noisy_gd"),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", MODELS)
def test_position_does_not_matter(data, name):
    rows, model = DATA[data](), MODELS[name]
    model.set_params(row_norm=1.0 if data != "table" else 2.0, random_state=0)
    y = np.arange(N) % len(model.classes) if name != "regression" else X[:, 0]
    model.fit(rows, y)
    asks = [
        getattr(model, each)
        for each in ("predict", "decision_function", "predict_proba")
        if hasattr(model, each)
    ]
    for ask in asks:
        whole = ask(rows)
        for first in (1, 2, 3, N - 1):
            assert np.array_equal(ask(rows[first:]), whole[first:])
        for last in (1, 2, 3, 1023):
            assert np.array_equal(ask(rows[:last]), whole[:last])


def frames(X):
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    columns = {f"x{j}": np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])}
    return {"pandas": pd.DataFrame(columns), "polars": pl.DataFrame(columns), "pyarrow": pa.table(columns)}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_frames_and_files_are_read_in_parts(monkeypatch, tmp_path):
    monkeypatch.setattr("dperm.estimators.design._PART_NUMBERS", 100 * D)
    single = X.astype(np.float32)
    model = LogisticRegression(classes=[0, 1], random_state=0).fit(frames(single)["pandas"], np.arange(N) % 2)
    expected = model.decision_function(single.astype(np.float64))
    for kind, frame in frames(single).items():
        np.testing.assert_array_equal(model.decision_function(frame), expected, err_msg=kind)
    frames(X[:, :1])["pandas"].assign(y=3).to_parquet(tmp_path / "narrow.parquet")
    frame = frames(single)["pandas"].assign(y=np.arange(N) % 3 % 2)
    frame.to_parquet(tmp_path / "data.parquet")
    files = scan_parquet(tmp_path / "data.parquet", label="y", chunk_rows=500)
    np.testing.assert_array_equal(model.decision_function(files), expected)
    assert model.score(files) == model.score(frame.drop(columns="y"), frame.y)
    with pytest.raises(DataError, match=r"X lacks columns 'x1', .* of the model; it has column 'x0'"):
        model.predict(scan_parquet(tmp_path / "narrow.parquet", label="y"))
    with pytest.raises(DataError, match="y must be given"):
        model.score(single)


def test_frames_are_encoded_in_parts(monkeypatch):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "c": np.where(X[:, 1] > 0, "a", "b")})
    schema = Schema([Numeric("a", -1, 1), Categorical("c", ["a", "b"])])
    model = LogisticRegression(classes=[0, 1], schema=schema, random_state=0).fit(frame, np.arange(N) % 2)
    expected = model.decision_function(schema.encode(frame))
    monkeypatch.setattr("dperm.estimators.design._PART_NUMBERS", 500)
    np.testing.assert_array_equal(model.decision_function(frame), expected)
    frame.loc[700, "c"] = "z"
    with pytest.raises(DataError, match=r"rows from 500 on: column 'c' holds 'z' at row 200"):
        model.predict(frame)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names", "ignore::dperm.errors.CopyWarning")
def test_no_copy_is_made_of_the_whole(monkeypatch):
    monkeypatch.setattr("dperm.estimators.design._PART_NUMBERS", 1 << 16)
    rows = np.zeros((80_000, 50), dtype=np.float32)
    model = HuberRegressor(target_bound=1.0, solver="noisy_gd", random_state=0)
    model.fit(frames(rows[:100])["pandas"], np.zeros(100))
    sparse = scipy.sparse.random_array((80_000, 50), density=0.9, rng=1, format="csr", dtype=np.float32)
    for data in (rows, frames(rows)["pandas"], sparse):
        model.predict(data[:9])
        tracemalloc.start()
        model.predict(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < rows.nbytes / 2


SET_ANEW = {
    "row_norm": 0.01,
    "fit_intercept": False,
    "schema": None,
    "solver": "nonprivate",
    "epsilon": math.inf,
    "classes": ["p", "q"],
}


def test_predictions_are_those_of_the_fit_whatever_parameters_are_set_later():
    rows = DATA["table"]()
    model = LogisticRegression(1.0, 1e-6, schema=SCHEMA, classes=["a", "b"], random_state=0)
    model.fit(rows, np.where(np.arange(N) % 2, "a", "b"))
    expected, table_of_weights = model.predict_proba(rows), model.coefficients()
    model.set_params(**SET_ANEW)
    np.testing.assert_array_equal(model.predict_proba(rows), expected)
    assert set(model.predict(rows)) <= {"a", "b"}
    assert model.coefficients().equals(table_of_weights)
