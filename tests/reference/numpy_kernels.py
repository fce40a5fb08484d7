"""Plain numpy twin of every compiled kernel, under the same name, in long double.

Twins of the private sums compute the values before rounding to the grid. Non-finite rows or targets
contribute 0, as in the kernels.
"""

import numpy as np

from reference.losses import DERIVATIVES, VALUES, WIDE


def with_intercept(x, intercept):
    """The rows with a 1 appended for the intercept, if there is one."""
    wide = np.asarray(x, dtype=WIDE)
    return np.hstack([wide, np.ones((len(wide), 1), WIDE)]) if intercept else wide


def row_norms(x, intercept):
    return np.sqrt((with_intercept(x, intercept) ** 2).sum(axis=1))


def scaled_rows(x, intercept, row_norm):
    """Rows scaled to norm at most row_norm; non-finite rows become zero."""
    rows = with_intercept(x, intercept)
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0)
    norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows * np.where(norms > row_norm, row_norm / np.where(norms > 0, norms, 1), 1)


def predictions(x, w, *, intercept, row_norm):
    p = scaled_rows(x, intercept, row_norm) @ np.asarray(w, WIDE)
    return np.where(np.isfinite(np.asarray(x)).all(axis=1), p, np.nan)


def _counts(x, y):
    return np.isfinite(np.asarray(x)).all(axis=1) & np.isfinite(y)


def gradients(loss, x, y, w, *, intercept, row_norm):
    """Gradient of each record, (n, dimension)."""
    rows = scaled_rows(x, intercept, row_norm)
    targets = np.where(np.isfinite(y), y, 0).astype(WIDE)
    slopes = DERIVATIVES[loss](rows @ np.asarray(w, WIDE), targets)
    return np.where(_counts(x, y)[:, None], slopes[:, None] * rows, 0)


def losses(loss, x, y, w, *, intercept, row_norm):
    """Loss of each record, (n,)."""
    targets = np.where(np.isfinite(y), y, 0).astype(WIDE)
    values = VALUES[loss](scaled_rows(x, intercept, row_norm) @ np.asarray(w, WIDE), targets)
    return np.where(_counts(x, y), values, 0)


def gradient_sum(loss, x, y, w, *, intercept, row_norm):
    """The sums ``(gradient, loss)``."""
    args = {"intercept": intercept, "row_norm": row_norm}
    return gradients(loss, x, y, w, **args).sum(axis=0), losses(loss, x, y, w, **args).sum()


def clipped_gradient_sum(loss, x, y, w, clip, *, intercept, row_norm):
    each = gradients(loss, x, y, w, intercept=intercept, row_norm=row_norm)
    norms = np.sqrt((each**2).sum(axis=1, keepdims=True))
    return (each * np.where(norms > clip, clip / np.where(norms > 0, norms, 1), 1)).sum(axis=0)


def clipped_loss_sums(loss, x, y, w, direction, steps, clip, *, intercept, row_norm):
    def sum_at(step):
        at = np.asarray(w, WIDE) - step * np.asarray(direction, WIDE)
        return np.minimum(losses(loss, x, y, at, intercept=intercept, row_norm=row_norm), clip).sum()

    return np.array([sum_at(step) for step in np.asarray(steps, WIDE)])


def coordinate_loss_sums(loss, x, y, w, strides, clip, *, intercept, row_norm):
    """Changes of loss at w + strides_j e_j, w - strides_j e_j and w, clamped to +-clip/2, plus clip/2."""
    rows, counts = scaled_rows(x, intercept, row_norm), _counts(x, y)
    targets = np.where(np.isfinite(y), y, 0).astype(WIDE)[:, None]
    here, moves = (rows @ np.asarray(w, WIDE))[:, None], np.asarray(strides, WIDE) * rows
    at_each = VALUES[loss](np.hstack([here + moves, here - moves, here]), targets)
    half = WIDE(clip) / 2
    changes = np.clip(at_each - VALUES[loss](here, targets), -half, half) + half
    return np.where(counts[:, None], changes, 0).sum(axis=0)
