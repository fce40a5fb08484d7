"""The objective: values, conventions, errors, threads, forks."""

import ctypes
import math
import multiprocessing
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from scipy.optimize import check_grad
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from dperm import Numeric, Objective, Schema
from dperm._kernels import row_kernels
from dperm.data.passes_per_row import Predictions
from dperm.errors import DataError
from dperm.losses import Huber
from dperm.objective import descents
from dperm.objective.descents import CyclicBatches, DescentPlan
from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.losses import clipped_loss_sums, coordinate_loss_sums
from dperm.objective.moments import gram_sum
from reference import awkward_arrays, numpy_kernels
from reference.losses import EXAMPLES, LOSSES

losses = pytest.mark.parametrize("loss", LOSSES)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True])


def problem(n_rows=60, width=4, dtype=np.float64):
    return awkward_arrays.ordinary(n_rows, width, dtype)


def objective_of(loss, x, y, **keywords):
    return Objective(EXAMPLES[loss], x, y, **keywords)


# -- values ------------------------------------------------------------------------------------------


@losses
@intercepts
@pytest.mark.parametrize("penalize_intercept", [False, True])
def test_value_and_gradient_follow_the_formula(loss, fit_intercept, penalize_intercept):
    x, y, w, _ = problem()
    w = w[: 4 + fit_intercept]
    objective = objective_of(
        loss, x, y, l2=0.3, row_norm=1.2, fit_intercept=fit_intercept,
        penalize_intercept=penalize_intercept, n_public=100,
    )  # fmt: skip
    gradient, total = numpy_kernels.gradient_sum(loss, x, y, w, intercept=fit_intercept, row_norm=1.2)
    ridge = w.copy()
    if fit_intercept and not penalize_intercept:
        ridge[-1] = 0
    assert objective.value(w) == pytest.approx(float(total) / 100 + 0.15 * ridge @ ridge, rel=1e-12)
    assert np.allclose(objective.gradient(w), (gradient / 100).astype(float) + 0.3 * ridge, rtol=1e-12)
    assert objective.dimension == 4 + fit_intercept
    together = objective.value_and_gradient(w)
    assert together[0] == objective.value(w)
    assert np.array_equal(together[1], objective.gradient(w))


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "huber"])
@intercepts
def test_gradient_is_the_slope_of_the_value(loss, fit_intercept):
    x, y, w, _ = problem()
    objective = objective_of(loss, x, y, l2=0.1, fit_intercept=fit_intercept, row_norm=2.0)
    for scale in (0.1, 1.0, 5.0):
        start = scale * w[: objective.dimension]
        assert check_grad(objective.value, objective.gradient, start) < 1e-6


@intercepts
def test_same_optimum_as_scikit_learn(fit_intercept):
    """scikit-learn minimises C sum loss + ||w||^2 / 2: the mean loss with l2 = 1 / (n C)."""
    x, y, *_ = problem(200)
    row_norm = 1.01 * float(numpy_kernels.row_norms(x, fit_intercept).max())
    l2 = 0.05
    model = LogisticRegression(C=1 / (200 * l2), fit_intercept=fit_intercept, tol=1e-10, max_iter=1000)
    model.fit(x, y)
    objective = Objective("logistic", x, y, l2=l2, row_norm=row_norm, fit_intercept=fit_intercept)
    w = np.append(model.coef_[0], model.intercept_) if fit_intercept else model.coef_[0]
    assert np.abs(objective.gradient(w)).max() < 1e-6


def test_private_sums_follow_the_formula():
    x, y, w, direction = problem()
    objective = Objective("logistic", x, y, l2=9.0, fit_intercept=True)
    keywords = {"intercept": True, "row_norm": 1.0}
    gradient = clipped_gradient_sum(objective, w, 0.2)
    exact = numpy_kernels.clipped_gradient_sum("logistic", x, y, w, 0.2, **keywords)
    assert np.allclose(gradient._integers * gradient.grid, exact.astype(float), atol=1e-9)
    scores = clipped_loss_sums(objective, w, direction, [0.0, -2.0], 0.9)
    exact = numpy_kernels.clipped_loss_sums("logistic", x, y, w, direction, [0.0, -2.0], 0.9, **keywords)
    assert np.allclose(scores._integers * scores.grid, exact.astype(float), atol=1e-9)
    assert (gradient.add_or_remove, gradient.shape, gradient.scores) == (0.2, (5,), False)
    assert scores.add_or_remove == pytest.approx(0.9)
    assert scores.add_or_remove <= 0.9
    assert (scores.shape, scores.scores) == ((2,), True)


