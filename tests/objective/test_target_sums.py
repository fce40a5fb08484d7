"""Sums over the targets alone: values, blocks of rows, and sensitivity on awkward targets."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dperm import Objective
from dperm.data import rows
from dperm.losses import Absolute, Huber, Pinball, Power, SquaredError, Tukey, Welsch
from dperm.mechanisms import release_without_privacy
from dperm.objective.counts import distance_counts, slope_sum
from reference.exact import assert_change_within, share

LOSSES = [
    SquaredError(2.0),
    Huber(0.3, target_bound=2.0),
    Absolute(target_bound=2.0),
    Pinball(0.9, target_bound=2.0),
    Power(1.3, target_bound=2.0),
    Welsch(target_bound=2.0),
    Tukey(target_bound=2.0),
]
RELATIONS = ["add_or_remove", "replace_one"]
targets = st.one_of(
    st.floats(-3.0, 3.0), st.sampled_from([0.3, -2.0, 2.0, 5e-324, 1e308, math.nan, math.inf, -math.inf])
)


def objective_of(loss, y, dtype=np.float64):
    y = np.asarray(y, dtype=np.float64)
    with np.errstate(over="ignore"):
        y = y.astype(dtype)
    X = np.zeros((len(y), 1), dtype=dtype)
    return Objective(loss, X, y, non_finite="zero", fit_intercept=True, n_public=40)


def sums(objective, prediction, clip):
    return slope_sum(objective, prediction, clip), distance_counts(objective, prediction, 7)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(
    y=st.lists(targets, min_size=2, max_size=20),
    new=targets,
    place=st.integers(0, 19),
    prediction=st.one_of(st.floats(-3.0, 3.0), st.sampled_from([0.3, 1e308, -1.7e308])),
    clip=st.sampled_from([1e-15, 0.1, 0.3, 0.7, 1e6]),
    dtype=st.sampled_from([np.float32, np.float64]),
    relation=st.sampled_from(RELATIONS),
)
def test_one_record_moves_them_within_the_sensitivity(loss, y, new, place, prediction, clip, dtype, relation):
    other = list(y)
    if relation == "add_or_remove":
        other.insert(place % (len(y) + 1), new)
    else:
        other[place % len(y)] = new
    pair = (sums(objective_of(loss, each, dtype), prediction, clip) for each in (y, other))
    for a, b in zip(*pair, strict=True):
        assert_change_within(a, b, relation)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_record_can_attain_the_sensitivity(loss):
    slopes, counts = sums(objective_of(loss, [2.0]), 0.0, 1e-3)
    assert share(slopes) == share(counts) == 1.0
    other = sums(objective_of(loss, [-2.0]), 0.0, 1e-3)[0]
    assert slopes._integers[0] == -other._integers[0]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_values(loss):
    y = np.random.default_rng(0).uniform(-2.0, 2.0, 1000)
    slopes, counts = (release_without_privacy(each) for each in sums(objective_of(loss, y), 0.3, 0.4))
    expected = np.clip(loss.derivative(np.full(1000, 0.3), y), -0.4, 0.4)
    assert slopes[0] == pytest.approx(math.fsum(expected), abs=1e-4)
    edges = [0.0, *(4.0 * 2.0 ** (-0.5 * np.arange(6, -1, -1)))]
    assert counts.tolist() == np.histogram(np.abs(y - 0.3), edges)[0][::-1].tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_blocks_of_rows_do_not_change_them(size, monkeypatch):
    y = np.random.default_rng(1).normal(size=21)
    whole = sums(objective_of(SquaredError(2.0), y), 0.3, 0.4)
    monkeypatch.setattr(rows, "_TARGETS_IN_BLOCK", size)
    for a, b in zip(whole, sums(objective_of(SquaredError(2.0), y), 0.3, 0.4), strict=True):
        np.testing.assert_array_equal(a._integers, b._integers)


def test_bad_arguments_are_refused():
    objective = objective_of(Absolute(target_bound=1.0), [0.5])
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="prediction must be finite"):
            slope_sum(objective, bad, 1.0)
        with pytest.raises(ValueError, match="prediction must be finite"):
            distance_counts(objective, bad, 4)
    with pytest.raises(ValueError, match="clip must be"):
        slope_sum(objective, 0.0, 0.0)
    with pytest.raises(TypeError, match="no public bound"):
        distance_counts(objective_of(Huber(), [0.5]), 0.0, 4)
    with pytest.raises(TypeError, match="one prediction per class"):
        slope_sum(Objective("softmax", [[0.5], [1.0]], [0, 1], n_classes=2), 0.0, 1.0)
