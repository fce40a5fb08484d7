"""Attacks on the clip: no record moves a private sum by more than its bound, rounding included.

All comparisons are between integers or fractions: a violation in the last bit fails.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dperm import Objective
from dperm.losses import Huber
from reference import awkward_arrays
from reference.kernel_calls import EXAMPLES

LOSSES = {**EXAMPLES, "steep huber": Huber(1e300)}
RELATIONS = ["add_or_remove", "replace_one"]
dtypes = pytest.mark.parametrize("dtype", awkward_arrays.DTYPES, ids=lambda dtype: dtype.__name__)


def squared_bound(clip, grid):
    """(clip / grid)^2, exactly."""
    return (Fraction(clip) / Fraction(grid)) ** 2


def squared_length(integers):
    return sum(int(v) ** 2 for v in integers)


def objective_of(loss, x, y, n_public, **keywords):
    return Objective(LOSSES[loss], x, y, n_public=n_public, n_threads=1, **keywords)


def excess(bounded, clip):
    """Length of the integer vector over the bound: above 1 is a violation. Exact to the last bit near 1."""
    ratio = squared_length(bounded._integers) / squared_bound(clip, bounded.grid)
    assert ratio <= 1, f"a record of norm clip * {math.sqrt(ratio)!r}"
    return math.sqrt(ratio)


dimensions = st.one_of(st.integers(1, 300), st.sampled_from(awkward_arrays.WIDTHS))
clips = st.builds(lambda m, e: m * 2.0**e, st.floats(0.5, 1.0), st.integers(-40, 40))
publics = st.sampled_from([1, 1000, 2**20, 2**30, 2**36])


@st.composite
def records(draw, dtype):
    """One record: entries equal or random, or chosen one by one; lengths over the whole range."""
    dimension = draw(dimensions)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.sampled_from(["equal", "signs", "normal", "heavy tails", "special"]))
    row = {
        "equal": np.ones(dimension),
        "signs": rng.choice([-1.0, 1.0], dimension),
        "normal": rng.normal(size=dimension),
        "heavy tails": np.exp(20 * rng.normal(size=dimension)),
        "special": rng.choice(list(awkward_arrays.special_rows(dimension, dtype).values())).astype(float),
    }[shape]
    with np.errstate(over="ignore"):
        row = (row * 2.0 ** draw(st.integers(-30, 30))).astype(dtype)
    return np.nan_to_num(row)[None, :]


@dtypes
@settings(max_examples=300)
@given(
    data=st.data(), clip=clips, n_public=publics, loss=st.sampled_from(list(LOSSES)), intercept=st.booleans()
)
def test_one_record_stays_within_the_clip(dtype, data, clip, n_public, loss, intercept):
    x = data.draw(records(dtype))
    y = np.array([data.draw(st.sampled_from([-1.0, 1.0]))], dtype)
    objective = objective_of(
        loss, x, y, n_public, fit_intercept=intercept, row_norm=data.draw(st.sampled_from([1e-3, 1.0, 1e3])),
        non_finite="zero",
    )  # fmt: skip
    weights = data.draw(st.sampled_from([0.0, 1.0, -1.0, 1e6, -1e300])) * np.ones(objective.dimension)
    excess(objective.clipped_gradient_sum(weights, clip), clip)


def equal_entries(dtype, dimension, clip, n_public, length):
    """The longest gradient that a row of equal entries gives: rounding moves all of them alike."""
    x = np.full((1, dimension), length / math.sqrt(dimension), dtype)
    objective = objective_of("squared_hinge", x, np.ones(1, dtype), n_public, row_norm=1e3)
    return excess(objective.clipped_gradient_sum(np.full(dimension, -1e9), clip), clip)


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
    """Rounding up would pass the clip: only the slack for factors and products prevents it."""
    rng = np.random.default_rng(1)
    bits = 22 if dtype == np.float32 else 40
    for _ in range(3000):
        multiple = int(rng.integers(2 ** (bits - 1) + 1, 2**bits))
        clip = math.nextafter(multiple * 2.0**-bits, 0)
        equal_entries(dtype, 1, clip, 1, rng.uniform(1, 2))


def climb(score, start, rng, rounds):
    """Random hill climbing: keep a change that scores higher."""
    best, best_score = start, score(start)
    for step in np.geomspace(0.5, 1e-6, rounds):
        candidate = best * (1 + step * rng.normal(size=best.shape))
        candidate_score = score(candidate)
        if candidate_score > best_score:
            best, best_score = candidate, candidate_score
    return best_score


@dtypes
@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 40, 300])
@pytest.mark.parametrize("n_public", [1, 2**35])
def test_hill_climbing_stays_within_the_clip(dtype, dimension, n_public):
    """Search over the row and the clip together for the longest vector relative to the clip."""
    rng = np.random.default_rng([dimension, n_public])

    def score(parameters):
        clip, row = float(abs(parameters[0]) + 0.01), parameters[None, 1:].astype(dtype)
        objective = objective_of("hinge", row, np.ones(1, dtype), n_public, row_norm=100.0)
        return excess(objective.clipped_gradient_sum(-1e3 * np.sign(row[0]), clip), clip)

    scores = [climb(score, rng.normal(size=dimension + 1), rng, 150) for _ in range(5)]
    grid = 2.0 ** (n_public.bit_length() - 51)
    assert max(scores) > 1 - 2 * grid * math.sqrt(dimension) - 1e-5


@dtypes
@settings(max_examples=150)
@given(data=st.data(), clip=clips, n_public=publics, loss=st.sampled_from(list(LOSSES)))
@example(data=None, clip=0.3, n_public=1, loss="logistic")
def test_scores_lie_between_zero_and_the_clip(dtype, data, clip, n_public, loss):
    x = np.ones((1, 3), dtype) if data is None else data.draw(records(dtype))
    objective = objective_of(loss, x, np.ones(1, dtype), n_public, row_norm=100.0, non_finite="zero")
    w = np.full(objective.dimension, -2.0)
    steps = [0.0, 1.0, -1.0, 1e-9, 1e9, -1e9, 1e300, -1e300]
    scores = objective.clipped_loss_sums(w, -w, steps, clip)
    for integer in scores._integers.tolist():
        assert integer >= 0
        assert integer * Fraction(scores.grid) <= Fraction(clip)


# -- neighbours --------------------------------------------------------------------------------------


@st.composite
def neighbouring_data(draw, dtype, relation):
    """Two data sets that differ in one record, which may hold anything."""
    n_rows, width = draw(st.integers(2, 40)), draw(st.sampled_from([1, 2, 7, 16, 33]))
    x, y, w, direction = awkward_arrays.ordinary(n_rows, width, dtype, draw(st.integers(0, 999)))
    place = draw(st.integers(0, n_rows - 1))
    if relation == "add_or_remove":
        return (x, y), (np.delete(x, place, axis=0), np.delete(y, place)), w[:width], direction[:width]
    other_x, other_y = x.copy(), y.copy()
    other_x[place] = draw(st.sampled_from([*awkward_arrays.special_rows(width, dtype).values(), -x[place]]))
    other_x[place, -1] = draw(st.sampled_from([other_x[place, -1], np.nan, np.inf]))
    other_y[place] = -y[place]
    return (x, y), (other_x, other_y), w[:width], direction[:width]


@dtypes
@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=100)
@given(data=st.data(), clip=clips, loss=st.sampled_from(list(LOSSES)))
def test_neighbours_stay_within_the_sensitivity(dtype, relation, data, clip, loss):
    *pair, w, direction = data.draw(neighbouring_data(dtype, relation))
    one, other = (objective_of(loss, x, y, 64, row_norm=3.0, non_finite="zero") for x, y in pair)
    a, b = (each.clipped_gradient_sum(3 * w, clip) for each in (one, other))
    assert a.grid == b.grid
    moved = squared_length(a._integers.astype(object) - b._integers)
    assert moved <= squared_bound(a.sensitivity(relation), a.grid)
    a, b = (each.clipped_loss_sums(3 * w, direction, [0.0, 1.0, -5.0], clip) for each in (one, other))
    changes = [(int(p) - int(q)) * Fraction(a.grid) for p, q in zip(a._integers, b._integers, strict=True)]
    assert max(map(abs, changes)) <= Fraction(a.sensitivity(relation))
    assert max(changes) - min(changes) <= Fraction(a.score_range(relation))


@dtypes
@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=60)
@given(data=st.data(), clip=clips, loss=st.sampled_from(list(LOSSES)), spread=st.integers(0, 8))
def test_neighbours_stay_within_the_sensitivity_of_sums_released_together(
    dtype, relation, data, clip, loss, spread
):
    *pair, w, direction = data.draw(neighbouring_data(dtype, relation))
    models = np.stack([3 * w, -w, direction, 0 * w, w - direction])
    own_clips = clip * 2.0 ** np.linspace(0, spread, 5)
    one, other = (objective_of(loss, x, y, 64, row_norm=3.0, non_finite="zero") for x, y in pair)
    a, b = (each.clipped_gradient_sums(models, own_clips) for each in (one, other))
    moved = squared_length((a._integers.astype(object) - b._integers).ravel())
    assert moved <= squared_bound(a.sensitivity(relation), a.grid)
    parts = zip(*(each.separate_gradient_sums(models, own_clips) for each in (one, other)), strict=True)
    for a, b in parts:
        moved = squared_length(a._integers.astype(object) - b._integers)
        assert moved <= squared_bound(a.sensitivity(relation), a.grid)


def one_record(dtype, sign, n_rows=9):
    """Records that weigh nothing, and one with a gradient beyond every clip."""
    x, y = np.zeros((n_rows, 4), dtype), np.ones(n_rows, dtype)
    x[5] = 50
    y[5] = sign
    return objective_of("steep huber", x, y, n_rows, row_norm=100.0)


@dtypes
@pytest.mark.parametrize("clip", [2.0**-40, 0.3, 1.0, 2.0**40])
def test_the_sensitivity_is_attained(dtype, clip):
    """Within 1e-5 (float32) and 1e-9 (float64): the bound gives no noise away."""
    w = np.zeros(4)
    up, down = (one_record(dtype, sign * 2.0**100).clipped_gradient_sum(w, clip) for sign in (1, -1))
    gone = one_record(dtype, 0.0).clipped_gradient_sum(w, clip)
    tolerance = 1e-5 if dtype == np.float32 else 1e-9
    for a, b, relation in [(up, down, "replace_one"), (up, gone, "add_or_remove")]:
        moved = np.linalg.norm((a._integers - b._integers) * a.grid)
        assert moved >= (1 - tolerance) * a.sensitivity(relation)


@dtypes
def test_the_sensitivity_of_sums_released_together_is_attained(dtype):
    own_clips = [0.3, 0.3, 0.6]
    up, down, gone = (
        one_record(dtype, sign * 2.0**100).clipped_gradient_sums(np.zeros((3, 4)), own_clips)
        for sign in (1, -1, 0)
    )
    assert up.add_or_remove == pytest.approx(math.sqrt(0.3**2 + 0.3**2 + 0.6**2))
    for a, b, relation in [(up, down, "replace_one"), (up, gone, "add_or_remove")]:
        moved = np.linalg.norm((a._integers - b._integers) * a.grid)
        assert moved >= (1 - 1e-5) * a.sensitivity(relation)


@dtypes
@pytest.mark.parametrize("clip", [2.0**-40, 0.3, 1.0, 2.0**40])
def test_sensitivity_and_range_of_scores_are_attained(dtype, clip):
    """Replacing a record that is bad at one candidate by one that is bad at the other."""
    x, w = np.ones((1, 1), dtype), np.array([0.0])
    good, bad = (Objective(Huber(1.0), x, [y]) for y in (2.0**50, -(2.0**50)))
    a, b = (each.clipped_loss_sums(w, [-(2.0**50)], [1.0, -1.0], clip) for each in (good, bad))
    changes = (a._integers - b._integers) * a.grid
    assert np.abs(changes).max() >= (1 - 1e-9) * a.sensitivity("replace_one")
    assert np.ptp(changes) >= (1 - 1e-9) * a.score_range("replace_one")
    assert np.ptp(a._integers * a.grid) >= (1 - 1e-9) * a.score_range("add_or_remove")
