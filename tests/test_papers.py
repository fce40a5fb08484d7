"""The programs that reproduce tables of papers, ``bench/papers``."""

import json
import tomllib
from pathlib import Path

import pytest

from papers import framework, page, run
from papers.framework import Refused, Row, Table

NUMBERS = Path(__file__).parents[1] / "docs" / "reproduced"
TOML = """
title = "t"
source = "s"
quantity = "q"
rule = "digits"
reason = "some are not printed"
modes = ["paper", "tight"]
[settings]
repetitions = 100
[quick]
repetitions = 2
[plot]
x = "x"
[[rows]]
kind = ["a", "b"]
x = [1, 2, 3]
printed = ["1.0", "2.0", "3.1", "", "", ""]
"""


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A table whose cells count how often they are computed; "b" fails at 1 and is refused at 2."""
    (tmp_path / "t.toml").write_text(TOML)
    calls = []

    class Module:
        @staticmethod
        def measure(mode, *, kind, x, repetitions):
            calls.append((mode, kind, x, repetitions))
            if (kind, x) == ("b", 1):
                raise ZeroDivisionError("oh")
            if (kind, x) == ("b", 2):
                raise Refused("not private")
            return x + 0.01 if mode == "paper" else (2.0 * x, 0.5)

    monkeypatch.setattr(framework, "TABLES", tmp_path)
    monkeypatch.setattr(framework, "_module", lambda name: Module)
    return calls


def test_runs_resume_and_report_failures(measured, tmp_path, capsys):
    arguments = ["t", "--quick", "--results", str(tmp_path)]
    assert run.main(arguments) == 1
    assert len(measured) == 12
    assert {repetitions for *_, repetitions in measured} == {2}
    text = (tmp_path / "t.md").read_text()
    assert "| a | 1 | 1.0 | 1.01 | 2 ± 0.5 | 0.99 | yes |" in text
    assert "| a | 3 | 3.1 | 3.01 | 6 ± 0.5 | 1.03 | no |" in text
    assert "| b | 1 | - | failed | failed |  |  |" in text
    assert "- b, 1: paper failed: ZeroDivisionError: oh" in text
    assert "- b, 2: tight refused: not private" in text
    drawing = (tmp_path / "t.svg").read_text()
    assert drawing.startswith("<?xml")
    assert all(f">{label}<" in drawing for label in ("a", "b", "paper", "tight", "printed"))
    measured.clear()
    kept = (tmp_path / "t.jsonl").read_text()
    (tmp_path / "t.jsonl").write_text(kept[:-9])  # killed in the middle of a line
    assert run.main(arguments) == 1
    failed_or_cut = [("paper", "b", 1, 2), ("tight", "b", 1, 2), ("tight", "b", 3, 2)]
    assert measured == failed_or_cut
    assert (tmp_path / "t.jsonl").read_text() == kept
    measured.clear()
    run.main([*arguments, "--repetitions", "3", "--modes", "tight"])
    assert {(mode, repetitions) for mode, *_, repetitions in measured} == {("tight", 3)}
    assert "1/6" in capsys.readouterr().out


def test_figures_can_have_a_line_per_setting(measured, tmp_path):
    (tmp_path / "t.toml").write_text(TOML.replace('x = "x"', 'x = "x"\nlines = "kind"'))
    run.main(["t", "--quick", "--results", str(tmp_path)])
    drawing = (tmp_path / "t.svg").read_text()
    assert [drawing.count(f">{word}<") for word in ("paper", "tight", "a", "b", "printed")] == [1] * 5
    assert "](t.svg)" in (tmp_path / "t.md").read_text()


def test_the_file_of_numbers_gives_the_same_page(measured, tmp_path):
    (tmp_path / "t.toml").write_text(TOML.replace('"a", "b"', '"a", "b, and more"'))
    run.main(["t", "--quick", "--results", str(tmp_path), "--numbers", str(tmp_path)])
    table = framework.read("t", quick=True)
    records = page.read_numbers(table, tmp_path / "t.csv")
    assert page.text(table, records) == (tmp_path / "t.md").read_text()
    (tmp_path / "t.toml").write_text(TOML)
    with pytest.raises(ValueError, match="no line for"):
        page.read_numbers(framework.read("t", quick=True), tmp_path / "t.csv")


def test_every_table_has_its_numbers():
    for name in framework.names():
        table = framework.read(name, quick=True)
        assert page.read_numbers(table, NUMBERS / f"{name}.csv")


def test_a_missing_number_needs_a_reason(measured, tmp_path):
    (tmp_path / "t.toml").write_text(TOML.replace('reason = "some are not printed"\n', ""))
    with pytest.raises(ValueError, match="no reason is given"):
        framework.read("t")


@pytest.mark.parametrize(
    ("rule", "printed", "value", "verdict"),
    [
        ("digits", "0.2316", 0.23168, "yes"),  # cut off
        ("digits", "0.2317", 0.23168, "yes"),  # rounded
        ("digits", "0.2315", 0.23168, "no"),
        ("within", "73.5", 75.4, "yes"),
        ("within", "73.5", 75.6, "no"),
        ("below", "1", 0.9, "yes"),
        ("below", "1", 1.1, "no"),
        ("claim", "", True, "holds"),
        ("claim", "", False, "fails"),
        ("claim", "", None, "not testable"),
        ("none", "1", 1.0, ""),
    ],
)
def test_verdicts(rule, printed, value, verdict):
    row = Row({}, printed)
    table = Table("t", "", "", "", rule, (row,), tolerance=2.0)
    assert framework.agrees(table, row, {"value": value, "error": None}) == verdict


def test_ratios_must_be_constant_along_x():
    rows = tuple(Row({"data": d, "x": x}, str(float(x))) for d in "ab" for x in (1, 2))
    table = Table("t", "", "", "", "constant", rows, tolerance=0.25, modes=("paper",), plot={"x": "x"})
    values = [0.5, 1.2, 0.5, 1.4]  # ratios 2 and 1.67, then 2 and 1.43
    cells = framework.cells_of(table, ["paper"])
    records = {c.key: {"value": v, "error": None} for c, v in zip(cells, values, strict=True)}
    assert page.verdicts(table, records) == ["yes", "yes", "no", "no"]


def test_every_table_gives_a_reason_for_missing_numbers():
    for name in framework.names():
        found = tomllib.loads((framework.TABLES / f"{name}.toml").read_text())
        assert (framework.TABLES / f"{name}.py").exists()
        assert {"title", "source", "quantity", "rule", "rows"} <= found.keys()
        assert found["rule"] in framework.RULES
        silent = [row for row in found["rows"] if "printed" not in row and "reason" not in row]
        assert not silent or found.get("reason"), name


def test_closed_forms_of_smoothing_and_the_printed_noise(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "figure", lambda *_: None)
    arguments = ["lssgd_tables3_4", "lssgd_noise", "--modes", "paper,tight", "--results", str(tmp_path)]
    assert run.main(arguments) == 0
    records = [json.loads(line) for line in (tmp_path / "lssgd_tables3_4.jsonl").read_text().splitlines()]
    values = {record["key"]: record["value"] for record in records}
    assert len(values) == 80
    for key, value in values.items():
        assert value == pytest.approx(values[key.replace('"tight"', '"paper"')], rel=1e-12)
    lines = (tmp_path / "lssgd_noise.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| 0.")]
    assert len(rows) == len(framework.read("lssgd_noise").rows)
    assert all(row.endswith("| yes |") for row in rows)
