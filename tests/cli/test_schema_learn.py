"""``dperm schema learn``: from a file to a schema, its cost, and its refusals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dperm import Schema
from dperm.cli.models import read
from dperm.mechanisms.hooks import replace_noise

from .conftest import BUDGET, history

pytest.importorskip("pyarrow")

KINDS = ["--categorical", "*", "--numeric", "pixel*", "--numeric", "age", "--categorical", "pixel_name"]


def people(n=6000):
    rng = np.random.default_rng(0)
    job = rng.choice(["cook", " clerk"], n).astype(object)  # as many files have it: with a space
    job[0] = "astronaut"
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "job": job,
            "pixel1": rng.random(n),
            "pixel_name": "a",
            "income": rng.choice(["<=50K", ">50K"], n),
        }
    )


@pytest.fixture
def run(command):
    people().to_csv("people.csv", index=False)
    people().to_parquet("people.parquet", index=False)
    command("budget", "create", "people", *BUDGET)
    return command


def learn(run, data, *arguments, **keywords):
    return run("schema", "learn", data, "--label", "income", *arguments, **keywords)


@pytest.mark.parametrize(("data", "clerk"), [("people.csv", "clerk"), ("people.parquet", " clerk")])
def test_the_schema_serves_a_fit_from_the_same_budget(run, data, clerk):
    shown = learn(run, data, *KINDS, "--ledger", "people", "-o", "people.toml")
    schema = Schema.from_toml("people.toml")
    assert [each.name for each in schema.columns] == ["age", "job", "pixel1", "pixel_name"]
    assert schema.columns[1].categories == tuple(sorted([clerk, "cook"]))
    assert schema.classes == ("<=50K", ">50K")
    assert "astronaut" not in shown.output + Path("people.toml").read_text()
    assert "2 categories" in shown.stdout
    assert "Differentially private" in shown.stdout
    fit = ["--schema", "people.toml", "--label", "income", "--ledger", "people"]
    weights = ["--weight-column", "pixel1", "--weight-bound", "1"]
    run("fit", data, *fit, *weights, "--epsilon", "0.9", "--delta", "1e-6", "-o", "model.json")
    model = read(Path("model.json"))[0]
    assert model.classes_.tolist() == ["<=50K", ">50K"]
    assert "learned with epsilon = " in model.privacy_.public["schema"]
    learned, fitted = history()
    assert learned.description == "Schema.learn"
    assert learned.cost.slack > fitted.cost.slack == 0


def test_without_a_file_to_write_it_prints_the_schema(run):
    shown = learn(run, "people.parquet", *BUDGET, "--ignore", "job")
    schema = Schema.from_text(shown.stdout)
    assert schema.ignored == ("job",)
    assert schema.privacy.epsilon == 1.0
    assert not history()


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        ("none.csv", KINDS, "there is no file 'none.csv'"),
        ("people.csv", ["--numeric", "age"], "--ignore for 'job', 'pixel1', 'pixel_name'"),
        ("people.csv", [*KINDS, "--numeric", "height"], "there is no column 'height'"),
        ("people.csv", [*KINDS, "--ignore", "age"], "column 'age' is given two kinds: ignored and numeric"),
        ("people.csv", [*KINDS, "--numeric", "job"], "column 'job': expected a number, got 'astronaut'"),
        ("people.parquet", ["--numeric", "job"], "holds texts, which is no numeric column"),
        ("people.parquet", ["--neighbors", "replace_one"], "add_or_remove"),
        ("people.parquet", ["--epsilon", "2"], "exceeded"),
        ("people.parquet", ["-o", "people.csv"], "people.csv exists already"),
        ("people.parquet", ["--label", "height"], "no column 'height'"),
    ],
)
def test_what_is_refused_is_not_charged(run, data, arguments, message):
    code = 3 if message == "exceeded" else 1
    shown = learn(run, data, "--ledger", "people", *arguments, code=code).stderr
    assert message in " ".join(shown.split())
    assert "Traceback" not in shown
    assert not history()


def test_a_budget_is_needed(run):
    assert "give epsilon and delta, or a ledger" in learn(run, "people.parquet", code=1).stderr


def test_ctrl_c_says_what_was_charged(run):
    def stopped(*_):
        raise KeyboardInterrupt

    with replace_noise(gaussian=stopped):
        shown = learn(run, "people.parquet", "--ledger", "people", "-o", "people.toml", code=130).stderr
    assert "was charged for 'Schema.learn'; it stays charged, and no schema was written" in shown
    assert not Path("people.toml").exists()
