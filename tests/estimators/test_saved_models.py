"""Saved models give bit-identical predictions; invalid files are refused in one sentence."""

import copy
import json
import math
import os
import pickle
import random

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import dperm
from dperm import (
    Categorical,
    HuberRegressor,
    LinearSVC,
    LogisticRegression,
    Numeric,
    QuantileRegressor,
    Schema,
)
from dperm.accounting import Ledger
from dperm.estimators.storage.format import model_schema
from dperm.losses import Hinge, Power, huberized_hinge

N = 300
RNG = np.random.default_rng(0)
LABELS = np.arange(N) % 3
DENSE = RNG.normal(size=(N, 4)) / 3.0 + LABELS[:, None] / 5.0
TABLE = {
    "age": RNG.integers(0, 90, N),
    "job": np.where(LABELS == 0, "cook", "clerk"),
    "pay": np.where(RNG.random(N) < 0.1, np.nan, RNG.gamma(2.0, 100.0, N)),
    "Größe": RNG.random(N),
}
SCHEMA = Schema(
    [
        Numeric("age", 0, 90, bins=[18, 65.5]),
        Categorical("job", ["cook", "clerk"], unknown="zero"),
        Numeric("pay", 0, 1e4, transform="log1p", missing="column", functions=3, atoms=[0]),
        Numeric("Größe", -1.5, 1.5),
    ],
    name="people",
)
DATA = {
    "dense": (DENSE.astype(np.float32), {"row_norm": 1.5}),
    "sparse": (scipy.sparse.random_array((N, 9), density=0.4, rng=1, format="csr"), {"row_norm": 2.0}),
    "table": (TABLE, {"schema": SCHEMA}),
}
MODELS = {
    "binary": (LogisticRegression(classes=["no", "yes"]), np.where(LABELS > 0, "yes", "no")),
    "classes": (LogisticRegression(classes=[2, 0, 1], solver="noisy_gd"), LABELS),
    "margin": (LinearSVC(classes=[True, False], loss=huberized_hinge(0.5)), LABELS > 0),
    "robust": (HuberRegressor(target_bound=1.0, loss=Power(1.8), fit_intercept=False), LABELS - 1.0),
    "quantile": (QuantileRegressor(target_bound=2.0, solver_options={"steps": np.int64(9)}), LABELS - 1.0),
}


def there_and_back(model, folder):
    path = folder / "model.json"
    model.save(path)
    return dperm.load(path)


def answers(model, X):
    names = ("predict", "decision_function", "predict_proba", "predict_log_proba")
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back(name, data, tmp_path):
    estimator, y = MODELS[name]
    X, settings = DATA[data]
    model = copy.deepcopy(estimator).set_params(ledger=Ledger(10.0, 1e-5), **settings).fit(X, y)
    other = there_and_back(model.set_params(ledger=None), tmp_path)
    assert type(other) is type(model)
    for ask, expected in answers(model, X).items():
        found = answers(other, X)[ask]
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes(), ask
    assert repr(other) == repr(model.set_params(solver_options=other.solver_options))
    assert str(other.privacy_) == str(model.privacy_)
    assert other.privacy_ == model.privacy_
    for fact in ("n_iter_", "n_features_in_", "intercept_", "feature_names_in_"):
        assert np.array_equal(getattr(other, fact, None), getattr(model, fact, None)), fact
    assert (tmp_path / "model.json").read_bytes() == resaved(other, tmp_path)
    assert other.ledger is None
    assert there_and_back(model.set_params(ledger=Ledger(9.0, 1e-5)), tmp_path).ledger.delta == 1e-5
    with pytest.raises(ValueError, match="ledger is required"):
        refit_where_a_ledger_is_required(other, X, y)
    ledger = Ledger(10.0, 1e-5)
    other.set_params(ledger=ledger).fit(X, y)
    assert len(ledger.history()) == 1


def resaved(model, folder):
    model.save(folder / "again.json")
    return (folder / "again.json").read_bytes()


