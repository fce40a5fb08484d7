"""Quotes and line breaks in CSV files: the records of Python's csv module, or an error with the line."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import Categorical, Numeric, Objective, Schema
from dperm.data import scan_csv
from dperm.errors import DataError

pytest.importorskip("pyarrow")

BLOCKS = st.integers(1, 100)


def texts_of(path, **settings):
    """The labels, read as text."""
    source = scan_csv(path, label="y", columns=["a"], label_type="text", **settings)
    return source.targets().tolist() if sum(len(each) for each in source.matrices()) else []


CELL = st.text(alphabet='ab"",;\n\r \'', max_size=6)
WRITTEN = st.one_of(
    CELL.map(lambda text: '"' + text.replace('"', '""') + '"'),
    st.text(alphabet='ab"; ', max_size=4),
    CELL,
)
ROW = st.tuples(st.just("1"), WRITTEN, WRITTEN).map(",".join)
END = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])


@settings(max_examples=300, deadline=None)
@given(rows=st.lists(st.tuples(ROW, END), max_size=8), end=END, block_bytes=BLOCKS)
def test_the_records_are_those_of_the_csv_module(tmp_path_factory, rows, end, block_bytes):
    """For any file that both accept, whatever the blocks."""
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    text = f"a,y,other{end}" + "".join(row + each for row, each in rows)
    path.write_bytes(text.encode())
    expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row][1:]
    try:
        found = texts_of(path, block_bytes=block_bytes)
    except DataError:
        return
    assert found == [row[1] for row in expected]


@settings(max_examples=100, deadline=None)
@given(
    cells=st.lists(st.tuples(CELL.filter(str.strip), CELL), min_size=1, max_size=8),
    style=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    block_bytes=BLOCKS,
)
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, cells, style, block_bytes):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, quoting=style)
        writer.writerow(["a", "y", "line\nbreak"])
        writer.writerows([1.5, *each] for each in cells)
    assert texts_of(path, block_bytes=block_bytes) == [text for text, _ in cells]


def test_an_unclosed_quote_is_refused_with_its_line(tmp_path):
    """Of 50,001 records it would swallow 50,000, even in a column that is not used."""
    lines = [f"{i},1,text {i}" for i in range(50_001)]
    for row in (0, 31_000, 50_000):
        stray = [*lines[:row], f'{row},1,"text', *lines[row + 1 :]]
        (tmp_path / "t.csv").write_text("\n".join(["a,y,note", *stray]) + "\n")
        with pytest.raises(
            DataError, match=rf"t\.csv, line {row + 2}: a cell begins with a quote that is never"
        ):
            Objective("squared_error", scan_csv(tmp_path / "t.csv", label="y", columns=["a"]))


def test_text_behind_a_closing_quote_is_refused_with_its_line(tmp_path):
    """As when a stray quote finds the quote of another cell."""
    lines = ["1,1,plain"] * 30 + ['1,1,"stray', "1,1,plain", '1,1,"quoted, cell"'] + ["1,1,plain"] * 9
    (tmp_path / "t.csv").write_text("\n".join(["a,y,note", *lines]) + "\n")
    with pytest.raises(DataError, match=r"t\.csv, line 34: text follows the closing quote of a cell"):
        Objective("squared_error", scan_csv(tmp_path / "t.csv", label="y", columns=["a"]))


def test_a_quote_within_an_unquoted_cell_is_text(tmp_path):
    (tmp_path / "t.csv").write_text('a,y,size\n1,24",5\n2,5" pipe,"6"\n3,"7""",8\n')
    assert texts_of(tmp_path / "t.csv") == ['24"', '5" pipe', '7"']


