"""What a model says of a record depends on that record alone: not on where it stands among how many."""

import numpy as np
import pytest
import scipy.sparse

from dperm import Categorical, HuberRegressor, LogisticRegression, Numeric, Schema

N, D = 1201, 203
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) / np.sqrt(D)
SCHEMA = Schema([*(Numeric(f"x{j}", -9, 9) for j in range(9)), Categorical("c", ["a", "b"])])


def table():
    import pandas as pd

    frame = pd.DataFrame(3.0 * RNG.normal(size=(N, 9)), columns=SCHEMA.column_names[:9])
    return SCHEMA.encode(frame.assign(c=RNG.choice(["a", "b"], N)))


DATA = {
    "double": lambda: X,
    "single": lambda: X.astype(np.float32),
    "by columns": lambda: np.asfortranarray(X),
    "strided": lambda: np.repeat(X, 2, axis=1)[:, ::2],
    "sparse": lambda: scipy.sparse.random_array((N, D), density=0.2, rng=1, format="csr"),
    "table": table,
}
MODELS = {
    "binary": LogisticRegression(1.0, 1e-6, classes=[0, 1], solver="noisy_gd"),
    "three classes": LogisticRegression(1.0, 1e-6, classes=[0, 1, 2], solver="noisy_gd"),
    "regression": HuberRegressor(1.0, 1e-6, target_bound=2.0, solver="noisy_gd"),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", MODELS)
def test_position_does_not_matter(data, name):
    rows, model = DATA[data](), MODELS[name]
    model.set_params(row_norm=1.0 if data != "table" else 2.0, random_state=0)
    y = np.arange(N) % len(model.classes) if name != "regression" else X[:, 0]
    model.fit(rows, y)
    asks = [
        getattr(model, each)
        for each in ("predict", "decision_function", "predict_proba")
        if hasattr(model, each)
    ]
    for ask in asks:
        whole = ask(rows)
        for first in (1, 2, 3, N - 1):
            assert np.array_equal(ask(rows[first:]), whole[first:])
        for last in (1, 2, 3, 1023):
            assert np.array_equal(ask(rows[:last]), whole[:last])
