"""Merging of identical records, compared with a dictionary of their bytes."""

import os
import time
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dperm._kernels.record_kernels import distinct_records
from dperm.data import aggregate, scan_parquet
from dperm.errors import CopyWarning, DataError
from reference.real_data import load_or_skip
from reference.tabular_data import random_table

DTYPES = [np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)


def counted(keys):
    """First index and count of each key, in order of first occurrence."""
    first, counts = {}, {}
    for i, key in enumerate(keys):
        first.setdefault(key, i)
        counts[key] = counts.get(key, 0) + 1
    return list(first.values()), list(counts.values())


def dense_keys(x, y):
    return [row.tobytes() + target.tobytes() for row, target in zip(x, y, strict=True)]


def check(x, y, keys, n_threads=1):
    """Compare `aggregate` with the dictionary; return the merged rows and their first indices."""
    first, counts = counted(keys)
    merged, targets, numbers = aggregate(x, y, n_threads=n_threads)
    assert type(merged) is type(x)
    assert numbers.dtype == np.int64
    assert numbers.tolist() == counts
    assert targets.tobytes() == np.asarray(y)[first].tobytes()
    return merged, first


def repeated(rng, n_distinct, n_rows, width, dtype):
    """A few distinct rows, repeated many times, and labels."""
    x = rng.integers(-1, 2, (n_distinct, width)).astype(dtype)[rng.integers(0, n_distinct, n_rows)]
    return x, rng.choice([-1.0, 1.0], n_rows).astype(dtype)


@given(
    n_rows=st.integers(1, 300),
    n_distinct=st.integers(1, 100),
    width=st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 16, 33]),
    dtype=st.sampled_from(DTYPES),
    n_threads=st.sampled_from([1, 2, 3]),
    seed=st.integers(0, 2**20),
)
def test_dense_records(n_rows, n_distinct, width, dtype, n_threads, seed):
    rng = np.random.default_rng(seed)
    x, y = repeated(rng, n_distinct, n_rows, width, dtype)
    merged, first = check(x, y, dense_keys(x, y), n_threads)
    assert merged.dtype == dtype
    assert merged.tobytes() == x[first].tobytes()


@dtypes
@pytest.mark.parametrize("n_distinct", [3, 5000, 10**6])
def test_many_records_on_any_number_of_threads(dtype, n_distinct):
    """Hash tables that stay small, grow, or grow with every record; several blocks of hashes."""
    rng = np.random.default_rng(n_distinct)
    x, y = repeated(rng, n_distinct, 40_000, 20, dtype)
    first, counts = counted(dense_keys(x, y))
    for n_threads in (1, 2, 3, 7):
        found, numbers = distinct_records([(x, None), (y, None)], len(x), n_threads)
        order = np.argsort(found)
        assert found[order].tolist() == first
        assert numbers[order].tolist() == counts


