"""Records on a Dask cluster: the same integers as on one machine, whatever happens to the workers."""

import copy
import os
import pickle
import signal
import time
import warnings

import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from distributed import wait
from distributed.comm import tcp
from scipy.stats import binom

from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import (
    dp_agd,
    dp_sgd,
    dp_sgd_gradient,
    dp_sgd_output,
    noisy_gd,
    rrpsgd,
    whitened_gd,
)
from dperm.data.dask_rows import DistributedRows, EncodedCollection, Partition
from dperm.data.passes import compensated_sum
from dperm.data.passes_per_row import Predictions
from dperm.errors import DataError
from dperm.losses import Softmax
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from dperm.objective.gradients import clipped_gradient_sum
from reference import clusters
from reference.clusters import partitioned, random_records

N = 3000
CUTS = {"one": (N,), "even": (1000,) * 3, "uneven": (1, 517, 2, 1980, 500)}


@pytest.fixture(scope="module")
def small_cluster():
    with clusters.cluster_of_processes(n_workers=1, default=False) as client:
        yield client


@pytest.fixture
def lone_worker(small_cluster):
    """A client of a cluster with a single live worker."""
    clusters.wait_for_workers(small_cluster, 1)
    with small_cluster.as_current():
        yield small_cluster


def both(loss, X, y, lengths, **settings):
    """The same records on the cluster and here."""
    settings = {"row_norm": 1.5, "fit_intercept": True, **settings}
    return Objective(loss, *partitioned(X, y, lengths), **settings), Objective(loss, X, y, **settings)


def assert_same(there, here, make=lambda o, w: clipped_gradient_sum(o, w, 0.3), w=None):
    """Compare the integers of a sum, by default of clipped gradients, here and on the cluster."""
    w = weights(here) if w is None else w
    assert np.array_equal(make(there, w)._integers, make(here, w)._integers)


def weights(objective, seed=1):
    return np.random.default_rng(seed).normal(size=objective.shape)


D = 13


