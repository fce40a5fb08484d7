"""From a raw table to a scored one in a shell: what each command reads, writes, charges and prints."""

import gzip
import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from dperm import HuberRegressor, LinearSVC, Numeric, QuantileRegressor, Schema, __version__
from dperm.cli.models import read
from dperm.estimators import LogisticRegression

from .conftest import BUDGET, FIT, history, people

EXACT = ["--schema", "all.toml", "--label", "income", "--epsilon", "inf", "--delta", "1e-6"]


def model(name="model.json"):
    return read(Path(name))[0]


def read_by_arrow(path):
    with pyarrow.input_stream(path) as stream:
        return pd.read_csv(stream)


def test_six_commands(shell):
    shell("schema", "template", "people.csv", "-o", "draft.toml")
    shell("budget", "create", "people", "--epsilon", "3", "--delta", "1e-5")
    ledger = ["--ledger", "people"]
    fitted = shell("fit", "people.csv", *FIT, "--schema", "draft.toml", *ledger, "-o", "model.json")
    assert "nothing is guaranteed, since the fit rests on" in fitted.stderr
    assert "draft schema" in fitted.stderr
    assert ", a DRAFT that was read from data, " in " ".join(str(model().privacy_).split())  # not cut off
    shell("predict", "model.json", "test.csv", "-o", "scored.csv", "--probabilities")
    options = ["--epsilon", "0.5", "--delta", "1e-6", *ledger, "-o", "evaluation.json"]
    shown = shell("evaluate", "model.json", "test.csv", *options).stdout
    assert "accuracy" in shown
    assert "No ledger" not in shown
    assert [round(each.epsilon, 3) for each in history()] == [1.0, 0.5]
    scored, test = pd.read_csv("scored.csv"), pd.read_csv("test.csv")
    assert list(scored) == [*test, "prediction", "probability_<=50K", "probability_>50K"]
    np.testing.assert_array_equal(scored["prediction"], model().predict(test[["job", "age"]]))
    np.testing.assert_allclose(scored.iloc[:, 4:], model().predict_proba(test[["job", "age"]]))
    accuracy = json.loads(Path("evaluation.json").read_text())["metrics"]["accuracy"]
    exact = np.mean(scored["prediction"] == test["income"])
    assert accuracy["low"] - 0.2 < exact < accuracy["high"] + 0.2


