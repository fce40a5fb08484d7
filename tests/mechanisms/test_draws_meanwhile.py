"""Draws on the side of a pass: the numbers of draws at once, whoever makes them, and whatever goes wrong."""

import copy
import math
import os
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse

from dperm import Objective
from dperm._kernels.samplers import Draw, GaussianDraw, RandomBits
from dperm.accounting import GaussianRelease
from dperm.accounting.budget import Budget
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.algorithms import dp_lssgd, dp_sgd
from dperm.bounded import Bounded
from dperm.data.rows import RowsInMemory
from dperm.errors import BudgetExceededError
from dperm.mechanisms import release_without_privacy
from dperm.mechanisms.batches import secret_batches
from dperm.mechanisms.noise import gaussian_draw, gaussian_integers
from dperm.mechanisms.random_source import SeededSource, random_bits
from dperm.mechanisms.release import Releaser
from dperm.mechanisms.sampling import poisson_draw, poisson_sample

N, D = 3000, 40


def objective(kind="float64", threads=1, n=N):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, D)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    if kind == "softmax":
        return Objective("softmax", X, (y > 0).astype(float), n_classes=2, row_norm=5.0, n_threads=threads)
    X = scipy.sparse.csr_array(X) if kind == "sparse" else X.astype(kind)
    return Objective("logistic", X, y.astype("float32" if kind == "float32" else float), n_threads=threads)


def draws(seed):
    """Of two streams, and what they give."""
    sample, noise = random_bits(seed), random_bits(seed + 1)
    return poisson_draw(sample, 0.01, 50_000), gaussian_draw(noise, 2.5, -20, (3, 100))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", ["float32", "float64", "softmax", "sparse"])
def test_numbers_and_sums_are_those_of_one_after_the_other(kind, threads):
    obj = objective(kind, threads)
    w = np.full(obj.shape, 0.1)
    alone = release_without_privacy(obj.clipped_gradient_sum(w, 0.5))
    for batch in (None, next(secret_batches("poisson", random_bits(3), 900, N))):
        sample, noise = draws(7)
        together = obj.clipped_gradient_sum(w, 0.5, rows=batch, meanwhile=(sample, noise))
        np.testing.assert_array_equal(sample._result(), poisson_sample(random_bits(7), 0.01, 50_000))
        np.testing.assert_array_equal(noise._result(), gaussian_integers(random_bits(8), 2.5, -20, (3, 100)))
        assert noise._result() is noise._result()
        if batch is None:
            np.testing.assert_array_equal(release_without_privacy(together), alone)


def test_a_pass_makes_the_draws_and_leaves_their_streams_where_they_belong():
    drawn = []

    class Watched(SeededSource):
        def fill(self, buffer):
            drawn.append(len(buffer))
            return super().fill(buffer)

    bits = RandomBits(Watched(np.random.default_rng(1)))
    draw = gaussian_draw(bits, 1.0, -30, 500)
    assert not drawn
    objective(threads=2).clipped_gradient_sum(np.zeros(D), 0.5, meanwhile=(draw,))
    made = len(drawn)
    assert made > 0
    first = draw._result()
    assert len(drawn) == made
    again = random_bits(SeededSource(np.random.default_rng(1)))
    np.testing.assert_array_equal(first, gaussian_integers(again, 1.0, -30, 500))
    np.testing.assert_array_equal(gaussian_integers(bits, 1.0, -30, 9), gaussian_integers(again, 1.0, -30, 9))


def test_draws_of_one_stream_are_made_in_the_order_of_asking():
    """The second of a stream cannot be begun while the first is."""
    bits = random_bits(5)
    first, second = gaussian_draw(bits, 1.0, -20, 50), gaussian_draw(bits, 1.0, -20, 50)
    objective(threads=2).clipped_gradient_sum(np.zeros(D), 0.5, meanwhile=(first, second))
    together = np.concatenate([first._result(), second._result()])
    np.testing.assert_array_equal(together, gaussian_integers(random_bits(5), 1.0, -20, 100))


def test_many_draws_and_empty_ones():
    streams = [random_bits(seed) for seed in range(9)]
    many = [gaussian_draw(bits, 1.0, -20, seed) for seed, bits in enumerate(streams)]
    many += [gaussian_draw(random_bits(0), 0.0, -20, 4), poisson_draw(random_bits(0), 0.0, 100)]
    objective(threads=3).clipped_gradient_sum(np.zeros(D), 0.5, meanwhile=many)
    for seed, draw in enumerate(many[:9]):
        np.testing.assert_array_equal(draw._result(), gaussian_integers(random_bits(seed), 1.0, -20, seed))
    np.testing.assert_array_equal(many[9]._result(), np.zeros(4))
    assert many[10]._result().size == 0


class Broken:
    """A source that fails, or keeps giving the same bytes."""

    def __init__(self, error):
        self.error = error

    def fill(self, buffer):
        if self.error is not None:
            raise self.error
        buffer[:] = bytes(len(buffer))
        return len(buffer)


@pytest.mark.parametrize("error", [OSError("no entropy"), KeyboardInterrupt(), None])
def test_a_broken_source_is_an_error_where_the_draw_is_used(error):
    obj = objective(threads=2)
    alone = obj.clipped_gradient_sum(np.zeros(D), 0.5)
    bits = RandomBits(Broken(error))
    draw = gaussian_draw(bits, 1.0, -20, 100)
    together = obj.clipped_gradient_sum(np.zeros(D), 0.5, meanwhile=(draw,))
    np.testing.assert_array_equal(release_without_privacy(together), release_without_privacy(alone))
    with pytest.raises(RuntimeError if error is None else type(error)):
        draw._result()
    with pytest.raises(RuntimeError, match="has failed"):
        draw._result()
    assert bits.lock.acquire(blocking=False)


