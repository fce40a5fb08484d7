"""Every representation of the same records gives the sums and fits of the matrix in memory, bit for bit."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse
from pyarrow import csv

from dperm import Objective, algorithms
from dperm.data import scan_csv, scan_parquet
from dperm.data.dense import ColumnsMatrix
from dperm.data.passes_per_row import Predictions
from dperm.errors import DataError
from dperm.losses import Huber, SquaredError
from dperm.objective.counts import (
    class_counts,
    label_sum,
    magnitude_counts,
    norm_counts,
    target_counts,
)
from dperm.objective.gradients import clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.losses import clipped_loss_sums, coordinate_loss_sums
from dperm.objective.moments import column_squares, column_sums, gram_sum
from dperm.objective.weighted_rows import (
    leverage_counts,
    residual_sums,
    weighted_gradient_sum,
    weighted_gram_sum,
    weighted_hessian_sum,
    weighted_squares_sum,
    weighted_third_derivative_sum,
)
from dperm.private_values.transform import Transform
from reference import clusters
from reference.awkward_arrays import memory_mapped
from reference.exact import same
from reference.record_files import in_parquet_files, names_of, table
from reference.tabular_data import random_table, spoil

N = 1003
TABLE = random_table(N, (0, 3, 0, 0, 5, 1, 0), np.float64)
RNG = np.random.default_rng(1)
LABELS = np.where(RNG.random(N) < 0.4, 1.0, -1.0)

# Name: loss, tabular matrix, targets, settings of the objective.
PROBLEMS = {
    "labels": ("logistic", TABLE, LABELS, {}),
    "real targets": (Huber(target_bound=2.0), TABLE, 1.25 * LABELS, {}),
    "classes": ("softmax", TABLE, RNG.integers(0, 3, N).astype(float), {"n_classes": 3}),
    "records that are not finite": (
        "logistic",
        spoil(TABLE),
        np.where(np.arange(N) == 777, np.nan, LABELS),
        {"non_finite": "zero"},
    ),
    "rows that stand for several": ("logistic", TABLE, LABELS, {"counts": RNG.integers(0, 4, N)}),
    "weights": (
        "logistic",
        TABLE,
        LABELS,
        {"weights": RNG.uniform(-1.0, 4.0, N), "weight_bound": 3.0, "counts": RNG.integers(0, 4, N)},
    ),
    "classes with weights": (
        "softmax",
        TABLE,
        RNG.integers(0, 3, N).astype(float),
        {"n_classes": 3, "class_weight": {2: 5.0}},
    ),
    "labels with weights": ("logistic", TABLE, LABELS, {"class_weight": {-1: 0.5, 1: 4.0}}),
    "squared error": (SquaredError(target_bound=1.0), TABLE, LABELS, {}),
}


def of_files(scan, write, **settings):
    return lambda x, y, folder: (scan(write(folder, x, y), label="y", columns=names_of(x), **settings),)


def csv_file(folder, x, y):
    csv.write_csv(table(x, y), folder / "t.csv")
    return folder / "t.csv"


def partitions(*lengths):
    return lambda x, y, folder: clusters.partitioned(x, y, lengths)


# From a matrix and targets to the arguments of an objective.
MATRICES = {
    "map": lambda x, y, folder: (memory_mapped(x, folder / "x.npy"), y),
    "columns": lambda x, y, folder: (ColumnsMatrix(list(np.ascontiguousarray(x.T))), y),
    "sparse": lambda x, y, folder: (scipy.sparse.csr_array(x), y),
    "Parquet": of_files(scan_parquet, in_parquet_files, chunk_rows=150),
    "CSV": of_files(scan_csv, csv_file, block_bytes=1 << 14),
    "partitions": partitions(1, 517, 2, 463, 20),
}
MORE_CHUNKS = {
    f"Parquet by {chunk_rows}": of_files(scan_parquet, in_parquet_files, chunk_rows=chunk_rows)
    for chunk_rows in (1, 16, 10_000)
}
MORE_CUTS = {"one partition": partitions(N), "even partitions": partitions(350, 350, 303)}
NOT_BIT_FOR_BIT = ("Parquet", "CSV", "partitions")  # sums in floating point are of chunks, or of partitions


def in_both_types(makes):
    """The dtype of the matrix for each name; CSV files only have one type of numbers."""
    return [(name, t) for name in makes for t in (np.float32, np.float64) if (name, t) != ("CSV", np.float32)]


REPRESENTATIONS = [("tabular", np.float64), *in_both_types(MATRICES)]


@pytest.fixture
def made(request, tmp_path):
    """A function that makes the objective of a problem in a representation, and that of the matrix."""

    def make(name, dtype, problem, **settings):
        loss, tabular, targets, own = PROBLEMS[problem]
        if name == "Parquet by 1":  # a pass takes a millisecond a chunk
            tabular, targets = tabular[:41], targets[:41]
        with np.errstate(over="ignore"):
            x = tabular.to_dense(dtype)
        settings = {"row_norm": 2.0, "fit_intercept": True, "n_threads": 2, **own, **settings}
        if name.endswith(("partitions", "partition")):
            request.getfixturevalue("client")
        known = {"tabular": lambda *_: (tabular, targets), **MATRICES, **MORE_CHUNKS, **MORE_CUTS}
        there = Objective(loss, *known[name](x, targets, tmp_path), **settings)
        return there, Objective(loss, x, targets, **settings)

    return make


@cache
def image(d):
    return Transform.rounding(np.eye(d) + 0.1 * np.random.default_rng(7).normal(size=(d, d)))


@cache
def diagonal(d):
    return Transform.powers_of_two(2.0 ** np.random.default_rng(8).integers(-3, 5, d), 1e6)


def scaling(d):
    return Transform.scaling(2.0 ** np.arange(-d // 2, d - d // 2).clip(-3, 6), 1.5)


def images(o):
    return replace(image(o.dimension), row_norm=1.2)


def mapped_gradient(o, w):
    return mapped_gradient_sum(o, w, 0.3, image(o.dimension))


def line_search(o, w):
    return clipped_loss_sums(o, w, -w, np.linspace(0, 2, 7), 2.0)


def line_search_after_a_gradient(o, w):
    """From the predictions that the gradient pass keeps, if the representation keeps any."""
    clipped_gradient_sum(o, w, 0.3, keep_predictions=True)
    return line_search(o, w)


OF_EVERY_LOSS = {
    "gradient": lambda o, w: clipped_gradient_sum(o, w, 0.3),
    "gradient in scaled coordinates": lambda o, w: mapped_gradient_sum(o, w, 0.3, diagonal(o.shape[0])),
    "losses": line_search,
    "norms": lambda o, w: norm_counts(o, 8, scaling(o.shape[0])),
    "magnitudes": lambda o, w: magnitude_counts(o, 6),
}
OF_ONE_PREDICTION = OF_EVERY_LOSS | {
    "losses from kept predictions": line_search_after_a_gradient,
    "coordinates": lambda o, w: coordinate_loss_sums(o, w, 0.1),
    "gram": lambda o, w: gram_sum(o),
    "sums": lambda o, w: column_sums(o, scaling(o.dimension)),
    "gram in coordinates": lambda o, w: gram_sum(o, transform=scaling(o.dimension)),
    "squares": lambda o, w: column_squares(o, scaling(o.dimension), 0.7),
    "mapped gradient": mapped_gradient,
    "mapped gradient with kept lengths": mapped_gradient,
}
OF_IMAGES = {
    "gradient of images": lambda o, w: weighted_gradient_sum(o, w, images(o)),
    "gram of images": lambda o, w: weighted_gram_sum(o, images(o)),
    "hessian of images": lambda o, w: weighted_hessian_sum(o, w, images(o)),
    "squares of images": lambda o, w: weighted_squares_sum(o, w, images(o)),
    "third derivatives": lambda o, w: weighted_third_derivative_sum(o, w, images(o)),
    "leverage": lambda o, w: leverage_counts(o, images(o), 3),
    "residuals": lambda o, w: residual_sums(o, w, images(o), (0, 1, 2)),
}
OF_ONE_PREDICTION |= OF_IMAGES
OF_LABELS = OF_ONE_PREDICTION | {
    "gram with targets": lambda o, w: gram_sum(o, target_factor=0.5),
    "labels": lambda o, w: label_sum(o),
}
OF_WEIGHTS = {
    name: make for name, make in OF_LABELS.items() if name not in OF_IMAGES and name != "coordinates"
}
SUMS = {
    "labels": OF_LABELS,
    "weights": OF_WEIGHTS,
    "labels with weights": OF_WEIGHTS,
    "classes with weights": OF_EVERY_LOSS,
    "real targets": OF_ONE_PREDICTION | {"targets": lambda o, w: target_counts(o, [-0.5, 0.2])},
    "classes": OF_EVERY_LOSS | {"classes": lambda o, w: class_counts(o)},
    "records that are not finite": OF_LABELS,
    "rows that stand for several": OF_LABELS,
}
IN_MEMORY = {"map", "columns", "sparse", "tabular"}  # others take no counts


@pytest.mark.parametrize(
    ("name", "dtype", "problem"),
    [
        (name, dtype, problem)
        for problem in SUMS
        for name, dtype in [*REPRESENTATIONS, *in_both_types(MORE_CHUNKS | MORE_CUTS)]
        if name in IN_MEMORY or "counts" not in PROBLEMS[problem][3]
    ],
)
def test_every_sum_is_that_of_the_matrix(made, name, dtype, problem):
    there, here = made(name, dtype, problem, l2=0.1)
    assert (there.n_public, there.n_columns, there.shape) == (
        here.n_public,
        here.n_columns,
        here.shape,
    )
    w = np.random.default_rng(2).normal(size=here.shape)
    for sums, make in SUMS[problem].items():
        assert same(make(there, w), make(here, w)), sums
    expected, got = (np.asarray(each._rows.run(Predictions(w), 1)) for each in (here, there))
    np.testing.assert_array_equal(got, expected)
    assert there.value(w) == pytest.approx(here.value(w), rel=1e-6)
    in_floats = problem.startswith("classes") and dtype == np.float32  # else computed in doubles
    tolerance = {"rtol": 1e-4, "atol": 1e-7} if in_floats else {"rtol": 1e-11, "atol": 1e-14}
    np.testing.assert_allclose(there.gradient(w), here.gradient(w), **tolerance)


@pytest.mark.parametrize("name", sorted((MATRICES | MORE_CHUNKS | MORE_CUTS).keys() - IN_MEMORY))
def test_records_that_are_not_in_memory_take_no_counts(made, name):
    with pytest.raises(DataError, match=r"takes none|cannot be given"):
        made(name, np.float64, "rows that stand for several")


BATCHES = {"batch_size": 64, "steps": 12}
# Settings that make fits quick; they do not affect which kernels run.
FITS = {
    "noisy_gd": {"steps": 8},
    "whitened_gd": {"steps": 8},
    "dp_agd": {"splits": 12, "n_candidates": 4},
    "noisy_newton": {"steps": 3},
    "privgene": {"generations": 4, "stride": 0.5},
    "sufficient_statistics": {},
    "objective_perturbation": {},
    "output_perturbation_gd": {"steps": 30},
    "dp_sgd": BATCHES,
    "dp_lssgd": BATCHES,
    "dp_sgd_gradient": {**BATCHES, "radius": 5.0},
    "dp_sgd_output": {},
    "rrpsgd": {"rounds": 20, "batch_size": 64},
}
# Refused for partitions, or sampled differently: see test_distributed.py.
BY_RECORD = {"dp_sgd", "dp_lssgd", "dp_sgd_gradient", "dp_sgd_output", "rrpsgd"}
FROM_PLAIN_SUMS = {"objective_perturbation", "output_perturbation_gd"}  # noise is added to their result


def fitted(objective, algorithm):
    # little noise, so that different weights would be noticed, and intervals are not refused
    epsilon = 100.0 if algorithm in FROM_PLAIN_SUMS or algorithm == "noisy_newton" else 1.0
    return getattr(algorithms, algorithm)(objective, epsilon, 1e-6, random_state=5, **FITS[algorithm])


@pytest.mark.parametrize(
    ("name", "dtype", "algorithm"),
    [
        (name, dtype, algorithm)
        for name, dtype in REPRESENTATIONS
        for algorithm in FITS
        if name != "partitions" or (dtype == np.float64 and algorithm not in BY_RECORD)
    ],
)
def test_a_fit_is_that_of_the_matrix(made, name, dtype, algorithm):
    problem = "squared error" if algorithm == "sufficient_statistics" else "labels"
    ridge = 0.0 if algorithm == "noisy_newton" else 0.05
    there, here = made(name, dtype, problem, l2=ridge, penalize_intercept=True)
    got, expected = fitted(there, algorithm), fitted(here, algorithm)
    if name == "partitions" and algorithm in FROM_PLAIN_SUMS:
        np.testing.assert_allclose(got.coef, expected.coef, rtol=1e-6)
    else:
        np.testing.assert_array_equal(got.coef, expected.coef)
    assert np.ptp(got.coef) > 0
    public = got.privacy.to_dict()["public"]
    assert (public["n"], public.get("partitions")) == (N, 5 if name == "partitions" else None)


@pytest.mark.parametrize(("name", "dtype"), REPRESENTATIONS)
def test_an_optimum_is_that_of_the_matrix(made, name, dtype):
    there, here = made(name, dtype, "labels", l2=0.1)
    optima = [algorithms.nonprivate(each, tolerance=1e-7).coef for each in (there, here)]
    if name in NOT_BIT_FOR_BIT:
        np.testing.assert_allclose(*optima, rtol=1e-4, atol=1e-6)
    else:
        np.testing.assert_array_equal(*optima)
