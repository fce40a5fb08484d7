"""Momentum that rises while noisy gradients still point along the way that a descent has come."""

from __future__ import annotations

import math

import numpy as np

from dperm.objective.objective import Array

#: Largest momentum to rise to.
HIGHEST = 0.95

# Largest factor on the reach of a step.
_LONGEST = 8.0

# Share of the run over which gradients are averaged.
_MEMORY = 0.25

# The mean gradient along the way counts above this share of the norm of its noise and, as that is not much in
# few dimensions, above this many standard deviations of the noise along the way.
_SHARE_OF_NOISE, _DEVIATIONS = 0.7, 2.5


class RisingMomentum:
    """Momentum of a descent, from the noisy gradients of its steps.

    Soon after its start a descent in whitened coordinates has come most of its way, and the gradient along
    that way vanishes. Where it does not, since signal is strong and the loss is flat far out, longer steps
    gain more than their noise costs: the gain grows with the square of the gradient, the cost with the
    dimension. Momentum makes them longer without making a descent unstable, and falls again as the gradient
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
        self._weight = min(1.0 / (_MEMORY * steps), 1.0)
        self._settled = max(steps / 8.0, 2.0 / (1.0 - least))
        self._step = 0
        self._ahead = 0.0

    def at(self, gradient: Array, travelled: Array, noise: float) -> float:
        """Momentum of the next step.

        Parameters
        ----------
        gradient : ndarray of shape (d,)
            Its noisy gradient.
        travelled : ndarray of shape (d,)
            What was travelled before it.
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
        excess = max(in_noise, 0.0) / max(_SHARE_OF_NOISE * math.sqrt(len(travelled)), _DEVIATIONS)
        longer = min(max(excess**2, 1.0), _LONGEST)
        return min(1.0 - (1.0 - self._least) / longer, self._most)
