"""Noisy sums over successive secret batches: equal to separate releases; and failures."""

import copy
import math
import os
import pickle
import queue
import threading
import time

import numpy as np
import pytest
import scipy.sparse

from dperm import Categorical, Numeric, Objective, Schema
from dperm._kernels.samplers import Draw, GaussianDraw, RandomBits
from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.algorithms import dp_lssgd, dp_sgd
from dperm.data.rows import RowsInMemory
from dperm.errors import BudgetExceededError, DataError
from dperm.mechanisms import batches as batches_module
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.hooks import watch_releases
from dperm.mechanisms.noise import gaussian_draw, gaussian_integers
from dperm.mechanisms.random_source import SeededSource, random_bits
from dperm.mechanisms.release import Releaser
from dperm.mechanisms.sampling import poisson_draw
from dperm.private_values.transform import Transform

N, D, STEPS = 3000, 40, 7
KINDS = ["float32", "float64", "softmax", "sparse", "table", "counts", "mapped"]


def objective(kind="float64", threads=1, n_public=None, tmp_path=None, **settings):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, D)), np.where(rng.random(N) < 0.5, 1.0, -1.0)
    settings = {"n_threads": threads, "n_public": n_public, "row_norm": 5.0, **settings}
    if kind == "softmax":
        return Objective("softmax", X, (y > 0) + (X[:, 0] > 0), n_classes=3, **settings)
    if kind == "table":
        schema = Schema([Numeric("a", 0.0, 1.0), Categorical("b", list("xyz"))])
        X = schema.encode({"a": rng.random(N), "b": rng.choice(list("xyz"), N)})
    elif kind == "counts":
        counts = 1 + rng.multinomial(N - N // 2, np.full(N // 2, 2.0 / N))  # of N records together
        return Objective("logistic", X[: N // 2], y[: N // 2], counts=counts, **settings)
    elif kind == "mapped":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        X = scipy.sparse.csr_array(X) if kind == "sparse" else X.astype(kind)
    return Objective("logistic", X, y.astype("float32" if kind == "float32" else float), **settings)


def door(steps=STEPS, multiplier=2.0, random_state=4, neighbors="add_or_remove"):
    budget = ScheduledBudget(GaussianRelease(multiplier), steps, "pld")
    return Releaser(
        1.0, 1e-6, budget, neighbors=neighbors, ledger=None, random_state=random_state, description="test"
    )


def sums_of(obj, releaser, sampling="poisson", multiplier=2.0, steps=STEPS, size=700, bits=3, clip=0.5, **kw):
    batches = SecretBatches(sampling, random_bits(bits), size, obj.n_public)
    return releaser.noisy_batch_sums(obj, batches, multiplier, clip=clip, steps=steps, **kw)


def at_some_weights(noisy_sum, shape, steps=STEPS):
    weights = np.random.default_rng(5).normal(size=(steps, *shape)) / 10.0
    return np.stack([noisy_sum(w) for w in weights])


def pass_on(releaser, method, private, *args, **kwargs):
    return method(releaser, private, *args, **kwargs)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n_public", [N, N + 500])
@pytest.mark.parametrize("sampling", ["poisson", "without_replacement", "permutation"])
@pytest.mark.parametrize(
    ("kind", "scaled"),
    [*((kind, False) for kind in KINDS), *((kind, True) for kind in ("table", "float32", "softmax"))],
)
def test_sums_equal_those_of_separate_releases(kind, scaled, sampling, n_public, threads, tmp_path):
    obj = objective(kind, threads, n_public, tmp_path)
    factors = 2.0 ** np.random.default_rng(0).integers(-3, 5, obj.shape[0])
    through = {"linear_map": Transform.powers_of_two(factors, 1e6)} if scaled else {}
    neighbors = "add_or_remove" if sampling == "poisson" else "replace_one"
    one, other = door(neighbors=neighbors), door(neighbors=neighbors)
    together = at_some_weights(sums_of(obj, one, sampling, **through), obj.shape)
    with watch_releases(pass_on):
        apart = at_some_weights(sums_of(obj, other, sampling, **through), obj.shape)
    np.testing.assert_array_equal(together, apart)
    assert one.budget.spent_units == other.budget.spent_units == STEPS
    assert together.shape == (STEPS, *obj.shape)


def test_small_rates_are_drawn_in_blocks_and_small_rooms_grow(monkeypatch):
    """Rates below 1/32 have another sampler; a batch may exceed the initial capacity."""
    obj = objective()
    plan = batches_module.poisson_draw

    def in_a_small_room(bits, rate, n):
        draw = plan(bits, rate, n)
        threshold, n_rows, _, law = sampling_plan(rate, n)
        return type(draw)(bits, threshold, n_rows, 0, law)

    from dperm.mechanisms.sampling import _poisson_plan as sampling_plan

    for size in (1.5, 40, 400):
        with watch_releases(pass_on):
            apart = at_some_weights(sums_of(obj, door(), size=size), obj.shape)
        np.testing.assert_array_equal(at_some_weights(sums_of(obj, door(), size=size), obj.shape), apart)
        with monkeypatch.context() as patch:
            patch.setattr(batches_module, "poisson_draw", in_a_small_room)
            np.testing.assert_array_equal(at_some_weights(sums_of(obj, door(), size=size), obj.shape), apart)


def test_rates_of_one_and_almost_zero():
    for size in (N, 1e-12):
        with watch_releases(pass_on):
            apart = at_some_weights(sums_of(objective(), door(), size=size), (D,))
        np.testing.assert_array_equal(at_some_weights(sums_of(objective(), door(), size=size), (D,)), apart)


def test_all_steps_are_charged_before_anything_is_drawn():
    drawn = []

    class Watched(SeededSource):
        def fill(self, buffer):
            drawn.append(releaser.budget.spent_units)
            return super().fill(buffer)

        def spawn(self, n):
            return [self] * n

    releaser = door()
    releaser._bits = RandomBits(Watched(np.random.default_rng(1)))
    bits = RandomBits(Watched(np.random.default_rng(2)))
    batches = SecretBatches("poisson", bits, 700, N)
    noisy_sum = releaser.noisy_batch_sums(objective(), batches, 2.0, clip=0.5, steps=STEPS)
    assert releaser.budget.spent_units == STEPS
    assert not drawn
    at_some_weights(noisy_sum, (D,))
    assert set(drawn) == {STEPS}
    with pytest.raises(RuntimeError, match="no noisy sums are left"):
        noisy_sum(np.zeros(D))
    with pytest.raises(BudgetExceededError):
        sums_of(objective(), releaser)
    before = len(drawn)
    with pytest.raises(BudgetExceededError):
        sums_of(objective(), door(steps=3))
    assert len(drawn) == before


def test_no_noise_is_drawn_and_no_batch_after_the_last():
    """A run leaves its streams in the same state as separate releases do."""
    noise, sample = random_bits(1), random_bits(2)
    releaser = door(multiplier=0.0)
    releaser._bits = noise
    batches = SecretBatches("poisson", sample, 700, N)
    at_some_weights(releaser.noisy_batch_sums(objective(), batches, 0.0, clip=0.5, steps=STEPS), (D,))
    twin = random_bits(2)
    for rows, _ in zip(SecretBatches("poisson", twin, 700, N), range(STEPS), strict=False):
        rows._among(N, N)
    for used, other in ((noise, random_bits(1)), (sample, twin)):
        np.testing.assert_array_equal(
            gaussian_integers(used, 1.0, -20, 9), gaussian_integers(other, 1.0, -20, 9)
        )


class Broken:
    """A source that fails or always returns the same bytes."""

    def __init__(self, error):
        self.error = error

    def fill(self, buffer):
        if self.error is not None:
            raise self.error
        buffer[:] = bytes(len(buffer))
        return len(buffer)


@pytest.mark.parametrize("error", [OSError("no entropy"), KeyboardInterrupt(), None])
@pytest.mark.parametrize("which", ["noise", "sample"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_broken_source_ends_the_run_with_its_error(error, which, threads):
    releaser, bits, broken = door(), random_bits(3), RandomBits(Broken(error))
    if which == "noise":
        releaser._bits = broken
    else:
        bits = broken
    batches = SecretBatches("poisson", bits, 700, N)
    noisy_sum = releaser.noisy_batch_sums(objective(threads=threads), batches, 2.0, clip=0.5, steps=STEPS)
    if error is None and which == "sample":  # constant bits give a sample
        noisy_sum(np.zeros(D))
        return
    with pytest.raises(RuntimeError if error is None else type(error)):
        noisy_sum(np.zeros(D))
    with pytest.raises(RuntimeError, match="no noisy sums are left"):
        noisy_sum(np.zeros(D))
    assert broken.lock.acquire(blocking=False)


def test_a_pass_does_not_wait_for_a_stream_that_another_thread_holds():
    """It makes its sum, then waits for the noise; a second caller gets an error at once."""
    expected = at_some_weights(sums_of(objective(), door()), (D,), 1)
    releaser, answers = door(), queue.Queue()
    noisy_sum = sums_of(objective(threads=2), releaser)
    gaussian_integers(releaser._bits, 1.0, -20, 0)

    def call():
        try:
            answers.put(at_some_weights(noisy_sum, (D,), 1))
        except RuntimeError as error:
            answers.put(error)

    with releaser._bits.lock:
        for _ in range(2):
            threading.Thread(target=call, daemon=True).start()
        refused = answers.get(timeout=60)
        time.sleep(0.05)
        assert answers.empty()
    assert "another thread" in str(refused)
    np.testing.assert_array_equal(answers.get(timeout=60), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_does_not_repeat_what_its_parent_drew():
    noisy_sum = sums_of(objective(), door())
    noisy_sum(np.zeros(D))
    child = os.fork()
    if child == 0:
        try:
            noisy_sum(np.zeros(D))
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    noisy_sum(np.zeros(D))


def test_weights_are_checked_before_a_sum_is_used_up():
    noisy_sum = sums_of(objective(), door(), radius=2.0)
    for w, message in (
        (np.zeros(D + 1), r"w must have shape \(40,\), got \(41,\)"),
        (np.full(D, np.nan), "w must be finite"),
        (np.full(D, -np.inf), "w must be finite"),
        (np.full(D, 1e200), "ball of the public radius"),
        (np.full(D, 1.0), "ball of the public radius"),
    ):
        with pytest.raises(ValueError, match=message):
            noisy_sum(w)
    on_it = np.zeros(D)
    on_it[0] = 2.0
    at_some_weights(lambda _: noisy_sum(on_it), (D,))
    far = sums_of(objective(), door())
    assert np.isfinite(far(np.full(D, 1e200))).all()


def test_more_records_than_places_are_refused():
    obj = objective(n_public=N - 1)
    with pytest.raises(DataError, match="fixed size"):
        sums_of(obj, door(neighbors="replace_one"), "without_replacement")(np.zeros(D))


def test_draws_and_sums_are_not_copied_and_do_not_print():
    draws = poisson_draw(random_bits(0), 0.01, 50_000), gaussian_draw(random_bits(1), 2.5, -20, (3, 100))
    for draw in draws:
        assert repr(draw).endswith("not for reading>")
        assert isinstance(draw, Draw)
    noisy_sum = sums_of(objective(), door())
    assert repr(noisy_sum) == f"<NoisyBatchSums, {STEPS} left>"
    for each in (*draws, noisy_sum):
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copied(each)
    with pytest.raises(ValueError, match="scale needs"):
        GaussianDraw(random_bits(0), 1 << 64, 3, 5)


@pytest.mark.parametrize("kind", ["float32", "softmax", "sparse"])
@pytest.mark.parametrize("sampling", ["poisson", "permutation"])
@pytest.mark.parametrize("algorithm", [dp_sgd, dp_lssgd])
def test_fits_equal_those_with_separate_releases(algorithm, sampling, kind, monkeypatch):
    settings = {"batch_size": 700, "steps": 12, "clip": 0.5, "step_size": 0.5, "sampling": sampling}

    def run(threads):
        fit = algorithm(objective(kind, threads), 2.0, 1e-5, random_state=11, **settings)
        return fit.coef, fit.history, str(fit.privacy)

    (coef, *facts), *others = [run(threads) for threads in (1, 2, 3)]
    monkeypatch.setattr(RowsInMemory, "noisy_batch_sums", lambda *_: None)
    for other in (*others, run(2)):
        np.testing.assert_array_equal(other[0], coef)
        assert list(other[1:]) == facts
    assert np.linalg.norm(coef) > 0.0
    assert math.isfinite(coef.sum())
