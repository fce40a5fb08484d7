"""Privacy losses of Poisson-sampled Gaussian steps, as Google's dp-accounting composes them."""

import pytest


def composed_losses(multiplier, rate, steps, interval, *, lower=False):
    """Losses on a grid with this interval; `lower` rounds them down, for a lower bound on the true ones."""
    losses = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rounding = {"pessimistic_estimate": False, "use_connect_dots": False} if lower else {}
    one = losses.from_gaussian_mechanism(
        multiplier, value_discretization_interval=interval, sampling_prob=rate, **rounding
    )
    return one.self_compose(steps)
