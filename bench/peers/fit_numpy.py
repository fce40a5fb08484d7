"""Noisy gradient descent as one would write it in numpy: per-record gradients, clipped, summed, noisy."""

import numpy as np
from one_fit import run

STEPS = 100


def fit(p, step_size):
    rng = np.random.default_rng()
    X = np.column_stack([p.X / p.row_norm, np.ones(p.n)])
    # zero-concentrated DP (Bun and Steinke 2016): rho + 2 sqrt(rho log(1/delta)) = epsilon
    log = np.log(1.0 / p.delta)
    rho = (np.sqrt(log + p.epsilon) - np.sqrt(log)) ** 2
    sigma = np.sqrt(STEPS / (2.0 * rho))
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        gradients = (1.0 / (1.0 + np.exp(-(X @ w))) - p.y)[:, None] * X
        gradients /= np.maximum(np.linalg.norm(gradients, axis=1), 1.0)[:, None]
        w -= step_size * (gradients.sum(axis=0) + sigma * rng.normal(size=len(w))) / p.n
    return lambda rows: np.column_stack([rows / p.row_norm, np.ones(len(rows))]) @ w > 0.0


run(fit)
