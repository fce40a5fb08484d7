"""Sums over the targets alone: values, blocks of rows, and sensitivity on awkward targets."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import r2_score

from dperm import HuberRegressor, Objective
from dperm.data import rows
from dperm.losses import Huber, SquaredError
from dperm.mechanisms import release_without_privacy
from dperm.objective.counts import target_counts
from reference.exact import assert_change_within, share

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


EDGES = [-1.5, 0.3, 1.9]


@given(
    y=st.lists(targets, min_size=2, max_size=20),
    new=targets,
    place=st.integers(0, 19),
    dtype=st.sampled_from([np.float32, np.float64]),
    relation=st.sampled_from(RELATIONS),
)
def test_one_record_moves_them_within_the_sensitivity(y, new, place, dtype, relation):
    other = list(y)
    if relation == "add_or_remove":
        other.insert(place % (len(y) + 1), new)
    else:
        other[place % len(y)] = new
    pair = (target_counts(objective_of(SquaredError(2.0), each, dtype), EDGES) for each in (y, other))
    assert_change_within(*pair, relation)


def test_values():
    y = np.random.default_rng(0).uniform(-2.0, 2.0, 1000)
    bins = release_without_privacy(target_counts(objective_of(SquaredError(2.0), y), EDGES))
    assert bins.tolist() == np.histogram(y, [-9.0, *EDGES, 9.0])[0].tolist()
    assert share(target_counts(objective_of(SquaredError(2.0), [2.0]), EDGES)) == 1.0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_blocks_of_rows_do_not_change_them(size, monkeypatch):
    objective = objective_of(SquaredError(2.0), np.random.default_rng(1).normal(size=21))
    whole = target_counts(objective, EDGES)
    monkeypatch.setattr(rows, "_TARGETS_IN_BLOCK", size)
    np.testing.assert_array_equal(whole._integers, target_counts(objective, EDGES)._integers)


@pytest.mark.parametrize("counts", [None, [1, 2, 1, 3, 1, 1]])
def test_weighted_records_count_by_their_weights(counts):
    """Of weight 0 not at all, and never by more than a record without weights."""
    y = np.array([1.0, -2.0, 3.9, 0.5, -4.0, 4.0])
    weights = np.array([1.0, 0.5, 0.0, 2.0, 1e-9, 7.0])
    own = np.clip(weights, 0.0, 2.0) / 2.0
    each = np.ones(6) if counts is None else np.array(counts)
    loss = Huber(threshold=1.0, target_bound=4.0)
    objective = Objective(loss, np.ones((6, 1)), y, counts=counts, weights=weights, weight_bound=2.0)
    expected = np.bincount(np.searchsorted(EDGES, y), weights=each * own, minlength=4)
    in_bins = release_without_privacy(target_counts(objective, EDGES))
    assert np.allclose(in_bins, expected, atol=each.sum() * 2.0**-12)
    for record in range(6):
        alone = Objective(loss, np.ones((1, 1)), y[[record]], weights=weights[[record]], weight_bound=2.0)
        private = target_counts(alone, EDGES)
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
