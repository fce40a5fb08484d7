"""Losses and accuracy on MNIST along the epochs of a run."""

import functools

import numpy as np
from scipy.special import logsumexp

from papers.learning import digits, repeated
from papers.tables.lssgd_table2 import accuracy, fit

EPOCHS = (1, 5, 10, 20, 30, 40, 50)


def measure(mode: str, *, curve: str, epoch: int, repetitions: int, **settings: float):
    """Value of the curve after `epoch` fiftieths of the steps."""
    return repeated(lambda seed: CURVES[curve](_weights(mode, seed, **settings)[epoch]), repetitions)


@functools.cache
def _weights(mode: str, seed: int, **settings: float) -> dict[int, np.ndarray]:
    kept = {}

    def keep(state: dict) -> None:
        for epoch in EPOCHS:
            if state["iteration"] == state["steps"] * epoch // EPOCHS[-1]:
                kept[epoch] = state["coef"]

    fit(mode, seed, **settings, callback=keep)
    return kept


def _loss(coef: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    scores = X @ coef[:-1] + coef[-1]
    return float(np.mean(logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]))


CURVES = {
    "training loss": lambda coef: _loss(coef, *digits()[:2]),
    "test loss": lambda coef: _loss(coef, *digits()[2:]),
    "test accuracy": accuracy,
}
