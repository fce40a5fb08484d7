"""Gram, Hessian and moment sums, and linearly mapped gradients: values, and attacks on sensitivity."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import Objective
from dperm.errors import DataError
from dperm.losses import Huber, SquaredError
from dperm.objective.counts import magnitude_counts, norm_counts
from dperm.objective.gradients import MappedGradients, mapped_gradient_sum
from dperm.objective.moments import (
    DIAGONAL,
    OFF_DIAGONAL,
    column_squares,
    column_sums,
    gram_sum,
    symmetric_matrix,
)
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform
from reference import awkward_arrays, numpy_kernels, softmax_kernels
from reference.exact import dtypes, one_row, opened, share
from reference.kernel_calls import on_each_instruction_set

WIDTHS = [1, 8, 9, 17, 120]
ROW_NORM = 1.5


def ordinary(width, dtype, intercept):
    x, y, w, _ = awkward_arrays.ordinary(300, width, dtype)
    objective = Objective("logistic", x, y, row_norm=ROW_NORM, fit_intercept=intercept)
    return objective, numpy_kernels.scaled_rows(x, intercept, ROW_NORM), y, w[: objective.dimension]


def all_sums(objective, w, linear_map):
    return [
        gram_sum(objective),
        gram_sum(objective, target_factor=0.7),
        column_sums(objective, shifted(objective)),
        mapped_gradient_sum(objective, w, 0.6, linear_map),
        gram_sum(objective, transform=scaling(objective)),
        gram_sum(objective, target_factor=0.7, transform=scaling(objective)),
        gram_sum(objective, transform=shifted(objective)),
        column_squares(objective, shifted(objective), 0.3),
        norm_counts(objective, 16, shifted(objective)),
        norm_counts(objective, 16, scaling(objective)),
        magnitude_counts(objective, 8),
    ]


def scaling(objective, seed=0):
    """Random column scales, one of them zero, and a norm bound that many rows exceed."""
    rng = np.random.default_rng([seed, objective.dimension])
    scales = 2.0 ** rng.integers(-3, 9, objective.dimension)
    scales[rng.integers(objective.dimension)] = 0.0
    return Transform.scaling(scales, 0.9 * objective.row_norm * float(np.quantile(scales, 0.8) + 0.1))


def shifted(objective, seed=0):
    """The same, less a centre."""
    plain = scaling(objective, seed)
    centre = np.random.default_rng(seed).normal(size=objective.dimension) * plain.values * 0.3
    return Transform.scaling(plain.values, plain.row_norm, centre)


def random_diagonal(d, seed=0):
    return Transform.powers_of_two(2.0 ** np.random.default_rng(seed).integers(-3, 9, d), 2.0**10)


def random_map(dimension, spread=30.0, seed=0):
    rng = np.random.default_rng([seed, dimension])
    left, right = (np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] for _ in range(2))
    return Transform.rounding((left * np.geomspace(1.0, spread, dimension)) @ right)


# -- values ------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("width", WIDTHS)
def test_sums_equal_the_numpy_reference(instruction_set, dtype, intercept, width):
    objective, z, y, _ = ordinary(width, dtype, intercept)
    n, d = z.shape
    step = 2.0**-18 * n * d  # rows are rounded to 2^-19 of their norm bound
    gram = symmetric_matrix(opened(gram_sum(objective)))
    np.testing.assert_allclose(gram, (z.T @ z).astype(float), atol=2 * step * ROW_NORM**2)
    with_target = symmetric_matrix(opened(gram_sum(objective, target_factor=2.0)), target=True)
    np.testing.assert_allclose(with_target[:-1, -1], (2 * z.T @ y).astype(float), atol=8 * step)
    np.testing.assert_allclose(with_target[:-1, :-1], gram, atol=8 * step)


@dtypes
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("width", WIDTHS)
def test_sums_of_scaled_rows_equal_the_numpy_reference(instruction_set, dtype, intercept, width):
    objective, z, y, _ = ordinary(width, dtype, intercept)
    coordinates = scaling(objective)
    t = z * coordinates.values
    lengths = np.linalg.norm(t.astype(float), axis=1)
    bins = np.clip(np.floor(-2 * np.log2(np.maximum(lengths, 1e-99) / coordinates.row_norm)), 0, 15)
    edges = np.abs(bins + 2 * np.log2(np.maximum(lengths, 1e-99) / coordinates.row_norm)) < 1e-6
    counts = opened(norm_counts(objective, 16, coordinates))
    assert np.abs(counts - np.bincount(bins.astype(int), minlength=16)).sum() <= 2 * edges.sum()
    shorter = np.minimum(1.0, coordinates.row_norm / np.maximum(lengths, 1e-99))
    t *= shorter[:, None]
    n, d = t.shape
    step = 2.0**-18 * n * d * coordinates.row_norm
    gram = symmetric_matrix(
        opened(gram_sum(objective, target_factor=2.0, transform=coordinates)), target=True
    )
    np.testing.assert_allclose(gram[:-1, :-1], (t.T @ t).astype(float), atol=2 * step * coordinates.row_norm)
    products = (2 * t.T @ (shorter * y)).astype(float)
    np.testing.assert_allclose(gram[:-1, -1], products, atol=8 * max(step, 2.0**-16 * n))
    about = {"target_centre": 0.2, "target_limit": 0.9}
    sums = gram_sum(objective, target_factor=2.0, **about, transform=coordinates)
    distances = shorter * np.clip(y - 0.2, -0.9, 0.9)
    products = symmetric_matrix(opened(sums), target=True)[:-1, -1]
    expected = (2 * t.T @ distances).astype(float)
    np.testing.assert_allclose(products, expected, atol=8 * max(step, 2.0**-16 * n))
    moved = shifted(objective)
    t = z * moved.values - (z[:, -1:] * moved.shifts if intercept else 0.0)
    if not intercept:
        moved = Transform.scaling(moved.values, moved.row_norm)
    lengths = np.linalg.norm(t.astype(float), axis=1)
    t *= np.minimum(1.0, moved.row_norm / np.maximum(lengths, 1e-99))[:, None]
    np.testing.assert_allclose(
        opened(column_sums(objective, moved)), t.sum(axis=0).astype(float), atol=2 * step
    )
    clip = 0.8 * moved.row_norm**2
    factors = np.minimum(1, clip / np.maximum(np.sqrt((t**4).sum(axis=1)), 1e-300))
    np.testing.assert_allclose(
        opened(column_squares(objective, moved, clip)),
        (factors[:, None] * t**2).sum(axis=0).astype(float),
        atol=2 * step * (1 + moved.row_norm),
    )


@dtypes
@pytest.mark.parametrize("width", WIDTHS)
def test_magnitudes_are_counted_by_octaves(instruction_set, dtype, width):
    rng = np.random.default_rng(width)
    x = (2.0 ** rng.uniform(-12, 0.5, (300, width)) * rng.choice([-1, 0, 1], (300, width))).astype(dtype)
    x[0], x[1] = 0.25, 0.0  # on the edge of a bin, and zero
    row_norm = 2.0 * math.sqrt(width)
    objective = Objective("logistic", x, np.ones(300, dtype), row_norm=row_norm, fit_intercept=True)
    z = np.abs(numpy_kernels.scaled_rows(x, True, row_norm)[:, :width].astype(float)) / row_norm
    with np.errstate(divide="ignore"):
        places = np.where(z > 0, np.maximum(np.floor(-np.log2(z) + 1e-9), 0), 99)
    counted = places < 8
    weights = 1 / np.sqrt(np.maximum(counted.sum(axis=1), 1))
    expected = np.array([(weights[:, None] * (places == k)).sum(axis=0) for k in range(8)]).T
    counts = opened(magnitude_counts(objective, 8))
    assert (counts <= expected + 1e-9).all()  # rounded down
    np.testing.assert_allclose(counts, expected, atol=300 * 2.0**-12)


@dtypes
@pytest.mark.parametrize("width", [1, 7, 8, 33])
def test_mapped_sums_equal_the_numpy_reference(instruction_set, dtype, width):
    objective, _z, y, w = ordinary(width, dtype, True)
    full, diagonal = random_map(objective.dimension), random_diagonal(objective.dimension)
    each = numpy_kernels.gradients("logistic", objective._rows.x, y, w, intercept=True, row_norm=ROW_NORM)
    tolerance = (2e-3 if dtype == np.float32 else 2e-5) * len(y)
    for linear_map, matrix in ((full, full.values), (diagonal, np.diag(diagonal.values))):
        images = each.astype(float) @ matrix.T
        norms = np.maximum(np.linalg.norm(images, axis=1), 1e-300)
        for clip in (0.3, 1e9):
            expected = (images * np.minimum(1.0, clip / norms)[:, None]).sum(axis=0)
            result = opened(mapped_gradient_sum(objective, w, clip, linear_map))
            np.testing.assert_allclose(result, expected, atol=tolerance)


def of_classes(x, n_classes, **settings):
    """Records of several classes, and random weights for their columns and the intercept."""
    y, w, _ = softmax_kernels.class_problem(x, n_classes)
    objective = Objective("softmax", x, y, n_classes=n_classes, fit_intercept=True, **settings)
    return objective, y, w[: objective.shape[0]]


@dtypes
@pytest.mark.parametrize(("width", "n_classes"), [(1, 2), (8, 3), (17, 6), (33, 11)])
def test_mapped_sums_of_several_classes_equal_the_numpy_reference(instruction_set, dtype, width, n_classes):
    x = awkward_arrays.ordinary(300, width, dtype)[0]
    objective, y, w = of_classes(x, n_classes, row_norm=ROW_NORM)
    diagonal = random_diagonal(width + 1)
    each = softmax_kernels.gradients(x, y, w, intercept=True, row_norm=ROW_NORM)
    images = each * diagonal.values[:, None]
    norms = np.maximum(np.sqrt((images**2).sum(axis=(1, 2))), 1e-300)
    for clip in (0.3, 1e9):
        expected = (images * np.minimum(1.0, clip / norms)[:, None, None]).sum(axis=0).astype(float)
        result = opened(mapped_gradient_sum(objective, w, clip, diagonal))
        np.testing.assert_allclose(result, expected, atol=(2e-3 if dtype == np.float32 else 2e-5) * len(y))


@dtypes
def test_mapped_sums_of_several_classes_do_not_depend_on_threads_or_order(keep_instruction_set, dtype):
    x = awkward_arrays.ordinary(4099, 17, dtype)[0]
    order, diagonal = np.random.default_rng(0).permutation(len(x)), random_diagonal(18)
    _, y, w = of_classes(x, 5)

    def integers(rows, codes, threads):
        there = Objective("softmax", rows, codes, n_classes=5, fit_intercept=True, n_threads=threads)
        return mapped_gradient_sum(there, w, 0.3, diagonal)._integers

    ways = [(x, y, 1), (x, y, 3), (x[order], y[order], 2)]
    results = np.concatenate(on_each_instruction_set(lambda: [integers(*way) for way in ways]))
    assert (results == results[0]).all()


@dtypes
@pytest.mark.parametrize("width", [1, 8, 17, 120])
def test_instruction_sets_threads_and_order_do_not_change_a_bit(keep_instruction_set, dtype, width):
    x, y, w, _ = awkward_arrays.ordinary(2 * 2048 + 531, width, dtype)
    special = awkward_arrays.special_rows(width, dtype)
    x[100 : 100 + len(special)] = list(special.values())
    order = np.random.default_rng(0).permutation(len(x))
    linear_map = random_map(width + 1)

    def sums_of(rows, labels, threads):
        keywords = {"fit_intercept": True, "n_threads": threads, "non_finite": "zero"}
        sums = all_sums(Objective("logistic", rows, labels, **keywords), w[: width + 1], linear_map)
        return np.concatenate([each._integers.ravel() for each in sums])

    ways = [(x, y, 1), (x, y, 3), (x[order], y[order], 2)]
    results = np.concatenate(on_each_instruction_set(lambda: [sums_of(*way) for way in ways]))
    assert (results == results[0]).all()


@dtypes
def test_non_finite_records_contribute_nothing(instruction_set, dtype):
    x, y, w, _ = awkward_arrays.awkward(9, dtype)
    linear_map = random_map(10)
    bad, bad_y = x.copy(), y.copy()
    bad[20, 3], bad[21, 8], bad_y[22] = np.nan, np.inf, np.nan
    keep = np.setdiff1d(np.arange(len(x)), [20, 21, 22])
    one = Objective("logistic", bad, bad_y, fit_intercept=True, non_finite="zero", n_public=40)
    other = Objective("logistic", x[keep], y[keep], fit_intercept=True, non_finite="zero", n_public=40)
    for a, b in zip(all_sums(one, w[:10], linear_map), all_sums(other, w[:10], linear_map), strict=True):
        assert np.array_equal(a._integers, b._integers)


# -- sensitivity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [2.0**6, 2.0**600])
@pytest.mark.parametrize("row_norm", [2.0, 2.0**490])
def test_a_row_that_overflows_changes_sums_of_scaled_rows_by_the_sensitivity_at_most(scale, row_norm):
    largest = np.finfo(np.float64).max
    rows = np.array([[0.5, 0.25], [largest, -1.0], [1.0, -largest], [1e200, 1e-200], [0.125, 0.5]])
    moved = Transform.scaling([scale, 1.0, 1.0], 1.5, [0.25, -0.5, 0.0])
    makes = [
        lambda o: column_sums(o, moved),
        lambda o: column_squares(o, moved, 0.7),
        lambda o: gram_sum(o, transform=moved),
        lambda o: norm_counts(o, 8, moved),
    ]
    for make in makes:
        sums = [
            make(
                Objective("logistic", rows[:k], np.ones(k), n_public=5, row_norm=row_norm, fit_intercept=True)
            )
            for k in range(1, 6)
        ]
        for one, other in pairwise(sums):
            change = Bounded(other._integers - one._integers, grid=one.grid, add_or_remove=one.add_or_remove)
            assert share(change) <= 1.0


widths = st.sampled_from([1, 2, 3, 8, 17, 100, 300])


@dtypes
@settings(max_examples=150)
@given(data=st.data(), n_public=st.sampled_from([1, 1000, 2**20, 2**30]), intercept=st.booleans())
def test_one_record_stays_within_the_sensitivity(dtype, data, n_public, intercept):
    x = data.draw(one_row(dtype, widths))
    y = np.array([data.draw(st.sampled_from([-1.0, 1.0]))], dtype)
    row_norm = data.draw(st.sampled_from([1e-3, 1.0, 1e3]))
    objective = Objective(
        "logistic", x, y, n_public=n_public, row_norm=row_norm, fit_intercept=intercept, non_finite="zero"
    )
    d = objective.dimension
    w = data.draw(st.sampled_from([0.0, 1.0, -1e6])) * np.ones(d)
    spread = data.draw(st.sampled_from([1.0, 30.0, 1000.0 if dtype == np.float32 else 1e5]))
    linear_map = random_map(d, min(spread, objective.largest_condition), data.draw(st.integers(0, 9)))
    share(gram_sum(objective))
    share(gram_sum(objective, target_factor=row_norm))
    clip = data.draw(st.sampled_from([0.01, 1.0, 1e3])) * row_norm
    share(mapped_gradient_sum(objective, w, clip, linear_map))
    diagonal = random_diagonal(d, data.draw(st.integers(0, 9)))
    share(mapped_gradient_sum(objective, w, clip, diagonal))
    several = Objective(
        "softmax", x, y > 0, n_classes=3, n_public=n_public, row_norm=row_norm, fit_intercept=intercept,
        non_finite="zero",
    )  # fmt: skip
    share(mapped_gradient_sum(several, w[:, None] * [0.0, 1.0, -0.3], clip, diagonal))
    share(mapped_gradient_sum(several, w[:, None] * [0.0, 1.0, -0.3], clip, linear_map))
    coordinates = scaling(objective, data.draw(st.integers(0, 9)))
    share(gram_sum(objective, transform=coordinates))
    share(gram_sum(objective, target_factor=row_norm, transform=coordinates))
    about = {"target_centre": data.draw(st.sampled_from([0.0, -3.0])), "target_limit": 0.3}
    share(gram_sum(objective, target_factor=row_norm, transform=coordinates, **about))
    moved = shifted(objective, data.draw(st.integers(0, 9)))
    share(gram_sum(objective, transform=moved))
    share(column_sums(objective, moved))
    share(column_squares(objective, moved, moved.row_norm**2))
    share(norm_counts(objective, 16, moved))
    share(norm_counts(objective, 16, coordinates))
    share(magnitude_counts(objective, data.draw(st.sampled_from([1, 6, 40]))))


@dtypes
@pytest.mark.parametrize("n_public", [1, 2**20])
def test_the_sensitivity_of_the_gram_matrix_is_attained(dtype, n_public):
    """R^2: exactly by a row with a single nonzero entry, within 3 in 10,000 by any row on the bound."""
    tolerance = 1e-4 if n_public == 1 else 1e-3
    spike = Objective("logistic", np.array([[0.0, 7.0, 0.0]], dtype), np.ones(1, dtype), n_public=n_public)
    assert share(gram_sum(spike)) > 1 - tolerance
    even = Objective("logistic", np.ones((1, 30), dtype), np.ones(1, dtype), n_public=n_public)
    assert share(gram_sum(even)) > 1 - 4e-4 - tolerance
    assert gram_sum(even).add_or_remove == pytest.approx(DIAGONAL, rel=1e-12)


def share_of_change(pair, sum_of):
    """How far the sum moves between two objectives, relative to the replace-one sensitivity; at most 1."""
    one, other = map(sum_of, pair)
    assert (one.grid, one.replace_one) == (other.grid, other.replace_one)
    return share(Bounded(one._integers - other._integers, grid=one.grid, add_or_remove=one.replace_one))


@pytest.mark.parametrize("seed", range(20))
def test_replacing_a_record_moves_sums_by_sqrt_2_at_most_and_orthogonal_rows_attain_it(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2, 6))
    if seed < 5:
        rows[1] = -rows[0] + 1e-3 * rng.normal(size=6)
    if seed >= 15:
        rows = np.eye(6)[:2] * 5.0
    pair = [Objective("logistic", row[None], np.ones(1)) for row in rows]
    w = rng.normal(size=6)
    share_of_change(pair, lambda o: column_sums(o, shifted(o)))
    share_of_change(pair, lambda o: column_squares(o, shifted(o), 0.4))
    share_of_change(pair, lambda o: gram_sum(o, transform=scaling(o)))
    share_of_change(pair, lambda o: norm_counts(o, 16, scaling(o)))
    gram = share_of_change(pair, lambda o: gram_sum(o))
    magnitudes = share_of_change(pair, lambda o: magnitude_counts(o, 8))
    if seed >= 15:
        assert min(gram, magnitudes) > 1 - 1e-4
    pair[1] = Objective("logistic", rows[1][None], -np.ones(1))
    share_of_change(pair, lambda o: gram_sum(o, target_factor=1.0))
    share_of_change(pair, lambda o: gram_sum(o, target_factor=2.0, target_centre=0.4, target_limit=0.5))
    for linear_map in (random_map(6), random_diagonal(6)):
        share_of_change(pair, lambda o, linear_map=linear_map: mapped_gradient_sum(o, w, 0.2, linear_map))


@pytest.mark.parametrize("factor", [0.3, 0.7, 1.0, 1.5, 4.0])
def test_replacing_a_record_and_its_target_attains_the_bound(factor):
    """By rows of norm 1 at the worst angle with opposite targets; hundreds of pairs near them stay within."""

    def moved(rows, targets):
        pair = [
            Objective(SquaredError(target_bound=1.0), row[None], np.array([target]), row_norm=1.0)
            for row, target in zip(rows, targets, strict=True)
        ]
        return share_of_change(pair, lambda o: gram_sum(o, target_factor=factor))

    cosine = min(factor**2, 1.0)
    worst = np.array([[1.0, 0.0, 0.0], [cosine, math.sqrt(1.0 - cosine**2), 0.0]])
    assert moved(worst, [1.0, -1.0]) > 0.998
    rng = np.random.default_rng(0)
    for _ in range(400):
        rows = worst + rng.normal(size=(2, 3)) * 10.0 ** rng.uniform(-4, 0)
        moved(rows / np.linalg.norm(rows, axis=1, keepdims=True), rng.choice([-1.0, 1.0, 0.3], 2))


@dtypes
@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
def test_the_mapped_clip_is_attained(dtype, spread):
    """Also along the direction that the matrix shrinks most, where relative rounding errors are largest."""
    linear_map = random_map(8, spread)
    right = np.linalg.svd(linear_map.values)[2]
    shares = []
    diagonal = Transform.powers_of_two(np.geomspace(1.0 / spread, 1.0, 8), 1e6)
    one = Objective("hinge", 3.0 * np.eye(8)[-1:].astype(dtype), -np.ones(1, dtype))
    assert share(mapped_gradient_sum(one, np.zeros(8), 0.49, diagonal)) > 1.0 - 1e-4 * spread
    several = Objective("softmax", 3.0 * np.eye(8)[-1:].astype(dtype), [2], n_classes=4)
    assert share(mapped_gradient_sum(several, np.zeros((8, 4)), 0.49, diagonal)) > 1.0 - 1e-4 * spread
    for direction in (right[0], right[-1], right.sum(axis=0)):
        objective = Objective("hinge", 3.0 * direction[None].astype(dtype), -np.ones(1, dtype))
        # about half of the image's norm, so that it is clipped and far from a multiple of the grid
        length = np.linalg.norm(linear_map.values @ direction) / np.linalg.norm(direction)
        shares.append(share(mapped_gradient_sum(objective, np.zeros(8), 0.49 * length, linear_map)))
    assert min(shares) > 1 - (2e-5 if dtype == np.float32 else 4e-6) * spread - 1e-5


@pytest.mark.parametrize("row_norm", [1e-3, 1.0, 1e300])
def test_huge_rows_stay_within_the_mapped_clip(row_norm):
    """The factor that scales them to row_norm is subnormal, and a steep loss amplifies its error."""
    for size in (1e290, 1e300, 1e307, 1.7e308):
        for slope in (1.0, 1e12, 1e200, 1e300):
            objective = Objective("squared_hinge", [[0.0, size, 0.0]], [1.0], row_norm=row_norm)
            w = -min(slope / row_norm, 1e307) * np.ones(3)
            for seed in range(3):
                for linear_map in (random_map(3, 30.0, seed), random_diagonal(3, seed)):
                    share(mapped_gradient_sum(objective, w, 0.5, linear_map))
                several = Objective("softmax", [[0.0, size, 0.0]], [1], n_classes=2, row_norm=row_norm)
                share(mapped_gradient_sum(several, w[:, None] * [1.0, -1.0], 0.5, linear_map))


def test_understated_lengths_are_detected(monkeypatch):
    """The attack on the mapped clip fails if the lengths of images are understated."""
    original = MappedGradients._lengths
    monkeypatch.setattr(MappedGradients, "_lengths", lambda self, **which: 0.999 * original(self, **which))
    with pytest.raises(AssertionError):
        test_the_mapped_clip_is_attained(np.float64, 30.0)


# -- components --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 5, 109])
def test_products_with_a_matrix_are_exact(size):
    rng = np.random.default_rng(size)
    linear_map = Transform.rounding(rng.normal(size=(size, size)))
    vector = rng.integers(-(2**61), 2**61, size=size) >> rng.integers(0, 60, size=size)
    vector[rng.random(size) < 0.2] = 0
    vector >>= 10  # the result must fit
    integers, shift = linear_map.exact_product(vector)
    exact = linear_map.integers.astype(np.int64).astype(object) @ vector.astype(object)
    for value, rounded in zip(exact, integers, strict=True):
        assert abs(Fraction(int(value), 2**shift) - int(rounded)) <= Fraction(1, 2)


def test_the_triangle_has_the_norm_of_the_matrix():
    rng = np.random.default_rng(0)
    weights = np.where(np.equal(*np.triu_indices(7)), DIAGONAL, OFF_DIAGONAL)
    for _ in range(200):
        matrix = rng.normal(size=(7, 7))
        matrix = matrix + matrix.T
        triangle = weights * matrix[np.triu_indices(7)]
        ratio = np.linalg.norm(triangle) / (DIAGONAL * np.linalg.norm(matrix))
        assert 1 - 3.1e-4 < ratio <= 1
        np.testing.assert_allclose(symmetric_matrix(triangle), matrix, rtol=1e-14)


def test_bad_arguments():
    x, y = np.ones((4, 2)), np.ones(4)
    with pytest.raises(ValueError, match="target_bound"):
        gram_sum(Objective(Huber(1.0), x, y), target_factor=1.0)
    assert gram_sum(Objective(Huber(1.0, target_bound=2.0), x, y), target_factor=1.0).shape == (5,)
    objective = Objective("logistic", x, y)
    with pytest.raises(ValueError, match="singular"):
        mapped_gradient_sum(objective, [0.0, 0.0], 1.0, Transform.rounding(np.ones((2, 2))))
    with pytest.raises(ValueError, match="shape"):
        mapped_gradient_sum(objective, [0.0, 0.0], 1.0, Transform.rounding(np.eye(3)))
    with pytest.raises(ValueError, match="clip"):
        mapped_gradient_sum(objective, [0.0, 0.0], math.nan, Transform.rounding(np.eye(2)))
    classes = Objective("softmax", x, [0, 1, 2, 2], n_classes=3)
    with pytest.raises(ValueError, match=r"must have shape \(2, 2\)"):
        mapped_gradient_sum(classes, np.zeros((2, 3)), 1.0, Transform.powers_of_two(np.ones(6), 8.0))
    for bad in (np.zeros((2, 2)), np.full((2, 2), np.nan), np.ones(3)):
        with pytest.raises(ValueError, match="matrix"):
            Transform.rounding(bad)
    few = Objective("logistic", x, y, n_public=1)
    few._n_rows = 2**40
    for call in (lambda: gram_sum(few), lambda: column_sums(few, Transform.scaling(np.ones(2), 1.0))):
        with pytest.raises(DataError, match="n_public = 1 is far below"):
            call()
