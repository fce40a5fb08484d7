"""Weights that overflow.

A step size of 10^12 makes the weights grow beyond the largest double: NaN came back, as a model that was
paid for.
"""

import numpy as np
import pytest

from algorithms.every_algorithm import PRIVATE, problem_for
from dperm.accounting import Ledger

SIZES = [1e12, 1e150, 1e300]
STEPPING = [name for name, algorithm in PRIVATE.items() if "step_size" in str(algorithm.__signature__)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", STEPPING)
def test_no_model_of_nan(name, size):
    ledger = Ledger(1.0, 1e-6)
    try:
        result = PRIVATE[name](problem_for(name), 0.5, 1e-6, step_size=size, ledger=ledger)
    except ValueError:
        assert ledger.history() == []  # refused before it was paid for
    else:
        assert np.isfinite(result.coef).all()
