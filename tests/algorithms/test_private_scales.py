"""Scales of the data that a fit learns privately before descent: budget shares, accuracy, invariance."""

import math

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting import Ledger, gdp_mu
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms import (
    dp_agd,
    dp_lsadam,
    dp_lssgd,
    dp_sgd,
    dp_sgd_gradient,
    noisy_gd,
    nonprivate,
    sufficient_statistics,
)
from dperm.algorithms.defaults.constants import Norms
from dperm.algorithms.defaults.scales import scale_shares
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Hinge, Huber, Logistic, Pinball, SquaredError
from dperm.mechanisms.hooks import watch_releases


def labelled(n=20_000, d=12, loose=1.0, shrunk=1.0, positives=0.5):
    """Rows of norm about 1, every third column shrunk, labels of a noisy rule."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    margin = 6.0 * (X @ rng.normal(size=d))
    margin += np.quantile(-margin, positives)
    y = np.where(margin + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    X[:, ::3] /= shrunk
    return Objective("logistic", X, y, row_norm=2.0 * loose, fit_intercept=True, n_threads=1)


IN_COORDINATES = {each.__name__: each for each in (noisy_gd, dp_agd, dp_sgd, dp_lssgd, dp_lsadam)}
LEARNERS = {**IN_COORDINATES, "dp_sgd_gradient": dp_sgd_gradient}  # which learns no scales of columns
learners = pytest.mark.parametrize("algorithm", LEARNERS.values(), ids=LEARNERS)
in_coordinates = pytest.mark.parametrize("algorithm", IN_COORDINATES.values(), ids=IN_COORDINATES)


def excess(objective, algorithm, **settings):
    """Risk above the optimum, mean of three runs."""
    risks = [
        objective.value(algorithm(objective, 0.1, 1e-6, random_state=s, **settings).coef) for s in range(3)
    ]
    return np.mean(risks) - objective.value(nonprivate(objective).coef)


@pytest.mark.parametrize(
    ("loss", "intercept", "n", "expected"),
    [
        (Logistic(), True, 10**5, (0.04, 0.02, 0.01)),
        (Logistic(), False, 10**5, (0.04, 0.02, 0.0)),
        (Hinge(), True, 10**5, (0.04, 0.02, 0.01)),
        (Hinge(), False, 10**5, (0.04, 0.02, 0.0)),
        (Huber(target_bound=1.0), True, 10**5, (0.04, 0.02, 0.01)),
        (Huber(target_bound=1.0), False, 10**5, (0.04, 0.02, 0.0)),
        (Huber(), True, 10**5, (0.04, 0.02, 0.0)),
        (Pinball(0.9, target_bound=1.0), True, 10**5, (0.04, 0.02, 0.01)),
        (Pinball(0.9, target_bound=1.0), True, 2000, (0.0, 0.02, 0.09)),
        (Pinball(0.9, target_bound=1.0), True, 600, (0.0, (1 / 3) ** 2, 0.2)),
        (Pinball(0.9, target_bound=1.0), True, 90, (0.0, 0.15, 0.0)),
        (Logistic(), True, 600, (0.0, (1 / 3) ** 2, 0.0)),
        (Logistic(), True, 100, (0.0, 0.15, 0.0)),
    ],
)
def test_shares_follow_from_public_numbers(loss, intercept, n, expected):
    problem = PublicProblem(n, 21, 0.1, loss, 1.0, intercept=intercept)
    shares = scale_shares(problem)
    assert (shares.column_share, shares.norm_share, shares.label_share) == pytest.approx(expected)
    assert not any(scale_shares(problem, learn=False).shares().values())
    forced = scale_shares(problem, learn=True)
    assert forced.column_share > 0.0
    starts = loss.classification or loss.target_bound < math.inf
    assert (forced.label_share > 0.0) == (intercept and starts)


@learners
def test_a_loose_row_norm_costs_little(algorithm):
    tight, loose = labelled(), labelled(loose=10.0)
    reached = excess(loose, algorithm)
    assert reached < (2.5 if algorithm in (dp_agd, dp_lssgd, dp_sgd_gradient) else 1.5) * excess(
        tight, algorithm
    )
    if algorithm not in (noisy_gd, dp_agd, dp_sgd):  # which go as far as classification tolerates
        assert excess(loose, algorithm, learn_scales=False) > 3.0 * reached


def classes(loose, shrunk=1.0):
    """Four classes, rows of norm about 1, every third column shrunk."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 12)) / math.sqrt(12)
    codes = np.argmax(12.0 * (X @ rng.normal(size=(12, 4))) + rng.gumbel(size=(8000, 4)), axis=1)
    X[:, ::3] /= shrunk
    options = {"n_classes": 4, "row_norm": 2.0 * loose, "fit_intercept": True, "n_threads": 1}
    return Objective("softmax", X, codes, **options)


