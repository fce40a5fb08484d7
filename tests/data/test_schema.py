"""Schemas encode records one by one, within known bounds, and alike from data frames of all libraries."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dperm
from dperm import Categorical, Numeric, Schema
from dperm.data import TabularMatrix
from dperm.errors import DataError, PrivacyWarning

ANY_FLOAT = st.floats(allow_nan=False, width=64)
BOUND = st.floats(-1e6, 1e6)


@st.composite
def numerics(draw, name):
    low = draw(st.one_of(st.integers(-(10**6), 10**6), BOUND))
    high = low + draw(st.one_of(st.integers(1, 10**6), st.floats(1e-3, 1e6)))
    transform = draw(st.sampled_from(["none", "log1p"]))
    bins = draw(st.one_of(st.none(), st.integers(2, 300), st.lists(st.floats(0.01, 0.99), min_size=1)))
    if isinstance(bins, list):
        bins = sorted({low + share * (high - low) for share in bins})
    middle = low + (high - low) / 2
    missing = draw(st.sampled_from(["error", "zero", "column", low, high, middle]))
    if isinstance(bins, list) and draw(st.booleans()):
        atoms = draw(st.lists(st.sampled_from([low, middle, high]), unique=True))
        functions = draw(st.integers(1, len(bins)))
        return Numeric(
            name, low, high, transform, None, missing, functions=functions, edges=bins, atoms=atoms
        )
    return Numeric(name, low, high, transform, bins, missing)


@st.composite
def categoricals(draw, name):
    kind = draw(st.sampled_from([st.text(max_size=4), st.integers(-(2**53), 2**53), st.booleans()]))
    categories = draw(st.lists(kind, min_size=1, max_size=12, unique=True))
    rules = st.sampled_from(["error", "zero", *categories])
    return Categorical(name, categories, draw(rules), draw(rules))


@st.composite
def schemas(draw):
    names = draw(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=6, unique=True))
    columns = [draw(st.one_of(numerics(name), categoricals(name))) for name in names]
    ignored = draw(
        st.lists(st.text(max_size=3).filter(lambda each: each not in names), unique=True, max_size=2)
    )
    try:
        return Schema(columns, draw(st.text(max_size=5)), ignored)
    except ValueError:  # two columns may happen to give the same feature name
        return Schema(columns[:1])


def cells_for(draw, column, n):
    """Values for the column, occasionally missing, unknown or out of bounds."""
    if isinstance(column, Numeric):
        values = st.one_of(ANY_FLOAT, st.floats(float(column.low), float(column.high)))
    else:
        other = {str: st.text(max_size=5), int: st.integers(-(2**53), 2**53), bool: st.booleans()}
        known = st.sampled_from(column.categories)
        kind = other[type(column.categories[0])]
        values = known if column.unknown == "error" else st.one_of(known, kind)
    if column.missing != "error":
        values = st.one_of(values, st.none())
    return draw(st.lists(values, min_size=n, max_size=n))


@st.composite
def schemas_and_tables(draw):
    schema = draw(schemas())
    n = draw(st.integers(1, 5))
    return schema, {column.name: cells_for(draw, column, n) for column in schema.columns}


def as_array(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def arrays(table):
    return {name: as_array(values) for name, values in table.items()}


def expected_row(schema, record):
    """The encoding of one record in plain Python, entry by entry."""
    row = []
    for column, cell in zip(schema.columns, record, strict=True):
        if isinstance(column, Categorical):
            rule = column.missing if cell is None else column.unknown
            cell = rule if cell is None or cell not in column.categories else cell
            row += [float(cell != "zero" and cell == category) for category in column.categories]
            continue
        width = len(column.feature_names)
        if cell is None and isinstance(column.missing, str):
            own = [1.0] if column.missing == "column" else []
            row += [0.0] * (width - len(own)) + own
            continue
        value = min(max(float(column.missing if cell is None else cell), column.low), column.high)
        if column.bins is None:
            span = column.high - column.low
            entries = [(value - column.low) / span]
            if column.transform == "log1p":
                entries = [min(math.log1p(value - column.low) / math.log1p(span), 1.0)]
            entries += [float(value not in column.atoms) * each for each in functions_at(column, value)]
            entries += [float(value == atom) for atom in column.atoms]
        else:
            place = sum(border <= value for border in column.borders)
            entries = [float(place == each) for each in range(len(column.borders) + 1)]
        row += entries + [0.0] * (width - len(entries))
    return row


def has_functions(schema):
    return any(getattr(column, "functions", 0) for column in schema.columns)


def functions_at(column, value):
    """The functions of a value, to 24 bits."""
    count, n_bins = column.functions, len(column.borders) + 1
    waves = [[math.cos(math.pi * k * (b + 0.5) / n_bins) for k in range(1, count + 1)] for b in range(n_bins)]
    longest = max(sum(each * each for each in row) for row in waves)
    return [each / math.sqrt(longest) for each in waves[sum(edge <= value for edge in column.borders)]]


class TestEncoding:
    @given(schemas_and_tables())
    @settings(max_examples=100, deadline=None)
    def test_rows_are_what_the_description_says(self, drawn):
        schema, table = drawn
        X = schema.encode(arrays(table), "float64")
        expected = [expected_row(schema, record) for record in zip(*table.values(), strict=True)]
        curves = ["~" in name for name in schema.feature_names]
        tolerance = np.where(curves, 2.0**-23, 1e-15) + 1e-12 * np.abs(expected)
        assert np.all(np.abs(X.to_dense() - expected) <= tolerance)
        assert X.shape == (len(expected), schema.n_columns)
        assert len(schema.feature_names) == schema.n_columns

    @given(schemas_and_tables(), st.sampled_from(["float32", "float64", "uint8", "uint16"]))
    @settings(max_examples=50, deadline=None)
    def test_the_row_norm_bounds_every_row_to_the_last_bit(self, drawn, dtype):
        schema, table = drawn
        dense = schema.encode(arrays(table), dtype).to_dense()
        assert dense.min() >= (-1.0 if has_functions(schema) else 0.0)
        assert dense.max() <= 1.0
        for row in dense:
            total = 0.0  # in floating point, as a kernel may sum
            for entry in row:
                total += entry * entry
            assert math.sqrt(total) <= schema.row_norm(fit_intercept=False)
            assert math.sqrt(total + 1.0) <= schema.row_norm()

    @given(schemas(), st.sampled_from(["float32", "float64", "uint8", "uint16"]))
    @settings(max_examples=50, deadline=None)
    def test_a_record_attains_the_row_norm(self, schema, dtype):
        record = {
            column.name: as_array([column.high if isinstance(column, Numeric) else column.categories[0]])
            for column in schema.columns
        }
        (row,) = schema.encode(record, dtype).to_dense()
        assert math.sqrt(1.0 + row @ row) == pytest.approx(schema.row_norm(), rel=1e-6)

    @given(schemas_and_tables())
    @settings(max_examples=50, deadline=None)
    def test_a_row_depends_on_its_own_record_alone(self, drawn):
        schema, table = drawn
        whole = schema.encode(arrays(table)).to_dense()
        for i, row in enumerate(whole):
            alone = schema.encode({name: as_array([cells[i]]) for name, cells in table.items()})
            np.testing.assert_array_equal(alone.to_dense()[0], row)

    @pytest.mark.parametrize(("dtype", "levels"), [("uint8", 255), ("uint16", 65_535)])
    def test_integers_are_the_nearest_public_levels(self, dtype, levels):
        schema = Schema([Numeric("a", -3, 5), Numeric("b", 0, 1e6, "log1p")])
        table = np.column_stack([np.linspace(-4, 6, 1001), np.logspace(-1, 7, 1001)])
        exact, coarse = schema.encode(table, "float64").to_dense(), schema.encode(table, dtype)
        assert coarse.numeric.dtype == dtype
        np.testing.assert_array_equal(coarse.numeric, np.rint(exact * levels))
        assert coarse.to_dense().max() == 1.0
        assert np.abs(coarse.to_dense() - exact).max() <= 0.5 / levels * (1 + 1e-9)

    @pytest.mark.parametrize("high", [1, 3, 10, 99_999, 693_375_640, 1e15])
    @pytest.mark.parametrize("n", [1, 7, 64])
    def test_log1p_never_exceeds_one(self, high, n):
        X = Schema([Numeric("a", 0, high, "log1p")]).encode(np.full((n, 1), float(high)), "float64")
        assert X.to_dense().max() == 1.0

    def test_values_outside_the_bounds_move_onto_them(self):
        cells = {"a": [-math.inf, 9, 10, 15, 20, 1e9, math.inf]}
        dense = Schema([Numeric("a", 10, 20)]).encode(cells).to_dense()
        assert dense[:, 0].tolist() == [0, 0, 0, 0.5, 1, 1, 1]

    def test_bins_of_equal_width_on_the_transformed_scale(self):
        assert Numeric("a", 0, 10, bins=4).borders == (2.5, 5.0, 7.5)
        assert Numeric("a", 0, 999, "log1p", bins=3).borders == pytest.approx((9, 99))

    def test_a_value_on_a_border_belongs_to_the_bin_above(self):
        schema = Schema([Numeric("a", 0, 10, bins=[2, 5])])
        assert schema.feature_names == ("a<2", "2<=a<5", "a>=5")
        assert schema.encode({"a": [0, 1.99, 2, 4, 5, 10]}).codes[:, 0].tolist() == [0, 0, 1, 1, 2, 2]

    def test_many_categories_take_codes_of_16_bits(self):
        for size, dtype in [(255, np.uint8), (256, np.uint16), (1000, np.uint16)]:
            schema = Schema([Categorical("c", range(size), unknown="zero")])
            X = schema.encode({"c": np.array([0, size - 1, size])})
            assert X.codes.dtype == dtype
            assert X.codes[:, 0].tolist() == [0, size - 1, size]

    def test_blocks_join_without_a_seam(self, monkeypatch):
        rng = np.random.default_rng(0)
        schema = Schema([Numeric("a", -1, 1), Categorical("c", list("pqr")), Numeric("b", -1, 1, bins=5)])
        table = {"a": rng.normal(size=50), "b": rng.normal(size=50), "c": rng.choice(list("pqr"), 50)}
        whole = schema.encode(table).to_dense()
        monkeypatch.setattr("dperm.data.schema.encoding._BLOCK_ROWS", 7)
        np.testing.assert_array_equal(schema.encode(table).to_dense(), whole)

    def test_no_records(self):
        schema = Schema([Numeric("a", 0, 1), Categorical("c", ["x"])])
        assert schema.encode(pd.DataFrame({"a": [], "c": []})).shape == (0, 2)

    def test_the_data_are_not_changed(self):
        values = np.array([-5.0, 0.5, np.nan])
        Schema([Numeric("a", 0, 1, missing=1)]).encode({"a": values})
        np.testing.assert_array_equal(values, [-5.0, 0.5, np.nan])


MIXED = Schema(
    [
        Numeric("number", 0, 10, missing="column"),
        Numeric("whole", -5, 5, bins=[0, 2], missing="zero"),
        Categorical("text", ["a", "b", "ü"], unknown="zero", missing="b"),
        Categorical("code", [3, -1, 7], unknown=7, missing="zero"),
        Categorical("yes", [False, True], missing=True),
        Numeric("flag", 0, 1),
    ],
    ignored=["id"],
)
MIXED_TABLE = {
    "number": [1.5, None, 20.0, 3.25],
    "whole": [1, 4, None, -9],
    "text": ["ü", None, "zz", "a"],
    "code": [7, 3, 5, -1],
    "yes": [True, False, True, True],
    "flag": [False, True, True, False],
}


def frames():
    pandas = pd.DataFrame(
        {name: pd.Series(values, index=[9, 9, 1, 5]) for name, values in MIXED_TABLE.items()}
    )
    polars, arrow = pl.DataFrame(MIXED_TABLE), pa.table(MIXED_TABLE)
    dictionary = arrow["text"].dictionary_encode()
    return {
        "dictionary of arrays": arrays(MIXED_TABLE),
        "dictionary of lists": MIXED_TABLE,
        "array": np.array(list(zip(*MIXED_TABLE.values(), strict=True)), dtype=object),
        "pandas": pandas,
        "pandas objects": pandas.astype(object),
        "pandas nullable": pandas.convert_dtypes(),
        "pandas arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas category": pandas.astype({"text": "category", "code": "category"}),
        "polars": polars,
        "polars category": polars.with_columns(pl.col("text").cast(pl.Categorical)),
        "polars enum": polars.with_columns(pl.col("text").cast(pl.Enum(["zz", "ü", "a"]))),
        "polars decimal": polars.with_columns(pl.col("number").cast(pl.Decimal(6, 2))),
        "arrow": arrow,
        "arrow chunks": pa.concat_tables([arrow.slice(0, 3), arrow.slice(3)]),
        "arrow dictionary": arrow.set_column(arrow.schema.get_field_index("text"), "text", dictionary),
    }


@pytest.mark.parametrize("kind", sorted(frames()))
def test_frames_of_all_libraries_agree(kind):
    table = frames()[kind]
    expected = [expected_row(MIXED, record) for record in zip(*MIXED_TABLE.values(), strict=True)]
    np.testing.assert_array_equal(MIXED.encode(table, "float64").to_dense(), expected)
    if not isinstance(table, np.ndarray | dict | pa.Table):
        reordered = table[list(reversed(table.columns))]
        np.testing.assert_array_equal(MIXED.encode(reordered, "float64").to_dense(), expected)


def test_nan_in_a_float_column_of_categories_is_missing():
    frame = pd.DataFrame({"c": [3.0, np.nan, 4.0]})
    codes = Schema([Categorical("c", [3, 4], missing="zero")]).encode(frame).codes
    assert codes[:, 0].tolist() == [0, 2, 1]


KINDS = {
    "text": ["1", "2", "1", None],
    "bytes": [b"1", b"2", b"1", None],
    "whole numbers": [1, 2, 1, None],
    "some whole numbers": ["1", "2", *["1"] * 200, 2, None],
}


def columns_of(cells):
    yield "objects", {"k": as_array(cells)}
    yield "pandas objects", pd.DataFrame({"k": pd.Series(cells, dtype=object)})
    yield "pandas category", pd.DataFrame({"k": pd.Categorical(as_array(cells))})
    if len({type(cell) for cell in cells}) == 2:
        yield "pandas", pd.DataFrame({"k": cells}).convert_dtypes()
        yield "polars", pl.DataFrame({"k": cells})
        yield "arrow", pa.table({"k": cells})
        yield "arrow dictionary", pa.table({"k": pa.array(cells).dictionary_encode()})
        if isinstance(cells[0], str):
            yield "arrow views", pa.table({"k": pa.array(cells, pa.string_view())})


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("categories", [["1", "2"], [1, 2]])
def test_cells_of_another_kind_than_the_categories_are_an_error(kind, categories):
    schema = Schema([Categorical("k", categories, unknown="zero", missing="zero")])
    fits = {"text": str, "whole numbers": int}.get(kind) is type(categories[0])
    for library, table in columns_of(KINDS[kind]):
        if fits:
            assert schema.encode(table).codes[:, 0].tolist() == [0, 1, 0, 2], library
        else:
            with pytest.raises(DataError, match=r"'k' holds .* but its categories .* are of type"):
                schema.encode(table)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_whole_numbers_are_compared_as_such(data):
    """Near 2**53, 2**63 and 2**64, where neighbours have the same double."""
    whole = st.sampled_from([0, 2**24, 2**53, 2**63, 2**64]).flatmap(
        lambda middle: st.integers(middle - 3, middle + 3)
    )
    whole = st.one_of(whole, whole.map(lambda each: -each))
    categories = data.draw(st.lists(whole, min_size=1, max_size=8, unique=True))
    schema = Schema([Categorical("k", categories, unknown="zero", missing="zero")])
    for dtype in (np.int8, np.int64, np.uint64, np.float32, np.float64):
        fitting = st.one_of(st.sampled_from(categories), whole)
        if np.dtype(dtype).kind == "f":
            cells = np.array(data.draw(st.lists(fitting, min_size=1, max_size=8)), dtype=object).astype(dtype)
            drawn = [int(cell) for cell in cells]
        else:
            limits = np.iinfo(dtype)
            drawn = data.draw(st.lists(fitting, min_size=1, max_size=8))
            drawn = [min(max(each, limits.min), limits.max) for each in drawn]
            cells = np.array(drawn, dtype)
        places = {category: place for place, category in enumerate(categories)}
        expected = [places.get(each, len(categories)) for each in drawn]
        assert schema.encode({"k": cells}).codes[:, 0].tolist() == expected
        if np.dtype(dtype).kind != "f":
            for frame in (pl.DataFrame, pa.table):
                gaps = frame({"k": pa.array([*drawn, None], pa.from_numpy_dtype(dtype))})
                assert schema.encode(gaps).codes[:, 0].tolist() == [*expected, len(categories)]


class TestTableErrors:
    @pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table, dict])
    @pytest.mark.parametrize(
        ("column", "cells", "message"),
        [
            (Numeric("a", 0, 1), [0.5, None], r"'a' has a missing value at row 1: fill it, .*'column'"),
            (Numeric("a", 0, 1), ["0.5", "?"], r"'a' is numeric in the schema and holds .* \(row 0: '0.5'\)"),
            (Categorical("a", ["x", "y"]), ["x", "q"], r"'a' holds 'q' at row 1, which is not one of its 2"),
            (
                Categorical("a", ["x", "y"]),
                ["x", None],
                r"'a' has a missing value at row 1.*'zero' or a",
            ),
            (Categorical("a", ["x", "y"], unknown="x"), ["z", None], "missing value at row 1"),
            (Categorical("a", ["x", "y"], missing="x"), [None, "z"], "holds 'z' at row 1"),
            (Categorical("a", ["1", "2"]), [1, 2], r"'a' holds .*nt64, but its categories .* of type str"),
            (Categorical("a", [1, 2]), [1, 3], "'a' holds 3 at row 1"),
        ],
    )
    def test_cells(self, library, column, cells, message):
        with pytest.raises(DataError, match=message):
            Schema([column]).encode(library({"a": cells}))

    def test_objects_in_a_numeric_column(self):
        schema = Schema([Numeric("a", 0, 1)])
        with pytest.raises(DataError, match=r"holds text \(row 2: 'x'\)"):
            schema.encode(pd.DataFrame({"a": [0.5, 1, "x"]}, dtype=object))
        with pytest.raises(DataError, match="holds other objects"):
            schema.encode({"a": as_array([0.5, [1, 2]])})
        with pytest.raises(DataError, match=r"holds .*[dD]ate"):
            schema.encode(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}))
        with pytest.raises(DataError, match="lists or other objects"):
            Schema([Categorical("a", ["x"])]).encode({"a": as_array([["x"], ["y"]])})

    @pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table, dict])
    def test_columns(self, library):
        schema = Schema([Numeric("a", 0, 1), Numeric("b", 0, 1)], ignored=["id"])
        good = {"a": [0.5], "b": [1.0], "id": [3]}
        assert schema.encode(library(good)).shape == (1, 2)
        with pytest.raises(DataError, match="the table lacks column 'b' of the schema; it has column 'a'"):
            schema.encode(library({"a": [0.5]}))
        with pytest.raises(DataError, match="does not describe column 'income' of the table: drop"):
            schema.encode(library({**good, "income": [1]}))

    def test_two_columns_of_the_same_name(self):
        frame = pd.DataFrame([[0.5, 0.5]], columns=["a", "a"])
        with pytest.raises(DataError, match="two columns of the table have the same name"):
            Schema([Numeric("a", 0, 1)]).encode(frame)

    def test_arrays_have_one_column_for_each(self):
        schema = Schema([Numeric("a", 0, 1), Numeric("b", 0, 1)])
        with pytest.raises(DataError, match=r"shape \(n, 2\), got shape \(4, 3\)"):
            schema.encode(np.zeros((4, 3)))
        with pytest.raises(DataError, match=r"got shape \(4,\)"):
            schema.encode(np.zeros(4))

    def test_columns_of_different_lengths(self):
        with pytest.raises(DataError, match="column 'b' has 1 cells, column 'a' has 2"):
            Schema([Numeric("a", 0, 1), Numeric("b", 0, 1)]).encode({"a": [0, 1], "b": [0]})

    def test_not_a_table(self):
        schema = Schema([Numeric("a", 0, 1)])
        with pytest.raises(TypeError, match=r"expected a data frame .*, got list$"):
            schema.encode([[1.0]])
        with pytest.raises(TypeError, match="got LazyFrame: collect it first"):
            schema.encode(pl.LazyFrame({"a": [1.0]}))

    def test_numeric_dtype(self):
        with pytest.raises(ValueError, match="numeric_dtype must be one of float32"):
            Schema([Numeric("a", 0, 1)]).encode({"a": [1.0]}, "int64")


class TestDescriptions:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("", 0, 1), "name of a column must be a nonempty string"),
            (("a", 1, 1), "low < high"),
            (("a", 2, 1), "low < high"),
            (("a", -1.7e308, 1.7e308), "a finite distance apart"),
            (("a", 0, math.inf), "high must be finite"),
            (("a", math.nan, 1), "low must be finite"),
            (("a", 0, 10**400), "high must be finite"),
            (("a", "0", 1), "low must be a real number, got '0'"),
            (("a", True, 2), "low must be a real number"),
            (("a", 0, 1, "sqrt"), "transform must be one of"),
            (("a", 0, 1, "none", 1), "bins must be at least 2"),
            (("a", 0, 1, "none", 2.5), "an integer or a list of borders"),
            (("a", 0, 1, "none", "ab"), "an integer or a list of borders"),
            (("a", 0, 1, "none", []), "an integer or a list of borders"),
            (("a", 0, 1, "none", [0, 0.5]), "ascend strictly between 0 and 1"),
            (("a", 0, 1, "none", [0.5, 0.5]), "ascend strictly"),
            (("a", 0, 1, "none", None, "mean"), "missing must be 'error', 'zero', 'column' or a number"),
            (("a", 0, 1, "none", None, 2), "missing = 2 must lie between the bounds"),
        ],
    )
    def test_bad_numbers(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            Numeric(*arguments)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("c", []), "between 1 and 65535 categories"),
            (("c", range(65_536)), "between 1 and 65535 categories"),
            (("c", ["x", "x"]), "twice"),
            (("c", "xy"), "must be a list"),
            (("c", ["x", 1]), "all str, all int or all bool"),
            (("c", [1.5]), r"got \['float'\]"),
            (("c", ["x"], "z"), "unknown = 'z' must be 'error', 'zero' or one of"),
            (("c", ["x"], "x", "z"), "missing = 'z' must be"),
        ],
    )
    def test_bad_categories(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            Categorical(*arguments)

    def test_bad_schemas(self):
        a = Numeric("a", 0, 1)
        with pytest.raises(ValueError, match="no columns"):
            Schema([])
        with pytest.raises(ValueError, match="must be Numeric, Categorical or Interaction, got 'a'"):
            Schema(["a"])
        with pytest.raises(ValueError, match="names a column twice: 'a'"):
            Schema([a, Numeric("a", 0, 2)])
        with pytest.raises(ValueError, match="names a column twice: 'a'"):
            Schema([a], ignored=["a"])
        with pytest.raises(ValueError, match="names two features alike: 'a=x'"):
            Schema([Numeric("a=x", 0, 1), Categorical("a", ["x"])])

    def test_immutable_and_picklable(self):
        with pytest.raises(AttributeError):
            MIXED.columns[0].high = 11
        copy = pickle.loads(pickle.dumps(MIXED))
        assert copy == MIXED
        assert hash(copy) == hash(MIXED)
        assert copy.digest == MIXED.digest != Schema(MIXED.columns[:2]).digest


class TestText:
    @given(schemas())
    @settings(max_examples=100, deadline=None)
    def test_round_trip(self, schema):
        again = Schema.from_text(schema.to_text())
        assert again == schema
        assert again.digest == schema.digest

    def test_files(self, tmp_path):
        MIXED.to_toml(tmp_path / "mixed.toml")
        assert Schema.from_toml(tmp_path / "mixed.toml") == MIXED
        assert Schema.from_toml(str(tmp_path / "mixed.toml")) == MIXED

    @pytest.mark.parametrize("text", ['"', "\\", "\n\t", "\x7f", "é ☃ 🎈", "]] # x", "\x00\x1f", "'''"])
    def test_awkward_texts(self, text):
        schema = Schema(
            [Categorical(text, [text, text + "2"], unknown=text)], name=text, ignored=[text + "3"]
        )
        assert Schema.from_text(schema.to_text()) == schema

    def test_long_lists_take_several_lines(self):
        schema = Schema([Categorical("c", [f"category number {i}" for i in range(40)])])
        assert max(map(len, schema.to_text().splitlines())) <= 110
        assert Schema.from_text(schema.to_text()) == schema

    def test_repeat_stands_for_numbered_columns(self):
        text = '[[columns]]\nname = "pixel"\ntype = "numeric"\nlow = 0\nhigh = 255\nrepeat = 3\n'
        schema = Schema.from_text(text)
        assert schema.column_names == ("pixel0", "pixel1", "pixel2")
        assert schema.columns[2] == Numeric("pixel2", 0, 255)

    def test_a_column_may_take_one_line_and_its_type_be_told_by_its_keys(self):
        text = """columns = [
            { name = "age", low = 17, high = 90 },
            { name = "colour", categories = ["red", "green"], unknown = "zero" },
        ]"""
        schema = Schema.from_text(text)
        assert schema == Schema([Numeric("age", 17, 90), Categorical("colour", ["red", "green"], "zero")])
        assert Schema.from_text(schema.to_text()) == schema

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("low = 0", "", r"column 'a': entries missing: \['low'\]"),
            ("low = 0", "low = 3", "low < high"),
            ("low = 0", 'low = "zero"', "must be a real number"),
            ("low = 0", "low = 0\nlwo = 0", r"unknown: \['lwo'\]"),
            ("low = 0", "low = ", "the schema is not TOML"),
            ("low = 0", "low = 0\nrepeat = 0", "repeat must be an integer from 1"),
            ('type = "numeric"\nlow = 0\nhigh = 1', "", "type must be 'numeric' or 'categorical', got None"),
            ('type = "numeric"', 'type = "text"', "got 'text'"),
            ('name = "a"', "name = 3", "name of a column must be a nonempty string"),
            ("[[columns]]", "[columns]", r"an array of tables \[\[columns\]\]"),
            ("[[columns]]", "[[column]]", r"an array of tables \[\[columns\]\]"),
            ("[[columns]]", "what = 1\n[[columns]]", "unknown entries: what"),
            ("[[columns]]", "name = 1\n[[columns]]", "name must be a string"),
        ],
    )
    def test_bad_texts(self, old, new, message):
        text = '[[columns]]\nname = "a"\ntype = "numeric"\nlow = 0\nhigh = 1\n'
        assert Schema.from_text(text).n_columns == 1
        with pytest.raises(ValueError, match=message):
            Schema.from_text(text.replace(old, new))


PEOPLE = {
    "age": [17, 90, 34],
    "share": [0.123, 0.456, None],
    "colour": ["red", "blue", None],
    "yes": [True, False, True],
}


class TestTemplate:
    @pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table, dict])
    def test_bounds_are_wider_than_the_data(self, library):
        with pytest.warns(PrivacyWarning, match="read from the data and is a draft"):
            schema = Schema.template(library(PEOPLE), name="draft")
        assert schema.columns[0] == Numeric("age", 10, 90)
        assert schema.columns[1] == Numeric("share", 0.1, 0.5, missing="column")
        assert schema.columns[2] == Categorical("colour", ["blue", "red"], missing="zero")
        assert schema.columns[3] == Categorical("yes", [False, True])
        assert schema.name == "draft"
        assert schema.encode(library(PEOPLE)).shape == (3, 7)
        assert Schema.from_text(schema.to_text()) == schema

    def test_what_cannot_be_described_is_ignored_and_named(self):
        frame = pd.DataFrame({"id": [f"person {i}" for i in range(201)], "a": 3.0, "none": None})
        with pytest.warns(PrivacyWarning, match="No description fits 'id', 'none': ignored"):
            schema = Schema.template(frame)
        assert schema.ignored == ("id", "none")
        assert isinstance(schema.encode(frame), TabularMatrix)

    @given(
        st.one_of(
            st.lists(st.floats(-1e9, 1e9), min_size=1),
            st.lists(st.floats(-8e307, 8e307), min_size=1),
            st.floats(-1e300, 1e300).map(lambda value: [value, math.nextafter(value, math.inf)]),
        )
    )
    @settings(max_examples=200, deadline=None)
    def test_no_value_is_cut_off(self, values):
        with pytest.warns(PrivacyWarning):
            schema = Schema.template({"a": np.array(values), "b": ["text"] * len(values)})
        if schema.ignored:  # a bound beyond the values would be infinite
            assert max(values) - min(values) > 1e307 or max(values) > 4e307
            return
        column = schema.columns[0]
        assert column.low <= min(values)
        assert max(values) <= column.high

    def test_numbers_at_a_distance_that_is_no_number(self):
        with pytest.warns(PrivacyWarning, match="No description fits 'a': ignored"):
            schema = Schema.template({"a": np.array([-1e308, 1e308]), "b": np.array([1.0, 2.0])})
        assert schema.column_names == ("b",)
        with pytest.raises(DataError, match=r"none of the table's columns \['a', 'c'\] can be described"):
            Schema.template({"a": np.array([-1e308, 1e308]), "c": [None, None]})

    def test_the_label_is_no_feature(self):
        n = 40
        frame = pd.DataFrame(
            {"age": np.arange(n) % 7 + 0.5, "grade": np.arange(n) % 3, "pay": np.arange(n) * 2.5}
        )
        frame.loc[:3, "pay"] = math.nan
        with pytest.warns(PrivacyWarning):
            classes, amounts = (Schema.template(frame, label=name) for name in ("grade", "pay"))
        assert (classes.label, classes.classes) == (Categorical("grade", [0, 1, 2]), (0, 1, 2))
        assert classes.column_names == ("age", "pay")
        assert amounts.label == Numeric("pay", 10, 100)  # without a rule for missing ones
        assert amounts.target_bounds == (10, 100)
        for schema in (classes, amounts):
            read = Schema.from_text(schema.to_text())
            assert (read, read.label, read.draft) == (schema, schema.label, True)
            assert (
                schema.encode(frame.assign(pay=1.0)).n_columns == schema.n_columns
            )  # the label may be there
        with pytest.raises(
            DataError, match="no column 'wage' to predict; the columns are 'age', 'grade', 'pay'"
        ):
            Schema.template(frame, label="wage")
        with pytest.raises(
            ValueError, match="'pay' is the label, for which missing and unknown must be 'error'"
        ):
            Schema([Numeric("age", 0, 9), Numeric("pay", 0, 9, missing="zero")], label="pay")

    def test_columns_of_no_use_are_marked(self):
        n = 40
        columns = {
            "row": np.arange(n) + 7,
            "key": np.random.default_rng(0).permutation(n) * 3,
            "same": np.ones(n),
            "age": np.arange(n) % 30,
            "name": [f"person {i}" for i in range(n)],
            "share": np.random.default_rng(0).random(n),
        }
        with pytest.warns(PrivacyWarning, match="'row' is numbered like rows: an identifier"):
            text = Schema.template(columns).to_text()
        marked = {
            line.split('"')[1]: line.partition("  # ")[2] for line in text.splitlines() if "  # " in line
        }
        assert marked == {
            "row": "numbered like rows: an identifier? Then list it as ignored.",
            "key": "different in every record: an identifier? Then list it as ignored.",
            "name": "different in every record: an identifier? Then list it as ignored.",
            "same": "the same in every record: of no use as a feature.",
        }
        assert "person 7" in text  # a remark changes nothing

    def test_a_draft_says_so_in_its_file(self, tmp_path):
        with pytest.warns(PrivacyWarning):
            schema = Schema.template(PEOPLE)
        schema.to_toml(tmp_path / "draft.toml")
        text = (tmp_path / "draft.toml").read_text()
        assert text.startswith("# DRAFT, read from the data: NOT private until it was checked.")
        assert Schema.from_toml(tmp_path / "draft.toml").to_text() == text  # until those lines are deleted
        checked = Schema.from_text("".join(line for line in text.splitlines(True) if line[0] != "#"))
        assert checked == schema
        assert checked.digest == schema.digest
        assert text.endswith(checked.to_text())
        assert not checked.to_text().startswith("#")
        assert pickle.loads(pickle.dumps(schema)).to_text() == text


def test_public_names():
    assert dperm.Schema is Schema
    assert dperm.Numeric is Numeric
    assert dperm.Categorical is Categorical
