"""Update rules from released gradients to steps: post-processing, free of privacy cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dperm.algorithms.defaults.constants import Momentum
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


class AdaptiveMomentum:
    """Momentum that is raised while noisy gradients agree in direction.

    Soon after its start a descent in whitened coordinates has come most of its way, and the gradient along
    that way vanishes. Where it does not, signal is strong and the loss is flat far out: there longer steps
    gain more than their noise costs. The gain grows with the square of the gradient, the cost with the
    dimension. Momentum makes steps longer without making a descent unstable, and falls again as the gradient
    does.

    Parameters
    ----------
    least, most : float
        Bounds on the momentum, in [0, 1).
    steps : int
        Length of the run. Gradients count after an eighth of it, or twice the memory of the least momentum.
    """

    def __init__(self, least: float, most: float, steps: int) -> None:
        self._least, self._most = least, max(least, most)
        self._weight = min(1.0 / (Momentum.MEMORY * steps), 1.0)
        self._settled = max(steps / Momentum.SETTLED, 2.0 / (1.0 - least))
        self._step = 0
        self._ahead = 0.0

    def at(self, gradient: Array, travelled: Array, noise: float) -> float:
        """Momentum of the next step.

        Parameters
        ----------
        gradient : ndarray of shape (d,)
            Its noisy gradient.
        travelled : ndarray of shape (d,)
            The sum of the steps before it.
        noise : float
            Standard deviation of the noise on each entry of the gradient; without noise momentum is constant.
        """
        self._step += 1
        distance = float(np.linalg.norm(travelled))
        if self._step <= self._settled or not noise > 0.0 or distance == 0.0:
            return self._least
        ahead = -float(np.vdot(gradient, travelled)) / distance
        self._ahead += self._weight * (ahead - self._ahead)
        in_noise = self._ahead / (noise * math.sqrt(0.5 * self._weight))
        least = max(Momentum.NOISE * math.sqrt(len(travelled)), Momentum.DEVIATIONS)
        longer = min(max((max(in_noise, 0.0) / least) ** 2, 1.0), Momentum.LONGEST)
        return min(1.0 - (1.0 - self._least) / longer, self._most)
