"""Records in Parquet and CSV files: the same integers as in memory, whatever the chunks; malformed files."""

import gzip
import multiprocessing
import os
import pickle
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dperm
from dperm import Objective, algorithms
from dperm.data import scan_csv, scan_parquet
from dperm.data.passes import Pass
from dperm.errors import DataError, PrivacyWarning
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from dperm.objective.gradients import clipped_gradient_sum
from reference.exact import same
from reference.record_files import in_parquet_files, table

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

N, D = 1003, 5
NAMES = [f"x{j}" for j in range(D)]


def records(dtype=np.float32, n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, D)).astype(dtype)
    x[::17] *= 100.0  # rows that are scaled onto the norm
    return x, np.where(x[:, 0] + 0.3 * rng.standard_normal(n) > 0.0, 1.0, -1.0)


@pytest.fixture
def pattern(tmp_path):
    return in_parquet_files(tmp_path, *records())


def objectives(pattern, chunk_rows=97, loss="logistic", x=None, y=None, **keywords):
    """The same objective in memory and in files."""
    if x is None:
        x, y = records()
    source = scan_parquet(pattern, label="y", columns=NAMES, chunk_rows=chunk_rows)
    return Objective(loss, x, y, **keywords), Objective(loss, source, **keywords)


# -- sums --------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(chunk_rows=st.integers(1, 1200), threads=st.integers(1, 3), rate=st.floats(0.0, 1.0))
def test_chunks_threads_and_samples(tmp_path_factory, chunk_rows, threads, rate):
    folder = tmp_path_factory.mktemp("files")
    memory, files = objectives(in_parquet_files(folder, *records()), chunk_rows, n_threads=threads)
    w = np.full(D, 0.2)
    assert same(clipped_gradient_sum(memory, w, 0.3), clipped_gradient_sum(files, w, 0.3))
    batches = [SecretBatches("poisson", random_bits(3), max(1.0, rate * N), N) for _ in range(2)]
    for _ in range(2):
        sums = [
            clipped_gradient_sum(objective, w, 0.3, rows=next(batch))
            for objective, batch in zip((memory, files), batches, strict=True)
        ]
        assert same(*sums)