class TestInputs:
    """Every way to pass the same records gives the same model."""

    @pytest.fixture
    def expected(self, shell):
        shell("fit", "people.csv", *EXACT, "-o", "model.json")
        return model().coef_

    def same(self, shell, expected, *data, **keywords):
        shell("fit", *data, *EXACT, "-o", "model.json", "--force", **keywords)
        np.testing.assert_array_equal(model().coef_, expected)

    def test_files(self, shell, expected):
        frame, text = people(), Path("people.csv").read_text()
        Path("folder").mkdir()
        frame[:250].to_csv("folder/a.csv", index=False)
        frame[250:][["age", "income", "job"]].to_csv("folder/b.csv.gz", index=False)
        self.same(shell, expected, "folder")
        self.same(shell, expected, "folder/a.csv", "folder/b.csv.gz")
        for separator in (";", "\t", "|"):
            frame.to_csv("other.txt", sep=separator, index=False)
            self.same(shell, expected, "other.txt")
        frame.to_csv("other.txt", sep=":", index=False)
        self.same(shell, expected, "other.txt", "--separator", ":")
        frame.astype({"age": float}).to_csv("other.txt", sep=";", decimal=",", index=False)
        self.same(shell, expected, "other.txt", "--decimal", ",")
        draft = shell("schema", "template", "other.txt", "--decimal", ",").stdout
        assert Numeric("age", 0, 100) in Schema.from_text(draft).columns
        Path("other.txt").write_text(text.replace(",", " , "))
        self.same(shell, expected, "other.txt")
        Path("other.txt").write_text(text.partition("\n")[2])
        self.same(shell, expected, "other.txt", "--header", "job,age,income")
        Path("other.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
        self.same(shell, expected, "other.txt")

    def test_compressed(self, shell, expected):
        plain = Path("people.csv").read_bytes()
        for codec in ("gzip", "bz2", "zstd", "lz4"):
            with pyarrow.CompressedOutputStream("packed", codec) as file:
                file.write(plain)
            self.same(shell, expected, "packed")
        self.same(shell, expected, "-", stdin=plain)
        self.same(shell, expected, "-", stdin=gzip.compress(plain))

    def test_parquet(self, shell, expected):
        frame = people()
        frame[:100].to_parquet("a.parquet", index=False)
        frame[100:].to_parquet("b.pq", index=False)
        self.same(shell, expected, "a.parquet", "b.pq")
        frame.to_parquet("all.parquet", index=False)
        self.same(shell, expected, "-", stdin=Path("all.parquet").read_bytes())

    @pytest.mark.parametrize(
        ("content", "options", "message"),
        [
            ("job;age;income\ncook;3;>50K\n", ["--separator", ","], "looks separated by ';', not by ','"),
            ("cook,3,>50K\n", [], "--header the columns of a file that does not begin with their names"),
            ("job,age,income,age\ncook,3,>50K,4\n", [], "two columns called 'age'"),
            ("job,age,income,pay\ncook,3,>50K,4\n", [], "does not describe column 'pay'"),
            ("job;age;income\ncook;3,5;>50K\n", [], "got '3,5'. Correct the file, or say how it is written"),
            ("job,age,income\ncook,3,>50K\n", ["--decimal", ","], "--decimal must be '.' or ','"),
            ("cook,3,>50K\ncook,x,>50K\n", ["--header", "job,age,income"], "line 2 (row 1), column 'age'"),
            ("job,age,income\n", [], "no records"),
            ("job,age,income\ncook,3,50K\n", [], "the label '50K' at row 0"),
        ],
    )
    def test_what_is_wrong(self, shell, content, options, message):
        Path("odd.csv").write_text(content)
        assert message in shell("fit", "odd.csv", *FIT, *options, code=1).stderr

    def test_files_that_differ(self, shell):
        people().rename(columns={"job": "work"}).to_csv("other.csv", index=False)
        shown = shell("fit", "people.csv", "other.csv", *FIT, code=1).stderr
        assert "other.csv has the columns 'work'" in shown
        people().to_parquet("other.parquet")
        assert "files of one kind" in shell("fit", "people.csv", "other.parquet", *FIT, code=1).stderr
        Path("empty").mkdir()
        assert "holds no CSV" in shell("fit", "empty", *FIT, code=1).stderr


class TestFit:
    @pytest.mark.parametrize(
        ("name", "kind", "options"),
        [
            ("svc", LinearSVC, {}),
            ("huber", HuberRegressor, {"threshold": 5.0}),
            ("ridge", HuberRegressor, {"threshold": np.inf}),
            ("quantile", QuantileRegressor, {"quantile": 0.9}),
        ],
    )
    def test_estimators(self, shell, name, kind, options):
        label = "income" if name == "svc" else "age"
        settings = [f"--set={key}={value}" for key, value in options.items() if name != "ridge"]
        terms = ["--label", label, "--estimator", name, "--l2", "0.01", "-o", "model.json"]
        shell("fit", "people.csv", *EXACT, *settings, *terms)
        schema = Schema.from_toml("all.toml")
        own = Schema([each for each in schema.columns if each.name != label], name="people")
        given = {"classes": ["<=50K", ">50K"]} if name == "svc" else {"target_bound": 100.0}
        expected = kind(epsilon=np.inf, l2=0.01, schema=own, **options, **given)
        expected.fit(people().drop(columns=label), people()[label])
        np.testing.assert_array_equal(model().coef_, expected.coef_)

    def test_more_than_two_labels(self, shell):
        frame = people().assign(income=np.resize(["a", "b", "c"], 600))
        frame.to_csv("three.csv", index=False)
        labels = [word for each in "abc" for word in ("--class", each)]
        solver = ["--solver", "noisy_gd", "--set", "steps=3"]
        shell("fit", "three.csv", *FIT, *labels, *solver, "-o", "model.json")
        assert model().coef_.shape == (3, 3)
        shown = json.loads(shell("inspect", "model.json", "--json").stdout)
        assert shown["classes"] == ["a", "b", "c"]
        assert list(shown["coefficients"][0]) == ["column", "category", "a", "b", "c"]

    def test_settings_reach_the_solver(self, shell):
        settings = ["steps=7", "fit_intercept=false", "momentum=0.5", "learn_scales=false"]
        options = [word for each in settings for word in ("--set", each)]
        shell("fit", "people.csv", *FIT, "--solver", "noisy_gd", *options, "-o", "model.json")
        public = model().privacy_.public
        assert (model().privacy_.steps, public["momentum"], public["fit_intercept"]) == (7, 0.5, False)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--set", "stepss=7"], "did you mean 'steps'?"),
            (["--set", "steps"], "must have the form key=value"),
            (["--set", "steps=7.5"], "steps must be a whole number or none, got '7.5'"),
            (["--set", "fit_intercept=maybe"], "fit_intercept must be true or false"),
            (["--set", "epsilon=9"], "it is --epsilon"),
            (["--set", "random_state=0"], "it cannot be set"),
            (["--solver", "noisy_gd", "--set", "shrink=1"], "known to neither"),
            (["--set", "generations=3"], "['generations'] are unknown to whitened_gd"),
            (["--estimator", "lasso"], "--estimator must be one of logistic"),
            (["--target-bound", "1"], "--target-bound is for numbers"),
            (["--estimator", "ridge", "--positive", ">50K"], "are for labels"),
        ],
    )
    def test_settings_that_are_refused_before_the_charge(self, shell, options, message):
        shell("budget", "create", "people", "--epsilon", "3", "--delta", "1e-5")
        out = ["--ledger", "people", "-o", "model.json"]
        assert message in shell("fit", "people.csv", *FIT, *out, *options, code=1).stderr
        assert not history()

    def test_a_configuration(self, shell):
        text = """data = ["people.csv"]
schema = "all.toml"
label = "income"
epsilon = 1
delta = 1e-6
solver = "noisy_gd"
model = "model.json"
set = { steps = 4, learn_scales = false }
"""
        Path("fit.toml").write_text(text)
        shell("fit", "--config", "fit.toml", "--epsilon", "0.5")
        assert (model().privacy_.epsilon, model().privacy_.steps) == (0.5, 4)
        for line, message in [
            ("colour = 3", "'colour', which is no option of 'dperm fit'"),
            ('class = "a"', "class in the configuration must be a list"),
            ("l2 = [1]", "l2 in the configuration must not be a list"),
            ("l2 =", "Invalid value"),
        ]:
            Path("fit.toml").write_text(text + line)
            assert message in shell("fit", "--config", "fit.toml", code=1).stderr

    def test_warnings_of_weak_terms(self, shell):
        weak = ["--epsilon", "11", "--delta", "0.01", "--set", "steps=2", "--solver", "noisy_gd"]
        shown = shell("fit", "people.csv", *FIT, *weak).stderr
        assert "no less than one over the number of records (600)" in shown
        assert "epsilon = 11 is a weak guarantee" in shown
        assert (
            "warning" not in shell("fit", "people.csv", *FIT, "--n-public", "600", "--set", "clip=1").stderr
        )


