"""Files that change while records are read from them are an error, and nothing more is released."""

import os

import numpy as np
import pytest

from dperm import LogisticRegression, Objective
from dperm.accounting import Ledger
from dperm.algorithms import noisy_gd
from dperm.data import scan_parquet
from dperm.errors import DataError
from dperm.objective.gradients import clipped_gradient_sum
from reference.awkward_arrays import ordinary
from reference.record_files import in_parquet_files

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows does not let an open file change")

N, D = 1003, 40
W = np.full(D, 0.1)
X, Y, *_ = ordinary(N, D, np.float32)
# The names of the files that change.
FILES = ["0.parquet", "2.parquet"]
files = pytest.mark.parametrize("name", FILES)


def objective_of(folder):
    """An objective that reads files in the folder."""
    return Objective("logistic", scan_parquet(in_parquet_files(folder, X, Y), label="y", chunk_rows=50))


def truncate(path):
    os.truncate(path, path.stat().st_size - 100)


def append(path):
    with open(path, "ab") as file:
        file.write(b"more")


def overwrite(path):
    """The same size."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\0" * 64)


def remove(path):
    path.unlink()


changes = pytest.mark.parametrize("change", [truncate, append, overwrite, remove])


@changes
@files
def test_a_change_between_passes(tmp_path, name, change):
    objective = objective_of(tmp_path)
    clipped_gradient_sum(objective, W, 0.3)
    change(tmp_path / name)
    for _ in range(2):
        with pytest.raises(DataError, match=r"has changed since training began|cannot be read"):
            clipped_gradient_sum(objective, W, 0.3)


@changes
@pytest.mark.parametrize(("name", "at"), [("2.parquet", 0), ("0.parquet", N)], ids=["at first", "at last"])
def test_a_change_during_a_pass(tmp_path, name, at, change):
    """A change during the work on the first part, or after the last record was read."""
    objective, seen = objective_of(tmp_path), []

    def look(part, here):
        seen.append(here)
        if at in (here.start, here.stop):
            change(tmp_path / name)

    with pytest.raises(DataError):
        list(objective._rows._each(look))
    assert any(at in (here.start, here.stop) for here in seen)


@changes
@files
def test_nothing_is_released_after_a_change(tmp_path, name, change):
    objective, ledger, released = objective_of(tmp_path), Ledger(1.0, 1e-6, allow_seeded=True), []

    def callback(values):
        released.append(values)
        if len(released) == 3:
            change(tmp_path / name)

    with pytest.raises(DataError):
        noisy_gd(objective, 0.5, 1e-7, ledger=ledger, callback=callback, random_state=1)
    assert len(released) == 3
    assert len(ledger.history()) == 1


def test_nothing_is_charged_for_a_file_that_is_not_there(tmp_path):
    ledger = Ledger(1.0, 1e-6, allow_seeded=True)
    paths = [in_parquet_files(tmp_path, X, Y), tmp_path / "gone"]
    with pytest.raises(DataError):
        LogisticRegression(classes=[-1, 1], epsilon=0.1, delta=1e-8, ledger=ledger).fit(
            scan_parquet(paths, label="y")
        )
    assert not ledger.history()
