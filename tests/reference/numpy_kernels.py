"""Plain numpy twin of every compiled kernel, under the same name, in long double.

Twins of the private sums compute the values before rounding to the grid. Non-finite rows or targets
contribute 0, as in the kernels.
"""

import numpy as np

WIDE = np.longdouble
HUBER_THRESHOLD = 0.7


def _logistic_value(p, y):
    m = y * p
    return np.log1p(np.exp(-np.abs(m))) + np.maximum(-m, 0)


def _logistic_derivative(p, y):
    return -y / (1 + np.exp(y * p))


def _gap(p, y):
    return np.maximum(1 - y * p, 0)


def _huber_value(p, y, h=HUBER_THRESHOLD):
    e = np.abs(p - y)
    return np.where(e <= h, e**2 / 2, WIDE(h) * e - WIDE(h) ** 2 / 2)


# A kink has slope -low below 0 and high above; with a curvature it is the integral of a clipped ramp.


def _kink_value(t, low, high, curvature=np.inf):
    if curvature == np.inf:
        return np.maximum(-WIDE(low) * t, WIDE(high) * t)
    half = (WIDE(low) + WIDE(high)) / 2 / curvature
    inside = np.clip(t, -half, half)
    ramp = (WIDE(high) - WIDE(low)) / 2 * inside + curvature * (inside**2 + half**2) / 2
    return ramp + WIDE(high) * np.maximum(t - half, 0) + WIDE(low) * np.maximum(-t - half, 0)


def _kink_slope(t, low, high, curvature=np.inf):
    if curvature == np.inf:
        return np.where(t > 0, WIDE(high), 0) - np.where(t < 0, WIDE(low), 0)
    return np.clip((WIDE(high) - WIDE(low)) / 2 + curvature * t, -low, high)


def _hinge(curvature=np.inf):
    return (
        lambda p, y: _kink_value(1 - y * p, 0, 1, curvature),
        lambda p, y: -y * _kink_slope(1 - y * p, 0, 1, curvature),
    )


def _two_slopes(low, high, curvature=np.inf):
    return (
        lambda p, y: _kink_value(p - y, low, high, curvature),
        lambda p, y: _kink_slope(p - y, low, high, curvature),
    )


def _insensitive(width, curvature=np.inf):
    return (
        lambda p, y: _kink_value(np.abs(p - y) - width, 0, 1, curvature),
        lambda p, y: np.sign(p - y) * _kink_slope(np.abs(p - y) - width, 0, 1, curvature),
    )


def _soft_margin(q):
    return lambda p, y: _gap(p, y) ** WIDE(q), lambda p, y: -y * WIDE(q) * _gap(p, y) ** (WIDE(q) - 1)


def _power(q):
    return (
        lambda p, y: np.abs(p - y) ** WIDE(q),
        lambda p, y: np.sign(p - y) * WIDE(q) * np.abs(p - y) ** (WIDE(q) - 1),
    )


def _sigmoid(p, y):
    return 1 / (1 + np.exp(y * p))


def _welsch(c):
    return (
        lambda p, y: -(WIDE(c) ** 2) / 2 * np.expm1(-(((p - y) / c) ** 2)),
        lambda p, y: (p - y) * np.exp(-(((p - y) / c) ** 2)),
    )


def _tukey(c):
    def u(p, y):
        return np.minimum(((p - y) / c) ** 2, 1)

    return lambda p, y: WIDE(c) ** 2 / 6 * (1 - (1 - u(p, y)) ** 3), lambda p, y: (p - y) * (1 - u(p, y)) ** 2


# (value, derivative) by name; kernel_calls.EXAMPLES holds the losses with these parameters.
FORMULAS = {
    "logistic": (_logistic_value, _logistic_derivative),
    "hinge": _hinge(),
    "squared_hinge": (lambda p, y: _gap(p, y) ** 2 / 2, lambda p, y: -y * _gap(p, y)),
    "huber": (_huber_value, lambda p, y: np.clip(p - y, -HUBER_THRESHOLD, HUBER_THRESHOLD)),
    "huberized_hinge": _hinge(2.0),
    "absolute": _two_slopes(1, 1),
    "smoothed_absolute": _two_slopes(1, 1, 3.0),
    "pinball": _two_slopes(0.3, 0.7),
    "smoothed_pinball": _two_slopes(0.3, 0.7, 2.0),
    "epsilon_insensitive": _insensitive(0.25),
    "smoothed_epsilon_insensitive": _insensitive(0.25, 2.0),
    "soft_margin": _soft_margin(1.3),
    "power": _power(1.6),
    "sigmoid": (_sigmoid, lambda p, y: -y * _sigmoid(p, y) * _sigmoid(-p, y)),
    "welsch": _welsch(2.0),
    "tukey": _tukey(3.0),
}
VALUES = {name: value for name, (value, _) in FORMULAS.items()}
DERIVATIVES = {name: derivative for name, (_, derivative) in FORMULAS.items()}
LOSSES = tuple(FORMULAS)
# Losses whose tests run over every shape; the others share all code except the formula.
EVERY_SHAPE = ("logistic", "huber")
CLASSIFICATION = {"logistic", "hinge", "huberized_hinge", "squared_hinge", "soft_margin", "sigmoid"}
NOT_CONVEX = {"sigmoid", "welsch", "tukey"}


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