def test_sums_without_privacy_are_close_and_do_not_depend_on_the_workers(client):
    there, here = both("logistic", *random_records(N, D, np.float32), CUTS["uneven"])
    w = weights(here)
    value, gradient = there.value_and_gradient(w)
    assert value == pytest.approx(here.value(w), rel=1e-6)
    np.testing.assert_allclose(gradient, here.gradient(w), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(there.gradient(w), here.gradient(w), rtol=1e-12, atol=1e-15)
    clusters.trap(client, clusters.holders_of(there)[0])
    assert there.value_and_gradient(w)[0] == value
    assert np.array_equal(there.value_and_gradient(w)[1], gradient)


def test_a_compensated_sum_is_correctly_rounded_where_a_plain_one_is_not():
    terms = [np.array([1.0, -1e16]), np.array([1e16, 1.0]), np.array([3.0, 3.0]), np.array([-1e16, 1e16])]
    assert compensated_sum(terms).tolist() == [4.0, 4.0]
    assert np.isinf(compensated_sum([np.array([1e308]), np.array([1e308])]))[0]


def test_predictions_stay_on_the_workers_until_asked_for(client):
    there, here = both("logistic", *random_records(N, D), CUTS["uneven"])
    w = weights(here)
    predictions = there._rows.run(Predictions(w), 1)
    assert isinstance(predictions, dask.array.Array)
    assert np.array_equal(predictions.compute(), here._rows.run(Predictions(w), 1))


# -- samples ---------------------------------------------------------------------------------------------


def test_samples_are_drawn_by_partition_from_streams_of_one_key():
    run, other = (next(SecretBatches("poisson", random_bits(seed), 20, 100)) for seed in (0, 1))
    again = next(SecretBatches("poisson", random_bits(0), 20, 100))
    samples = run._in_partitions()
    assert np.array_equal(samples.for_partition(3, 5000), again._in_partitions().for_partition(3, 5000))
    assert run._in_partitions() == samples
    assert other._in_partitions().key != samples.key
    assert samples.key.hex() not in repr(samples)
    assert repr(samples.key) not in repr(samples)


def test_samples_of_steps_and_partitions_are_independent_and_of_the_right_size():
    batches = SecretBatches("poisson", random_bits(0), 250, 1000)
    steps = [next(batches)._in_partitions() for _ in range(40)]
    assert len({each.key for each in steps}) == 1
    n = 2000
    drawn = np.zeros((40, 5, n), dtype=bool)
    for step, samples in enumerate(steps):
        for number in range(5):
            indices = samples.for_partition(number, n)
            assert np.all(np.diff(indices) > 0)
            drawn[step, number, indices] = True
    flat = drawn.reshape(200, n)
    low, high = binom.ppf([1e-8, 1 - 1e-8], n, 0.25)
    assert low <= flat.sum(axis=1).min() <= flat.sum(axis=1).max() <= high
    low, high = binom.ppf([1e-9, 1 - 1e-9], 200, 0.25)  # 2,000 records: false alarm 4e-6
    assert low <= flat.sum(axis=0).min() <= flat.sum(axis=0).max() <= high
    together = (flat.astype(float) @ flat.T)[np.triu_indices(200, 1)]
    low, high = binom.ppf([1e-11, 1 - 1e-11], n, 1 / 16)  # 19,900 pairs: false alarm 4e-7
    assert low <= together.min() <= together.max() <= high


def test_a_sum_over_a_sample_is_that_of_its_records(client):
    X, y = random_records(N, D)
    there, here = both("logistic", X, y, CUTS["uneven"])
    w = weights(here)
    rows = next(SecretBatches("poisson", random_bits(3), N / 5, N))
    got = clipped_gradient_sum(there, w, 0.3, rows=rows)
    samples, starts = rows._in_partitions(), np.cumsum([0, *CUTS["uneven"]])
    members = np.concatenate([samples.for_partition(k, n) + starts[k] for k, n in enumerate(CUTS["uneven"])])
    assert 0 < len(members) < N
    kept = Objective("logistic", X[members], y[members], row_norm=1.5, fit_intercept=True, n_public=N)
    assert np.array_equal(got._integers, clipped_gradient_sum(kept, w, 0.3)._integers)
    assert np.array_equal(got._integers, clipped_gradient_sum(there, w, 0.3, rows=rows)._integers)


def test_the_driver_never_sees_a_sample(client, monkeypatch):
    def refuse(*_):
        raise AssertionError("a sample was drawn on the driver")

    monkeypatch.setattr("dperm.mechanisms.batches.PartitionSamples.for_partition", refuse)
    monkeypatch.setattr("dperm.private_values.secret_rows.SecretRows._among", refuse)
    monkeypatch.setattr("dperm.mechanisms.batches.poisson_sample", refuse)
    X, y = random_records(N, D)
    there = Objective("logistic", *partitioned(X, y, CUTS["even"]))
    options = {"batch_size": 300, "steps": 10, "random_state": 1}
    first, second = (dp_sgd(there, 1.0, 1e-6, **options).coef for _ in range(2))
    assert np.array_equal(first, second)
    unseeded = [dp_sgd(there, 1.0, 1e-6, batch_size=300, steps=10).coef for _ in range(2)]
    assert not np.array_equal(*unseeded)


def test_a_full_sample_gives_full_batches(client):
    there, here = both("logistic", *random_records(N, D), CUTS["even"])
    options = {"batch_size": N, "steps": 10}
    sampled = [dp_sgd(each, np.inf, 1e-6, **options).coef for each in (there, here)]
    assert np.array_equal(*sampled)


@pytest.mark.parametrize(
    ("algorithm", "options", "reason"),
    [
        (dp_sgd, {"sampling": "without_replacement", "neighbors": "replace_one"}, "sampling='poisson'"),
        (dp_sgd, {"sampling": "permutation", "neighbors": "replace_one"}, "sampling='poisson'"),
        (dp_sgd_gradient, {}, "use dp_sgd"),
        (dp_sgd_output, {}, "use dp_sgd"),
        (rrpsgd, {}, "use dp_sgd"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_needs_an_order_of_records_is_refused(client, algorithm, options, reason):
    X, y = random_records(N, D)
    there = Objective("logistic", *partitioned(X, y, CUTS["even"]))
    ledger = Ledger(10.0, 1e-3, allow_seeded=True)
    with pytest.raises(ValueError, match=reason):
        algorithm(there, 1.0, 1e-6, ledger=ledger, **options)
    assert not ledger.history()
    with pytest.raises(DataError, match="noisy_gd"):
        there._rows.descend()


# -- workers that die ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_worker_that_dies_in_a_pass_changes_nothing(client, how):
    there, here = both("logistic", *random_records(N, D), CUTS["uneven"])
    clusters.trap(client, clusters.holders_of(there)[0], how=how)
    assert_same(there, here)


def trap_one(client, objective):
    clusters.trap(client, clusters.holders_of(objective)[-1], passes=3)


def trap_all(client, objective):
    for worker in clusters.process_ids(client):
        clusters.trap(client, worker, passes=2)


def kill_all(client, objective):
    clusters.kill_all(client)


@pytest.mark.parametrize(
    ("workers", "lose", "algorithm"),
    [
        ("client", trap_one, whitened_gd),
        ("client", trap_one, dp_sgd),
        pytest.param("client", trap_one, noisy_gd, marks=pytest.mark.slow),
        pytest.param("client", trap_one, dp_agd, marks=pytest.mark.slow),
        ("client", trap_all, noisy_gd),
        ("client", kill_all, noisy_gd),
        ("lone_worker", trap_all, noisy_gd),
        ("lone_worker", kill_all, noisy_gd),
    ],
)
def test_a_fit_that_loses_workers_is_charged_once_and_ends_the_same(request, workers, lose, algorithm):
    client = request.getfixturevalue(workers)
    there, _ = both("logistic", *random_records(N, D), CUTS["uneven"], row_norm=2.0)
    options = {"random_state": 5, **({} if algorithm is dp_agd else {"steps": 6})}
    expected = algorithm(there, 1.0, 1e-6, **options)
    pids, ledger = clusters.process_ids(client), Ledger(10.0, 1e-3, allow_seeded=True)
    lose(client, there)
    got = algorithm(there, 1.0, 1e-6, ledger=ledger, **options)
    assert np.array_equal(got.coef, expected.coef)
    assert len(ledger.history()) == 1
    left = pids.items() & clusters.process_ids(client).items()
    assert len(left) == (len(pids) - 1 if lose is trap_one else 0)


def test_a_worker_that_dies_between_passes(client):
    there, here = both("logistic", *random_records(N, D), CUTS["even"])
    w = weights(here)
    expected = clipped_gradient_sum(here, w, 0.3)._integers
    for pause in (0.0, 0.5):
        clusters.wait_for_workers(client)
        victim = clusters.holders_of(there)[0]
        os.kill(clusters.process_ids(client)[victim], signal.SIGKILL)
        time.sleep(pause)
        start = time.monotonic()
        assert np.array_equal(clipped_gradient_sum(there, w, 0.3)._integers, expected)
        assert time.monotonic() - start < 25.0  # less than the timeout of a connection to a dead worker


# -- all workers that die at once --------------------------------------------------------------------------


@pytest.mark.parametrize("dies", ["matrix", "targets"])
def test_a_lone_worker_that_dies_while_it_makes_the_records(lone_worker, tmp_path, dies):
    X, y = random_records(N, D)
    blocks = {"matrix": X, "targets": y}
    dask_blocks = {
        name: dask.delayed(clusters.dying_once)(tmp_path / "died", block)
        if name == dies
        else dask.delayed(np.copy)(block)
        for name, block in blocks.items()
    }
    there = Objective(
        "logistic",
        dask.array.from_delayed(dask_blocks["matrix"], X.shape, X.dtype),
        dask.array.from_delayed(dask_blocks["targets"], y.shape, y.dtype),
    )
    assert (tmp_path / "died").exists()
    assert_same(there, Objective("logistic", X, y))


def test_predictions_outlive_the_workers(lone_worker):
    there, here = both("logistic", *random_records(N, D), CUTS["uneven"])
    w = weights(here)
    predictions = there._rows.run(Predictions(w), 1)
    clusters.kill_all(lone_worker)
    assert np.array_equal(predictions.compute(), here._rows.run(Predictions(w), 1))


# -- sources that change ---------------------------------------------------------------------------------


def test_a_partition_whose_source_lost_records_is_an_error(lone_worker, tmp_path):
    X, y = random_records(1000, D)
    files = [tmp_path / "0.npy", tmp_path / "1.npy"]
    for file, block in zip(files, (X[:500], X[500:]), strict=True):
        np.save(file, block)
    loaded = [dask.array.from_delayed(dask.delayed(np.load)(file), (500, D), X.dtype) for file in files]
    there = Objective("logistic", dask.array.concatenate(loaded), dask.array.from_array(y, chunks=500))
    w = weights(there)
    expected = clipped_gradient_sum(there, w, 0.3)._integers
    clusters.kill_all(lone_worker)
    assert np.array_equal(clipped_gradient_sum(there, w, 0.3)._integers, expected)  # the same files: no error
    np.save(files[1], X[500:-7])
    assert np.array_equal(clipped_gradient_sum(there, w, 0.3)._integers, expected)  # in memory
    clusters.wait_for_workers(lone_worker, 1)
    clusters.kill_all(lone_worker)
    ledger = Ledger(10.0, 1e-3, allow_seeded=True)
    with pytest.raises(DataError, match=r"partition 1 has changed .*\(493,\), got shape \(500,\)"):
        noisy_gd(there, 1.0, 1e-6, steps=3, ledger=ledger)
    assert len(ledger.history()) == 1


# -- what travels ----------------------------------------------------------------------------------------


def test_no_block_is_sent_to_the_driver(client, monkeypatch):
    """The records (16 MB) are made and read on the workers, which send only sums."""
    n, d = 20_000, 100
    X = dask.array.random.default_rng(0).uniform(-0.1, 0.1, (n, d), chunks=(2500, d))
    y = dask.array.where(X[:, 0] > 0, 1.0, -1.0)
    received = []
    read = tcp.from_frames

    def counted(frames, *args, **kwargs):
        received.append(sum(memoryview(frame).nbytes for frame in frames))
        return read(frames, *args, **kwargs)

    def refuse(*_, **__):
        raise AssertionError("a partition was made on the driver")

    monkeypatch.setattr(tcp, "from_frames", counted)
    monkeypatch.setattr(Partition, "__init__", refuse)
    there = Objective("logistic", X, y, fit_intercept=True)
    result = whitened_gd(there, 1.0, 1e-6, steps=5)
    batches = SecretBatches("poisson", random_bits(0), 4000, n)
    clipped_gradient_sum(there, result.coef, 0.3, rows=next(batches))
    assert result.coef.shape == (d + 1,)
    assert 0 < sum(received) < 2e6
    assert max(received) < n * 8  # less than a number per record


def test_rows_on_a_cluster_are_not_copied(client):
    there = Objective("logistic", *partitioned(*random_records(30, D), (30,)))
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="client"):
            way(there._rows)
    assert isinstance(there.with_loss("hinge")._rows, DistributedRows)


# -- collections -----------------------------------------------------------------------------------------


def test_data_frames_with_empty_partitions(client):
    X, y = random_records(1000, 4)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y, place=np.arange(1000))
    kept = frame[(frame.place < 250) | (frame.place >= 600)]
    lazy = dask.dataframe.from_pandas(frame, npartitions=8)
    lazy = lazy[(lazy.place < 250) | (lazy.place >= 600)]
    there = Objective("logistic", lazy[list("abcd")], lazy["label"])
    here = Objective("logistic", np.ascontiguousarray(kept[list("abcd")]), kept.label.to_numpy())
    assert (there.n_public, there.n_partitions) == (650, 6)
    assert_same(there, here)


def test_columns_of_partitions_are_taken_by_name(client):
    """Whatever their order in a partition; a column of another name is an error."""
    X, y = random_records(1000, 4)
    frame, targets = pd.DataFrame(X, columns=list("abcd")), dask.array.from_array(y, chunks=((400, 600),))

    def collection(second):
        parts = [dask.delayed(frame[:400]), dask.delayed(second)]
        return dask.dataframe.from_delayed(parts, meta=frame[:0], verify_meta=False)

    there = Objective("logistic", collection(frame[400:][list("dcba")]), targets)
    assert_same(there, Objective("logistic", X, y))
    with pytest.raises(DataError, match=r"partition of X lacks column 'a' of the collection; it has .*'A'"):
        Objective("logistic", collection(frame[400:].rename(columns={"a": "A"})), targets)


def test_frames_that_the_workers_encode(client):
    frame = pd.DataFrame({"letter": list("ab") * 200, "number": np.linspace(0, 1, 400)})
    y = pd.Series(np.where(np.arange(400) % 3, 1.0, -1.0))
    lazy, lazy_y = (dask.dataframe.from_pandas(each, npartitions=4) for each in (frame, y))
    there = Objective("logistic", EncodedCollection(lazy, clusters.encoded), lazy_y)
    here = Objective("logistic", clusters.encoded(frame), y.to_numpy())
    assert there._rows.dtype == np.float32
    assert_same(there, here, w=np.ones(2))
    frame.loc[250, "letter"] = "c"
    lazy = dask.dataframe.from_pandas(frame, npartitions=4)
    with pytest.raises(DataError, match=r"letter 'c' at row 50 .*partition 2, which starts at row 200"):
        Objective("logistic", EncodedCollection(lazy, clusters.encoded), lazy_y)


def test_column_chunks_are_joined_and_targets_rechunked(client):
    X, y = random_records(1000, 6)
    there = Objective(
        "logistic", dask.array.from_array(X, chunks=(300, 4)), dask.array.from_array(y, chunks=700)
    )
    here = Objective("logistic", X, y)
    assert there.n_partitions == 4
    assert_same(there, here)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool, np.float16])
