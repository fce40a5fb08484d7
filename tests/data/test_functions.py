"""Functions of numbers: their values, their norm, what they give in a fit, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dperm
from dperm import Categorical, Numeric, Schema
from dperm.data import scan_parquet
from dperm.data.schema.numeric import function_map

N = 600
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(15, 95, N).astype(float),
        "gain": np.where(RNG.random(N) < 0.7, 0.0, RNG.gamma(1.0, 3000.0, N)),
        "since": pd.to_datetime("2020-01-01") + pd.to_timedelta(RNG.integers(0, 2000, N), "D"),
        "job": RNG.choice(["cook", "clerk"], N),
    }
)
TABLE.loc[::7, "gain"] = np.nan
LABELS = np.abs(TABLE["age"].to_numpy() - 50) < 20
SCHEMA = Schema(
    [
        Numeric("age", 17, 90, functions=4),
        Numeric("gain", 0, 1e5, "log1p", functions=3, edges=[1e3, 3e3, 1e4], atoms=[0], missing="column"),
        Numeric("since", "2020-01-01", "2024-01-01", unit="day", functions=1, edges=["2021-01-01"]),
        Categorical("job", ["cook", "clerk"]),
    ]
)  # fmt: skip


@given(st.integers(2, 80), st.data())
@settings(max_examples=30, deadline=None)
def test_the_squares_of_a_bin_sum_to_at_most_one_exactly(n_bins, data):
    functions = data.draw(st.integers(1, min(n_bins - 1, 20)))
    table = function_map(n_bins, functions).rows[:-1].astype(np.float64)
    norms = [sum(Fraction(entry) ** 2 for entry in row) for row in table.tolist()]
    assert 1 - Fraction(1, 10**6) < max(norms) <= 1
    assert all(Fraction(math.fsum(entry * entry for entry in row)) <= 1 for row in table.tolist())
    # Orthogonal, as the eigenvectors of the Laplacian of a path are.
    products = table.T @ table
    np.testing.assert_allclose(products, products[0, 0] * np.eye(functions), atol=1e-6 * n_bins)


def test_names_and_norm():
    assert SCHEMA.feature_names[5:11] == ("gain", "gain~1", "gain~2", "gain~3", "gain=0", "gain=missing")
    assert SCHEMA.row_norm() ** 2 == pytest.approx(2 + 2 + 2 + 1 + 1)


def test_equal_bins_are_the_default():
    edges = [100 * (i / 255) for i in range(1, 255)]
    given, default = Numeric("x", 0, 100, functions=5, edges=edges), Numeric("x", 0, 100, functions=5)
    assert Schema([given]).encoding == Schema([default]).encoding
    values = {"x": np.linspace(-5, 105, 500)}
    assert np.array_equal(*(Schema([each]).encode(values).to_dense() for each in (given, default)))


def test_every_setting_changes_the_encoding():
    columns = [
        Numeric("x", 0, 100),
        Numeric("x", 0, 100, functions=2),
        Numeric("x", 0, 100, functions=3),
        Numeric("x", 0, 100, functions=2, edges=[30, 50]),
        Numeric("x", 0, 100, functions=2, edges=[30, 60]),
        Numeric("x", 0, 100, functions=2, edges=[30, 60], atoms=[0]),
        Numeric("x", 0, 100, atoms=[0]),
        Numeric("x", 0, 100, atoms=[100]),
    ]
    assert len({Schema([each]).encoding for each in columns}) == len(columns)


def fitted(records, **settings):
    options = {"classes": [False, True], "random_state": 0, "n_public": N, "row_norm": 2.0} | settings
    return dperm.LogisticRegression(2.0, 1e-6, **options).fit(records, LABELS)


@pytest.mark.filterwarnings("ignore::dperm.errors.SeededNoiseWarning")
def test_a_fit_is_that_of_the_dense_matrix(tmp_path):
    with_schema = fitted(TABLE, schema=SCHEMA)
    dense = fitted(SCHEMA.encode(TABLE).to_dense())
    assert np.array_equal(with_schema.coef_, dense.coef_)
    TABLE.assign(y=LABELS).to_parquet(tmp_path / "t.parquet")
    files = scan_parquet(tmp_path / "t.parquet", label="y", schema=SCHEMA, chunk_rows=100)
    streamed = dperm.LogisticRegression(
        2.0, 1e-6, schema=SCHEMA, classes=[False, True], random_state=0, n_public=N, row_norm=2.0
    ).fit(files)
    np.testing.assert_allclose(streamed.coef_, dense.coef_, atol=1e-9)


@pytest.mark.filterwarnings("ignore::dperm.errors.SeededNoiseWarning")
def test_effects_are_those_of_the_curve():
    model = fitted(TABLE, schema=SCHEMA)
    effects = {(row[0], row[1]): row for row in zip(*model.effect_values().values(), strict=True)}

    def scores(age=(17.0,), gain=0.0, job="cook"):
        n = len(age)
        record = {"age": age, "gain": [gain] * n, "since": ["2020-01-01"] * n, "job": [job] * n}
        return SCHEMA.encode(record, "float64") @ model.coef_.ravel() + model.intercept_[0]

    ages = scores(np.linspace(17, 90, 20_000))
    assert effects["age", None][2] == "lowest to highest point"
    assert effects["age", None][3] == pytest.approx(np.ptp(ages), rel=1e-3)
    lowest, near = scores()[0], scores(gain=np.nextafter(0, 1))[0]
    assert effects["gain", "0"][3] == pytest.approx(lowest - near)
    assert effects["gain", "missing"][3] == pytest.approx(scores(gain=math.nan)[0] - lowest)
    assert effects["(intercept)", None][3] == pytest.approx((lowest + scores(job="clerk")[0]) / 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"functions": -1}, "functions must be an integer of at least 0"),
        ({"functions": True}, "functions must be an integer of at least 0"),
        ({"functions": 3, "edges": [1, 2]}, "functions must be fewer than its 3 bins"),
        ({"functions": 1, "edges": [2, 1]}, "must ascend strictly"),
        ({"functions": 1, "edges": [0, 1]}, "must ascend strictly"),
        ({"functions": 1, "edges": 5}, "edges must be a list"),
        ({"edges": [1, 2]}, "give functions as well"),
        ({"functions": 1, "bins": 4}, "cannot be given with"),
        ({"atoms": [0], "bins": 4}, "cannot be given with"),
        ({"atoms": [11]}, "atoms must be at most"),
        ({"atoms": [math.nan]}, "atoms must be at most"),
        ({"atoms": [1, 1.0]}, "atoms must be at most"),
        ({"atoms": 0}, "atoms must be a list"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=f"column 'x'.*{message}"):
        Numeric("x", 0, 10, **settings)
