"""Momentum that rises while noisy gradients still point along the way that a descent has come."""

from __future__ import annotations

import math

import numpy as np

from dperm.objective.objective import Array

#: Largest momentum to rise to, and by what factor the reach of a step grows at most.
HIGHEST, _LONGEST = 0.95, 8.0

# Gradients are averaged over a time of a quarter of the run. Their mean is ahead if it is this large in units
# of the noise on a gradient so averaged, of any direction and of the one travelled; the latter keeps false
# alarms rare in few dimensions.
_QUARTER, _AHEAD, _ERRORS = 0.25, 0.7, 2.5


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
        self._weight = min(1.0 / (_QUARTER * steps), 1.0)
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
        excess = max(in_noise, 0.0) / max(_AHEAD * math.sqrt(len(travelled)), _ERRORS)
        longer = min(max(excess**2, 1.0), _LONGEST)
        return min(1.0 - (1.0 - self._least) / longer, self._most)
