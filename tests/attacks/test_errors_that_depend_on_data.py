"""Errors as an oracle.

Anyone who sees that a fit failed learns something about the records: that one was not finite or had an
unknown label, or that there were more than n_public. The statement of a successful fit says that these were
ruled out; an error that reaches other processes contains no value of a record.
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


def test_the_statement_names_the_errors_that_reveal_data():
    text = " ".join(str(noisy_gd(Objective("logistic", X, Y), 1.0, 1e-6, steps=2).privacy).split())
    phrases = (
        "An error that stops the computation shows",
        "not finite",
        "unknown label",
        "more records than",
    )
    assert all(phrase in text for phrase in phrases)


def test_non_finite_records_counted_as_zero_raise_no_error():
    bad = X.copy()
    bad[3, 0] = np.nan
    objective = Objective("logistic", bad, Y, non_finite="zero")
    text = " ".join(str(noisy_gd(objective, 1.0, 1e-6, steps=2).privacy).split())
    assert "count as empty, silently" in text


def test_budget_errors_contain_public_numbers_only():
    ledger = Ledger(0.1, 1e-6)
    model = LogisticRegression(1.0, 1e-6, classes=[-1.0, 1.0], ledger=ledger)
    with pytest.raises(BudgetExceededError) as caught:
        model.fit(X, Y)
    shown = str(pickle.loads(pickle.dumps(caught.value)))
    assert not any(f"{value:.5f}" in shown for value in X.ravel())
