"""Weights that overflow.

A step size of 10^12 makes the weights overflow: a model of NaN was returned, and charged for.
"""

import inspect

import numpy as np
import pytest

from algorithms.every_algorithm import PRIVATE, problem_for
from dperm.accounting import Ledger

SIZES = [1e12, 1e150, 1e300]
STEPPING = [
    name for name, algorithm in PRIVATE.items() if "step_size" in inspect.signature(algorithm).parameters
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", STEPPING)
def test_models_are_finite_or_refused_before_the_charge(name, size):
    ledger = Ledger(1.0, 1e-6)
    try:
        result = PRIVATE[name](problem_for(name), 0.5, 1e-6, step_size=size, ledger=ledger)
    except ValueError:
        assert ledger.history() == []  # refused before the charge
    else:
        assert np.isfinite(result.coef).all()
