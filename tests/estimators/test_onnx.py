"""ONNX graphs give the predictions of the models in another runtime."""

import json

import numpy as np
import pytest

from dperm import (
    Categorical,
    HuberRegressor,
    Interaction,
    LinearSVC,
    LogisticRegression,
    Numeric,
    QuantileRegressor,
    Schema,
)

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

N = 500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype(np.float32)
LABELS = np.arange(N) % 3
TABLE = {
    "age": RNG.integers(-5, 100, N).astype(np.float64),
    "size": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
    "pay": np.where(RNG.random(N) < 0.2, np.nan, 150.0 * RNG.integers(0, 3, N)),
    "Größe": np.where(RNG.random(N) < 0.2, np.nan, RNG.random(N)),
    "bin": np.where(RNG.random(N) < 0.2, np.nan, RNG.random(N)),
    "job": RNG.choice(["cook", "clerk", "astronaut"], N),
    "code": RNG.choice([3, 5, 8], N),
    "own": RNG.random(N) < 0.5,
}
SCHEMA = Schema(
    [
        Numeric("age", 0, 90, bins=[18, 65.5]),
        Numeric("size", -1, 1, missing=0.25, functions=3),
        Numeric("pay", 0, 1e3, "log1p", missing="column", functions=2, edges=[50, 200, 400], atoms=[0, 150]),
        Numeric("Größe", 0.0, 0.5, missing="zero"),
        Numeric("bin", 0, 1, bins=4, missing="column"),
        Categorical("job", ["cook", "clerk"], unknown="zero"),
        Categorical("code", [3, 5], unknown=5),
        Categorical("own", [False, True]),
        Interaction("size", "pay", functions=2),
        Interaction("Größe", "job", functions=2),
        Interaction("bin", "own"),
    ]
)
MODELS = {
    "binary": (LogisticRegression(classes=["no", "yes"]), np.where(LABELS > 0, "yes", "no")),
    "classes": (LogisticRegression(classes=[2, 0, 1], solver="noisy_gd"), LABELS),
    "margin": (LinearSVC(classes=[True, False], fit_intercept=False), LABELS > 0),
    "robust": (HuberRegressor(target_bound=1.0), LABELS - 1.0),
    "quantile": (QuantileRegressor(target_bound=1.0), LABELS - 1.0),
}
ASKED = {
    "variable": lambda model, rows: model.predict(rows)[:, None],
    "scores": lambda model, rows: model.decision_function(rows),
    "probabilities": lambda model, rows: model.predict_proba(rows),
}


def found(model, feed, dtype):
    graph = model.to_onnx(dtype)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    stated = json.loads(session.get_modelmeta().custom_metadata_map["privacy"])
    assert stated == model.privacy_.to_dict()
    return dict(zip((each.name for each in session.get_outputs()), session.run(None, feed), strict=True))


def fed(table, dtype):
    return {name: (cells.astype(dtype) if cells.dtype.kind == "f" else
                   cells.astype(object) if cells.dtype.kind == "U" else cells)[:, None]
            for name, cells in table.items()}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_the_graph_predicts_the_same(name, dtype):
    estimator, y = MODELS[name]
    rounded = {
        name: cells.astype(dtype) if cells.dtype.kind == "f" else cells for name, cells in TABLE.items()
    }
    for rows, feed, settings in (
        (X, {"X": X.astype(dtype)}, {"row_norm": 1.5, "schema": None}),
        (rounded, fed(TABLE, dtype), {"row_norm": None, "schema": SCHEMA}),
    ):
        model = estimator.set_params(**settings).fit(rows, y)
        outputs = found(model, feed, dtype)
        rtol = 1e-12 if dtype == "float64" else 1e-6
        for output in outputs.keys() - {"label"}:
            np.testing.assert_allclose(outputs[output], ASKED[output](model, rows), rtol=rtol, atol=rtol)
        if "label" in outputs:
            assert outputs["label"].tolist() == model.predict(rows).tolist()
    assert len(outputs) == (1 if name in ("robust", "quantile") else 2)


def test_what_the_schema_refuses_is_not_a_number():
    schema = Schema([Numeric("age", 0, 90), Categorical("job", ["cook", "clerk"])])
    table = {name: TABLE[name] for name in ("age", "job")}
    known = {"age": np.clip(table["age"], 0, 90), "job": np.where(table["job"] == "cook", "cook", "clerk")}
    model = LogisticRegression(classes=[0, 1], schema=schema).fit(known, LABELS > 0)
    cells = {"age": np.array([np.nan, 3.0, 4.0]), "job": np.array(["cook", "astronaut", "clerk"])}
    outputs = found(model, fed(cells, "float32"), "float32")
    assert np.isnan(outputs["probabilities"]).all(axis=1).tolist() == [True, True, False]


def test_refusals(monkeypatch):
    model = LogisticRegression(classes=[0, 1]).fit(X, LABELS > 0)
    with pytest.raises(ValueError, match="dtype must be one of float32, float64"):
        model.to_onnx("float16")
    model.classes_ = np.array(["x", 3], dtype=object)
    with pytest.raises(ValueError, match="no type for the labels"):
        model.to_onnx()
    schema = Schema([Numeric("label", 0, 1)])
    model = HuberRegressor(target_bound=1.0, schema=schema).fit({"label": RNG.random(9)}, np.zeros(9))
    with pytest.raises(ValueError, match="a column cannot be called 'label'"):
        model.to_onnx()
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'dperm\[onnx\]'"):
        model.to_onnx()
