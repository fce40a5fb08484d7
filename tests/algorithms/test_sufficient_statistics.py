"""Least squares from noisy sums: numpy reference, published algorithm, accuracy, budget."""

import math

import numpy as np
import pytest
from scipy import stats

from algorithms.problems import separable
from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import nonprivate, sufficient_statistics
from dperm.losses import Huber, SquaredError
from dperm.objective.moments import regression_sums
from reference import numpy_algorithms as twin
from reference.exact import opened


def linear(n=3000, d=5, seed=0, **keywords):
    X, _ = separable(n, d, seed)
    rng = np.random.default_rng(seed)
    y = X @ rng.normal(size=d) + 0.3 + 0.1 * rng.normal(size=n)
    settings = {"row_norm": 1.5, "fit_intercept": True, **keywords}
    return Objective(SquaredError(2.0), X, y, **settings)


def rows_and_targets(obj):
    """What the objective sees, in numpy."""
    return twin.scaled_rows(obj._rows.x, 1.5, True), np.clip(obj._rows.y, -2, 2)


def test_without_noise_it_reaches_the_optimum():
    for obj in (linear(), linear(l2=0.1), linear(l2=0.1, penalize_intercept=True, fit_intercept=True)):
        result = sufficient_statistics(obj, math.inf, 1e-6)
        np.testing.assert_allclose(result.coef, nonprivate(obj).coef, atol=2e-5)
        assert not result.privacy.private


def adassp(rows, y, row_norm, target_bound, epsilon, delta, rng):
    """Wang 2018, Algorithm 2, as published."""
    d = rows.shape[1]
    log_term = math.log(6 / delta)
    scale, third = row_norm**2 / (epsilon / 3), math.sqrt(log_term) / (epsilon / 3)
    smallest = np.linalg.eigvalsh(rows.T @ rows)[0] + third * row_norm**2 * rng.normal() - log_term * scale
    ridge = math.sqrt(d * log_term * math.log(2 * d**2 / 0.05)) * scale - max(smallest, 0.0)
    noise = np.triu(rng.normal(size=(d, d)))
    noise = (noise + np.triu(noise, 1).T) * third * row_norm**2
    products = rng.normal(size=d) * third * row_norm * target_bound
    return twin.least_squares_by_statistics(rows, y, noise, products, max(ridge, 0.0))


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_the_paper_mode_is_the_published_algorithm(epsilon):
    """The same distribution: a two-sample test of every weight, false alarm 1e-6."""
    obj = linear(n=5000)
    rows, y = rows_and_targets(obj)
    rng = np.random.default_rng(1)
    ours = [
        sufficient_statistics(obj, epsilon, 1e-6, calibration="paper", random_state=s).coef
        for s in range(200)
    ]
    published = [adassp(rows, y, 1.5, 2.0, epsilon, 1e-6, rng) for _ in range(200)]
    for j in range(6):
        assert stats.ks_2samp([w[j] for w in ours], [w[j] for w in published]).pvalue > 1e-6 / 6


def test_published_noise_that_is_too_small_is_refused():
    ledger = Ledger(1e3, 0.5)
    with pytest.raises(ValueError, match="does not give"):
        sufficient_statistics(linear(), 60.0, 1e-2, calibration="paper", ledger=ledger)
    assert ledger.spent == 0.0


def test_paper_mode_makes_three_releases_within_the_budget(record):
    result = sufficient_statistics(linear(), 0.7, 1e-7, calibration="paper")
    assert [each["exact"].shape for each in record] == [(1,), (21,), (6,)]
    assert {each["multiplier"] for each in record} == {3 * math.sqrt(math.log(6e7)) / 0.7}
    assert record[0]["budget"].spent_units <= record[0]["budget"].total_units
    assert result.privacy.steps == 3


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_of_the_separate_sums_stay_within_their_bounds(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    X, y = rng.normal(size=(n + 1, d)) * rng.choice([0.1, 3.0]), rng.normal(size=n + 1) * 3
    pairs = [Objective(SquaredError(2.0), X[:k], y[:k], row_norm=1.5, n_public=n) for k in (n, n + 1)]
    for private, other in zip(*(regression_sums(o, 0.7) for o in pairs), strict=True):
        assert np.linalg.norm(opened(private) - opened(other)) <= private.sensitivity("add_or_remove")


def test_the_bounds_of_the_separate_sums_are_attained():
    one = Objective(SquaredError(2.0), np.array([[1.5]]), [2.0], row_norm=1.5, n_public=1000)
    for private in regression_sums(one, 0.7):
        value = np.linalg.norm(opened(private))
        assert 0.999 * private.add_or_remove < value <= private.add_or_remove


def test_noise_that_exceeds_the_signal_gives_small_weights():
    obj = linear(n=100)
    sizes = [np.abs(sufficient_statistics(obj, 0.05, 1e-6, random_state=s).coef).max() for s in range(20)]
    assert np.median(sizes) < 2.0


@pytest.mark.parametrize(
    ("loss", "message"), [(SquaredError(), "public bound"), (Huber(1.0, target_bound=1.0), "squared_error")]
)
def test_other_losses_are_refused_before_the_charge(loss, message):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match=message):
        sufficient_statistics(Objective(loss, *separable(n=10)), 1.0, 1e-6, ledger=ledger)
    assert ledger.spent == 0.0


def test_noise_too_large_for_the_exact_sampler_is_refused_before_the_charge():
    for n in (20, 300):
        objective, smallest = linear(n=n), 1.0
        for neighbors in ("add_or_remove", "replace_one"):
            while True:  # halve epsilon until it is refused; until then every fit must succeed
                ledger = Ledger(1.0, 1e-6, neighbors=neighbors)
                try:
                    sufficient_statistics(objective, smallest, 1e-10, ledger=ledger, neighbors=neighbors)
                except ValueError as error:
                    refusal = error
                    break
                smallest /= 2.0
            assert "drowns the sums" in str(refusal)
            assert not ledger.history()
            smallest *= 4.0


def test_paper_mode_checks_noise_before_the_charge():
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match="drowns the sums"):
        sufficient_statistics(linear(n=300), 1e-6, 1e-10, calibration="paper", ledger=ledger)
    assert not ledger.history()


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_too_many_records_for_exact_moments_are_refused_before_the_charge(calibration):
    ledger = Ledger(1.0, 1e-6)
    loss = SquaredError(target_bound=1.0)
    many = Objective(loss, np.zeros((4, 40)), np.zeros(4), row_norm=1.0, n_public=2**44)
    with pytest.raises(ValueError, match="second moments"):
        sufficient_statistics(many, 1.0, 1e-6, calibration=calibration, ledger=ledger)
    assert not ledger.history()
