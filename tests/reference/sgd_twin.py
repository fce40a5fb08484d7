"""Plain numpy twin of stochastic gradient descent, given the batches and the noise."""

import math

import numpy as np

from reference.numpy_algorithms import scaled_rows


def clipped_gradients(rows, y, loss, w, clip):
    """Clipped gradients of some records at w; (batch, d)."""
    gradients = np.asarray(loss.derivative(rows @ w, y))[:, None] * rows
    norms = np.linalg.norm(gradients, axis=1)
    return gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]


def project(w, radius):
    length = np.linalg.norm(w)
    return w if length <= radius else w * (radius / length)


def sgd(
    X,
    y,
    loss,
    batches,
    step_sizes,
    *,
    row_norm=1.0,
    fit_intercept=False,
    clip=math.inf,
    divisor=1.0,
    l2=0.0,
    n_penalized=None,
    radius=math.inf,
    noise=None,
    start=None,
):
    """All iterates w_1 .. w_(T+1), shape (T + 1, d). ``batches``: a list of index arrays, one per step."""
    rows, y = scaled_rows(np.asarray(X, dtype=float), row_norm, fit_intercept), np.asarray(y, dtype=float)
    d = rows.shape[1]
    w = np.zeros(d) if start is None else np.array(start, dtype=float)
    ridge = l2 * (np.arange(d) < (d if n_penalized is None else n_penalized))
    iterates = [w]
    for t, (batch, eta) in enumerate(zip(batches, step_sizes, strict=True)):
        total = clipped_gradients(rows[batch], y[batch], loss, w, clip).sum(axis=0)
        if noise is not None:
            total = total + noise[t]
        w = project(w - eta * (total / divisor + ridge * w), radius)
        iterates.append(w)
    return np.array(iterates)
