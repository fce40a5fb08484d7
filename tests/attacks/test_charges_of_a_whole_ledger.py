"""A budget that is exhausted by one fit.

Fits accounted by privacy loss distributions used to take the whole ledger whatever they cost: two of epsilon
0.4 did not fit into a ledger of 1, so users gave every fit a ledger of its own, and nothing was composed.
"""

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import dp_lssgd, dp_sgd, objective_perturbation, privgene
from dperm.errors import PrivacyWarning

DELTA = 1e-6


@pytest.fixture
def objective():
    X = np.random.default_rng(0).normal(size=(2000, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    return Objective("logistic", X, y, row_norm=2.0, l2=0.1, fit_intercept=True, penalize_intercept=True)


@pytest.mark.parametrize("algorithm", [dp_sgd, dp_lssgd])
def test_two_fits_of_epsilon_04_fit_into_a_ledger_of_1(objective, algorithm):
    ledger = Ledger(1.0, DELTA)
    for _ in range(2):
        algorithm(objective, 0.4, DELTA, ledger=ledger)
    assert ledger.remaining > 0.0
    assert 0.4 < ledger.spent < 0.8


def test_objective_perturbation_is_charged_for_linear_term_and_output_noise(objective):
    ledger = Ledger(1.0, DELTA, pure=0.2)
    entry = ledger.cost_of(objective_perturbation, objective, 0.4, DELTA)
    objective_perturbation(objective, 0.4, DELTA, ledger=ledger)
    assert ledger.charged == entry.cost
    assert ledger.remaining > 0.5


def test_pure_fits_compose(objective):
    ledger = Ledger(1.0, DELTA, pure=0.3)
    for _ in range(2):
        privgene(objective, 0.1, 0.0, ledger=ledger)
    assert ledger.remaining > 0.5


def test_a_fit_that_takes_the_whole_ledger_warns_first(objective):
    ledger = Ledger(1.0, DELTA, neighbors="replace_one")
    with pytest.warns(PrivacyWarning, match=r"takes the whole ledger.*nothing remains"):
        objective_perturbation(objective, 0.4, DELTA, neighbors="replace_one", ledger=ledger)