@given(
    seed=st.integers(0, 2**20),
    n_rows=st.integers(1, 200),
    parts=st.sampled_from(["mixed", "codes", "numbers"]),
)
def test_tabular_records(seed, n_rows, parts):
    layout = {"mixed": (0, 3, 0, 1), "codes": (3, 2), "numbers": (0, 0)}[parts]
    rng = np.random.default_rng(seed)
    table = random_table(1 + n_rows // 4, layout, np.float32, seed)
    table = table[rng.integers(0, len(table), n_rows)]
    y = rng.integers(0, 3, n_rows)
    merged, targets, counts = aggregate(table, y, n_threads=1)
    assert type(merged) is type(table)
    assert merged.layout == table.layout
    assert merged.numeric.dtype == table.numeric.dtype
    assert merged.codes.dtype == table.codes.dtype
    assert targets.dtype == y.dtype
    assert counts.dtype == np.int64
    first, expected = counted(table_keys(table, y))
    of_key = dict(zip(table_keys(table[first], y[first]), expected, strict=True))
    assert dict(zip(table_keys(merged, targets), counts.tolist(), strict=True)) == of_key
    assert len(merged) == len(of_key)


def table_keys(table, y):
    return [
        numbers.tobytes() + codes.tobytes() + bytes([label])
        for numbers, codes, label in zip(table.numeric, table.codes, y, strict=True)
    ]


@pytest.mark.parametrize("parts", [(0,) * 30 + (3, 2), (0, 0), (0, 3, 300), (0,) * 9 + (2,) * 9])
def test_table_rows_with_equal_zero_patterns_are_neighbours(parts):
    """Each pattern of categories and nonzero numbers occurs in a single run of rows."""
    rng = np.random.default_rng(0)
    kinds = random_table(40, parts)
    numeric = kinds.numeric[rng.integers(0, 40, 3000)] * rng.integers(1, 4, (3000, 1), dtype=np.int8)
    table = kinds.with_rows(numeric, kinds.codes[rng.integers(0, 40, 3000)])
    merged, _, _ = aggregate(table, np.zeros(3000))
    patterns = [
        (live != 0).tobytes() + codes.tobytes()
        for live, codes in zip(merged.numeric, merged.codes, strict=True)
    ]
    stretches = 1 + sum(left != right for left, right in pairwise(patterns))
    assert stretches == len(set(patterns)) < len(merged)


def sparse(rng, n_rows, width, dtype, index_dtype=np.int32):
    """Rows with a few small numbers, many of them empty or equal."""
    dense = rng.integers(0, 2, (n_rows, width)) * (rng.random((n_rows, width)) < 0.3)
    matrix = scipy.sparse.csr_array(dense.astype(dtype))
    matrix.indices, matrix.indptr = matrix.indices.astype(index_dtype), matrix.indptr.astype(index_dtype)
    return matrix, dense.astype(dtype)


@given(
    seed=st.integers(0, 2**20),
    n_rows=st.integers(1, 200),
    width=st.integers(1, 12),
    dtype=st.sampled_from(DTYPES),
    index_dtype=st.sampled_from([np.int32, np.int64]),
)
def test_sparse_records(seed, n_rows, width, dtype, index_dtype):
    rng = np.random.default_rng(seed)
    matrix, dense = sparse(rng, n_rows, width, dtype, index_dtype)
    y = rng.choice([-1.0, 1.0], n_rows)
    merged, first = check(matrix, y, dense_keys(dense, y))
    assert merged.dtype == dtype
    np.testing.assert_array_equal(merged.toarray(), dense[first])


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_sparse_rows_are_compared_in_canonical_form(kind):
    """The same row sorted, unsorted and with a duplicate entry; an explicit 0 counts as an entry."""
    data = np.array([1.0, 2.0, 2.0, 1.0, 0.5, 2.0, 0.5, 1.0, 2.0, 0.0])
    indices = np.array([0, 3, 3, 0, 0, 3, 0, 0, 3, 4])
    matrix = kind((data, indices, np.array([0, 2, 4, 7, 10])), shape=(4, 5))
    before = matrix.data.tobytes(), matrix.indices.tobytes()
    merged, _, counts = aggregate(matrix, np.ones(4))
    assert counts.tolist() == [3, 1]
    assert type(merged) is kind
    assert merged.toarray().tolist() == [[1.0, 0.0, 0.0, 2.0, 0.0]] * 2
    assert (matrix.data.tobytes(), matrix.indices.tobytes()) == before


@dtypes
@pytest.mark.parametrize("width", [1, 2, 3, 5, 16, 17])
def test_every_bit_of_a_record_counts(dtype, width):
    """Records that differ in one bit, of the row or of the target, stay apart."""
    bits = np.eye(8 * np.dtype(dtype).itemsize * (width + 1), dtype=np.uint8)
    records = np.packbits(bits, axis=1).view(dtype)
    records = np.concatenate([records, np.zeros((1, width + 1), dtype), records])
    x, y = np.ascontiguousarray(records[:, :-1]), np.ascontiguousarray(records[:, -1])
    _, _, counts = aggregate(x, y)
    assert sorted(counts.tolist()) == [1] + [2] * len(bits)


def test_equal_numbers_of_different_bytes_stay_apart():
    x = np.array([[0.0], [-0.0], [np.nan], [np.nan], [0.0]])
    merged, _, counts = aggregate(x, np.ones(5))
    assert counts.tolist() == [2, 1, 2]
    assert np.signbit(merged).ravel().tolist()[:2] == [False, True]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_collision_of_hashes_merges_nothing(n_threads):
    """With a zero key all records have the hash 0: only a full comparison distinguishes them."""
    rng = np.random.default_rng(0)
    x, y = repeated(rng, 300, 1000, 3, np.float64)
    key = np.zeros(1, dtype=np.uint64)
    found, numbers = distinct_records([(x, None), (y, None)], len(x), n_threads, key)
    first, counts = counted(dense_keys(x, y))
    assert found.tolist() == first
    assert numbers.tolist() == counts


def test_each_call_hashes_with_a_key_of_its_own(monkeypatch):
    keys, honest = [], os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: keys.append(honest(size)) or keys[-1])
    for _ in range(3):
        aggregate(np.zeros((2, 4)), np.ones(2))
    assert len(set(keys)) == 3
    assert len(keys[0]) >= 8 * (8 * 256 + 4)  # tables, and a word for each word of a record