def test_a_pass_does_not_wait_for_a_stream_that_another_thread_holds():
    bits = random_bits(2)
    gaussian_integers(bits, 1.0, -20, 1)
    draw = gaussian_draw(bits, 1.0, -20, 10)
    with bits.lock:
        objective().clipped_gradient_sum(np.zeros(D), 0.5, meanwhile=(draw,))
        waiting = threading.Thread(target=draw._result)
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
    waiting.join()
    source = random_bits(2)
    gaussian_integers(source, 1.0, -20, 1)
    np.testing.assert_array_equal(draw._result(), gaussian_integers(source, 1.0, -20, 10))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_does_not_repeat_what_its_parent_drew():
    for draw in draws(0):
        draw._result()
        child = os.fork()
        if child == 0:
            try:
                draw._result()
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        draw._result()


def test_draws_are_not_copied_and_do_not_print():
    for draw in draws(0):
        assert repr(draw).endswith("not for reading>")
        assert isinstance(draw, Draw)
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copied(draw)
    with pytest.raises(ValueError, match="scale needs"):
        GaussianDraw(random_bits(0), 1 << 64, 3, 5)


# -- what is drawn ahead ------------------------------------------------------------------------------------


def door(budget):
    return Releaser(
        1.0, 1e-6, budget, neighbors="add_or_remove", ledger=None, random_state=4, description="test"
    )


def private_sum(d=5, contribution=1.0):
    return Bounded(np.arange(d, dtype=np.int64), grid=2.0**-10, contribution=contribution)


def test_noise_ahead_is_that_of_the_next_release_and_is_charged_once_before_it_is_drawn():
    budget = ScheduledBudget(GaussianRelease(2.0), 3, "pld")
    ahead, plain = door(budget), door(ScheduledBudget(GaussianRelease(2.0), 3, "pld"))
    assert ahead.noise_ahead() == ()  # like what?
    for released in (1, 2):
        np.testing.assert_array_equal(
            ahead.gaussian_sum(private_sum(), 2.0), plain.gaussian_sum(private_sum(), 2.0)
        )
        assert budget.spent_units == released
        (draw,) = ahead.noise_ahead()
        assert budget.spent_units == released + 1
        assert ahead.noise_ahead() == (draw,)
        assert budget.spent_units == released + 1
        draw._result()
    np.testing.assert_array_equal(
        ahead.gaussian_sum(private_sum(), 2.0), plain.gaussian_sum(private_sum(), 2.0)
    )
    assert ahead.noise_ahead() == ()  # none is left on the schedule
    assert budget.spent_units == 3
    with pytest.raises(BudgetExceededError):
        ahead.gaussian_sum(private_sum(), 2.0)


def test_noise_for_another_release_is_not_used():
    one, other = (door(Budget.from_epsilon(1.0, 1e-6)) for _ in range(2))
    for releaser in (one, other):
        releaser.gaussian_sum(private_sum(), 100.0)
        releaser.noise_ahead()
    noise = gaussian_integers(random_bits(4), 100.0, -10, 12)
    before = one.budget.spent_units
    larger = one.gaussian_sum(private_sum(7), 100.0) * 1024 - np.arange(7)
    assert one.budget.spent_units > before  # what was charged for the other noise does not pay for this
    np.testing.assert_array_equal(larger[:2], noise[10:])  # 5 used, 5 for nothing
    same = other.gaussian_sum(private_sum(), 100.0) * 1024 - np.arange(5)
    np.testing.assert_array_equal(same, noise[5:10])


@pytest.mark.parametrize("kind", ["float32", "softmax", "sparse"])
@pytest.mark.parametrize("sampling", ["poisson", "permutation"])
@pytest.mark.parametrize("algorithm", [dp_sgd, dp_lssgd])
def test_steps_that_draw_ahead_are_those_that_draw_when_asked(algorithm, sampling, kind, monkeypatch):
    settings = {"batch_size": 700, "steps": 12, "clip": 0.5, "step_size": 0.5, "sampling": sampling}

    def run(threads):
        fit = algorithm(objective(kind, threads), 2.0, 1e-5, random_state=11, **settings)
        return fit.coef, fit.history

    (coef, history), *others = [run(threads) for threads in (1, 2, 3)]
    monkeypatch.setattr(RowsInMemory, "draws_meanwhile", False)
    for other in (*others, run(2)):
        np.testing.assert_array_equal(other[0], coef)
        assert other[1] == history
    assert np.linalg.norm(coef) > 0.0


def test_an_ordered_sample_is_drawn_once_for_all_public_places():
    rows, twin = (next(secret_batches("poisson", random_bits(9), 30, 1000)) for _ in range(2))
    (draw,) = rows._to_be_drawn(990, 1000)
    assert rows._to_be_drawn(990, 1000) == (draw,)
    expected = twin._among(1000, 1000)
    np.testing.assert_array_equal(rows._among(990, 1000), expected[expected < 990])
    np.testing.assert_array_equal(rows._among(1000, 1000), expected)
    assert rows._to_be_drawn(1000, 1000) == ()
    everybody = next(secret_batches("poisson", random_bits(9), 10, 10))
    assert everybody._to_be_drawn(10, 10) == ()
    assert everybody._among(10, 10).size == 10
    assert math.isclose(everybody.rate, 1.0)
