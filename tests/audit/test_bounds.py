"""Bounds from error counts: exact intervals, attained by known mechanisms, wrong as rarely as stated."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dperm import algorithms, audit
from dperm.accounting import gaussian_delta, gdp_epsilon, gdp_mu, sgd_epsilon, zcdp_epsilon
from dperm.accounting.subsampling import sgd_delta
from dperm.audit import bounds, certify_observations, epsilon_lower_bound, worst_case_neighbours
from dperm.audit.bounds import Judge, learn_statistic, share_ordered


@pytest.mark.parametrize(("events", "trials"), [(0, 50), (1, 50), (25, 50), (49, 50)])
def test_clopper_pearson_is_exact(events, trials):
    high = bounds.rate_upper_bound(events, trials, 0.99)
    assert binom.cdf(events, trials, high) == pytest.approx(0.01, rel=1e-9)
    assert bounds.rate_upper_bound(trials, trials, 0.99) == 1.0


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_bounds_are_attained_by_the_gaussian_mechanism(mu):
    """With exact error rates mu comes back, and epsilon is the largest that the rates allow."""
    for threshold in (-1.0, 0.0, 2.5):
        alpha, beta = norm.sf(threshold), norm.cdf(threshold - mu)
        assert bounds.mu_from_rates(alpha, beta) == pytest.approx(mu, rel=1e-9)
        for delta in (0.0, 1e-3):
            epsilon = bounds.epsilon_from_rates(alpha, beta, delta)
            assert gaussian_delta(epsilon, 1 / mu) >= delta * (1 - 1e-9)
    assert bounds.mu_from_pairs(norm.cdf(-mu / math.sqrt(2))) == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("mu", [0.0, 1e-3, 0.2, 1.0, 6.0])
def test_epsilon_of_mu_is_rounded_down(mu):
    epsilon = bounds.epsilon_of_mu(mu, 1e-6)
    assert epsilon == pytest.approx(gdp_epsilon(mu, 1e-6), rel=1e-8)
    assert epsilon == 0.0 or gdp_mu(epsilon, 1e-6) <= mu


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_rho_of_a_coin_is_that_of_randomized_response(epsilon):
    """The worst epsilon-DP mechanism is exactly ``epsilon tanh(epsilon/2)``-zCDP."""
    lie = 1.0 / (1.0 + math.exp(epsilon))
    exact = epsilon * math.tanh(epsilon / 2)
    assert exact * (1 - 1e-5) <= bounds.rho_from_rates(lie, lie) <= exact
    assert bounds.rho_from_pairs(lie) == pytest.approx(exact / 2, rel=1e-5)


@pytest.mark.parametrize(("alpha", "beta"), [(0.01, 0.2), (0.3, 0.3), (1e-6, 0.9), (0.5, 0.01)])
def test_rho_is_the_largest_renyi_divergence_of_the_decision_over_its_order(alpha, beta):
    def divergence(p, q, a):
        return math.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)

    pairs = [(1 - beta, alpha), (1 - alpha, beta)]
    direct = max(divergence(p, q, a) / a for p, q in pairs for a in (1 + 1e-5, 1.1, 1.5, 2, 3, 5, 8))
    found = bounds.rho_from_rates(alpha, beta)
    assert direct * (1 - 1e-6) <= found <= 1.1 * direct
    assert bounds.rho_from_rates(1 - beta, beta) == 0.0


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_rho_of_the_gaussian_mechanism_is_not_exceeded(mu):
    for threshold in (-1.0, 0.5 * mu, 2.5):
        alpha, beta = norm.sf(threshold), norm.cdf(threshold - mu)
        assert 0.02 * mu**2 < bounds.rho_from_rates(alpha, beta) < 0.5 * mu**2
    loss = norm.cdf(-mu / math.sqrt(2))
    assert 0.2 * mu**2 < bounds.rho_from_pairs(loss) < 0.5 * mu**2


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_the_whole_profile_tells_as_much_as_the_trade_off_curve(mu):
    """Of the family of Gaussian profiles the strength is mu, whatever the threshold."""
    for threshold in (-1.0, 0.5 * mu, 2.5):
        alpha, beta = norm.sf(threshold), norm.cdf(threshold - mu)
        strength = bounds.strength_from_rates(gaussian_family, alpha, beta)
        assert 0.999 * mu < strength <= mu * (1 + 1e-9)
    assert bounds.strength_from_rates(gaussian_family, 0.5, 0.5) == 0.0


def gaussian_family(mu):
    return lambda epsilon: gaussian_delta(epsilon, 1 / mu)


def test_epsilon_of_a_profile_and_of_rho_are_not_above_the_claim():
    for mu in (0.2, 1.0, 6.0):
        epsilon = bounds.epsilon_of_profile(gaussian_family(mu), 1e-6)
        assert 0.9999 * gdp_epsilon(mu, 1e-6) < epsilon <= gdp_epsilon(mu, 1e-6)
        rho = mu * mu / 2
        claim = zcdp_epsilon(rho, 1e-6)
        assert claim * (1 - 1e-6) < bounds.epsilon_of_rho(rho, 1e-6) <= claim
    assert bounds.epsilon_of_rho(0.0, 1e-6) == 0.0


def sampled_runs(z, rate, steps, runs, seed):
    """Log-likelihood ratios of a record's presence, claimed noise 1, real noise z, from all noisy sums."""
    rng = np.random.default_rng(seed)
    scores = []
    for present in (0, 1):
        sums = z * rng.normal(size=(runs, steps)) + present * (rng.random((runs, steps)) < rate)
        scores.append(np.log1p(rate * np.expm1(sums - 0.5)).sum(axis=1))
    return scores


