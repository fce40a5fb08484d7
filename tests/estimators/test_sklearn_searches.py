"""What scikit-learn does with the records around a private fit: warned of once, named in the statement."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFECV, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression as Exact
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, PolynomialFeatures, StandardScaler

from dperm import HuberRegressor, LogisticRegression
from dperm.accounting import Ledger, gdp_epsilon, gdp_mu
from dperm.errors import ExactSizeWarning, PrivacyWarning, SeededNoiseWarning
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


SEVERAL = {
    "HalvingGridSearchCV": lambda: HalvingGridSearchCV(MODEL, GRID).fit(*records(60)),
    "CalibratedClassifierCV": lambda: CalibratedClassifierCV(MODEL).fit(*records(60)),
    "TunedThresholdClassifierCV": lambda: TunedThresholdClassifierCV(MODEL).fit(*records(60)),
    "RFECV": lambda: RFECV(MODEL).fit(*records(60)),
    "learning_curve": lambda: learning_curve(MODEL, *records(60)),
    "validation_curve": lambda: validation_curve(MODEL, *records(60), param_name="l2", param_range=[0, 1]),
    "permutation_test_score": lambda: permutation_test_score(MODEL, *records(60), n_permutations=3),
    "GridSearchCV": lambda: GridSearchCV(
        CalibratedClassifierCV(MODEL), {"method": ["sigmoid", "isotonic"]}
    ).fit(*records(60)),
}


@pytest.mark.parametrize("who", SEVERAL)
def test_one_warning_where_the_number_of_fits_is_not_known(who):
    (one,) = warned(SEVERAL[who])
    assert issubclass(one.category, PrivacyWarning)
    assert str(one.message).startswith(f"{who} fits a private model")
    assert "thresholds, curves, calibration) has no noise" in str(one.message)


SCALED = ColumnTransformer([("scale", StandardScaler(), [0]), ("keep", "passthrough", [1])])
BEFORE = {
    "StandardScaler": [StandardScaler()],
    "StandardScaler, SelectKBest": [SCALED, SelectKBest(k=1)],
    "OneHotEncoder": [Normalizer(), OneHotEncoder(handle_unknown="ignore")],
}
PUBLIC = [FrozenEstimator(StandardScaler().fit(*records(60))), Normalizer(), PolynomialFeatures()]


@pytest.mark.parametrize("names", BEFORE)
def test_what_learned_before_a_fit_voids_the_guarantee(names):
    ledger = Ledger(3.0, 1e-5)
    pipeline = make_pipeline(*BEFORE[names], clone(MODEL).set_params(ledger=ledger))
    with pytest.warns(PrivacyWarning, match=f"nothing is guaranteed.*without noise: {names}\\."):
        statement = pipeline.fit(*records(60))[-1].privacy_
    assert statement.headline == f"NOT PRIVATE: it rests on {names}, learned from the data without noise."
    assert not statement.to_dict()["private"]
    assert names in dict(statement.sections())["Not covered"].partition("The time")[0]
    assert ledger.history()[0].statement["learned_exactly"] == names.split(", ")


def test_what_learned_nothing_before_a_fit_is_not_warned_of():
    with warnings.catch_warnings(action="error", category=PrivacyWarning):
        warnings.simplefilter("ignore", ExactSizeWarning)
        model = make_pipeline(*PUBLIC, clone(MODEL).set_params(row_norm=2.0)).fit(*records(60))[-1]
    assert model.privacy_.headline.startswith("Differentially private")


def test_targets_that_were_scaled_by_the_data():
    regressor = HuberRegressor(target_bound=1.0, solver="noisy_gd", solver_options={"steps": 2})
    with pytest.warns(PrivacyWarning, match="StandardScaler"):
        fitted = TransformedTargetRegressor(regressor, transformer=StandardScaler()).fit(*records(60))
    assert "StandardScaler" in fitted.regressor_.privacy_.headline


@pytest.mark.parametrize("Ensemble", [BaggingClassifier, AdaBoostClassifier])
def test_ensembles_that_set_seeds_are_named(Ensemble):
    X, y = records(600)
    model = clone(MODEL).set_params(classes=[0, 1], epsilon=50.0)
    with pytest.raises(ValueError, match=f"{Ensemble.__name__} sets the random_state.*refuses seeds"):
        Ensemble(clone(model).set_params(ledger=Ledger(100.0, 1e-3))).fit(X, (y > 0) * 1)
    with pytest.warns(SeededNoiseWarning, match=f"{Ensemble.__name__} sets the random_state"):
        Ensemble(model, n_estimators=1, random_state=0).fit(X, (y > 0) * 1)
