"""Accuracy of the default settings on Adult: what a user gets without tuning."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

import dperm
from dperm.algorithms import dp_agd, noisy_gd, whitened_gd

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


@pytest.mark.parametrize(
    ("solver", "epsilon", "lowest"),
    [
        (noisy_gd, 0.1, 82.3),
        (noisy_gd, 0.4, 83.5),
        (noisy_gd, 1.6, 84.2),
        (whitened_gd, 0.1, 82.8),
        (whitened_gd, 0.4, 84.2),
        (whitened_gd, 1.6, 84.9),
        pytest.param(dp_agd, 0.1, 79.5, marks=pytest.mark.slow),
        pytest.param(dp_agd, 0.4, 82.3, marks=pytest.mark.slow),
        pytest.param(dp_agd, 1.6, 83.8, marks=pytest.mark.slow),
    ],
)
def test_accuracy_on_adult(splits, solver, epsilon, lowest):
    """Mean test accuracy in per cent; noise and splits are seeded, so the result is reproducible."""
    shares = []
    for objective, X_test, y_test in splits:
        coef = solver(objective, epsilon, 1e-8, random_state=1).coef
        shares.append(np.mean(np.sign(X_test @ coef[:-1] + coef[-1]) == y_test))
    assert 100 * np.mean(shares) >= lowest


def default_accuracy(name, epsilon, delta):
    """Test accuracy of the default solver in per cent, with the public schema of the data set."""
    data = dperm.datasets.load(name)
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=0)
    model = dperm.LogisticRegression(epsilon, delta, schema=data.schema, classes=[-1, 1], random_state=1)
    return 100 * model.fit(X, y).score(X_test, y_test)


@pytest.mark.parametrize(("epsilon", "lowest"), [(0.1, 83.4), (0.4, 84.6), (1.6, 85.0)])
def test_accuracy_on_adult_with_public_bins(epsilon, lowest):
    assert default_accuracy("adult_binned", epsilon, 1e-8) >= lowest


@pytest.mark.slow
@pytest.mark.skipif(not (Path(FOLDER) / "kddcup99").is_dir(), reason="DPERM_DATA has no kddcup99/")
@pytest.mark.parametrize(
    ("name", "lowest"),
    [
        ("kddcup99", 98.7),
        pytest.param("kddcup99_binned", 99.2, marks=pytest.mark.xfail(reason="the default reaches 99.03 %")),
    ],
)
def test_accuracy_on_kddcup99(name, lowest):
    assert default_accuracy(name, 0.1, 1e-12) >= lowest
