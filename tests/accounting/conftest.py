"""Fixtures: ledgers in memory and in a file."""

import pytest

from dperm.accounting import Ledger, open_ledger


@pytest.fixture(params=["memory", "file"])
def make(request, path):
    """A function that makes ledgers, in memory or in a file."""
    if request.param == "memory":
        return Ledger
    return lambda *budget, **terms: open_ledger(path, "data", *budget, **terms)


@pytest.fixture
def path(tmp_path):
    """Path of a ledger file that does not exist yet."""
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path):
    """A new ledger in a file."""
    return open_ledger(path, "adult", 3.0, 1e-6)
