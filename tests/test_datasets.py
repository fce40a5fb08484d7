"""Public data sets: encodings with public bounds, files verified against their published hashes."""

import dataclasses
import gzip
import hashlib
import os
import subprocess
import sys
import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from dperm import Categorical, Schema, datasets
from dperm.data import TabularMatrix
from dperm.datasets import files
from dperm.datasets.description import (
    BinaryLabel,
    ClassLabel,
    Description,
    FetchRecipe,
    RealLabel,
    SourceFile,
    read_description,
)
from dperm.errors import DataError, PrivacyWarning
from reference.real_data import load_or_skip

# name: shape, counts of label values, dtype of a dense X. The counts are published.
FACTS = {
    "adult": ((48_842, 108), {-1: 37_155, 1: 11_687}, np.float64),
    "bank": ((45_211, 51), {-1: 39_922, 1: 5_289}, np.float64),
    "breast_cancer": ((569, 30), {-1: 357, 1: 212}, np.float64),
    "kddcup99": ((494_021, 122), {-1: 97_278, 1: 396_743}, np.float64),
    "mnist": (
        (70_000, 784),
        dict(enumerate([6_903, 7_877, 6_990, 7_141, 6_824, 6_313, 6_876, 7_293, 6_825, 6_958])),
        np.float32,
    ),
    "wine": ((6_497, 11), {-1: 2_384, 1: 4_113}, np.float64),
}

# Variants used in papers: number of columns and label counts, which are published, too.
AS_PUBLISHED = {
    "adult_a9a": (123, FACTS["adult"][1]),
    "bank_dummies": (42, FACTS["bank"][1]),
    "wine_quality": (11, {3: 30, 4: 216, 5: 2_138, 6: 2_836, 7: 1_079, 8: 193, 9: 5}),
}

SMALL_TOML = """
name = "small"
title = "A small table"
source = "nowhere"
licence = "none"
citation = "none"
bounds = "made up"
columns = [
    { name = "size", low = 10, high = 20 },
    { name = "money", low = -1, high = 999, transform = "log1p" },
    { name = "colour", categories = ["red", "green", "?"] },
]
[[files]]
path = "small/rows.csv.gz"
sha256 = "{sha}"
sha256_stored = "{sha}"
skip_lines = 1
[fetch]
function = "fetch_openml"
data_id = 1
missing = "?"
[label]
name = "y"
positive = ["yes"]
negative = ["no"]
"""
SMALL_ROWS = (
    b"size,money,colour,y\n15, -1, red, no\n20, 999, green, yes\n15, -1, red, no\n\n12.5, 99, ?, yes\n"
)


@pytest.fixture(scope="module", params=sorted(FACTS))
def loaded(request):
    return request.param, load_or_skip(request.param, dense=True)


def small(rows=SMALL_ROWS, **changes):
    description = Description.from_text(SMALL_TOML.replace("{sha}", hashlib.sha256(rows).hexdigest()))
    return dataclasses.replace(description, **changes)


def label_counts(y):
    values, counts = np.unique(y, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def write_small(folder, rows=SMALL_ROWS, compressed=True):
    path = folder / "small" / ("rows.csv.gz" if compressed else "rows.csv")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(rows) if compressed else rows)
    return path


def encode_small(folder, description=None, dtype="float64"):
    description = description or small()
    X, y = files.encode(description, files.read_files(description, folder), dtype)
    return X.to_dense(), y


