"""DP-SGD: numpy reference, noise of every accountant, secrecy of the batches, budget, sensitivity."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from algorithms.counted_sums import counted_sums
from algorithms.every_algorithm import SCHEMES
from algorithms.problems import objective, separable, zero_rows
from algorithms.recorded_batches import recorded_batches
from dperm import Objective
from dperm.accounting import Ledger, gdp_mu, noise_multiplier
from dperm.algorithms import dp_lsadam, dp_lssgd, dp_sgd, nonprivate
from dperm.algorithms.minibatch_descent import MinibatchSchedule
from dperm.audit import replay_check
from dperm.errors import BudgetExceededError
from dperm.losses import Logistic
from reference import numpy_algorithms as rows_twin
from reference import numpy_sgd as twin

SHORT = {"batch_size": 100, "steps": 30, "clip": 0.3, "step_size": 2.0}


def smooth_columns(gradient):
    """Five columns on a ring; the intercept alone."""
    return np.append(twin.smoothing_by_fft(gradient[:-1], 3.0), gradient[-1])


# The algorithm, its settings, and their numpy counterparts: the optimizer step and the gradient smoothing.
FAMILY = {
    "momentum": (dp_sgd, {"optimizer": "momentum"}, twin.heavy_ball, None),
    "adam": (dp_sgd, {"optimizer": "adam"}, twin.adam, None),
    "lssgd": (dp_lssgd, {"smoothing": 3.0}, twin.heavy_ball, smooth_columns),
    "lsadam": (dp_lsadam, {"smoothing": 3.0}, twin.adam, smooth_columns),
}


@pytest.mark.parametrize(("sampling", "neighbors"), SCHEMES)
@pytest.mark.parametrize("method", FAMILY)
@pytest.mark.parametrize("tail", [0.0, 0.4, 1.0])
def test_without_noise_it_equals_the_numpy_reference(sampling, neighbors, method, tail):
    algorithm, own, move, smooth = FAMILY[method]
    X, y = separable()
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True, l2=0.1, penalize_intercept=True)
    with recorded_batches(2000) as batches:
        result = algorithm(
            obj, math.inf, 1e-6, sampling=sampling, neighbors=neighbors, momentum=0.8, tail=tail, **own,
            **SHORT,
        )  # fmt: skip
    schedule = MinibatchSchedule(momentum=0.8, tail=tail, **SHORT)
    rows, smoothing = rows_twin.scaled_rows(X, 1.5, True), () if smooth is None else (smooth,)
    expected = twin.minibatch_descent(
        rows, y, batches, np.zeros((30, 6)), schedule, move(2.0, 0.8), *smoothing, l2=0.1
    )
    np.testing.assert_allclose(result.coef, expected, rtol=1e-5, atol=1e-8)
    assert not result.privacy.private
    assert all(0 < len(batch) < 2000 for batch in batches)


def test_noise_reaches_the_weights_as_calibrated():
    """On zero rows the weights are sums of noise with the stated variance."""
    settings = {"batch_size": 50, "steps": 20, "clip": 0.3, "momentum": 0.0, "tail": 0.0, "step_size": 1.0}
    result = dp_sgd(zero_rows(1000, d=400), 1.0, 1e-6, random_state=0, **settings)
    z = noise_multiplier(1.0, 1e-6, batch_size=50, n_samples=1000, steps=20)
    assert result.privacy.noise_scale == z * 0.3
    score = np.sum((result.coef / (z * 0.3 / 50)) ** 2) / 20
    assert chi2.ppf(1e-6, 400) < score < chi2.isf(1e-6, 400)


@pytest.mark.parametrize(("sampling", "neighbors"), SCHEMES)
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_noise_scale_is_clip_times_noise_multiplier(sampling, neighbors, accountant):
    settings = {"sampling": sampling, "neighbors": neighbors, "accountant": accountant}
    statement = dp_sgd(objective(), 0.8, 1e-6, **SHORT, **settings).privacy
    z = noise_multiplier(0.8, 1e-6, batch_size=100, n_samples=2000, steps=30, **settings)
    assert statement.noise_scale == pytest.approx(z * 0.3, rel=1e-15)
    assert statement.sensitivity == (0.3 if neighbors == "add_or_remove" else 0.6)
    assert statement.sampling == sampling
    assert statement.accountant == ("gdp" if sampling == "permutation" else accountant)


def test_a_radius_does_not_lower_the_replace_one_noise_of_sampled_batches():
    """Accounting of samples needs the norm bound of one gradient, not the smaller distance of two."""
    obj = objective(fit_intercept=False)
    statement = dp_sgd(
        obj, 0.8, 1e-6, neighbors="replace_one", radius=0.1, batch_size=100, steps=5, clip=9.0
    ).privacy
    z = noise_multiplier(0.8, 1e-6, batch_size=100, n_samples=2000, steps=5, neighbors="replace_one")
    longest = Logistic().lipschitz(1.5, 0.1)
    assert statement.noise_scale == pytest.approx(z * longest, rel=1e-5)
    assert statement.noise_scale >= z * longest


# Tight and published advanced composition; tests/accounting covers the moments accountant.
@pytest.mark.parametrize(
    ("accountant", "calibration", "multiplier"),
    [
        ("advanced_composition", "tight", 3.598215544),
        ("advanced_composition", "paper", 23.07125423),
        ("pld", "tight", 0.902),
    ],
)
def test_noise_of_published_settings(accountant, calibration, multiplier):
    settings = {"batch_size": 10, "steps": 100, "clip": 0.5, "accountant": accountant}
    statement = dp_sgd(zero_rows(1000), 1.0, 1e-5, calibration=calibration, **settings).privacy
    relative = 2e-3 if accountant == "pld" else 1e-9
    assert statement.noise_scale / 0.5 == pytest.approx(multiplier, rel=relative)


def test_moments_accountant_has_a_lowest_epsilon():
    settings = {"batch_size": 52, "steps": 1000, "accountant": "moments", "clip": 1.0}
    for calibration in ("tight", "paper"):
        statement = dp_sgd(zero_rows(10_000), 0.6, 1e-8, calibration=calibration, **settings).privacy
        assert statement.noise_scale == pytest.approx(4.36, rel=2e-3)
        with pytest.raises(ValueError, match="max_moment"):
            dp_sgd(zero_rows(10_000), 0.5, 1e-8, calibration=calibration, **settings)


def test_paper_mode_refuses_steps_that_cost_too_much():
    settings = {"accountant": "advanced_composition", "steps": 1, "batch_size": 10}
    with pytest.raises(ValueError, match="epsilon_t"):
        dp_sgd(objective(), 1.6, 1e-8, calibration="paper", **settings)


def test_without_noise_it_reaches_the_optimum():
    obj = objective(l2=0.01)
    best = nonprivate(obj).coef
    exact = dp_sgd(obj, math.inf, 1e-6, batch_size=2000, steps=3000, clip=10.0, tail=0.0)
    np.testing.assert_allclose(exact.coef, best, atol=1e-6)
    sampled = dp_sgd(
        obj, math.inf, 1e-6, batch_size=100, steps=3000, clip=10.0, step_size=1.0, momentum=0.0,
        random_state=0,
    )  # fmt: skip
    assert obj.value(sampled.coef) - obj.value(best) < 1e-4


def test_samples_and_noise_come_from_different_streams():
    """The noise of a seed does not depend on the number of records that are sampled from."""
    first, second = (
        dp_sgd(zero_rows(n, n_public=2000, d=3), 1.0, 1e-6, random_state=5, **SHORT).coef for n in (2000, 700)
    )
    np.testing.assert_array_equal(first, second)


def test_empty_batches_are_released_like_any_other():
    with recorded_batches(2000) as batches:
        result = dp_sgd(objective(), 1.0, 1e-6, batch_size=0.01, steps=50, clip=0.3, random_state=0)
    assert sum(len(batch) == 0 for batch in batches) >= 45
    assert len(result.history) == 50
    assert all(entry["gradient_norm"] > 1.0 for entry in result.history)


@pytest.mark.parametrize(
    ("algorithm", "sampling", "neighbors"),
    [*((dp_sgd, *scheme) for scheme in SCHEMES), *((each, *SCHEMES[0]) for each in (dp_lssgd, dp_lsadam))],
)
def test_the_planned_budget_is_spent_exactly(monkeypatch, algorithm, sampling, neighbors):
    releasers, steps = counted_sums(monkeypatch)
    ledger = Ledger(0.7, 1e-7, neighbors=neighbors)
    settings = {"sampling": sampling, "neighbors": neighbors, **SHORT}
    algorithm(objective(), 0.7, 1e-7, ledger=ledger, **settings)
    (releaser,) = releasers
    assert len(steps) == 30
    assert releaser.budget.spent_units == releaser.budget.total_units == 30
    assert 0.0 < ledger.spent <= 0.7
    with pytest.raises(BudgetExceededError):
        releaser.budget.spend(releaser.budget.event)


@pytest.mark.parametrize(("sampling", "neighbors"), SCHEMES)
@pytest.mark.parametrize(
    ("algorithm", "step_size", "place"),
    [(dp_sgd, 0.5, 0), (dp_sgd, 0.5, 17), (dp_sgd, 0.5, 59), (dp_lssgd, 0.1, 7), (dp_lsadam, 0.1, 7)],
)
def test_no_record_moves_a_batch_sum_beyond_the_sensitivity(algorithm, step_size, place, sampling, neighbors):
    """At any position; the record is replaced by an empty one or by another record."""
    rng = np.random.default_rng(place)
    X, y = rng.normal(size=(60, 4)), np.sign(rng.normal(size=60))
    other_X, other_y = X.copy(), y.copy()
    other_X[place] = 0.0 if neighbors == "add_or_remove" else -9.0 * X[place]
    report = replay_check(
        lambda obj: algorithm(
            obj, 2.0, 1e-4, batch_size=20, steps=12, clip=0.2, step_size=step_size, sampling=sampling,
            neighbors=neighbors, random_state=2,
        ),
        Objective("logistic", X, y, row_norm=2.0),
        Objective("logistic", other_X, other_y, row_norm=2.0),
    )  # fmt: skip
    assert report.ok, report
    assert report.accesses == 12
    assert report.largest_share > 0.9


@pytest.mark.parametrize("steps", [0, 2.5, "many"])
def test_steps_are_checked_before_the_schedule(steps):
    X, y = separable(n=600)
    ledger = Ledger(10.0, 1e-3)
    for solver in (dp_sgd, dp_lssgd):
        with pytest.raises(ValueError, match="steps must be a positive integer"):
            solver(Objective("softmax", X, y > 0, n_classes=2), 1.0, 1e-6, steps=steps, ledger=ledger)
    assert not ledger.history()


def test_shuffled_epochs_cost_one_gaussian_release_each():
    settings = {"sampling": "permutation", "batch_size": 300, "steps": 13}  # 6 batches per epoch: 3 epochs
    statement = dp_sgd(objective(), 1.0, 1e-6, clip=0.3, **settings).privacy
    assert statement.noise_scale == pytest.approx(0.3 * math.sqrt(3) / gdp_mu(1.0, 1e-6), rel=1e-8)
    assert statement.mu == gdp_mu(1.0, 1e-6)
