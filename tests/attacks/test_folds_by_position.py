"""Folds that shift.

`noisy_gd_many(folds=...)` assigns rows to folds by position. Under add_or_remove, a record inserted at the
front shifts every later record into another fold: the fits on disjoint folds all change, and parallel
composition does not apply.
"""

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import noisy_gd_many

X = np.random.default_rng(0).normal(size=(90, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
FOLDS = np.arange(90) % 3
FITS = [{"epsilon": 0.5, "delta": 1e-6, "steps": 2, "fold": fold} for fold in range(3)]


def test_folds_by_position_need_replace_one():
    objective = Objective("logistic", X, Y, row_norm=2.0)
    ledger = Ledger(3.0, 1e-6)
    with pytest.raises(ValueError, match="folds go by position"):
        noisy_gd_many(objective, [own | {"ledger": ledger} for own in FITS], folds=FOLDS)
    assert ledger.history() == []
    fits = [own | {"neighbors": "replace_one"} for own in FITS]
    assert len(noisy_gd_many(objective, fits, folds=FOLDS)) == 3
