"""Plain numpy twins of the softmax kernels in long double, and the bindings under the same names.

As in numpy_kernels: values before rounding to the grid; non-finite records contribute 0.
"""

import numpy as np

from dperm._kernels import row_kernels
from reference import numpy_kernels
from reference.kernel_calls import gradient_integers, loss_integers
from reference.numpy_kernels import WIDE

SOFTMAX = None  # loss_spec of a pass over SoftmaxRows
STEPS = np.array([0.0, 0.5, -1.0, 2.0, 1e-3])


# -- twins -------------------------------------------------------------------------------------------


def scores(x, w, *, intercept, row_norm):
    """Score of each record and class, (n, K)."""
    return numpy_kernels.scaled_rows(x, intercept, row_norm) @ np.asarray(w, WIDE)


def probabilities(p):
    exponentials = np.exp(p - p.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def counts(x, y):
    return np.isfinite(np.asarray(x)).all(axis=1) & np.isfinite(y)


def residuals(x, y, w, **keywords):
    """``q - e_y`` of each record, (n, K)."""
    p = scores(x, w, **keywords)
    codes = np.where(np.isfinite(y), y, 0).astype(int)
    each = probabilities(p) - np.eye(p.shape[1])[codes]
    return np.where(counts(x, y)[:, None], each, 0)


def gradients(x, y, w, *, intercept, row_norm):
    """Gradient of each record, (n, d, K)."""
    rows = numpy_kernels.scaled_rows(x, intercept, row_norm)
    return rows[:, :, None] * residuals(x, y, w, intercept=intercept, row_norm=row_norm)[:, None, :]


def losses(x, y, w, **keywords):
    p = scores(x, w, **keywords)
    codes = np.where(np.isfinite(y), y, 0).astype(int)
    largest = p.max(axis=1)
    total = np.log(np.exp(p - largest[:, None]).sum(axis=1)) + largest
    return np.where(counts(x, y), total - p[np.arange(len(p)), codes], 0)


def gradient_sum(x, y, w, **keywords):
    return gradients(x, y, w, **keywords).sum(axis=0), losses(x, y, w, **keywords).sum()


def clipped_gradient_sum(x, y, w, clip, **keywords):
    each = gradients(x, y, w, **keywords)
    norms = np.sqrt((each**2).sum(axis=(1, 2), keepdims=True))
    return (each * np.where(norms > clip, clip / np.where(norms > 0, norms, 1), 1)).sum(axis=0)


def clipped_loss_sums(x, y, w, direction, steps, clip, **keywords):
    at = [np.asarray(w, WIDE) - step * np.asarray(direction, WIDE) for step in np.asarray(steps, WIDE)]
    return np.array([np.minimum(losses(x, y, v, **keywords), clip).sum() for v in at])


# -- data and bindings -------------------------------------------------------------------------------


def class_problem(x, n_classes, seed=0):
    """Class codes, weights and a direction for a matrix; the last row of weights is the intercept."""
    rng = np.random.default_rng([seed, *x.shape, n_classes])
    y = rng.integers(0, n_classes, len(x)).astype(x.dtype)
    shape = (x.shape[1] + 1, n_classes)
    return y, rng.normal(size=shape), rng.normal(size=shape)


def weights(w, intercept):
    return np.ascontiguousarray(w if intercept else w[:-1])


def bind(x, y, intercept=False, row_norm=1.5, threads=1):
    return row_kernels.SoftmaxRows(x, y, intercept, row_norm, threads)


def all_integers(x, y, w, direction, *, intercept, threads=1, row_norm=1.5, clip=0.5):
    """Every exact sum of a data set, one after the other, on a grid that suits both dtypes."""
    rows = bind(x, y, intercept, row_norm, threads)
    w, direction = weights(w, intercept), weights(direction, intercept)
    gradient = gradient_integers(rows, SOFTMAX, w, clip, clip * 2.0**-22, threads)
    values = loss_integers(rows, SOFTMAX, w, direction, clip, clip * 2.0**-30, threads, STEPS)
    return np.concatenate([gradient.ravel(), values])
