"""Minimisation from gradients alone, to a certified gradient norm."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Gradient = Callable[[Array], Array]
Certified = Callable[[Array, Array], bool]

_PAIRS = 20
_QUASI_NEWTON_STEPS = 500


def quasi_newton(
    gradient: Gradient, certified: Certified, shape: tuple[int, ...], smooth: float
) -> Array | None:
    """L-BFGS with a line search on slopes, as rounding of function values would limit the precision.

    None if the certificate is not reached in a fixed number of steps.
    """
    w = np.zeros(shape)
    g = gradient(w)
    pairs: list[tuple[Array, Array]] = []
    for _ in range(_QUASI_NEWTON_STEPS):
        if certified(w, g):
            return w
        direction = -_two_loops(g, pairs) if pairs else -g / smooth
        candidate, g_candidate = _line_search(gradient, w, g, direction)
        step, change = candidate - w, g_candidate - g
        if np.vdot(step, change) > 0.0:
            pairs = [*pairs[1 - _PAIRS :], (step, change)]
        w, g = candidate, g_candidate
    return None


def _line_search(gradient: Gradient, w: Array, g: Array, direction: Array) -> tuple[Array, Array]:
    """A point on the line with at most 0.9 of the initial slope, by bisection, and its gradient."""
    slope = np.vdot(g, direction)
    low, size, high = 0.0, 1.0, math.inf
    for _ in range(20):
        candidate = w + size * direction
        g_candidate = gradient(candidate)
        there = np.vdot(g_candidate, direction)
        if abs(there) <= 0.9 * abs(slope):
            break
        if there > 0.0:
            high = size
        else:
            low = size
        size = 2.0 * size if high == math.inf else 0.5 * (low + high)
    return candidate, g_candidate


def _two_loops(g: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """Approximate inverse Hessian times g (Nocedal and Wright 2006, Algorithm 7.4)."""
    q, weights = g.copy(), []
    for s, y in reversed(pairs):
        weights.append(np.vdot(s, q) / np.vdot(s, y))
        q = q - weights[-1] * y
    if pairs:
        s, y = pairs[-1]
        q = q * (np.vdot(s, y) / np.vdot(y, y))
    for (s, y), weight in zip(pairs, reversed(weights), strict=True):
        q = q + (weight - np.vdot(y, q) / np.vdot(s, y)) * s
    return q


def gradient_descent(
    gradient: Gradient, certified: Certified, shape: tuple[int, ...], smooth: float, steps: int
) -> Array:
    """Gradient descent with a sufficient number of steps."""
    w = np.zeros(shape)
    for _ in range(steps):
        g = gradient(w)
        if certified(w, g):
            return w
        w = w - g / smooth
    # Only reached if the secret linear term is longer than the tolerance allows for.
    raise ArithmeticError("the minimiser could not be certified; nothing was released")