class TestPublishedFacts:
    def test_shape_and_layout(self, loaded):
        name, data = loaded
        shape, _, dtype = FACTS[name]
        assert data.X.shape == shape
        assert data.X.dtype == dtype
        assert data.X.flags.c_contiguous
        assert len(data.feature_names) == shape[1] == len(set(data.feature_names))

    def test_label_counts(self, loaded):
        name, data = loaded
        assert label_counts(data.y) == FACTS[name][1]
        assert data.y.dtype == (np.int64 if name == "mnist" else np.float64)

    def test_row_norm_bounds_every_row_with_the_intercept(self, loaded):
        _, data = loaded
        squares = 1 + np.einsum("ij,ij->i", data.X, data.X, dtype=np.float64)
        assert np.sqrt(squares.max()) <= data.row_norm
        assert data.row_norm == data.schema.row_norm()

    def test_values_lie_in_the_unit_interval(self, loaded):
        _, data = loaded
        assert data.X.min() >= 0
        assert data.X.max() <= 1

    def test_categorical_groups_hold_a_single_one(self, loaded):
        _, data = loaded
        first = 0
        for column in data.schema.columns:
            group = data.X[:, first : first + len(column.feature_names)]
            if isinstance(column, Categorical):
                np.testing.assert_array_equal(group.sum(axis=1), 1)
                np.testing.assert_array_equal(group.max(axis=1), 1)
            first += len(column.feature_names)

    def test_bounds_are_not_the_ranges_of_the_data(self, loaded):
        """With bounds measured on the records, every column would attain both."""
        _, data = loaded
        numeric = ["=" not in feature for feature in data.feature_names]
        reached = (data.X.min(axis=0) == 0) & (data.X.max(axis=0) == 1)
        assert not reached[numeric].all()


