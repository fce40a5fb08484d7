"""A fitted model is stored without its ledger; an unfitted one needs a ledger that can be sent to workers."""

import copy
import dataclasses
import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from dperm import HuberRegressor, LinearSVC, LogisticRegression, PrivateSearch, QuantileRegressor
from dperm.accounting import Ledger, open_ledger
from search.problems import records

X, Y = records(200)
MODELS = {
    "binary": LogisticRegression(classes=[-1, 1]),
    "intervals": LogisticRegression(1e3, 1e-3, classes=[-1, 1], solver="noisy_newton", row_norm=2.0),
    "margin": LinearSVC(classes=[-1, 1]),
    "robust": HuberRegressor(target_bound=1.0),
    "quantile": QuantileRegressor(target_bound=1.0),
    "search": PrivateSearch(LogisticRegression(classes=[-1, 1]), {"l2": [0.0, 0.1]}, 1.0, 1e-6),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_more_than_its_parameters(name):
    assert not dataclasses.is_dataclass(MODELS[name])


def ledger_of(kind, folder):
    if kind == "memory":
        return Ledger(1e4, 1e-2, name="people")
    durable = open_ledger(folder / "budget.db", "people", epsilon=1e4, delta=1e-2)
    return durable if kind == "durable" else durable.split({"train": 0.5, "test": 0.5})["train"]


def through_pickle(model):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return joblib.load(file)


def through_skops(model):
    skops = pytest.importorskip("skops.io")
    stored = skops.dumps(model)
    types = skops.get_untrusted_types(data=stored)
    assert all(each.startswith("dperm.") for each in types)
    return skops.loads(stored, trusted=types)


@pytest.mark.parametrize(
    ("store", "kind"), [(through_pickle, "memory"), (through_joblib, "durable"), (through_skops, "memory")]
)
@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_is_stored_whatever_its_ledger(store, kind, name, tmp_path):
    model = clone(MODELS[name]).set_params(ledger=ledger_of(kind, tmp_path)).fit(X, Y)
    charges = len(model.ledger.history())
    other = store(model)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert str(other.privacy_) == str(model.privacy_)
    assert other.ledger.name == "people"
    for again in (other, clone(other), copy.deepcopy(other), store(other)):
        with pytest.raises(RuntimeError, match=r"'people' stayed where .*open_ledger"):
            again.fit(X, Y)
    assert len(model.ledger.history()) == charges
    other.set_params(ledger=Ledger(1e4, 1e-2))
    if name == "binary":
        other.fit(X, Y)
        assert len(other.ledger.history()) == 1


def test_no_secret_of_a_ledger_goes_along(tmp_path):
    part = ledger_of("part", tmp_path)
    model = LogisticRegression(classes=[-1, 1], n_public=100, ledger=part)
    assert part._coins.key in pickle.dumps(model)
    stored = pickle.dumps(model.fit(X, Y))
    assert part._coins.key not in stored
    assert b"budget.db" not in stored


def test_copies_in_the_process_share_the_ledger():
    ledger = Ledger(1e4, 1e-2)
    model = LogisticRegression(classes=[-1, 1], ledger=ledger).fit(X, Y)
    for other in (clone(model), copy.copy(model), copy.deepcopy(model)):
        assert other.ledger is ledger
    assert copy.deepcopy(model).coef_ is not model.coef_


IN_PROCESSES = {
    "grid": lambda model: GridSearchCV(model, {"l2": [0.0, 0.1]}, n_jobs=2).fit(X, Y),
    "pipeline": lambda model: cross_validate(make_pipeline(Normalizer(), model), X, Y, n_jobs=2),
}


@pytest.mark.parametrize("name", IN_PROCESSES)
@pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
def test_a_ledger_in_memory_goes_to_no_worker(name, uncharged):
    model = LogisticRegression(classes=[-1, 1], ledger=uncharged)
    with pytest.raises(TypeError, match=r"durable ledger, dperm\.accounting\.open_ledger"):
        pickle.dumps(model)
    with pytest.raises(TypeError, match=r"fits in 2 processes, .*open_ledger"):
        IN_PROCESSES[name](model)


@pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
def test_threads_charge_a_ledger_in_memory():
    ledger = Ledger(1e4, 1e-2)
    with joblib.parallel_config("threading"):
        IN_PROCESSES["grid"](LogisticRegression(classes=[-1, 1], ledger=ledger))
    assert len(ledger.history()) == 11
