"""Noise of SGD on non-smooth losses, rows of norm 1 and a ball of radius 1, delta = 1/n^2."""

import math

from dperm.accounting import gaussian_sigma, noise_multiplier
from dperm.accounting.paper import feasible_beta, sgd_output_sensitivity
from dperm.accounting.permutation_sensitivity import (
    averaged_count_sigma,
    holder_kappa,
    permutation_pass_sensitivity,
)
from papers.framework import Refused

#: alpha, L and M. In default mode kinks are smoothed, so that kappa = 0 for all of them.
LOSSES = {"absolute": (0.0, 2.0, 1.0), "hinge": (0.0, 1.0, 1.0), "logistic": (1.0, 0.25, 0.5)}


def measure(mode: str, *, method: str, loss: str, n: int, power: float, epsilon: float) -> float:
    """Standard deviation on the average (output), or over G on a gradient; ``T = n^power`` steps."""
    steps, delta = round(n**power), n**-2.0
    if method == "output":
        return _output(mode, loss, n, steps, epsilon, delta)
    return _gradient(mode, n, steps, epsilon, delta)


def _output(mode: str, loss: str, n: int, steps: int, epsilon: float, delta: float) -> float:
    alpha, holder, at_zero = LOSSES[loss]
    eta = n**0.5 / steps
    if mode == "default":  # one permutation per pass, smoothed kinks, the loss's own bound on gradients
        slope = 1.0 if alpha == 0.0 else at_zero + holder
        passes = permutation_pass_sensitivity(n, max(1, steps // n), 2.0 * eta * slope, 0.0, radius=1.0)
        return gaussian_sigma(epsilon, delta, passes)
    if mode == "paper":
        run = {"alpha": alpha, "holder": holder, "gradient_at_zero": at_zero, "radius": 1.0}
        moved = sgd_output_sensitivity(delta / 2.0, n_samples=n, steps=steps, eta=eta, **run)
        return math.sqrt(2.0 * math.log(2.5 / delta)) * moved / epsilon
    kappa = holder_kappa(alpha, holder, eta)
    return averaged_count_sigma(epsilon, delta, n, steps, 2.0 * eta * (at_zero + holder), kappa, average=True)


def _gradient(mode: str, n: int, steps: int, epsilon: float, delta: float) -> float:
    if mode == "paper":
        try:
            return feasible_beta(epsilon, delta, n_samples=n, steps=steps).sigma
        except ValueError as error:  # no beta is feasible
            raise Refused(str(error)) from error
    sampling = "without_replacement" if mode == "tight" else "poisson"
    neighbors = "replace_one" if mode == "tight" else "add_or_remove"
    run = {"batch_size": 1, "n_samples": n, "steps": steps, "sampling": sampling, "neighbors": neighbors}
    return noise_multiplier(epsilon, delta, **run)