SAMPLED = {"batch_size": 20, "n_samples": 100, "steps": 30}


def sampled_family(strength):
    return lambda epsilon: sgd_delta(1 / strength, epsilon, **SAMPLED)


def test_a_claim_of_sampled_steps_is_tested_by_its_whole_profile():
    """20,000 honest runs: not contradicted, and more is certified than at a single delta."""
    claim = sgd_epsilon(1.0, 1e-5, **SAMPLED)
    first, second = sampled_runs(1.0, 0.2, 30, 10_000, seed=1)
    settings = {"delta": 1e-5, "claim": claim}
    whole = certify_observations(first, second, method="profile", family=sampled_family, **settings)
    single = certify_observations(first, second, method="clopper_pearson", **settings)
    assert not whole.violates()
    assert 0.8 < whole.strength < 1.0
    assert whole.epsilon > 1.5 * single.epsilon
    assert "strength" in str(whole)


def test_a_false_claim_of_sampled_steps_is_refuted():
    """A third less noise than claimed, too little for one delta to notice."""
    claim = sgd_epsilon(1.0, 1e-5, **SAMPLED)
    first, second = sampled_runs(0.67, 0.2, 30, 3000, seed=2)
    settings = {"delta": 1e-5, "claim": claim, "confidence": 0.999}
    assert certify_observations(first, second, method="profile", family=sampled_family, **settings).violates()
    assert not certify_observations(first, second, method="clopper_pearson", **settings).violates()


def test_randomized_response_is_judged_by_its_epsilon():
    """A coin that tells the truth with odds 3: epsilon = log 3, and no Gaussian."""

    def fit(data, seed):
        return data if np.random.default_rng(seed).random() < 0.75 else 1 - data

    result = epsilon_lower_bound(
        fit, (0, 1), delta=0.0, trainings=4000, method="clopper_pearson", n_jobs=1, random_state=0
    )
    # both errors are 1/4 with deviation 0.0102: the bound is below the truth by 4 % to 25 %
    assert 0.75 * math.log(3) < result.epsilon < math.log(3)


@pytest.mark.parametrize("method", ["gdp", "gdp_threshold", "zcdp", "profile", "clopper_pearson"])
def test_a_true_claim_is_contradicted_as_rarely_as_stated(method):
    """2-GDP, so 2-zCDP, 400 audits at confidence 0.9: at most 40 false alarms expected."""
    claim = zcdp_epsilon(2.0, 1e-3) if method == "zcdp" else gdp_epsilon(2.0, 1e-3)
    rng = np.random.default_rng(0)
    false_alarms = 0
    for _ in range(400):
        result = epsilon_lower_bound(
            lambda data, seed: data + np.random.default_rng(seed).normal(),
            (0.0, 2.0),
            delta=1e-3,
            trainings=60,
            confidence=0.9,
            method=method,
            family=gaussian_family if method == "profile" else None,
            n_jobs=1,
            random_state=rng,
        )
        false_alarms += result.violates(claim)
    assert false_alarms <= binom.ppf(1 - 1e-6, 400, 0.1)


