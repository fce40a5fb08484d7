"""A fit from an installed copy; run as a script, without pytest."""

import sys
import tempfile
import warnings

import numpy as np

import dperm

X = np.random.default_rng(0).normal(size=(2000, 5)) / 5
y = np.where(X[:, 0] > 0, 1, 0)
model = dperm.LogisticRegression(epsilon=2.0, delta=1e-5, row_norm=1.5, classes=[0, 1], n_public=len(y))
with warnings.catch_warnings():
    warnings.simplefilter("error")
    model.fit(X, y)
assert model.score(X, y) > 0.8, model.score(X, y)
assert model.privacy_.private
with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model.json")
    assert (dperm.load(f"{folder}/model.json").predict(X) == model.predict(X)).all()
print("ok", sys.version.split()[0], dperm.build_info()["instruction_set"])
