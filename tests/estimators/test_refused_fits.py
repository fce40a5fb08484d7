"""A fit that is refused or interrupted leaves the model as it was."""

import numpy as np
import pytest

from dperm import LogisticRegression, PrivateSearch
from dperm.accounting import Ledger
from dperm.errors import BudgetExceededError
from dperm.metrics import evaluate

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(-0.5, 0.5, (3000, 2)), columns=["a", "b"])
Y = np.where(X.a > 0, 1, 0)
TERMS = {"epsilon": 5.0, "row_norm": 1.3, "classes": [0, 1], "n_public": 3000}


def stop(progress):
    raise KeyboardInterrupt


def test_a_refused_fit_changes_nothing():
    ledger = Ledger(5.0, 1e-6)
    model = LogisticRegression(**TERMS, ledger=ledger).fit(X, Y)
    before, score = {**vars(model)}, model.score(X, Y)
    with pytest.raises(BudgetExceededError):
        model.fit(X[["b", "a"]], Y)
    assert vars(model) == before
    assert model.score(X, Y) == score > 0.9
    with pytest.raises(BudgetExceededError):
        model.set_params(classes=[1, 0]).fit(X, Y)
    assert model.classes_.tolist() == [0, 1]
    assert evaluate(model, X, Y, np.inf, 1e-6)["accuracy"].value == score
    with pytest.raises(ValueError, match="label 6"):
        model.set_params(classes=[0, 1]).fit(X.to_numpy(), Y + 5 * (X.a > 0.499))
    assert vars(model) == before
    model.set_params(ledger=None, solver_options={"callback": stop})
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[["b", "a"]], Y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.score(X, Y) == score


def test_a_fit_keeps_nothing_of_the_one_before():
    model = LogisticRegression(**TERMS, solver="noisy_newton").fit(X, Y)
    assert model.inference_ is not None
    model.set_params(solver="noisy_gd").fit(X.to_numpy(), Y)
    assert model.inference_ is None
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.filterwarnings("ignore:the budget of a fit")
def test_a_refused_search_changes_nothing():
    ledger = Ledger(5.0, 1e-6)
    model = LogisticRegression(**{**TERMS, "epsilon": 1.0})
    search = PrivateSearch(model, {"l2": [0.01, 0.1]}, 5.0, 1e-6, ledger=ledger).fit(X, Y)
    before = {**vars(search)}
    with pytest.raises(BudgetExceededError):
        search.fit(X[["b", "a"]], Y)
    assert vars(search) == before