def test_non_finite_labels_may_count_as_zero():
    x, y, w, _ = problem()
    y[3] = np.nan
    spared = Objective("logistic", x, y, non_finite="zero")
    without = Objective("logistic", np.delete(x, 3, axis=0), np.delete(y, 3), n_public=60)
    assert np.allclose(spared.gradient(w[:4]), without.gradient(w[:4]))


@pytest.mark.parametrize("dtype", awkward_arrays.DTYPES)
@pytest.mark.parametrize("bound", [0.1, 2.0, 1e39])
def test_targets_are_clipped_to_the_bound(dtype, bound):
    """The Lipschitz constant on a ball depends on the target bound."""
    x, _, w, _ = problem(dtype=dtype)
    y = np.linspace(-3, 3, 60).astype(dtype)
    y[:3] = (np.finfo(dtype).max, -np.finfo(dtype).max, bound if bound < 1e38 else 0)
    loss = Huber(1e4, target_bound=bound)
    objective = Objective(loss, x, y)
    assert np.abs(objective._rows.y.astype(float)).max() <= bound
    assert np.array_equal(np.sign(objective._rows.y), np.sign(y))
    within = np.abs(y.astype(float)) <= bound
    assert np.array_equal(objective._rows.y[within], y[within])
    assert np.abs(y).max() == np.finfo(dtype).max  # the caller's array is not modified
    for scale in (0.01, 1.0):
        at = scale * w[:4]
        for i in range(60):
            slope = Objective(loss, x[i : i + 1], y[i : i + 1]).gradient(at)
            assert np.linalg.norm(slope) <= loss.lipschitz(1.0, np.linalg.norm(at)) * (1 + 1e-5)


def test_infinite_targets_are_not_clipped():
    x, y, *_ = problem()
    y[7] = np.inf
    with pytest.raises(DataError, match="y contains NaN or infinity: first at row 7"):
        Objective(Huber(target_bound=1.0), x, y)
    spared = Objective(Huber(target_bound=1.0), x, y, non_finite="zero")
    without = Objective(Huber(target_bound=1.0), np.delete(x, 7, axis=0), np.delete(y, 7), n_public=60)
    w = np.ones(4)
    sums = [clipped_gradient_sum(each, w, 1.0)._integers.tolist() for each in (spared, without)]
    assert sums[0] == sums[1]


def test_another_loss_on_the_same_records():
    x, y, w, _ = awkward_arrays.ordinary(50, 4, np.float64)
    hinge = Objective("hinge", x, y, l2=0.1)
    smooth = hinge.with_loss("huberized_hinge")
    fresh = Objective("huberized_hinge", x, y, l2=0.1)
    assert smooth._rows is hinge._rows
    assert smooth.value(w[:4]) == fresh.value(w[:4]) != hinge.value(w[:4])
    clipped_gradient_sum(hinge, w[:4], 0.3)
    bounded, same = clipped_gradient_sum(smooth, w[:4], 0.3), clipped_gradient_sum(fresh, w[:4], 0.3)
    assert bounded.sensitivity("add_or_remove") == same.sensitivity("add_or_remove")
    for other in ("huber", Huber(target_bound=3.0)):
        with pytest.raises(ValueError, match="has other targets"):
            hinge.with_loss(other)
    with pytest.raises(ValueError, match="has other targets"):
        Objective(Huber(target_bound=1.0), x, y).with_loss(Huber(target_bound=2.0))


# -- errors ------------------------------------------------------------------------------------------

