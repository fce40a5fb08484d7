"""What was charged is delivered: outputs that fail, and signals before and after the charge."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dperm
from dperm.mechanisms.hooks import replace_noise, samplers
from dperm.metrics import Evaluation

from .conftest import BUDGET, FIT, history, people

COMMANDS = {
    "model": ["fit", "people.csv", *FIT, "--ledger", "people", "-o", "new.json"],
    "evaluation": [
        *["evaluate", "model.json", "test.csv", "--label", "income"],
        *[*BUDGET, "--ledger", "people", "-o", "new.json"],
    ],
    "schema": [
        *["schema", "learn", "people.parquet", "--numeric", "age", "--ignore", "job", "--ignore", "income"],
        *[*BUDGET, "--ledger", "people", "-o", "new.toml"],
    ],
}
LOAD = {"model": dperm.load, "evaluation": Evaluation.load, "schema": dperm.Schema.from_toml}


@pytest.fixture
def prepared(shell):
    frame = people()
    frame.to_parquet("people.parquet", index=False)
    model = dperm.LogisticRegression(schema=dperm.Schema([dperm.Numeric("age", 0, 100)]))
    model.set_params(classes=["<=50K", ">50K"]).fit(frame[["age"]], frame["income"]).save("model.json")
    shell("budget", "create", "people", "--epsilon", "3", "--delta", "1e-5")
    return shell


def kept():
    """What lies beside the ledger."""
    return list(Path().glob("dperm-budget.db.*"))


def one_line(shown):
    return " ".join(shown.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_result_that_cannot_be_written_is_kept(prepared, monkeypatch, name):
    monkeypatch.setattr("dperm.cli.delivery.check_replaceable", lambda path: 1 / 0)
    shown = one_line(prepared(*COMMANDS[name], code=1).stderr)
    (file,) = kept()
    assert f"failed after epsilon=1, delta=1e-06 was charged for {history()[0].description!r}" in shown
    assert f"the {name} is in {file.absolute()}" in shown
    assert len(history()) == 1
    LOAD[name](file)


@pytest.mark.parametrize("times", [1, 2])
def test_signals_after_the_charge(prepared, times):
    """The first one lets the command deliver what is paid for, the second one ends it."""
    draw = samplers().gaussian

    def stopped(*arguments):
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGTERM)
        return draw(*arguments)

    with replace_noise(gaussian=stopped):
        shown = prepared(*COMMANDS["evaluation"], code=0 if times == 1 else 143).stderr
    if times == 1:
        assert "accuracy" in list(Evaluation.load("new.json"))
    else:
        assert "stays charged, and no evaluation was written" in one_line(shown)
    assert len(history()) == 1
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert not kept()


def test_a_signal_before_the_charge(prepared, monkeypatch):
    monkeypatch.setattr("dperm.cli.fit.opened", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    shown = one_line(prepared(*COMMANDS["model"], code=143).stderr)
    assert "interrupted; nothing was charged, and no model was written" in shown
    assert not history()
    assert not kept()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("os.dup2(os.open('/dev/full', os.O_WRONLY), 1)", "No space left on device"),
        pytest.param("os.close(1); sys.stdout = None", "standard output is closed", marks=pytest.mark.slow),
        ("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (99999, 99999))", "File too large"),
    ],
)
def test_outputs_that_cannot_be_written_before_the_charge(prepared, limit, words):
    code = (
        f"import os, sys; {limit}; sys.argv[1:] = {COMMANDS['evaluation']}; import dperm.cli as c; c.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1, done.stderr
    assert words in done.stderr
    assert not history()
    assert not kept()
