"""A grid that depends on a single record.

Released numbers lie on a grid of 22 bits for a float32 matrix and of 32 bits for a float64 matrix, so a model
reveals the dtype. A data frame of float32 and small integers used to be read as float32; if one record has a
missing value in the integer column, pandas converts it to float64. This distinguished neighbours with
probability 0.98 at epsilon 0.01.
"""

import numpy as np
import pandas as pd
import pytest

from dperm import LogisticRegression, Objective

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 400)


def frame(missing):
    table = pd.DataFrame({"a": RNG.normal(size=400).astype("f4"), "b": RNG.integers(0, 9, 400).astype("i1")})
    if missing:
        table["b"] = table["b"].astype("float64")
        table.loc[0, "b"] = np.nan
    return table


def shown_dtype(X):
    """The dtype, which an attacker sees from the grid of a released number."""
    model = LogisticRegression(
        0.01, 1e-6, classes=[0, 1], solver="noisy_gd", non_finite="zero", solver_options={"steps": 1}
    )
    model.fit(X, Y)
    return model.privacy_.public["dtype"]


@pytest.mark.parametrize("missing", [False, True])
def test_data_frames_are_always_read_as_float64(missing):
    assert shown_dtype(frame(missing)) == "float64"
    labels = 2.0 * Y - 1.0
    assert Objective("logistic", frame(missing), labels, non_finite="zero").dtype == np.float64


def test_the_dtype_of_an_array_is_public_and_stated():
    for dtype in ("float32", "float64"):
        X = frame(False).to_numpy(dtype=dtype)
        assert shown_dtype(X) == dtype


def test_dask_data_frames_are_always_read_as_float64():
    dask = pytest.importorskip("dask.dataframe")
    pytest.importorskip("distributed")
    from dperm.data.dask_collections import blocks_of

    for missing in (False, True):
        table = frame(missing)
        lazy = dask.from_pandas(table.assign(y=1.0), npartitions=2)
        read = blocks_of(lazy[list(table.columns)], lazy["y"]).read
        assert read(table).dtype == np.float64
