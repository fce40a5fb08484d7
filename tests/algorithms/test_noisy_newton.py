"""Estimates with standard errors: numpy reference, distribution of the noise, coverage, refusals."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import binom, chi2

import inference_coverage
from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import InferenceResult, noisy_newton
from dperm.algorithms.inference import Estimates
from dperm.errors import InferenceWarning
from dperm.losses import Huber
from reference.exact import RELATIONS_ONE_SLOW

EXACT = {"epsilon": math.inf, "delta": 1e-6}
FALSE_ALARM = 1e-6  # probability that a statistical test fails with other seeds
# From the exact minimum: rows are rounded, and the last Newton step uses the Hessian of the previous weights.
NEAR = {"rtol": 2e-3, "atol": 2e-3}


def records(n=4000, d=3, seed=0, loss="logistic"):
    """Rows in the cube [-1, 1]^d, and targets that follow the model with an intercept of -0.5."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    predictions = X @ np.linspace(-1.0, 1.0, d) - 0.5
    if loss == "huber":
        return X, predictions + 0.5 * rng.standard_t(4, n)
    return X, np.where(rng.random(n) < expit(predictions), 1.0, -1.0)


def objective_of(X, y, loss="logistic", **settings):
    loss = Huber(1.0, target_bound=4.0) if loss == "huber" else loss
    defaults = {"row_norm": math.sqrt(X.shape[1] + 1.0), "fit_intercept": True, "n_threads": 1}
    return Objective(loss, X, y, **defaults | settings)


def derivatives(loss, p, y):
    if loss == "huber":
        return np.clip(p - y, -1.0, 1.0), 1.0 * (np.abs(p - y) <= 1.0)
    return expit(p) - (y > 0), expit(p) * expit(-p)


def mallows_weights(z, leverage, row_norm):
    """Weights in the coordinates that the algorithm arrives at without noise."""
    lengths, long = np.linalg.norm(z, axis=1), leverage * z.shape[1]
    bins = np.floor(2.0 * np.log2(row_norm / lengths)).clip(0, 15).astype(int)
    reached = np.bincount(bins, minlength=16).cumsum() > 0.05 * len(z)
    matrix = np.eye(z.shape[1])
    for longest in (row_norm**2 * 2.0 ** -reached.argmax(), long):
        u = z @ matrix
        weight = np.minimum(1.0, longest / (u**2).sum(axis=1))
        values, vectors = np.linalg.eigh((u * weight[:, None]).T @ u / len(z))
        matrix = matrix @ (vectors / np.sqrt(values))
    u = z @ matrix
    squares = (u**2).sum(axis=1)
    assert (squares < 8.0 * long).all()  # rows several octaves too long do not occur here
    if (squares > 2.0 * long).any():
        matrix = 0.5 * matrix
    return np.minimum(1.0, long / ((z @ matrix) ** 2).sum(axis=1))


def weighted_minimum(loss, X, y, leverage):
    """Weights, Hessian and mean square of the gradients of the Mallows estimator, in numpy."""
    z, row_norm = np.column_stack([X, np.ones(len(X))]), math.sqrt(X.shape[1] + 1.0)
    weight, w = mallows_weights(z, leverage, row_norm), np.linalg.lstsq(z, y)[0]
    for _ in range(50):
        slope, curvature = derivatives(loss, z @ w, y)
        hessian = (z * (weight * curvature)[:, None]).T @ z / len(z)
        w = w - np.linalg.solve(hessian, z.T @ (weight * slope) / len(z))
    squares = (z * ((weight * slope) ** 2)[:, None]).T @ z / len(z)
    return w, hessian, squares, weight, slope, curvature


# -- without noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", ["model", "robust"])
@pytest.mark.parametrize("leverage", [0.9, 100.0])
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_without_noise_it_equals_the_numpy_reference(loss, leverage, covariance):
    X, y = records(loss=loss)
    w, hessian, squares, weight, slope, curvature = weighted_minimum(loss, X, y, leverage)
    result = noisy_newton(objective_of(X, y, loss), **EXACT, leverage=leverage, covariance=covariance)
    np.testing.assert_allclose(result.coef, w, **NEAR)
    inverse = np.linalg.inv(hessian)
    scale = np.mean(slope**2) / np.mean(curvature) if loss == "huber" else 1.0
    expected = inverse @ (squares if covariance == "robust" else scale * hessian) @ inverse / len(X)
    np.testing.assert_allclose(result.covariance, expected, rtol=0.02, atol=0.01 * expected.max())
    np.testing.assert_array_equal(result.covariance, result.sampling_covariance)
    assert result.down_weighted == pytest.approx((weight < 1.0).mean(), abs=5e-3)
    assert not np.isnan(result.conf_int()).any()


