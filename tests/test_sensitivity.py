"""Attacks on clipping: no record moves a private sum by more than its sensitivity, rounding included.

All comparisons are between integers or fractions, so that a violation in the last bit fails.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dperm import Objective
from dperm.losses import Huber
from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.losses import clipped_loss_sums
from reference import awkward_arrays
from reference.exact import (
    RELATIONS,
    assert_attained,
    assert_change_within,
    assert_scores_within,
    climb,
    clips,
    dtypes,
    neighbouring_rows,
    one_row,
    share,
)
from reference.losses import EXAMPLES

LOSSES = {**EXAMPLES, "steep huber": Huber(1e300)}
some_losses = st.sampled_from(list(LOSSES))
widths = st.one_of(st.integers(1, 300), st.sampled_from(awkward_arrays.WIDTHS))
publics = st.sampled_from([1, 1000, 2**20, 2**30, 2**36])


def objective_of(loss, x, y, n_public, **keywords):
    return Objective(LOSSES[loss], x, y, n_public=n_public, n_threads=1, **keywords)


@dtypes
@settings(max_examples=300)
@given(data=st.data(), clip=clips(), n_public=publics, loss=some_losses, intercept=st.booleans())
def test_one_record_stays_within_the_clip(dtype, data, clip, n_public, loss, intercept):
    x = data.draw(one_row(dtype, widths))
    y = np.array([data.draw(st.sampled_from([-1.0, 1.0]))], dtype)
    objective = objective_of(
        loss, x, y, n_public, fit_intercept=intercept, row_norm=data.draw(st.sampled_from([1e-3, 1.0, 1e3])),
        non_finite="zero",
    )  # fmt: skip
    weights = data.draw(st.sampled_from([0.0, 1.0, -1.0, 1e6, -1e300])) * np.ones(objective.dimension)
    share(clipped_gradient_sum(objective, weights, clip), clip)


def equal_entries(dtype, dimension, clip, n_public, length):
    """Norm of the gradient of a row of equal entries, relative to the clip: all entries round alike."""
    x = np.full((1, dimension), length / math.sqrt(dimension), dtype)
    objective = objective_of("squared_hinge", x, np.ones(1, dtype), n_public, row_norm=1e3)
    return share(clipped_gradient_sum(objective, np.full(dimension, -1e9), clip), clip)


@dtypes
@pytest.mark.parametrize("dimension", [1, 2, 3, 16, 17, 100, 300])
@pytest.mark.parametrize("n_public", [1, 2**30, 2**36])
def test_rounding_all_entries_up_stays_within_the_clip(dtype, dimension, n_public):
    rng = np.random.default_rng(dimension)
    ratios = [
        equal_entries(dtype, dimension, clip, n_public, length)
        for clip, length in zip(2.0 ** rng.uniform(-5, 5, 300), rng.uniform(1, 100, 300), strict=True)
    ]
    half_steps = 2.0 ** (n_public.bit_length() - 51) * math.sqrt(dimension)
    assert max(ratios) > 1 - 2 * half_steps - 1e-5  # the attack gets near the bound


@dtypes
def test_clips_just_below_a_grid_point(dtype):
    """Rounding up would exceed the clip but for the slack for rounding of factors and products."""
    rng = np.random.default_rng(1)
    bits = 22 if dtype == np.float32 else 40
    for _ in range(3000):
        multiple = int(rng.integers(2 ** (bits - 1) + 1, 2**bits))
        clip = math.nextafter(multiple * 2.0**-bits, 0)
        equal_entries(dtype, 1, clip, 1, rng.uniform(1, 2))


@dtypes
@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 40, 300])
@pytest.mark.parametrize("n_public", [1, 2**35])
def test_hill_climbing_stays_within_the_clip(dtype, dimension, n_public):
    """Search over the row and the clip together for the longest vector relative to the clip."""
    rng = np.random.default_rng([dimension, n_public])

    def score(parameters):
        clip, row = float(abs(parameters[0]) + 0.01), parameters[None, 1:].astype(dtype)
        objective = objective_of("hinge", row, np.ones(1, dtype), n_public, row_norm=100.0)
        return share(clipped_gradient_sum(objective, -1e3 * np.sign(row[0]), clip), clip)

    scores = [climb(score, rng.normal(size=dimension + 1), rng, 150) for _ in range(5)]
    grid = 2.0 ** (n_public.bit_length() - 51)
    assert max(scores) > 1 - 2 * grid * math.sqrt(dimension) - 1e-5


@dtypes
@settings(max_examples=150)
@given(data=st.data(), clip=clips(), n_public=publics, loss=some_losses)
@example(data=None, clip=0.3, n_public=1, loss="logistic")
def test_scores_lie_between_zero_and_the_clip(dtype, data, clip, n_public, loss):
    x = np.ones((1, 3), dtype) if data is None else data.draw(one_row(dtype, widths))
    objective = objective_of(loss, x, np.ones(1, dtype), n_public, row_norm=100.0, non_finite="zero")
    w = np.full(objective.dimension, -2.0)
    steps = [0.0, 1.0, -1.0, 1e-9, 1e9, -1e9, 1e300, -1e300]
    scores = clipped_loss_sums(objective, w, -w, steps, clip)
    assert_scores_within(scores, clip)


# -- neighbours --------------------------------------------------------------------------------------


def neighbouring_objectives(data, dtype, relation, loss):
    """Two objectives on data that differ in one record; weights and a direction."""
    x, other_x, changed = data.draw(neighbouring_rows(dtype, relation, [1, 2, 7, 16, 33]))
    _, y, w, direction = awkward_arrays.ordinary(*x.shape, dtype)
    pair = [(x, y), (other_x, changed(y, lambda label: -label))]
    made = [objective_of(loss, *each, 64, row_norm=3.0, non_finite="zero") for each in pair]
    return made, w[:-1], direction[:-1]


@dtypes
@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=100)
@given(data=st.data(), clip=clips(), loss=some_losses)
def test_neighbours_stay_within_the_sensitivity(dtype, relation, data, clip, loss):
    pair, w, direction = neighbouring_objectives(data, dtype, relation, loss)
    assert_change_within(*(clipped_gradient_sum(each, 3 * w, clip) for each in pair), relation)
    steps = [0.0, 1.0, -5.0]
    assert_change_within(*(clipped_loss_sums(each, 3 * w, direction, steps, clip) for each in pair), relation)


def one_record(dtype, sign, n_rows=9):
    """Records with gradient zero, and one whose gradient exceeds every clip."""
    x, y = np.zeros((n_rows, 4), dtype), np.ones(n_rows, dtype)
    x[5] = 50
    y[5] = sign
    return objective_of("steep huber", x, y, n_rows, row_norm=100.0)


@dtypes
@pytest.mark.parametrize("clip", [2.0**-40, 0.3, 1.0, 2.0**40])
def test_the_sensitivity_is_attained(dtype, clip):
    """Within 1e-5 (float32) and 1e-9 (float64), so the bound adds no needless noise."""
    w = np.zeros(4)
    up, down = (clipped_gradient_sum(one_record(dtype, sign * 2.0**100), w, clip) for sign in (1, -1))
    gone = clipped_gradient_sum(one_record(dtype, 0.0), w, clip)
    tolerance = 1e-5 if dtype == np.float32 else 1e-9
    for a, b, relation in [(up, down, "replace_one"), (up, gone, "add_or_remove")]:
        assert_attained(a, b, relation, tolerance)


@dtypes
@pytest.mark.parametrize("clip", [2.0**-40, 0.3, 1.0, 2.0**40])
def test_sensitivity_and_range_of_scores_are_attained(dtype, clip):
    """By replacing a record with a large loss at one candidate by one with a large loss at the other."""
    x, w = np.ones((1, 1), dtype), np.array([0.0])
    good, bad = (Objective(Huber(1.0), x, [y]) for y in (2.0**50, -(2.0**50)))
    a, b = (clipped_loss_sums(each, w, [-(2.0**50)], [1.0, -1.0], clip) for each in (good, bad))
    changes = (a._integers - b._integers) * a.grid
    assert np.abs(changes).max() >= (1 - 1e-9) * a.sensitivity("replace_one")
    assert np.ptp(changes) >= (1 - 1e-9) * a.score_range("replace_one")
    assert np.ptp(a._integers * a.grid) >= (1 - 1e-9) * a.score_range("add_or_remove")