class TestPredict:
    @pytest.fixture(autouse=True)
    def fitted(self, shell):
        shell("fit", "people.csv", *EXACT, "-o", "model.json")

    def test_outputs(self, shell):
        expected = LogisticRegression.predict(model(), pd.read_csv("test.csv")[["job", "age"]])
        for name, reader in [
            ("a.csv", pd.read_csv),
            ("a.csv.gz", pd.read_csv),
            ("a.csv.bz2", pd.read_csv),
            ("a.csv.zst", read_by_arrow),
            ("a.csv.lz4", read_by_arrow),
            ("a.parquet", pd.read_parquet),
        ]:
            shell("predict", "model.json", "test.csv", "--keep", "age", "--name", "guess", "-o", name)
            scored = reader(name)
            assert list(scored) == ["age", "guess"]
            np.testing.assert_array_equal(scored["guess"], expected)
            assert "--force" in shell("predict", "model.json", "test.csv", "-o", name, code=1).stderr
        records = Path("test.csv").read_bytes()
        text = shell("predict", "model.json", "-", "--keep", "age", stdin=records).stdout
        np.testing.assert_array_equal([line.split(",")[1] for line in text.splitlines()[1:]], expected)

    def test_cells_are_copied_as_they_are(self, shell):
        Path("odd.csv").write_text('job;age;note\ncook;7;"a;""b"""\nnurse; 007 ;NA\n')
        lines = shell("predict", "model.json", "odd.csv").stdout.splitlines()
        assert lines[0] == "job;age;note;prediction"
        assert lines[1].startswith('"cook";"7";"a;""b""";')
        assert lines[2].startswith('"nurse";"007";"NA";')

    def test_many_blocks(self, shell, monkeypatch):
        whole = shell("predict", "model.json", "test.csv").stdout
        monkeypatch.setattr("dperm.cli.inputs._BLOCK_BYTES", 500)
        assert shell("predict", "model.json", "test.csv").stdout == whole
        with open("test.csv", "a") as file:
            file.write("poet,3,>50K\n")
        shown = shell("predict", "model.json", "test.csv", "-o", "scored.csv", code=1).stderr
        assert "rows from " in shown
        assert "column 'job' holds 'poet'" in shown
        assert not Path("scored.csv").exists()

    def test_what_is_refused(self, shell):
        people(9).assign(prediction=1).to_csv("scored.csv", index=False)
        assert "'prediction' already" in shell("predict", "model.json", "scored.csv", code=1).stderr
        shell("fit", "people.csv", *EXACT, "--estimator", "svc", "-o", "svc.json")
        shown = shell("predict", "svc.json", "test.csv", "--probabilities", code=1).stderr
        assert "no probabilities" in shown
        Path("bad.json").write_text('{"a": ')
        assert "bad.json" in shell("predict", "bad.json", "test.csv", code=1).stderr


