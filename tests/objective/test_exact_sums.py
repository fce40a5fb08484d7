"""Grids, inner clips and gradient distances against exact arithmetic, without data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dperm import losses
from dperm.objective.exact_sums import ExactSums, clip_before_rounding, sum_bits, sum_grid
from reference.exact import clips as clips_between

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
LOSSES = [losses.Logistic(), losses.Hinge(), losses.Huber(2.0, 3.0), losses.SquaredHinge(), losses.Sigmoid()]
clips = clips_between(-60, 60)
publics = st.integers(0, 40).flatmap(lambda e: st.integers(2**e, 2 ** (e + 1)))
radii = st.sampled_from([0.01, 1.0, 30.0, math.inf])


@st.composite
def settings_of_sums(draw, shapes=((1,), (7,), (300,), (20, 5))):
    return ExactSums(
        draw(st.sampled_from(LOSSES)),
        draw(publics),
        draw(st.sampled_from(shapes)),
        draw(st.sampled_from([1e-3, 1.0, 50.0])),
        draw(st.sampled_from(DTYPES)),
    )


@given(clip=clips, n_public=publics, finest=st.sampled_from([22, 32]))
def test_the_grid_is_the_finest_power_of_two_on_which_sums_are_exact_doubles(clip, n_public, finest):
    grid = sum_grid(clip, n_public, finest)
    assert math.frexp(grid)[0] == 0.5
    steps = Fraction(clip) / Fraction(grid)
    assert steps <= 2**finest
    assert n_public * steps <= 2**51
    rounded_up = Fraction(2) ** math.frexp(clip)[1] / Fraction(grid) * 2  # of the next finer grid
    assert rounded_up > 2**finest or 2 ** (n_public - 1).bit_length() * rounded_up > 2**51


@given(clip=clips, n_public=publics, d=st.integers(1, 5000), slack=st.sampled_from([2.0**-22, 2.0**-48]))
def test_rounding_does_not_exceed_the_clip(clip, n_public, d, slack):
    """``inner (1 + slack) + grid/2 sqrt(d) <= clip`` in exact arithmetic, up to a tenth of the slack."""
    grid = sum_grid(clip, n_public, 32)
    inner = clip_before_rounding(clip, grid, d, slack)
    if inner <= 0.0:
        assert 0.5 * grid * math.sqrt(d) >= clip * (1 - 2.0**-50)
        return
    left = Fraction(clip) - Fraction(inner) * (1 + Fraction(slack) * 9 / 10)
    assert left > 0
    assert left**2 >= Fraction(grid) ** 2 * d / 4
    assert left**2 <= (Fraction(grid) ** 2 * d / 4 + Fraction(clip * slack) ** 2) * 4  # not needlessly small


@given(sums=settings_of_sums(), clip=clips, radius=radii, seed=st.integers(0, 99))
def test_norms_of_rounded_vectors_stay_within_the_clip(sums, clip, radius, seed):
    """Vectors of the largest norm that the kernel may produce, some with all entries rounded up."""
    bounds = sums.gradients(clip, radius)
    rng, length = np.random.default_rng(seed), Fraction(bounds.inner_clip) * (1 + Fraction(sums.slack) / 2)
    for entries in (np.ones(sums.dimension), rng.normal(size=sums.dimension)):
        unit = [Fraction(value) for value in entries / (np.linalg.norm(entries) * (1 + 1e-15))]
        steps = [round(value * length / Fraction(bounds.grid)) for value in unit]
        assert sum(step * step for step in steps) <= (Fraction(bounds.clip) / Fraction(bounds.grid)) ** 2


@given(sums=settings_of_sums(), clip=clips, radius=radii)
def test_bounds_follow_the_loss(sums, clip, radius):
    bounds = sums.gradients(clip, radius)
    longest = sums.loss.lipschitz(sums.row_norm, radius)
    assert 0.0 < bounds.inner_clip < bounds.clip <= clip
    assert bounds.clip == clip or bounds.clip == pytest.approx(longest, rel=1e-5)
    assert 0.0 < bounds.replace_one <= 2.0 * bounds.clip
    if bounds.clip < clip:
        assert bounds.replace_one >= min(sums.loss.gradient_distance(sums.row_norm, radius), 2 * bounds.clip)
    else:
        assert bounds.replace_one in (2.0 * clip, pytest.approx(2.0 * clip, rel=1e-3)) or longest <= clip
    wider = sums.gradients(clip, 2.0 * radius)
    assert wider.clip >= bounds.clip
    assert wider.replace_one >= bounds.replace_one * (1 - 1e-6)


@given(
    sums=settings_of_sums(shapes=((2,), (9,))),
    radius=st.sampled_from([0.1, 1.0, 5.0]),
    seed=st.integers(0, 999),
)
def test_distance_of_two_rounded_gradients_is_bounded(sums, radius, seed):
    bounds, rng = sums.gradients(2.0**60, radius), np.random.default_rng(seed)
    w = rng.normal(size=sums.dimension)
    w *= radius / np.linalg.norm(w)
    each = []
    for sign in (1.0, -1.0):
        z = w * sign if seed % 2 else rng.normal(size=sums.dimension)
        z *= sums.row_norm / np.linalg.norm(z)
        y = rng.choice([-1.0, 1.0]) * (1.0 if sums.loss.classification else sums.loss.target_bound)
        gradient = float(sums.loss.derivative(z @ w, y)) * z
        gradient *= min(1.0, bounds.inner_clip / max(np.linalg.norm(gradient), 1e-300))
        each.append(np.rint(gradient / bounds.grid) * bounds.grid)
    assert np.linalg.norm(each[0] - each[1]) <= bounds.replace_one * (1 + 1e-12)


@given(sums=settings_of_sums(), clip=clips)
def test_clips_of_losses_lie_on_the_grid(sums, clip):
    bounds = sums.losses(clip)
    assert bounds.clip == bounds.inner_clip
    assert (Fraction(bounds.clip) / Fraction(bounds.grid)).denominator == 1
    assert Fraction(clip) - Fraction(bounds.grid) < Fraction(bounds.clip) <= Fraction(clip)


@given(sums=settings_of_sums(), stride=st.floats(1e-3, 10.0), clip=st.sampled_from([0.01, 1.0, math.inf]))
def test_changes_along_an_axis_are_bounded_by_the_lipschitz_constant(sums, stride, clip):
    slope = sums.loss.lipschitz(sums.row_norm)
    if clip == slope == math.inf:
        with pytest.raises(ValueError, match="clip must be between"):
            sums.coordinate_losses(stride, clip)
        return
    bounds = sums.coordinate_losses(stride, clip)
    assert bounds.clip == min(clip, 2.0 * stride * slope)
    assert bounds.clip - bounds.grid < bounds.inner_clip <= bounds.clip


@given(sums=settings_of_sums(shapes=((3,), (40,))), clip=clips, spread=st.sampled_from([1.0, 30.0, 1000.0]))
def test_norms_of_images_of_rounded_gradients_stay_within_the_clip(sums, clip, spread):
    """The largest singular value multiplies a gradient's errors from products and from rounding."""
    if sums.n_public > 2**20 or (sums.single and spread > 30.0):
        return
    bounds, longest = sums.mapped_gradients(clip, spread, 1.0)
    moved = 0.5 * bounds.grid * math.sqrt(sums.dimension) + 2.0 * sums.unit * longest
    image = Fraction(bounds.inner_clip) * (1 + Fraction(sums.slack) * 9 / 10) + Fraction(spread * moved)
    assert image <= Fraction(bounds.clip) * (1 + Fraction(1, 2**52))
    assert longest <= bounds.clip


