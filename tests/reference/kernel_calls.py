"""The bindings of the kernels with the losses by name."""

import numpy as np
import pytest

from dperm import losses
from dperm._kernels import row_kernels
from reference import numpy_kernels

EXAMPLES = {
    "logistic": losses.Logistic(),
    "hinge": losses.Hinge(),
    "squared_hinge": losses.SquaredHinge(),
    "huber": losses.Huber(numpy_kernels.HUBER_THRESHOLD),
    "huberized_hinge": losses.huberized_hinge(0.25),
    "absolute": losses.Absolute(),
    "smoothed_absolute": losses.Absolute().smoothed(3.0),
    "pinball": losses.Pinball(0.3),
    "smoothed_pinball": losses.Pinball(0.3).smoothed(2.0),
    "epsilon_insensitive": losses.EpsilonInsensitive(0.25),
    "smoothed_epsilon_insensitive": losses.EpsilonInsensitive(0.25).smoothed(2.0),
    "soft_margin": losses.SoftMargin(1.3),
    "power": losses.Power(1.6),
    "sigmoid": losses.Sigmoid(),
    "welsch": losses.Welsch(2.0),
    "tukey": losses.Tukey(3.0),
}
STEPS = np.array([0.0, 0.5, -1.0, 2.0, 1e-3, 7.0])  # not a multiple of the batch of four


def spec(loss):
    """``Loss.kernel`` of the losses of the numpy twin."""
    return EXAMPLES[loss].kernel


def each_loss_and(shapes, few):
    """Cases (loss, shape): every shape for `numpy_kernels.EVERY_SHAPE`, ``few`` for the other losses."""
    return [
        pytest.param(loss, shape, id=f"{loss}-{shape}")
        for loss in numpy_kernels.LOSSES
        for shape in (shapes if loss in numpy_kernels.EVERY_SHAPE else few)
    ]


def bind(x, y, intercept=False, row_norm=1.0, threads=1):
    return row_kernels.DenseRows(x, y, intercept, row_norm, threads)


def weights(w, rows_or_x, intercept):
    """The leading entries of ``w`` that a matrix of that width needs."""
    width = rows_or_x.shape[1]
    return np.ascontiguousarray(np.append(w[:width], w[-1]) if intercept else w[:width])


def gradient_integers(rows, loss, w, clip_in, grid, threads=1):
    return rows.clipped_gradient_sum(spec(loss), w, clip_in, grid, threads)


def plain_sums(rows, loss, w, threads=1):
    return rows.gradient_sum(spec(loss), w, threads)


def loss_integers(rows, loss, w, direction, clip, grid, threads=1, steps=STEPS):
    return rows.clipped_loss_sums(
        spec(loss), w, direction, steps, clip, grid, threads
    )  # fmt: skip


def all_integers(x, y, w, direction, *, loss, intercept, threads=1, row_norm=1.5, clip=0.5):
    """Every exact sum of a data set, one after the other, on a grid that suits both dtypes."""
    rows = bind(x, y, intercept, row_norm, threads)
    w, direction = weights(w, x, intercept), weights(direction, x, intercept)
    gradient = gradient_integers(rows, loss, w, clip, clip * 2.0**-22, threads)
    return np.concatenate([gradient, loss_integers(rows, loss, w, direction, clip, clip * 2.0**-30, threads)])