X, Y = np.ones((3, 2)), np.array([1.0, -1.0, 1.0])
NAN_X = np.array([[1.0, 1.0], [1.0, np.nan], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"loss": "logit"}, ValueError, "loss must be .* got 'logit'"),
        ({"l2": -1.0}, ValueError, r"l2 must be .* got -1\.0"),
        ({"l2": math.nan}, ValueError, "l2 must be .* got nan"),
        ({"l2": math.inf}, ValueError, "l2 must be .* got inf"),
        ({"row_norm": 0.0}, ValueError, r"row_norm must be .* got 0\.0"),
        ({"row_norm": math.nan}, ValueError, "row_norm must be .* got nan"),
        ({"row_norm": math.inf}, ValueError, "row_norm must be .* got inf"),
        ({"n_threads": 0}, ValueError, "n_threads must be .* got 0"),
        ({"n_threads": 1.5}, ValueError, r"n_threads must be .* got 1\.5"),
        ({"n_threads": True}, ValueError, "n_threads must be .* got True"),
        ({"non_finite": "drop"}, ValueError, "non_finite must be .* got 'drop'"),
        ({"n_public": 0}, ValueError, "n_public must be .* got 0"),
        ({"n_public": 2.5}, ValueError, r"n_public must be .* got 2\.5"),
        ({"n_public": math.nan}, ValueError, "n_public must be .* got nan"),
        ({"X": np.ones(3)}, DataError, r"X must have two dimensions .* got shape \(3,\)"),
        ({"X": pl.LazyFrame({"a": [1.0]})}, DataError, r"X is a LazyFrame, .*: collect\(\) it first"),
        ({"X": np.ones((0, 2))}, DataError, r"X must have at least .* got shape \(0, 2\)"),
        ({"X": np.ones((3, 0))}, DataError, r"X must have at least .* got shape \(3, 0\)"),
        ({"X": np.ones((3, 2)) * 1j}, DataError, "X must hold real .* complex128"),
        ({"X": np.array([["a", "b"]] * 3)}, DataError, "X must hold real .* <U1"),
        ({"X": NAN_X}, DataError, r"X contains NaN or infinity: first at row 1, column 1 \(nan\)"),
        ({"y": np.ones(4)}, DataError, r"y must have one target .* got shape \(4,\)"),
        ({"y": np.ones((3, 1))}, DataError, r"y must have one target .* got shape \(3, 1\)"),
        ({"y": np.array([1, 0, 1])}, DataError, r"y must be -1 or \+1 .* got .*0.* at row 1"),
        ({"y": np.array(["a", "b", "a"])}, DataError, "y must hold real numbers"),
        ({"y": Y * 1j}, DataError, "y must hold real numbers, got dtype complex128"),
        ({"y": np.array([1, np.nan, 1])}, DataError, r"y contains NaN or infinity: first at row 1 \(nan\)"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        Objective(**{"loss": "logistic", "X": X, "y": Y} | arguments)


@pytest.mark.parametrize("clip", [0.0, -1.0, math.nan, math.inf, 2.0**-65, 2.0**65])
def test_bad_clips(clip):
    objective = Objective("logistic", X, Y)
    for call in (
        lambda: clipped_gradient_sum(objective, [0, 0], clip),
        lambda: clipped_loss_sums(objective, [0, 0], [0, 0], [1], clip),
    ):
        with pytest.raises(ValueError, match=r"clip must be .* got " + re.escape(repr(clip))):
            call()


@pytest.mark.parametrize("w", [[1.0], [[1.0, 1.0]], [1.0, math.nan], [math.inf, 1.0]])
def test_bad_weights(w):
    objective = Objective("logistic", X, Y)
    calls = {
        "w": [
            lambda: objective.value(w),
            lambda: objective.gradient(w),
            lambda: clipped_gradient_sum(objective, w, 1.0),
            lambda: clipped_loss_sums(objective, w, [0, 0], [1], 1.0),
        ],
        "direction": [lambda: clipped_loss_sums(objective, [0, 0], w, [1], 1.0)],
    }
    for name, group in calls.items():
        for call in group:
            with pytest.raises(ValueError, match=f"^{name} must"):
                call()


@pytest.mark.parametrize("steps", [[], [[1.0]], [math.nan], [1.0, math.inf]])
def test_bad_steps(steps):
    with pytest.raises(ValueError, match="steps must be"):
        clipped_loss_sums(Objective("logistic", X, Y), [0, 0], [0, 0], steps, 1.0)


def test_a_grid_that_is_too_coarse():
    many = Objective("logistic", np.ones((2, 3000), np.float32), np.ones(2), n_public=2**46)
    with pytest.raises(ValueError, match="grid is too coarse"):
        clipped_gradient_sum(many, np.zeros(3000), 1.0)
    with pytest.raises(ValueError, match=r"n_public .* too large"):
        clipped_loss_sums(Objective("logistic", X, Y, n_public=2**60), [0, 0], [0, 0], [1], 1.0)


# -- threads and processes ---------------------------------------------------------------------------


def large_objective(threads):
    x, y, w, direction = awkward_arrays.ordinary(3 * 4096, 8, np.float64)
    return Objective("logistic", x, y, fit_intercept=True, n_threads=threads), w[:9], direction[:9]


def large_integers(threads):
    objective, w, direction = large_objective(threads)
    gradient = clipped_gradient_sum(objective, w, 0.5)
    scores = clipped_loss_sums(objective, w, direction, [0.0, 1.0, 2.0], 1.0)
    return [*gradient._integers.tolist(), *scores._integers.tolist()]


@pytest.mark.parametrize("threads", [2, 3, 7, 100_000, -1, None])
def test_threads_do_not_change_the_sums(threads):
    assert large_integers(threads) == large_integers(1)


def test_passes_in_many_python_threads():
    objective, w, _ = large_objective(2)
    expected = clipped_gradient_sum(objective, w, 0.5)._integers.tolist()
    with ThreadPoolExecutor(4) as pool:
        sums = pool.map(lambda _: clipped_gradient_sum(objective, w, 0.5)._integers.tolist(), range(40))
        assert all(each == expected for each in sums)


def progress_during(call):
    """Steps that another Python thread makes during ``call``: none unless it releases the GIL."""
    counted, stop, started = [0], threading.Event(), threading.Event()

    def count():
        started.set()
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)  # releases the GIL

    before = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    # No forced switches. Set before the thread starts, as a pending wait keeps its interval.
    sys.setswitchinterval(1000.0)
    try:
        thread.start()
        started.wait()
        at_start = counted[0]
        call()
        return counted[0] - at_start
    finally:
        stop.set()
        sys.setswitchinterval(before)
        thread.join()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="this Python has no lock")
