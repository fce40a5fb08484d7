"""Evaluations in files: a loaded one prints and plots the same, and invalid files are refused."""

import copy
import json
import math

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from dperm.errors import DataError
from dperm.metrics import Evaluation, evaluate

mpl.use("Agg")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 2))
LABELS = np.array(["<b>", "no", "maybe"])
TARGETS = X @ [1.0, -2.0] + RNG.normal(size=len(X))


def evaluated(kind, epsilon):
    if kind == "regression":
        bounds = {"mae": 5.0, "mse": 25.0}
        model = LinearRegression().fit(X, TARGETS)
        return evaluate(model, X, TARGETS, epsilon, 1e-6, loss_bound=bounds, random_state=0)
    y = (X[:, 0] > 0) * 1 + (X[:, 0] > 1) * (kind == "classes")
    y = LABELS[y] if kind == "classes" else y
    return evaluate(LogisticRegression().fit(X, y), X, y, epsilon, 1e-6, random_state=0)


@pytest.mark.parametrize("kind", ["labels", "classes", "regression"])
@pytest.mark.parametrize("epsilon", [0.001, 1.0, math.inf])
def test_what_is_loaded_is_what_was_saved(tmp_path, kind, epsilon):
    found = evaluated(kind, epsilon)
    found.save(tmp_path / "evaluation.json")
    loaded = Evaluation.load(tmp_path / "evaluation.json")
    assert str(loaded) == str(found)
    assert loaded._repr_html_() == found._repr_html_()
    assert loaded.to_text() == found.to_text()
    assert loaded.privacy == found.privacy
    drawn = [[line.get_xydata().tolist() for ax in each.plot().axes_ for line in ax.lines]
             for each in (loaded, found)]  # fmt: skip
    np.testing.assert_equal(*drawn)
    mpl.pyplot.close("all")


def damaged(content):
    """Contents that are not an evaluation."""
    whole = json.loads(content)

    def changed(*path, to):
        other = copy.deepcopy(whole)
        part = other
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to
        return json.dumps(other)

    curve = ["metrics", "roc_curve"]
    yield from ["", "[]", "null", "{}", content[:-20], "[" * 100_000, '{"format": NaN}']
    yield changed("version", to=2)
    yield changed("more", to=1)
    yield changed("metrics", to={})
    yield changed("metrics", "__class__", to=whole["metrics"]["accuracy"])
    yield changed("metrics", "mae", to=whole["metrics"]["accuracy"])
    yield changed("metrics", "accuracy", "value", to="0.9")
    yield changed("metrics", "accuracy", "value", to=True)
    yield changed("metrics", "accuracy", "value", to=10**400)
    yield changed("metrics", "accuracy", "note", to=["a"])
    yield changed("metrics", "accuracy", to=1)
    yield changed("metrics", "confusion_matrix", "value", to=[[1, 2]])
    yield changed("metrics", "confusion_matrix", "low", to=[[1, 2], [3, [4]]])
    yield changed(*curve, "value", "fpr", to=[0.0])
    yield changed(*curve, "value", to={"fpr": []})
    yield changed(*curve, "low", to=[["a"]])
    yield changed("classes", to=None)
    yield changed("classes", to=[0])
    yield changed("classes", to=[0, "1"])
    yield changed("classes", to=[0, 0])
    yield changed("classes", to=[{}, {}])
    yield changed("n_records", to={})
    yield changed("privacy", to=[])
    yield changed("privacy", "epsilon", to=-1)
    yield changed("privacy", "epsilon", to="much")
    yield changed("privacy", "mechanism", to={"a": 1})
    yield changed("privacy", "steps", to="many")
    yield changed("privacy", "notes", to=[1])
    yield changed("privacy", "unknown", to=1)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "evaluation.json"
    for content in damaged(evaluated("labels", 1.0).to_text()):
        path.write_text(content)
        with pytest.raises(DataError, match="is no evaluation"):
            Evaluation.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError):
        Evaluation.load(path)
    with pytest.raises(DataError, match="is not a file"):
        Evaluation.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Evaluation.load(tmp_path / "nowhere.json")
