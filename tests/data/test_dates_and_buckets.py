"""Dates in public units and texts in public buckets are the same in every representation."""

import hashlib
import warnings
from datetime import UTC, date, datetime, timedelta, timezone

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from dperm import Categorical, LogisticRegression, Numeric, Schema, load
from dperm.data import scan_csv, scan_parquet
from dperm.errors import DataError

MOMENTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2000, 2, 29),
    None,
    datetime(2024, 12, 31, 12, 30),
    datetime(1890, 1, 1),
]
LABELS = ["a", "b", "a", "b", "a"]


def tables(values, folder, **texts):
    """A column of dates or texts in all representations; `texts` are for CSV files and text columns."""
    frame = pd.DataFrame({"x": pd.Series(values), "y": LABELS})
    yield frame
    yield pl.from_pandas(frame)
    yield pa.Table.from_pandas(frame)
    yield {"x": values, "y": LABELS}
    written = texts.get("texts", [None if each is None else str(each) for each in values])
    yield pd.DataFrame({"x": written, "y": LABELS})
    rows = ["" if each is None else f" {each}" for each in written]
    (folder / "t.csv").write_text(
        "".join(f"{x},{y}\n" for x, y in zip(["x", *rows], ["y", *LABELS], strict=True))
    )
    yield folder / "t.csv"
    pyarrow.parquet.write_table(pa.Table.from_pandas(frame), folder / "t.parquet")
    yield folder / "t.parquet"
    yield dask.dataframe.from_pandas(frame, npartitions=2)


