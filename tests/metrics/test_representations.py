"""The same records give the same release in any representation."""

import math

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dperm import Categorical, HuberRegressor, LinearSVC, LogisticRegression, Numeric, Schema
from dperm.accounting import Ledger
from dperm.data import aggregate, scan_parquet
from dperm.errors import DataError, PrivacyWarning
from dperm.metrics import evaluate, judging

N = 3000
RNG = np.random.default_rng(0)
SCHEMA = Schema([Numeric("age", 0, 100), Categorical("job", ["cook", "clerk", "nurse"])])
FRAME = pd.DataFrame(
    {"age": RNG.uniform(0, 100, N).round(), "job": RNG.choice(["cook", "clerk", "nurse"], N)}
)
LABELS = np.where(FRAME["age"] / 100 + (FRAME["job"] == "nurse") + RNG.normal(size=N) > 0.9, "yes", "no")
X = SCHEMA.encode(FRAME).to_dense()
TARGETS = X[:, 0] + RNG.normal(size=N) / 4


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks, so that their sums are tested."""
    monkeypatch.setattr(judging, "_BLOCK_ROWS", 701)


@pytest.fixture(scope="module")
def on_frames():
    model = LogisticRegression(8.0, 1e-6, schema=SCHEMA, classes=["no", "yes"], random_state=0)
    return model.fit(FRAME, LABELS)


@pytest.fixture(scope="module")
def on_arrays():
    ledger = Ledger(8.0, 1e-6, allow_seeded=True)
    model = LogisticRegression(8.0, 1e-6, classes=["no", "yes"], row_norm=1.5, random_state=0, ledger=ledger)
    return model.fit(X, LABELS)


class Found:
    """Metrics with equal noise, which must agree to the bit, and without privacy, in floating-point sums."""

    def __init__(self, model, X, y, **settings):
        self.noisy = evaluate(model, X, y, 1.0, 1e-6, random_state=1, **settings).to_dict()["metrics"]
        exact = evaluate(model, X, y, math.inf, 1e-6, **settings).to_dict()["metrics"]
        self.exact = [np.asarray(part, dtype=float) for metric in exact.values() for part in numbers(metric)]

    def __eq__(self, other):
        pairs = zip(self.exact, other.exact, strict=True)
        near = all(np.allclose(one, two, rtol=1e-12, atol=1e-14, equal_nan=True) for one, two in pairs)
        return near and self.noisy == other.noisy


def numbers(metric):
    """The numbers and arrays of a metric, its coordinates one by one."""
    for part in (metric["value"], metric["low"], metric["high"]):
        part = np.nan if part is None else part
        yield from part.values() if isinstance(part, dict) else [part]


def parquet(folder, frame, **further):
    path = folder / "records.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pandas(frame.assign(**further)), path)
    return path


FRAMES = {
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "table": SCHEMA.encode,
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(on_frames, name):
    assert Found(on_frames, FRAMES[name](FRAME), LABELS) == Found(on_frames, FRAME, LABELS)


def test_files_with_a_schema(on_frames, tmp_path):
    path = parquet(tmp_path, FRAME, label=LABELS)
    files = scan_parquet(path, label="label", schema=SCHEMA, chunk_rows=1024)
    assert Found(on_frames, files, None) == Found(on_frames, FRAME, LABELS)
    with pytest.raises(ValueError, match="y must be None"):
        evaluate(on_frames, files, LABELS, 1.0, 1e-6)
    with pytest.raises(DataError, match="files take none"):
        evaluate(on_frames, files, None, 1.0, 1e-6, counts=np.ones(N, dtype=int))


ARRAYS = {
    "list": np.ndarray.tolist,
    "column order": np.asfortranarray,
    "sparse": scipy.sparse.csr_array,
    "coordinates": scipy.sparse.coo_matrix,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(on_arrays, name):
    assert Found(on_arrays, ARRAYS[name](X), LABELS) == Found(on_arrays, X, LABELS)


def test_mapped_files(on_arrays, tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert Found(on_arrays, mapped, LABELS) == Found(on_arrays, X, LABELS)


def test_files_of_a_regression(tmp_path):
    model = HuberRegressor(8.0, 1e-6, row_norm=1.5, target_bound=2.0, random_state=0).fit(X, TARGETS)
    names = [f"x{j}" for j in range(X.shape[1])]
    path = parquet(tmp_path, pd.DataFrame(X, columns=names), y=TARGETS)
    assert Found(model, scan_parquet(path, label="y", chunk_rows=1024), None) == Found(model, X, TARGETS)


def test_counts_stand_for_repeated_rows(on_arrays):
    merged, labels, counts = aggregate(X, np.where(LABELS == "yes", 1.0, -1.0))
    assert len(labels) < N
    words = np.where(labels > 0, "yes", "no")
    assert Found(on_arrays, merged, words, counts=counts) == Found(on_arrays, X, LABELS)


@pytest.mark.usefixtures("cluster")
class TestDask:
    """The workers add up; a ledger does not travel."""

    def test_arrays(self, on_arrays):
        parts = dask.array.from_array(X, chunks=(1000, 2)), dask.array.from_array(LABELS, chunks=1000)
        assert Found(on_arrays, *parts) == Found(on_arrays, X, LABELS)
        with pytest.raises(DataError, match="counts"):
            evaluate(on_arrays, *parts, 1.0, 1e-6, counts=np.ones(N, dtype=int))

    def test_frames_with_an_empty_partition(self, on_frames):
        frame = dask.dataframe.from_pandas(FRAME.assign(label=LABELS).reset_index(), npartitions=3)
        frame = frame[(frame["index"] < 1000) | (frame["index"] >= 2000)]
        kept = np.r_[0:1000, 2000:3000]
        in_parts = Found(on_frames, frame[["age", "job"]], frame["label"])
        assert in_parts == Found(on_frames, FRAME.iloc[kept], LABELS[kept])

    def test_pipeline(self):
        ledger = Ledger(8.0, 1e-6, allow_seeded=True)
        last = LinearSVC(8.0, 1e-6, classes=["no", "yes"], row_norm=2.0, random_state=0, ledger=ledger)
        with pytest.warns(PrivacyWarning, match="StandardScaler"):
            model = make_pipeline(StandardScaler(), last).fit(X, LABELS)
        parts = dask.array.from_array(X, chunks=(1000, 4)), dask.array.from_array(LABELS, chunks=1000)
        assert Found(model, *parts) == Found(model, X, LABELS)
        assert last.ledger is ledger


WRONG = {
    "no targets": (X, None, "y must be given"),
    "fewer targets": (X, LABELS[1:], "one target per record"),
    "one record": (X[0], LABELS[:1], "two dimensions"),
    "none at all": (X[:0], LABELS[:0], "at least one record"),
    "unknown label": (X, np.where(LABELS == "yes", "perhaps", "no"), "not in classes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_data_that_cannot_be_used(on_arrays, name):
    rows, targets, message = WRONG[name]
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(DataError, match=message):
        evaluate(on_arrays, rows, targets, 1.0, 1e-6, ledger=ledger)
    assert ledger.history() == []
