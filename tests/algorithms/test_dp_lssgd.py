"""DP-LSSGD and DP-LSAdam: numpy reference, noise, the theorem that is false, which weights are smoothed."""

import math
import warnings

import numpy as np
import pytest
from scipy.special import softmax

from algorithms.problems import objective, zero_rows
from algorithms.recorded_batches import recorded_batches
from dperm import Objective
from dperm.accounting import noise_multiplier
from dperm.algorithms import dp_lsadam, dp_lssgd, dp_sgd, nonprivate
from dperm.losses import Softmax
from dperm.mechanisms import laplacian_smoothing
from reference import numpy_sgd as twin

SHORT = {"batch_size": 100, "steps": 30, "clip": 0.3, "step_size": 2.0}
both = pytest.mark.parametrize("algorithm", [dp_lssgd, dp_lsadam])


@both
def test_noise_is_that_of_dp_sgd_smoothed_afterwards(algorithm):
    """On zero rows the first gradient of the callback is the smoothed noise."""
    obj, seen = zero_rows(1000, d=300), {}
    for name, fit in [
        ("plain", dp_sgd),
        ("smoothed", lambda *args, **kwargs: algorithm(*args, smoothing=5.0, **kwargs)),
    ]:
        result = fit(
            obj, 1.0, 1e-6, batch_size=50, steps=1, clip=0.3, random_state=1,
            callback=lambda step, name=name: seen.update({name: step["gradient"]}),
        )  # fmt: skip
        z = noise_multiplier(1.0, 1e-6, batch_size=50, n_samples=1000, steps=1)
        assert result.privacy.noise_scale == z * 0.3
    np.testing.assert_array_equal(seen["smoothed"], laplacian_smoothing(seen["plain"], 5.0))


def test_without_smoothing_it_equals_dp_sgd():
    settings = {"random_state": 2, **SHORT}
    plain = dp_sgd(objective(), 1.0, 1e-6, **settings).coef
    np.testing.assert_array_equal(dp_lssgd(objective(), 1.0, 1e-6, smoothing=0.0, **settings).coef, plain)
    adam = dp_sgd(objective(), 1.0, 1e-6, optimizer="adam", **settings).coef
    np.testing.assert_array_equal(dp_lsadam(objective(), 1.0, 1e-6, smoothing=0.0, **settings).coef, adam)


@both
def test_images_are_smoothed_in_both_directions(algorithm):
    obj, gradients = zero_rows(1000, d=12, fit_intercept=True), []
    for shape in ((3, 4), None):
        algorithm(
            obj, 1.0, 1e-6, smoothing=2.0 if shape else 0.0, image_shape=shape, steps=1, random_state=1,
            batch_size=100, callback=lambda step: gradients.append(step["gradient"]),
        )  # fmt: skip
    image = laplacian_smoothing(gradients[1][:12].reshape(3, 4), 2.0, axis=(0, 1))
    np.testing.assert_array_equal(gradients[0], np.append(image.ravel(), gradients[1][12]))


@both
def test_without_noise_it_reaches_the_optimum(algorithm):
    obj = objective(l2=0.01)
    best = nonprivate(obj).coef
    settings = {"step_size": 0.02} if algorithm is dp_lsadam else {}
    result = algorithm(obj, math.inf, 1e-6, batch_size=2000, steps=3000, clip=10.0, tail=0.2, **settings)
    assert obj.value(result.coef) - obj.value(best) < 1e-6


@both
def test_paper_mode_uses_the_published_noise_where_the_accountant_confirms_it(algorithm):
    settings = {"batch_size": 500, "steps": 200, "clip": 1.0, "calibration": "paper"}
    statement = algorithm(zero_rows(5000), 1.0, 1e-5, **settings).privacy
    nu = math.sqrt(8 * 200 * (2 * math.log(1e5) + 1)) / 5000
    assert statement.noise_scale == pytest.approx(500 * nu, rel=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tight = algorithm(zero_rows(5000), 1.0, 1e-5, **(settings | {"calibration": "tight"}))
    assert tight.privacy.noise_scale < 0.7 * statement.noise_scale


# single steps that satisfy the condition of the theorem, but not its claim
@both
@pytest.mark.parametrize(
    ("n", "batch_size", "delta", "epsilon"),
    [(1000, 10, 1e-6, 0.083), (50_000, 500, 1e-5, 0.075), (1000, 100, 1e-5, 0.75)],
)
def test_paper_mode_is_refused_where_the_theorem_is_false(algorithm, n, batch_size, delta, epsilon):
    with pytest.raises(ValueError, match="dp_lssgd"):
        algorithm(
            zero_rows(n), epsilon, delta, batch_size=batch_size, steps=1, calibration="paper",
            sampling="without_replacement", neighbors="replace_one",
        )  # fmt: skip


def three_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5)) / 4
    return X, np.argmax(X @ rng.normal(size=(5, 3)) + 0.2 * rng.normal(size=(500, 3)), axis=1)


@pytest.mark.parametrize("smoothing", [0.0, 3.0])
def test_each_class_is_smoothed_separately(smoothing):
    """Without noise and without clipping, against plain numpy."""
    X, y = three_classes()
    obj = Objective(Softmax(3), X, y.astype(float), row_norm=9.0, fit_intercept=True)
    settings = {"batch_size": 100, "steps": 20, "clip": 100.0, "step_size": 1.0, "momentum": 0.0, "tail": 0.0}
    with recorded_batches(500) as batches:
        result = dp_lssgd(obj, math.inf, 1e-6, smoothing=smoothing, **settings)
    rows, w = np.column_stack([X, np.ones(500)]), np.zeros((6, 3))
    for batch in batches:
        gradient = rows[batch].T @ (softmax(rows[batch] @ w, axis=1) - np.eye(3)[y[batch]]) / 100
        for k in range(3):
            gradient[:5, k] = twin.smoothing_by_fft(gradient[:5, k], smoothing)
        w = w - gradient
    np.testing.assert_allclose(result.coef, w, atol=1e-5)


@pytest.mark.parametrize("algorithm", [dp_sgd, dp_lssgd, dp_lsadam])
def test_softmax_weights_are_noisy_and_projected(algorithm):
    X, y = three_classes()
    obj = Objective(Softmax(3), X, y.astype(float), row_norm=2.0, fit_intercept=True)
    coef = algorithm(obj, 1.0, 1e-6, radius=0.5, batch_size=50, steps=20, random_state=0).coef
    assert coef.shape == obj.shape == (6, 3)
    assert np.all(coef != 0.0)
    assert np.linalg.norm(coef) <= 0.5