def test_a_direction_is_learned_from_vectors():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(6, 6))
    shift = np.linalg.solve(mixing.T @ mixing, np.ones(6))
    shift *= 1.5 / np.linalg.norm(np.linalg.solve(mixing.T, shift))
    first, second = (rng.normal(size=(2000, 6)) @ mixing + present * shift for present in (0, 1))
    score = learn_statistic(first[:1000], second[:1000])
    achieved = share_ordered(score(first[1000:]), score(second[1000:]))
    # the best possible share is Phi(1.5 / sqrt 2) = 0.856, with a deviation of 0.0085
    assert achieved > 0.856 - 5 * 0.0085


def test_processes_give_the_same_answer_as_one():
    pair = worst_case_neighbours(n=20, d=2)
    fit = audit.Transcript(
        lambda objective, seed: algorithms.noisy_gd(objective, 2.0, 1e-3, steps=3, random_state=seed), pair
    )
    one, two = (
        epsilon_lower_bound(fit, pair, delta=1e-3, trainings=200, n_jobs=jobs, random_state=5, progress=True)
        for jobs in (1, 2)
    )
    assert one == two


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "luck"},
        {"family": gaussian_family},
        {"trainings": 10},
        {"confidence": 1.0},
        {"delta": 0.0},
        {"learn_share": 1.0},
        {"neighbours": (1, 2, 3)},
    ],
)
def test_bad_arguments_are_named(settings):
    call = {"neighbours": (0.0, 1.0), "delta": 1e-3, "n_jobs": 1, **settings}
    with pytest.raises(ValueError, match=next(iter(settings))):
        epsilon_lower_bound(lambda data, seed: data, **call)


def test_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        epsilon_lower_bound(lambda data, seed: math.nan, (0, 1), delta=1e-3, n_jobs=1, trainings=20)


@pytest.mark.parametrize("method", ["gdp_threshold", "clopper_pearson"])
def test_the_certificate_is_the_formula_on_the_trainings_not_used_for_learning(method):
    """Errors are planted in the part that counts: 30 and 50 of 900, none where the decision is made."""
    first, second = np.zeros(1000), np.ones(1000)
    first[100:130], second[-50:] = 1.0, 0.0
    result = certify_observations(first, second, delta=1e-4, confidence=0.99, method=method)
    assert (result.trainings, result.certified) == (2000, 1800)
    alpha, beta = bounds.rate_upper_bound(30, 900, 0.995), bounds.rate_upper_bound(50, 900, 0.995)
    assert (result.false_positive_rate, result.false_negative_rate) == (30 / 900, 50 / 900)
    if method == "clopper_pearson":
        assert result.mu is None
        assert result.epsilon == pytest.approx(bounds.epsilon_from_rates(alpha, beta, 1e-4), rel=1e-12)
    else:
        assert result.mu == pytest.approx(norm.isf(alpha) - norm.ppf(beta), rel=1e-12)


def test_the_certificate_of_pairs_is_one_interval_and_ties_are_tossed():
    first, second = np.zeros(1000), np.zeros(1000)
    second[::2] = np.where(np.arange(500) < 400, 1.0, -1.0)
    epsilon, mu, *rates = Judge(1e-4, 0.99, "gdp").certify(first, second, None)
    # wins 0.4, losses 0.1, ties 0.5: a quarter of all lost on the toss, deviation 0.011
    assert rates[0] == rates[1] == pytest.approx(0.35, abs=5 * 0.011)
    high = bounds.rate_upper_bound(round(1000 * rates[0]), 1000, 0.99)
    assert mu == pytest.approx(-math.sqrt(2) * norm.ppf(high), rel=1e-12)
    assert epsilon == bounds.epsilon_of_mu(mu, 1e-4)
