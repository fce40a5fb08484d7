"""``learn_scales=True`` of the published algorithms, and averages of their last iterates."""

import math

import numpy as np
import pytest

from algorithms.problems import excess
from dperm import Objective
from dperm.accounting import Ledger, gdp_mu
from dperm.algorithms import dp_agd, dp_lsadam, dp_lssgd, dp_sgd, noisy_gd
from dperm.algorithms.tail_average import DoublingTailAverage, TailAverage
from dperm.mechanisms.hooks import watch_releases

SHORT = {
    "noisy_gd": {"steps": 5},
    "dp_agd": {"max_iter": 2, "accountant": "gdp"},
    "dp_sgd": {"steps": 5, "sampling": "poisson"},
    "dp_lssgd": {"steps": 5},
    "dp_lsadam": {"steps": 5},
}
learners = pytest.mark.parametrize(
    "algorithm", [noisy_gd, dp_agd, dp_sgd, dp_lssgd, dp_lsadam], ids=lambda algorithm: algorithm.__name__
)


def in_units(units, n=8000, row_norm=3.0, **keywords):
    """The same labelled records with columns in other units, and an intercept."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) / 2.0
    y = np.where(X @ [4.0, -4.0, 4.0, 0.0] + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    X = X * units
    return Objective("logistic", X, y, row_norm=row_norm, fit_intercept=True, n_threads=1, **keywords)


@learners
def test_columns_in_units_far_apart_are_learned(algorithm):
    """Of 1e3 and of 1e-2: without scales the largest drowns the others."""
    objective = in_units([1.0, 1.0, 1e-2, 1e3], row_norm=2e3)
    coefs = [algorithm(objective, 4.0, 1e-6, random_state=0, learn_scales=own).coef for own in (True, False)]
    reached, plain = (excess(objective, coef) for coef in coefs)
    assert reached < 0.2 < 0.5 < plain


@learners
def test_fits_are_equivariant_to_the_unit_of_a_column(algorithm):
    """With a ledger, too, which is charged what the releases cost."""

    def fit(unit):
        ledger = Ledger(1.0, 1e-6, allow_seeded=True)
        common = {"learn_scales": True, "random_state": 0, "ledger": ledger, **SHORT[algorithm.__name__]}
        return algorithm(in_units([1.0, 1.0, unit, 1.0], row_norm=8.0, n=2000), 0.9, 1e-7, **common).coef

    for unit in (2.0**-8, 1.0):
        np.testing.assert_allclose(fit(unit) * [1.0, 1.0, unit, 1.0, 1.0], fit(1.0), rtol=1e-5, atol=1e-7)


@learners
@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
def test_the_histograms_have_the_stated_noise(neighbors, algorithm):
    """Their sensitivity by hand, and 8 % of the budget in mu^2."""
    seen = []

    def watch(releaser, method, private, multiplier, *args, **kwargs):
        seen.append((private.sensitivity(neighbors), multiplier))
        return method(releaser, private, multiplier, *args, **kwargs)

    own = {"learn_scales": True, "random_state": 0, **SHORT[algorithm.__name__]}
    with watch_releases(watch):
        privacy = algorithm(in_units(1.0, n=2000), 1.0, 1e-6, neighbors=neighbors, **own).privacy
    assert seen[0][0] == pytest.approx(math.sqrt(2.0) if neighbors == "replace_one" else 1.0)
    assert seen[0][1] ** -2.0 == pytest.approx(gdp_mu(1.0, 1e-6) ** 2 * 0.08)
    assert "histograms of magnitudes" in privacy.mechanism
    assert privacy.public["scale_share"] == 0.08


@learners
@pytest.mark.parametrize("row_norm", [1e-3, 0.7, 1e3])
def test_intercepts_of_any_length_relative_to_the_rows(algorithm, row_norm):
    """Rows, with their intercept of 1, are scaled down to a bound below 1."""
    objective = in_units(min(row_norm, 1.0), n=2000, row_norm=row_norm, l2=0.1)
    result = algorithm(objective, 1.0, 1e-6, random_state=0, learn_scales=True, **SHORT[algorithm.__name__])
    assert np.isfinite(result.coef).all()


def test_settings_in_units_of_the_data_are_refused_before_the_charge():
    objective, ledger = in_units(1.0, n=300), Ledger(1.0, 1e-6)
    own = {"learn_scales": True, "ledger": ledger}
    for algorithm, unit in ((noisy_gd, "radius"), (dp_sgd, "step_size"), (dp_agd, "step_max")):
        with pytest.raises(ValueError, match=f"{unit} is in units of the data"):
            algorithm(objective, 1.0, 1e-6, **own, **{unit: 1.0})
    with pytest.raises(ValueError, match="learn_scales=True needs"):
        noisy_gd(objective, 0.5, 1e-6, calibration="paper", **own)
    with pytest.raises(ValueError, match="accountant='pld'"):
        dp_lssgd(objective, 1.0, 1e-6, accountant="rdp", **own)
    for bad in ("yes", "auto", 1, 0.5):
        with pytest.raises(ValueError, match="learn_scales must be"):
            noisy_gd(objective, 1.0, 1e-6, learn_scales=bad, ledger=ledger)
    assert ledger.spent == 0


@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("tail", [0.0, 1e-9, 0.3, 0.5, 1.0])
def test_a_tail_is_what_is_averaged(count, tail):
    iterates, average = np.random.default_rng(0).normal(size=(count, 3)), TailAverage(count, tail)
    for w in iterates:
        average.add(w)
    expected = iterates[-max(1, math.ceil(tail * count)) :].mean(axis=0)
    np.testing.assert_allclose(average.mean(), expected, rtol=1e-12)


def test_a_doubling_average_covers_at_least_half_of_the_iterates():
    iterates, average = np.random.default_rng(0).normal(size=(100, 3)), DoublingTailAverage()
    for count, w in enumerate(iterates, start=1):
        average.add(w)
        tails = [iterates[start:count].mean(axis=0) for start in range(count)]
        (start,) = (k for k, tail in enumerate(tails) if np.allclose(average.mean(), tail, rtol=1e-9))
        assert count / 2 <= count - start <= max(0.75 * count, 2)
