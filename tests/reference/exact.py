"""Exact comparisons of private sums, and data that attack their bounds."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

from dperm.mechanisms import release_without_privacy
from reference import awkward_arrays

RELATIONS = ["add_or_remove", "replace_one"]
#: For tests with many fits: the second with the slow tests.
RELATIONS_ONE_SLOW = [RELATIONS[0], pytest.param(RELATIONS[1], marks=pytest.mark.slow)]
dtypes = pytest.mark.parametrize("dtype", awkward_arrays.DTYPES, ids=lambda dtype: dtype.__name__)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])


def opened(bounded):
    """The sum as an ordinary array."""
    return np.asarray(release_without_privacy(bounded))


def same(one, other):
    """Whether two sums have the same integers, grid and sensitivities."""
    bounds = [(b.grid, b.add_or_remove, b.replace_one, b.scores, b.shape) for b in (one, other)]
    return bounds[0] == bounds[1] and np.array_equal(one._integers, other._integers)


def assert_same(ones, others):
    assert all(same(*pair) for pair in zip(ones, others, strict=True))


def share(bounded, bound=None):
    """Norm of the integer vector over a bound, by default the sensitivity; asserts that it is at most 1."""
    steps = Fraction(bounded.add_or_remove if bound is None else bound) / Fraction(bounded.grid)
    ratio = sum(int(v) ** 2 for v in bounded._integers.ravel()) / steps**2
    assert ratio <= 1, f"a record of norm {math.sqrt(ratio)!r} times the bound"
    return math.sqrt(ratio)


def assert_change_within(a, b, relation):
    """Two sums differ by at most their sensitivity, and differences of scores by at most their range."""
    assert a.grid == b.grid
    integers = zip(a._integers.ravel(), b._integers.ravel(), strict=True)
    changes = [(int(p) - int(q)) * Fraction(a.grid) for p, q in integers]
    if a.scores:
        assert max(map(abs, changes)) <= Fraction(a.sensitivity(relation))
        assert max(changes) - min(changes) <= Fraction(a.score_range(relation))
    else:
        assert sum(change * change for change in changes) <= Fraction(a.sensitivity(relation)) ** 2


def assert_scores_within(scores, clip):
    """Each score of one record is between 0 and the clip."""
    for integer in scores._integers.tolist():
        assert 0 <= integer * Fraction(scores.grid) <= Fraction(clip)


def assert_attained(a, b, relation, tolerance):
    """Two sums differ by nearly their sensitivity."""
    moved = np.linalg.norm((a._integers - b._integers) * a.grid)
    assert moved >= (1 - tolerance) * a.sensitivity(relation)


def climb(score, start, rng, rounds):
    """Random hill climbing: keep changes that score higher."""
    best, best_score = start, score(start)
    for step in np.geomspace(0.5, 1e-6, rounds):
        candidate = best * (1 + step * rng.normal(size=best.shape))
        candidate_score = score(candidate)
        if candidate_score > best_score:
            best, best_score = candidate, candidate_score
    return best_score


def clips(low=-40, high=40):
    """Clips of any mantissa, from ``2^(low - 1)`` to ``2^high``."""
    return st.builds(lambda m, e: m * 2.0**e, st.floats(0.5, 1.0), st.integers(low, high))


@st.composite
def one_row(draw, dtype, widths):
    """One record with equal, random or special entries, of a norm in the whole range."""
    width = draw(widths)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.sampled_from(["equal", "signs", "normal", "heavy tails", "spike", "special"]))
    row = {
        "equal": np.ones(width),
        "signs": rng.choice([-1.0, 1.0], width),
        "normal": rng.normal(size=width),
        "heavy tails": np.exp(20 * rng.normal(size=width)),
        "spike": np.eye(width)[-1],
        "special": rng.choice(list(awkward_arrays.special_rows(width, dtype).values())).astype(float),
    }[shape]
    with np.errstate(over="ignore"):
        row = (row * 2.0 ** draw(st.integers(-30, 30))).astype(dtype)
    return np.nan_to_num(row)[None, :]


@st.composite
def neighbouring_rows(draw, dtype, relation, widths):
    """Rows, neighbouring rows with an arbitrary replaced record, and a function that changes targets."""
    n_rows, width = draw(st.integers(2, 40)), draw(st.sampled_from(widths))
    x = awkward_arrays.ordinary(n_rows, width, dtype, draw(st.integers(0, 999)))[0]
    place = draw(st.integers(0, n_rows - 1))
    if relation == "add_or_remove":
        return x, np.delete(x, place, axis=0), lambda y, _: np.delete(y, place)
    other = x.copy()
    other[place] = draw(st.sampled_from([*awkward_arrays.special_rows(width, dtype).values(), -x[place]]))
    other[place, -1] = draw(st.sampled_from([other[place, -1], np.nan, np.inf]))

    def changed(y, target):
        targets = y.copy()
        targets[place] = target(y[place])
        return targets

    return x, other, changed
