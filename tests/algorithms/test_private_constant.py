"""What fits of real targets start from: a noisy constant, and the spread of targets about it."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from dperm import Objective
from dperm.accounting import Ledger, gdp_mu
from dperm.algorithms import (
    dp_agd,
    dp_lssgd,
    dp_sgd,
    dp_sgd_gradient,
    noisy_gd,
    nonprivate,
    preconditioned_gd,
    private_constant,
    private_start,
    rrpsgd,
)
from dperm.algorithms.defaults.rules import target_range
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
    "dp_lssgd": {"steps": 1},
    "dp_sgd_gradient": {"steps": 1, "batch_size": 500},
    "rrpsgd": {"rounds": 2, "batch_size": 500},
}
LEARNERS = {
    each.__name__: each
    for each in (preconditioned_gd, noisy_gd, dp_agd, dp_sgd, dp_lssgd, dp_sgd_gradient, rrpsgd)
}
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

    tiny = {"step_size": 1e-9, "moments": "none", "shrinkage": 0.0}
    result, (found,), _ = constants_of(preconditioned_gd, objective, 100.0, **tiny)
    best = minimize_scalar(risk, bounds=(-2.0, 2.0), method="bounded", options={"xatol": 1e-9})
    assert result.coef[-1] == pytest.approx(found.prediction, abs=1e-6)
    assert risk(found.prediction) - best.fun < 0.02 * (risk(0.0) - best.fun)
    assert abs(found.prediction - best.x) < 0.05


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("loose", [1.0, 10.0, 100.0])
@pytest.mark.parametrize(
    ("make", "smallest"),
    [
        (lambda rng: 1.0 + 0.2 * rng.normal(size=40_000), 0.3),
        (lambda rng: np.where(rng.random(40_000) < 0.6, 0.3, rng.uniform(0.3, 1.0, 40_000)), 0.2),
    ],
    ids=["normal", "most at one value"],
)
def test_the_spread_is_near_that_of_the_targets(make, smallest, loose, epsilon):
    """Whatever the bound; with little signal it may be too large, or lose a tail with few targets."""
    y = make(np.random.default_rng(0))
    X = np.zeros((len(y), 1))
    objective = Objective(Absolute(target_bound=2.0 * loose), X, y, row_norm=2.0, fit_intercept=True)
    found = [constants_of(noisy_gd, objective, epsilon, random_state=seed)[1][0] for seed in range(5)]
    spread = np.median([each.target_scale for each in found])
    far = np.quantile(np.abs(y - np.median(y)), 0.98)
    assert smallest < spread < (4.0 if epsilon == 0.1 else 1.5) * far
    if epsilon > 0.1:
        assert spread > 0.7 * far


def test_normal_shares_give_back_their_spread():
    ends = 8.0 * 2.0 ** (-0.5 * np.arange(21))
    for spread in (8.0, 1.0, 0.25):
        deviation = spread / norm.isf(0.01)
        beyond = 2.0 * norm.sf(ends[1:] / deviation)
        beyond[-1] = 1.0
        shares = np.diff(beyond, prepend=0.0)
        assert private_constant._widest_normal_spread(shares, ends, 1e-6) == pytest.approx(spread)


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


def test_noise_alone_hardly_ever_widens_the_spread():
    """A loose bound leaves a dozen empty bins: each stands out by 4 standard deviations in one fit of 30,000.

    In 300 fits that is expected 0.12 times: more than 4 have a probability below 1e-6. With 2 deviations
    there were 25.
    """
    rng = np.random.default_rng(7)
    y = 0.01 * rng.normal(size=4000)
    objective = Objective(SquaredError(target_bound=2.0), np.zeros((4000, 1)), y, fit_intercept=True)
    found = [constants_of(noisy_gd, objective, 1.5, random_state=seed)[1][0] for seed in range(300)]
    assert np.sum(np.array(found)[:, 1] > 0.1) <= 4


def test_with_little_signal_the_spread_is_seldom_far_too_large():
    """The noise of a bin is 0.05, and that of a dozen together more than most targets.

    Sums of bins that "may hold many targets" gave 33 of 100 fits a spread of more than 5 times the true one.
    """
    y = 0.01 * np.random.default_rng(7).normal(size=4000)
    objective = Objective(Absolute(target_bound=2.0), np.zeros((4000, 1)), y, fit_intercept=True)
    found = [constants_of(noisy_gd, objective, 0.08, random_state=seed)[1][0] for seed in range(100)]
    spreads = np.array([each.target_scale for each in found]) / np.quantile(np.abs(y), 0.98)
    assert np.sum(spreads > 5.0) <= 3
    assert 0.7 < np.median(spreads) < 3.0


def test_a_noisy_step_hardly_ever_leads_far_from_a_quantile():
    """Above the quantile of 0.9 the slope is a ninth of that below, and about as large as the noise.

    With full steps against the sign of noisy slopes, as far as twice the farthest targets, 3 of these 40
    ended at more than the largest target.
    """
    y = 0.1 + 0.01 * np.random.default_rng(5).normal(size=4000)
    objective = Objective(Pinball(0.9, target_bound=1.0), np.zeros((4000, 1)), y, fit_intercept=True)
    found = [constants_of(noisy_gd, objective, 0.1, random_state=seed)[1][0] for seed in range(40)]
    errors = np.abs(np.array(found)[:, 0] - np.quantile(y, 0.9))
    assert np.sum(errors > 0.1) <= 1
    assert np.median(errors) < 0.02


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


def test_little_signal_buys_no_constant():
    """Noise on the slopes would exceed their bound."""
    result, found, _ = constants_of(noisy_gd, skewed(Absolute(**BOUND), n=100)[0], 0.1)
    assert not found
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


@pytest.mark.parametrize("loss", [Tukey, Welsch], ids=lambda loss: loss.__name__)
def test_a_loss_that_is_flat_far_away_is_started_at_the_median(loss):
    """Its own slopes vanish where the search starts."""
    objective = Objective(loss(target_bound=1000.0), *targets_at(0.5), row_norm=5.0, fit_intercept=True)
    assert preconditioned_gd(objective, 1.0, 1e-6, random_state=0).coef[-1] == pytest.approx(0.5, abs=0.1)


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


@learners
@pytest.mark.parametrize("unit", [1.0, *(2.0**exponent for exponent in range(48, 66, 2))])
def test_targets_at_both_bounds_are_farther_than_a_bound(unit, algorithm):
    """From the constant; and so slopes may grow, which must not fail after the charge."""
    X = np.sign(targets_at(0.0)[0]) / math.sqrt(5.0)  # as long as the bound says
    y = np.where(np.arange(8000) % 3 > 0, unit, -unit)
    objective = Objective(SquaredError(target_bound=unit), X, y, row_norm=1.98, l2=1.0, fit_intercept=True)
    ledger = Ledger(1.0, 1e-5, allow_seeded=True)
    try:
        _, (constant,), _ = constants_of(algorithm, objective, 0.9, ledger=ledger)
    except ValueError:
        assert unit > 1.0
        assert ledger.spent == 0
    else:
        assert 1.0 < constant.target_scale / unit <= 1.0 + constant.prediction / unit


def test_clips_are_for_targets_as_far_as_their_spread():
    loss = SquaredError(target_bound=1.0)
    ranges = [target_range(loss, spread) for spread in (0.3, 0.7, 1.4, math.inf)]
    assert ranges == [0.6, 1.0, 1.4, 1.0]


def targets_at(place):
    """Rows, and targets that vary little about a place."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 5))
    return X, place + 0.01 * X[:, 0] + 0.003 * rng.normal(size=8000)