def test_columns_of_any_numeric_type(tmp_path):
    rng = np.random.default_rng(4)
    columns = {
        "i": pa.array(rng.integers(-5, 5, 50)),
        "b": pa.array(rng.random(50) < 0.5),
        "h": pa.array(rng.standard_normal(50).astype(np.float16)),
        "f": pa.array(rng.standard_normal(50).astype(np.float32)),
        "n": pa.array([None if i == 7 else float(i) for i in range(50)]),
        "y": pa.array(np.where(rng.random(50) < 0.5, 1, -1)),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    x = np.column_stack([np.asarray(columns[name].to_pylist(), float) for name in "ibhfn"])
    source = scan_parquet(tmp_path / "t.parquet", label="y", chunk_rows=8)
    assert source.feature_names == tuple("ibhfn")
    assert np.array_equal(np.concatenate(list(source.matrices())), x, equal_nan=True)
    w = np.full(5, 0.3)
    memory = Objective("logistic", x, np.array(columns["y"]), non_finite="zero")
    files = Objective("logistic", source, non_finite="zero")
    assert same(clipped_gradient_sum(memory, w, 0.3), clipped_gradient_sum(files, w, 0.3))
    with pytest.raises(DataError, match="row 7, column 4"):
        Objective("logistic", source)


CSV_FAULTS = {
    "a cell": ("7,oops,1", "line {line} (row {row}), column 'b': expected a number, got 'oops'"),
    "the first of two": ("x,y,1", "line {line} (row {row}), column 'a': expected a number, got 'x'"),
    "a quoted cell": ('7,"2,5",1', "line {line} (row {row}), column 'b': expected a number, got '2,5'"),
    "a label": ("7,8,no", "line {line} (row {row}), column 'y': expected a number, got 'no'"),
    "bytes": (b"7,\xff,1", "line {line} (row {row}), column 'b': expected a number, got '\ufffd'"),
    "cells that lack": ("7,8", "line {line} (row {row}): a line has 2 cells, expected 3: '7,8'"),
    "too many cells": ("7,8,1,9", "line {line} (row {row}): a line has 4 cells, expected 3: '7,8,1,9'"),
}


@pytest.mark.parametrize("block_bytes", [100, 1 << 20])
@pytest.mark.parametrize("before", [0, 1, 150])
@pytest.mark.parametrize(("line", "message"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_faults_in_a_csv_file_are_named_with_their_place(tmp_path, line, message, before, block_bytes):
    line = line if isinstance(line, bytes) else line.encode()
    good = b"1,2.5,1\n"
    (tmp_path / "t.csv").write_bytes(b"a,b,y\n\n" + before * good + line + b"\n" + 5 * good)
    source = scan_csv(tmp_path / "t.csv", label="y", block_bytes=block_bytes)
    with pytest.raises(DataError) as error:
        Objective("logistic", source)
    place = message.format(line=before + 3, row=before)  # after the header and an empty line
    assert f"t.csv, {place}" in str(error.value)
    assert "Correct the file" in str(error.value)


def test_of_several_faults_in_a_csv_file_one_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,oops,1\n1,2,1\nbad,2,1\n")
    with pytest.raises(
        DataError, match=r"line 2 \(row 0\), column 'b'.*'oops'|line 4 \(row 2\), column 'a'.*'bad'"
    ):
        Objective("logistic", scan_csv(tmp_path / "t.csv", label="y"))


def test_cells_of_a_schema_in_a_csv_file(tmp_path):
    (tmp_path / "t.csv").write_text("a,c,y\n1,2,1\n3,high,1\n")
    schema = dperm.Schema([dperm.Numeric("a", 0, 10), dperm.Categorical("c", [1, 2])])
    with pytest.raises(DataError, match=r"line 3 \(row 1\), column 'c': expected a whole number, got 'high'"):
        Objective("logistic", scan_csv(tmp_path / "t.csv", label="y", schema=schema))


def test_columns_that_a_csv_file_does_not_have(tmp_path):
    (tmp_path / "t.csv").write_text("a;y\n1;1\n")
    with pytest.raises(DataError, match=r"no column called 'y'.*separated by ',', are \['a;y'\].*delimiter"):
        Objective("logistic", scan_csv(tmp_path / "t.csv", label="y"))


@pytest.mark.parametrize("block_bytes", [1 << 12, 1 << 20])
def test_csv(tmp_path, block_bytes):
    x, y = records(np.float64)
    csv.write_csv(table(x, y, note=["text"] * N), tmp_path / "t.csv")
    source = scan_csv(tmp_path / "t.csv", label="y", columns=NAMES[::-1], block_bytes=block_bytes)
    memory, files = Objective("logistic", x[:, ::-1].copy(), y), Objective("logistic", source)
    w = np.arange(D) / 5.0
    assert same(clipped_gradient_sum(memory, w, 0.3), clipped_gradient_sum(files, w, 0.3))
    with pytest.raises(DataError, match=r"t\.csv, line 2 \(row 0\), column 'note': .*got 'text'"):
        Objective("logistic", scan_csv(tmp_path / "t.csv", label="y"))


def test_words_for_missing_numbers_are_texts_among_texts(tmp_path):
    schema = dperm.Schema(
        [
            dperm.Categorical("c", ["NA", "null", "nan", "DE"], missing="zero"),
            dperm.Numeric("a", 0, 5, missing=2),
        ]
    )
    c = np.array(["NA", "null", "nan", "DE", None] * 20, dtype=object)
    a = np.arange(100.0) % 6
    a[::7] = np.nan
    frame = pd.DataFrame({"c": c, "a": a, "label": ["NA", "yes"] * 50})
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    for words in ("", "NA", "null", "NaN"):
        numbers = frame.astype({"a": object}).assign(a=[words if each != each else each for each in a])
        numbers.to_csv(tmp_path / f"t{words}.csv", index=False)
    encoded = schema.encode(frame[["c", "a"]])
    y = np.where(frame["label"] == "yes", 1.0, -1.0)
    expected = clipped_gradient_sum(Objective("logistic", encoded, y), np.full(5, 0.1), 0.3)
    sources = [
        scan_parquet(tmp_path / "t.parquet", label="label", schema=schema),
        *(scan_csv(path, label="label", label_type="text", schema=schema) for path in tmp_path.glob("*.csv")),
    ]
    assert len(sources) == 5
    for source in sources:
        (matrix,) = source.matrices()
        assert np.array_equal(matrix.codes, encoded.codes)
        assert np.array_equal(matrix.numeric, encoded.numeric)
        assert source.labels().tolist() == ["NA", "yes"]
        objective = Objective(
            "logistic", source.with_targets(lambda cells: np.where(cells == "yes", 1.0, -1.0))
        )
        assert same(clipped_gradient_sum(objective, np.full(5, 0.1), 0.3), expected)
    (tmp_path / "gap.csv").write_text("label,a\nNA,1\n,2\n")
    with pytest.raises(DataError, match="holds no label at row 1"):
        scan_csv(tmp_path / "gap.csv", label="label", label_type="text").labels()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block_bytes", [1, 7, 64, 500, 10_000])
def test_blocks_of_a_csv_file(tmp_path, end, block_bytes):
    """With any line endings, empty lines, and blocks shorter than a line."""
    x = np.arange(40.0)
    lines = ["\ufeffa,y", *(f"{each},{each % 2 * 2 - 1}" for each in x)]
    lines.insert(20, "")
    (tmp_path / "t.csv").write_bytes(end.join([*lines, "", ""]).encode())
    source = scan_csv(tmp_path / "t.csv", label="y", block_bytes=block_bytes)
    assert source.feature_names == ("a",)
    assert np.array_equal(np.concatenate(list(source.matrices()))[:, 0], x)
    assert np.array_equal(source.targets(), x % 2 * 2 - 1)


def test_a_csv_file_with_long_lines(tmp_path):
    width = 8_000  # lines of 150 kB
    x = np.random.default_rng(2).standard_normal((3, width))
    names = [f"x{j}" for j in range(width)]
    pd.DataFrame(x, columns=names).assign(y=1.0).to_csv(tmp_path / "t.csv", index=False)
    assert np.array_equal(
        np.concatenate(list(scan_csv(tmp_path / "t.csv", label="y", block_bytes=1 << 17).matrices())), x
    )


# -- algorithms and estimators -----------------------------------------------------------------------


FEW_STEPS = {"random_state": 6, "solver_options": {"steps": 8}}


@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"], [0, 1]])
def test_estimators(tmp_path, labels):
    x, _ = records(np.float64)
    y = np.array(labels)[np.arange(N) % len(labels)]
    parquet.write_table(table(x, y), tmp_path / "t.parquet")
    source = scan_parquet(tmp_path / "t.parquet", label="y", chunk_rows=100)
    kinds = [dperm.LogisticRegression, dperm.LinearSVC][: 4 - len(labels)]
    for kind in kinds:
        memory = kind(classes=labels, **FEW_STEPS).fit(x, y)
        files = kind(classes=labels, **FEW_STEPS).fit(source)
        assert np.array_equal(memory.coef_, files.coef_)
        assert np.array_equal(memory.predict(x), files.predict(source))
        assert files.score(source, source.targets()) == memory.score(x, y)
        with pytest.raises(ValueError, match="y must be None"):
            kind(classes=labels).fit(source, y)
        with pytest.raises(DataError, match="holds the label"):
            kind(classes=["other", labels[0]]).fit(source)
        with pytest.warns(PrivacyWarning, match="labels were read from the data"):
            kind(**FEW_STEPS).fit(source)


def test_regressor(tmp_path):
    x, _ = records(np.float64)
    parquet.write_table(table(x, x[:, 1]), tmp_path / "t.parquet")
    source = scan_parquet(tmp_path / "t.parquet", label="y", chunk_rows=100)
    memory = dperm.HuberRegressor(target_bound=1.0, **FEW_STEPS).fit(x, x[:, 1])
    files = dperm.HuberRegressor(target_bound=1.0, **FEW_STEPS).fit(source)
    assert np.array_equal(memory.coef_, files.coef_)
    assert np.array_equal(memory.predict(x), files.predict(source))


# -- what cannot be used -----------------------------------------------------------------------------


def test_bad_records_are_named_by_their_number_in_all_files(tmp_path):
    x, y = records()
    x[777, 2] = np.nan
    with pytest.raises(DataError, match="row 777, column 2"):
        Objective("logistic", scan_parquet(in_parquet_files(tmp_path, x, y), label="y"))
    x[777, 2], y[901] = 0.0, 0.5
    for chunk_rows in (10, 5000):
        source = scan_parquet(in_parquet_files(tmp_path, x, y), label="y", chunk_rows=chunk_rows)
        with pytest.raises(DataError, match="at row 901"):
            Objective("logistic", source)


def test_files_that_do_not_fit(tmp_path):
    x, y = records()
    pattern = in_parquet_files(tmp_path, x, y)
    parquet.write_table(table(x.astype(float), y), tmp_path / "3.parquet")
    with pytest.raises(DataError, match=r"'x0' of .*3\.parquet has type double, but float in the first file"):
        Objective("logistic", scan_parquet(pattern, label="y"))
    parquet.write_table(table(x, y).drop_columns(["x3"]), tmp_path / "3.parquet")
    with pytest.raises(DataError, match=r"3\.parquet has no column called 'x3'"):
        Objective("logistic", scan_parquet(pattern, label="y"))
    (tmp_path / "3.parquet").write_bytes(b"PAR1 this is no such file PAR1")
    with pytest.raises(DataError, match=r"3\.parquet cannot be read as Parquet"):
        Objective("logistic", scan_parquet(pattern, label="y"))
    (tmp_path / "3.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"3\.parquet cannot be read as Parquet"):
        Objective("logistic", scan_parquet(pattern, label="y"))


OTHER_KINDS = {
    "compressed with gzip, .*: decompress it first": gzip.compress(b"a,y\n1,1\n" * 100),
    "a zip archive or a workbook, .*: save it as": b"PK\x03\x04" + bytes(range(256)),
    "text in UTF-16, .*: save it as": "a,y\n1,1\n".encode("utf-16"),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.filterwarnings("error")  # including those about unraisable exceptions
def test_files_of_another_kind_are_told_by_their_first_bytes(tmp_path, pattern, kind):
    (tmp_path / "t.dat").write_bytes(OTHER_KINDS[kind])
    for scan in (scan_csv, scan_parquet):
        with pytest.raises(DataError, match=rf"t\.dat is {kind}"):
            scan(tmp_path / "t.dat", label="y")
    with pytest.raises(DataError, match=r"0\.parquet is a Parquet file, not CSV: .*scan_parquet"):
        scan_csv(pattern, label="y")
    for text in ("a,y\n1,1\n", "ü" * 1000, "a" + "ü" * 1000):
        (tmp_path / "t.csv").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=r"t\.csv is text, not Parquet: .*scan_csv"):
            scan_parquet(tmp_path / "t.csv", label="y")
    # the format may be detected only when a pass reaches a file
    (tmp_path / "9.parquet").write_text("a,y\n1,1\n")
    with pytest.raises(DataError, match=r"9\.parquet is text, not Parquet"):
        Objective("logistic", scan_parquet(pattern, label="y"))


def test_arguments(tmp_path, pattern):
    x, y = records()
    (tmp_path / "t.csv").write_text("a,y\n1,1\n")
    parquet.write_table(table(x, y, name=["text"] * N), tmp_path / "t.par")
    parquet.write_table(table(x[:0], y[:0]), tmp_path / "empty.par")
    with pytest.raises(DataError, match="column 'name' holds string, not numbers"):
        Objective("logistic", scan_parquet(tmp_path / "t.par", label="y"))
    with pytest.raises(DataError, match="column 'name' holds string"):
        Objective("logistic", scan_parquet(tmp_path / "t.par", label="name", columns=NAMES))
    with pytest.raises(DataError, match="at least one record"):
        Objective("logistic", scan_parquet(tmp_path / "empty.par", label="y"))
    with pytest.raises(DataError, match="there is no file"):
        scan_parquet(tmp_path / "missing-*", label="y")
    with pytest.raises(DataError, match="is a folder"):
        scan_parquet(tmp_path, label="y")
    with pytest.raises(DataError, match="no column called 'z'"):
        scan_parquet(pattern, label="z")
    with pytest.raises(ValueError, match="columns must be distinct"):
        scan_parquet(pattern, label="y", columns=["x0", "x0"])
    with pytest.raises(ValueError, match="chunk_rows must be a positive integer"):
        scan_parquet(pattern, label="y", chunk_rows=0)
    with pytest.raises(ValueError, match="chunk_rows must be a positive integer, got True"):
        scan_parquet(pattern, label="y", chunk_rows=True)
    with pytest.raises(ValueError, match="block_bytes must be a positive integer, got True"):
        scan_csv(tmp_path / "t.csv", label="y", block_bytes=True)
    with pytest.raises(ValueError, match="label_type must be"):
        scan_csv(pattern, label="y", label_type="date")
    source = scan_parquet(pattern, label="y")
    with pytest.raises(ValueError, match="y must be None"):
        Objective("logistic", source, y)
    with pytest.raises(DataError, match="RecordFiles takes none"):
        Objective("logistic", source, counts=np.full(N, 2))


def test_no_pyarrow(monkeypatch, pattern):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'dperm\[data\]'"):
        scan_parquet(pattern, label="y")


# -- threads and processes ------------------------------------------------------------------------------


def readers():
    return [thread for thread in threading.enumerate() if thread is not threading.main_thread()]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupted_pass_leaves_no_thread_behind(pattern, error):
    memory, files = objectives(pattern, chunk_rows=20, n_threads=2)
    before = readers()

    class Failing(Pass):
        def over_part(self, here):
            if here.start > 100:
                raise error
            return self

        def over_rows(self, rows, n_threads):
            return np.zeros(1)

    with pytest.raises(error):
        files._rows.run(Failing(), 2)
    assert readers() == before
    w = np.full(D, 0.1)
    assert same(clipped_gradient_sum(memory, w, 0.3), clipped_gradient_sum(files, w, 0.3))
    assert readers() == before


def test_rows_of_files_stay_in_their_process(pattern):
    _, files = objectives(pattern)
    with pytest.raises(TypeError, match="not sent to other processes"):
        pickle.dumps(files._rows)
    source = scan_parquet(pattern, label="y", chunk_rows=97)
    again = Objective("logistic", pickle.loads(pickle.dumps(source)))
    assert same(clipped_gradient_sum(files, np.zeros(D), 0.3), clipped_gradient_sum(again, np.zeros(D), 0.3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_told_to_build_its_own(pattern):
    _, files = objectives(pattern)

    def child(connection):
        try:
            clipped_gradient_sum(files, np.zeros(D), 0.3)
        except RuntimeError as error:
            connection.send(str(error))

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    assert ours.poll(20)
    assert "forked process" in ours.recv()
    process.join()


# -- with a schema -----------------------------------------------------------------------------------


def test_a_schema_encodes_every_chunk(tmp_path):
    schemas = pytest.importorskip("dperm.data.schema.schema")
    rng = np.random.default_rng(7)
    columns = {
        "age": rng.integers(10, 90, N).astype(float),
        "sex": rng.choice(["Female", "Male", "other"], N),
        "size": rng.integers(0, 3, N),
        "y": np.where(rng.random(N) < 0.5, "<=50K", ">50K"),
    }
    frame = pa.table({**columns, "note": ["text"] * N})
    parquet.write_table(frame, tmp_path / "t.parquet", row_group_size=300)
    csv.write_csv(frame, tmp_path / "t.csv")
    schema = schemas.Schema(
        [
            schemas.Categorical("sex", ["Female", "Male"], unknown="zero"),
            schemas.Numeric("age", 17, 80),
            schemas.Categorical("size", [0, 1, 2]),
        ]
    )
    matrix = schema.encode(frame.select(["age", "sex", "size"]))
    classes = ["<=50K", ">50K"]
    memory = dperm.LogisticRegression(classes=classes, row_norm=2.0, **FEW_STEPS)
    memory.fit(matrix.to_dense(), columns["y"])
    sources = [
        scan_parquet(tmp_path / "t.parquet", label="y", schema=schema, chunk_rows=128),
        scan_csv(tmp_path / "t.csv", label="y", schema=schema, label_type="text", block_bytes=4096),
    ]
    for source in sources:
        files = dperm.LogisticRegression(classes=classes, schema=schema, **FEW_STEPS).fit(source)
        assert np.array_equal(files.coef_, memory.coef_)
        assert np.array_equal(files.predict(source), memory.predict(matrix.to_dense()))
        y = np.where(columns["y"] == ">50K", 1.0, -1.0)
        targets = source.with_targets(lambda cells: np.where(cells == ">50K", 1.0, -1.0))
        runs = [
            algorithms.dp_sgd_gradient(Objective("logistic", x, *rest), 1.0, 1e-6, random_state=1).coef
            for x, *rest in ((matrix, y), (targets,))
        ]
        assert np.array_equal(*runs)
    narrow = schemas.Schema([schemas.Categorical("sex", ["Female", "Male"])])
    row = int(np.argmax(columns["sex"] == "other"))
    with pytest.raises(
        DataError, match=rf"rows from {row // 128 * 128} on: .*'sex' holds 'other' at row {row % 128}"
    ):
        Objective("logistic", scan_parquet(tmp_path / "t.parquet", label="y", schema=narrow, chunk_rows=128))
    with pytest.raises(ValueError, match="columns and schema cannot both be given"):
        scan_parquet(tmp_path / "t.parquet", label="y", schema=schema, columns=["age"])


def test_the_index_of_a_pandas_frame_is_no_column(tmp_path):
    """Unless it is named; a row number as a feature would rule the norm."""
    frame = pd.DataFrame({"a": [0.5, -0.5, 0.1], "y": [1.0, -1.0, 1.0]}, index=[10, 20, 40])
    frame.to_parquet(tmp_path / "nameless.parquet")
    frame.rename_axis("day").to_parquet(tmp_path / "named.parquet")
    bare = parquet.read_table(tmp_path / "nameless.parquet").replace_schema_metadata()
    parquet.write_table(bare, tmp_path / "bare.parquet")
    for name, index in [("nameless", "__index_level_0__"), ("named", "day"), ("bare", "__index_level_0__")]:
        source = scan_parquet(tmp_path / f"{name}.parquet", label="y")
        assert source.feature_names == ("a",)
        (matrix,) = source.matrices()
        assert matrix.tolist() == [[0.5], [-0.5], [0.1]]
        (matrix,) = scan_parquet(tmp_path / f"{name}.parquet", label="y", columns=[index]).matrices()
        assert matrix.tolist() == [[10], [20], [40]]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (",a,y", "column 1 of the file has no name"),
        ("a,a,y", "has 2 columns called 'a'"),
        ("a,y,y", "has 2 columns called 'y'"),
        ("a,größe,y", r"t\.csv: the header is not text in UTF-8"),
        ("", r"t\.csv is empty"),
    ],
)
def test_headers_that_do_not_tell_which_column_is_meant(tmp_path, header, message):
    content = f"{header}\n1,2,3\n".encode("latin-1") if header else b"\n\r\n"
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        scan_csv(tmp_path / "t.csv", label="y")


def test_other_columns_may_have_any_names(tmp_path):
    (tmp_path / "t.csv").write_text(",a,b,b,y\n1,2,3,4,5\n")
    assert [each.tolist() for each in scan_csv(tmp_path / "t.csv", label="y", columns=["a"]).matrices()] == [
        [[2]]
    ]
    with pytest.raises(DataError, match="2 columns called 'b'"):
        list(scan_csv(tmp_path / "t.csv", label="y", columns=["b"]).matrices())
    table = pa.table([[1.0], [2.0], [3.0]], names=["a", "a", "y"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match="2 columns called 'a'"):
        scan_parquet(tmp_path / "t.parquet", label="y")
