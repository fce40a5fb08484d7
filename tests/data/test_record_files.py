"""Records in Parquet and CSV files: the integers of memory whatever the chunks, files that change, memory."""

import gzip
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dperm
from dperm import Objective, algorithms
from dperm.accounting import Ledger
from dperm.data import scan_csv, scan_parquet
from dperm.data.passes import Pass, Predictions
from dperm.errors import DataError, PrivacyWarning
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from dperm.private_values.linear_map import LinearMap

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


def table(x, y, **others):
    return pa.table({**{name: x[:, j] for j, name in enumerate(NAMES)}, "y": y, **others})


def in_files(folder, x, y, cuts=(400, 400), **options):
    """Three Parquet files, the second of them without a record."""
    for i, (start, stop) in enumerate(zip((0, *cuts), (*cuts, len(x)), strict=True)):
        parquet.write_table(
            table(x[start:stop], y[start:stop]), folder / f"{i}.parquet", row_group_size=150, **options
        )
    return str(folder / "*.parquet")


@pytest.fixture
def pattern(tmp_path):
    return in_files(tmp_path, *records())


def objectives(pattern, chunk_rows=97, loss="logistic", x=None, y=None, **keywords):
    """The same objective in memory and in files."""
    if x is None:
        x, y = records()
    source = scan_parquet(pattern, label="y", columns=NAMES, chunk_rows=chunk_rows)
    return Objective(loss, x, y, **keywords), Objective(loss, source, **keywords)


def same(first, second):
    return np.array_equal(first._integers, second._integers) and first.grid == second.grid


# -- sums --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_rows", [1, 16, 150, 10_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_pass_gives_the_integers_of_memory(tmp_path, dtype, chunk_rows):
    x, y = records(dtype)
    pattern = in_files(tmp_path, x, y, compression="snappy")
    memory, files = objectives(pattern, chunk_rows, x=x, y=y, fit_intercept=True, row_norm=2.0, l2=0.1)
    rng = np.random.default_rng(1)
    w, direction = rng.standard_normal((2, D + 1))
    image = LinearMap.rounding(np.eye(D + 1) + 0.1 * rng.standard_normal((D + 1, D + 1)))
    for compute in (
        lambda o: o.clipped_gradient_sum(w, 0.3),
        lambda o: o.mapped_gradient_sum(w, 0.3, image),
        lambda o: o.mapped_gradient_sum(w, 0.3, image),  # with the lengths that were kept
        lambda o: o.clipped_loss_sums(w, direction, [0.0, 0.5, 1.0], 2.0),
        lambda o: o.coordinate_loss_sums(w, 0.25),
        lambda o: o.gram_sum(),
        lambda o: o.hessian_sum(w),
        lambda o: o.moment_sums(1.0),
        lambda o: o.label_sum(),
    ):
        assert same(compute(memory), compute(files))
    assert np.array_equal(memory._rows.run(Predictions(w), 1), files._rows.run(Predictions(w), 1))
    assert files.value(w) == pytest.approx(memory.value(w), rel=1e-6)
    assert np.allclose(files.gradient(w), memory.gradient(w), rtol=1e-12)
    assert files.n_public == N


def test_softmax(tmp_path):
    x, _ = records(np.float64)
    y = np.arange(N) % 3.0
    memory, files = objectives(in_files(tmp_path, x, y), loss="softmax", x=x, y=y, n_classes=3)
    w, direction = np.random.default_rng(2).standard_normal((2, D, 3))
    assert same(memory.clipped_gradient_sum(w, 0.3), files.clipped_gradient_sum(w, 0.3))
    assert same(
        memory.clipped_loss_sums(w, direction, [0.1], 1.0), files.clipped_loss_sums(w, direction, [0.1], 1.0)
    )
    assert same(memory.class_counts(), files.class_counts())
    assert np.allclose(memory.gradient(w), files.gradient(w))


