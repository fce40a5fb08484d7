"""scikit-learn without privacy, default settings."""

import numpy as np
from one_fit import run
from sklearn.linear_model import LinearRegression, LogisticRegression


def fit(p):
    labels = set(np.unique(p.y)) <= {0.0, 1.0}
    return (LogisticRegression(max_iter=1000) if labels else LinearRegression()).fit(p.X, p.y).predict


run(fit)
