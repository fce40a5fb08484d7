"""A private estimate of the best constant prediction of real targets, from which a descent starts."""

from __future__ import annotations

import math

from dperm.algorithms.fit import Fit
from dperm.losses import Loss
from dperm.losses.weighted import unweighted
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.release import Releaser

_NEWTON_STEPS, _BISECTIONS = 4, 8


def steps_to_constant(loss: Loss) -> int:
    """Number of noisy slopes from which :func:`noisy_constant` finds the constant."""
    return _NEWTON_STEPS if _newton_reaches(loss) else _BISECTIONS


def noisy_constant(fit: Fit, release: Releaser, multiplier: float) -> float:
    """Release noisy slopes of the mean loss of a constant, and descend to where they vanish.

    If the loss bends little enough, steps are those of Newton's method, exact for the squared error, and the
    later half of them are averaged. Otherwise they go against the sign of the slope, and halve: their length
    does not depend on how dense the targets are. Neither the ridge term nor record weights are considered.
    """
    loss, newton = fit.objective.loss, _newton_reaches(fit.objective.loss)
    bound, clip, steps = loss.target_bound, _clip(loss), steps_to_constant(loss)
    constants = [0.0]
    for t in range(1, steps + 1):
        slope = release.gaussian_sum(fit.objective.slope_sum(constants[-1], clip), multiplier)[0] / fit.n
        step = slope / _curvature(loss) if newton else math.copysign(bound * 0.5**t, slope)
        constants.append(min(max(constants[-1] - step, -bound), bound))
    later = constants[-(steps // 2) :] if newton else constants[-1:]
    return sum(later) / len(later)


def check_noise_of_constant(fit: Fit, multiplier: float) -> None:
    """Raise ValueError unless noise with this multiplier can be added to slopes."""
    slopes = fit.objective.slope_bounds(_clip(fit.objective.loss))
    gaussian_scale(multiplier * slopes.clip * fit.neighbors.sum_factor, slopes.grid)


def _newton_reaches(loss: Loss) -> bool:
    """Whether steps of Newton's method reach every target that a quarter of the bound on them is long."""
    return _clip(loss) >= 0.25 * loss.target_bound * _curvature(loss)


def _curvature(loss: Loss) -> float:
    return unweighted(loss).smoothness(1.0)


def _clip(loss: Loss) -> float:
    """The steepest slope; of a loss without one, that of the prediction 0."""
    slope = unweighted(loss).lipschitz(1.0)
    return slope if slope < math.inf else unweighted(loss).slope_at_zero(1.0)