def test_other_types_and_orders_are_read_like_on_one_machine(client, dtype):
    X, y = random_records(1000, 6)
    X = np.asfortranarray((X * 3).astype(dtype))
    there = Objective("logistic", *partitioned(X, y, (400, 600)), row_norm=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = Objective("logistic", X, y, row_norm=3.0)
    assert there._rows.dtype == here._rows.dtype
    assert_same(there, here)


def test_persisted_collections(client):
    X, y = random_records(2000, 6)
    workers = sorted(clusters.process_ids(client))
    lazy_X, lazy_y = partitioned(X, y, (500,) * 4)
    lazy_X = client.persist(lazy_X, workers=workers[0])
    lazy_y = client.persist(lazy_y, workers=workers[1])
    wait([lazy_X, lazy_y])
    there, here = Objective("logistic", lazy_X, lazy_y), Objective("logistic", X, y)
    assert_same(there, here)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_blocks_that_are_sparse(client, kind):
    X, y = random_records(1000, 6)
    X[np.abs(X) < 0.4] = 0.0
    lazy_X, lazy_y = partitioned(X, y, (400, 600))
    there = Objective("logistic", lazy_X.map_blocks(kind, dtype=X.dtype, meta=np.ones((0, 0))), lazy_y)
    here = Objective("logistic", X, y)
    assert_same(there, here)


def test_blocks_of_other_types_are_named(client):
    lazy_X, lazy_y = partitioned(*random_records(1000, 6), (400, 600))
    strange = lazy_X.map_blocks(clusters.StrangeBlock, dtype=np.float64, meta=np.ones((0, 0)))
    with pytest.raises(DataError, match=r"blocks of X must be arrays, .*got .*StrangeBlock"):
        Objective("logistic", strange, lazy_y)


def bad(place, value, target=False):
    X, y = random_records(1000, 6)
    if target:
        y[place] = value
    else:
        X[place, 2:4] = value  # the norm of two finite entries may overflow
    return X, y


@pytest.mark.parametrize(
    ("loss", "records", "message"),
    [
        ("logistic", bad(0, np.nan), "row 0, column 2"),
        ("logistic", bad(777, np.nan), "row 777, column 2"),
        ("logistic", bad(400, np.inf), "row 400, column 2"),
        ("logistic", bad(999, 1.7e308), "row 999"),
        ("logistic", bad(801, np.nan, target=True), "row 801"),
        ("logistic", bad(801, 3.0, target=True), r"must be -1 or \+1 .* row 801"),
        (Softmax(3), bad(slice(650, None), 4.0, target=True), r"class codes 0 \.\. 2 .* row 650"),
    ],
)
def test_records_that_cannot_be_used_are_named_by_their_place_in_the_whole(client, loss, records, message):
    X, y = records
    y = np.maximum(y, 0.0) if isinstance(loss, Softmax) else y
    with pytest.raises(DataError, match=message):
        Objective(loss, *partitioned(X, y, (400, 300, 300)))


def test_collections_that_do_not_match(client):
    X, y = random_records(1000, 6)
    lazy_X, lazy_y = partitioned(X, y, (400, 600))
    unknown = lazy_X[lazy_X[:, 0] > -np.inf]
    frame = dask.dataframe.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1)
    for X_, y_, message in [
        (lazy_X, y, "must be a Dask array or series"),
        (lazy_X, None, "y must be given"),
        (lazy_X, lazy_y[:900], r"shape \(1000,\), got shape \(900,\)"),
        (lazy_X, lazy_X, "one target per record"),
        (lazy_X[:, 0], lazy_y, "two dimensions"),
        (lazy_X.astype("O"), lazy_y, "real numbers"),
        (frame, frame["a"], "column 'b'"),
        (unknown, lazy_y.rechunk(500)[:500], "2 partitions and y has 1"),
        (unknown, lazy_y.rechunk(500), r"shape \(400,\), got shape \(500,\)"),
        (lazy_X[:0], lazy_y[:0], "at least one record"),
    ]:
        with pytest.raises(DataError, match=message):
            Objective("logistic", X_, y_)


