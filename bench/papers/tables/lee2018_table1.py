"""Noisy gradient descent on Adult: what happens to objective and gradient. Not private."""

import functools

import numpy as np
from scipy.special import expit

from papers.learning import mean, records

NOISE, CANDIDATES = 0.50119, np.linspace(0.0, 2.0, 21)


def measure(mode: str, *, quantity: str, t: int, repetitions: int) -> tuple[float, float | None]:
    """Norm of the gradient, of the noisy one, or the objective before step t."""
    column = ("gradient", "noisy gradient", "objective").index(quantity)
    return mean(_path(seed)[t][column] for seed in range(repetitions))


@functools.cache
def _path(seed: int) -> list[tuple[float, float, float]]:
    """Steps along the noisy gradient, of the length in the paper's grid that lowers the objective most."""
    X, y, _ = records("adult_a9a")
    X, rng = np.column_stack([X, np.ones(len(y))]), np.random.default_rng(seed)
    margins, found = np.zeros(len(y)), []
    for _ in range(11):
        gradient = (-y * expit(-margins)) @ X / len(y)
        noisy = gradient + NOISE / np.sqrt(X.shape[1]) * rng.standard_normal(X.shape[1])
        norms = np.linalg.norm(gradient), np.linalg.norm(noisy)
        along = y * (X @ noisy) / norms[1]
        losses = [np.logaddexp(0.0, a * along - margins).mean() for a in CANDIDATES]
        found.append((*map(float, norms), float(losses[0])))
        margins = margins - CANDIDATES[int(np.argmin(losses))] * along
    return found
