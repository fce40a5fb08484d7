"""The worked example: its results on Adult, its charges, and that it releases nothing else."""

import importlib.util
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dperm.accounting import Ledger, open_ledger
from dperm.audit import replay_check
from dperm.cli.commands import app
from dperm.statement.privacy_statement import PrivacyStatement

SCRIPT = Path(__file__).parent.parent / "docs" / "whole_analysis.py"
ADULT = Path(os.environ.get("DPERM_DATA", "")) / "adult" / "adult.data.gz"

pytestmark = [
    pytest.mark.skipif(not ADULT.is_file(), reason="DPERM_DATA has no adult/"),
    pytest.mark.filterwarnings(
        "ignore::dperm.errors.InferenceWarning", "ignore::dperm.errors.PrivacyWarning"
    ),
]


@pytest.fixture(scope="module")
def example():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("whole_analysis", SCRIPT)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table(example):
    return pd.read_csv(ADULT, names=example.COLUMNS, skipinitialspace=True)


def test_the_script_stays_within_its_budget(example, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", [str(SCRIPT), str(ADULT), str(tmp_path / "budget.db")])
    example.main()
    printed = capsys.readouterr().out
    assert "accuracy" in printed
    assert "sex=Male" in printed
    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db", "adult")
    assert 1.0 < ledger.spent <= 2.0
    report = CliRunner().invoke(app, ["budget", "report", "adult", "--file", str(tmp_path / "budget.db")])
    assert report.exit_code == 0
    charged = ("Schema.learn", "PrivateSearch", "evaluate", "noisy")
    assert all(name in report.output for name in charged)


def test_the_model_is_accurate_and_the_interval_plausible(example, table):
    found = example.analyse(table, Ledger(2.0, 1e-6), n=len(table))
    accuracy = found.evaluation.to_dict()["metrics"]["accuracy"]
    assert accuracy["value"] > 0.835
    assert accuracy["low"] < accuracy["value"] < accuracy["high"]
    intervals = found.intervals.conf_int()
    names = [*found.inference.schema.feature_names, "(intercept)"]
    low, high = intervals[names.index("education-num")]
    assert 3.0 < low < high < 7.0  # of the whole range of years


@dataclass
class Published:
    """The results that a replay compares."""

    numbers: list
    privacy: PrivacyStatement

    def __eq__(self, other):
        return all(
            np.array_equal(a, b, equal_nan=True) for a, b in zip(self.numbers, other.numbers, strict=True)
        )

    __hash__ = None


def test_results_depend_on_the_data_only_through_releases(example, table, monkeypatch):
    """Without one of 3,000 records, replaying the releases gives the same results, within sensitivities."""
    monkeypatch.setattr(secrets, "token_bytes", lambda size: b"\5" * size)  # equal randomness in both runs
    some = table.sample(3000, random_state=0).reset_index(drop=True)

    def run(records):
        ledger = Ledger(20.0, 1e-6, allow_seeded=True)
        found = example.analyse(records, ledger, n=3000, random_state=1)
        weights = [found.model.coef_, found.inference.coef_, found.intervals.conf_int()]
        numbers = [*weights, np.array([each["value"] for each in metrics_of(found)]), ledger.spent]
        return Published(numbers, found.model.privacy_)

    shares = []
    for place in (0, 1234, 2999):
        report = replay_check(run, some, some.drop(index=place).reset_index(drop=True))
        assert report.ok, report
        shares.append(report.largest_share)
    assert max(shares) > 0.3


def metrics_of(found):
    return [each for each in found.evaluation.to_dict()["metrics"].values() if np.isscalar(each.get("value"))]
