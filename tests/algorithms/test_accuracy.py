"""Accuracy of the default settings on Adult: what a user gets without tuning."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

import dperm
from dperm.algorithms import dp_agd, noisy_gd, preconditioned_gd

FOLDER = os.environ.get("DPERM_DATA", "")
pytestmark = pytest.mark.skipif(
    not (Path(FOLDER) / "adult").is_dir(), reason="DPERM_DATA does not name a folder with adult/"
)


@pytest.fixture(scope="module")
def splits():
    """Objective, test rows and labels of two random 80/20 splits."""
    data = dperm.datasets.load("adult")
    made = []
    for seed in range(2):
        X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=seed)
        objective = dperm.Objective("logistic", X, y, row_norm=data.row_norm, fit_intercept=True)
        made.append((objective, X_test, y_test))
    return made


def accuracy(solver, epsilon, splits):
    """Mean test accuracy in per cent; noise and splits are seeded, so that the test is no gamble."""
    shares = []
    for objective, X_test, y_test in splits:
        coef = solver(objective, epsilon, 1e-8, random_state=1).coef
        shares.append(np.mean(np.sign(X_test @ coef[:-1] + coef[-1]) == y_test))
    return 100 * np.mean(shares)


@pytest.mark.parametrize(("epsilon", "bar"), [(0.1, 82.3), (0.4, 83.5), (1.6, 84.2)])
def test_noisy_gd(splits, epsilon, bar):
    assert accuracy(noisy_gd, epsilon, splits) >= bar


@pytest.mark.parametrize(("epsilon", "bar"), [(0.1, 82.8), (0.4, 84.2), (1.6, 84.9)])
def test_preconditioned_gd(splits, epsilon, bar):
    assert accuracy(preconditioned_gd, epsilon, splits) >= bar


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "bar"), [(0.1, 79.5), (0.4, 82.3), (1.6, 83.8)])
def test_dp_agd(splits, epsilon, bar):
    assert accuracy(dp_agd, epsilon, splits) >= bar


@pytest.mark.parametrize(("epsilon", "bar"), [(0.1, 83.4), (0.4, 84.6), (1.6, 85.0)])
def test_public_bins_of_adult(epsilon, bar):
    data = dperm.datasets.load("adult_binned")
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=0)
    model = dperm.LogisticRegression(epsilon, 1e-8, schema=data.schema, classes=[-1, 1], random_state=1)
    assert 100 * model.fit(X, y).score(X_test, y_test) >= bar


@pytest.mark.slow
@pytest.mark.skipif(not (Path(FOLDER) / "kddcup99").is_dir(), reason="DPERM_DATA has no kddcup99/")
@pytest.mark.parametrize(("name", "bar"), [("kddcup99", 98.7), ("kddcup99_binned", 99.2)])
def test_attacks_of_kddcup99(name, bar):
    data = dperm.datasets.load(name)
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=0)
    model = dperm.LogisticRegression(0.1, 1e-12, schema=data.schema, classes=[-1, 1], random_state=1)
    assert 100 * model.fit(X, y).score(X_test, y_test) >= bar
