"""scikit-learn's searches charge every fit and score without noise: one warning says so beforehand."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as Exact
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from dperm import LogisticRegression
from dperm.accounting import gdp_epsilon, gdp_mu
from dperm.errors import PrivacyWarning
from search.problems import records

MODEL = LogisticRegression(classes=[-1, 1], solver="noisy_gd", solver_options={"steps": 2}, n_threads=1)
PIPELINE = make_pipeline(Normalizer(), MODEL)
GRID = {"l2": [0.0, 0.1, 1.0]}
PIPELINE_GRID = {"logisticregression__l2": [0.0, 0.1]}

# What to run, who warns, and how many fits there are.
RUNS = {
    "grid": (lambda: GridSearchCV(MODEL, GRID, cv=4).fit(*records(60)), "GridSearchCV", 13),
    "grids": (
        lambda: GridSearchCV(MODEL, [GRID, {"l2": [2.0]}], refit=False).fit(*records(60)),
        "GridSearchCV",
        20,
    ),
    "pipeline": (
        lambda: GridSearchCV(PIPELINE, PIPELINE_GRID, n_jobs=2).fit(*records(60)),
        "GridSearchCV",
        11,
    ),
    "random": (lambda: RandomizedSearchCV(MODEL, GRID, n_iter=2).fit(*records(60)), "RandomizedSearchCV", 11),
    "splitter": (lambda: GridSearchCV(MODEL, GRID, cv=KFold(3)).fit(*records(60)), "GridSearchCV", 10),
    "validation": (lambda: cross_validate(MODEL, *records(60), cv=3), "cross_validate", 3),
    "scores": (lambda: cross_val_score(MODEL, *records(60)), "cross_validate", 5),
    "predictions": (lambda: cross_val_predict(MODEL, *records(60), cv=4), "cross_val_predict", 4),
}


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [each for each in caught if "PrivateSearch" in str(each.message)]


@pytest.mark.parametrize("name", RUNS)
def test_one_warning_that_names_the_total(name):
    run, who, fits = RUNS[name]
    (one,) = warned(run)
    assert issubclass(one.category, PrivacyWarning)
    assert one.filename == __file__
    total = gdp_epsilon(np.sqrt(fits) * gdp_mu(1.0, 1e-6), 1e-6)
    assert str(one.message).startswith(f"{who} is about to make {fits} private fits")
    assert f"together epsilon={total:.3g}" in str(one.message)


def test_numbers_that_are_not_known_beforehand_are_left_out():
    folds = [(np.arange(30), np.arange(30, 60))]
    for grid, cv in (({"epsilon": [0.1, 1.0]}, 3), (GRID, folds)):
        (one,) = warned(lambda grid=grid, cv=cv: GridSearchCV(MODEL, grid, cv=cv).fit(*records(60)))
        assert "several times" in str(one.message)


@pytest.mark.parametrize(
    "run",
    [
        lambda: clone(MODEL).fit(*records(60)),
        lambda: GridSearchCV(Exact(), {"C": [1.0, 2.0]}).fit(*records(60)),
        lambda: GridSearchCV(clone(MODEL).set_params(solver="nonprivate", solver_options=None), GRID).fit(
            *records(60)
        ),
    ],
)
def test_others_are_not_warned_of(run):
    assert not warned(run)
