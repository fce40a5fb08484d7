"""Two neighbouring relations on one ledger.

The attacker chooses the fits. A fit under add_or_remove and then one under replace_one are each charged
correctly under their own relation; but replacing a record is removing one and adding one, so that under
replace_one the first costs four times its mu^2. With a ledger of (1, 1e-6), both together had a true epsilon
of 1.516.
"""

import math

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting import Ledger, gdp_epsilon, gdp_mu, open_ledger
from dperm.algorithms import noisy_gd
from dperm.errors import BudgetExceededError

DELTA = 1e-6


@pytest.fixture
def objective():
    X = np.random.default_rng(0).normal(size=(200, 2))
    return Objective("logistic", X, np.where(X[:, 0] > 0, 1.0, -1.0), row_norm=2.0)


def test_replace_one_fits_are_refused_by_an_add_or_remove_ledger(objective):
    ledger = Ledger(1.0, DELTA)
    noisy_gd(objective, 0.6, DELTA, steps=2, ledger=ledger)
    rest = ledger.remaining
    with pytest.raises(ValueError, match="hides the number of records"):
        noisy_gd(objective, rest, DELTA, steps=2, neighbors="replace_one", ledger=ledger)
    assert ledger.spent == pytest.approx(0.6)
    together = gdp_epsilon(math.hypot(2.0 * gdp_mu(0.6, DELTA), gdp_mu(rest, DELTA)), DELTA)
    assert together > 1.5  # what both would have cost


def test_add_or_remove_fits_are_charged_in_full_to_a_replace_one_ledger(objective):
    ledger = Ledger(1.0, DELTA, neighbors="replace_one")
    noisy_gd(objective, 0.6, DELTA, steps=2, neighbors="replace_one", ledger=ledger)
    with pytest.raises(BudgetExceededError):
        noisy_gd(objective, 0.45, DELTA, steps=2, neighbors="add_or_remove", ledger=ledger)
    noisy_gd(objective, 0.3, DELTA, steps=2, neighbors="add_or_remove", ledger=ledger)
    true_mu = math.hypot(gdp_mu(0.6, DELTA), 2.0 * gdp_mu(0.3, DELTA))
    assert gdp_epsilon(true_mu, DELTA) <= ledger.spent * (1 + 1e-9) <= 1.0


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_fits_default_to_the_relation_of_their_ledger(objective, relation, tmp_path):
    for ledger in (
        Ledger(1.0, DELTA, neighbors=relation),
        open_ledger(tmp_path / "budget.db", "data", 1.0, DELTA, neighbors=relation),
    ):
        result = noisy_gd(objective, 0.5, DELTA, steps=2, ledger=ledger)
        assert result.privacy.neighbors == relation