def test_partitions_of_different_widths(client):
    blocks = [np.ones((10, 3)), np.ones((10, 4))]
    X = dask.array.map_blocks(
        lambda block_info=None: blocks[block_info[None]["chunk-location"][0]],
        chunks=((10, 10), (3,)),
        dtype=np.float64,
    )
    with pytest.raises(DataError, match="from row 10 on, has 4 columns"):
        Objective("logistic", X, dask.array.ones(20, chunks=10))


def test_an_error_of_the_tasks_that_make_the_records_comes_out(client):
    def fail(block):
        raise OSError("disk gone")

    X = dask.array.ones((20, 3), chunks=(10, 3)).map_blocks(fail, dtype=np.float64, meta=np.ones((0, 0)))
    with pytest.raises(OSError, match="disk gone"):
        Objective("logistic", X, dask.array.ones(20, chunks=10))


def test_without_a_client_the_error_says_what_to_start(monkeypatch):
    def current(allow_global=True):
        raise ValueError("No clients found")

    monkeypatch.setattr("distributed.Client.current", current)
    with pytest.raises(RuntimeError, match=r"dask\.distributed\.Client\(\)"):
        Objective("logistic", *partitioned(*random_records(30, D), (30,)))


def test_another_version_on_the_workers_is_an_error(client, monkeypatch):
    monkeypatch.setattr("dperm.__version__", "0.0.1")
    with pytest.raises(RuntimeError, match=r"need dperm 0\.0\.1"):
        Objective("logistic", *partitioned(*random_records(30, D), (30,)))
