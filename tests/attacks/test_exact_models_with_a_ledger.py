"""A ledger that is never charged.

The attacker requests a fit without noise (epsilon = inf, or the solver "nonprivate") and passes the ledger
that policy demands. The exact model was returned, and nothing was charged.
"""

import math

import numpy as np
import pytest

import dperm
from dperm import LogisticRegression, Objective, algorithms
from dperm.accounting import Ledger, open_ledger
from dperm.errors import BudgetExceededError

X = np.random.default_rng(0).normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    """A ledger that must not be charged."""
    made = Ledger(3.0, 1e-6)
    if request.param == "file":
        made = open_ledger(tmp_path / "budget.db", "data", 3.0, 1e-6)
    yield made
    assert made.history() == []


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": math.inf},
        {"epsilon": 1.0, "solver": "nonprivate"},
        {"epsilon": math.inf, "solver": "noisy_gd"},
    ],
)
def test_estimators_refuse_exact_fits_with_a_ledger(ledger, settings):
    model = LogisticRegression(delta=1e-7, classes=[0, 1], row_norm=2.0, ledger=ledger, **settings)
    with pytest.raises((ValueError, BudgetExceededError)):
        model.fit(X, Y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("name", ["noisy_gd", "dp_sgd", "majority", "whitened_gd"])
def test_algorithms_refuse_exact_fits_with_a_ledger(ledger, name):
    objective = Objective("logistic", X, 2.0 * Y - 1.0, row_norm=2.0, fit_intercept=True)
    with pytest.raises(BudgetExceededError):
        getattr(algorithms, name)(objective, math.inf, 1e-7, ledger=ledger)


class TestRequiredLedger:
    """If a ledger is required, a fit without one is an error, even an exact fit."""

    @pytest.fixture(params=["variable", "function"])
    def required(self, request, monkeypatch):
        if request.param == "variable":
            monkeypatch.setenv("DPERM_REQUIRE_LEDGER", "1")
        else:
            monkeypatch.setattr("dperm._config._settings", {"require_ledger": None})
            dperm.config(require_ledger=True)

    @pytest.mark.usefixtures("required")
    @pytest.mark.parametrize("settings", [{"epsilon": 1.0}, {"epsilon": math.inf}])
    def test_fits_without_a_ledger_are_refused(self, settings):
        assert dperm.config() == {"require_ledger": True}
        with pytest.raises(ValueError, match="a ledger is required"):
            LogisticRegression(delta=1e-7, classes=[0, 1], row_norm=2.0, **settings).fit(X, Y)
        ledger = Ledger(3.0, 1e-6)
        LogisticRegression(1.0, 1e-7, classes=[0, 1], row_norm=2.0, ledger=ledger).fit(X, Y)
        assert len(ledger.history()) == 1

    def test_the_variable_is_0_or_1(self, monkeypatch):
        monkeypatch.setenv("DPERM_REQUIRE_LEDGER", "yes")
        with pytest.raises(ValueError, match="DPERM_REQUIRE_LEDGER must be 0 or 1"):
            LogisticRegression(1.0, 1e-7, classes=[0, 1]).fit(X, Y)