class TestEvaluate:
    @pytest.fixture(autouse=True)
    def fitted(self, shell):
        shell("fit", "people.csv", *EXACT, "-o", "model.json")

    def test_exact(self, shell):
        options = ["--exact", "--metric", "accuracy", "--json"]
        shown = shell("evaluate", "model.json", "test.csv", *options).stdout
        found = json.loads(shown)["metrics"]["accuracy"]["value"]
        truth = pd.read_csv("test.csv")
        assert found == pytest.approx(np.mean(model().predict(truth[["job", "age"]]) == truth["income"]))
        assert "EXACT and NOT private" in shell("evaluate", "model.json", "test.csv", "--exact").stdout

    def test_without_a_ledger_it_says_so(self, shell):
        assert "No ledger was charged" in shell("evaluate", "model.json", "test.csv", *BUDGET).stdout

    def test_what_is_refused(self, shell):
        shell("evaluate", "model.json", "test.csv", code=2)
        shell("evaluate", "model.json", "test.csv", "--exact", "--epsilon", "1", code=2)
        shell("budget", "create", "people", "--epsilon", "0.5", "--delta", "1e-5")
        refused = shell("evaluate", "model.json", "test.csv", *BUDGET, "--ledger", "people", code=3)
        assert "Nothing was charged" in refused.stderr
        wrong = shell("evaluate", "model.json", "test.csv", *BUDGET, "--metric", "beauty", code=1)
        assert "beauty" in wrong.stderr


def test_labels_against_all_others_are_evaluated_alike(shell):
    frame = people()
    frame.loc[:50, "income"] = "unknown"
    frame.to_csv("three.csv", index=False)
    labels = [word for each in ("<=50K", ">50K", "unknown") for word in ("--class", each)]
    shell("fit", "three.csv", *EXACT, *labels, "--positive", ">50K", "-o", "model.json")
    shown = shell("evaluate", "model.json", "three.csv", "--exact", "--metric", "accuracy", "--json").stdout
    truth = np.where(frame["income"] == ">50K", ">50K", "not >50K")
    expected = np.mean(model().predict(frame[["job", "age"]]) == truth)
    assert json.loads(shown)["metrics"]["accuracy"]["value"] == pytest.approx(expected)


