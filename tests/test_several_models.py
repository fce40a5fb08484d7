"""Gradient sums of several models in one pass equal those of single passes, for every representation."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from dperm import Categorical, Numeric, Objective, Schema
from dperm.algorithms import noisy_gd_many
from dperm.data import aggregate, scan_parquet
from dperm.data.files.record_files import FileParts
from reference import awkward_arrays, numpy_kernels
from reference.exact import assert_same, same
from reference.kernel_calls import EXAMPLES
from reference.tabular_data import random_table

CLIPS = np.array([0.3, 0.1, 0.3, 0.5, 0.05])


def several(objective, seed=0):
    return np.random.default_rng(seed).standard_normal((5, *objective.shape))


def check(objective, **keywords):
    """Compare separate sums and the joint sum with single passes."""
    w = several(objective)
    singles = [objective.clipped_gradient_sum(own, clip) for own, clip in zip(w, CLIPS, strict=True)]
    separate = objective.separate_gradient_sums(w, CLIPS)
    assert_same(separate, singles)
    joint = objective.clipped_gradient_sums(w, CLIPS)
    for own, row in zip(singles, joint._integers, strict=True):
        assert np.array_equal(own._integers * round(own.grid / joint.grid), row)
    assert joint.shape == w.shape
    assert joint.add_or_remove == pytest.approx(np.linalg.norm([own.add_or_remove for own in singles]))
    one_clip = objective.clipped_gradient_sums(w, 0.3)
    for own, row in zip(w, one_clip._integers, strict=True):
        assert np.array_equal(objective.clipped_gradient_sum(own, 0.3)._integers, row)


@pytest.mark.parametrize("dtype", awkward_arrays.DTYPES)
@pytest.mark.parametrize("loss", numpy_kernels.LOSSES)
def test_dense_records(dtype, loss):
    x, y, *_ = awkward_arrays.ordinary(700, 9, dtype)
    check(Objective(EXAMPLES[loss], x, y, fit_intercept=True, row_norm=2.0))


def records(kind):
    """A problem in each representation of the records."""
    x, y, *_ = awkward_arrays.ordinary(300, 6, np.float64)
    if kind == "softmax":
        return x, (y > 0) + (x[:, 0] > 0), {"loss": "softmax", "n_classes": 3}
    if kind == "tabular":
        return random_table(300, (0, 3, 0, 4)), y, {"loss": "logistic"}
    if kind == "aggregated":
        x, y, counts = aggregate(np.rint(x[:, :2]), y)
        assert len(x) < 300
        return x, y, {"loss": "logistic", "counts": counts}
    return (csr_array(np.maximum(x, 0)) if kind == "sparse" else x), y, {"loss": "logistic"}


@pytest.mark.parametrize("kind", ["softmax", "tabular", "aggregated", "sparse"])
def test_other_representations(kind):
    x, y, keywords = records(kind)
    check(Objective(X=x, y=y, row_norm=2.0, **keywords))


@pytest.mark.parametrize("kind", ["dense", "softmax", "tabular", "aggregated", "sparse"])
def test_folds(kind):
    x, y, keywords = records(kind)
    objective = Objective(X=x, y=y, row_norm=2.0, **keywords)
    folds = np.random.default_rng(3).integers(-1, 5, objective._n_rows)
    w = several(objective)
    made = objective.separate_gradient_sums(w, 0.3, folds=folds)
    everything = [objective.clipped_gradient_sum(own, 0.3)._integers for own in w]
    left_out = [
        objective.separate_gradient_sums(w[[k, k]], 0.3, folds=np.where(folds == k, 1, 0))[0]._integers
        for k in range(5)
    ]
    for whole, part, rest in zip(everything, left_out, made, strict=True):
        assert np.array_equal(whole - part, rest._integers)
        assert not np.array_equal(whole, rest._integers)
    if kind == "dense":
        for k, own in enumerate(made):
            seen = Objective("logistic", x[folds != k], y[folds != k], row_norm=2.0, n_public=300)
            assert same(own, seen.clipped_gradient_sum(w[k], 0.3))


@pytest.mark.parametrize("kind", ["dense", "softmax", "tabular", "aggregated", "sparse"])
def test_models_may_leave_out_the_same_fold(kind):
    x, y, keywords = records(kind)
    objective = Objective(X=x, y=y, row_norm=2.0, **keywords)
    folds = np.random.default_rng(4).integers(-1, 3, objective._n_rows)
    w, left_out = several(objective), [2, 0, 2, -1, 7]
    made = objective.separate_gradient_sums(w, 0.3, folds=folds, left_out=left_out)
    for own, fold, part in zip(w, left_out, made, strict=True):
        alone = objective.separate_gradient_sums(own[None], 0.3, folds=np.where(folds == fold, 0, -1))[0]
        assert same(part, alone) == (fold != -1)
        if fold in (-1, 7):  # no record is left out, not even those that belong to no fold
            assert same(part, objective.clipped_gradient_sum(own, 0.3))


def test_each_model_may_have_its_radius():
    x, y, *_ = awkward_arrays.ordinary(50, 3, np.float64)
    objective = Objective("logistic", x, y)
    w = np.array([[0.1, 0.2, 0.2], [3.0, 0.0, 0.0]])
    inside, anywhere = objective.separate_gradient_sums(w, 5.0, radius=[0.5, np.inf])
    assert same(inside, objective.clipped_gradient_sum(w[0], 5.0, radius=0.5))
    assert same(anywhere, objective.clipped_gradient_sum(w[1], 5.0))
    assert inside.replace_one < anywhere.replace_one


WRONG = {
    "no models": ({"weights": np.zeros((0, 3))}, r"weights must have shape \(K, 3\)"),
    "one vector": ({"weights": np.zeros(3)}, r"weights must have shape \(K, 3\)"),
    "width": ({"weights": np.zeros((2, 4))}, "weights must have shape"),
    "NaN": ({"weights": np.full((2, 3), np.nan)}, "weights must be finite"),
    "clips": ({"clip": [0.1, 0.2, 0.3]}, "clip must be a number or 2 of them"),
    "clip": ({"clip": [0.1, -0.2]}, "clip must be between"),
    "clip NaN": ({"clip": np.nan}, "clip must be between"),
    "radius": ({"weights": np.ones((2, 3)), "radius": 1.0}, "public radius"),
    "folds": ({"folds": np.zeros(19, int)}, "folds must hold an integer for each of 20 records"),
    "float folds": ({"folds": np.zeros(20)}, "folds must hold an integer"),
    "folds left out": ({"left_out": [0, 1]}, "give folds"),
    "left out": ({"folds": np.zeros(20, int), "left_out": [0]}, "left_out must hold the number of a fold"),
    "far clips": ({"clip": [1.0, 2.0**-12]}, "no common grid"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_bad_arguments(arguments, message):
    objective = Objective("logistic", np.eye(3).repeat(7, axis=0)[:20], np.ones(20))
    with pytest.raises(ValueError, match=message):
        objective.clipped_gradient_sums(**{"weights": np.zeros((2, 3)), "clip": 0.1} | arguments)


def test_wide_sparse_records_are_not_made_dense():
    x = csr_array(([1.0, 2.0], [3, 999_999], [0, 1, 2]), shape=(2, 1_000_000))
    objective = Objective("logistic", x, np.array([1.0, -1.0]), row_norm=3.0)
    w = np.ones((2, 1_000_000))
    single = objective.clipped_gradient_sum(w[0], 0.3)
    assert all(same(each, single) for each in objective.separate_gradient_sums(w, 0.3))
    assert not objective.reads_whole_rows


# -- records in files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kind", ["float32", "float64", "table", "softmax"])
def test_files_are_read_once_for_all_models(tmp_path, kind, folded, monkeypatch):
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rng, n = np.random.default_rng(0), 503
    x = rng.normal(size=(n, 4)).astype("float32" if kind == "float32" else float)
    y, settings = rng.choice([-1.0, 1.0], n), {"loss": "logistic"}
    if kind == "softmax":
        y, settings = rng.integers(0, 3, n).astype(float), {"loss": "softmax", "n_classes": 3}
    columns, schema = {f"x{j}": x[:, j] for j in range(4)}, None
    if kind == "table":
        columns["letter"] = rng.choice(list("abc"), n)
        schema = Schema([Numeric(f"x{j}", -4, 4) for j in range(4)] + [Categorical("letter", list("abc"))])
    parquet.write_table(pa.table({**columns, "y": y}), tmp_path / "records.parquet", row_group_size=90)
    source = scan_parquet(tmp_path / "records.parquet", label="y", schema=schema, chunk_rows=71)
    files = Objective(X=source, **settings)
    memory = Objective(X=x if schema is None else schema.encode(columns), y=y, **settings)
    weights = rng.normal(size=(3, *files.shape))
    folds = rng.integers(0, 3, n) if folded else None
    reads, original = [], FileParts.read
    monkeypatch.setattr(FileParts, "read", lambda self: reads.append(self) or original(self))
    many = files.separate_gradient_sums(weights, [0.3, 0.4, 0.5], folds=folds)
    assert len(reads) == 1
    assert_same(many, memory.separate_gradient_sums(weights, [0.3, 0.4, 0.5], folds=folds))


def test_empty_folds_are_refused():
    """Otherwise a mistake would give a score on the training data."""
    x, y = np.ones((6, 2)), np.ones(6)
    fits = [{"epsilon": 1.0, "delta": 1e-5, "fold": 3}]
    with pytest.raises(ValueError, match=r"leaves out fold 3, which no record is in; the folds are 0, 1, 2"):
        noisy_gd_many(Objective("logistic", x, y), fits, folds=np.arange(6) % 3)