def test_line_breaks_in_quoted_cells_at_the_borders_of_blocks(tmp_path):
    """Every record has one, so all 40 borders are in such a record; one more record adds one."""
    records = [f'{i},{i % 2},"before\nbehind"\n' for i in range(2000)]
    for more in (0, 1):
        text = "a,y,note\n" + more * "5,1,one more\n" + "".join(records)
        (tmp_path / "t.csv").write_text(text)
        source = scan_csv(tmp_path / "t.csv", label="y", columns=["a"], block_bytes=len(text) // 40)
        batches = list(source.blocks())
        assert len(batches) > 40
        assert [each for batch in batches for each in batch["a"].to_pylist()] == [5] * more + [*range(2000)]
        assert Objective("squared_error", source).n_public == 2000 + more


@pytest.mark.parametrize("block_bytes", [150, 1 << 20])
def test_faults_behind_quoted_line_breaks_are_named_with_their_line(tmp_path, block_bytes):
    records = ['1,"two\n\nlines, and ""more""",1\n'] * 20
    (tmp_path / "t.csv").write_text('"a\nb",note,y\n' + "".join(records) + "1,plain,oops\n" + records[0])
    with pytest.raises(
        DataError, match=r"t\.csv, line 63 \(row 20\), column 'y': expected a number, got 'oops'"
    ):
        Objective(
            "squared_error",
            scan_csv(tmp_path / "t.csv", label="y", columns=["a\nb"], block_bytes=block_bytes),
        )


def test_cells_of_a_schema_with_line_breaks(tmp_path):
    frame = pd.DataFrame({"t": ["a\nb", 'c"d', "e,f\r\ng"] * 50, "x": np.arange(150.0), "y": 1.0})
    frame.to_csv(tmp_path / "t.csv", index=False)
    schema = Schema([Categorical("t", ["a\nb", 'c"d', "e,f\r\ng"]), Numeric("x", 0, 150)])
    source = scan_csv(tmp_path / "t.csv", label="y", schema=schema, block_bytes=70)
    found = np.concatenate([each.codes for each in source.matrices()])
    assert np.array_equal(found, schema.encode(frame[["t", "x"]]).codes)


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "§", None])
def test_a_delimiter_is_one_character(tmp_path, delimiter):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n")
    with pytest.raises(ValueError, match="delimiter must be one ASCII character"):
        scan_csv(tmp_path / "t.csv", label="y", delimiter=delimiter)


@pytest.mark.parametrize("block_bytes", [1 << 16, 1 << 22, None])
def test_cells_of_megabytes(tmp_path, block_bytes):
    """Also where a record is longer than a block, or than a thread's share of one."""
    long = ["x" * 5_000_000, '"' + "line\n" * 600_000 + '"', "y" * 1_500_000]
    rows = [f"{i},{i % 2},{long[i % 3] if i % 400 < 3 else 'short'}\n" for i in range(2000)]
    (tmp_path / "t.csv").write_text("a,y,note\n" + "".join(rows))
    source = scan_csv(tmp_path / "t.csv", label="y", columns=["a"], block_bytes=block_bytes)
    assert np.array_equal(np.concatenate(list(source.matrices()))[:, 0], np.arange(2000))
    assert source.targets().sum() == 1000


@pytest.mark.parametrize("cell", ["", " ", "     ", '" "', " NA", "NA "])
def test_a_cell_of_spaces_is_missing(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"a,b,y\n1,x,1\n{cell},{cell},1\n")
    schema = Schema([Numeric("a", 0, 2, missing="column"), Categorical("b", ["x", "NA"], "NA", "zero")])
    matrices = list(scan_csv(tmp_path / "t.csv", label="y", schema=schema).matrices())
    rows = np.vstack([each.to_dense() for each in matrices])
    assert rows[:, :3].tolist() == [[0.5, 0, 1], [0, 1, 0]]  # a, whether it is missing, b = x
    assert rows[1, 3] == ("NA" in cell)  # a text like any other


def test_a_wrong_cell_is_quoted_as_it_is(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,,1\n\n,   1  2 ,1\n")
    with pytest.raises(DataError, match=r"line 4 \(row 1\), column 'b': expected a number, got '   1  2 '"):
        list(scan_csv(tmp_path / "t.csv", label="y").matrices())
