"""Sums over linearly mapped rows with Mallows weights: against numpy, and attacks on sensitivity."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import Objective
from dperm.errors import DataError
from dperm.losses import Huber
from dperm.objective.moments import DIAGONAL, symmetric_matrix
from dperm.objective.weighted_rows import (
    leverage_counts,
    residual_sums,
    weighted_gradient_sum,
    weighted_gram_sum,
    weighted_hessian_sum,
    weighted_squares_sum,
    weighted_third_derivative_sum,
)
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform
from reference import awkward_arrays, numpy_kernels
from reference.exact import dtypes, one_row, opened, share

ROW_NORM, HUBER = 1.5, 0.8
LOSSES = {"logistic": "logistic", "huber": Huber(HUBER)}


def images(dimension, length=1.0, kept=None, spread=30.0, seed=0):
    """Coordinates in which the norms of rows differ."""
    rng = np.random.default_rng([seed, dimension])
    left, right = (np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] for _ in range(2))
    matrix = (left * np.geomspace(1.0, spread, dimension)) @ right
    return Transform.rounding(matrix[:kept], length)


def all_sums(objective, w, seen):
    vectors = [weighted_gradient_sum(objective, w, seen), residual_sums(objective, w, seen, (0, 1, 2))]
    if objective.loss.name == "logistic":
        vectors.append(weighted_third_derivative_sum(objective, w, seen))
    return [
        *vectors,
        weighted_gram_sum(objective, seen),
        weighted_hessian_sum(objective, w, seen),
        weighted_squares_sum(objective, w, seen),
        leverage_counts(objective, seen, 3),
        *(residual_sums(objective, w, seen, (which,)) for which in range(3)),
    ]


def twin(name, z, y, w, seen):
    """Images of the rows, their Mallows weights, and derivatives of the loss, in numpy."""
    u, p = z @ seen.values.T, z @ w
    weight = np.minimum(1.0, seen.row_norm**2 / np.maximum((u**2).sum(axis=1), 1e-300))
    if name == "huber":
        return u, weight, np.clip(p - y, -HUBER, HUBER), 1.0 * (np.abs(p - y) <= HUBER), None
    q = 1.0 / (1.0 + np.exp(-p))
    return u, weight, q - (y > 0), q * (1.0 - q), q * (1.0 - q) * (1.0 - 2.0 * q)


@dtypes
@pytest.mark.parametrize("kept", [None, 2], ids=["all coordinates", "two of them"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("width", "intercept"), [(1, True), (3, False), (8, True), (16, False), (33, True)])
def test_sums_equal_the_numpy_reference(instruction_set, dtype, width, intercept, name, kept):
    x, y, w, _ = awkward_arrays.ordinary(300, width, dtype)
    objective = Objective(LOSSES[name], x, y, row_norm=ROW_NORM, fit_intercept=intercept)
    z = numpy_kernels.scaled_rows(x, intercept, ROW_NORM).astype(float)
    n, d = z.shape
    w, seen = w[:d].astype(float), images(d, 6.0, kept)
    u, weight, slope, curvature, third = twin(name, z, y.astype(float), w, seen)
    assert (weight < 1.0).any()
    # Rows are rounded to 2^-20 of their bound, images to at most 2^-19 of theirs; single-precision
    # predictions change derivatives of the Huber loss near its threshold.
    step = 2.0**-17 * n * d
    near = 2.0 * (np.abs(np.abs(z @ w - y) - HUBER) < 1e-5).sum() if name == "huber" else 0.0

    def expect(private, expected, scale):
        got = opened(private)
        matrix = symmetric_matrix(got) if got.ndim == 1 and got.size != expected.shape[0] else got
        np.testing.assert_allclose(matrix, expected, atol=scale * (step + near))

    length = seen.row_norm
    expect(weighted_gradient_sum(objective, w, seen), u.T @ (weight * slope), length)
    if third is not None:
        expect(weighted_third_derivative_sum(objective, w, seen), u.T @ (weight * third), length)
    expect(weighted_gram_sum(objective, seen), (u * weight[:, None]).T @ u, length**2)
    expect(weighted_hessian_sum(objective, w, seen), (u * (weight * curvature)[:, None]).T @ u, length**2)
    expect(weighted_squares_sum(objective, w, seen), (u * (weight * slope)[:, None] ** 2).T @ u, length**2)
    largest, smoothness = (HUBER, 1.0) if name == "huber" else (1.0, 0.25)
    shares = [(weight < 1.0).sum(), (slope**2).sum() / largest**2, curvature.sum() / smoothness]
    expect(residual_sums(objective, w, seen, (0, 1, 2)), np.array(shares), 1.0)


def test_leverage_counts_equal_the_numpy_reference():
    x, y, _, _ = awkward_arrays.ordinary(500, 6, np.float64)
    objective = Objective("logistic", x, y, row_norm=ROW_NORM)
    seen = images(6, 1.0)
    u = numpy_kernels.scaled_rows(x, False, ROW_NORM).astype(float) @ seen.values.T
    lengths = np.linalg.norm(u, axis=1)
    octave = np.floor(np.log2(lengths / math.sqrt(2.0)))
    expected = np.zeros((3, 6))
    for row, length, k in zip(u, lengths, octave, strict=True):
        if k >= 0:
            expected[min(int(k), 2)] += (row / length) ** 2
    assert (expected.sum(axis=1) > 1).all()
    np.testing.assert_allclose(opened(leverage_counts(objective, seen, 3)), expected, atol=500 * 2.0**-15)


def test_coordinates_of_another_width_are_refused():
    objective = Objective("logistic", np.ones((3, 2)), np.ones(3))
    with pytest.raises(ValueError, match="2 columns, got 3"):
        weighted_gram_sum(objective, images(3))


def test_non_finite_records_contribute_nothing():
    x, y, w, _ = awkward_arrays.ordinary(100, 4, np.float64)
    spoilt, z = np.vstack([x, x[:3]]), np.append(y, y[:3])
    spoilt[100, 2], spoilt[101, 0], z[102] = np.nan, np.inf, np.nan
    seen = images(4)
    pair = [
        Objective("logistic", rows, targets, non_finite="zero", n_public=100)
        for rows, targets in ((x, y), (spoilt, z))
    ]
    for clean, other in zip(*(all_sums(each, w[:4], seen) for each in pair), strict=True):
        np.testing.assert_array_equal(opened(clean), opened(other))


def test_far_more_records_than_n_public_are_an_error():
    objective = Objective("logistic", np.ones((3_000_000, 1), np.float32), np.ones(3_000_000), n_public=1)
    with pytest.raises(DataError, match="n_public"):
        weighted_gram_sum(objective, images(1))


# -- sensitivity -------------------------------------------------------------------------------------


@dtypes
@settings(max_examples=150)
@given(data=st.data(), n_public=st.sampled_from([1, 1000, 2**20, 2**30]), intercept=st.booleans())
def test_one_record_stays_within_the_sensitivity(dtype, data, n_public, intercept):
    x = data.draw(one_row(dtype, st.sampled_from([1, 2, 3, 8, 17, 100])))
    row_norm = data.draw(st.sampled_from([1e-3, 1.0, 1e3]))
    name = data.draw(st.sampled_from(sorted(LOSSES)))
    y = np.array([data.draw(st.sampled_from([-1.0, 1.0]))], dtype)
    settings = {"n_public": n_public, "row_norm": row_norm, "fit_intercept": intercept}
    objective = Objective(LOSSES[name], x, y, non_finite="zero", **settings)
    d = objective.dimension
    w = data.draw(st.sampled_from([0.0, 1.0, -1e6])) * np.ones(d)
    length = data.draw(st.sampled_from([1e-3, 1.0, 30.0, 1e4])) * row_norm
    kept = data.draw(st.sampled_from([None, 1, 2]))
    seen = images(d, length, kept, data.draw(st.sampled_from([1.0, 1e3, 1e9])), data.draw(st.integers(0, 9)))
    for private in all_sums(objective, w, seen):
        share(private)


@dtypes
@pytest.mark.parametrize("length", [0.3, 1.0])
def test_the_sensitivity_is_attained(dtype, length):
    """By a record whose image has the norm above which weights are less than 1."""
    row = np.zeros((1, 5), dtype)
    row[0, 2] = length
    seen = Transform.rounding(np.eye(5), length)
    far = np.full(5, -1e4)  # a slope of 1
    objective = Objective("logistic", row, np.ones(1, dtype))
    turning = np.full(5, math.log(2.0 + math.sqrt(3.0)) / length)  # where the third derivative is largest
    longer = Transform.rounding(8.0 * np.eye(5), length)
    gram = weighted_gram_sum(objective, seen)
    for attaining in (
        gram,
        weighted_gradient_sum(objective, far, seen),
        weighted_hessian_sum(objective, np.zeros(5), seen),
        weighted_squares_sum(objective, far, seen),
        weighted_third_derivative_sum(objective, turning, seen),
        leverage_counts(objective, longer, 3),
    ):
        assert share(attaining) > 1 - 1e-4
    assert gram.add_or_remove == pytest.approx(DIAGONAL * length**2, rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_replacing_a_record_stays_within_the_sensitivity(seed):
    """Opposite gradients move a vector by twice the bound, orthogonal rows a matrix by sqrt(2) times."""
    rng = np.random.default_rng(seed)
    rows = 2.0 * np.eye(6)[:2] if seed >= 15 else rng.normal(size=(2, 6))
    seen = Transform.rounding(np.eye(6), 1.0) if seed >= 15 else images(6, 0.7, seed=seed)
    w = rng.normal(size=6) if seed else np.zeros(6)
    pair = [Objective("logistic", row[None], np.ones(1), row_norm=2.0) for row in rows]
    turned = Objective("logistic", rows[0][None], -np.ones(1), row_norm=2.0)

    def moved(one, other):
        shares = []
        for first, second in zip(all_sums(one, w, seen), all_sums(other, w, seen), strict=True):
            assert (first.grid, first.replace_one) == (second.grid, second.replace_one)
            apart = first._integers - second._integers
            shares.append(share(Bounded(apart, grid=first.grid, add_or_remove=first.replace_one)))
        return shares

    gram = moved(*pair)[3]
    moved(pair[0], turned)
    if seed >= 15:
        assert gram > 1 - 1e-4


def test_sums_that_could_overflow_are_refused():
    objective = Objective("logistic", np.eye(2), [1.0, -1.0], counts=[2**42, 2**42])
    seen = Transform.rounding(np.eye(2), 1.0)
    for make in (
        lambda: leverage_counts(objective, seen, 3),
        lambda: residual_sums(objective, np.zeros(2), seen, (0,)),
    ):
        with pytest.raises(DataError, match="sums could overflow"):
            make()
