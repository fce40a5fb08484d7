"""Losses: formulas, the constants that privacy rests on, and the accuracy of the compiled ones."""

import math

import mpmath as mp
import numpy as np
import pytest

from dperm._kernels import row_kernels
from dperm.losses import Hinge, Huber, Logistic, Loss, SquaredHinge, get_loss
from reference import numpy_kernels

LOSSES = [Logistic(), Hinge(), SquaredHinge(), Huber(0.7), Huber(3.0, target_bound=2.0)]
losses = pytest.mark.parametrize("loss", LOSSES, ids=str)
RADII = [(0.5, 1.0), (1.0, 1.0), (2.0, 0.3), (1.0, 40.0)]
radii = pytest.mark.parametrize(("row_norm", "radius"), RADII)


def targets(loss, rng, size):
    if loss.classification:
        return rng.choice([-1.0, 1.0], size)
    bound = min(loss.target_bound, 1e3)
    return rng.choice([rng.uniform(-bound, bound, size), rng.choice([-bound, bound], size)])


# -- formulas ----------------------------------------------------------------------------------------


@losses
def test_derivative_is_the_slope_of_the_value(loss):
    rng = np.random.default_rng(0)
    p, y, h = rng.normal(scale=3, size=2000), targets(loss, rng, 2000) / 100, 1e-6
    y = np.sign(y) if loss.classification else y
    kinks = np.abs(p * y - 1) < 2 * h if loss.classification else np.zeros(2000, bool)
    slope = (loss.value(p + h, y) - loss.value(p - h, y)) / (2 * h)
    assert np.allclose(slope[~kinks], loss.derivative(p, y)[~kinks], rtol=1e-8, atol=1e-8)


@losses
def test_convex_and_non_negative(loss):
    rng = np.random.default_rng(1)
    a, b, y = rng.normal(scale=10, size=5000), rng.normal(scale=10, size=5000), targets(loss, rng, 5000)
    share = rng.random(5000)
    chord = share * loss.value(a, y) + (1 - share) * loss.value(b, y)
    assert np.all(loss.value(share * a + (1 - share) * b, y) <= chord + 1e-9 * (1 + chord))
    assert np.all(loss.value(a, y) >= 0)
    rising = np.argsort(a)
    assert np.all(np.diff(loss.derivative(a[rising], y[0])) >= 0)


def test_values_by_hand():
    assert Logistic().value(0.0, 1.0) == pytest.approx(math.log(2))
    assert Logistic().derivative(0.0, -1.0) == 0.5
    assert Hinge().value([0.0, 1.0, 3.0], 1.0).tolist() == [1.0, 0.0, 0.0]
    assert Hinge().derivative([0.0, 1.0, 3.0], 1.0).tolist() == [-1.0, 0.0, 0.0]
    assert SquaredHinge().value([-1.0, 1.0], 1.0).tolist() == [2.0, 0.0]
    assert Huber(1.0).value([0.5, 3.0], 0.0).tolist() == [0.125, 2.5]
    assert Huber(1.0).derivative([0.5, 3.0, -3.0], 0.0).tolist() == [0.5, 1.0, -1.0]


@pytest.mark.parametrize("p", [-1e308, -800.0, 800.0, 1e308])
def test_extreme_margins_are_finite_where_the_loss_is(p):
    assert Logistic().value(p, 1.0) == max(-p, 0.0)
    assert Logistic().derivative(p, 1.0) == (-1.0 if p < 0 else 0.0)


# -- constants ---------------------------------------------------------------------------------------


