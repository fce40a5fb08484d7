"""``dperm budget``: the commands of data owners."""

import csv
import io
import json
import os

import pytest

from dperm.accounting import open_ledger

BUDGET = ["--epsilon", "3", "--delta", "1e-6"]


@pytest.fixture
def run(command):
    return lambda *arguments, code=0: command("budget", *arguments, code=code)


def test_create_show_history(run):
    assert "'adult' created" in run("create", "adult", *BUDGET).stdout
    assert os.path.exists("dperm-budget.db")
    assert "never" in run("show").stdout

    ledger = open_ledger("sqlite:///dperm-budget.db", "adult")
    for name in ("first [fit]", "noisy_gd"):
        ledger.charge(epsilon=1.0, delta=1e-6, description=name, statement={"clip": 0.25})
    shown = run("show", "adult").stdout
    numbers = json.loads(run("show", "adult", "--json").stdout)[0]
    assert numbers["spent"] + numbers["left"] == pytest.approx(numbers["epsilon"])
    assert f"{numbers['left']:.3f}"[:4] in shown
    assert ledger.seal in shown
    assert "1.4" in shown  # of both, rounded up
    assert f"{ledger.last_charge:%Y-%m-%d}" in shown

    history = run("history", "adult").stdout
    assert "first [fit]" in history
    assert "noisy_gd" in history
    assert "clip" not in history
    assert json.loads(run("history", "adult", "--json").stdout)[0]["statement"]["clip"] == 0.25


def test_several_data_sets_and_accountants(run):
    run("create", "adult", *BUDGET)
    run("create", "bank", *BUDGET, "--accountant", "zcdp")
    shown = run("show").stdout
    assert all(word in shown for word in ("adult", "bank", "gdp", "zcdp"))
    assert "bank" not in run("show", "adult").stdout


def test_creating_twice(run):
    run("create", "adult", *BUDGET)
    assert "exists already" in run("create", "adult", *BUDGET).stdout
    other = ["--epsilon", "30", "--delta", "1e-6"]
    assert "cannot be changed" in run("create", "adult", *other, code=1).stderr
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
    assert words in run(*arguments, code=code).stderr
    assert os.listdir() == []


def test_the_life_of_a_budget(run, tmp_path):
    run("create", "adult", *BUDGET, "--ceiling", "5", "--neighbors", "replace_one", "--pure", "0.1")
    ledger = open_ledger("sqlite:///dperm-budget.db", "adult")
    ledger.charge(epsilon=1.0, delta=1e-6, description="a <b> | c", statement={"steps": 3})
    run("extend", "adult", "--epsilon", "6", code=1)
    run("extend", "adult", "--epsilon", "5")
    assert ledger.epsilon == 5.0
    exported = json.loads(run("export", "adult").stdout)
    assert [each["kind"] for each in exported["entries"]] == ["charge", "extend"]
    assert (exported["neighbors"], exported["ceiling"], exported["seal"]) == ("replace_one", 5.0, ledger.seal)
    assert exported["entries"][0]["statement"]["steps"] == 3
    rows = list(csv.DictReader(io.StringIO(run("export", "adult", "--format", "csv").stdout)))
    assert [row["description"] for row in rows] == ["a <b> | c", ""]
    run("close", "adult")
    assert ledger.seal in run("report", "adult").stdout
    run("report", "adult", "-o", "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "a &lt;b&gt; | c" in page
    assert "<table>" in page
    assert ledger.seal in page
    assert "--force" in run("report", "adult", "-o", "report.html", code=1).stderr


def test_unknown_name_and_damaged_file(run, tmp_path):
    run("create", "adult", *BUDGET)
    assert "no ledger 'bank' in it, but 'adult'" in run("show", "bank", code=1).stderr
    (tmp_path / "text.db").write_text("text" * 1000)
    assert "damaged" in run("show", "--file", "text.db", code=1).stderr
