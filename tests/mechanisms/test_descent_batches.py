"""Batches and floating-point noise of the compiled descent: distributions, and no dependence on blocks."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from dperm._kernels import samplers
from dperm.data.chunked import one_ahead
from dperm.mechanisms.descent_batches import PoissonBatches, UniformBatches
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.sampling import poisson_rate
from dperm.objective.descents import CyclicBatches
from reference.bit_reader import samples_on_each_instruction_set


def split(taken):
    order, ends = taken
    return np.split(order, ends[:-1])


@pytest.mark.parametrize(("n", "size"), [(50, 1), (50, 7), (50, 50), (100_000, 3)])
def test_uniform_batches_are_sets_of_their_size(n, size):
    batches = split(UniformBatches(random_bits(0), n, size).take(500))
    assert len(batches) == 500
    for batch in batches:
        assert len(set(batch.tolist())) == size == batch.size
        assert 0 <= batch.min() <= batch.max() < n


@pytest.mark.parametrize(("kind", "draw"), [("uniform", UniformBatches), ("poisson", PoissonBatches)])
def test_every_record_comes_as_often(kind, draw):
    """Chi-square over 40 records; a correct sampler fails with probability 1e-4."""
    n, steps, size = 40, 20_000, 4
    order, ends = draw(random_bits(1), n, size if kind == "uniform" else size / n).take(steps)
    counts = np.bincount(order, minlength=n)
    expected = steps * size / n
    spread = expected * (1 - size / n)
    assert chi2.sf(((counts - expected) ** 2 / spread).sum(), n) > 1e-4
    assert ends.size == steps
    assert ends[-1] == order.size
    if kind == "poisson":  # sizes are binomial
        sizes = np.diff(ends, prepend=0)
        assert abs(sizes.mean() - size) < 5 * np.sqrt(size / steps)
        assert abs(sizes.var() - size * (1 - size / n)) < 0.2


def test_poisson_batches_are_independent_samples():
    """Two records are both sampled with the square of the rate."""
    rate = 0.3
    batches = split(PoissonBatches(random_bits(2), 5, rate).take(40_000))
    both = np.mean([{0, 4} <= set(batch.tolist()) for batch in batches])
    assert abs(both - float(poisson_rate(rate)) ** 2) < 5 * np.sqrt(0.09 / 40_000)


@pytest.mark.parametrize("draw", [lambda: UniformBatches(random_bits(3), 30, 1)])
def test_batches_go_on_where_they_stopped(draw):
    whole, parts = draw(), draw()
    order, _ = whole.take(100)
    np.testing.assert_array_equal(order, np.concatenate([parts.take(k)[0] for k in (1, 39, 60)]))


def test_cyclic_batches_leave_out_the_rest_and_start_again():
    batches = CyclicBatches(np.array([5, 3, 1, 4, 2], dtype=np.int64), 2)
    assert [batch.tolist() for batch in split(batches.take(3))] == [[5, 3], [1, 4], [5, 3]]
    assert [batch.tolist() for batch in split(batches.take(2))] == [[1, 4], [5, 3]]


def test_floating_point_normals_are_normal():
    """Kolmogorov-Smirnov, chi-square on 1000 cells, tails and pairs; each fails with probability 1e-4."""
    z = np.empty(2**21)
    samplers.normals_float(random_bits(4), 2.0, z)
    z /= 2.0
    assert kstest(z, "norm").pvalue > 1e-4
    cells = np.bincount((norm.cdf(z) * 1000).astype(int), minlength=1000)
    assert chi2.sf(((cells - z.size / 1000) ** 2 / (z.size / 1000)).sum(), 999) > 1e-4
    far = np.count_nonzero(np.abs(z) > 4)
    assert abs(far - z.size * 2 * norm.sf(4)) < 4 * np.sqrt(z.size * 2 * norm.sf(4))
    first, second = z.reshape(-1, 2, 512)[:, 0].ravel(), z.reshape(-1, 2, 512)[:, 1].ravel()
    for power in (1, 2):
        assert abs(np.corrcoef(first**power, second**power)[0, 1]) < 4 / np.sqrt(first.size)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1023, 1024, 1025, 5000])
def test_normals_are_the_same_on_every_instruction_set(size):

    def draw():
        z = np.empty(size)
        samplers.normals_float(random_bits(5), 1.0, z)
        return z

    baseline, *others = samples_on_each_instruction_set(draw)
    assert all(np.array_equal(baseline, other) for other in others)


@pytest.mark.parametrize("threaded", [False, True])
def test_one_ahead_keeps_the_order_and_passes_errors_on(threaded):
    def items():
        yield from range(5)
        raise ZeroDivisionError("in the second thread")

    got = []

    def take():
        for item in one_ahead(items(), threaded=threaded):
            got.append(item)

    with pytest.raises(ZeroDivisionError, match="second thread"):
        take()
    assert got == [0, 1, 2, 3, 4]