def encoded(table, schema):
    if not hasattr(table, "suffix"):
        if hasattr(table, "partitions"):
            return np.vstack([encoded(table.partitions[k].compute(), schema) for k in range(2)])
        return Schema(schema.columns, ignored=["y"]).encode(table, "float64").to_dense()
    text = {"label_type": "text", "block_bytes": 40} if table.suffix == ".csv" else {"chunk_rows": 2}
    files = (scan_csv if table.suffix == ".csv" else scan_parquet)(table, label="y", schema=schema, **text)
    return np.vstack([each.to_dense() for each in files.matrices()])


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour", "minute", "second"])
def test_dates(tmp_path, unit):
    column = Numeric("x", "1900-01-01", date(2025, 1, 1), missing="column", unit=unit)
    seconds = [(each - datetime(1970, 1, 1)).total_seconds() // 1 for each in filter(None, MOMENTS)]
    length = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}.get(unit)
    whole = [each // length for each in seconds] if length else [-1, 30, 54, -80]
    if unit == "month":
        whole = [-1, 361, 659, -960]
    scaled = np.clip((np.array(whole) - column.low) / (column.high - column.low), 0, 1)
    expected = np.c_[np.insert(scaled, 2, 0), [0, 0, 1, 0, 0]]
    for table in tables(MOMENTS, tmp_path):
        assert np.allclose(encoded(table, Schema([column])), expected, rtol=1e-6, atol=0)


def test_other_kinds_of_dates():
    column = Numeric("x", "2000-01-01", "2030-01-01", unit="second", bins=["2010-01-01", "2020-01-01"])
    assert column.feature_names == (
        "x<2010-01-01T00:00:00", "2010-01-01T00:00:00<=x<2020-01-01T00:00:00", "x>=2020-01-01T00:00:00"
    )  # fmt: skip
    zone = timezone(timedelta(hours=2))
    same = [datetime(2020, 1, 1, 1, 59, tzinfo=zone), datetime(2020, 1, 1, 2, tzinfo=zone)]
    utc = [each.astimezone(UTC).replace(tzinfo=None) for each in same]
    frames = [
        pd.DataFrame({"x": pd.Series(same)}),
        pl.DataFrame({"x": pl.Series(same).dt.convert_time_zone("Asia/Tokyo")}),
        pa.table({"x": pa.array(same, pa.timestamp("ns", "Asia/Tokyo"))}),
        {"x": [each.isoformat() for each in same]},
        {"x": np.array(utc, "datetime64[ms]")},
    ]
    for frame in frames:
        assert Schema([column]).encode(frame).codes[:, 0].tolist() == [1, 2]
    days = Schema([Numeric("x", "2020-01-01", "2020-12-31", unit="day")])
    for frame in (pa.table({"x": pa.array([date(2020, 12, 31)])}), pl.DataFrame({"x": [date(2020, 12, 31)]})):
        assert days.encode(frame).to_dense() == 1.0
    for cell in ("31/12/2020", "now", "2020", 5, 5.5, True):
        with pytest.raises(DataError, match=r"dates in the schema|expected a date"):
            days.encode({"x": [cell]})
    with pytest.raises(DataError, match="a missing value at row 1"):
        days.encode({"x": [date(2020, 1, 1), None]})


def test_texts_in_buckets(tmp_path):
    column = Categorical("x", buckets=50, missing="zero")
    words = ["Zürich", "", None, "x" * 1000, "07"]
    digests = [
        int(hashlib.sha256(each.encode()).hexdigest()[:16], 16) % 50 for each in words if each is not None
    ]
    for table in tables(words, tmp_path):
        rows = encoded(table, Schema([column]))
        found = [int(row.argmax()) if row.any() else None for row in rows]
        blank = (
            None if getattr(table, "suffix", "") == ".csv" else digests[1]
        )  # an empty cell is missing there
        assert found == [digests[0], blank, None, *digests[2:]]


def test_numbers_in_buckets(tmp_path):
    """Integers count as their digits, whether or not a gap has made them floats."""
    schema = Schema([Categorical("x", buckets=50, missing="zero")])
    expected = [int(hashlib.sha256(each).hexdigest()[:16], 16) % 50 for each in (b"7", b"-12")]
    for values in ([7, -12], [7, -12, None], np.array([7, -12], np.int8), [7.0, -12.0, np.nan], ["7", "-12"]):
        for frame in ({"x": values}, pd.DataFrame({"x": values}), pl.DataFrame({"x": values})):
            codes = schema.encode(frame).codes[:, 0].tolist()
            assert codes == expected + [50] * (len(values) - 2)
    for cell in (0.5, True, b"7", date(2020, 1, 1)):
        with pytest.raises(DataError, match=r"only texts and whole numbers are hashed|column 'x' holds"):
            schema.encode({"x": np.array([cell], object)})


def test_they_are_kept_in_files_and_models(tmp_path):
    schema = Schema(
        [
            Numeric("x", date(2000, 1, 1), "2030-06-01", bins=["2010-01-01", "2020-01-01"], unit="month"),
            Numeric("z", "2000-01-01", "2030-01-01", "log1p", missing="2010-01-01", unit="day"),
            Categorical("t", buckets=7),
        ]
    )
    schema.to_toml(tmp_path / "s.toml")
    assert 'high = "2030-06-01"' in (tmp_path / "s.toml").read_text()
    assert Schema.from_toml(tmp_path / "s.toml") == schema
    native = Schema.from_text(schema.to_text().replace('"2000-01-01"', "2000-01-01"))  # dates of TOML
    assert native == schema
    assert native.encoding == schema.encoding
    plain = Schema([Numeric("x", 360, 725, bins=[480, 600]), *schema.columns[1:]])
    assert plain.encoding != schema.encoding
    table = {"x": ["2015-05-05"] * 40, "z": [date(2020, 1, 1)] * 40, "t": ["u", "v"] * 20}
    with warnings.catch_warnings(action="ignore"):
        model = LogisticRegression(schema=schema, classes=["a", "b"], random_state=0).fit(
            table, ["a", "b"] * 20
        )
    model.save(tmp_path / "m.json")
    kept = load(tmp_path / "m.json")
    assert np.array_equal(kept.decision_function(table), model.decision_function(table))
    with pytest.raises(ValueError, match="neither dates nor hashing, which column 'x' needs"):
        model.to_onnx()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numeric("x", "2000-01-01", "2001-01-01"), "for dates give the unit"),
        (lambda: Numeric("x", "2000-01-01", "2001-01-01", unit="week"), "unit must be one of year, month"),
        (lambda: Numeric("x", "2000-01-01", 1.5, unit="day"), "high must be a date such as"),
        (lambda: Numeric("x", "2000-01-01", "today", unit="day"), "high must be a date such as"),
        (lambda: Numeric("x", "2000-01-01", "2000-12-31", unit="year"), "low < high"),
        (lambda: Categorical("x", ["a"], buckets=3), "categories and buckets"),
        (lambda: Categorical("x", buckets=1), "buckets must be an integer from 2"),
        (lambda: Categorical("x"), "between 1 and"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ValueError, match=message):
        make()
