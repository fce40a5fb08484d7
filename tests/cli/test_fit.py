"""``dperm fit`` and ``dperm schema``: from a file to a model, and the messages when it fails."""

import errno
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dperm import Categorical, LogisticRegression, Numeric, Schema, load
from dperm.cli.models import read

from .conftest import BUDGET, history

pytest.importorskip("pyarrow")

SCHEMA = Schema(
    [Numeric("age", 0, 100, missing="column"), Categorical("job", ["farmer", "nurse", "?"])], name="people"
)


def people(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    job, age = rng.choice(["farmer", "nurse", "?"], n), rng.integers(0, 100, n)
    label = np.where((job == "nurse") + age / 50 + 0.1 * rng.normal(size=n) > 1.2, ">50K", "<=50K")
    return pd.DataFrame({"job": job, "age": age, "income": label})


@pytest.fixture
def run(command):
    SCHEMA.to_toml("people.toml")
    people().to_csv("people.csv", index=False)
    people().to_parquet("people.parquet", index=False)
    people(500, seed=1).to_csv("test.csv", index=False)
    return command


@pytest.fixture
def budget(run):
    run("budget", "create", "people", "--epsilon", "2", "--delta", "1e-5")


def fit(run, data="people.csv", *arguments, **keywords):
    labels = [] if "--class" in arguments else ["--positive", ">50K", "--class", "<=50K", "--class", ">50K"]
    common = ["--schema", "people.toml", "--label", "income", *labels, *BUDGET]
    return run("fit", data, *common, *arguments, **keywords)


def read_model():
    return read(Path("model.json"))[0]


class TestFit:
    def test_a_charge_notes_what_it_is_for(self, run, budget, monkeypatch):
        monkeypatch.setenv("DPERM_BY", "A. Turing")
        who = ["--ledger", "people", "--purpose", "annual report"]
        fit(run, "people.csv", *who, "--model", "model.json")
        run("evaluate", "model.json", "test.csv", *BUDGET, *who, "--by", "C. Shannon")
        made, judged = history()
        noted = {"purpose": "annual report", "model_file": "model.json", "label": "income"}
        assert noted | {"by": "A. Turing"} == {key: made.statement[key] for key in [*noted, "by"]}
        assert judged.statement["by"] == "C. Shannon"
        assert noted.items() <= judged.statement.items()
        report = run("budget", "report", "people").stdout
        assert "for annual report; by C. Shannon; model model.json; predicts 'income'" in report
        assert "Mechanism: evaluate" in report
        assert "step_size" not in report
        shown = fit(run, "people.csv", "--purpose", "none", "-o", "b.json", code=2).stderr
        assert "--ledger NAME" in shown

    @pytest.mark.parametrize("data", ["people.csv", "people.parquet"])
    def test_curves(self, run, budget, data):
        fit(run, data, "--additive", "--drop-missing-labels", "--ledger", "people", "--model", "model.json")
        model, (made,) = read_model(), history()
        assert made.statement["functions"] == model.privacy_.public["functions"] >= 1
        assert model.schema.columns[0].functions == made.statement["functions"]
        run("evaluate", "model.json", "test.csv", *BUDGET, "--ledger", "people")

    def test_records_without_a_label_are_left_out(self, run):
        whole = people().assign(survey=np.arange(2000) % 3)
        whole.loc[::7, "income"] = None
        models = []
        for name, table in (("gaps.csv", whole), ("gaps.parquet", whole), ("full.csv", whole.dropna())):
            table.to_parquet(name, index=False) if "parquet" in name else table.to_csv(name, index=False)
            drop = [] if name == "full.csv" else ["--drop-missing-labels"]
            weights = ["--weight-column", "survey", "--weight-bound", 2, "--epsilon", "inf"]
            fit(run, name, *weights, *drop, "--model", "model.json", "--force")
            models.append(read_model().coef_)
            run("evaluate", "model.json", name, "--exact", *drop)
        assert all(np.array_equal(each, models[2]) for each in models)
        options = ["--drop-missing-labels", "--neighbors", "replace_one"]
        assert "is for neighbors='add_or_remove'" in fit(run, "gaps.csv", *options, code=1).stderr

    @pytest.mark.parametrize("data", ["people.csv", "people.parquet"])
    def test_the_model_predicts_and_the_statement_is_printed(self, run, data):
        output = fit(run, data, "--model", "model.json").stdout
        assert "Differentially private (epsilon = 1, delta = 1e-06)" in output
        assert "'people', 2 columns as 5" in " ".join(output.split())
        model = read_model()
        assert model.schema == SCHEMA
        assert model.classes_.tolist() == ["<=50K", ">50K"]
        assert model.privacy_.epsilon == 1.0
        frame = people(500, seed=1)
        X = SCHEMA.encode(frame.drop(columns="income")).to_dense()
        positive = X @ model.coef_[0] + model.intercept_[0] > 0
        assert np.mean(positive == (frame["income"] == ">50K")) > 0.9
        np.testing.assert_array_equal(model.predict(frame.drop(columns="income")) == ">50K", positive)

    def test_the_number_of_records_is_published_with_a_warning_unless_it_was_given(self, run):
        assert "n_public was not given" in fit(run).stderr
        output = fit(run, "people.csv", "--n-public", "1900")
        assert "n_public" not in output.stderr
        assert "n = 1900;" in " ".join(output.stdout.split())
        assert "2,000" not in output.stdout + output.stderr

    def test_accuracy_on_another_file_is_labelled(self, run):
        assert "Accuracy" not in fit(run).stdout
        output = fit(run, "people.csv", "--test", "test.csv").stdout
        share = float(output.split("Accuracy on test.csv: ")[1].split(" %")[0])
        assert share > 90
        assert "this number is NOT private towards its records" in output

    def test_the_estimator_gives_the_same(self, run):
        fit(run, "people.csv", "--epsilon", "inf", "--model", "model.json")
        frame = people()
        model = LogisticRegression(epsilon=np.inf, classes=["<=50K", ">50K"], schema=SCHEMA)
        model.fit(frame.drop(columns="income"), frame["income"])
        np.testing.assert_array_equal(read_model().coef_, model.coef_)

    def test_named_classes(self, run):
        fit(run, "people.csv", "--class", "<=50K", "--class", ">50K", "-o", "model.json")
        assert read_model().classes_.tolist() == ["<=50K", ">50K"]

    def test_spaces_around_cells_do_not_count(self, run):
        people().to_csv("spaces.csv", index=False)
        header, *lines = Path("spaces.csv").read_text().splitlines()
        padded = [header, *(line.replace(",", ", ") for line in lines)]
        Path("spaces.csv").write_text("\n".join(padded))
        outputs = []
        for data in ("people.csv", "spaces.csv"):
            fit(run, data, "--epsilon", "inf", "-o", "model.json", "--force")
            outputs.append(read_model().coef_)
        np.testing.assert_array_equal(*outputs)

    def test_words_for_missing_numbers_are_texts_among_texts(self, run):
        frame = people()
        frame["job"] = frame["job"].replace({"farmer": "NA", "nurse": "null"})
        frame["income"] = frame["income"].replace({">50K": "NA"})
        frame["age"] = frame["age"].astype(float).where(frame["age"] > 9)
        columns = [SCHEMA.columns[0], Categorical("job", ["NA", "null", "?"])]
        Schema(columns, name="people").to_toml("people.toml")
        frame.to_parquet("na.parquet", index=False)
        frame.to_csv("na.csv", index=False, na_rep="NA")
        models = []
        for data in ("na.parquet", "na.csv"):
            labels = ["--class", "<=50K", "--class", "NA"]
            fit(run, data, *labels, "--epsilon", "inf", "-o", "model.json", "--force")
            models.append(read_model())
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)

    def test_the_ledger_is_charged(self, run, budget):
        shown = fit(run, "people.csv", "--ledger", "people", "-o", "model.json").stdout
        assert "charged to the ledger 'people'" in " ".join(shown.split())
        assert [entry.epsilon for entry in history()] == [1.0]
        shown = fit(run, "people.csv", "--ledger", "people", "--epsilon", "1.99", "-o", "other.json", code=3)
        assert "Privacy budget exceeded" in shown.stderr
        assert len(history()) == 1

    def test_the_relation_is_the_ledgers(self, run):
        run("budget", "create", "people", "--epsilon", "2", "--delta", "1e-5", "--neighbors", "replace_one")
        fit(run, "people.csv", "--ledger", "people", "--epsilon", "0.5", "-o", "model.json")
        assert read_model().privacy_.neighbors == "replace_one"

    def test_labels_from_the_schema(self, run):
        columns = [*SCHEMA.columns, Categorical("income", ["<=50K", ">50K"])]
        Schema(columns, name="people").to_toml("people.toml")
        options = ["--schema", "people.toml", "--label", "income", *BUDGET, "--epsilon", "inf", "-o"]
        run("fit", "people.csv", *options, "model.json")
        without = read_model()
        run("fit", "people.csv", *options, "model.json", "--force", "--positive", "<=50K")
        assert without.classes_.tolist() == read_model().classes_.tolist() == ["<=50K", ">50K"]
        assert (without.pos_label_, read_model().pos_label_) == (">50K", "<=50K")
        np.testing.assert_array_equal(without.coef_, read_model().coef_)

    def test_a_positive_label_among_several(self, run):
        frame = people()
        frame.loc[:100, "income"] = "unknown"
        frame.to_csv("three.csv", index=False)
        labels = [word for label in ("<=50K", ">50K", "unknown") for word in ("--class", label)]
        fit(run, "three.csv", *labels, "--positive", ">50K", "-o", "model.json")
        assert read_model().classes_.tolist() == [">50K", "not >50K"]
        assert read_model().pos_label_ == ">50K"

    def test_a_constant_label_column_is_no_error(self, run):
        people().assign(income="<=50K").to_csv("constant.csv", index=False)
        fit(run, "constant.csv", "-o", "model.json")
        assert read_model().privacy_.epsilon == 1.0

    def test_weights_of_classes(self, run):
        weighing = ["--class-weight", ">50K=2", "--class-weight", "<=50K=1"]
        fit(run, "people.csv", *weighing, "--epsilon", "inf", "-o", "model.json")
        frame = people()
        model = LogisticRegression(
            np.inf, classes=["<=50K", ">50K"], schema=SCHEMA, class_weight={">50K": 2.0}
        ).fit(frame.drop(columns="income"), frame["income"])
        np.testing.assert_array_equal(read_model().coef_, model.coef_)
        facts = json.loads(fit(run, "people.csv", *weighing, "--json").stdout)
        assert facts["privacy"]["public"]["class_weight"] == {"<=50K": 1.0, ">50K": 2.0}
        fit(run, "people.csv", "--class-weight", "private", "-o", "model.json", "--force")
        assert 0 < read_model().privacy_.public["class_weight"][">50K"] <= 10

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_a_column_of_weights(self, run, kind):
        """Private, never a feature even if in the schema, 0 where missing, and not needed in other files."""
        frame = people()
        given = np.random.default_rng(2).uniform(0, 4, len(frame))
        given[:5] = np.nan
        weighted = frame.assign(survey=given)
        weighted.to_csv("weighted.csv", index=False)
        weighted.to_parquet("weighted.parquet", index=False)
        Schema([*SCHEMA.columns, Numeric("survey", 0, 9)], name="people").to_toml("weighing.toml")
        options = ["--weight-column", "survey", "--weight-bound", 3, "--epsilon", "inf", "--test", "test.csv"]
        people(500, seed=1).assign(survey=1).to_csv("test.csv", index=False)
        model = LogisticRegression(np.inf, classes=["<=50K", ">50K"], schema=SCHEMA, weight_bound=3.0)
        model.fit(frame.drop(columns="income"), frame["income"], sample_weight=given)
        for schema in ("people.toml", "weighing.toml"):
            fit(run, f"weighted.{kind}", *options, "--schema", schema, "-o", "model.json", "--force")
            np.testing.assert_array_equal(read_model().coef_, model.coef_)
            assert read_model().privacy_.public["weight_bound"] == 3.0
        run("predict", "model.json", "people.csv")

    @pytest.mark.parametrize("charged", [False, True])
    def test_ctrl_c_says_what_was_charged(self, run, budget, monkeypatch, charged):
        def stopped(self, X, y, **weights):
            if charged:
                self.ledger.charge(epsilon=1.0, delta=1e-6, description="noisy_gd")
            raise KeyboardInterrupt

        monkeypatch.setattr(LogisticRegression, "fit", stopped)
        shown = fit(run, "people.csv", "--ledger", "people", "-o", "model.json", code=130).stderr
        words = "epsilon=1, delta=1e-06 was charged for 'noisy_gd'" if charged else "nothing was charged"
        assert words in " ".join(shown.split())
        assert "no model was written" in shown
        assert not Path("model.json").exists()


