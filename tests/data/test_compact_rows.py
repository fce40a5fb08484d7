"""Identical records merged during a fit: when this happens, and that no sum changes."""

import numpy as np
import pytest
import scipy.sparse

from dperm import Objective
from dperm.algorithms import dp_agd, dp_sgd, noisy_gd, whitened_gd
from dperm.data import inputs
from dperm.losses import Softmax
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.without_privacy import release_without_privacy
from dperm.objective.gradients import clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.losses import clipped_loss_sums, coordinate_loss_sums
from dperm.objective.moments import column_squares, gram_sum
from dperm.private_values.transform import Transform
from reference.tabular_data import random_table

N, KINDS, WIDTH, CLIP = 17_000, 300, 6, 0.5


def records(kind, n=N, kinds=KINDS):
    """`n` records, at most 2 * `kinds` of them distinct."""
    rng = np.random.default_rng(0)
    rows, y = rng.integers(0, kinds, n), rng.choice([-1.0, 1.0], n)
    if kind == "table":
        return random_table(kinds, [0, 3, 0, 5])[rows], y
    x = rng.normal(size=(kinds, WIDTH)).astype("f4" if kind == "float32" else "f8")
    if kind == "sparse":
        return scipy.sparse.csr_array(np.maximum(x, 0.0))[rows], y
    return x[rows], y


def compact_and_plain(loss, X, y, **settings):
    """The same objective twice: one with compact records from the start, and one that reads all of them."""
    compact, plain = (Objective(loss, X, y, **settings) for _ in range(2))
    compact._expect_passes(1000)
    plain._rows.compact = None
    return compact, plain


def pair(kind, loss="logistic"):
    X, y = records(kind)
    y = np.abs(y) if isinstance(loss, Softmax) else y
    return compact_and_plain(loss, X, y, row_norm=2.0, fit_intercept=True)


def is_compact(objective):
    return objective._rows.compact._rows is not None


def assert_same(merged, plain, sums):
    assert release_without_privacy(sums(merged)).tobytes() == release_without_privacy(sums(plain)).tobytes()


def sums_of(objective):
    """Every private sum over all records of an objective with one prediction."""
    w = np.linspace(-1.0, 1.0, objective.dimension)
    matrix = Transform.rounding(np.diag(np.linspace(0.5, 2.0, objective.dimension)))
    return {
        "gradients": lambda o: clipped_gradient_sum(o, w, CLIP),
        "gradients, kept predictions": lambda o: clipped_gradient_sum(o, w, CLIP, keep_predictions=True),
        "losses along a line": lambda o: clipped_loss_sums(o, w, w, [0.0, 0.1, 0.7], 1.5),
        "losses along the axes": lambda o: coordinate_loss_sums(o, w, 0.1, 1.5),
        "outer products": lambda o: gram_sum(o),
        "squares": lambda o: column_squares(o, Transform.scaling(np.ones(o.dimension), o.row_norm), 1.0),
        "gradients in other coordinates": lambda o: mapped_gradient_sum(o, w, CLIP, matrix),
        "a batch": lambda o: clipped_gradient_sum(
            o, w, CLIP, rows=next(SecretBatches("poisson", random_bits(1), 100, N))
        ),
    }


@pytest.mark.parametrize("kind", ["float64", "float32", "table", "sparse"])
def test_every_sum_is_the_same(kind):
    merged, plain = pair(kind)
    for name, sums in sums_of(plain).items():
        assert_same(merged, plain, sums)
        assert is_compact(merged), name
    assert merged._rows.compact._rows.n_stored <= 2 * KINDS
    assert merged._rows.n_rows == N


def test_softmax_sums_are_the_same():
    merged, plain = pair("float64", Softmax(2))
    w = np.linspace(-1.0, 1.0, plain.dimension).reshape(plain.shape)
    assert_same(merged, plain, lambda o: clipped_gradient_sum(o, w, CLIP))
    assert_same(merged, plain, lambda o: clipped_loss_sums(o, w, w, [0.0, 0.3], 1.5))
    assert is_compact(merged)


def test_records_that_do_not_count_still_do_not():
    X, y = records("float64")
    X[::7] = np.nan
    y[::5] = np.inf
    objective = Objective("huber", X, y, row_norm=2.0, non_finite="zero")
    before = release_without_privacy(clipped_gradient_sum(objective, np.ones(WIDTH), CLIP))
    objective._expect_passes(1000)
    assert_same(objective, objective, lambda o: clipped_gradient_sum(o, np.ones(WIDTH), CLIP))
    assert is_compact(objective)
    after = release_without_privacy(clipped_gradient_sum(objective, np.ones(WIDTH), CLIP))
    assert before.tobytes() == after.tobytes()


