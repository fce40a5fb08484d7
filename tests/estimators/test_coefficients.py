"""Tables of weights as data frames."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dperm import Categorical, HuberRegressor, LogisticRegression, Numeric, Schema

pd = pytest.importorskip("pandas")

SCHEMA = Schema(
    [Numeric("age", 0, 100), Categorical("sex", ["f", "m"]), Numeric("pay", 0, 9, bins=[3.0, 6.0])]
)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"age": RNG.uniform(0, 100, 60), "sex": RNG.choice(["f", "m"], 60), "pay": RNG.uniform(0, 9, 60)}
)
Y = RNG.choice([0, 1], 60)


def test_rows_are_columns_and_categories_of_the_schema():
    model = LogisticRegression(classes=[0, 1], schema=SCHEMA, random_state=0).fit(FRAME, Y)
    table = model.coefficients()
    assert table["column"].tolist() == ["age", "sex", "sex", "pay", "pay", "pay", "(intercept)"]
    categories = [None, "f", "m", "pay<3", "3<=pay<6", "pay>=6", None]
    assert [None if pd.isna(each) else each for each in table["category"]] == categories
    np.testing.assert_array_equal(table["coefficient"][:-1], model.coef_[0])
    assert table["coefficient"].iloc[-1] == model.intercept_[0]
    assert SCHEMA.get_feature_names_out().tolist() == list(SCHEMA.feature_names)
    with pytest.raises(ValueError, match="input_features must be"):
        SCHEMA.get_feature_names_out(["age"])


def test_several_classes_have_a_column_each():
    labels = RNG.choice(["a", "b", "c"], 60)
    model = LogisticRegression(classes=["a", "b", "c"], random_state=0).fit(FRAME[["age", "pay"]], labels)
    table = model.coefficients()
    assert table.columns.tolist() == ["column", "category", "a", "b", "c"]
    assert table["column"].tolist() == ["age", "pay", "(intercept)"]
    np.testing.assert_array_equal(table[["a", "b", "c"]].to_numpy()[:-1], model.coef_.T)


def test_arrays_have_numbered_columns_and_regressors_one_number_each():
    X = FRAME[["age", "pay"]].to_numpy()
    model = HuberRegressor(target_bound=1.0, fit_intercept=False, row_norm=100.0, random_state=0).fit(
        X, 1.0 * Y
    )
    table = model.coefficients()
    assert table["column"].tolist() == ["x0", "x1"]
    np.testing.assert_array_equal(table["coefficient"], model.coef_)


def test_without_a_model_or_a_library_it_says_so(monkeypatch):
    with pytest.raises(NotFittedError):
        LogisticRegression().coefficients()
    model = LogisticRegression(classes=[0, 1], schema=SCHEMA, random_state=0).fit(FRAME, Y)
    monkeypatch.setitem(sys.modules, "pandas", None)
    polars = pytest.importorskip("polars")
    assert isinstance(model.coefficients(), polars.DataFrame)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install pandas, or polars"):
        model.coefficients()


def test_classes_called_like_columns_of_the_table_keep_apart():
    labels = np.array(["column", "category", "c"])[np.arange(60) % 3]
    X = np.ascontiguousarray(np.random.default_rng(0).uniform(size=(60, 2)))
    model = LogisticRegression(classes=["column", "category", "c"], row_norm=2.0, random_state=0).fit(
        X, labels
    )
    table = model.coefficients()
    assert list(table) == ["column", "category", "c", "class category", "class column"]
    assert list(table["column"]) == ["x0", "x1", "(intercept)"]


@pytest.mark.parametrize("reference", [None, {"sex": "m", "pay": "3<=pay<6"}])
@pytest.mark.parametrize("labels", [[0, 1], ["a", "b", "c"]])
def test_effects_add_up_to_the_scores(reference, labels):
    """Of each record, whatever the reference; and they are ranked."""
    schema = Schema([*SCHEMA.columns[:1], Categorical("sex", ["f", "m"], unknown="zero"), SCHEMA.columns[2],
                     Numeric("year", "1990-01-01", "2030-01-01", missing="column", unit="year")])  # fmt: skip
    frame = FRAME.assign(year=[2001, 1985, 2040, None] * 15, sex=RNG.choice(["f", "m", "x"], 60))
    frame["year"] = [None if pd.isna(each) else f"{each:.0f}-05-05" for each in frame["year"]]
    model = LogisticRegression(classes=labels, schema=schema, random_state=0)
    model.fit(frame, RNG.choice(labels, 60))
    table = model.effects(reference)
    several = len(labels) > 2
    numbers = table[labels if several else ["effect"]].to_numpy()
    rows = {(column, None if pd.isna(level) else level): effects for column, level, effects in
            zip(table["column"], table["category"], numbers, strict=True)}  # fmt: skip
    for record, scores in zip(frame.to_dict("records"), model.decision_function(frame), strict=True):
        total = rows["(intercept)", None] + record["age"] * rows["age", None]
        total = total + rows["sex", record["sex"] if record["sex"] != "x" else "(others)"]
        edge = sum(record["pay"] >= each for each in (3, 6))
        total = total + rows["pay", ["pay<3", "3<=pay<6", "pay>=6"][edge]]
        if pd.isna(record["year"]):
            total = total + rows["year", "missing"]
        else:
            total = total + (np.clip(int(record["year"][:4]), 1990, 2030) - 1990) * rows["year", None]
        np.testing.assert_allclose(total, scores, rtol=1e-5, atol=1e-9)
    changes = dict(zip(table["column"], table["change"], strict=True))
    assert (changes["age"], changes["sex"]) == (
        "+1",
        "from m" if reference else "from the mean of the levels",
    )
    assert "+1 year" in set(table["change"])
    if reference is None:
        levels = [rows["pay", each] for each in ("pay<3", "3<=pay<6", "pay>=6")]
        np.testing.assert_allclose(sum(levels), 0.0, atol=1e-12)
    else:
        assert not rows["sex", "m"].any()
    if not several:
        np.testing.assert_allclose(table["odds_ratio"], np.exp(table["effect"]))
        assert table["category"].tolist()[-2] == "(others)"
        sizes = np.abs(table["over_range"][:-2])
        assert (np.diff(sizes) <= 0).all()
        per_year = table[table["change"] == "+1 year"]
        np.testing.assert_allclose(per_year["over_range"], 40 * per_year["effect"])
    with pytest.raises(ValueError, match="'x' is no level of column 'sex'"):
        model.effects({"sex": "x"})