def test_tune(shell):
    shell("budget", "create", "people", "--epsilon", "3", "--delta", "1e-5")
    options = [*FIT, "--grid", "l2=1e-3,1e-1", "--grid", "fit_intercept=true,false", "--ledger", "people"]
    shown = shell("tune", "people.csv", *options, "--refit", "-o", "model.json").stdout
    assert shown.startswith("Best of 4: fit_intercept=")
    assert len(history()) == 1
    assert model().privacy_.public["candidates"] == 4
    for command, option in (("tune", "--grid"), ("fit", "--set")):
        shown = shell(command, "people.csv", *FIT, option, "C=1", code=1).stderr
        assert "l2 is the ridge strength" in shown
    assert "'colour' is none of" in shell("tune", "people.csv", *FIT, "--grid", "colour=1", code=1).stderr
    assert "l2 must be a number" in shell("tune", "people.csv", *FIT, "--grid", "l2=1,b", code=1).stderr
    assert len(history()) == 1
    people().assign(survey=2.0).to_csv("weighted.csv", index=False)
    weighted = ["--weight-column", "survey", "--weight-bound", "3", "--class-weight", ">50K=2"]
    shown = shell("tune", "weighted.csv", *FIT, "--grid", "l2=1e-3,1e-1", *weighted, "--json").stdout
    assert json.loads(shown)["privacy"]["public"]["scoring"] == "errors, weighted"


class TestAllCommands:
    def test_version_and_exit_codes(self, shell):
        assert shell("--version").stdout == f"dperm {__version__}\n"
        assert "130 interrupted" in " ".join(shell("--help").stdout.split())
        shell("fit", "people.csv", code=2)

    def test_json(self, shell):
        shell("fit", "people.csv", *EXACT, "-o", "model.json")
        shell("budget", "create", "people", "--epsilon", "3", "--delta", "1e-5")
        for words in [
            ["fit", "people.csv", *FIT],
            ["inspect", "model.json"],
            ["schema", "show", "all.toml"],
            ["schema", "template", "people.csv"],
            ["demo", "--repetitions", "1"],
            ["budget", "create", "people", "--epsilon", "3", "--delta", "1e-5"],
            ["budget", "show"],
            ["budget", "history", "people"],
            ["budget", "close", "people"],
            ["info"],
        ]:
            json.loads(shell(*words, "--json", "--quiet").stdout)

    def test_quiet_and_verbose(self, shell):
        loud = shell("fit", "people.csv", *FIT, "--verbose").stderr
        assert "600 records" in loud
        assert "no ledger was charged" in loud
        assert shell("fit", "people.csv", *FIT, "--n-public", "600", "--quiet").stderr == ""
        assert logging.getLogger("dperm").level == logging.NOTSET

    def test_an_interrupt_while_reading(self, shell, monkeypatch):
        def stopped(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("dperm.cli.inputs.csv_columns", stopped)
        shown = shell("fit", "people.csv", *FIT, code=130).stderr
        assert "interrupted; nothing was charged" in shown
        assert "interrupted" in shell("schema", "template", "people.csv", code=130).stderr


@pytest.mark.parametrize("frame", [True, False])
def test_models_that_python_fitted(shell, frame):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-0.5, 0.5, (300, 2)), columns=["a", "b"])
    truth = (table["a"] > 0).astype(int)
    fitted = LogisticRegression(epsilon=np.inf, l2=0.01, classes=[0, 1], row_norm=1.3)
    records = table if frame else table.to_numpy()
    fitted.fit(records, truth).save("model.json")
    table.assign(truth=truth).to_csv("truth.csv", index=False)
    columns = [] if frame else ["--keep", "a"]
    data = "truth.csv"
    if not frame:  # it knows no names, so that every column is one of its own
        table.to_csv("table.csv", index=False)
        data = "table.csv"
    text = shell("predict", "model.json", data, *columns).stdout
    found = [int(line.rpartition(",")[2]) for line in text.splitlines()[1:]]
    assert found == fitted.predict(records).tolist()
    assert "--label names" in shell("evaluate", "model.json", "truth.csv", "--exact", code=1).stderr
    options = ["--exact", "--label", "truth", "--metric", "accuracy", "--json"]
    found = json.loads(shell("evaluate", "model.json", "truth.csv", *options).stdout)
    assert found["metrics"]["accuracy"]["value"] == pytest.approx(fitted.score(records, truth))
    assert "a" in shell("inspect", "model.json").stdout