def refit_where_a_ledger_is_required(model, X, y):
    dperm.config(require_ledger=True)
    try:
        model.fit(X, y)
    finally:
        dperm.config(require_ledger=False)


def test_neither_ledger_nor_seed_is_in_the_file(tmp_path):
    ledger = Ledger(1.0, 1e-5, name="n", allow_seeded=True)
    model = LogisticRegression(0.5, classes=[0, 1], ledger=ledger, random_state=918273).fit(DENSE, LABELS > 0)
    model.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    assert "918273" not in text
    parameters = json.loads(text)["parameters"]
    assert not {"ledger", "random_state"} & parameters.keys()


def test_a_loaded_model_knows_its_ledger_and_cannot_charge_it(tmp_path):
    """As after unpickling: fitted again without a ledger, the second fit would not be counted anywhere."""
    terms = {"name": "patients", "neighbors": "replace_one", "slack": 1e-8, "ceiling": 7.0}
    ledger = Ledger(5.0, 1e-5, **terms)
    model = LogisticRegression(0.5, 1e-6, classes=[0, 1], ledger=ledger).fit(DENSE, LABELS % 2)
    other, unpickled = there_and_back(model, tmp_path), pickle.loads(pickle.dumps(model))
    for each in (other, unpickled, there_and_back(other, tmp_path)):
        assert repr(each.ledger) == "ClosedLedger('patients')"
        assert each.ledger._terms == ledger._terms
        with pytest.raises(RuntimeError, match="ledger 'patients' stayed where this model was fitted"):
            each.fit(DENSE, LABELS % 2)
        np.testing.assert_array_equal(each.coef_, model.coef_)
    other.set_params(ledger=ledger).fit(DENSE, LABELS % 2)
    assert len(ledger.history()) == 2


def test_a_flipped_bit_is_found(tmp_path):
    """220 of 1,000 loaded with other coefficients, classes or statement."""
    path = tmp_path / "model.json"
    estimator, y = MODELS["binary"]
    model = copy.deepcopy(estimator).fit(DENSE, y)
    model.save(path)
    intact, pick, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(intact)
        damaged[pick.randrange(len(damaged))] ^= 1 << pick.randrange(8)
        path.write_bytes(damaged)
        try:
            found = dperm.load(path)
        except ValueError:
            refused += 1
        else:  # white space, or a digit beyond the precision of doubles
            assert json.loads(damaged) == json.loads(intact)
            np.testing.assert_array_equal(found.coef_, model.coef_)
    assert refused > 300


@pytest.mark.parametrize("checksum", ["old", "none"])
def test_an_edited_file_is_read_on_request_and_the_statement_says_so(checksum, tmp_path):
    path = tmp_path / "model.json"
    estimator, y = MODELS["binary"]
    copy.deepcopy(estimator).fit(DENSE, y).save(path)
    entries = json.loads(path.read_text())
    entries["privacy"]["epsilon"] = 0.001
    if checksum == "none":
        del entries["checksum"]
    path.write_text(json.dumps(entries))
    with pytest.raises(ValueError, match=r"does not match its checksum.*edited=True"):
        dperm.load(path)
    edited = dperm.load(path, edited=True)
    assert edited.privacy_.epsilon == 0.001
    assert "EDITED: the file of this model" in str(edited.privacy_).replace("\n", " ")
    assert "EDITED" in str(there_and_back(edited, tmp_path).privacy_)


@pytest.mark.parametrize("estimator", [LogisticRegression(1e3, 1e-3, classes=[0, 1]),
                                       HuberRegressor(1e3, 1e-3, threshold=0.5, target_bound=1.0,
                                                      solver_options={"leverage": 2.0})])  # fmt: skip
def test_intervals_come_back(estimator, tmp_path):
    rows = {**TABLE, "job": RNG.choice(["cook", "clerk"], N)}
    model = estimator.set_params(solver="noisy_newton", schema=SCHEMA).fit(rows, LABELS > 0)
    other = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(other.conf_int(0.9), model.conf_int(0.9))
    assert other.summary() == model.summary()


