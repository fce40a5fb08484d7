import warnings
from contextlib import contextmanager

import pytest

from dperm.accounting import Ledger
from dperm.errors import SeededNoiseWarning


@contextmanager
def no_warnings():
    """Warnings are errors, except that of seeded noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        yield


@pytest.fixture
def uncharged():
    """A ledger for fits that fail: nothing may be charged to it."""
    ledger = Ledger(100.0, 1e-3)
    yield ledger
    assert not ledger.history()
