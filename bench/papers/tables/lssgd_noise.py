"""Noise on the mean gradient of a batch, over the clip."""

import dperm
from dperm.accounting.paper.stochastic import dp_lssgd_sigma


def measure(mode: str, *, epsilon: float, delta: float, n: int, batch: int, epochs: int) -> float:
    """Paper: Theorem 1. Tight: for the same sampling. Default: for Poisson sampling."""
    steps = epochs * -(-n // batch)
    if mode == "paper":
        return dp_lssgd_sigma(epsilon, delta, n, steps)
    sampling = "without_replacement" if mode == "tight" else "poisson"
    neighbors = "replace_one" if mode == "tight" else "add_or_remove"
    run = {"batch_size": batch, "n_samples": n, "steps": steps, "sampling": sampling, "neighbors": neighbors}
    return dperm.accounting.noise_multiplier(epsilon, delta, **run) / batch