def attack(score, dimension, seed, rounds=400, starts=8):
    """Largest score found by random search and hill climbing in [-1, 1]^dimension."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(starts):
        best = max((rng.uniform(-1, 1, dimension) for _ in range(30)), key=score)
        for step in np.geomspace(1, 1e-4, rounds):
            candidate = np.clip(best + step * rng.normal(size=dimension), -1, 1)
            best = max(best, candidate, key=score)
        found.append(score(best))
    return max(found)


def in_ball(v, radius):
    """Map a cube onto the ball of that radius, faces onto the sphere."""
    length = np.linalg.norm(v)
    return v * (radius * np.abs(v).max() / length) if length > 0 else v


def record(loss, parameters, row_norm, bound):
    """A row within row_norm and a target, from numbers in [-1, 1]."""
    z = in_ball(parameters[:2], row_norm)
    return z, (1.0 if parameters[2] > 0 else -1.0) if loss.classification else bound * parameters[2]


def gradient(loss, z, y, w):
    return float(loss.derivative(z @ w, y)) * z


@losses
@radii
def test_lipschitz_on_a_ball_is_never_exceeded_and_attained(loss, row_norm, radius):
    bound = min(loss.target_bound, 1e6)

    def score(parameters):
        z, y = record(loss, parameters, row_norm, bound)
        return float(np.linalg.norm(gradient(loss, z, y, in_ball(parameters[3:], radius))))

    ratio = attack(score, 5, seed=0) / loss.lipschitz(row_norm, radius)
    assert 0.99 < ratio <= 1 + 1e-12


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if math.isfinite(loss.smoothness(1.0))], ids=str)
@radii
def test_smoothness_is_never_exceeded_and_attained(loss, row_norm, radius):
    bound = min(loss.target_bound, 1.0)

    def score(parameters):
        z, y = record(loss, parameters, row_norm, bound)
        v, w = in_ball(parameters[3:5], radius), in_ball(parameters[5:], radius)
        apart = np.linalg.norm(v - w)
        if apart < 1e-6 * radius:  # rounding would dominate the quotient
            return 0.0
        return float(np.linalg.norm(gradient(loss, z, y, v) - gradient(loss, z, y, w)) / apart)

    assert 0.99 < attack(score, 7, seed=1) / loss.smoothness(row_norm) <= 1 + 1e-6


def test_the_gradient_of_the_hinge_jumps():
    """It changes by R over an ever smaller distance: no smoothness constant exists."""
    z = np.array([2.0, 0.0])
    for distance in (1e-3, 1e-9, 1e-15):
        v, w = np.array([0.5, 0.0]), np.array([0.5 - distance, 0.0])
        assert np.linalg.norm(gradient(Hinge(), z, 1.0, v) - gradient(Hinge(), z, 1.0, w)) == 2.0
    assert math.isinf(Hinge().smoothness(1.0))


@losses
@pytest.mark.parametrize("row_norm", [0.5, 1.0, 2.0])
def test_global_lipschitz_constant(loss, row_norm):
    """Attained far out, or infinite and then without bound."""
    z, w = np.array([row_norm, 0.0]), np.array([1.0, 0.0])
    lengths = [np.linalg.norm(gradient(loss, z, 1.0, -(10.0**k) * w)) for k in range(0, 9)]
    constant = loss.lipschitz(row_norm)
    if math.isinf(constant):
        assert lengths[-1] > 1e7
    else:
        assert 0.99 * constant < max(lengths) <= constant * (1 + 1e-12)
        assert constant >= loss.lipschitz(row_norm, 10.0) * (1 - 1e-12)


def test_which_constants_are_infinite():
    assert [math.isinf(loss.lipschitz(1.0)) for loss in LOSSES] == [False, False, True, False, False]
    assert [math.isinf(loss.smoothness(1.0)) for loss in LOSSES] == [False, True, False, False, False]


# -- the compiled losses -----------------------------------------------------------------------------

MARGINS = np.unique(
    np.concatenate(
        [
            np.linspace(-800, 800, 1601),
            np.random.default_rng(2).uniform(-50, 50, 600),
            np.outer([-1, 1], np.geomspace(1e-300, 1, 200)).ravel(),
            [0.0, np.log(2) / 2, np.nextafter(708, 0), 708.0, 708.5],
        ]
    )
)


def compiled(loss, p, y):
    """Derivative and value of one record whose prediction is exactly ``p``."""
    rows = row_kernels.DenseRows(np.ones((1, 1)), np.array([y]), False, 1.0, 1)
    derivative, value = rows.gradient_sum(loss.kernel, np.array([p]), 1)
    return float(derivative[0]), value


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_compiled_logistic_loss_is_accurate_everywhere(instruction_set, y):
    with mp.workdps(400):
        for margin in MARGINS:
            derivative, value = compiled(Logistic(), y * margin, y)
            exact_value = mp.log1p(mp.exp(-mp.mpf(margin)))
            exact_slope = -y / (1 + mp.exp(mp.mpf(margin)))
            assert abs(value - exact_value) <= 1.5e-15 * exact_value + 1e-306, margin
            assert abs(derivative - exact_slope) <= 1.5e-15 * abs(exact_slope) + 1e-306, margin


@losses
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_compiled_losses_equal_the_numpy_ones(instruction_set, loss):
    rng = np.random.default_rng(3)
    for p in [*rng.normal(scale=3, size=300), 0.0, 1.0, -1.0, 0.7, 1e200, -1e200]:
        for y in (1.0, -1.0) if loss.classification else (1.0, -0.3, 2.0):
            derivative, value = compiled(loss, p, y)
            assert derivative == pytest.approx(float(loss.derivative(p, y)), rel=1e-14, abs=1e-300)
            expected = float(loss.value(p, y))
            assert value == pytest.approx(expected if math.isfinite(expected) else 0.0, rel=1e-14, abs=1e-300)


@losses
def test_compiled_sums_of_one_record_are_the_loss_and_its_slope_on_the_grid(instruction_set, loss):
    """The exact sums evaluate the same functions as the plain ones."""
    rows = row_kernels.DenseRows(np.ones((1, 1)), np.array([1.0]), False, 1.0, 1)
    arguments = (loss.kernel,)
    for p in np.linspace(-9, 9, 37):
        derivative, value = compiled(loss, p, 1.0)
        grid = 2.0**-40
        slope = rows.clipped_gradient_sum(*arguments, np.array([p]), 16.0, grid, 1) * grid
        score = rows.clipped_loss_sums(*arguments, np.array([p]), np.zeros(1), np.zeros(1), 64.0, grid, 1)
        assert abs(slope[0] - derivative) <= grid / 2
        assert abs(score[0] * grid - value) <= grid / 2


def test_reference_formulas_agree_with_the_package():
    p, y = np.linspace(-5, 5, 201), np.tile([1.0, -1.0, 1.0], 67)
    package = {loss.name: loss for loss in LOSSES[:4]}
    assert package["huber"].threshold == numpy_kernels.HUBER_THRESHOLD
    for name, loss in package.items():
        assert np.allclose(numpy_kernels.VALUES[name](p, y).astype(float), loss.value(p, y))
        assert np.allclose(numpy_kernels.DERIVATIVES[name](p, y).astype(float), loss.derivative(p, y))


# -- arguments ---------------------------------------------------------------------------------------


def test_get_loss_by_name_or_instance():
    for name in ("logistic", "hinge", "squared_hinge", "huber"):
        assert isinstance(get_loss(name), Loss)
        assert get_loss(name).name == name
    mine = Huber(2.0)
    assert get_loss(mine) is mine


@pytest.mark.parametrize("loss", ["log", 3, None, ["hinge"]])
def test_unknown_loss(loss):
    with pytest.raises(ValueError, match="loss must be"):
        get_loss(loss)


@pytest.mark.parametrize("name", ["threshold", "target_bound"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_bad_huber_parameters(name, value):
    with pytest.raises(ValueError, match=f"{name} must be positive.* got {value!r}"):
        Huber(**{name: value})
