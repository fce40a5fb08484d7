"""DP-LSSGD and DP-LSAdam: twins, noise, the false theorem, smoothing of the right weights."""

import math
import warnings

import numpy as np
import pytest
from scipy.special import softmax

from algorithms.counted_sums import counted_sums
from algorithms.problems import objective, separable
from algorithms.recorded_batches import recorded_batches
from dperm import Objective
from dperm.accounting import Ledger, noise_multiplier
from dperm.algorithms import dp_lsadam, dp_lssgd, dp_sgd, nonprivate
from dperm.algorithms.minibatch_descent import MinibatchSchedule
from dperm.audit import replay_check
from dperm.errors import BudgetExceededError
from dperm.losses import Softmax
from dperm.mechanisms import laplacian_smoothing
from reference import numpy_algorithms as rows_twin
from reference import numpy_sgd as twin

SHORT = {"batch_size": 100, "steps": 30, "clip": 0.3, "step_size": 2.0}
both = pytest.mark.parametrize("algorithm", [dp_lssgd, dp_lsadam])


def smooth_columns(gradient):
    """Five columns on a ring; the intercept alone."""
    return np.append(twin.smoothing_by_fft(gradient[:-1], 3.0), gradient[-1])


@both
@pytest.mark.parametrize(
    ("sampling", "neighbors"),
    [("poisson", "add_or_remove"), ("without_replacement", "replace_one"), ("permutation", "replace_one")],
)
def test_without_noise_it_is_the_numpy_twin(algorithm, sampling, neighbors):
    X, y = separable()
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True, l2=0.1, penalize_intercept=True)
    with recorded_batches(2000) as batches:
        result = algorithm(
            obj, math.inf, 1e-6, smoothing=3.0, sampling=sampling, neighbors=neighbors, momentum=0.8,
            tail=0.4, **SHORT,
        )  # fmt: skip
    schedule = MinibatchSchedule(momentum=0.8, tail=0.4, **SHORT)
    move = twin.heavy_ball(2.0, 0.8) if algorithm is dp_lssgd else twin.adam(2.0, 0.8)
    rows = rows_twin.scaled_rows(X, 1.5, True)
    expected = twin.minibatch_descent(
        rows, y, batches, np.zeros((30, 6)), schedule, move, smooth_columns, l2=0.1
    )
    np.testing.assert_allclose(result.coef, expected, rtol=1e-5)
    assert not result.privacy.private


@both
def test_noise_is_that_of_dp_sgd_and_smoothing_comes_after_it(algorithm):
    """Records without information: the first gradient of the callback is the smoothed noise."""
    obj = Objective("logistic", np.zeros((1000, 300)), np.ones(1000), row_norm=1.0)
    seen = {}
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


def test_without_smoothing_it_is_dp_sgd():
    settings = {"random_state": 2, **SHORT}
    plain = dp_sgd(objective(), 1.0, 1e-6, **settings).coef
    np.testing.assert_array_equal(dp_lssgd(objective(), 1.0, 1e-6, smoothing=0.0, **settings).coef, plain)
    adam = dp_sgd(objective(), 1.0, 1e-6, optimizer="adam", **settings).coef
    np.testing.assert_array_equal(dp_lsadam(objective(), 1.0, 1e-6, smoothing=0.0, **settings).coef, adam)


@both
def test_images_are_smoothed_in_both_directions(algorithm):
    obj = Objective("logistic", np.zeros((1000, 12)), np.ones(1000), row_norm=1.0, fit_intercept=True)
    gradients = []
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
def test_seeded_runs_repeat_on_any_number_of_threads(algorithm):
    X, y = separable(n=20_000, d=20)
    coefs = [
        algorithm(
            Objective("logistic", X, y, n_threads=threads),
            1.0,
            1e-6,
            batch_size=6000,
            steps=7,
            random_state=3,
        ).coef
        for threads in (1, 2)
    ]
    np.testing.assert_array_equal(coefs[0], coefs[1])


@both
def test_all_that_was_planned_is_spent(monkeypatch, algorithm):
    doors, steps = counted_sums(monkeypatch)
    ledger = Ledger(0.7, 1e-7)
    algorithm(objective(), 0.7, 1e-7, ledger=ledger, **SHORT)
    (door,) = doors
    assert len(steps) == 30
    assert door.budget.spent_units == door.budget.total_units == 30
    assert ledger.spent == 0.7
    with pytest.raises(BudgetExceededError):
        algorithm(objective(), 0.7, 1e-7, ledger=ledger, **SHORT)


