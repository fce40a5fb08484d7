"""Losses and accuracy on MNIST along the epochs of a run."""

import functools

import numpy as np
from scipy.special import logsumexp

from papers.learning import digits, repeated
from papers.tables.lssgd_table2 import TRAINING, accuracy, fit


def measure(mode: str, *, curve: str, epoch: int, repetitions: int, **settings: float):
    """Value of the curve after an epoch."""
    return repeated(lambda seed: CURVES[curve](_weights(mode, seed, **settings)[epoch]), repetitions)


@functools.cache
def _weights(mode: str, seed: int, **settings: float) -> dict[int, np.ndarray]:
    kept = {}
    fit(mode, seed, **settings, keep=kept.__setitem__)
    return kept


def _loss(coef: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    scores = X @ coef[:-1] + coef[-1]
    return float(np.mean(logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]))


CURVES = {
    "training loss": lambda coef: _loss(coef, *(part[:TRAINING] for part in digits()[:2])),
    "test loss": lambda coef: _loss(coef, *digits()[2:]),
    "test accuracy": accuracy,
}
