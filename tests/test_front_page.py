"""The code at the top of the README, which is also the home page of the documentation, runs as shown."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import sklearn.datasets

README = Path(__file__).parent.parent / "README.md"
ADULT = Path(os.environ.get("DPERM_DATA", "")) / "adult"
COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "class",
]  # fmt: skip


def adult(name, version, as_frame):
    """Adult as OpenML has it, from the files of the UCI repository."""
    assert (name, version, as_frame) == ("adult", 2, True)
    read = {"names": COLUMNS, "skipinitialspace": True, "na_values": "?", "comment": "|"}
    frames = [pd.read_csv(ADULT / f"adult.{part}.gz", **read) for part in ("data", "test")]
    frame = pd.concat(frames, ignore_index=True)
    return SimpleNamespace(frame=frame.assign(**{"class": frame["class"].str.rstrip(".").astype("category")}))


@pytest.mark.skipif(not (ADULT / "adult.data.gz").is_file(), reason="DPERM_DATA has no adult/")
def test_the_example_runs_as_shown(monkeypatch, capsys):
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", adult)
    example = README.read_text(encoding="utf-8").partition("<!-- example -->")[2].partition("<!-- end -->")[0]
    code, shown = re.findall(r"```\w+\n(.*?)```", example, flags=re.DOTALL)
    names = {}
    exec(code, names)
    printed = capsys.readouterr().out
    for line in shown.splitlines():
        words = line.partition(" 0.")[0].partition("9,")[0]  # not the numbers, which have noise
        assert line == "[...]" or words.removesuffix(" [...]") in printed
    assert 0.0 < names["ledger"].spent < 2.0
    held_out = names["test"]
    score = names["model"].score(held_out.drop(columns="class"), held_out["class"])
    assert score > 0.82  # the majority: 0.76