def test_norms_from_before_merging_go_with_all_records():
    """For gradients in the coordinates of a matrix, the objective keeps norms between sums."""
    merged, plain = pair("float64")
    merged._rows.compact._passes_left = 3
    in_other_coordinates = sums_of(plain)["gradients in other coordinates"]
    for _ in range(5):
        assert_same(merged, plain, in_other_coordinates)
    assert is_compact(merged)
    assert_same(merged, plain, sums_of(plain)["gradients"])


@pytest.mark.parametrize("algorithm", [noisy_gd, whitened_gd])
def test_fits_are_the_same(algorithm):
    merged, plain = pair("table")
    merged._rows.compact._passes_left = 16
    settings = {"steps": inputs._PASSES_AHEAD, "random_state": 1}
    with pytest.warns(UserWarning, match="random_state"):
        coefs = [algorithm(each, 1.0, 1e-6, **settings).coef for each in (merged, plain)]
    assert is_compact(merged)
    assert coefs[0].tobytes() == coefs[1].tobytes()


@pytest.mark.parametrize("algorithm", [noisy_gd, whitened_gd, dp_agd])
def test_a_long_fit_reads_merged_records_alone(algorithm, monkeypatch):
    """Norms kept from the first gradient would force later ones to read all records."""
    read, served = [], inputs.CompactRows.rows_for

    def rows_for(compact, pass_):
        rows = served(compact, pass_)
        read.append(rows is not None)
        return rows

    monkeypatch.setattr(inputs.CompactRows, "rows_for", rows_for)
    objective = Objective("logistic", *records("float64"), row_norm=20.0, fit_intercept=True)
    algorithm(objective, 1.0, 1e-6, learn_scales=True)
    assert len(read) > inputs._PASSES_AHEAD
    assert sum(read) >= len(read) - 1  # labels are counted without the rows


def make_passes(objective, count):
    for _ in range(count):
        clipped_gradient_sum(objective, np.zeros(objective.shape), CLIP)


def test_merging_waits_for_passes_over_all_records():
    objective = Objective("logistic", *records("float64"), row_norm=2.0)
    objective._expect_passes(inputs._PASSES_AHEAD - 1)
    batches = SecretBatches("poisson", random_bits(1), 100, N)
    for _ in range(2 * inputs._PASSES_BEFORE):
        clipped_gradient_sum(objective, np.zeros(WIDTH), CLIP, rows=next(batches))
    make_passes(objective, inputs._PASSES_BEFORE)
    assert not is_compact(objective)
    make_passes(objective, 1)
    assert is_compact(objective)


def test_steps_on_batches_do_not_count_as_passes():
    objective = Objective("logistic", *records("float64"), row_norm=2.0)
    dp_sgd(objective, 1.0, 1e-6, steps=200, batch_size=100)
    make_passes(objective, 1)
    assert not is_compact(objective)


@pytest.mark.parametrize(
    ("n", "kinds"),
    [(N, 1_000_000_000), (inputs._MIN_RECORDS - 1, 10)],
    ids=["different records", "few records"],
)
def test_what_is_not_merged(n, kinds):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, kinds, (n, 1)).astype(float), rng.choice([-1.0, 1.0], n)
    objective = Objective("logistic", X, y, row_norm=2.0)
    objective._expect_passes(1000)
    make_passes(objective, 1)
    assert not is_compact(objective)


def test_a_fit_continues_without_memory_for_merging(monkeypatch):
    merged, plain = pair("float64")
    asked = []

    def no_memory(X, y, **options):
        asked.append(len(y))
        if len(y) == N:
            raise MemoryError
        return aggregate(X, y, **options)

    aggregate = inputs.aggregate
    monkeypatch.setattr(inputs, "aggregate", no_memory)
    for _ in range(2):
        assert_same(merged, plain, sums_of(plain)["gradients"])
    assert not is_compact(merged)
    assert asked[1:] == [N]  # once, after the sample


def test_large_copies_are_not_made(monkeypatch):
    monkeypatch.setattr(inputs, "_MAX_NUMBERS", 1000)
    merged, plain = pair("float64")
    assert_same(merged, plain, sums_of(plain)["gradients"])
    assert not is_compact(merged)


def test_rows_that_stand_for_several_records_are_merged_already():
    X, y = records("float64")
    assert Objective("logistic", X, y, row_norm=2.0, counts=np.full(N, 2))._rows.compact is None
