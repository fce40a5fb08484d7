"""``dperm budget``: what data owners type."""

import csv
import io
import json
import os

import pytest
from typer.testing import CliRunner

from dperm.accounting import open_ledger
from dperm.cli.commands import app

BUDGET = ["--epsilon", "3", "--delta", "1e-6"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPERM_BUDGET", raising=False)

    def invoke(*arguments):
        return CliRunner().invoke(app, ["budget", *arguments])

    return invoke


def test_create_show_history(run):
    created = run("create", "adult", *BUDGET)
    assert created.exit_code == 0
    assert "'adult' created" in created.stdout
    assert os.path.exists("dperm-budget.db")
    assert "never" in run("show").stdout

    ledger = open_ledger("sqlite:///dperm-budget.db", "adult")
    for name in ("first [fit]", "noisy_gd"):
        ledger.charge(epsilon=1.0, delta=1e-6, description=name, statement={"clip": 0.25})
    shown = run("show", "adult").stdout
    assert ledger.seal in shown
    assert "1.4" in shown  # of both, rounded up
    assert f"{ledger.last_charge:%Y-%m-%d}" in shown

    history = run("history", "adult").stdout
    assert "first [fit]" in history
    assert "noisy_gd" in history
    assert "clip" not in history
    assert "clip=0.25" in run("history", "adult", "--facts").stdout


def test_several_data_sets_and_accountants(run):
    run("create", "adult", *BUDGET)
    assert run("create", "bank", *BUDGET, "--accountant", "zcdp").exit_code == 0
    shown = run("show").stdout
    assert all(word in shown for word in ("adult", "bank", "gdp", "zcdp"))
    assert "bank" not in run("show", "adult").stdout


def test_creating_twice(run):
    run("create", "adult", *BUDGET)
    again = run("create", "adult", *BUDGET)
    assert again.exit_code == 0
    assert "exists already" in again.stdout
    other = run("create", "adult", "--epsilon", "30", "--delta", "1e-6")
    assert other.exit_code == 1
    assert "cannot be changed" in other.stderr
    assert open_ledger("sqlite:///dperm-budget.db", "adult").epsilon == 3.0


def test_the_file_from_option_and_environment(run, monkeypatch):
    monkeypatch.setenv("DPERM_BUDGET", "elsewhere.db")
    run("create", "adult", *BUDGET)
    run("create", "bank", *BUDGET, "--file", "third.db")
    assert "adult" in run("show", "--file", "elsewhere.db").stdout
    assert "adult" not in run("show", "--file", "third.db").stdout
    assert not os.path.exists("dperm-budget.db")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show"], 1, "no such file"),
        (["history", "adult"], 1, "dperm budget create"),
        (["create", "adult", "--epsilon", "0", "--delta", "1e-6"], 1, "epsilon must be > 0"),
        (["create", "adult", *BUDGET, "--accountant", "rdp"], 1, "accountant must be"),
        (["create", "adult", "--epsilon", "1"], 2, "--delta"),
    ],
)
def test_errors(run, arguments, code, words):
    result = run(*arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert os.listdir() == []


def test_the_life_of_a_budget(run, tmp_path):
    run("create", "adult", *BUDGET, "--ceiling", "5", "--neighbors", "replace_one", "--pure", "0.1")
    ledger = open_ledger("sqlite:///dperm-budget.db", "adult")
    ledger.charge(epsilon=1.0, delta=1e-6, description="a <b> | c", statement={"steps": 3})
    assert run("extend", "adult", "--epsilon", "6").exit_code == 1
    assert run("extend", "adult", "--epsilon", "5").exit_code == 0
    assert ledger.epsilon == 5.0
    exported = json.loads(run("export", "adult").stdout)
    assert [each["kind"] for each in exported["entries"]] == ["charge", "extend"]
    assert (exported["neighbors"], exported["ceiling"], exported["seal"]) == ("replace_one", 5.0, ledger.seal)
    assert exported["entries"][0]["statement"]["steps"] == 3
    rows = list(csv.DictReader(io.StringIO(run("export", "adult", "--format", "csv").stdout)))
    assert [row["description"] for row in rows] == ["a <b> | c", ""]
    assert run("close", "adult").exit_code == 0
    assert ledger.seal in run("report", "adult").stdout
    assert run("report", "adult", "-o", "report.html").exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "a &lt;b&gt; | c" in page
    assert "<table>" in page
    assert ledger.seal in page
    again = run("report", "adult", "-o", "report.html")
    assert (again.exit_code, "--force" in again.stderr) == (1, True)


def test_unknown_name_and_damaged_file(run, tmp_path):
    run("create", "adult", *BUDGET)
    unknown = run("show", "bank")
    assert unknown.exit_code == 1
    assert "no ledger 'bank' in it, but 'adult'" in unknown.stderr
    (tmp_path / "text.db").write_text("text" * 1000)
    damaged = run("show", "--file", "text.db")
    assert damaged.exit_code == 1
    assert "damaged" in damaged.stderr
