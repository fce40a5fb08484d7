"""Secret batches: the distribution of each scheme, and no way to read them."""

import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import binom

import dperm
from dperm import Objective
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from dperm.objective.gradients import clipped_gradient_sum
from dperm.private_values.secret_rows import SecretRows


def batches(sampling, size, n, seed=0):
    return SecretBatches(sampling, random_bits(seed), size, n)


def test_poisson_batches_hold_each_record_independently():
    drawn = batches("poisson", 5, 50)
    counts, joint, sizes = np.zeros(50), 0, []
    for _ in range(4000):
        rows = next(drawn)._among(50, 50)
        assert np.all(np.diff(rows) > 0)
        counts[rows] += 1
        joint += {0, 1} <= set(rows.tolist())
        sizes.append(len(rows))
    low, high = binom.ppf([1e-8, 1 - 1e-8], 4000, 0.1)  # 50 records: false alarm 1e-6
    assert low <= counts.min() <= counts.max() <= high
    assert binom.ppf(1e-6, 4000, 0.01) <= joint <= binom.ppf(1 - 1e-6, 4000, 0.01)
    assert np.var(sizes) == pytest.approx(4.5, rel=0.2)  # standard error 2.2 %


def test_fixed_size_batches():
    drawn = batches("without_replacement", 5, 50)
    samples = [next(drawn)._among(50, 50) for _ in range(4000)]
    assert all(len(rows) == 5 and np.all(np.diff(rows) > 0) for rows in samples)
    counts = np.bincount(np.concatenate(samples), minlength=50)
    low, high = binom.ppf([1e-8, 1 - 1e-8], 4000, 0.1)
    assert low <= counts.min() <= counts.max() <= high
    assert len({tuple(rows) for rows in samples[:100]}) > 95  # fresh each time


def test_shuffled_batches_hold_a_record_once_an_epoch():
    drawn = batches("permutation", 8, 50)
    epochs = [np.concatenate([next(drawn)._among(50, 50) for _ in range(6)]) for _ in range(2000)]
    assert all(len(set(epoch.tolist())) == 48 for epoch in epochs)
    left_out = 2000 - np.bincount(np.concatenate(epochs), minlength=50)
    low, high = binom.ppf([1e-8, 1 - 1e-8], 2000, 0.04)
    assert low <= left_out.min() <= left_out.max() <= high


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement", "permutation"])
def test_neighbours_get_the_same_batch(sampling):
    """Even from the same seed and for different numbers of records: the public one advances the stream."""
    full, less = batches(sampling, 20, 60), batches(sampling, 20, 60)
    for _ in range(30):
        one, other = next(full), next(less)
        whole = one._among(60, 60)
        assert one._among(41, 60).tolist() == whole[whole < 41].tolist() == other._among(41, 60).tolist()
        assert one._among(60, 60).tolist() == whole.tolist()


def test_a_poisson_sample_can_grow():
    rows = next(batches("poisson", 30, 60))
    part = rows._among(60, 60).tolist()
    more = rows._among(1000, 60).tolist()
    assert more[: len(part)] == part
    assert 300 < len(more) < 700
    assert max(more) < 1000


REFUSED = {
    "len": len,
    "list": list,
    "index": lambda rows: rows[0],
    "in": lambda rows: 3 in rows,
    "bool": bool,
    "array": lambda rows: np.asarray(rows, dtype=float),
    "add": lambda rows: rows + np.ones(3),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
}


@pytest.mark.parametrize("way", REFUSED)
def test_no_way_to_read_a_batch(way):
    rows = next(batches("poisson", 5, 50))
    rows._among(50, 50)
    with pytest.raises((TypeError, ValueError)):
        REFUSED[way](rows)
    assert repr(rows) == "<SecretRows, rate 0.1, not for reading>"


def test_only_the_records_open_a_batch():
    package = Path(dperm.__file__).parent
    readers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\b(_among|_drawn)\b", path.read_text())
    }
    own = {"private_values/secret_rows.py"}
    assert own <= readers
    assert all(reader.startswith("data/") for reader in readers - own)


ROWS = {
    "float64": (np.ones((50, 3)), {}),
    "float32": (np.ones((50, 3), dtype=np.float32), {}),
    "csr": (csr_matrix(np.ones((50, 3), dtype=np.float32)), {}),
    "counts": (np.ones((50, 3)), {"counts": np.full(50, 2)}),
    "weights": (np.ones((50, 3), dtype=np.float32), {"weights": np.full(50, 0.5), "weight_bound": 2.0}),
    "classes": (np.ones((50, 3)), {"class_weight": {-1: 1.0, 1: 3.0}}),
}


@pytest.mark.parametrize("rows", ROWS)
def test_a_sum_does_not_reveal_the_size_of_its_sample(rows):
    X, settings = ROWS[rows]
    obj = Objective("logistic", X, np.ones(50), row_norm=2.0, **settings)
    none, every = (
        SecretRows(lambda start, stop, which=which: which, 0.5)
        for which in (np.empty(0, dtype=np.int64), np.arange(obj.n_public))
    )
    sums = [clipped_gradient_sum(obj, np.zeros(3), 0.1, rows=sample) for sample in (none, every)]
    for name in ("shape", "grid", "add_or_remove", "replace_one", "scores"):
        assert getattr(sums[0], name) == getattr(sums[1], name)
    assert repr(sums[0]) == repr(sums[1])
