"""Many draws of the noise of one secret training, to measure the average quality of output perturbation.

Repeating a fit a thousand times trains a thousand times, though only the noise differs. Here the training is
done once. Together the draws reveal nearly everything about the exact weights: they are for benchmarks, are
not private, and no statement covers them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dperm import Objective
from dperm.mechanisms import norm_laplace, release_without_privacy
from dperm.mechanisms.hooks import watch_releases
from dperm.mechanisms.without_privacy import NotPrivateArray

_LAWS = {"gaussian_sum": "gaussian", "norm_laplace_sum": "norm_laplace"}


def noise_draws(
    algorithm: Callable[..., Any], objective: Objective, draws: int, *, seed: int, **settings: Any
) -> NotPrivateArray:
    """Weights that `draws` fits with a single training would release. **Not private.**

    Parameters
    ----------
    algorithm : callable
        An algorithm of output perturbation: one release, with Gaussian or norm-Laplace noise.
    objective : Objective
    draws : int
    seed : int
        Seed of the training and of the noise.
    **settings
        Arguments of the algorithm: epsilon, delta and so on. A ledger is refused: it would be charged for a
        single release.

    Returns
    -------
    NotPrivateArray of shape (draws, *objective.shape)

    Raises
    ------
    ValueError
        With a ledger, or for an algorithm that makes several releases or a release of another kind.
    """
    if settings.pop("ledger", None) is not None:
        raise ValueError("many draws of one training are not private: fit once for each charge of a ledger")
    seen = []

    def watch(releaser: Any, method: Callable[..., Any], private: Any, amount: float, *rest: Any) -> Any:
        sensitivity = private.sensitivity(releaser.neighbors)
        seen.append((_LAWS.get(method.__name__), private, sensitivity, amount))
        return method(releaser, private, amount, *rest)

    with watch_releases(watch):
        algorithm(objective, random_state=seed, **settings)
    if len(seen) != 1 or seen[0][0] is None:
        raise ValueError(f"{algorithm.__name__} makes {len(seen)} releases: its training is not secret")
    ((law, private, sensitivity, amount),) = seen
    exact, rng = release_without_privacy(private), np.random.default_rng(seed)
    if law == "gaussian":
        return exact + rng.normal(scale=amount * sensitivity, size=(draws, *exact.shape))
    noise = norm_laplace(sensitivity / amount, (draws, exact.size), random_state=rng)
    return exact + noise.reshape(draws, *exact.shape)
