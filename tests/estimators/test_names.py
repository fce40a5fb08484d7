"""Names decide which column is which, in every representation: the right predictions, or an error."""

import numpy as np
import pytest

import dperm
from dperm import Categorical, LogisticRegression, Numeric, Schema
from dperm.data import TabularMatrix, scan_csv, scan_parquet
from dperm.errors import DataError
from dperm.metrics import evaluate
from dperm.search import PrivateSearch

pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask")
pytest.importorskip("dask.dataframe")

RNG = np.random.default_rng(0)
FEATURES = ["a", "b", "c"]
FRAME = pd.DataFrame(RNG.uniform(-1.0, 1.0, (4000, 3)), columns=FEATURES)
FRAME["label"] = np.where(FRAME.a - 0.3 * FRAME.c > 0, 1, -1)
OTHER_ORDER = FRAME[["label", "c", "b", "a"]]
MODEL = LogisticRegression(epsilon=8.0, delta=1e-6, row_norm=2.0, classes=[-1, 1], random_state=0)
SCHEMA = Schema([Numeric("a", -1, 1), Numeric("b", -1, 1), Numeric("c", -1, 1)])


def parquet(frame, folder):
    frame.to_parquet(folder / "records.parquet")
    return folder / "records.parquet"


def csv(frame, folder):
    frame.to_csv(folder / "records.csv", index=False)
    return folder / "records.csv"


@pytest.fixture(params=[(scan_parquet, parquet), (scan_csv, csv)], ids=["Parquet", "CSV"])
def files(request, tmp_path):
    """A function that makes files of a data frame."""
    scan, write = request.param

    def make(frame, name, **settings):
        (tmp_path / name).mkdir()
        return scan(write(frame, tmp_path / name), label="label", **settings)

    return make


def test_files_in_another_order(files):
    """Predicted, evaluated and scored as the records that they are; also after a search."""
    there, shuffled = files(FRAME, "there"), files(OTHER_ORDER, "shuffled")
    model = MODEL.fit(there)
    assert model.feature_names_in_.tolist() == FEATURES
    expected = model.predict(FRAME[FEATURES])
    assert np.mean(expected == FRAME.label) > 0.9
    assert np.array_equal(model.predict(shuffled), expected)
    assert model.score(shuffled) == np.mean(expected == FRAME.label)
    found = evaluate(model, shuffled, None, np.inf, 1e-6, metrics="accuracy")
    assert found["accuracy"].value == model.score(shuffled)
    searched = PrivateSearch(MODEL, {"l2": [0.0, 1e-3]}, epsilon=8.0, delta=1e-6, random_state=0).fit(there)
    assert np.mean(searched.best_estimator_.predict(shuffled) == FRAME.label) > 0.9


def test_files_with_other_columns(files):
    model = MODEL.fit(files(FRAME, "there"))
    for frame, message in [
        (FRAME.rename(columns={"b": "B"}), "X lacks column 'b' of the model"),
        (FRAME.assign(d=0.0), "does not describe column 'd' of X: scan the files with columns="),
    ]:
        other = files(frame, message[:8])
        for read in (model.predict, model.score, lambda X: evaluate(model, X, None, 1.0, 1e-6)):
            with pytest.raises(DataError, match=message):
                read(other)
    assert model.predict(files(FRAME.assign(d=0.0), "named", columns=FEATURES)).shape == (4000,)


def test_files_of_a_model_fitted_to_a_data_frame(files):
    model = MODEL.fit(FRAME[FEATURES], FRAME.label)
    assert np.array_equal(model.predict(files(OTHER_ORDER, "shuffled")), model.predict(FRAME[FEATURES]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(OTHER_ORDER[["c", "b", "a"]])


WIDER = Schema([Numeric("a", -1, 3), Numeric("b", -1, 1), Numeric("c", -1, 1)])
RENAMED = Schema([Numeric("a", -1, 1, missing="zero"), *SCHEMA.columns[1:]], name="people", ignored=["label"])


@pytest.mark.parametrize("with_schema", [True, False])
def test_records_encoded_by_another_schema(files, with_schema, tmp_path):
    """Of the same layout: only its description tells it apart. Rules for missing values do not matter."""
    own = {"schema": SCHEMA} if with_schema else {"row_norm": SCHEMA.row_norm()}
    model = LogisticRegression(**{**MODEL.get_params(), "row_norm": None, **own})
    model.fit(files(FRAME, "there", schema=SCHEMA))
    model.save(tmp_path / "model.json")
    table = FRAME[FEATURES]
    expected = model.predict(SCHEMA.encode(table))
    assert np.mean(expected == FRAME.label) > 0.9
    for each in (model, dperm.load(tmp_path / "model.json")):
        assert np.array_equal(each.predict(RENAMED.encode(table)), expected)
        for name, X in {
            "table": WIDER.encode(table),
            "files": files(FRAME, f"wide{id(each)}", schema=WIDER),
        }.items():
            with pytest.raises(DataError, match="encoded already, by another schema"):
                each.predict(X)
            y = FRAME.label if name == "table" else None
            with pytest.raises(DataError, match="encoded already, by another schema"):
                evaluate(each, X, y, 1.0, 1e-6)
        with pytest.raises(DataError, match="scanned without a schema"):
            each.predict(files(FRAME, f"bare{id(each)}"))
        by_hand = TabularMatrix(table.to_numpy(), np.zeros((4000, 0), np.uint8), _bare(SCHEMA.layout))
        assert each.predict(by_hand).shape == (4000,)  # who encodes by hand answers for the columns


def _bare(layout):
    return dperm.data.TabularLayout(layout.numeric_columns, layout.first_columns, layout.sizes)


def test_what_an_encoding_is():
    """Names, bounds, bins and categories, in their order; nothing that leaves encoded records as they are."""
    base = [Numeric("a", 0, 1), Categorical("b", ["x", "y"])]
    same = [Numeric("a", 0.0, 1.0, missing=0.5), Categorical("b", ["x", "y"], unknown="zero", missing="x")]
    assert Schema(base).encoding == Schema(same, name="other", ignored=["c"]).encoding
    others = [
        base[::-1],
        [Numeric("a", 0, 2), base[1]],
        [Numeric("A", 0, 1), base[1]],
        [Numeric("a", 0, 1, transform="log1p"), base[1]],
        [base[0], Categorical("b", ["y", "x"])],
        [base[0], Categorical("B", ["x", "y"])],
    ]
    assert len({Schema(base).encoding, *(Schema(each).encoding for each in others)}) == len(others) + 1


@pytest.mark.slow
def test_dask_frames_in_another_order_are_refused_as_data_frames_are(client):
    model = MODEL.fit(FRAME[FEATURES], FRAME.label)
    lazy = dask.dataframe.from_pandas(FRAME, npartitions=3)
    assert np.array_equal(model.predict(lazy[FEATURES]).compute(), model.predict(FRAME[FEATURES]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(lazy[["c", "b", "a"]]).compute()
