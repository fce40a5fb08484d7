"""Records without a label are refused with what to do, or left out, one by one."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dperm import HuberRegressor, LogisticRegression, Numeric, PrivateSearch, Schema
from dperm.data import scan_csv, scan_parquet
from dperm.errors import DataError
from dperm.metrics import evaluate

SCHEMA = Schema([Numeric("a", 0, 1)])
N = 400


def model(**others):
    return LogisticRegression(schema=SCHEMA, classes=["no", "yes"], n_public=N, random_state=0, **others)


def table():
    a = np.random.default_rng(0).uniform(size=N)
    y = np.where(a > 0.5, "yes", "no").astype(object)
    y[::5] = None
    return pd.DataFrame({"a": a, "y": y})


@pytest.mark.filterwarnings("ignore:the budget of a fit in this search")
def test_what_is_left_is_the_same_in_every_representation(tmp_path):
    whole, full = table(), table().dropna()
    whole.to_csv(tmp_path / "t.csv", index=False)
    whole.to_parquet(tmp_path / "t.parquet", index=False)
    expected = model().fit(full[["a"]], full["y"])
    frame = pl.from_pandas(whole)
    found = [
        (whole[["a"]], whole["y"]),
        (whole[["a"]], whole["y"].astype("string")),
        (frame.select("a"), frame["y"]),
        ({"a": whole["a"].tolist()}, whole["y"].tolist()),
        (scan_csv(tmp_path / "t.csv", label="y", label_type="text", schema=SCHEMA, block_bytes=999), None),
        (scan_parquet(tmp_path / "t.parquet", label="y", schema=SCHEMA, chunk_rows=30), None),
    ]
    for X, y in found:
        with pytest.raises(DataError, match=r"no label at row 0\. drop_missing_labels=True leaves such"):
            model().fit(X, y)
        assert np.array_equal(model().fit(X, y, drop_missing_labels=True).coef_, expected.coef_)
        if isinstance(X, dict):  # for fits and predictions only
            continue
        both = ((X, y), {"drop_missing_labels": True}), ((full[["a"]], full["y"]), {})
        scores = [
            evaluate(expected, *records, 1.0, 1e-6, metrics="accuracy", random_state=0, **drop)["accuracy"]
            for records, drop in both
        ]
        assert scores[0] == scores[1]
        search = PrivateSearch(model(), {"l2": [0.0, 1.0]}, 10.0, 1e-6, random_state=0)
        best = [search.fit(*records, **drop).best_estimator_.coef_ for records, drop in both]
        assert y is None or np.array_equal(*best)  # files are split by other coins


def test_numbers_and_refusals():
    whole = table().assign(y=lambda each: (each["a"] ** 2).where(each["y"].notna()))
    huber = HuberRegressor(schema=SCHEMA, target_bound=1.0, n_public=N, random_state=0)
    with pytest.raises(DataError, match="no label at row 0"):
        huber.fit(whole[["a"]], whole["y"])
    full, found = whole.dropna(), huber.fit(whole[["a"]], whole["y"], drop_missing_labels=True).coef_
    assert np.array_equal(found, huber.fit(full[["a"]], full["y"]).coef_)
    with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match="add_or_remove"):
        model(neighbors="replace_one").fit(*map(table().get, [["a"], "y"]), drop_missing_labels=True)