def test_slow_collisions_require_the_key():
    """With a zero key all hashes collide, and every record is compared with all others."""
    x, y = np.zeros((3000, 8)), np.arange(3000.0)
    times: dict[str, float] = {}
    for name, key in [("known", np.zeros(1, dtype=np.uint64)), ("random", None)] * 3:
        start = time.perf_counter()
        found, _ = distinct_records([(x, None), (y, None)], len(x), 1, key)
        times[name] = min(times.get(name, np.inf), time.perf_counter() - start)
        assert found.size == len(x)
    assert 10 * times["random"] < times["known"]


def test_targets_of_any_fixed_size():
    x = np.zeros((4, 1))
    for y in (["a", "b", "a", "ab"], [1, 2, 1, 3], [True, False, True, False]):
        first, counts = counted(y)
        _, targets, numbers = aggregate(x, y)
        assert targets.tolist() == [y[i] for i in first]
        assert numbers.tolist() == counts


def test_other_layouts_are_copied_with_a_warning():
    x = np.asfortranarray(np.ones((5, 3)))
    with pytest.warns(CopyWarning) as caught:
        merged, _, counts = aggregate(x, np.ones(5)[::-1])
    assert caught[0].filename == __file__
    assert counts.tolist() == [5]
    assert merged.flags.c_contiguous


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((3, 2)), np.ones(2), "one target per record"),
        (np.ones((3, 2)), np.ones((3, 1)), "one target per record"),
        (np.ones((3, 2)), np.array([1, "a", None], dtype=object), "fixed size"),
        (np.ones(3), np.ones(3), "two dimensions"),
        (np.ones((0, 2)), np.ones(0), "at least one record"),
        (np.array([["a"]]), np.ones(1), "real numbers"),
        (scipy.sparse.csc_array(np.eye(3)), np.ones(3), "CSR"),
        (scipy.sparse.csr_array((0, 3)), np.ones(0), "at least one record"),
        (scipy.sparse.csr_array(1j * np.eye(3)), np.ones(3), "real numbers"),
    ],
)
def test_invalid_records(x, y, message):
    with pytest.raises(DataError, match=message):
        aggregate(x, y)


def test_memory_maps(tmp_path):
    x, y = repeated(np.random.default_rng(0), 20, 500, 6, np.float64)
    paths = tmp_path / "x.npy", tmp_path / "y.npy"
    mapped = []
    for path, array in zip(paths, (x, y), strict=True):
        np.save(path, array)
        mapped.append(np.load(path, mmap_mode="r"))
    for found, expected in zip(aggregate(*mapped), aggregate(x, y), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_number_of_threads_is_checked():
    with pytest.raises(ValueError, match="n_threads"):
        aggregate(np.ones((3, 2)), np.ones(3), n_threads=0)


def test_kddcup99():
    data = load_or_skip("kddcup99")
    merged, y, counts = aggregate(data.X, data.y)
    assert len(merged) == len(y) == 145_585  # of 494,021; the classes are normal and attack
    assert counts.sum() == len(data.X)
    assert counts.max() == 193_081


def test_records_that_are_not_in_memory(tmp_path):
    array = pytest.importorskip("dask.array")
    x, y = np.ones((4, 2)), np.ones(4)
    for data, name in (((array.ones((4, 2)), y), "X"), ((x, array.ones(4)), "y")):
        with pytest.raises(DataError, match=rf"{name} is a Dask collection, .* pass {name}\.compute\(\)"):
            aggregate(*data)
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"a": x[:, 0], "y": y}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"X of type RecordFiles is not in memory.*or pass an array"):
        aggregate(scan_parquet(tmp_path / "t.parquet", label="y"), None)
    with pytest.raises(DataError, match="y must hold one target per record, got None"):
        aggregate(x, None)
