"""Averages of the last iterates, and of those before them that had settled."""

import math

import numpy as np
import pytest

from dperm.algorithms.suffix_average import DoublingSuffixAverage, SettledAverage, average_of


def mean_of(average, iterates):
    for w in iterates:
        average.add(w)
    return average.mean()


def first_averaged(mean, iterates):
    """The index from which on iterates are averaged."""
    suffixes = [iterates[start:].mean(axis=0) for start in range(len(iterates))]
    (start,) = (k for k, suffix in enumerate(suffixes) if np.allclose(mean, suffix, rtol=1e-9, atol=1e-12))
    return start


def settled(iterates, tail=0.5, units=1.0):
    """Index of the first of these iterates that the default average includes."""
    return first_averaged(
        mean_of(average_of(len(iterates), tail, extended=True, units=units), iterates), iterates
    )


@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("tail", [0.0, 1e-9, 0.3, 0.5, 1.0])
def test_a_given_tail_is_what_is_averaged(count, tail):
    iterates = np.random.default_rng(0).normal(size=(count, 3))
    mean = mean_of(average_of(count, tail, extended=False), iterates)
    np.testing.assert_allclose(mean, iterates[-max(1, math.ceil(tail * count)) :].mean(axis=0), rtol=1e-12)


def test_the_average_begins_where_a_descent_has_arrived():
    """Here after 60 of 200 iterates."""
    path = np.outer(np.minimum(np.arange(200) / 60.0, 1.0) - 1.0, np.full(10, 5.0))
    noisy = [path + 0.5 * np.random.default_rng(seed).normal(size=path.shape) for seed in range(100)]
    starts = [settled(iterates) for iterates in noisy]
    assert min(starts) == 60
    assert np.mean(np.array(starts) == 60) > 0.9


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.95, 0.98, 0.99])
def test_error_is_never_much_larger_than_without(decay):
    """Descents that approach 0 at many speeds, with noise of a heavy ball: mean squared errors."""
    errors = []
    for seed in range(200):
        noise = np.random.default_rng(seed).normal(size=(100, 10))
        iterates = np.zeros((100, 10))
        w = np.full(10, 5.0)
        for t in range(100):
            w = decay * w + math.sqrt(1.0 - decay**2) * noise[t]
            iterates[t] = w
        last = mean_of(average_of(100, 0.5, extended=False), iterates)
        more = mean_of(average_of(100, 0.5, extended=True), iterates)
        errors.append((more @ more, last @ last))
    ours, plain = np.mean(errors, axis=0)
    assert ours < 1.1 * plain
    if decay <= 0.9:
        assert ours < 0.8 * plain


def test_units_and_shapes_do_not_matter():
    rng = np.random.default_rng(0)
    iterates = rng.normal(size=(60, 4, 3)).cumsum(axis=0) * 0.2 + rng.normal(size=(60, 4, 3))
    units = 10.0 ** rng.uniform(-3, 3, size=(4, 1))
    start = settled(iterates)
    assert settled(iterates * units, units=units) == start
    assert settled(iterates.reshape(60, 12)) == start


def test_it_is_an_average_of_the_last_iterates_at_least():
    iterates = np.random.default_rng(0).normal(size=(100, 3))
    average = SettledAverage(100, 70)
    assert first_averaged(mean_of(average, iterates), iterates) <= 30


def test_doubling_suffix_average_covers_at_least_half_of_the_iterates():
    iterates = np.random.default_rng(0).normal(size=(100, 3))
    average = DoublingSuffixAverage()
    for count, w in enumerate(iterates, start=1):
        average.add(w)
        start = first_averaged(average.mean(), iterates[:count])
        assert count / 2 <= count - start <= max(0.75 * count, 2)