def test_the_gil_is_released_during_a_pass():
    x, y, w, direction = awkward_arrays.ordinary(200_000, 15, np.float64)
    settings = {"fit_intercept": True, "n_threads": 1}
    objective = Objective("logistic", x, y, **settings)
    sparse = Objective("logistic", csr_array(x), y, **settings)
    softmax = Objective("softmax", x, y > 0, n_classes=2, **settings)
    schema = Schema([Numeric(f"x{j}", -1, 1) for j in range(15)])
    table = Objective(
        "logistic", schema.encode({f"x{j}": x[:, j] for j in range(15)}, "float64"), y, **settings
    )
    plan = DescentPlan(objective.loss, 100, 1000, 0.1, 1.0)
    steps = np.zeros(20)
    calls = {
        "loss sums": lambda: clipped_loss_sums(objective, w, direction, steps, 1.0),
        "gradient": lambda: clipped_gradient_sum(objective, w, 1.0),
        "sparse": lambda: clipped_gradient_sum(sparse, w, 1.0),
        "table": lambda: clipped_gradient_sum(table, w, 1.0),
        "softmax": lambda: clipped_gradient_sum(softmax, np.stack([w, w], axis=1), 1.0),
        "gram": lambda: gram_sum(objective),
        "sgd": lambda: descents._descent(objective, plan, 1.0, 0.0).make(
            CyclicBatches(np.arange(200_000), 1000)
        ),
        "axes": lambda: coordinate_loss_sums(objective, w, 0.1),
        "value": lambda: objective.value(w),
        "norms": lambda: row_kernels.DenseRows(x, y, True, 1.0, 1),
        "predictions": lambda: objective._rows.run(Predictions(w), 1),
    }
    for name, call in calls.items():
        # a busy machine may not schedule the other thread immediately
        assert any(progress_during(call) > 0 for _ in range(300)), name


def test_a_call_that_holds_the_gil_is_detected():
    usleep = ctypes.PyDLL(None).usleep
    assert all(progress_during(lambda: usleep(10_000)) == 0 for _ in range(20))


def _send_integers(connection):
    connection.send(large_integers(2))


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_the_same_integers():
    """OpenMP threads do not survive a fork: a child that used them would wait forever."""
    expected = large_integers(2)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_send_integers, args=(theirs,))
    child.start()
    try:
        assert ours.poll(60), "the child hangs"
        assert ours.recv() == expected
    finally:
        child.kill()
        child.join()


def test_logistic_gradient_of_one_record_by_hand():
    objective = Objective("logistic", [[0.6, 0.8]], [1.0])
    w = np.array([1.0, -2.0])
    assert np.allclose(objective.gradient(w), -expit(1.0) * np.array([0.6, 0.8]))


@pytest.mark.filterwarnings("ignore::dperm.errors.CopyWarning")
def test_a_data_frame_with_a_column_called_rows_is_a_data_frame():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.sign(rng.normal(size=40))
    framed = Objective("logistic", pandas.DataFrame(X, columns=["rows", "columns"]), y)
    w = np.array([0.5, -0.5])
    np.testing.assert_array_equal(framed.gradient(w), Objective("logistic", X, y).gradient(w))
