"""Charges to a durable ledger, each on disk before the next: ``pytest bench/bench_ledger.py``."""

import os
import tempfile

import pytest

from dperm.accounting import Ledger, open_ledger
from dperm.accounting.ledger import store

CHARGE = {
    "epsilon": 1e-3,
    "delta": 1e-6,
    "description": "noisy_gd",
    "statement": {"clip": 0.25, "steps": 300, "n": 48842, "neighbors": "add_or_remove"},
}


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=os.environ.get("DPERM_BENCH_DISK")) as folder:
        yield folder


@pytest.mark.benchmark(group="charge")
class TestCharge:
    def test_durable(self, benchmark, folder):
        ledger = open_ledger(f"sqlite:///{folder}/budget.db", "data", 3.0, 1e-6)
        benchmark.pedantic(ledger.charge, kwargs=CHARGE, rounds=1000, warmup_rounds=20)

    def test_durable_with_10_000_charges(self, benchmark, folder):
        ledger = open_ledger(f"sqlite:///{folder}/budget.db", "data", 3.0, 1e-6)
        kept = store.connect(ledger.path, os.stat(ledger.path))
        kept.connection.execute("PRAGMA synchronous = OFF")
        for _ in range(10_000):
            ledger.charge(**CHARGE)
        store.discard(ledger.path)
        benchmark.pedantic(ledger.charge, kwargs=CHARGE, rounds=1000, warmup_rounds=20)

    def test_durable_rollback_journal(self, benchmark, folder, monkeypatch):
        monkeypatch.setattr(store, "on_local_file_system", lambda path: False)
        ledger = open_ledger(f"sqlite:///{folder}/budget.db", "data", 3.0, 1e-6)
        benchmark.pedantic(ledger.charge, kwargs=CHARGE, rounds=200, warmup_rounds=5)

    def test_in_memory(self, benchmark):
        ledger = Ledger(3.0, 1e-6)
        benchmark.pedantic(ledger.charge, kwargs=CHARGE, rounds=1000, warmup_rounds=20)

    def test_bare_fdatasync(self, benchmark, folder):
        """One sync of 12 kB on this disk, a lower bound on the time of a charge to any durable ledger."""
        number = os.open(f"{folder}/log", os.O_RDWR | os.O_CREAT)

        def write():
            os.pwrite(number, bytes(12_288), 0)
            os.fdatasync(number)

        benchmark.pedantic(write, rounds=1000, warmup_rounds=20)
        os.close(number)
