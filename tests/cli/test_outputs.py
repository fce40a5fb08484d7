"""What commands write: never over what they read, a ledger, a device or a pipe; text with every sign."""

import csv
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from .conftest import BUDGET, FIT, history

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def prepared(shell):
    shell("budget", "create", "people", "--epsilon", "3", "--delta", "1e-5")
    shell("fit", "people.csv", *FIT, "-o", "model.json")
    shell("evaluate", "model.json", "test.csv", *BUDGET, "-o", "evaluation.json")
    return shell


def commands(out):
    fit = ["people.csv", "--schema", "all.toml", "--label", "income", *BUDGET, "--test", "test.csv"]
    return {
        "fit": ["fit", *fit, "-o", out],
        "tune": ["tune", *FIT, "people.csv", "--grid", "l2=0,1", "-o", out],
        "predict": ["predict", "model.json", "test.csv", "-o", out],
        "evaluate": ["evaluate", "model.json", "test.csv", *BUDGET, "-o", out],
        "report": ["report", "model.json", "--evaluation", "evaluation.json", "-o", out],
        "budget report": ["budget", "report", "people", "-o", out],
        "budget export": ["budget", "export", "people", "-o", out],
    }


READS = {
    "fit": ["people.csv", "all.toml", "test.csv"],
    "tune": ["people.csv", "all.toml"],
    "predict": ["model.json", "test.csv"],
    "evaluate": ["model.json", "test.csv"],
    "report": ["model.json", "evaluation.json"],
    "budget report": [],
    "budget export": [],
}


@pytest.mark.parametrize("name", READS)
def test_what_a_command_reads_is_never_written_over(prepared, name):
    """Nor a ledger, under any name; nor a device, a pipe or a folder."""
    os.mkfifo("pipe")
    os.symlink("/dev/null", "null")
    shutil.copy("dperm-budget.db", "copy.json")
    files = [*READS[name], "dperm-budget.db", "copy.json"]
    before = {each: Path(each).read_bytes() for each in files}
    for out, message in [
        *[(each, "is read by this command") for each in READS[name]],
        *[(f"./{each}", "is read by this command") for each in READS[name][:1]],
        *[
            (each, "is a database, such as a ledger")
            for each in ("dperm-budget.db", "copy.json", "dperm-budget.db-wal")
        ],
        *[(each, "is a device or a pipe") for each in ("pipe", "null", "/dev/null")],
    ]:
        shown = " ".join(prepared(*commands(out)[name], "--force", code=1).stderr.split())
        assert message in shown or (name == "report" and "a report is a file .html" in shown)
    assert {each: Path(each).read_bytes() for each in files} == before
    assert Path("pipe").is_fifo()
    assert Path("null").is_symlink()
    assert history() == []


@pytest.mark.parametrize("name", ["fit", "tune"])
def test_a_charge_without_a_model_file_is_refused(prepared, name):
    arguments = [each for each in commands("out")[name] if each not in ("-o", "out")]
    shown = prepared(*arguments, "--ledger", "people", code=2).stderr
    assert "would be thrown away" in " ".join(shown.replace("\u2502", " ").split())
    assert history() == []


STRINGS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.binary(),
]


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_text_with_commas_and_quotes_is_read_back(prepared, kind):
    texts = ["plain", "a,b", 'say "so"', "two\nlines", "", '"', "end\r"] * 3
    test = pd.read_csv("test.csv")[:21]
    table = pa.table({"job": test["job"].tolist(), "age": test["age"].tolist()})
    column = pa.array(texts, kind if not pa.types.is_dictionary(kind) else pa.string())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    parquet.write_table(table.append_column("note", column), "notes.parquet")
    prepared("predict", "model.json", "notes.parquet", "-o", "scored.csv")
    with open("scored.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["note"] for row in rows] == texts
    assert {row["prediction"] for row in rows} <= {"<=50K", ">50K"}
