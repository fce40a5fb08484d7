"""What smoothing leaves of the noise. Paper: Propositions 1 and 2. Tight: means over the eigenvalues."""

import numpy as np

from dperm.accounting.gaussian import smoothing_beta, smoothing_gamma

POWERS = {"gamma": 1, "beta": 2}


def measure(mode: str, *, constant: str, sigma: float, d: int) -> float:
    """``trace(A^-1)/d``, or ``trace(A^-2)/d`` for beta."""
    if mode == "paper":
        return {"gamma": smoothing_gamma, "beta": smoothing_beta}[constant](sigma, d)
    eigenvalues = 1.0 + 2.0 * sigma * (1.0 - np.cos(2.0 * np.pi * np.arange(d) / d))
    return float(np.mean(eigenvalues ** -POWERS[constant]))