@pytest.mark.parametrize(("n_public", "bits"), [(1, 22), (2**29, 22), (2**30, 21), (2**49, 2), (2**50, 1)])
def test_bits_of_the_grid(n_public, bits):
    assert sum_bits(n_public, 22) == bits


def sums_of(n_public=100, shape=(3,), loss=LOSSES[0], dtype=DTYPES[1]):
    return ExactSums(loss, n_public, shape, 1.0, dtype)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (lambda: sum_bits(2**50 + 1, 32), "n_public = .* is too large"),
        (lambda: sums_of(2**51).check(), "n_public = .* is too large"),
        (lambda: sums_of(2**50, (16,)).check(), "grid is too coarse .* fewer columns"),
        (lambda: sums_of(2**48, (300,)).gradients(1.0), "grid is too coarse"),
        (lambda: sums_of().coordinate_losses(math.nan, 1.0), "stride must be between .* got nan"),
        (lambda: sums_of().coordinate_losses("1", 1.0), "stride must be a number, got '1'"),
        (lambda: sums_of().mapped_gradients(1.0, 2.0**40, 1.0), "too ill-conditioned"),
    ],
)
def test_sums_that_cannot_be_formed_are_refused(form, message):
    with pytest.raises((ValueError, TypeError), match=message):
        form()
