"""Noise that cancels.

The attacker sees two models of a data set with and without a record, both fitted with the same random_state,
which the attacker need not know. Equal seeds draw equal noise: the difference of the models is exactly the
effect of the record. `clone` copies a Generator, so that every clone in a grid search repeated its noise.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from dperm import LogisticRegression, Objective
from dperm.accounting import Ledger, open_ledger
from dperm.algorithms import noisy_gd
from dperm.errors import SeededNoiseWarning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
SETTINGS = {"steps": 1, "clip": 0.5, "step_size": 1.0}


def fit(rows, **terms):
    objective = Objective("logistic", X[rows], Y[rows], row_norm=2.0, n_public=300)
    return noisy_gd(objective, 0.001, 1e-6, **SETTINGS, **terms)


def effect_of_record(random_state):
    """What the attacker computes."""
    full, less = (fit(rows, random_state=random_state) for rows in (slice(None), slice(1, None)))
    return np.linalg.norm(full.coef - less.coef) * 300


def test_the_attack_works_with_equal_seeds_only():
    with pytest.warns(SeededNoiseWarning, match="equal seeds draw equal noise"):
        seeded = effect_of_record(7)
    assert seeded <= 0.5 * 0.5 * (1 + 1e-6)  # the clipped gradient of one record, averaged over two iterates
    assert effect_of_record(None) > 10 * seeded  # norm of a normal vector: false alarm below 1e-5


def test_a_ledger_refuses_seeds(tmp_path):
    for ledger in (Ledger(1.0, 1e-6), open_ledger(tmp_path / "budget.db", "data", 1.0, 1e-6)):
        for state in (0, np.random.default_rng(0)):
            with pytest.raises(ValueError, match="random_state=None only"):
                fit(slice(None), random_state=state, ledger=ledger)
        assert ledger.history() == []
        fit(slice(None), ledger=ledger)


def test_a_ledger_for_tests_allows_seeds():
    ledger = Ledger(1.0, 1e-6, allow_seeded=True)
    fit(slice(None), random_state=0, ledger=ledger)
    assert len(ledger.history()) == 1


def test_the_statement_explains_the_risk_of_seeds():
    with pytest.warns(SeededNoiseWarning):
        text = str(fit(slice(None), random_state=0).privacy)
    words = " ".join(text.split())
    assert "Two runs with equal seeds draw equal noise" in words
    assert "sees another result with the same one" in words


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
def test_clones_in_a_grid_search_do_not_repeat_the_noise_of_a_generator():
    """A cloned Generator draws the same noise in every clone; with a ledger, Generators are refused."""
    ledger = Ledger(3.0, 1e-6)
    model = LogisticRegression(
        0.1, 1e-6, classes=[-1.0, 1.0], random_state=np.random.default_rng(0), ledger=ledger
    )
    with pytest.raises(ValueError, match="random_state=None only"):
        clone(model).fit(X, Y)
    search = GridSearchCV(model, {"l2": [0.0, 0.1]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match="random_state=None only"):
        search.fit(X, Y)
    assert ledger.history() == []