@settings(max_examples=15, deadline=None)
@given(chunk_rows=st.integers(1, 1200), threads=st.integers(1, 3), rate=st.floats(0.0, 1.0))
def test_chunks_threads_and_samples(tmp_path_factory, chunk_rows, threads, rate):
    folder = tmp_path_factory.mktemp("files")
    memory, files = objectives(in_files(folder, *records()), chunk_rows, n_threads=threads)
    w = np.full(D, 0.2)
    assert same(memory.clipped_gradient_sum(w, 0.3), files.clipped_gradient_sum(w, 0.3))
    batches = [SecretBatches("poisson", random_bits(3), max(1.0, rate * N), N) for _ in range(2)]
    for _ in range(2):
        sums = [
            objective.clipped_gradient_sum(w, 0.3, rows=next(batch))
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
    assert same(memory.clipped_gradient_sum(w, 0.3), files.clipped_gradient_sum(w, 0.3))
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
    assert same(memory.clipped_gradient_sum(w, 0.3), files.clipped_gradient_sum(w, 0.3))
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
    expected = Objective("logistic", encoded, y).clipped_gradient_sum(np.full(5, 0.1), 0.3)
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
        assert same(objective.clipped_gradient_sum(np.full(5, 0.1), 0.3), expected)
    (tmp_path / "gap.csv").write_text("label,a\nNA,1\n,2\n")
    with pytest.raises(DataError, match="holds no label at row 1"):
        scan_csv(tmp_path / "gap.csv", label="label", label_type="text").labels()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block_bytes", [1, 7, 64, 500, 10_000])
def test_blocks_of_a_csv_file(tmp_path, end, block_bytes):
    """Whatever the ends of lines, empty ones among them, and blocks shorter than a line."""
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


@pytest.mark.parametrize(
    ("name", "keywords"),
    [
        ("noisy_gd", {}),
        ("dp_agd", {}),
        ("preconditioned_gd", {}),
        ("dp_newton", {}),
        ("objective_perturbation", {}),
        ("output_perturbation_gd", {}),
        ("dp_sgd", {"steps": 4}),
        ("dp_sgd_gradient", {}),
        ("dp_sgd_output", {}),
        ("rrpsgd", {}),
    ],
)
def test_algorithms_give_the_weights_of_memory(pattern, name, keywords):
    run = getattr(algorithms, name)
    settings = {"l2": 0.05, "fit_intercept": True, "penalize_intercept": True}
    memory, files = (
        run(objective, 1.0, 1e-6, random_state=5, **keywords)
        for objective in objectives(pattern, 300, **settings)
    )
    assert np.array_equal(memory.coef, files.coef)


def test_nonprivate(pattern):
    memory, files = (algorithms.nonprivate(objective) for objective in objectives(pattern, l2=0.1))
    assert np.allclose(memory.coef, files.coef, atol=1e-4)


@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"], [0, 1]])
def test_estimators(tmp_path, labels):
    x, _ = records(np.float64)
    y = np.array(labels)[np.arange(N) % len(labels)]
    parquet.write_table(table(x, y), tmp_path / "t.parquet")
    source = scan_parquet(tmp_path / "t.parquet", label="y", chunk_rows=100)
    kinds = [dperm.LogisticRegression, dperm.LinearSVC][: 4 - len(labels)]
    for kind in kinds:
        memory = kind(classes=labels, random_state=6).fit(x, y)
        files = kind(classes=labels, random_state=6).fit(source)
        assert np.array_equal(memory.coef_, files.coef_)
        assert np.array_equal(memory.predict(x), files.predict(source))
        assert files.score(source, source.targets()) == memory.score(x, y)
        with pytest.raises(ValueError, match="y must be None"):
            kind(classes=labels).fit(source, y)
        with pytest.raises(DataError, match="holds the label"):
            kind(classes=["other", labels[0]]).fit(source)
        with pytest.warns(PrivacyWarning, match="labels were read from the data"):
            kind(random_state=6).fit(source)


def test_regressor(tmp_path):
    x, _ = records(np.float64)
    parquet.write_table(table(x, x[:, 1]), tmp_path / "t.parquet")
    source = scan_parquet(tmp_path / "t.parquet", label="y", chunk_rows=100)
    memory = dperm.HuberRegressor(target_bound=1.0, random_state=6).fit(x, x[:, 1])
    files = dperm.HuberRegressor(target_bound=1.0, random_state=6).fit(source)
    assert np.array_equal(memory.coef_, files.coef_)
    assert np.array_equal(memory.predict(x), files.predict(source))


# -- what cannot be used -----------------------------------------------------------------------------


def test_bad_records_are_named_by_their_number_in_all_files(tmp_path):
    x, y = records()
    x[777, 2] = np.nan
    with pytest.raises(DataError, match="row 777, column 2"):
        Objective("logistic", scan_parquet(in_files(tmp_path, x, y), label="y"))
    x[777, 2], y[901] = 0.0, 0.5
    for chunk_rows in (10, 5000):
        source = scan_parquet(in_files(tmp_path, x, y), label="y", chunk_rows=chunk_rows)
        with pytest.raises(DataError, match="at row 901"):
            Objective("logistic", source)


def test_files_that_do_not_fit(tmp_path):
    x, y = records()
    pattern = in_files(tmp_path, x, y)
    parquet.write_table(table(x.astype(float), y), tmp_path / "3.parquet")
    with pytest.raises(
        DataError, match=r"'x0' of .*3\.parquet has type double, that of the first file float"
    ):
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
@pytest.mark.filterwarnings("error")  # that includes errors that cannot be raised
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
    # the kind may be learned only when a pass comes to a file
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
    with pytest.raises(ValueError, match="columns must be different"):
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


# -- files that change -------------------------------------------------------------------------------


def truncate(path):
    os.truncate(path, path.stat().st_size - 100)


def append(path):
    with open(path, "ab") as file:
        file.write(b"more")


def corrupt(path):
    """The same size, and the time of the last change set back."""
    stat = path.stat()
    with open(path, "r+b") as file:
        file.seek(stat.st_size // 2)
        file.write(b"\0" * 64)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def replace(path):
    """Another file with as many records."""
    other = path.with_suffix(".new")
    x, y = records(n=parquet.read_metadata(path).num_rows, seed=9)
    parquet.write_table(table(x, y), other)
    os.replace(other, path)


def remove(path):
    path.unlink()


changes = pytest.mark.parametrize("change", [truncate, append, corrupt, replace, remove])


@changes
@pytest.mark.parametrize("number", [0, 2])
def test_a_change_between_passes(tmp_path, pattern, change, number):
    _, files = objectives(pattern)
    files.clipped_gradient_sum(np.zeros(D), 0.3)
    change(tmp_path / f"{number}.parquet")
    for _ in range(2):
        with pytest.raises(DataError, match=r"has changed since training began|cannot be read"):
            files.clipped_gradient_sum(np.zeros(D), 0.3)


@changes
def test_a_change_during_a_pass(tmp_path, pattern, change):
    _, files = objectives(pattern, chunk_rows=50)
    seen = []

    def look(part, here):
        seen.append(here.stop)
        if here.start == 0:
            change(tmp_path / "2.parquet")

    with pytest.raises(DataError):
        list(files._rows._each(look))
    assert seen


@changes
def test_a_change_after_the_last_record_was_read(tmp_path, pattern, change):
    _, files = objectives(pattern)

    def look(part, here):
        if here.stop == N:
            change(tmp_path / "0.parquet")

    with pytest.raises(DataError):
        list(files._rows._each(look))


@changes
def test_nothing_is_released_after_a_change(tmp_path, pattern, change):
    _, files = objectives(pattern, fit_intercept=True)
    ledger, released = Ledger(1.0, 1e-6), []

    def callback(values):
        released.append(values)
        if len(released) == 3:
            change(tmp_path / "2.parquet")

    with pytest.raises(DataError):
        algorithms.noisy_gd(files, 0.5, 1e-7, ledger=ledger, callback=callback, random_state=1)
    assert len(released) == 3
    history = ledger.history()
    with pytest.raises(DataError):
        dperm.LogisticRegression(classes=[-1, 1], epsilon=0.1, delta=1e-8, ledger=ledger).fit(
            scan_parquet([*sorted(tmp_path.glob("*.parquet")), tmp_path / "gone"], label="y")
        )
    assert ledger.history() == history


# -- threads, processes, memory ----------------------------------------------------------------------


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
    assert same(memory.clipped_gradient_sum(w, 0.3), files.clipped_gradient_sum(w, 0.3))
    assert readers() == before


def test_rows_of_files_stay_in_their_process(pattern):
    _, files = objectives(pattern)
    with pytest.raises(TypeError, match="not sent to other processes"):
        pickle.dumps(files._rows)
    source = scan_parquet(pattern, label="y", chunk_rows=97)
    again = Objective("logistic", pickle.loads(pickle.dumps(source)))
    assert same(files.clipped_gradient_sum(np.zeros(D), 0.3), again.clipped_gradient_sum(np.zeros(D), 0.3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_told_to_build_its_own(pattern):
    _, files = objectives(pattern)

    def child(connection):
        try:
            files.clipped_gradient_sum(np.zeros(D), 0.3)
        except RuntimeError as error:
            connection.send(str(error))

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    assert ours.poll(20)
    assert "forked process" in ours.recv()
    process.join()


def highest_pool(source, columns):
    """Most bytes that pyarrow's pool holds in two passes of a program with 16 threads for the reader."""
    program = f"""
        import numpy as np, pyarrow
        pyarrow.set_cpu_count(16)
        from dperm import Objective
        from dperm.data import scan_csv, scan_parquet

        Objective("logistic", {source}, n_threads=2).clipped_gradient_sum(np.full({columns}, 0.01), 0.5)
        print(pyarrow.default_memory_pool().max_memory())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_memory_of_a_csv_file_is_that_of_a_few_chunks(tmp_path):
    n, width, block_bytes = 100_000, 20, 1 << 20
    x = np.random.default_rng(0).standard_normal((n, width)).round(6)
    columns = {f"x{j}": x[:, j] for j in range(width)}
    csv.write_csv(pa.table({**columns, "y": np.ones(n)}), tmp_path / "t.csv")
    n_chunks = (tmp_path / "t.csv").stat().st_size / block_bytes
    assert n_chunks > 15
    source = f"scan_csv({str(tmp_path / 't.csv')!r}, label='y', block_bytes={block_bytes})"
    assert highest_pool(source, width) < 5 * 8 * n * (width + 1) / n_chunks


@pytest.mark.parametrize(("dtype", "compression"), [(np.float64, "zstd"), (np.float32, "snappy")])
def test_memory_of_a_parquet_file_is_that_of_chunks_and_two_pages_a_column(tmp_path, dtype, compression):
    """As most programs write them: a dictionary of up to 1 MiB that the values soon outgrow."""
    width, buffer_rows = 30, 1 << 13
    x = np.random.default_rng(0).standard_normal((400_000, width)).astype(dtype)
    x = np.concatenate([x] * (8 // x.itemsize))
    columns = {f"x{j}": x[:, j] for j in range(width)}
    written = pa.table({**columns, "y": np.ones(len(x))})
    parquet.write_table(written, tmp_path / "t.parquet", compression=compression)
    source = f"scan_parquet({str(tmp_path / 't.parquet')!r}, label='y', chunk_rows={buffer_rows - 1000})"
    bound = 3 * buffer_rows * (width * x.itemsize + 8) + (width + 1) * (2 << 20) + 1e6
    assert bound < 0.8 * written.nbytes
    assert highest_pool(source, width) < bound


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_memory_does_not_hold_the_data(tmp_path):
    n, width, chunk_rows = 400_000, 50, 5_000  # 80 MB, chunks of 1 MB
    x = np.random.default_rng(0).standard_normal((n, width), dtype=np.float32)
    columns = {f"x{j}": x[:, j] for j in range(width)}
    parquet.write_table(
        pa.table({**columns, "y": np.ones(n)}),
        tmp_path / "t.parquet",
        use_dictionary=False,
        data_page_size=1 << 16,  # the reader keeps a page of each column
    )
    program = f"""
        import threading, time
        import numpy as np, pyarrow
        from dperm import Objective
        from dperm.data import scan_parquet

        def own_memory():  # in kB; pages of files can be dropped at any time and do not count
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

        def objective(path, rows):
            return Objective("logistic", scan_parquet(path, label="y", chunk_rows=rows), n_threads=2)

        path, w = {str(tmp_path / "t.parquet")!r}, np.full({width}, 0.01)
        objective(path, 1000).clipped_gradient_sum(w, 0.5)  # libraries, threads, buffers
        before, peak, done = own_memory(), 0, False

        def watch():
            global peak
            while not done:
                peak = max(peak, own_memory())
                time.sleep(0.001)

        watcher = threading.Thread(target=watch)
        watcher.start()
        large = objective(path, {chunk_rows})
        for _ in range(3):
            large.clipped_gradient_sum(w, 0.5)
        done = True
        watcher.join()
        print(1024 * (peak - before), pyarrow.default_memory_pool().max_memory())
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    resident, tables = map(int, run.stdout.split())
    chunk = 4 * chunk_rows * (width + 2)  # targets are doubles
    assert tables < 3 * chunk + width * (1 << 16) + 1e6
    assert resident < 30e6  # allocators keep much of what was freed


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
    memory = dperm.LogisticRegression(classes=classes, row_norm=2.0, random_state=1)
    memory.fit(matrix.to_dense(), columns["y"])
    sources = [
        scan_parquet(tmp_path / "t.parquet", label="y", schema=schema, chunk_rows=128),
        scan_csv(tmp_path / "t.csv", label="y", schema=schema, label_type="text", block_bytes=4096),
    ]
    for source in sources:
        files = dperm.LogisticRegression(classes=classes, schema=schema, random_state=1).fit(source)
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