@pytest.mark.parametrize("algorithm", [noisy_gd, dp_agd, dp_sgd, dp_lssgd, dp_lsadam])
def test_a_loose_row_norm_costs_little_with_several_classes(algorithm):
    reached = excess(classes(10.0), algorithm)
    assert reached < 1.5 * excess(classes(1.0), algorithm)
    assert reached < 0.7 * excess(classes(10.0), algorithm, learn_scales=False)


@in_coordinates
def test_columns_far_below_the_bound_are_learned(algorithm):
    objective = labelled(shrunk=30.0)
    assert excess(objective, algorithm) < 0.8 * excess(objective, algorithm, learn_scales=False)


def test_the_learned_norm_has_the_limit_that_is_checked_before_the_charge():
    objective = Objective("absolute", np.full((9000, 2), 1e-6), np.ones(9000), row_norm=1.0, n_threads=1)
    settings = SHORT["dp_sgd_gradient"] | {"learn_scales": True, "random_state": 0}
    clip = dp_sgd_gradient(objective, 50.0, 1e-6, **settings).privacy.clip
    assert Norms.LEAST <= clip < 4.0 * Norms.LEAST


@learners
def test_the_ridge_term_is_transformed_to_learned_coordinates(algorithm):
    """In rescaled coordinates the ridge term differs between the axes."""
    rng = np.random.default_rng(0)
    X = rng.random((6000, 8))
    y = np.clip(X @ rng.normal(size=8) + 0.2 * rng.normal(size=6000), -2.0, 2.0)
    objective = Objective(Huber(target_bound=2.0), X, y, row_norm=30.0, l2=0.1, fit_intercept=True)
    reached = excess(objective, algorithm, learn_scales=True)
    assert reached < 0.1 * (objective.value(np.zeros(9)) - objective.value(nonprivate(objective).coef))


