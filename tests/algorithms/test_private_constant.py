"""What fits of real targets start from: a noisy constant, and the spread of targets about it."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dperm import Objective
from dperm.accounting import Ledger, gdp_mu
from dperm.algorithms import (
    dp_agd,
    dp_lssgd,
    dp_sgd,
    dp_sgd_gradient,
    noisy_gd,
    nonprivate,
    private_start,
    rrpsgd,
)
from dperm.losses import (
    Absolute,
    EpsilonInsensitive,
    Huber,
    Pinball,
    Power,
    SquaredError,
)
from dperm.mechanisms.hooks import watch_releases

BOUND = {"target_bound": 2.0}
LOSSES = [
    SquaredError(**BOUND),
    Huber(0.7, **BOUND),
    Huber(0.01, **BOUND),
    Absolute(**BOUND),
    Pinball(0.9, **BOUND),
    Pinball(0.1, curvature=50.0, **BOUND),
    EpsilonInsensitive(0.3, **BOUND),
    Power(1.5, **BOUND),
]
SHORT = {
    "noisy_gd": {"steps": 1},
    "dp_agd": {"max_iter": 1, "accountant": "gdp"},
    "dp_sgd": {"steps": 1, "sampling": "poisson"},
    "dp_lssgd": {"steps": 1},
    "dp_sgd_gradient": {"steps": 1, "batch_size": 500},
    "rrpsgd": {"rounds": 2, "batch_size": 500},
}
LEARNERS = {each.__name__: each for each in (noisy_gd, dp_agd, dp_sgd, dp_lssgd, dp_sgd_gradient, rrpsgd)}
learners = pytest.mark.parametrize("algorithm", LEARNERS.values(), ids=LEARNERS)


def skewed(loss, n=20_000, **settings):
    """Targets far from 0, half of them equal; rows tell nothing about them."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.5, 1.0, 0.8 + 0.5 * rng.random(n))
    X = rng.normal(size=(n, 3))
    return Objective(loss, X, y, row_norm=4.0, fit_intercept=True, **settings), y


def accepted(loss, algorithm):
    """The loss, with its kink smoothed for the algorithm that needs that."""
    return loss.smoothed(1e3) if algorithm is rrpsgd and loss.kink_jump else loss


def constants_of(algorithm, objective, epsilon, **settings):
    """The constants that were found, and the noise of the releases from which they were."""
    found, noise, honest = [], [], private_start.noisy_constant

    def noisy_constant(fit, release, multiplier):
        def watch(releaser, method, private, multiplier, *args, **kwargs):
            noise.append((private.sensitivity(releaser.neighbors), multiplier))
            return method(releaser, private, multiplier, *args, **kwargs)

        with watch_releases(watch):
            found.append(honest(fit, release, multiplier))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_start, "noisy_constant", noisy_constant)
        short = SHORT[algorithm.__name__] | {"random_state": 0} | settings
        result = algorithm(objective, epsilon, 1e-6, **short)
    return result, found, noise


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_without_much_noise_it_is_the_best_constant(loss):
    objective, y = skewed(loss)

    def risk(constant):
        return float(np.mean(loss.value(np.full(len(y), constant), y)))

    _, (found,), _ = constants_of(noisy_gd, objective, 100.0, learn_scales=True)
    best = minimize_scalar(risk, bounds=(-2.0, 2.0), method="bounded", options={"xatol": 1e-9})
    assert risk(found.prediction) - best.fun < 0.02 * (risk(0.0) - best.fun)
    assert abs(found.prediction - best.x) < 0.06


