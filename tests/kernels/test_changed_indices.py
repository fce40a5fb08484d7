"""Indices and codes that change after they were checked lead to wrong sums, not outside of an array."""

import numpy as np
import pytest
import scipy.sparse as sp

from dperm import Objective
from dperm.algorithms import dp_sgd_gradient, noisy_gd
from dperm.data.tabular import TabularLayout, TabularMatrix


def sparse():
    matrix = sp.random_array((300, 40), density=0.2, format="csr", rng=np.random.default_rng(0))
    return matrix, lambda: matrix.indices


def table():
    codes = np.random.default_rng(0).integers(0, 4, (300, 3)).astype(np.uint8)
    layout = TabularLayout((), (0, 4, 8), (4, 4, 4))
    return TabularMatrix(np.empty((300, 0)), codes, layout), lambda: codes


@pytest.mark.parametrize("records", [sparse, table])
def test_no_pass_leaves_its_arrays(records):
    X, changed = records()
    objective = Objective("logistic", X, np.tile([1.0, -1.0], 150), row_norm=2.0)
    array = changed()
    array[:] = np.iinfo(array.dtype).max
    objective.gradient(np.zeros(objective.dimension))
    for algorithm in (noisy_gd, dp_sgd_gradient):
        result = algorithm(objective, 1.0, 1e-3, random_state=0)
        assert np.isfinite(result.coef).all()