def in_unit(unit):
    """The same records in another unit; one column is far smaller than the others."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 5)) * [1.0, 1.0, 1.0, 1e-4, 1.0], rng.choice([-1.0, 1.0], 2000)
    return Objective("logistic", X * unit, y, row_norm=20.0 * unit)


@learners
@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
def test_releases_of_scales_have_the_stated_noise(neighbors, algorithm):
    """Sensitivities by hand; noise is inversely proportional to the square root of the budget share."""
    seen = []

    def watch(releaser, method, private, multiplier, *args, **kwargs):
        seen.append((private.sensitivity(neighbors), multiplier))
        return method(releaser, private, multiplier, *args, **kwargs)

    with watch_releases(watch):
        algorithm(labelled(), 1.0, 1e-6, neighbors=neighbors, random_state=0, **SHORT[algorithm.__name__])
    columns = algorithm.__name__ in IN_COORDINATES
    shares = np.array([0.04, 0.02, 0.01] if columns else [0.02, 0.01])
    sensitivities, multipliers = np.array(seen[: len(shares)]).T
    of_counts = math.sqrt(2.0) if neighbors == "replace_one" else 1.0
    np.testing.assert_allclose(sensitivities, [*[of_counts] * (len(shares) - 1), of_counts**2])
    np.testing.assert_allclose(multipliers**-2.0, gdp_mu(1.0, 1e-6) ** 2 * shares)


SHORT = {
    "noisy_gd": {"steps": 5},
    "dp_agd": {"max_iter": 2, "accountant": "gdp"},
    "dp_sgd": {"steps": 5, "sampling": "poisson"},
    "dp_lssgd": {"steps": 5},
    "dp_lsadam": {"steps": 5},
    "dp_sgd_gradient": {"steps": 5, "batch_size": 100},
}


@learners
def test_learned_scales_make_fits_equivariant_to_the_unit_of_the_data(algorithm):
    """With a ledger, too, which is charged what the releases cost."""

    def fit(unit):
        ledger = Ledger(1.0, 1e-6, allow_seeded=True)
        common = {"learn_scales": True, "random_state": 0, "ledger": ledger, **SHORT[algorithm.__name__]}
        return algorithm(in_unit(unit), 0.9, 1e-7, **common).coef

    for unit in (2.0**-40, 2.0**-3, 2.0**40):
        np.testing.assert_allclose(fit(unit) * unit, fit(1.0), rtol=1e-9, atol=1e-12)


def test_settings_in_units_of_the_data_turn_off_learned_scales():
    objective = labelled(n=300)
    for algorithm, own in (
        (noisy_gd, {"radius": 2.0}),
        (dp_sgd, {"step_size": 0.1}),
        (dp_agd, {"clip": 1.0}),
        (dp_lsadam, {"clip": 1.0}),
        (dp_sgd_gradient, {"radius": 2.0}),
    ):
        assert algorithm(objective, 1.0, 1e-6, **own).privacy.public["norm_share"] == 0.0
        with pytest.raises(ValueError, match="is in units of the data"):
            algorithm(objective, 1.0, 1e-6, learn_scales=True, **own)
    targets = Objective(SquaredError(target_bound=1.0), np.eye(3), np.ones(3), n_public=300)
    for algorithm, own in ((noisy_gd, objective), (sufficient_statistics, targets)):
        with pytest.raises(ValueError, match="learn_scales=True needs"):
            algorithm(own, 0.5, 1e-6, calibration="paper", learn_scales=True)
    for algorithm in (dp_sgd, dp_lssgd):
        with pytest.raises(ValueError, match="accountant='pld'"):
            algorithm(objective, 1.0, 1e-6, learn_scales=True, accountant="rdp")


def test_settings_of_scales_are_checked_before_the_charge():
    ledger = Ledger(1.0, 1e-6)
    objective = Objective("hinge", np.eye(3), np.ones(3))
    for bad in ("yes", 1, 0.5):
        with pytest.raises(ValueError, match="learn_scales must be"):
            noisy_gd(objective, 1.0, 1e-6, learn_scales=bad, ledger=ledger)
    assert ledger.spent == 0


def test_replacing_a_record_halves_the_signal_of_scales():
    one = PublicProblem(10**4, 20, 0.2, Logistic(), 1.0, neighbors=Neighbours.REPLACE_ONE).per_record()
    other = PublicProblem(10**4, 20, 0.1, Logistic(), 1.0)
    assert scale_shares(one) == scale_shares(other)


@learners
@pytest.mark.parametrize("row_norm", [1e-3, 0.7, 1e3])
def test_intercepts_of_any_length_relative_to_the_rows_are_scaled(algorithm, row_norm):
    """Rows, with their intercept of 1, are scaled down to a bound below 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) * min(row_norm, 1.0)
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    objective = Objective("logistic", X, y, row_norm=row_norm, fit_intercept=True)
    result = algorithm(objective, 1.0, 1e-6, random_state=0, learn_scales=True, **SHORT[algorithm.__name__])
    assert np.isfinite(result.coef).all()
