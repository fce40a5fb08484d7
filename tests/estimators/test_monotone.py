"""``monotone=`` of numeric columns: curves that do not turn round, the nearest to those released."""

import numpy as np
import pytest
from scipy.optimize import minimize

import dperm
from dperm import Categorical, Interaction, Numeric, Schema

pytestmark = pytest.mark.filterwarnings(
    "ignore::dperm.errors.SeededNoiseWarning", "ignore::dperm.errors.ExactSizeWarning"
)

N = 4000
RNG = np.random.default_rng(0)
TABLE = {
    "age": RNG.uniform(10, 100, N),
    "gain": np.where(RNG.random(N) < 0.5, 0.0, RNG.gamma(2.0, 3000.0, N)),
    "debt": np.where(RNG.random(N) < 0.4, 0.0, RNG.normal(0.0, 40.0, N)),
    "rooms": np.where(RNG.random(N) < 0.1, np.nan, RNG.uniform(0, 10, N)),
}
# Each of them turns round.
SCORE = np.abs(TABLE["age"] - 60) / 20 - np.abs(TABLE["gain"] - 5e3) / 4e3 + np.cos(TABLE["debt"] / 30)
SCORE += np.sin(np.nan_to_num(TABLE["rooms"], nan=5.0))
LABELS = SCORE + RNG.normal(0, 0.5, N) > 0.5
WAYS = {"age": 1, "gain": -1, "debt": 1, "rooms": -1}


def schema(ways=WAYS, **functions):
    own = {name: {"monotone": way} for name, way in ways.items()}
    return Schema(
        [
            Numeric("age", 17, 90, **own.get("age", {}), **functions),
            Numeric("gain", 0, 1e5, "log1p", **own.get("gain", {})),
            Numeric("debt", -100, 100, **own.get("debt", {})),
            Numeric("rooms", 0, 10, bins=8, missing="column", **own.get("rooms", {})),
        ]
    )


def rows_along(column):
    """A record that is missing nothing, with all values of a column."""
    edges = [] if column.borders == () else [*column.borders, *np.nextafter(column.borders, column.low)]
    span = column.high - column.low
    ends = np.linspace(column.low - span / 9, column.high + span / 9, 3000)
    values = np.unique([*ends, *edges, *column.atoms, *np.nextafter(column.atoms, np.inf), 1e-9])
    record = {"age": 40.0, "gain": 5.0, "debt": 3.0, "rooms": 4.0}
    return {name: np.full(len(values), value) for name, value in record.items()} | {column.name: values}


@pytest.mark.parametrize(("kind", "functions"), [("classes", {"functions": 5}), ("targets", {})])
def test_predictions_are_monotone(kind, functions, tmp_path):
    make, y = (dperm.LogisticRegression, LABELS) if kind == "classes" else (dperm.HuberRegressor, SCORE)
    own = {"classes": [False, True]} if kind == "classes" else {"target_bound": 10.0}
    models = {
        name: make(2.0, 1e-6, schema=schema(ways, **functions), additive=True, random_state=0, **own).fit(
            TABLE, y
        )
        for name, ways in {"free": {}, "monotone": WAYS}.items()
    }

    def steps(model, column):
        rows = rows_along(column)
        scores = model.decision_function(rows) if kind == "classes" else model.predict(rows)
        return WAYS[column.name] * np.diff(scores)

    for column in models["monotone"].schema_.columns:
        assert column.bins is not None or column.functions
        assert steps(models["free"], column).min() < -1e-3
        rising = steps(models["monotone"], column)
        assert rising.min() >= -1e-12
        assert rising.sum() > 0.05
    assert "age rises, gain falls" in models["monotone"].privacy_.public["monotone"]
    models["monotone"].save(tmp_path / "m.json")
    loaded = dperm.load(tmp_path / "m.json")
    np.testing.assert_array_equal(loaded.predict(TABLE), models["monotone"].predict(TABLE))


def test_weights_are_the_nearest_to_those_released():
    own = {"functions": 3, "edges": [-30, 0, 10, 50], "atoms": [0, 100], "missing": "column"}
    table = {"debt": np.where(TABLE["debt"] > 90, np.nan, TABLE["debt"])}
    columns = [Numeric("debt", -100, 100, monotone=way, **own) for way in (0, 1)]
    models = [
        dperm.LogisticRegression(2.0, 1e-6, schema=Schema([each]), classes=[0, 1], random_state=0).fit(
            table, LABELS
        )
        for each in columns
    ]
    edges = np.array(own["edges"])
    ends = [np.nextafter(edges, -1e9), np.nextafter([0.0, 100.0], [1.0, 0.0])]
    values = np.unique(np.concatenate([[-100, 100], edges, *ends]))
    rows = Schema(columns[:1]).encode({"debt": values}, "float64").to_dense()[:, :-1]
    rows = np.column_stack([rows, np.ones(len(rows))])
    released, found = (np.append(each.coef_[0, :-1], each.intercept_) for each in models)

    def distance(weights):
        return float(np.square(rows @ (weights - released)).sum())

    rising = {"type": "ineq", "fun": lambda weights: np.diff(rows @ weights)}
    best = minimize(
        distance, np.zeros(rows.shape[1]), constraints=rising, method="SLSQP", options={"ftol": 1e-12}
    )
    assert best.fun > 1e-3
    assert distance(found) == pytest.approx(best.fun, rel=1e-4)
    lost = [each.decision_function({"debt": [np.nan]}) for each in models]
    np.testing.assert_allclose(*lost, atol=1e-9)  # a missing value stays where it is


AGE = Numeric("age", 17, 90, monotone=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numeric("age", 17, 90, monotone="rising"), "monotone must be 1, -1 or 0"),
        (lambda: Schema([AGE, Categorical("job", ["a"]), Interaction("age", "job")]), "could undo"),
        (lambda: fit(classes=[0, 1, 2]), "one class against the others"),
        (lambda: fit(solver="noisy_newton"), "standard errors"),
        (lambda: fit(row_norm=9.0, additive=True), "leave row_norm to the schema"),
    ],
)  # fmt: skip
def test_refused_before_the_charge(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def fit(**settings):
    ledger = dperm.accounting.Ledger(2.0, 1e-6)
    own = {"classes": [0, 1], "schema": Schema([AGE]), "ledger": ledger, "n_public": N} | settings
    try:
        dperm.LogisticRegression(1.0, 1e-6, **own).fit({"age": TABLE["age"]}, LABELS.astype(int))
    finally:
        assert ledger.charged.units == 0
