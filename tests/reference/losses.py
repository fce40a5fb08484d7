"""Losses for tests, and their formulas in long double. Tests run over all of them: add a new loss here."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dperm.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Pinball,
    Power,
    Sigmoid,
    SoftMargin,
    SquaredHinge,
    huberized_hinge,
)

WIDE = np.longdouble


def _logistic(p, y):
    m = y * p
    return np.log1p(np.exp(-np.abs(m))) + np.maximum(-m, 0)


def _gap(p, y):
    return np.maximum(1 - y * p, 0)


def _huber(h):
    def value(p, y):
        e = np.abs(p - y)
        return np.where(e <= h, e**2 / 2, WIDE(h) * e - WIDE(h) ** 2 / 2)

    return value, lambda p, y: np.clip(p - y, -h, h)


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


class Example(NamedTuple):
    """A loss, and its value and derivative at a prediction and a target."""

    loss: Loss
    value: Callable
    derivative: Callable


_EXAMPLES = {
    "logistic": Example(Logistic(), _logistic, lambda p, y: -y / (1 + np.exp(y * p))),
    "hinge": Example(Hinge(), *_hinge()),
    "squared_hinge": Example(SquaredHinge(), lambda p, y: _gap(p, y) ** 2 / 2, lambda p, y: -y * _gap(p, y)),
    "huber": Example(Huber(0.7), *_huber(0.7)),
    "huberized_hinge": Example(huberized_hinge(0.25), *_hinge(2.0)),
    "absolute": Example(Absolute(), *_two_slopes(1, 1)),
    "smoothed_absolute": Example(Absolute().smoothed(3.0), *_two_slopes(1, 1, 3.0)),
    "pinball": Example(Pinball(0.3), *_two_slopes(0.3, 0.7)),
    "smoothed_pinball": Example(Pinball(0.3).smoothed(2.0), *_two_slopes(0.3, 0.7, 2.0)),
    "epsilon_insensitive": Example(EpsilonInsensitive(0.25), *_insensitive(0.25)),
    "smoothed_epsilon_insensitive": Example(EpsilonInsensitive(0.25).smoothed(2.0), *_insensitive(0.25, 2.0)),
    "soft_margin": Example(SoftMargin(1.3), *_soft_margin(1.3)),
    "power": Example(Power(1.6), *_power(1.6)),
    "sigmoid": Example(Sigmoid(), _sigmoid, lambda p, y: -y * _sigmoid(p, y) * _sigmoid(-p, y)),
}
# Other parameters, whose constants are tested as well.
OTHERS = [
    Huber(3.0, target_bound=2.0),
    Pinball(0.9, target_bound=2.0),
    SoftMargin(2.0),
    Power(1.6, target_bound=2.0),
    Power(2.0, target_bound=0.5),
]

LOSSES = tuple(_EXAMPLES)
EXAMPLES = {name: each.loss for name, each in _EXAMPLES.items()}
VALUES = {name: each.value for name, each in _EXAMPLES.items()}
DERIVATIVES = {name: each.derivative for name, each in _EXAMPLES.items()}
CLASSIFICATION = {name for name, loss in EXAMPLES.items() if loss.classification}
NOT_CONVEX = {name for name, loss in EXAMPLES.items() if not loss.convex}
# Losses whose tests run over every shape; the others share all code except the formula.
EVERY_SHAPE = ("logistic", "huber")
