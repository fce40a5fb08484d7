"""The number of threads that work on chunks while a reader prefetches the next ones."""

import pytest

from dperm.data.chunked import AdaptiveThreads


def settled(reading, working, most, items=200):
    """Threads after some items, given the time to read one and, with one thread, to work on one."""
    threads = AdaptiveThreads()
    for _ in range(items):
        spent = working / threads.count(most)
        threads.update(max(reading - spent, 0.0), spent)
    return threads.count(most)


@pytest.mark.parametrize("most", [1, 2, 8, 13])
def test_all_threads_if_reading_takes_no_time(most):
    assert settled(1.0, 1000.0, most) == most


@pytest.mark.parametrize("most", [1, 2, 8, 13])
def test_one_thread_if_reading_takes_longer(most):
    assert settled(3.0, 1.0, most) == 1


@pytest.mark.parametrize("working", [1.5, 3.0, 5.0, 9.0, 20.0])
def test_at_most_twice_the_threads_that_keep_up(working):
    """`working` threads keep up with a reader that needs a time of 1; the next power of two is enough."""
    assert working / 2 <= settled(1.0, working, 64) <= 2 * working


def test_the_number_decreases_when_the_work_gets_easier():
    threads = AdaptiveThreads()
    for working in [100.0] * 50 + [1.0] * 50:
        spent = working / threads.count(16)
        threads.update(max(2.0 - spent, 0.0), spent)
    assert threads.count(16) == 1


def test_the_limit_may_change_between_passes():
    threads = AdaptiveThreads()
    for _ in range(50):
        threads.count(16)
        threads.update(0.0, 1.0)
    assert (threads.count(16), threads.count(3)) == (16, 3)
