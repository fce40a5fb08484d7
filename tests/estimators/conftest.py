import pytest

from dperm.accounting import Ledger


@pytest.fixture
def uncharged():
    """A ledger for fits that fail: nothing may be charged to it."""
    ledger = Ledger(100.0, 1e-3)
    yield ledger
    assert not ledger.history()
