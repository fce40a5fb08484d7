"""Errors as an oracle.

Whoever sees that a fit failed learns something about the records: that one was not finite, had an unknown
label, or that there were more than n_public. The statement of a fit that succeeded says that these were
ruled out; what other processes see of an error holds no value of a record.
"""

import pickle

import numpy as np
import pytest

from dperm import LogisticRegression, Objective
from dperm.accounting import Ledger
from dperm.algorithms import noisy_gd
from dperm.errors import BudgetExceededError

X = np.random.default_rng(0).normal(size=(50, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def test_the_statement_names_what_stops_a_fit():
    text = " ".join(str(noisy_gd(Objective("logistic", X, Y), 1.0, 1e-6, steps=2).privacy).split())
    for words in (
        "An error that stops the computation shows",
        "not finite",
        "unknown label",
        "more records than",
    ):
        assert words in text


def test_with_zero_non_finite_records_do_not_show():
    bad = X.copy()
    bad[3, 0] = np.nan
    objective = Objective("logistic", bad, Y, non_finite="zero")
    text = " ".join(str(noisy_gd(objective, 1.0, 1e-6, steps=2).privacy).split())
    assert "count as empty, silently" in text


def test_errors_of_budgets_hold_public_numbers_only():
    ledger = Ledger(0.1, 1e-6)
    model = LogisticRegression(1.0, 1e-6, classes=[-1.0, 1.0], ledger=ledger)
    with pytest.raises(BudgetExceededError) as caught:
        model.fit(X, Y)
    shown = str(pickle.loads(pickle.dumps(caught.value)))
    assert not any(f"{value:.5f}" in shown for value in X.ravel())
