"""The default descent: what it learns, units and places of columns, and what happens where that is wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import nonprivate, profile, whitened_gd
from dperm.algorithms.fit import Fit
from dperm.losses import Absolute, Huber, Pinball, SquaredError
from dperm.mechanisms.hooks import watch_releases
from dperm.private_values.transform import Transform

MODULE = __import__("importlib").import_module("dperm.algorithms.whitened_gd")


def labelled(n=8000, d=8, unit=1.0, moved=0.0, units=None, **settings):
    """Labels of a noisy rule of columns in [-1, 1], in other units and places."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = np.where(X @ np.linspace(-2.0, 2.0, d) + rng.logistic(size=n) > 0.5, 1.0, -1.0)
    scales = unit * (np.ones(d) if units is None else units)
    row_norm = unit * math.sqrt(d + 1.0) * (1.0 + abs(moved)) * float(np.max(scales / unit))
    return Objective("logistic", (X + moved) * scales, y, row_norm=row_norm, fit_intercept=True, **settings)


def excess(objective, epsilon=1.0, seeds=3, **settings):
    """Excess risk relative to that of the best constant, mean of some runs."""
    best = objective.value(nonprivate(objective).coef)
    constant = np.zeros(objective.shape)
    prior = objective._rows.y
    if objective.loss.name == "logistic":
        positive = np.mean(prior > 0)
        constant[-1] = math.log(positive / (1.0 - positive))
    else:
        constant[-1] = np.median(prior)
    runs = [whitened_gd(objective, epsilon, 1e-6, random_state=s, **settings).coef for s in range(seeds)]
    risks = [objective.value(coef) for coef in runs]
    return (np.mean(risks) - best) / (objective.value(constant) - best)


