"""``dperm report``, from files that other commands and the library write."""

import json

import numpy as np
import pytest

from dperm import LogisticRegression
from dperm.accounting import open_ledger
from dperm.metrics import evaluate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, its evaluation, and the ledger of both."""
    folder = tmp_path_factory.mktemp("reports")
    ledger = open_ledger(folder / "dperm-budget.db", "adult", 3.0, 1e-6)
    X = np.random.default_rng(0).uniform(size=(3000, 2))
    y = (X[:, 0] > 0.5) * 1
    model = LogisticRegression(1.0, 1e-6, row_norm=1.8, classes=[0, 1], ledger=ledger).fit(X, y)
    model.save(folder / "model.json")
    evaluate(model, X, y, 1.0, 1e-6, metrics="accuracy", ledger=ledger).save(folder / "evaluation.json")
    return folder


@pytest.fixture
def run(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda *arguments, code=0: command("report", *arguments, code=code)


def test_kinds_of_reports(run, folder):
    shown = run("model.json").stdout
    assert shown.startswith("# Privacy report: LogisticRegression")
    assert "No evaluation was given" in shown
    everything = ["model.json", "--evaluation", "evaluation.json", "--ledger", "adult"]
    facts = json.loads(run(*everything, "--json").stdout)
    assert facts["privacy"]["epsilon"] == 1.0
    assert list(facts["evaluation"]["metrics"]) == ["accuracy"]
    assert len(facts["ledger"]["entries"]) == 2
    for name, start in (("a.html", "<!doctype html>"), ("a.md", "# Privacy"), ("a.json", "{")):
        run(*everything, "-o", name)
        assert (folder / name).read_text(encoding="utf-8").startswith(start)
    assert "--force" in run(*everything, "-o", "a.html", code=1).stderr
    run(*everything, "-o", "a.html", "--force")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.json"], "nowhere.json"),
        (["evaluation.json"], "not a model"),
        (["model.json", "--evaluation", "model.json"], "no evaluation"),
        (["model.json", "--ledger", "bank"], "no ledger 'bank'"),
        (["model.json", "-o", "a.pdf"], ".html, .md or .json"),
        (["model.json", "--md", "--json"], "not both"),
    ],
)
def test_errors(run, arguments, words):
    assert words in run(*arguments, code=1).stderr
