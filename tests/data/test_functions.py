"""Functions of numbers: their values, their norm, what they give in a fit, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dperm
from dperm import Categorical, Interaction, Numeric, Schema
from dperm.data import scan_parquet
from dperm.data.schema.numeric import function_map
from dperm.estimators.standard_errors import reference_levels

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


CROSSED = [
    Interaction("age", "gain", functions=2),
    Interaction("job", "age"),
    Interaction("job", "shift"),
    Interaction("shift", "since", functions=3),
]
SHIFT = Numeric("shift", 0, 24, bins=[6, 18], missing="column")
TOGETHER = Schema([*SCHEMA.columns, SHIFT, *CROSSED])
WITH_SHIFT = TABLE.assign(shift=np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(0, 24, N)))


def pieces(column, functions=0):
    """What a column brings to an interaction, by the description of `Interaction`, to 24 bits."""
    values = WITH_SHIFT[column.name]
    if isinstance(column, Categorical):
        return np.array([values == each for each in column.categories], dtype=float).T
    if column.bins is not None:
        return Schema([column]).encode(WITH_SHIFT[[column.name]]).to_dense()
    if column.unit:
        values = (values - pd.Timestamp("2020-01-01")).dt.days + column.low
    values, edges = np.asarray(values, dtype=float), np.array(column.borders)
    step = math.ceil((len(edges) + 1) / 32)
    edges = edges[step - 1 :: step]
    functions = min(functions, len(edges))
    middles = (np.arange(len(edges) + 1) + 0.5) / (len(edges) + 1)
    waves = np.cos(np.pi * np.outer(middles, range(1, functions + 1)))
    waves /= np.sqrt(np.square(waves).sum(axis=1).max())
    places = np.searchsorted(edges, np.nan_to_num(values), side="right")
    return np.where(np.isnan(values)[:, None], 0.0, waves[places])


def test_interactions_are_products_of_what_both_columns_are():
    known = {column.name: column for column in TOGETHER.columns}
    dense = TOGETHER.encode(WITH_SHIFT).to_dense()
    alone = Schema(TOGETHER.columns).n_columns
    np.testing.assert_array_equal(dense[:, :alone], Schema(TOGETHER.columns).encode(WITH_SHIFT).to_dense())
    for each in CROSSED:
        one, other = (pieces(known[name], each.functions) for name in (each.first, each.second))
        expected = np.einsum("ni,nj->nij", one, other).reshape(N, -1)
        width = expected.shape[1]
        np.testing.assert_allclose(dense[:, alone : alone + width], expected, atol=2.0**-22)
        assert np.square(dense[:, alone : alone + width]).sum(axis=1).max() <= 1.0
        alone += width
    assert alone == TOGETHER.n_columns == len(TOGETHER.feature_names)
    assert TOGETHER.row_norm(False) ** 2 == pytest.approx(SCHEMA.row_norm(False) ** 2 + 1 + len(CROSSED))
    assert "job=cook & 6<=shift<18" in TOGETHER.feature_names
    assert "age~1 & gain~2" in TOGETHER.feature_names


@pytest.mark.filterwarnings("ignore::dperm.errors.SeededNoiseWarning")
def test_interactions_in_models_and_formats(tmp_path):
    assert Schema.from_text(TOGETHER.to_text()) == Schema.from_entries(TOGETHER.to_entries()) == TOGETHER
    assert Schema([*SCHEMA.columns, SHIFT], interactions=CROSSED) == TOGETHER
    assert Schema(TOGETHER.columns).encoding != TOGETHER.encoding
    assert "Interactions: age &amp; gain" in TOGETHER._repr_html_()
    model = fitted(WITH_SHIFT, schema=TOGETHER)
    assert np.array_equal(model.coef_, fitted(TOGETHER.encode(WITH_SHIFT).to_dense()).coef_)
    model.save(tmp_path / "m.json")
    loaded = dperm.load(tmp_path / "m.json")
    assert np.array_equal(loaded.predict_proba(WITH_SHIFT), model.predict_proba(WITH_SHIFT))
    effects = {row[0]: row for row in zip(*model.effect_values().values(), strict=True) if row[1] is None}
    whole = fitted(WITH_SHIFT, schema=TOGETHER, row_norm=None)
    told = whole.contributions(WITH_SHIFT)
    assert {"age", "age & gain", "job & shift", "(intercept)"} <= told.keys()
    np.testing.assert_allclose(sum(told.values()), whole.decision_function(WITH_SHIFT), atol=1e-12)
    place = TOGETHER.feature_names.index("job=cook & shift<6")
    cells = model.coef_[0, place : place + 8]
    assert effects["job & shift"][2:4] == ("lowest to highest point", pytest.approx(np.ptp(cells)))


@pytest.mark.parametrize(
    ("interaction", "message"),
    [
        (lambda: Interaction("age", "age"), "of two columns"),
        (lambda: Interaction("age", "job", functions=0), "functions must be an integer of at least 1"),
        (lambda: Schema([*SCHEMA.columns, Interaction("age", "pay")]), "describes no column 'pay'"),
        (
            lambda: Schema(
                [Categorical("a", buckets=300), Categorical("b", buckets=300), Interaction("a", "b")]
            ),
            "300 x 300 levels .* too many",
        ),
        (lambda: Schema([*SCHEMA.columns, CROSSED[0], Interaction("gain", "age")]), "is given twice"),
        (
            lambda: Schema(
                [Categorical(f"c{j}", buckets=250) for j in range(9)],
                interactions=[Interaction(f"c{j}", f"c{k}") for j in range(9) for k in range(j)],
            ),
            "more than 1,000,000 features",
        ),
    ],
)
def test_wrong_interactions_are_refused(interaction, message):
    with pytest.raises(ValueError, match=message):
        interaction()


@pytest.mark.parametrize("own", [{}, {"functions": 2, "edges": [20, 50, 70]}])
def test_what_follows_from_the_columns_alone_is_a_reference(own):
    columns = [Categorical("a", list("xyz")), Categorical("b", list("uv")), Numeric("age", 0, 100, **own)]
    schema = Schema(columns, interactions=[Interaction("a", "b"), Interaction("age", "b", functions=2)])
    table = {"a": RNG.choice(list("xyz"), N), "b": RNG.choice(list("uv"), N), "age": RNG.uniform(0, 100, N)}
    dense = np.column_stack([schema.encode(table, "float64").to_dense(), np.ones(N)])
    kept = np.delete(dense, reference_levels(schema, fit_intercept=True), axis=1)
    assert np.linalg.matrix_rank(kept) == np.linalg.matrix_rank(dense) == kept.shape[1]