ANY_LABELS = [
    [0, 1],
    [False, True],
    ["a", "ü"],
    np.array([-1.5, 0.5], dtype=np.float32),
    np.array([7, 2**63], dtype=np.uint64),
    np.array(["a", "x"], dtype=object),
]


@pytest.mark.parametrize("labels", ANY_LABELS)
def test_labels_of_every_type(labels, tmp_path):
    labels = np.asarray(labels)
    model = LogisticRegression(classes=[0, 1]).fit(DENSE, LABELS % 2)
    model.classes_, model.pos_label_ = labels, labels.tolist()[1]
    other = there_and_back(model, tmp_path)
    assert (other.classes_.dtype, other.pos_label_) == (labels.dtype, model.pos_label_)
    assert other.predict(DENSE).tolist() == model.predict(DENSE).tolist()


def learned():
    """A model on a schema that was learned."""
    n = 10_000
    table = {
        "age": np.arange(n) % 100.0,
        "job": np.array(["cook", "clerk"] * (n // 2)),
        "y": np.arange(n) % 2,
    }
    schema = Schema.learn(table, epsilon=1.0, delta=1e-6, label="y", kinds={"y": "categorical"})
    table = {name: table[name] for name in ("age", "job")}
    return LogisticRegression(schema=schema, classes=[0, 1]).fit(table, np.arange(n) % 2)


def test_a_learned_schema_comes_back(tmp_path):
    model = learned()
    schema, other = model.schema, there_and_back(model, tmp_path).schema
    assert other.to_text() == schema.to_text()
    assert other.classes == schema.classes
    for fact in ("privacy", "report"):
        assert str(getattr(other, fact)) == str(getattr(schema, fact))


def test_saving(tmp_path):
    path = tmp_path / "model.json"
    model = LogisticRegression(classes=[0, 1], solver="noisy_gd")
    with pytest.raises(NotFittedError):
        model.save(path)
    model.fit(DENSE, LABELS % 2).save(str(path))
    first = path.read_bytes()
    model.set_params(solver_options={"callback": print})
    with pytest.raises(ValueError, match=r"set_params\(solver_options=None\) leaves it out"):
        model.save(path)
    assert path.read_bytes() == first
    model.set_params(solver_options=None).fit(DENSE, LABELS % 2).save(path)
    assert path.read_bytes() != first
    assert os.listdir(tmp_path) == ["model.json"]
    class_weight = {"solver_options": {"weights": {0: 2.0, 1: -math.inf}}}
    assert there_and_back(model.set_params(**class_weight), tmp_path).get_params() == model.get_params()
    # Weights of any size, signed zeros and denormals.
    model.coef_ = np.array([[-0.0, 5e-324, 1.7976931348623157e308, 0.1]])
    assert there_and_back(model, tmp_path).coef_.tobytes() == model.coef_.tobytes()
    for loss in (Hinge(curvature=2.0), huberized_hinge(0.5)):
        svc = LinearSVC(classes=[0, 1], loss=loss).fit(DENSE, LABELS % 2)
        assert there_and_back(svc, tmp_path).loss == loss


def test_the_checker_knows_every_keyword_of_the_schema():
    words = "$schema $defs $ref title description anyOf const enum type properties required items"
    known = {*words.split(), "additionalProperties", "minItems", "minimum", "maximum"}
    rules = [model_schema()]
    while rules:
        rule = rules.pop()
        assert rule.keys() <= known
        assert rule.get("additionalProperties", False) is False
        for key in ("properties", "$defs"):
            rules += rule.get(key, {}).values()
        rules += rule.get("anyOf", [])
        rules += [rule["items"]] if "items" in rule else []


# -- untrusted files -----------------------------------------------------------------------------------

WRONG = [
    None,
    True,
    -1,
    0.5,
    10**400,
    "x",
    "\ud800",
    "inf",
    [],
    {},
    [[1.0]],
    {"$loss": "Softmax"},
    ["a", "a"],
]
TEXTS = {
    "nothing": b"",
    "no JSON": b"PK\x03\x04",
    "not UTF-8": b'{"format": "dperm model\xff"}',
    "half": None,
    "a list": b"[]",
    "another format": b'{"format": "onnx"}',
    "a later format": b'{"format": "dperm model", "format_version": 2, "more": 1}',
    "nested lists": b"[" * 1_000_000,
    "nested objects": b'{"a":' * 100_000,
    "digits": b'{"format": ' + b"9" * 10_000 + b"}",
    "a key twice": b'{"format": "dperm model", "format": "dperm model"}',
    "a NaN": None,
    "infinite": None,
    "half a pair": None,
}


def places(entries, path=()):
    """The paths to everything in nested objects and lists."""
    items = (
        entries.items()
        if isinstance(entries, dict)
        else enumerate(entries)
        if isinstance(entries, list)
        else ()
    )
    for key, each in items:
        yield (*path, key)
        yield from places(each, (*path, key))


def changed(entries, path, change):
    entries = copy.deepcopy(entries)
    inside = entries
    for key in path[:-1]:
        inside = inside[key]
    change(inside, path[-1])
    return entries


def hostile_files(saved):
    """Contents that differ from those of saved models."""
    text = saved[0].decode()
    own = {
        "half": text[: len(text) // 2].encode(),
        "a NaN": text.replace('"row_norm": ', '"row_norm": NaN, "a": ', 1).encode(),
        "infinite": text.replace('"coef": [[', '"coef": [[1e999, ', 1).encode(),
        "half a pair": text.replace('"mechanism": "', '"mechanism": "\\ud800', 1).encode(),
    }
    yield from (own.get(name) or content for name, content in TEXTS.items())
    pick = random.Random(0)
    for each in saved:
        entries = json.loads(each)
        for path in places(entries):
            if len(path) > 1 and pick.random() < 0.85:
                continue
            yield changed(entries, path, lambda inside, key: inside.pop(key))
            wrong = pick.choice(WRONG)
            yield changed(entries, path, lambda inside, key, wrong=wrong: inside.__setitem__(key, wrong))
            if isinstance(path[-1], str):
                yield changed(entries, path, lambda inside, key: inside.__setitem__(f"{key}!", 1))
    column = {"name": "a", "type": "numeric", "low": 0, "high": 1}
    many = [{**column, "name": f"c{i}", "bins": 60_000} for i in range(2000)]
    for columns in ([{**column, "repeat": 10**9}], many, [column] * 10):
        yield {**json.loads(saved[-1]), "schema": {"columns": columns}}


def test_files_of_somebody_else(tmp_path):
    saved = []
    for name, data in (("binary", "dense"), ("margin", "dense"), ("classes", "sparse"), ("robust", "table")):
        X, settings = DATA[data]
        estimator, y = MODELS[name]
        copy.deepcopy(estimator).set_params(**settings).fit(X, y).save(tmp_path / "model.json")
        saved.append((tmp_path / "model.json").read_bytes())
    learned().save(tmp_path / "model.json")
    saved.append((tmp_path / "model.json").read_bytes())
    path, refused = tmp_path / "hostile.json", 0
    for content in hostile_files(saved):
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        model, error = None, None
        try:
            model = dperm.load(path, edited=True)
        except ValueError as caught:
            error = caught
        if error is not None:
            refused += 1
            assert type(error) is ValueError
            assert str(error).startswith(f"{path} is not a model that dperm can read: ")
            assert len(str(error)) < 500
            assert str(error).count("\n") == 0
        else:  # a different but valid model or statement
            assert isinstance(content, dict)
            str(model.privacy_), repr(model), model.privacy_._repr_html_()
            assert np.isfinite(model.coef_).all()
            if model.schema is None:
                model.predict(np.zeros((2, model.n_features_in_)))
            else:
                str(model.schema.privacy), str(model.schema.report), model.coefficients()
    assert refused > 100
    path.write_bytes(saved[0])
    with pytest.raises(ValueError, match=r"has more than 100 bytes"):
        dperm.load(path, max_bytes=100)
    for other in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises((OSError, ValueError), match=str(other)):
            dperm.load(other)
