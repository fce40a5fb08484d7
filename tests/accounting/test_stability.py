"""Publication thresholds of noisy counts, against the profile of the release computed outcome by outcome."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy.special import ndtr

from dperm.accounting.gaussian import gaussian_delta
from dperm.accounting.selection import publication_threshold
from dperm.private_values.open_counts import OpenCounts

EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0]


def shown_alone(threshold, sigma):
    """Probability that the count of 1 is at least the threshold, with rounded noise."""
    return float(ndtr(-(threshold - 1.5) / sigma))


@pytest.mark.parametrize(
    ("sigma", "columns", "slack", "threshold"), [(2.0, 1, 1e-6, 12), (5.0, 14, 1e-7, 30), (0.0, 3, 1e-9, 2)]
)
def test_known_thresholds(sigma, columns, slack, threshold):
    assert publication_threshold(sigma, slack, columns) == threshold


@pytest.mark.parametrize("sigma", [0.5, 1.06909227, 2.0, 37.5, 1e4])
@pytest.mark.parametrize("slack", [1e-12, 1e-8, 1e-3])
@pytest.mark.parametrize("columns", [1, 2, 40])
def test_it_is_the_smallest_that_keeps_the_slack(sigma, slack, columns):
    threshold = publication_threshold(sigma, slack, columns)
    one_shows = [
        -math.expm1(columns * math.log1p(-shown_alone(t, sigma))) for t in (threshold, threshold - 1)
    ]
    assert one_shows[0] <= slack * (1 + 1e-9) < one_shows[1]


@pytest.mark.parametrize("arguments", [(1.0, 0.0, 1), (1.0, 1.0, 1), (-1.0, 0.1, 1), (1.0, 0.1, 0)])
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="must be"):
        publication_threshold(*arguments)


def outcomes(private, sigma, threshold, reach=9):
    """Probability of every outcome of the release, over all noise that is not negligible."""
    integers = np.arange(-math.ceil(reach * sigma), math.ceil(reach * sigma) + 1)
    mass = ndtr((integers + 0.5) / sigma) - ndtr((integers - 0.5) / sigma)
    found = defaultdict(float)
    n_counts = len(private._every_count())
    for places in itertools.product(range(len(integers)), repeat=n_counts):
        bins, shown = private._noisy(lambda _, at=places: integers[list(at)], threshold)
        outcome = (*bins.tolist(), *(tuple(each.items()) for each in shown))
        found[outcome] += math.prod(mass[list(places)])
    return found


def profile(one, other, epsilon):
    return sum(max(p - math.exp(epsilon) * other.get(outcome, 0.0), 0.0) for outcome, p in one.items())


#: Two neighbouring tables, column by column: counts of the values, and in how many columns a record counts.
PAIRS = {
    "a value of its own": ([{"a": 3, "b": 1}], [{"a": 3}]),
    "one value of its own, one in common": ([{"a": 31}, {"x": 1}], [{"a": 30}, {}]),
    "a common value that may show or not": ([{"a": 6}, {"x": 1}], [{"a": 5}, {}]),
    "two values of its own": ([{"b": 1}, {"x": 1}], [{}, {}]),
    "replaced by another of its own": ([{"b": 1}], [{"c": 1}]),
    "replaced by a common one": ([{"a": 31}, {"y": 1}], [{"a": 30}, {"z": 1}]),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_brute_force_of_the_profile(pair, factor):
    """With all its noise the release is mu-GDP up to the slack; with half of it, it is not.

    Half of the noise shows in values that both tables have. Of others it is the threshold that hides them.
    """
    one, other = PAIRS[pair]
    slack, sigma = 1e-3, 1.1
    changes = sum(
        (x.get(value, 0) - y.get(value, 0)) ** 2
        for x, y in zip(one, other, strict=True)
        for value in {**x, **y}
    )
    threshold = publication_threshold(sigma, slack, len(one))
    tables = [OpenCounts(np.zeros(0, np.int64), each, columns=len(one)) for each in (one, other)]
    found = [outcomes(each, factor * sigma, threshold) for each in tables]
    bounds = {e: gaussian_delta(e, sigma, math.sqrt(changes)) * (1.0 - slack) + slack for e in EPSILONS}
    holds = all(
        profile(*each, epsilon) <= bound + 1e-12
        for epsilon, bound in bounds.items()
        for each in (found, found[::-1])
    )
    assert holds == (factor == 1.0 or "common" not in pair)


def test_a_threshold_one_lower_would_not_do():
    private = OpenCounts(np.zeros(0, np.int64), [{"b": 1}], columns=1)
    nothing = OpenCounts(np.zeros(0, np.int64), [{}], columns=1)
    threshold = publication_threshold(1.1, 1e-3, 1)
    at, below = (
        profile(outcomes(private, 1.1, t), outcomes(nothing, 1.1, t), 8.0) for t in (threshold, threshold - 1)
    )
    assert at <= 1e-3 < below
