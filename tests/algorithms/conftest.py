"""Fixtures that record the releases of a fit."""

import numpy as np
import pytest

from dperm.mechanisms.hooks import watch_releases
from dperm.mechanisms.without_privacy import release_without_privacy


@pytest.fixture
def record():
    """Every Gaussian release of a sum: exact and noisy values, sigma, noise multiplier and budget."""
    releases = []

    def watch(releaser, method, private, *args, **kwargs):
        released = method(releaser, private, *args, **kwargs)
        if method.__name__ == "gaussian_sum":
            releases.append({
                "exact": np.asarray(release_without_privacy(private)),
                "noisy": released,
                "sigma": args[0] * private.sensitivity(releaser.neighbors),
                "multiplier": args[0],
                "budget": releaser.budget,
            })  # fmt: skip
        return released

    with watch_releases(watch):
        yield releases


@pytest.fixture
def releases():
    """Method and budget of every release."""
    made = []

    def watch(releaser, method, private, *args, **kwargs):
        made.append((method.__name__, releaser.budget))
        return method(releaser, private, *args, **kwargs)

    with watch_releases(watch):
        yield made
