"""The command line in an empty folder, and in one with a table of people."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dperm import Categorical, Numeric, Schema
from dperm.accounting import open_ledger
from dperm.cli.commands import app

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
FIT = ["--schema", "all.toml", "--label", "income", *BUDGET]


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    job, age = rng.choice(["cook", "nurse"], n), rng.integers(0, 100, n)
    income = np.where((job == "nurse") + age / 50 > 1.2, ">50K", "<=50K")
    return pd.DataFrame({"job": job, "age": age, "income": income})


def history(name="people"):
    """The charges to a ledger in the default file of the current folder."""
    return open_ledger("sqlite:///dperm-budget.db", name).history()


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run a command in an empty folder, and check its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPERM_BUDGET", raising=False)

    def run(*arguments, code=0, stdin=None):
        result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def shell(command):
    """Run a command in a folder with people.csv, test.csv and all.toml, which describes the label, too."""
    people().to_csv("people.csv", index=False)
    people(300, seed=1).to_csv("test.csv", index=False)
    columns = [Numeric("age", 0, 100), Categorical("job", ["cook", "nurse"])]
    Schema([*columns, Categorical("income", ["<=50K", ">50K"])], name="people").to_toml("all.toml")
    return command