@both
def no_information(n):
    return Objective("logistic", np.zeros((n, 1)), np.ones(n), row_norm=1.0)


class TestPaperMode:
    @both
    def test_published_noise_where_the_accountant_confirms_it(self, algorithm):
        settings = {"batch_size": 500, "steps": 200, "clip": 1.0, "calibration": "paper"}
        statement = algorithm(no_information(5000), 1.0, 1e-5, **settings).privacy
        nu = math.sqrt(8 * 200 * (2 * math.log(1e5) + 1)) / 5000
        assert statement.noise_scale == pytest.approx(500 * nu, rel=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tight = algorithm(no_information(5000), 1.0, 1e-5, **(settings | {"calibration": "tight"}))
        assert tight.privacy.noise_scale < 0.7 * statement.noise_scale

    # single steps in which the stated condition holds and the claim is false
    @both
    @pytest.mark.parametrize(
        ("n", "batch_size", "delta", "epsilon"),
        [(1000, 10, 1e-6, 0.083), (50_000, 500, 1e-5, 0.075), (1000, 100, 1e-5, 0.75)],
    )
    def test_refused_where_the_theorem_is_false(self, algorithm, n, batch_size, delta, epsilon):
        with pytest.raises(ValueError, match="dp_lssgd"):
            algorithm(
                no_information(n), epsilon, delta, batch_size=batch_size, steps=1, calibration="paper",
                sampling="without_replacement", neighbors="replace_one",
            )  # fmt: skip

    @both
    @pytest.mark.parametrize(
        "settings",
        [
            {"neighbors": "replace_one"},
            {"sampling": "permutation"},
            {"accountant": "rdp"},
        ],
    )
    def test_refused_for_what_is_not_published(self, algorithm, settings):
        with pytest.raises(ValueError, match="needs accountant='pld'"):
            algorithm(objective(), 1.0, 1e-5, calibration="paper", **settings)
        with pytest.raises(ValueError, match="finite epsilon"):
            algorithm(objective(), math.inf, 1e-5, calibration="paper")


def three_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5)) / 4
    return X, np.argmax(X @ rng.normal(size=(5, 3)) + 0.2 * rng.normal(size=(500, 3)), axis=1)


@pytest.mark.parametrize("smoothing", [0.0, 3.0])
def test_each_class_is_smoothed_on_its_own(smoothing):
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
def test_weights_of_any_shape_are_noisy_and_projected(algorithm):
    X, y = three_classes()
    obj = Objective(Softmax(3), X, y.astype(float), row_norm=2.0, fit_intercept=True)
    coef = algorithm(obj, 1.0, 1e-6, radius=0.5, batch_size=50, steps=20, random_state=0).coef
    assert coef.shape == obj.shape == (6, 3)
    assert np.all(coef != 0.0)
    assert np.linalg.norm(coef) <= 0.5


@both
@pytest.mark.parametrize(
    ("sampling", "neighbors"),
    [("poisson", "add_or_remove"), ("poisson", "replace_one"), ("without_replacement", "replace_one")],
)
def test_no_record_moves_a_batch_sum_by_more_than_its_sensitivity(algorithm, sampling, neighbors):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 4)), np.sign(rng.normal(size=60))
    other = X.copy()
    other[7] = 0.0 if neighbors == "add_or_remove" else -9.0 * X[7]
    report = replay_check(
        lambda obj: algorithm(
            obj, 2.0, 1e-4, batch_size=20, steps=12, clip=0.2, step_size=0.1, sampling=sampling,
            neighbors=neighbors, random_state=2,
        ),
        Objective("logistic", X, y, row_norm=2.0),
        Objective("logistic", other, y, row_norm=2.0),
    )  # fmt: skip
    assert report.ok, report
    assert report.accesses == 12
    assert report.largest_share > 0.9


@both
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image_shape": 4}, r"image_shape must be a sequence of integers such as \(28, 28\), got 4"),
        ({"smoothing": "a"}, "smoothing must be from 0 to 1e100, got 'a'"),
    ],
)
def test_settings_of_another_type_are_refused_in_words(algorithm, settings, message):
    ledger = Ledger(1.0, 1e-5)
    with pytest.raises(ValueError, match=message):
        algorithm(objective(), 1.0, 1e-5, ledger=ledger, **settings)
    assert not ledger.history()
