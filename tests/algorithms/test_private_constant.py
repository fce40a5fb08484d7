"""The noisy constant from which fits of real targets start: where it ends, and what noise it has."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dperm import Objective
from dperm.accounting import Ledger, gdp_mu
from dperm.algorithms import dp_agd, dp_sgd, noisy_gd, nonprivate, preconditioned_gd
from dperm.algorithms.private_constant import steps_to_constant
from dperm.losses import (
    Absolute,
    EpsilonInsensitive,
    Huber,
    Pinball,
    Power,
    SquaredError,
    Tukey,
    Welsch,
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
    Welsch(**BOUND),
    Tukey(**BOUND),
]
SHORT = {
    "preconditioned_gd": {"steps": 1},
    "noisy_gd": {"steps": 1},
    "dp_agd": {"max_iter": 1, "accountant": "gdp"},
    "dp_sgd": {"steps": 1, "sampling": "poisson"},
}
LEARNERS = {each.__name__: each for each in (preconditioned_gd, noisy_gd, dp_agd, dp_sgd)}
learners = pytest.mark.parametrize("algorithm", LEARNERS.values(), ids=LEARNERS)


def skewed(loss, n=20_000, **settings):
    """Targets far from 0, half of them equal; rows tell nothing about them."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.5, 1.0, 0.8 + 0.5 * rng.random(n))
    X = rng.normal(size=(n, 3))
    return Objective(loss, X, y, row_norm=4.0, fit_intercept=True, **settings), y


def constants_of(algorithm, objective, epsilon, **settings):
    """The predictions at which slopes were released, with their noise."""
    seen, honest = [], Objective.slope_sum

    def watch(releaser, method, private, multiplier, *args, **kwargs):
        if seen and len(seen[-1]) == 1:
            seen[-1].append((private.sensitivity(releaser.neighbors), multiplier))
        return method(releaser, private, multiplier, *args, **kwargs)

    def slope_sum(self, prediction, clip):
        seen.append([prediction])
        return honest(self, prediction, clip)

    with pytest.MonkeyPatch.context() as patch, watch_releases(watch):
        patch.setattr(Objective, "slope_sum", slope_sum)
        short = SHORT[algorithm.__name__] | settings
        result = algorithm(objective, epsilon, 1e-6, random_state=0, **short)
    return result, [each[0] for each in seen], [each[1] for each in seen]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_without_much_noise_it_is_the_best_constant(loss):
    objective, y = skewed(loss)

    def risk(constant):
        return float(np.mean(loss.value(np.full(len(y), constant), y)))

    tiny = {"step_size": 1e-9, "moments": "none", "shrinkage": 0.0}
    result, constants, _ = constants_of(preconditioned_gd, objective, 100.0, **tiny)
    best = minimize_scalar(risk, bounds=(-2.0, 2.0), method="bounded", options={"xatol": 1e-9})
    assert len(constants) == steps_to_constant(loss)
    assert risk(result.coef[-1]) - best.fun < 0.02 * (risk(0.0) - best.fun)
    assert abs(result.coef[-1] - best.x) < 0.05


@learners
@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("loss", [SquaredError(**BOUND), Pinball(0.9, **BOUND)], ids=repr)
def test_its_releases_cost_their_share_and_have_the_stated_noise(loss, neighbors, algorithm):
    """A slope is at most that of the loss, or of the squared error at 0, the bound on the targets."""
    result, _, noise = constants_of(algorithm, skewed(loss)[0], 1.0, neighbors=neighbors)
    sensitivities, multipliers = np.array(noise).T
    steepest = 2.0 if loss.name == "squared_error" else 0.9
    factor = 2.0 if neighbors == "replace_one" else 1.0
    np.testing.assert_allclose(sensitivities, factor * steepest, rtol=1e-9)
    mu, share = gdp_mu(1.0, 1e-6), result.privacy.public["label_share"]
    assert share == 0.01
    assert np.sum(multipliers**-2.0) == pytest.approx(share * mu**2)


@learners
def test_a_ledger_pays_for_everything_before(algorithm):
    """The shares leave exactly what the descent costs, whatever rounding a cost takes."""
    for epsilon in (0.05, 0.3, 2.0):
        objective, _ = skewed(Absolute(**BOUND), n=3000)
        result = algorithm(
            objective, epsilon, 1e-6, random_state=1, learn_scales=True, **SHORT[algorithm.__name__]
        )
        assert np.isfinite(result.coef).all()


@pytest.mark.parametrize(
    "objective",
    [
        Objective(Huber(), np.eye(4), np.ones(4), fit_intercept=True, n_public=10_000),
        Objective(Huber(**BOUND), np.eye(4), np.ones(4), n_public=10_000),
        Objective("hinge", np.eye(4), np.ones(4), fit_intercept=True, n_public=10_000),
    ],
    ids=["no bound on the targets", "no intercept", "labels"],
)
def test_no_constant_is_sought_where_there_is_none(objective):
    result, constants, _ = constants_of(noisy_gd, objective, 1.0, learn_scales=True)
    assert not constants
    assert result.privacy.public["label_share"] == 0.0


def test_little_signal_buys_no_constant():
    """Noise on the slopes would exceed their bound."""
    result, constants, _ = constants_of(noisy_gd, skewed(Absolute(**BOUND), n=100)[0], 0.1)
    assert not constants
    assert result.privacy.public["label_share"] == 0.0


def test_noise_that_cannot_be_drawn_is_refused_before_the_charge():
    (objective, _), ledger = skewed(Absolute(**BOUND), n=100), Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match="that much noise"):
        preconditioned_gd(objective, 0.01, 1e-9, label_share=1e-9, learn_scales=False, ledger=ledger)
    assert ledger.spent == 0


def test_a_fit_far_from_zero_profits():
    """Targets about 1 that hardly vary: without the constant most of the budget goes into the intercept."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10))
    y = 1.0 + 0.05 * X[:, 0] + 0.02 * rng.normal(size=4000)
    objective = Objective(Absolute(**BOUND), X, y, row_norm=5.0, fit_intercept=True)
    share = {"label_share": 0.0, "norm_share": 0.02, "column_share": 0.0}
    best = objective.value(nonprivate(objective).coef)

    def excess(**settings):
        fits = (preconditioned_gd(objective, 0.4, 1e-6, random_state=s, **settings) for s in range(5))
        return math.fsum(objective.value(fit.coef) - best for fit in fits)

    assert excess() < 0.7 * excess(**share)
