"""Update rules from released gradients to steps: post-processing, free of privacy cost."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dperm.objective.objective import Array


@dataclass
class HeavyBall:
    """``v <- momentum v - step_size g``, the step is v (Polyak 1964); gradient descent for momentum 0."""

    momentum: float  # in [0, 1)
    _velocity: Array | float = field(default=0.0, init=False, repr=False)

    def move(self, gradient: Array, step_size: float) -> Array:
        """The step."""
        velocity = gradient * -step_size
        if self.momentum > 0.0:
            velocity += self.momentum * self._velocity
            self._velocity = velocity
        return velocity


@dataclass
class Adam:
    """Steps scaled by running means of the gradients and their squares (Kingma and Ba 2015, Algorithm 1)."""

    beta1: float = 0.9  # decay of the means, in [0, 1)
    beta2: float = 0.999
    offset: float = 1e-8  # added to the root of the second mean
    _steps: int = field(default=0, init=False, repr=False)
    _first: Array | float = field(default=0.0, init=False, repr=False)
    _second: Array | float = field(default=0.0, init=False, repr=False)

    def move(self, gradient: Array, step_size: float) -> Array:
        """The step."""
        self._steps += 1
        self._first = self.beta1 * self._first + (1.0 - self.beta1) * gradient
        self._second = self.beta2 * self._second + (1.0 - self.beta2) * gradient**2
        mean = self._first / (1.0 - self.beta1**self._steps)
        square = self._second / (1.0 - self.beta2**self._steps)
        return np.asarray(-step_size * mean / (np.sqrt(square) + self.offset))