@pytest.mark.parametrize("unit", [1e-40, 1e-3, 1.0, 1e60])
def test_fits_are_invariant_to_the_unit_of_the_data_and_a_loose_bound(unit):
    X, y = records()
    features = np.column_stack([X, np.ones(len(X))])
    fits = [
        noisy_newton(objective_of(rows, y, row_norm=bound, fit_intercept=False), **EXACT)
        for rows, bound in ((features, 2.0), (unit * features, 40.0 * unit))
    ]
    np.testing.assert_allclose(unit * fits[1].coef, fits[0].coef, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(unit**2 * fits[1].covariance, fits[0].covariance, rtol=1e-2, atol=1e-6)


def test_average_marginal_effects_match_finite_differences():
    X, y = records()
    result = noisy_newton(objective_of(X, y), **EXACT, effects=True)
    step = 1e-5
    low, high = (
        expit((X + shift * np.eye(3)[:, None]) @ result.coef[:-1] + result.coef[-1]).mean(axis=-1)
        for shift in (-step, step)
    )
    np.testing.assert_allclose(result.effects.value, (high - low) / (2 * step), rtol=1e-3, atol=1e-5)


def test_standard_errors_of_effects_match_the_bootstrap():
    X, y = records(1000)
    z, rng, effects = np.column_stack([X, np.ones(len(X))]), np.random.default_rng(0), []
    result = noisy_newton(objective_of(X, y), **EXACT, effects=True)
    for _ in range(200):
        own = rng.integers(0, len(X), len(X))
        w = minimize(
            lambda w, z, y: -log_expit(y * (z @ w)).mean(), result.coef, (z[own], y[own]), tol=1e-5
        ).x
        effects.append(w[:-1] * np.mean(expit(z[own] @ w) * expit(-z[own] @ w)))
    # A standard deviation from 200 draws is off by 5 %, and the bound on the variance of q (1 - q) is loose.
    ratio = result.effects.standard_error / np.std(effects, axis=0)
    assert ((ratio > 0.75) & (ratio < 1.3)).all()


def test_omitted_columns_have_weight_zero_and_the_others_are_fitted_without_them():
    X, y = records(d=4)
    result = noisy_newton(objective_of(X, y), **EXACT, omit=[1, 3])
    others = noisy_newton(objective_of(np.ascontiguousarray(X[:, [0, 2]]), y), **EXACT)
    assert not result.coef[[1, 3]].any()
    np.testing.assert_allclose(result.coef[[0, 2, 4]], others.coef, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(np.isnan(result.conf_int()[:, 0]), [False, True, False, True, False])
    assert result.privacy.public["omit"] == [1, 3]


# -- with noise --------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", RELATIONS_ONE_SLOW)
def test_the_noise_of_the_weights_matches_the_covariance(neighbors):
    """Squared Mahalanobis distances from the exact estimate are chi-squared, up to second-order terms."""
    X, y = records(8000)
    objective, runs = objective_of(X, y), 150
    exact = noisy_newton(objective, **EXACT).coef
    total = 0.0
    for seed in range(runs):
        result = noisy_newton(objective, 1.0, 1e-6, neighbors=neighbors, random_state=seed)
        apart = result.coef - exact
        total += apart @ np.linalg.solve(result.covariance - result.sampling_covariance, apart)
    freedom = 4 * runs
    low, high = (chi2.ppf(tail, freedom) for tail in (FALSE_ALARM, 1.0 - FALSE_ALARM))
    assert 0.9 * low < total < 1.15 * high  # room for second-order terms


@pytest.mark.parametrize("name", ["small, many", "few records, robust"])
def test_intervals_cover(name):
    """Each coefficient in at least 90 % of the runs, with a false-alarm probability of 1e-6."""
    few = inference_coverage.Design(
        inference_coverage.uniform(0.3), 8000, 2, 1.0, "huber", residuals="unequal"
    )
    design = few if name == "few records, robust" else inference_coverage.DESIGNS[name]
    covered = inference_coverage.measured(design, runs=80, seed=3).covered
    known = ~np.isnan(covered)
    least = binom.ppf(FALSE_ALARM / covered.shape[1], known.sum(axis=0), 0.9)
    assert known.mean() > 0.95
    assert (np.nansum(covered, axis=0) >= least).all()
    assert 0.9 < np.nanmean(covered) < 0.99


@pytest.mark.parametrize("name", ["rare positives", "small column", "lognormal, wrong", "far mean"])
def test_intervals_cover_where_steps_weights_or_bounds_might_bias_them(name):
    """At least 90 % of the intervals that are given, with a false-alarm probability of 1e-6."""
    covered = inference_coverage.measured(inference_coverage.DESIGNS[name], runs=8, seed=5, widths=0).covered
    known = ~np.isnan(covered)
    assert known.mean() > 0.3
    assert np.nansum(covered) >= binom.ppf(FALSE_ALARM, known.sum(), 0.9)


# The designs of ``bench/inference_coverage.py`` that take seconds; the whole table takes an hour.
IN_SECONDS = ["small", "rare level", "t3 residuals, .4", "unequal residuals", "normal residuals, model"]


@pytest.mark.simulation
@pytest.mark.parametrize("name", IN_SECONDS)
def test_intervals_cover_in_the_table(name):
    """In 100 runs each: 93 to 97 % on average and 88 % for every coefficient, within the false-alarm rate."""
    covered = inference_coverage.measured(inference_coverage.DESIGNS[name], runs=100, seed=17).covered
    known = ~np.isnan(covered)
    enough = known.sum(axis=0) >= 60
    least = binom.ppf(FALSE_ALARM / enough.sum(), known.sum(axis=0), 0.88)
    assert (np.nansum(covered, axis=0) >= least)[enough].all()
    error = math.sqrt(0.05 / known.sum())  # standard error; the intervals of one run are nearly independent
    assert 0.93 - 5.0 * error < np.nanmean(covered) < 0.97 + 5.0 * error


# -- refusals, warnings and the summary --------------------------------------------------------------


def with_factor(n, seed=0):
    """A numeric column, and an indicator for each of the three levels of a factor."""
    rng = np.random.default_rng(seed)
    level = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    X = np.column_stack([rng.uniform(-1.0, 1.0, n), np.eye(3)[level]])
    y = np.where(rng.random(n) < expit(X @ [1.0, 0.5, 0.0, -0.5]), 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_factor_levels_are_refused_but_their_contrasts_are_not(epsilon):
    objective = objective_of(*with_factor(20_000))
    result = noisy_newton(objective, epsilon, 1e-6, random_state=0)
    np.testing.assert_array_equal(np.isnan(result.conf_int()[:, 0]), [False, True, True, True, True])
    differences = result.contrasts([[0, 0, 1, -1, 0], [0, 1, 0, -1, 0], [0, 1, 0, 0, 1]])
    assert not np.isnan(differences.conf_int()).any()
    np.testing.assert_array_less(
        np.abs(differences.value[:2] - [0.5, 1.0]), 5.0 * differences.standard_error[:2]
    )
    text = result.summary(["age", "a", "b", "c", "const"], contrasts={"b - c": np.array([0, 0, 1, -1, 0])})
    assert text.count("not determined") == 5  # four weights, and the note
    assert "b - c" in text


def test_weights_that_are_not_determined_are_named_at_the_fit():
    objective = objective_of(*with_factor(20_000))
    with pytest.warns(InferenceWarning, match=r"not determined.*: a, b, c, const\. They"):
        noisy_newton(objective, 1.0, 1e-6, names=["age", "a", "b", "c", "const"], random_state=0)


def test_separable_records_are_refused():
    X, _ = records(100_000)
    y = np.where(X @ [1.0, -1.0, 0.5] > 0.0, 1.0, -1.0)
    with pytest.warns(InferenceWarning, match=r"not converged|not determined.*x1, x2, x3"):
        result = noisy_newton(objective_of(X, y), 1.0, 1e-6, random_state=0)
    assert np.isnan(result.conf_int()[:3]).all()


def test_too_few_steps_are_noticed():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (100_000, 3))
    y = np.where(rng.random(len(X)) < expit(X @ [2.0, -1.0, 0.0] - 5.5), 1.0, -1.0)
    with pytest.warns(InferenceWarning, match="not converged"):
        result = noisy_newton(objective_of(X, y), 1.0, 1e-6, steps=1, random_state=0)
    assert np.isnan(result.conf_int()[[0, 3]]).all()


def test_uncertain_standard_errors_are_conservative_or_refused():
    whole, sampling = np.full(5, 4.0), np.full(5, 1.0)
    cautious = whole * np.array([1.0, 1.49, 1.51, 1.99, 2.01]) ** 2
    found = Estimates.cautiously(np.zeros(5), whole, cautious, sampling)
    np.testing.assert_allclose(found.standard_error, [2.0, 2.0, 3.02, 3.98, np.nan])
    np.testing.assert_allclose(found.noise_share[:3], [0.5, 0.5, 1.0 - 1.0 / 3.02])


def test_only_the_weight_of_a_rare_level_is_refused():
    """A level of 25 records is hidden by the noise; the intervals of all others are given, and cover."""
    rng, refused, covered = np.random.default_rng(0), [], []
    for seed in range(6):
        factor = rng.choice(4, 20_000, p=[0.5, 0.3, 0.19875, 0.00125])
        X = np.hstack([rng.uniform(-1.0, 1.0, (20_000, 2)), np.eye(4)[factor]])
        w = np.array([1.0, -1.0, 0.0, 1.0, -0.5, 1.0, -0.5])
        y = np.where(rng.logistic(size=20_000) < X @ w[:-1] + w[-1], 1.0, -1.0)
        objective = objective_of(X, y, row_norm=2.0, fit_intercept=True)
        found = noisy_newton(objective, 1.0, 1e-6, omit=[2], random_state=seed)
        low, high = found.conf_int().T
        refused.append(np.isnan(low))
        covered.append((low < w) & (w < high))
    refused, covered = np.array(refused)[:, [0, 1, 3, 4, 5, 6]], np.array(covered)[:, [0, 1, 3, 4, 6]]
    assert refused[:, 4].all()
    assert not np.delete(refused, 4, axis=1).any()
    assert covered.sum() >= 22  # of 30: fewer with probability 1 / 90,000


def test_many_down_weighted_rows_are_warned_of():
    rng = np.random.default_rng(0)
    X, y = records(20_000)
    with pytest.warns(InferenceWarning, match="weigh less than 1"):
        noisy_newton(objective_of(rng.normal(size=X.shape) / 3.0, y), 1.0, 1e-6, random_state=0)


def test_few_down_weighted_rows_are_not_warned_of(recwarn):
    objective = objective_of(*records(20_000))  # rows in a cube: none is an outlier
    noisy_newton(objective, 1.0, 1e-6, leverage=3.0, ledger=Ledger(1.0, 1e-6))
    assert not [warning for warning in recwarn if issubclass(warning.category, InferenceWarning)]


def test_the_summary_shows_the_result():
    X, y = records(20_000)
    result = noisy_newton(objective_of(X, y), 1.0, 1e-6, random_state=0, effects=True)
    assert isinstance(result, InferenceResult)
    low, high = result.conf_int().T
    np.testing.assert_allclose(0.5 * (low + high), result.coef)
    np.testing.assert_allclose((high - low) / np.sqrt(np.diag(result.covariance)), 2 * 1.959964, rtol=1e-6)
    wider = result.conf_int(0.99)
    assert (wider[:, 0] < low).all()
    assert (wider[:, 1] > high).all()
    lines = result.summary().splitlines()
    row = next(line for line in lines if line.startswith("x3"))
    cells = [float(cell) for cell in row.replace("%", "").split()[1:]]
    error = math.sqrt(result.covariance[2, 2])
    expected = [result.coef[2], error, result.coef[2] / error, 0.0, low[2], high[2]]
    np.testing.assert_allclose(cells[:-1], expected, rtol=1e-2, atol=1e-3)
    assert 0 < cells[-1] < 30
    assert "average marginal effect" in "\n".join(lines)
    assert "20,000 records" in lines[0]


@pytest.mark.parametrize("matrix", [np.ones(3), [[np.nan, 0, 0, 0]], np.ones((1, 1, 4))])
def test_bad_contrasts_names_and_levels_are_refused(matrix):
    result = noisy_newton(objective_of(*records()), **EXACT)
    with pytest.raises(ValueError, match="4 finite entries"):
        result.contrasts(matrix)
    with pytest.raises(ValueError, match="name 4 weights"):
        result.summary(["a"])
    for level in (95, 0.05):
        with pytest.raises(ValueError, match=r"level must be at least 0\.5"):
            result.conf_int(level)
    np.testing.assert_array_equal(result.conf_int(alpha=0.1), result.conf_int(0.9))
