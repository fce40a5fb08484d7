"""What the tests of algorithms watch."""

import numpy as np
import pytest

from dperm.mechanisms.hooks import watch_releases
from dperm.mechanisms.without_privacy import release_without_privacy


@pytest.fixture
def record():
    """Every Gaussian release of a sum: exact and noisy, noise and multiplier, and the budget it spent."""
    releases = []

    def watch(releaser, method, private, *args, **kwargs):
        released = method(releaser, private, *args, **kwargs)
        if method.__name__ == "gaussian_sum":
            sigma = args[0] * private.sensitivity(releaser.neighbors)
            exact = np.asarray(release_without_privacy(private))
            own = {"sigma": sigma, "multiplier": args[0], "budget": releaser.budget}
            releases.append({"exact": exact, "noisy": released, **own})
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
