"""Sparse matrices of scipy as data: the same private sums and fits as from the dense matrix."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from dperm import LogisticRegression, Objective
from dperm.accounting import Ledger
from dperm.algorithms import (
    dp_agd,
    dp_sgd,
    dp_sgd_gradient,
    noisy_gd,
    noisy_newton,
    privgene,
    whitened_gd,
)
from dperm.data import aggregate
from dperm.data.sparse import as_csr
from dperm.errors import CopyWarning, DataError
from dperm.mechanisms import release_without_privacy
from dperm.objective.gradients import clipped_gradient_sum
from reference.sparse_data import random_csr, scrambled

N_ROWS, WIDTH = 600, 40
kinds = pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array], ids=lambda kind: kind.__name__)


def problem(dtype=np.float64, n_rows=N_ROWS, width=WIDTH, density=0.2, **options):
    matrix = random_csr(n_rows, width, density, dtype, **options)
    rng = np.random.default_rng(5)
    y = np.where(rng.random(n_rows) < 0.5, -1.0, 1.0)
    return matrix, y


def objective(X, y, loss="logistic", **options):
    return Objective(loss, X, y, **{"fit_intercept": True, "row_norm": 2.0, **options})


def gradient_sum(X, y, **options):
    made = objective(X, y, **options)
    w = np.random.default_rng(3).normal(size=made.dimension)
    return release_without_privacy(clipped_gradient_sum(made, w, 0.5))


def assert_same_sums(X, dense, y, **options):
    np.testing.assert_array_equal(gradient_sum(X, y, **options), gradient_sum(dense, y, **options))


@pytest.fixture
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_read_in_place(kind, dtype, index, no_warning):
    matrix, y = problem(dtype, index=index)
    given = kind(matrix.shape, dtype=dtype)
    given.data, given.indices, given.indptr = matrix.data, matrix.indices, matrix.indptr
    for array in (given.data, given.indices, given.indptr):
        array.flags.writeable = False
    assert_same_sums(given, matrix.toarray(), y)
    assert as_csr(given) is given


@pytest.mark.parametrize("format", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_other_formats_are_copied_once(format):
    matrix, y = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.SparseEfficiencyWarning)
        given = matrix.asformat(format)
    with pytest.warns(CopyWarning, match=format) as caught:
        assert_same_sums(given, matrix.toarray(), y)
    copies = [each for each in caught if each.category is CopyWarning]
    assert [each.filename for each in copies] == [__file__]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("duplicates", [False, True])
def test_unsorted_and_repeated_entries_are_copied_and_left_alone(dtype, duplicates):
    matrix, y = problem(dtype)
    given = scrambled(matrix, duplicates=duplicates)
    before = [array.copy() for array in (given.data, given.indices, given.indptr)]
    with pytest.warns(CopyWarning, match="unsorted or repeated"):
        assert_same_sums(given, matrix.toarray(), y)
    for array, kept in zip((given.data, given.indices, given.indptr), before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_wrong_flags_of_scipy_are_not_believed():
    matrix, y = problem()
    given = scrambled(matrix)
    given.has_sorted_indices = given.has_canonical_format = True
    with pytest.warns(CopyWarning):
        assert_same_sums(given, matrix.toarray(), y)


def test_repeated_entries_add_up_in_the_order_of_toarray():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 3, 60)  # some twenty times
    given = sp.csr_array((20, 3), dtype=np.float32)
    given.data = (rng.normal(size=1200) * 10.0 ** rng.integers(-4, 4, 1200)).astype(np.float32)
    given.indices = np.tile(columns, 20).astype(np.int32)
    given.indptr = np.arange(0, 1201, 60).astype(np.int32)
    with pytest.warns(CopyWarning):
        assert_same_sums(given, given.toarray(), np.ones(20), row_norm=1e5)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_, np.longdouble])
def test_other_numbers_become_doubles(dtype):
    matrix, y = problem()
    given = sp.csr_array((np.sign(matrix.data).astype(dtype), matrix.indices, matrix.indptr), matrix.shape)
    with pytest.warns(CopyWarning, match="dtype"):
        assert_same_sums(given, given.toarray().astype(float), y)


def put(array, place, value):
    """A copy with another entry."""
    array = array.copy()
    array[place] = value
    return array


# One of the three arrays, and how it is corrupted.
FAULTS = {
    "negative index": ("indices", lambda a: put(a, 7, -1)),
    "index out of range": ("indices", lambda a: put(a, 7, N_ROWS)),
    "index that overflowed": ("indices", lambda a: put(a.astype(np.int64), 7, int(a[7]) + (1 << 32))),
    "indptr falls": ("indptr", lambda a: put(a, 5, a[6] + 1)),
    "indptr starts late": ("indptr", lambda a: put(a, 0, 1)),
    "indptr too far": ("indptr", lambda a: put(a, -1, a[-1] + 1)),
    "indptr too short": ("indptr", lambda a: a[:-1]),
    "fractional indices": ("indices", lambda a: a.astype(float)),
    "fewer values": ("data", lambda a: a[:-1]),
    "two dimensions": ("indices", lambda a: a.reshape(1, -1)),
}


@pytest.mark.parametrize(("name", "change"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.filterwarnings("ignore::dperm.errors.CopyWarning")
def test_broken_matrices_are_errors(name, change, format):
    matrix, y = problem()
    matrix = matrix.asformat(format)
    setattr(matrix, name, change(getattr(matrix, name)))
    with pytest.raises(DataError, match="not a valid sparse matrix"):
        objective(matrix, y)
    ledger = Ledger(1.0, 1e-6, allow_seeded=True)
    with pytest.raises(DataError, match="not a valid sparse matrix"):
        LogisticRegression(classes=[-1, 1], ledger=ledger).fit(matrix, y)
    assert ledger.spent == Ledger(1.0, 1e-6, allow_seeded=True).spent


def test_broken_coordinates_are_errors():
    matrix, y = problem()
    matrix = matrix.tocoo()
    matrix.coords[1][3] = WIDTH
    with pytest.raises(DataError, match="axis 1"):
        objective(matrix, y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_entries(value):
    matrix, y = problem()
    row = 17 + int(np.argmax(np.diff(matrix.indptr)[17:] > 2))
    at = matrix.indptr[row] + 1
    matrix.data[at] = value
    with pytest.raises(DataError, match=f"row {row}, column {matrix.indices[at]} "):
        objective(matrix, y)
    assert_same_sums(matrix, matrix.toarray(), y, non_finite="zero")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_shapes_are_errors(shape):
    with pytest.raises(DataError, match="at least one record"):
        objective(sp.csr_array(shape), np.ones(shape[0]))


def test_complex_numbers_and_wrong_targets_are_errors():
    matrix, y = problem()
    with pytest.raises(DataError, match="real numbers"):
        objective(matrix.astype(complex), y)
    with pytest.raises(DataError, match="one target per record"):
        objective(matrix, y[:-1])
    with pytest.raises(DataError, match="-1 or \\+1"):
        objective(matrix, np.zeros(N_ROWS))


def test_aggregated():
    matrix, y = problem()
    repeated = matrix[np.arange(3000) % 200]
    rows, targets, counts = aggregate(repeated, np.resize(y[:200], 3000))
    assert sp.issparse(rows)
    assert counts.sum() == 3000
    options = {"counts": counts}
    np.testing.assert_array_equal(
        gradient_sum(rows, targets, **options), gradient_sum(repeated.toarray(), np.resize(y[:200], 3000))
    )
    fits = [
        dp_agd(objective(X, t, **kept), 1.0, 1e-5, random_state=1).coef
        for X, t, kept in ((rows, targets, options), (rows.toarray(), targets, options))
    ]
    np.testing.assert_array_equal(*fits)


def test_one_record_moves_sums_within_the_bound():
    matrix, y = problem()
    w = np.random.default_rng(0).normal(size=WIDTH + 1)
    whole = clipped_gradient_sum(objective(matrix, y, n_public=N_ROWS), w, 0.25)
    for row in range(0, N_ROWS, 60):
        keep = np.arange(N_ROWS) != row
        without = clipped_gradient_sum(objective(matrix[keep], y[keep], n_public=N_ROWS), w, 0.25)
        moved = release_without_privacy(whole) - release_without_privacy(without)
        assert np.linalg.norm(moved) <= 0.25


# -- wide data ---------------------------------------------------------------------------------------

WIDE = 1_000_000


def wide_problem(n_rows=3000, used=None, dtype=np.float64):
    """Twenty entries per row among the first `used` of a million columns."""
    rng = np.random.default_rng(1)
    columns = np.sort(rng.integers(0, used or WIDE, (n_rows, 20)), axis=1)
    values, starts = np.full(n_rows * 20, 0.2, dtype), np.arange(0, n_rows * 20 + 1, 20)
    matrix = sp.csr_array((values, columns.ravel(), starts), (n_rows, WIDE))
    matrix.sum_duplicates()
    return matrix, np.where(rng.random(n_rows) < 0.5, -1.0, 1.0)


def test_columns_that_no_record_touches_get_the_same_noise():
    """Sparsity must not leak: the weights of unused columns are noise distributed like the others."""
    used = 1000
    matrix, y = wide_problem(used=used)
    coef = noisy_gd(objective(matrix, y, row_norm=1.0), 1.0, 1e-5, steps=2, random_state=1).coef
    touched, untouched = coef[:used], coef[used:WIDE]
    assert np.count_nonzero(untouched) > 0.99 * untouched.size
    spread = np.std(untouched)
    # Noise dominates 3000 records. The relative error of the spread of m numbers is 1 / sqrt(2 m): six times.
    assert abs(np.std(touched) / spread - 1.0) < 6 / np.sqrt(2 * used)
    assert abs(np.mean(untouched)) < 6 * spread / np.sqrt(untouched.size)
    halves = np.std(untouched[::2]), np.std(untouched[1::2])
    assert abs(halves[0] / halves[1] - 1.0) < 6 / np.sqrt(untouched.size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_classifier_of_a_million_columns(dtype):
    matrix, y = wide_problem(dtype=dtype)
    options = {"row_norm": 2.0, "classes": [-1, 1], "random_state": 0, "solver_options": {"steps": 3}}
    model = LogisticRegression(1.0, 1e-5, **options)
    model.fit(matrix, y)
    assert model.coef_.shape == (1, WIDE)
    assert np.isfinite(model.coef_).all()
    scores = model.decision_function(matrix[:50])
    np.testing.assert_allclose(scores, matrix[:50] @ model.coef_[0] + model.intercept_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", [dp_sgd, dp_agd, dp_sgd_gradient, whitened_gd])
def test_wide_data_train(algorithm):
    matrix, y = wide_problem(n_rows=500)
    options = {"steps": 3, "batch_size": 50}
    options = {dp_agd: {"max_iter": 2}, whitened_gd: {"steps": 3}}.get(algorithm, options)
    coef = algorithm(objective(matrix, y, row_norm=1.0), 1.0, 1e-5, random_state=1, **options).coef
    assert np.isfinite(coef).all()


@pytest.mark.parametrize("algorithm", [noisy_newton, privgene])
def test_what_cannot_be_done_says_so_before_anything_is_charged(algorithm):
    matrix, y = wide_problem(n_rows=200)
    ledger = Ledger(1.0, 1e-5, allow_seeded=True)
    spent = ledger.spent
    with pytest.raises(ValueError, match="columns"):
        algorithm(objective(matrix, y, row_norm=1.0), 1.0, 1e-5, ledger=ledger)
    assert ledger.spent == spent


# -- estimators --------------------------------------------------------------------------------------


@kinds
def test_classifier(kind):
    matrix, y = problem()
    given = kind(matrix)
    fits = [
        LogisticRegression(2.0, 1e-5, row_norm=2.0, classes=[-1, 1], random_state=0).fit(X, y)
        for X in (given, matrix.toarray())
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    for method in ("decision_function", "predict_proba", "predict"):
        got = getattr(fits[0], method)(given)
        np.testing.assert_allclose(got, getattr(fits[0], method)(matrix.toarray()), rtol=1e-10)
    assert fits[0].n_features_in_ == WIDTH


def test_predictions_of_repeated_entries():
    matrix, y = problem()
    model = LogisticRegression(2.0, 1e-5, row_norm=0.3, classes=[-1, 1], random_state=0).fit(matrix, y)
    with pytest.warns(CopyWarning):
        got = model.decision_function(scrambled(matrix))
    np.testing.assert_allclose(got, model.decision_function(matrix.toarray()), rtol=1e-10)
