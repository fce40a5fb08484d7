"""Progress display, logging and interrupts of a fit."""

import io
import logging
import sys

import numpy as np
import pytest

import dperm
from dperm import LogisticRegression
from dperm.accounting import Ledger

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (400, 2))
Y = X[:, 0] > 0


def fit(callback=None, **keywords):
    options = {"steps": 4} | ({} if callback is None else {"callback": callback})
    own = {"solver": "noisy_gd", "row_norm": 1.3, "classes": [False, True], "solver_options": options}
    return LogisticRegression(**own, **keywords).fit(X, Y)


def test_lines_are_printed_without_a_terminal(capsys):
    callback = dperm.progress("my model")
    for _ in range(2):  # the callback can be reused
        fit(callback)
        assert capsys.readouterr().err.startswith("my model: step 4 of 4, ")


def test_a_broken_pipe_does_not_stop_the_fit(monkeypatch):
    class BrokenPipe(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", BrokenPipe())
    assert fit(dperm.progress(), ledger=Ledger(3.0, 1e-6)).n_iter_ == 4


@pytest.mark.parametrize("library", ["rich", "tqdm", None])
def test_a_progress_bar_by_the_installed_library(capsys, monkeypatch, library):
    if library is not None:
        pytest.importorskip(library)
    for other in {"rich", "tqdm"} - {library}:
        monkeypatch.setitem(sys.modules, other, None)
        monkeypatch.setitem(sys.modules, f"{other}.console", None)
        monkeypatch.setitem(sys.modules, f"{other}.auto", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fit(dperm.progress("my model"))
    shown = capsys.readouterr().err
    assert "my model" in shown
    assert "4" in shown


def test_the_callback_is_closed_after_errors():
    class Callback:
        closed = 0

        def __call__(self, released):
            assert released["steps"] == 4
            raise OSError("no space")

        def close(self):
            self.closed += 1

    callback = Callback()
    with pytest.raises(OSError, match="no space"):
        fit(callback)
    assert callback.closed


def test_an_interrupt_states_the_charge():
    def stop(released):
        raise KeyboardInterrupt

    ledger = Ledger(3.0, 1e-6)
    with pytest.raises(KeyboardInterrupt) as stopped:
        fit(stop, ledger=ledger)
    assert stopped.value.__notes__ == [
        "epsilon = 1, delta = 1e-06 was charged for noisy_gd before this, and stays charged."
    ]
    assert len(ledger.history()) == 1
    with pytest.raises(KeyboardInterrupt) as stopped:
        fit(stop)
    assert not hasattr(stopped.value, "__notes__")


def test_the_logger(caplog):
    with caplog.at_level(logging.DEBUG, logger="dperm"):
        fit(ledger=Ledger(3.0, 1e-6))
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith(
        "noisy_gd on 400 records, 4 steps: epsilon=1, delta=1e-06 charged to the ledger"
    )
    assert lines[1:5] == [f"noisy_gd: step {k} of 4" for k in range(1, 5)]
    assert lines[5].startswith("noisy_gd: done in ")