@pytest.mark.parametrize("name", AS_PUBLISHED)
def test_records_as_published(name):
    width, counts = AS_PUBLISHED[name]
    original = load_or_skip(name.split("_")[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = load_or_skip(name)
    assert [each.category for each in caught] == [PrivacyWarning] * (name == "adult_a9a")
    assert data.description.measured == (name == "adult_a9a")
    assert data.X.shape == (len(original.y), width)
    assert label_counts(data.y) == counts
    assert len(data.feature_names) == width
    shared = [feature for feature in data.feature_names if feature in original.feature_names]
    rows = np.arange(0, len(original.y), 500)
    new, old = data.X[rows], original.X[rows]
    new, old = (each if isinstance(each, np.ndarray) else each.to_dense("float64") for each in (new, old))
    there, here = ([each.feature_names.index(name) for name in shared] for each in (original, data))
    np.testing.assert_array_equal(new[:, here], old[:, there])  # the same records in the same order
    assert np.linalg.norm(np.column_stack([new, np.ones(len(new))]), axis=1).max() <= data.row_norm


def test_first_record_of_a9a():
    """Its line in the LIBSVM file begins with -1 3:1 11:1 14:1 19:1."""
    with pytest.warns(PrivacyWarning, match="measured on the records"):
        data = load_or_skip("adult_a9a", dense=True)
    assert set(np.unique(data.X)) == {0.0, 1.0}
    assert (np.flatnonzero(data.X[0]) + 1).tolist() == [3, 11, 14, 19, 39, 42, 55, 64, 67, 73, 75, 76, 80, 83]
    np.testing.assert_allclose(data.X[:32_561, 13:18].mean(axis=0), 0.2, atol=0.02)  # fnlwgt: quintiles


def test_kddcup99_dos_labels():
    attacks, services = (read_description(name) for name in ("kddcup99", "kddcup99_dos"))
    names = [sorted(each.label.positive + each.label.negative) for each in (attacks, services)]
    assert names[0] == names[1]
    if files.data_folder() is None:
        pytest.skip(f"{files.FOLDER_VARIABLE} is not set")
    content = files.verified_content(services, services.files[0], files.data_folder())
    counts = Counter(line.rsplit(b",", 1)[1].decode() for line in content.splitlines())
    assert sum(counts[name] for name in services.label.positive) == 391_458  # a published count
    assert services.label.encode(np.array(["smurf.", "satan.", "normal."])).tolist() == [1, -1, -1]


def test_real_labels_and_dropped_categories_are_checked():
    grade = RealLabel("grade", 0, 10)
    assert grade.encode(np.array(["3", "9.5"])).tolist() == [3.0, 9.5]
    for cells, message in ((["3", "good"], "is no number"), (["11"], "outside"), (["nan"], "outside")):
        with pytest.raises(DataError, match=f"'grade' holds .*{message}"):
            grade.encode(np.array(cells))
    with pytest.raises(ValueError, match="'job' has no category 'pilot' to drop"):
        Description.from_text('like = "bank"\nname = "b"\n[dropped]\njob = "pilot"')


@pytest.mark.parametrize("name", ["wine", "bank"])
@pytest.mark.parametrize("dense", [True, False])
def test_min_max_encodings_are_marked_as_measured(name, dense):
    public = load_or_skip(name, dense=True)
    with pytest.warns(PrivacyWarning, match=f"encoding of '{name}' were measured"):
        data = datasets.load(name, dense=dense, dtype="float64", min_max=True)
    X = data.X if dense else data.X.to_dense("float64")
    assert data.description.measured
    assert not public.description.measured
    column, bounds = data.schema.columns[0], public.schema.columns[0]  # in both sets the first is numeric
    raw = bounds.low + public.X[:, 0] * (bounds.high - bounds.low)
    assert (column.low, column.high) == pytest.approx((raw.min(), raw.max()))
    np.testing.assert_allclose(X[:, 0], (raw - raw.min()) / (raw.max() - raw.min()), atol=1e-12)
    numeric = ["=" not in feature for feature in data.feature_names]
    assert (X.min(axis=0)[numeric] == 0).all()
    assert (X.max(axis=0)[numeric] == 1).all()
    assert data.schema.columns[-1].__class__ is public.schema.columns[-1].__class__


def test_min_max_of_codes_is_refused():
    with pytest.raises(ValueError, match="float32 or float64, got uint8"):
        datasets.load("bank", min_max=True, dtype="uint8")


def the(name):
    """Run the test with this data set only, loaded once by the fixture."""
    return pytest.mark.parametrize("loaded", [name], indirect=True)


@the("adult")
def test_first_adult_record(loaded):
    _, data = loaded
    row = dict(zip(data.feature_names, data.X[0], strict=True))
    assert row["age"] == (39 - 17) / (90 - 17)
    assert row["education-num"] == (13 - 1) / (16 - 1)
    ones = {feature for feature, value in row.items() if "=" in feature and value == 1}
    assert ones == {
        "workclass=State-gov",
        "education=Bachelors",
        "marital-status=Never-married",
        "occupation=Adm-clerical",
        "relationship=Not-in-family",
        "race=White",
        "sex=Male",
        "native-country=United-States",
    }
    assert data.y[0] == -1


@the("adult")
def test_adult_missing_values_are_a_category(loaded):
    _, data = loaded
    counts = {
        column: int(data.X[:, data.feature_names.index(f"{column}=?")].sum())
        for column in ("workclass", "occupation", "native-country")
    }
    assert counts == {"workclass": 2_799, "occupation": 2_809, "native-country": 857}


@the("kddcup99")
def test_records_equal_those_encoded_one_by_one(loaded):
    _, data = loaded
    schema = data.schema
    content = files.verified_content(data.description, data.description.files[0], files.data_folder())
    lines = content.splitlines()
    for i in np.random.default_rng(0).integers(len(lines), size=50):
        cells = lines[i].decode().split(",")
        values = zip(schema.columns, cells[:-1], strict=True)
        record = {
            column.name: [cell if isinstance(column, Categorical) else float(cell)] for column, cell in values
        }
        np.testing.assert_array_equal(data.X[i : i + 1], schema.encode(record, "float64").to_dense())
        assert data.y[i] == (-1 if cells[-1] == "normal." else 1)


@the("mnist")
def test_mnist_pixels_are_bytes_over_255(loaded):
    _, data = loaded
    levels = (np.arange(256) / 255).astype(np.float32)
    codes = np.rint(255 * data.X).astype(np.uint8)
    np.testing.assert_array_equal(levels[codes], data.X)
    assert np.bincount(codes.ravel(), minlength=256).all()


@the("wine")
def test_float32_is_the_rounded_float64(loaded):
    _, double = loaded
    single = datasets.load("wine", dtype=np.float32)
    assert single.X.dtype == np.float32
    np.testing.assert_array_equal(single.X, double.X.astype(np.float32))


@pytest.mark.parametrize("name", ["adult", "bank"])
def test_tables_with_categories_are_not_expanded(name):
    data, dense = load_or_skip(name), load_or_skip(name, dense=True)
    assert isinstance(data.X, TabularMatrix)
    assert data.X.numeric.dtype == np.float32
    np.testing.assert_array_equal(data.X.to_dense(np.float32), dense.X.astype(np.float32))
    np.testing.assert_array_equal(data.y, dense.y)
    assert 6 * data.X.nbytes < dense.X.nbytes


def test_binned_adult_agrees_with_adult():
    data, plain = load_or_skip("adult_binned"), load_or_skip("adult", dense=True)
    assert data.X.shape == (48_842, 130)
    np.testing.assert_array_equal(data.y, plain.y)
    X = data.X.to_dense()
    categorical = np.delete(X, data.feature_names.index("education-num"), axis=1)
    np.testing.assert_array_equal(categorical.sum(axis=1), 12)
    ages = 17 + 73 * plain.X[:, plain.feature_names.index("age")]
    for feature, low, high in [("age<20", 0, 20), ("40<=age<50", 40, 50), ("age>=70", 70, 100)]:
        expected = (low <= np.rint(ages)) & (np.rint(ages) < high)
        np.testing.assert_array_equal(X[:, data.feature_names.index(feature)], expected)
    shared = [name for name in plain.feature_names if name in data.feature_names]
    assert len(shared) == 103
    for name in shared:
        column = plain.X[:, plain.feature_names.index(name)].astype(np.float32)
        np.testing.assert_array_equal(X[:, data.feature_names.index(name)], column)


def test_file_columns_may_be_ignored():
    known = read_description("adult_binned")
    assert set(known.file_columns) - set(known.schema.column_names) == {"fnlwgt"}
    with pytest.raises(ValueError, match="file_columns must be the schema's, used or ignored"):
        dataclasses.replace(known, file_columns=known.file_columns[1:])


def test_the_labelled_test_file_of_kddcup99():
    data = load_or_skip("kddcup99_test")
    assert data.X.shape == (311_029, 122)
    assert np.unique(data.y, return_counts=True)[1].tolist() == [60_593, 250_436]


@pytest.mark.parametrize("name", datasets.names())
def test_descriptions_state_their_source_and_terms(name):
    known = read_description(name)
    assert known.name == known.schema.name == name
    assert known.source.startswith("http")
    for text in (known.title, known.licence, known.citation, known.bounds):
        assert text
        assert "\n" not in text
        assert "  " not in text


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="no data set 'iris'; choose one of adult, adult_a9a, adult_binned"):
        datasets.load("iris")


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match="dtype of a dense matrix must be float32 or float64, got int32"):
        datasets.load("breast_cancer", dtype=np.int32)


