"""The programs that reproduce tables of papers, ``bench/papers``."""

import json

import pytest

from papers import framework, page, run


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
