"""The best of a random number of trials: bounds against exact distributions of small searches."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from dperm.accounting import gaussian_delta, gdp_epsilon, gdp_mu
from dperm.accounting.ledger.cost import Cost, caps_of
from dperm.accounting.random_trials import (
    TruncatedNegativeBinomial,
    profile_cost,
    profile_epsilon,
    profile_mu,
    renyi_bound,
    renyi_cost,
    renyi_epsilon,
    renyi_rho,
)
from dperm.accounting.units import Accountant
from dperm.mechanisms.sampling import number_of_trials
from reference.goodness_of_fit import FALSE_ALARM, assert_fits, chi_square_p_value

LAWS = [
    TruncatedNegativeBinomial(eta, gamma)
    for eta, gamma in [(0.0, 0.0269182596), (1.0, 1 / 27), (0.5, 0.0625), (-0.5, 0.01), (3.0, 0.2)]
]
MUS = (0.1, 0.5, 1.5)
DELTAS = (1e-2, 1e-4, 1e-6)


def probabilities(law, largest=6_000):
    """``P(1), ..., P(largest)``: the formula, term by term."""
    k = np.arange(1, largest + 1)
    ratios = (1.0 - law.gamma) * (k[:-1] + law.eta) / (k[:-1] + 1.0)
    first = (
        (1.0 - law.gamma) / -math.log(law.gamma)
        if law.eta == 0.0
        else (1.0 - law.gamma) * law.eta / (law.gamma**-law.eta - 1.0)
    )
    return first * np.cumprod(np.concatenate([[1.0], ratios]))


def search_outputs(law, mu):
    """Distributions of the best of K trials on two data sets; trials output a Gaussian number, in cells.

    A trial is mu-GDP, almost exactly.
    """
    edges = np.concatenate([[-np.inf], np.linspace(-6.0, 6.0 + mu, 250), [np.inf]])
    pmf = probabilities(law)
    pmf = pmf[pmf > 1e-22]
    k = np.arange(1, len(pmf) + 1)

    def best(mean):
        """Smallest of K: ``E[a^K - b^K]`` for the tails from and beyond each cell, without cancellation."""
        low, high = edges[:-1] - mean, edges[1:] - mean
        cells = np.where(high < 0.0, norm.cdf(high) - norm.cdf(low), norm.sf(low) - norm.sf(high))
        within = np.log1p(-np.minimum(cells / norm.sf(low), 1.0 - 1e-16))
        powers = -np.exp(np.outer(norm.logsf(low), k)) * np.expm1(np.outer(within, k))
        return powers @ pmf

    return best(0.0), best(mu)


@pytest.fixture(scope="module")
def outputs():
    return {(law, mu): search_outputs(law, mu) for law in LAWS for mu in MUS}


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def both_ways(pair):
    return pair, pair[::-1]


class TestTheLaw:
    @pytest.mark.parametrize("law", LAWS)
    def test_mean_and_quantiles(self, law):
        pmf = probabilities(law)
        assert law.mean == pytest.approx(float(pmf @ np.arange(1, len(pmf) + 1)), rel=1e-9)
        below = np.cumsum(pmf)
        for uniform in (Fraction(0), Fraction(1, 3), Fraction(9, 10), Fraction(999, 1000)):
            assert law.quantile(uniform) == 1 + int(np.searchsorted(below, float(uniform), side="right"))

    @pytest.mark.parametrize("law", LAWS)
    def test_the_sampler(self, law):
        drawn = np.array([number_of_trials(seed, law) for seed in range(1000)])
        counts = np.bincount(np.minimum(drawn, 400), minlength=401)[1:]
        pmf = probabilities(law)
        assert_fits(counts, np.append(pmf[:399], pmf[399:].sum()))

    def test_another_law_would_be_noticed(self):
        law, other = TruncatedNegativeBinomial(1.0, 0.1), TruncatedNegativeBinomial(1.0, 0.12)
        drawn = np.array([number_of_trials(seed, law) for seed in range(4000)])
        counts = np.bincount(np.minimum(drawn, 400), minlength=401)[1:]
        assert chi_square_p_value(counts, probabilities(other, 400)) < FALSE_ALARM

    @pytest.mark.parametrize(
        ("eta", "gamma"), [(-1.0, 0.5), (math.inf, 0.5), (0.0, 0.0), (0.0, 1.0), (1.0, math.nan)]
    )
    def test_numbers_out_of_range_are_refused(self, eta, gamma):
        with pytest.raises(ValueError, match="must be"):
            TruncatedNegativeBinomial(eta, gamma)


class TestTheProfileBound:
    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("mu", MUS)
    @pytest.mark.parametrize("delta", DELTAS)
    def test_holds_for_exact_laws(self, outputs, law, mu, delta):
        epsilon = profile_epsilon(law, mu, delta)
        for pair in both_ways(outputs[law, mu]):
            assert hockey_stick(*pair, epsilon) <= delta

    @pytest.mark.parametrize("law", LAWS)
    def test_a_search_shows_more_than_a_trial(self, outputs, law):
        pairs = both_ways(outputs[law, 0.5])
        assert max(hockey_stick(*pair, gdp_epsilon(0.5, 1e-4)) for pair in pairs) > 3e-4

    def test_known_values(self):
        ten = LAWS[0]
        assert ten.mean == pytest.approx(10.0, rel=1e-9)
        assert profile_mu(ten, 1.0, 1e-6) == pytest.approx(0.1469, abs=5e-5)
        assert gdp_mu(1.0, 1e-6) / math.sqrt(10.0) == pytest.approx(0.0749, abs=5e-5)

    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1.0, 1e-6), (8.0, 1e-3)])
    def test_inverse(self, law, epsilon, delta):
        mu = profile_mu(law, epsilon, delta)
        assert profile_epsilon(law, mu, delta) <= epsilon < profile_epsilon(law, mu * (1 + 1e-6), delta)

    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("mu", MUS)
    def test_cost_in_a_ledger(self, outputs, law, mu):
        """The profile is at most that of a pure release, a Gaussian one and a slack: at *every* epsilon."""
        cost = profile_cost(law, mu, caps_of(20.0, 1e-4, Accountant.GDP, 1e-5, 10.0))(1e-6)
        assert 0.0 < cost.mu < 8.0
        for epsilon in np.linspace(-3.0, 3.0, 61) * (cost.epsilon + cost.mu):
            beyond = epsilon - cost.epsilon
            gaussian = gaussian_delta(abs(beyond), 1.0 / cost.mu)
            allowed = gaussian if beyond >= 0.0 else 1.0 - math.exp(beyond) * (1.0 - gaussian)
            for pair in both_ways(outputs[law, mu]):
                assert hockey_stick(*pair, float(epsilon)) <= cost.slack + allowed + 1e-12


class TestTheRenyiBound:
    @pytest.mark.parametrize(
        ("eta", "gamma", "mu", "order", "value"),
        [
            (0.0, 0.0269182596, 0.1, 32.0, 0.4981616882),
            (1.0, 0.1, 0.1, 32.0, 0.6534701437),
            (0.5, 0.0625, 0.25, 32.0, 1.910459455),
        ],
    )
    def test_known_values(self, eta, gamma, mu, order, value):
        law = TruncatedNegativeBinomial(eta, gamma)
        assert renyi_bound(law, mu**2 / 2, order) == pytest.approx(value, rel=1e-9)

    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("mu", MUS)
    def test_holds_for_exact_laws(self, outputs, law, mu):
        rho, cost = mu**2 / 2, renyi_cost(law, mu**2 / 2)
        for order in (1.01, 1.5, 2.0, 4.0, 16.0, 64.0):
            for p, q in both_ways(outputs[law, mu]):
                terms = order * np.log(p) + (1.0 - order) * np.log(q)
                divergence = float(np.logaddexp.reduce(terms)) / (order - 1.0)
                assert divergence <= renyi_bound(law, rho, order)
                assert divergence <= cost.epsilon + order * cost.mu**2 / 2

    @pytest.mark.parametrize("law", LAWS)
    def test_epsilon_and_its_inverse(self, outputs, law):
        for mu in MUS:
            for delta in DELTAS:
                epsilon = renyi_epsilon(law, mu**2 / 2, delta)
                for pair in both_ways(outputs[law, mu]):
                    assert hockey_stick(*pair, epsilon) <= delta
        rho = renyi_rho(law, 1.0, 1e-6)
        assert renyi_epsilon(law, rho, 1e-6) <= 1.0 < renyi_epsilon(law, rho * (1 + 1e-6), 1e-6)

    def test_a_trial_gets_less_than_by_the_profile_bound(self):
        assert math.sqrt(2.0 * renyi_rho(LAWS[0], 1.0, 1e-6)) == pytest.approx(0.1336, abs=5e-5)

    @pytest.mark.parametrize(("mean", "eta"), [(10.0, 0.0), (10.0, 1.0), (3.0, 0.5)])
    @pytest.mark.parametrize("mu", [0.1, 0.5])
    def test_dp_accounting_agrees(self, mean, eta, mu):
        dp_event = pytest.importorskip("dp_accounting.dp_event")
        from dp_accounting.rdp import RdpAccountant
        from scipy.optimize import brentq

        gamma = brentq(lambda gamma: TruncatedNegativeBinomial(eta, gamma).mean - mean, 1e-9, 1 - 1e-9)
        law, rho = TruncatedNegativeBinomial(eta, gamma), mu**2 / 2
        best_order = max(1.0, math.sqrt(-math.log(gamma) / rho))
        orders = [best_order, 8.0, 32.0]
        accountant = RdpAccountant(orders)
        accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1 / mu), mean, eta))
        theirs = dict(zip(accountant._orders, accountant._rdp, strict=True))
        for order in orders[1:]:
            assert min(renyi_bound(law, rho, each) for each in orders if each >= order) == pytest.approx(
                theirs[order], rel=1e-9
            )


def test_costs_go_into_the_columns_of_a_ledger():
    cost = renyi_cost(LAWS[0], 0.01).counted(Accountant.ZCDP)
    assert cost.slack == 0
    assert cost.within(Cost(units=round(0.0100001 * 2**60), pure=2**60))