def cells(*values):
    return np.array(values, dtype=object)


class TestLabels:
    def test_binary(self):
        assert BinaryLabel("y", ("a", "b"), ("c",)).encode(cells("a", "c", "b")).tolist() == [1, -1, 1]

    def test_unknown_label_raises(self):
        with pytest.raises(DataError, match="column 'y' holds 'd'"):
            BinaryLabel("y", ("a",), ("c",)).encode(cells("d"))

    def test_classes(self):
        assert ClassLabel("y", ("p", "q", "r")).encode(cells("r", "p")).tolist() == [2, 0]

    @pytest.mark.parametrize(("positive", "negative"), [((), ("a",)), (("a",), ()), (("a",), ("a", "b"))])
    def test_bad_binary_descriptions(self, positive, negative):
        with pytest.raises(ValueError, match="label 'y'"):
            BinaryLabel("y", positive, negative)

    @pytest.mark.parametrize("classes", [("a",), ("a", "a")])
    def test_bad_class_descriptions(self, classes):
        with pytest.raises(ValueError, match="at least two different classes"):
            ClassLabel("y", classes)


class TestDescriptions:
    def test_columns_are_those_of_a_schema(self):
        description = small()
        entries = SMALL_TOML[SMALL_TOML.index("columns =") : SMALL_TOML.index("[[files]]")]
        assert description.schema == Schema.from_text('name = "small"\n' + entries)
        assert description.schema.row_norm() == 2  # intercept, two numbers, one category

    def test_like_inherits_missing_entries(self):
        text = 'like = "wine"\nname = "half"\n[label]\nname = "grade"\nclasses = ["0", "1"]\n'
        half, wine = Description.from_text(text), read_description("wine")
        assert half.name == "half"
        assert half.label == ClassLabel("grade", ("0", "1"))
        assert half.files == wine.files
        assert half.schema.columns == wine.schema.columns

    def test_variants_change_columns_that_exist(self):
        for change in ("[bins]\nbouquet = [1, 2]", 'ignored = ["bouquet"]'):
            with pytest.raises(ValueError, match=r"there are no columns \['bouquet'\] to change"):
                Description.from_text(f'like = "wine"\nname = "half"\n{change}\n')

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("low = 10, ", "", r"missing: \['low'\]"),
            ("low = 10", "low = 10, bim = 3", r"unknown: \['bim'\]"),
            ('name = "money"', 'name = "size"', "names a column twice: 'size'"),
            ('name = "money"', 'name = "y"', "names a column twice: 'y'"),
            ('negative = ["no"]', "", "missing .*'negative'"),
            ('licence = "none"', "", "missing .*'licence'"),
            ('licence = "none"', 'licence = "none"\nlicense = "none"', "unknown entries: license"),
            ('licence = "none"', 'licence = "none"\ndtype = "float16"', "dtype must be one of"),
            ("skip_lines = 1", 'format = "zip"', "format must be one of"),
            ('sha256 = "0', 'sha256 = "X', "is not a SHA-256"),
            ('"fetch_openml"', '"fetch_lfw_people"', "function must be one of"),
            ("data_id = 1", "", "data_id belongs to fetch_openml"),
            (
                "[fetch]",
                '[[files]]\npath = "b"\nsha256 = "{0}"\nsha256_stored = "{0}"\n'.format("0" * 64)
                + 'delimiter = ";"\n[fetch]',
                "same format and delimiter",
            ),
        ],
    )
    def test_bad_descriptions(self, old, new, message):
        text = SMALL_TOML.replace("{sha}", "0" * 64)
        assert old in text
        with pytest.raises(ValueError, match=message):
            Description.from_text(text.replace(old, new))

    def test_data_without_a_source_are_refused(self):
        with pytest.raises(ValueError, match="neither files nor a way to fetch them"):
            small(files=(), fetch=None)


