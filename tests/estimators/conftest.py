import warnings
from contextlib import contextmanager

import pytest

from dperm.accounting import Ledger
from dperm.errors import DefaultBoundWarning, ExactSizeWarning, SeededNoiseWarning


@contextmanager
def no_warnings():
    """Warnings are errors, except those of seeded noise and of public numbers that are not given."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.simplefilter("ignore", ExactSizeWarning)
        warnings.simplefilter("ignore", DefaultBoundWarning)
        yield


@pytest.fixture
def uncharged():
    """A ledger for fits that fail: nothing may be charged to it."""
    ledger = Ledger(100.0, 1e-3)
    yield ledger
    assert not ledger.history()