@learners
@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("loss", [SquaredError(**BOUND), Pinball(0.9, **BOUND)], ids=repr)
def test_its_releases_cost_their_share_and_have_the_stated_noise(loss, neighbors, algorithm):
    """Slopes of the squared error are clipped at the distance to look within, and ever closer."""
    result, _, noise = constants_of(algorithm, skewed(accepted(loss, algorithm))[0], 1.0, neighbors=neighbors)
    sensitivities, multipliers = np.array(noise).T
    factor = 2.0 if neighbors == "replace_one" else 1.0
    assert sensitivities[0] == sensitivities[-1] == pytest.approx(math.sqrt(factor))
    steepest = sensitivities[1:-1] / factor
    if loss.name == "squared_error":
        assert 1.0 < steepest[0] <= 2.0
        np.testing.assert_allclose(steepest, steepest[0] * 0.5 ** np.arange(8), rtol=1e-9)
    else:
        np.testing.assert_allclose(steepest, 0.9, rtol=1e-9)
    mu, share = gdp_mu(1.0, 1e-6), result.privacy.public["label_share"]
    assert share == 0.01
    assert np.sum(multipliers**-2.0) == pytest.approx(share * mu**2)


@learners
def test_a_ledger_pays_for_everything_before(algorithm):
    """The shares leave exactly what the descent costs, whatever rounding a cost takes."""
    for epsilon in (0.05, 0.3, 2.0):
        objective, _ = skewed(accepted(Absolute(**BOUND), algorithm), n=3000)
        result = algorithm(
            objective, epsilon, 1e-6, random_state=1, learn_scales=True, **SHORT[algorithm.__name__]
        )
        assert np.isfinite(result.coef).all()


@pytest.mark.parametrize(
    "objective",
    [
        Objective(Huber(), np.eye(4), np.ones(4), fit_intercept=True, n_public=10_000),
        Objective(Huber(**BOUND), np.eye(4), np.ones(4), n_public=10_000),
        Objective("softmax", np.eye(4), [0, 1, 2, 0], n_classes=3, fit_intercept=True, n_public=10_000),
    ],
    ids=["no bound on the targets", "no intercept", "several classes"],
)
def test_no_constant_is_sought_where_there_is_none(objective):
    result, found, _ = constants_of(noisy_gd, objective, 1.0, learn_scales=True)
    assert not found
    assert result.privacy.public["label_share"] == 0.0


@learners
@pytest.mark.parametrize("loss", [SquaredError, Absolute, Huber], ids=lambda loss: loss.__name__)
def test_a_loose_bound_on_the_targets_costs_little(loss, algorithm):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 5))
    y = 0.4 + X @ [0.1, 0.1, 0.0, -0.1, 0.0] + 0.1 * rng.normal(size=10_000)

    def excess(bound):
        bounded = accepted(loss(target_bound=bound), algorithm)
        objective = Objective(bounded, X, y, row_norm=5.0, fit_intercept=True)
        best = objective.value(nonprivate(objective, max_iter=300).coef)
        fits = (algorithm(objective, 0.5, 1e-6, random_state=s) for s in range(4))
        of_constant = objective.value([*np.zeros(5), np.median(y)]) - best
        return np.mean([objective.value(fit.coef) - best for fit in fits]) / of_constant

    assert excess(30.0) < 3.0 * excess(1.5) + 0.002


@learners
@pytest.mark.parametrize("unit", [2.0**-70, 2.0**-60, 2.0**-30, 2.0**-15, 2.0**40])
def test_nothing_fails_after_the_charge_in_extreme_units_of_the_targets(unit, algorithm):
    """What is learned of the targets changes clips, of which some may be out of range: then it is refused."""
    X, y = targets_at(0.5)
    objective = Objective(SquaredError(unit), X, y * unit, row_norm=5.0, fit_intercept=True)
    ledger = Ledger(1.0, 1e-5, allow_seeded=True)
    settings = SHORT[algorithm.__name__] | {"random_state": 0, "ledger": ledger}
    try:
        result = algorithm(objective, 0.9, 1e-6, **settings)
    except ValueError:
        assert ledger.spent == 0
    else:
        assert result.coef[-1] / unit == pytest.approx(0.5, abs=0.1)


def targets_at(place):
    """Rows, and targets that vary little about a place."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 5))
    return X, place + 0.01 * X[:, 0] + 0.003 * rng.normal(size=8000)