@pytest.mark.parametrize("unit", [2.0**-250, 2.0**-40, 2.0**40, 2.0**490])
def test_the_unit_of_the_data_does_not_matter(unit):
    def fit(unit):
        X = np.random.default_rng(0).normal(size=(2000, 5)) * [1.0, 1.0, 1.0, 1e-3, 1.0]
        y = np.random.default_rng(1).choice([-1.0, 1.0], 2000)
        return whitened_gd(
            Objective("logistic", X * unit, y, row_norm=9.0 * unit), 1.0, 1e-6, random_state=0
        ).coef

    np.testing.assert_allclose(fit(unit) * unit, fit(1.0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "units", [2.0 ** np.arange(0, 16, 2), 10.0 ** np.linspace(-3, 2, 8)], ids=["2", "10"]
)
def test_units_of_columns_do_not_matter(units):
    assert excess(labelled(units=units)) < 0.08


def test_columns_far_from_zero_are_centred():
    assert excess(labelled(moved=20.0), epsilon=4.0) < 0.2


def test_a_loose_bound_on_the_rows_costs_little():
    objective = labelled()
    loose = labelled()
    loose = Objective("logistic", loose._rows.x, loose._rows.y, row_norm=1000.0, fit_intercept=True)
    assert excess(loose) < 2.0 * excess(objective) + 0.02


@pytest.mark.parametrize("scale", [1.0, 1e5])
@pytest.mark.parametrize("loss", [SquaredError, Huber, Absolute], ids=lambda loss: loss.__name__)
def test_the_scale_of_targets_does_not_matter(loss, scale):
    """Huber's threshold stays 1, far below the spread or far above it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (8000, 6))
    y = scale * (3.0 + X @ np.linspace(-1.0, 1.0, 6) + 0.3 * rng.normal(size=8000))
    objective = Objective(loss(target_bound=20.0 * scale), X, y, row_norm=math.sqrt(7.0), fit_intercept=True)
    assert excess(objective) < 0.1


def test_quantiles_are_quantiles():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 5)) / math.sqrt(5.0), rng.uniform(size=5000)
    objective = Objective(Pinball(0.9, target_bound=1.0), X, y, row_norm=4.0, fit_intercept=True)
    coef = whitened_gd(objective, 1.0, 1e-6, random_state=0).coef
    assert np.mean(y < X @ coef[:-1] + coef[-1]) == pytest.approx(0.9, abs=0.05)


# -- where what was learned is wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize(("factor", "worst"), [(128.0, 5.0), (10.0, 1.2), (1.0 / 128.0, 1.2)])
def test_wrong_coordinates_do_not_blow_up(factor, worst, epsilon, monkeypatch):
    """A column scaled up 128 times, or a second moment a hundredth of the truth.

    A column scaled up so far clips nearly all gradients to its direction: that is lost, but bounded.
    """
    honest = MODULE.coordinates

    def wrong(*arguments):
        found = honest(*arguments)
        matrix = found.transform.values.copy()
        matrix[:, 1] *= factor
        return replace(found, transform=Transform.rounding(matrix))

    monkeypatch.setattr(MODULE, "coordinates", wrong)
    assert excess(labelled(), epsilon=epsilon) < worst


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_where_rows_tell_nothing_the_result_stays_near_the_constant(epsilon):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 60)), np.where(rng.random(1000) < 0.3, 1.0, -1.0)
    objective = Objective("logistic", X, y, row_norm=9.0, fit_intercept=True)
    constant = np.zeros(61)
    constant[-1] = math.log(np.mean(y > 0) / np.mean(y < 0))
    runs = [objective.value(whitened_gd(objective, epsilon, 1e-6, random_state=s).coef) for s in range(3)]
    assert np.mean(runs) < objective.value(constant) + 0.5


@pytest.mark.parametrize(
    ("epsilon", "bound", "row_norm"),
    [
        (1.0, 1e-200, 1.3),
        (1.0, 1e-25, 1.3),
        (1.0, 1e25, 1.3),
        (1e-5, 1.0, 1.3),
        (1e-12, 1.0, 1.3),
        (1.0, 1.0, 1e150),
    ],
)
@pytest.mark.parametrize("loss", [SquaredError, Absolute], ids=lambda loss: loss.__name__)
def test_what_extreme_units_prevent_is_refused_before_the_charge(loss, epsilon, bound, row_norm):
    X = np.random.default_rng(0).uniform(-0.3, 0.3, (3000, 6))
    objective = Objective(
        loss(target_bound=bound), X, bound * X[:, 0], row_norm=row_norm, fit_intercept=True, n_public=3000
    )
    ledger = Ledger(1.0, 1e-5)
    try:
        result = whitened_gd(objective, epsilon, 1e-6, ledger=ledger)
    except ValueError:
        assert ledger.spent == 0
    else:
        assert np.isfinite(result.coef).all()


# -- the releases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 200])
def test_noise_alone_is_not_taken_for_columns(d):
    """No false scale in 300 releases of nothing; more than one in 30 would be a rate above 1e-4 each."""
    objective = Objective("logistic", np.zeros((1, d)), [1.0], n_public=1000, row_norm=1.0)
    for seed in range(30):
        with Fit(objective, 1.0, 1e-6, random_state=seed) as fit:
            release = fit.open("test", fit.budget())
            scales, seen = profile.column_scales(fit, release, 1000.0)
        np.testing.assert_array_equal(scales, 1.0)
        assert not seen.any()


@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
def test_the_statement_says_what_was_learned_for_which_share(neighbors):
    seen = []

    def watch(releaser, method, private, multiplier, *args, **kwargs):
        seen.append(multiplier)
        return method(releaser, private, multiplier, *args, **kwargs)

    with watch_releases(watch):
        result = whitened_gd(labelled(), 1.0, 1e-6, neighbors=neighbors, random_state=0)
    assert "histograms of magnitudes 8 %" in result.privacy.mechanism
    assert "counts of labels 2 %" in result.privacy.mechanism
    parts = np.array(seen) ** -2.0 / result.privacy.mu**2
    np.testing.assert_allclose(parts[:6], [0.02, 0.08, 0.08, 0.02, 0.05, 0.05], rtol=1e-6)
    assert parts.sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.4, 1.6])
def test_rare_labels_with_many_columns_are_hardly_worse_than_a_constant(epsilon):
    """The noise of the iterates is bounded: far out the gradient would no longer say where the optimum is."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 120)) / 120**0.5
    y = np.where(rng.random(3000) < 0.03, 1.0, -1.0)
    objective = Objective("logistic", X, y, row_norm=2.0, fit_intercept=True)
    constant = np.append(np.zeros(120), math.log(0.03 / 0.97))
    coef = whitened_gd(objective, epsilon, 1e-6, random_state=0).coef
    assert objective.value(coef) < 1.2 * objective.value(constant)


def test_the_best_constant_of_a_squared_hinge_is_where_it_starts():
    """2 p - 1 for a share p of positive labels, with the curvature of the side where most records are."""
    X, y = np.zeros((20_000, 1)), np.where(np.arange(20_000) % 20 == 0, 1.0, -1.0)
    objective = Objective("squared_hinge", X, y, row_norm=2.0, fit_intercept=True)
    coef = whitened_gd(objective, 1.0, 1e-6, random_state=0).coef
    assert coef[-1] == pytest.approx(2 * 0.05 - 1, abs=0.1)
