"""Dates and masked arrays taken for numbers.

An accident rather than an attack: a column of dates was read as nanoseconds since 1970, and a masked array
without its mask, so that masked cells were trained on. Both are refused before anything is read.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dperm import LogisticRegression, Numeric, Objective, Schema
from dperm.errors import DataError

N = 40
X = np.random.default_rng(0).normal(size=(N, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
DAYS = pd.date_range("2020-01-01", periods=N)
DATES = {
    "datetime": DAYS.to_numpy()[:, None],
    "timedelta": (DAYS - DAYS[0]).to_numpy()[:, None],
    "frame": pd.DataFrame({"day": DAYS}),
    "frame with numbers": pd.DataFrame({"x": X[:, 0], "day": DAYS}),
    "frame of spans": pd.DataFrame({"day": DAYS - DAYS[0]}),
    "polars": pl.DataFrame({"day": DAYS.to_numpy()}),
}


def fit(X, y=Y, **arguments):
    return LogisticRegression(1.0, 1e-6, classes=[-1.0, 1.0], row_norm=2.0).fit(X, y, **arguments)


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_refused(kind):
    for use in (fit, lambda X: fit(np.zeros((N, X.shape[1]))).predict(X)):
        with pytest.raises(DataError, match="holds dates or times"):
            use(DATES[kind])


def test_dates_are_refused_by_an_objective():
    for X_, y in ((DATES["datetime"], Y), (X, DAYS.to_numpy())):
        with pytest.raises(DataError, match="holds dates or times"):
            Objective("huber", X_, y)


def masked(values):
    return np.ma.masked_array(values, mask=np.zeros(np.shape(values), bool))


@pytest.mark.parametrize(
    "use",
    [
        lambda: fit(masked(X)),
        lambda: fit(X, masked(Y)),
        lambda: fit(X, counts=masked(np.ones(N, int))),
        lambda: fit(X, sample_weight=masked(np.ones(N))),
        lambda: fit(X).score(X, masked(Y)),
        lambda: Objective("logistic", X, Y, weights=masked(np.ones(N))),
        lambda: fit(X).predict(masked(X)),
        lambda: Objective("logistic", masked(X), Y),
        lambda: Objective("logistic", X, masked(Y)),
        lambda: Schema([Numeric("a", 0, 1)]).encode({"a": masked(np.ones(N))}),
        lambda: Schema([Numeric("a", 0, 1)]).encode(masked(np.ones((N, 1)))),
    ],
)
def test_masks_are_refused(use):
    with pytest.raises(DataError, match="is a masked array, whose mask would be lost"):
        use()
