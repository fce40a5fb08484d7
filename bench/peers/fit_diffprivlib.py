"""IBM's diffprivlib: objective perturbation (Chaudhuri et al. 2011), and linear regression."""

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
from one_fit import run


def fit(p, C):
    if set(np.unique(p.y)) <= {0.0, 1.0}:
        return (
            LogisticRegression(epsilon=p.epsilon, data_norm=p.row_norm, C=C, max_iter=1000)
            .fit(p.X, p.y)
            .predict
        )
    d = p.X.shape[1]
    model = LinearRegression(epsilon=p.epsilon, bounds_X=(np.zeros(d), np.ones(d)), bounds_y=(-1.0, 1.0))
    return model.fit(p.X, p.y).predict


run(fit)