class TestFiles:
    @pytest.mark.parametrize("compressed", [True, False])
    def test_small_file(self, tmp_path, compressed):
        write_small(tmp_path, compressed=compressed)
        X, y = encode_small(tmp_path)
        third = np.log1p(100) / np.log1p(1000)
        expected = [
            [0.5, 0, 1, 0, 0],
            [1, 1, 0, 1, 0],
            [0.5, 0, 1, 0, 0],
            [0.25, third, 0, 0, 1],
        ]
        np.testing.assert_allclose(X, expected, rtol=1e-15)
        assert y.tolist() == [-1, 1, -1, 1]
        assert X.flags.c_contiguous

    def test_files_are_encoded_in_blocks(self, tmp_path, monkeypatch):
        rows = b"header\n" + b"".join(b"%d,%d,red,yes\n" % (10 + i % 11, i) for i in range(50))
        write_small(tmp_path, rows)
        whole, _ = encode_small(tmp_path, small(rows))
        monkeypatch.setattr(files, "_BLOCK_BYTES", 100)
        assert len(list(files.read_files(small(rows), tmp_path))) > 3
        blocked, _ = encode_small(tmp_path, small(rows))
        np.testing.assert_array_equal(whole, blocked)

    @pytest.mark.parametrize("compressed", [True, False])
    def test_files_are_verified_on_every_call(self, tmp_path, compressed):
        path = write_small(tmp_path, compressed=compressed)
        expected, _ = encode_small(tmp_path)
        if compressed:
            path.write_bytes(gzip.compress(SMALL_ROWS, 1))  # another copy of the same contents
            np.testing.assert_array_equal(encode_small(tmp_path)[0], expected)
        write_small(tmp_path, SMALL_ROWS.replace(b"15", b"16"), compressed)
        with pytest.raises(DataError, match="is not the published file: its SHA-256"):
            encode_small(tmp_path)
        path.unlink()
        with pytest.raises(FileNotFoundError):
            encode_small(tmp_path)

    def test_text_files_need_pyarrow(self, tmp_path, monkeypatch):
        write_small(tmp_path)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(
            ImportError, match=r"data set 'small', .* needs pyarrow: pip install 'dperm\[data\]'"
        ):
            encode_small(tmp_path)

    def test_truncated_file_raises(self, tmp_path):
        path = write_small(tmp_path)
        path.write_bytes(path.read_bytes()[:-12])
        with pytest.raises(DataError, match="cannot be decompressed"):
            encode_small(tmp_path)

    def test_missing_file_says_what_to_do(self, tmp_path):
        with pytest.raises(FileNotFoundError) as caught:
            encode_small(tmp_path)
        path = str(tmp_path / "small" / "rows.csv.gz")
        assert all(word in str(caught.value) for word in (path, "DPERM_DATA", "scikit-learn", "nowhere"))

    def test_load_uses_the_variable(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DPERM_DATA", str(tmp_path))
        with pytest.raises(FileNotFoundError, match=r"adult\.data\.gz does not exist\. DPERM_DATA is"):
            datasets.load("adult")

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (
                b"h\n11,1,red,no\n12,1,red\n",
                r"rows\.csv\.gz is not as described: a line has 3 cells, expected 4: '12,1,red'",
            ),
            (b"h\n11,1,red\n12,1,red\n", "a line has 3 cells, expected 4"),
            (b"h\n11,1,blue,no\n", "column 'colour' holds 'blue'"),
            (b"h\n11,?,red,no\n", "column 'money': expected a number, got '?'"),
            (b"h\n11,1,red,maybe\n", "column 'y' holds 'maybe'"),
            (b"h\n11,,red,no\n", "column 'money': expected a number, got ''"),
            (b"h\n", "there are no records"),
            (b"", "is not as described: Empty CSV file"),
        ],
    )
    def test_bad_rows(self, tmp_path, rows, message):
        write_small(tmp_path, rows)
        with pytest.raises(DataError, match=message):
            encode_small(tmp_path, small(rows))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "not an IDX file"),
            (b"\x00\x00\x0d\x01" + bytes(8), "not an IDX file"),
            (b"\x00\x00\x08\x01\x00\x00\x00\x05abc", "announces shape"),
        ],
    )
    def test_bad_idx(self, content, message):
        with pytest.raises(DataError, match=message):
            files.parse_idx(content)

    def test_idx(self):
        content = b"\x00\x00\x08\x02\x00\x00\x00\x02\x00\x00\x00\x03abcdef"
        assert files.parse_idx(content).tolist() == [[97, 98, 99], [100, 101, 102]]

    def test_lines_may_span_read_blocks(self, tmp_path, monkeypatch):
        rows = b"remark\nheader\r\n" + b"".join(b"%d,%d,red,yes\r\n" % (10 + i % 11, i) for i in range(30))
        rows = rows.removesuffix(b"\r\n")
        write_small(tmp_path, rows)
        description = small(rows, files=(dataclasses.replace(small(rows).files[0], skip_lines=2),))
        whole, _ = encode_small(tmp_path, description)
        assert len(whole) == 30
        for size in (1, 2, 7, 64):
            monkeypatch.setattr(files, "_READ_BYTES", size)
            np.testing.assert_array_equal(encode_small(tmp_path, description)[0], whole)

    def test_a_file_may_be_verified_by_the_hash_of_its_stored_copy(self, tmp_path):
        stored = write_small(tmp_path)
        digest = hashlib.sha256(stored.read_bytes()).hexdigest()
        known = small(files=(SourceFile("small/rows.csv.gz", digest, skip_lines=1),))
        np.testing.assert_array_equal(encode_small(tmp_path, known)[0], encode_small(tmp_path)[0])
        stored.write_bytes(gzip.compress(SMALL_ROWS, compresslevel=1))
        with pytest.raises(DataError, match=r"rows\.csv\.gz is not the published file: its SHA-256 is"):
            encode_small(tmp_path, known)