class TestErrors:
    @pytest.fixture(autouse=True)
    def uncharged(self, budget):
        yield
        assert not history()

    def fails(self, run, message, data, *arguments):
        out = [] if "-o" in arguments else ["-o", "new.json"]
        shown = fit(run, data, "--ledger", "people", *out, *arguments, code=1).stderr
        assert shown.startswith("dperm: ")
        assert "Traceback" not in shown
        assert message in " ".join(shown.split())

    def test_files(self, run, tmp_path):
        self.fails(run, "there is no file 'none.csv'", "none.csv")
        self.fails(run, "No such file", "people.csv", "--schema", "none.toml")
        (tmp_path / "broken.parquet").write_bytes(b"PAR1 or not")
        self.fails(run, "broken.parquet cannot be read", "broken.parquet")
        (tmp_path / "bad.toml").write_text("[[columns]]\nname = 3")
        self.fails(run, "type must be 'numeric' or 'categorical'", "people.csv", "--schema", "bad.toml")

    def test_records(self, run):
        people().assign(extra=1).to_csv("extra.csv", index=False)
        self.fails(run, "does not describe column 'extra'", "extra.csv")
        people().assign(job="poet").to_csv("job.csv", index=False)
        self.fails(run, "column 'job' holds 'poet' at row 0", "job.csv")
        people().assign(age="old").to_csv("age.csv", index=False)
        wrong = "age.csv, line 2 (row 0), column 'age': expected a number, got 'old'. Correct the file"
        self.fails(run, wrong, "age.csv")
        people().assign(income=None).to_csv("income.csv", index=False)
        missing = "column 'income' holds no label at row 0. --drop-missing-labels leaves such records out"
        self.fails(run, missing, "income.csv")

    def test_files_under_a_wrong_name(self, run):
        people().to_parquet("table.csv", index=False)
        self.fails(run, "table.csv is a Parquet file, not CSV", "table.csv")
        people().to_csv("table.parquet", index=False)
        self.fails(run, "table.parquet is text, not Parquet", "table.parquet")

    def test_labels(self, run):
        self.fails(run, "there is no column 'pay'; the columns are 'job'", "people.csv", "--label", "pay")
        labels = ["--class", "<=50K", "--class", "50K"]
        self.fails(run, "label '>50K' at row 0, which is not in classes", "people.csv", *labels)
        without = ["people.csv", "--schema", "people.toml", "--label", "income", *BUDGET]
        assert "name the labels" in run("fit", *without, code=1).stderr
        labels = ["--class", "<=50K", "--class", ">50K", "--positive", "magic"]
        self.fails(run, "'magic' is not one of the labels", "people.csv", *labels)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--class-weight", "2"], "must be 'private' or LABEL=NUMBER, got '2'"),
            (["--class-weight", "<=50K"], "must be 'private' or LABEL=NUMBER"),
            (["--class-weight", "rich=2"], "'rich' is not one of"),
            (["--class-weight", ">50K=0"], "must be positive"),
            (["--class-weight", ">50K=nan"], "must be positive"),
            (["--class-weight", ">50K=2", "--class-weight", "private"], "'private' or LABEL=NUMBER"),
            (["--class-weight", ">50K=2", "--class-weight", ">50K=3"], "names a label twice"),
            (["--class-weight", ">50K=2", "--set", "class_weight=private"], "it is --class-weight"),
            (["--class-weight", ">50K=2", "--solver", "privgene"], "takes no weights"),
            (["--weight-column", "age"], "go together"),
            (["--weight-bound", "3"], "go together"),
            (["--weight-column", "age", "--weight-bound", "-3"], "weight_bound must be positive"),
            (["--weight-column", "survey", "--weight-bound", "3"], "there is no column 'survey'"),
            (["--weight-column", "income", "--weight-bound", "3"], "is the column to predict"),
            (["--weight-column", "job", "--weight-bound", "3"], "'job': expected a number"),
        ],
    )
    def test_weights(self, run, options, message):
        self.fails(run, message, "people.csv", *options)

    def test_weights_of_numbers(self, run):
        regression = ["--estimator", "huber", "--label", "age", "--class-weight", "1=2", *BUDGET]
        assert "--class-weight is for labels" in run(
            "fit", "people.csv", "--schema", "people.toml", *regression, code=1
        ).stderr  # fmt: skip
        people().to_parquet("people.parquet", index=False)
        texts = ["--weight-column", "job", "--weight-bound", "3"]
        self.fails(run, "column 'job' must hold numbers", "people.parquet", *texts)

    def test_outputs_before_the_charge(self, run, tmp_path):
        self.fails(run, "No such file", "people.csv", "-o", "none/model.json")
        self.fails(run, "is a folder", "people.csv", "-o", str(tmp_path))
        Path("model.json").write_text("mine")
        self.fails(run, "--force to write over it", "people.csv", "-o", "model.json")
        assert Path("model.json").read_text() == "mine"
        self.fails(run, "there is no file 'none.csv'", "people.csv", "--test", "none.csv")
        people(9).assign(income="?").to_csv("odd.csv", index=False)
        self.fails(run, "label '?' at row 0, which is not in classes", "people.csv", "--test", "odd.csv")

    def test_a_full_disk_before_the_charge(self, run, monkeypatch):
        def full(number, start, size):
            raise OSError(errno.ENOSPC, "full")

        monkeypatch.setattr(os, "posix_fallocate", full)
        self.fails(run, "No space left on device", "people.csv", "-o", "model.json")
        assert not list(Path().glob("*.new"))

    def test_no_exact_model_with_a_ledger(self, run):
        for options in (["--epsilon", "inf"], ["--solver", "nonprivate"]):
            self.fails(run, "cannot be charged to a ledger", "people.csv", *options)

    def test_settings(self, run):
        self.fails(run, "epsilon must be a positive number", "people.csv", "--epsilon", "-1")
        self.fails(run, "solver must be", "people.csv", "--solver", "magic")
        self.fails(run, "There is no ledger 'adult'", "people.csv", "--ledger", "adult")

    def test_without_pyarrow(self, run, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        self.fails(run, "pip install 'dperm[data]'", "people.csv")


class TestSchema:
    def test_a_template_is_a_draft_that_reads_back(self, run):
        result = run("schema", "template", "people.csv", "-o", "draft.toml")
        assert "warning: this schema was read from the data" in result.stderr
        text = Path("draft.toml").read_text()
        assert text.startswith("# DRAFT, read from the data: NOT private")
        schema = Schema.from_toml("draft.toml")
        job, age, label = schema.columns
        assert (job, age) == (Categorical("job", ["?", "farmer", "nurse"]), Numeric("age", 0, 100))
        assert isinstance(label, Categorical)
        drafted = Schema.from_text(run("schema", "template", "people.csv", "--label", "income").stdout)
        assert (drafted.columns, drafted.label, drafted.draft) == ((job, age), label, True)
        assert (
            "not written over" in run("schema", "template", "people.csv", "-o", "draft.toml", code=1).stderr
        )

    @pytest.mark.parametrize("name", ["codes.csv", "codes.parquet"])
    def test_a_label_of_numbers_is_drafted_as_labels(self, run, name):
        codes = pd.DataFrame({"age": [1.5, 2.0, 7.0, 3.0], "sick": [0, 1, 1, 0]})
        codes.to_csv(name, index=False) if name.endswith("csv") else codes.to_parquet(name)
        run("schema", "template", name, "--label", "sick", "-o", "codes.toml")
        assert Schema.from_toml("codes.toml").label == Categorical("sick", [0, 1])
        told = ["--schema", "codes.toml", "--epsilon", "1", "--delta", "1e-3"]
        run("fit", name, *told, "-o", "codes.json")
        assert load("codes.json").classes_.tolist() == ["0", "1"]

    def test_a_template_of_many_blocks_is_that_of_the_table(self, run, monkeypatch):
        n = 400
        table = pd.DataFrame(
            {
                "whole": np.arange(n),
                "real": [*range(n - 1), 0.5],
                "text": [*range(n - 1), "none"],
                "mixed": [*["7"] * (n - 3), "?", "", "true"],
                "truth": np.arange(n) % 2 == 0,
                "empty": None,
                "gap": [*range(n - 1), None],
            }
        )
        table.to_csv("wide.csv", index=False)
        whole = run("schema", "template", "wide.csv").stdout
        monkeypatch.setattr("dperm.cli.inputs._BLOCK_BYTES", 500)
        assert run("schema", "template", "wide.csv").stdout == whole
        mixed = Categorical("mixed", ["7", "?", "true"], missing="zero")
        assert Schema.from_text(whole) == Schema(
            [Numeric("whole", 0, 400), Numeric("real", 0.0, 400.0), mixed,
             Categorical("truth", [False, True]), Numeric("gap", 0, 400, missing="column")],
            "wide", ["text", "empty"],
        )  # fmt: skip
        Path("header.csv").write_text("a,b\n")
        assert "no records to draft" in run("schema", "template", "header.csv", code=1).stderr

    def test_show(self, run):
        shown = run("schema", "show", "people.toml").stdout
        assert "0 to 100" in shown
        assert "3 categories" in shown
        assert f"2 columns, 5 features, row norm {3**0.5:.4g}" in shown
        assert SCHEMA.digest in shown
        assert "dperm: " in run("schema", "show", "none.toml", code=1).stderr
