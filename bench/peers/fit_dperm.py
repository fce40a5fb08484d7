"""dperm, default settings."""

import math

import numpy as np
from one_fit import run

import dperm


def fit(p):
    with_intercept = math.hypot(p.row_norm, 1.0)
    public = {"epsilon": p.epsilon, "delta": p.delta, "row_norm": with_intercept}
    if set(np.unique(p.y)) <= {0.0, 1.0}:
        return dperm.LogisticRegression(**public, classes=[0, 1]).fit(p.X, p.y.astype(int)).predict
    return dperm.HuberRegressor(**public, target_bound=1.0).fit(p.X, p.y).predict


run(fit)