@pytest.fixture
def deliver(monkeypatch):
    """Make a scikit-learn function return an answer or raise it; returns the keywords of its calls."""
    monkeypatch.delenv("DPERM_DATA", raising=False)

    def prepare(function, answer):
        calls = []

        def fetch(**keywords):
            calls.append(keywords)
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(**answer)

        monkeypatch.setattr(f"sklearn.datasets.{function}", fetch)
        return calls

    return prepare


class TestFetching:
    """With scikit-learn's functions replaced: no test downloads anything."""

    def test_openml_codes_become_categories(self, deliver):
        deliver(
            "fetch_openml",
            {
                "data": np.array([[15, -1, 1.0], [20, 999, np.nan]]),
                "target": np.array(["2", "1"], dtype=object),
                "feature_names": ["V1", "V2", "V3"],
                "categories": {"V3": ["green", "red"]},
            },
        )
        description = small(fetch=FetchRecipe("fetch_openml", 1, "?", {"1": "no", "2": "yes"}))
        X, y = files.encode(description, [files.fetch(description)], "float64")
        assert X.to_dense().tolist() == [[0.5, 0, 1, 0, 0], [1, 1, 0, 0, 1]]
        assert y.tolist() == [1, -1]

    def test_kddcup99_arrives_as_bytes(self, deliver):
        row = [*range(41)]
        row[1:4] = b"tcp", b"no such service", b"SF"
        target = np.array([b"normal.", b"smurf."], dtype=object)
        deliver("fetch_kddcup99", {"data": np.array([row, row], dtype=object), "target": target})
        data = datasets.load("kddcup99")
        assert data.y.tolist() == [-1, 1]
        assert data.X.to_dense()[0, data.feature_names.index("service=other")] == 1

    def test_fetching_selects_the_subset_of_kddcup99(self, deliver):
        calls = deliver("fetch_kddcup99", OSError("no network"))
        for name in ("kddcup99", "kddcup99_full"):
            with pytest.raises(FileNotFoundError, match="no network"):
                datasets.load(name)
        assert calls == [{"percent10": True}, {"percent10": False}]

    def test_failed_downloads_mention_local_files(self, deliver):
        deliver("fetch_openml", OSError("no route to host"))
        with pytest.raises(FileNotFoundError, match=r"no route to host.*Set DPERM_DATA .*adult\.data\.gz"):
            datasets.load("adult")


def test_import_is_light():
    code = (
        "import sys, dperm.datasets as d; d.names();"
        "heavy = {'sklearn', 'scipy', 'pandas', 'narwhals'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
