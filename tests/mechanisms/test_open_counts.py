"""Release of counts of unlisted values: the charge and the result."""

import copy
import math
import pickle

import numpy as np
import pytest

from dperm.accounting import Ledger
from dperm.accounting.budget import Budget, ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.selection import publication_threshold
from dperm.errors import BudgetExceededError
from dperm.mechanisms.hooks import replace_noise
from dperm.mechanisms.open_counts import release_open_counts
from dperm.mechanisms.release import Releaser
from dperm.private_values.open_counts import OpenCounts

VALUES = [{"b": 5, "a": 40, "c": 1}, {3: 1000, 1: 2}]


def counts(bins=(7, 0), values=VALUES):
    return OpenCounts(np.array(bins, np.int64), values, columns=3)


def door(slack=1e-3, epsilon=1.0, **settings):
    budget = Budget.from_epsilon(epsilon, 1e-2)
    budget = Budget(budget.total_units, slack=slack)
    settings = {
        "neighbors": "add_or_remove",
        "ledger": None,
        "random_state": 1,
        "description": "test",
    } | settings
    return Releaser(epsilon, 1e-2, budget, **settings)


pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.SeededNoiseWarning")


@pytest.mark.parametrize(("neighbors", "factor"), [("add_or_remove", 3.0), ("replace_one", 6.0)])
def test_noise_has_the_scale_of_all_counts_together(neighbors, factor):
    release = door(neighbors=neighbors)
    private = counts(np.zeros(20_000, np.int64), [])
    noise, _ = release_open_counts(release, private, 4.0, 0.0)
    # Chi-square as in test_release: a false alarm in 2e-7 of the runs. Rounding adds 1/12.
    expected = 16.0 * factor + 1.0 / 12.0
    assert abs(np.mean(noise**2.0) / expected - 1.0) < 0.052
    assert release.releases[0].scale == pytest.approx(4.0 * math.sqrt(factor))
    assert release.budget.spent_units == GaussianRelease(4.0).cost_units("gdp")


def test_values_show_from_the_threshold_on():
    threshold = publication_threshold(4.0 * math.sqrt(3.0), 1e-3, 2)
    at_noise = {}
    for added in (threshold - 40, threshold - 41):
        with replace_noise(gaussian=lambda bits, sigma, exponent, shape, added=added: np.full(shape, added)):
            bins, shown = release_open_counts(door(), counts(), 4.0, 1e-3)
        assert bins.tolist() == [7 + added, added]
        at_noise[added] = shown
    assert at_noise[threshold - 40] == [{"a": threshold}, {3: 1000 + threshold - 40}]
    assert at_noise[threshold - 41] == [{}, {3: 1000 + threshold - 41}]


def test_noise_goes_to_bins_and_then_to_sorted_values():
    def in_turn(bits, sigma, exponent, shape):
        return 1000 * np.arange(1, shape[0] + 1)

    with replace_noise(gaussian=in_turn):
        bins, shown = release_open_counts(door(), counts(), 4.0, 1e-3)
    assert bins.tolist() == [1007, 2000]
    assert [list(each.items()) for each in shown] == [
        [("a", 3040), ("b", 4005), ("c", 5001)],
        [(1, 6002), (3, 8000)],
    ]


class TestCharge:
    def test_the_charge_comes_before_the_draw(self):
        release = door()

        def draw(*_):
            assert release.budget.spent_units > 0
            raise RuntimeError("the source broke")

        with replace_noise(gaussian=draw), pytest.raises(RuntimeError, match="source broke"):
            release_open_counts(release, counts(), 10.0, 1e-3)
        with pytest.raises(BudgetExceededError, match="delta"):  # the slack is spent, too
            release_open_counts(release, counts(), 10.0, 1e-6)

    @pytest.mark.parametrize(
        ("multiplier", "slack", "budget"), [(0.1, 1e-3, 1e-3), (10.0, 2e-3, 1e-3), (10.0, 1e-9, None)]
    )
    def test_over_budget_nothing_is_drawn(self, multiplier, slack, budget):
        with replace_noise(gaussian=pytest.fail), pytest.raises(BudgetExceededError):
            release_open_counts(door(budget), counts(), multiplier, slack)

    def test_values_require_slack(self):
        with pytest.raises(ValueError, match="slack"):
            release_open_counts(door(), counts(), 10.0, 0.0)

    def test_a_schedule_has_none(self):
        budget = ScheduledBudget(GaussianRelease(10.0), 1, "pld")
        settings = {"neighbors": "add_or_remove", "ledger": None, "random_state": 1, "description": "test"}
        with replace_noise(gaussian=pytest.fail), pytest.raises(TypeError, match="slack"):
            release_open_counts(Releaser(1.0, 1e-2, budget, **settings), counts(), 10.0, 1e-3)

    @pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
    def test_the_ledger_is_charged_the_slack(self, accountant):
        ledger = Ledger(2.0, 2e-2, accountant, allow_seeded=True)
        release = door(1e-3, ledger=ledger)
        half = 2 if accountant == "zcdp" else 1
        assert ledger.charged.units == pytest.approx(release.budget.total_units / half, rel=1e-14)
        assert ledger.charged.units * half >= release.budget.total_units
        assert ledger.charged.slack / 2**200 == pytest.approx(1e-3, rel=1e-14)

    def test_only_mu_has_a_slack(self):
        with pytest.raises(ValueError, match="slack"):
            Budget(10, "zcdp", slack=1e-3)
        with pytest.raises(ValueError, match="slack"):
            Budget(10, slack=-1e-3)


@pytest.mark.parametrize(
    "use", [len, list, bool, copy.copy, copy.deepcopy, pickle.dumps, lambda each: each + np.ones(2)]
)
def test_they_do_not_open(use):
    with pytest.raises(TypeError):
        use(counts())


def test_they_neither_print_nor_change():
    assert repr(counts()) == "<OpenCounts, 2 bins, 2 columns, not released>"
    with pytest.raises(AttributeError, match="cannot be changed"):
        counts().add_or_remove = 0.1
