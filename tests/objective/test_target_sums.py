"""Sums over the targets alone: values, blocks of rows, and sensitivity on awkward targets."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import r2_score

from dperm import HuberRegressor, Objective
from dperm.data import rows
from dperm.losses import Absolute, Huber, Pinball, Power, SquaredError
from dperm.mechanisms import release_without_privacy
from dperm.objective.counts import distance_counts, slope_sum, target_counts
from reference.exact import assert_change_within, share

LOSSES = [
    SquaredError(2.0),
    Huber(0.3, target_bound=2.0),
    Absolute(target_bound=2.0),
    Pinball(0.9, target_bound=2.0),
    Power(1.3, target_bound=2.0),
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
    edges = np.array([-1.5, 0.3, 1.9])
    return (
        slope_sum(objective, prediction, clip),
        distance_counts(objective, prediction, 7),
        target_counts(objective, edges),
    )


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
    slopes, counts, bins = sums(objective_of(loss, [2.0]), 0.0, 1e-3)
    assert share(slopes) == share(counts) == share(bins) == 1.0
    other = sums(objective_of(loss, [-2.0]), 0.0, 1e-3)[0]
    assert slopes._integers[0] == -other._integers[0]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_values(loss):
    y = np.random.default_rng(0).uniform(-2.0, 2.0, 1000)
    slopes, counts, bins = (release_without_privacy(each) for each in sums(objective_of(loss, y), 0.3, 0.4))
    assert bins.tolist() == np.histogram(y, [-9.0, -1.5, 0.3, 1.9, 9.0])[0].tolist()
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


@pytest.mark.parametrize("counts", [None, [1, 2, 1, 3, 1, 1]])
def test_weighted_records_count_by_their_weights(counts):
    """Of weight 0 not at all, and never by more than a record without weights."""
    y = np.array([1.0, -2.0, 3.9, 0.5, -4.0, 4.0])
    weights = np.array([1.0, 0.5, 0.0, 2.0, 1e-9, 7.0])
    own = np.clip(weights, 0.0, 2.0) / 2.0
    each = np.ones(6) if counts is None else np.array(counts)
    loss = Huber(threshold=1.0, target_bound=4.0)
    objective = Objective(loss, np.ones((6, 1)), y, counts=counts, weights=weights, weight_bound=2.0)
    slopes = slope_sum(objective, 0.25, 0.5)
    expected = (each * own * np.clip(0.25 - y, -0.5, 0.5)).sum()
    assert release_without_privacy(slopes)[0] == pytest.approx(expected, abs=1e-6)
    assert slopes.add_or_remove == 0.5
    histogram = distance_counts(objective, 0.0, 6)
    bins = np.clip(np.floor(-2.0 * np.log2(np.abs(y) / 8.0)), 0, 5).astype(int)
    expected = np.bincount(bins, weights=each * own, minlength=6)
    assert np.allclose(release_without_privacy(histogram), expected, atol=each.sum() * 2.0**-12)
    expected = np.bincount(np.searchsorted([-1.5, 0.3, 1.9], y), weights=each * own, minlength=4)
    in_bins = release_without_privacy(target_counts(objective, [-1.5, 0.3, 1.9]))
    assert np.allclose(in_bins, expected, atol=each.sum() * 2.0**-12)
    for record in range(6):
        alone = Objective(loss, np.ones((1, 1)), y[[record]], weights=weights[[record]], weight_bound=2.0)
        for private in sums(alone, 0.25, 0.5):
            assert np.linalg.norm(release_without_privacy(private)) <= private.add_or_remove


def test_records_of_weight_zero_do_not_decide_the_scale_of_the_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4))
    y = X @ [1.0, -2.0, 0.5, 1.0] + 3.0 + 0.3 * rng.normal(size=len(X))
    ignored = np.arange(len(X)) % 2 == 0
    spoiled = np.where(ignored, 1000.0, y)
    for weight in (0.0, 1e-6):
        model = HuberRegressor(
            2.0, 1e-6, threshold=np.inf, target_bound=1000.0, row_norm=4.0, n_public=len(X), random_state=0
        )
        model.fit(X, spoiled, sample_weight=np.where(ignored, weight, 1.0))
        assert r2_score(y, model.predict(X)) > 0.98
