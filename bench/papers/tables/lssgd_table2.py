"""Multinomial logistic regression on MNIST: test accuracy in per cent."""

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

import dperm
from dperm.accounting.paper.stochastic import dp_lssgd_sigma
from dperm.algorithms import dp_lssgd, whitened_gd
from papers.learning import digits, repeated

TRAINING, BATCH, RIDGE = 50_000, 128, 1e-4
LONGEST = 48.91  # norm of a standardised training image with its intercept


def measure(mode: str, *, sigma: float, epsilon: float, repetitions: int, **settings: float):
    """Paper: the authors' program, not private. Tight: every record clipped. Default: whitened_gd."""
    if mode == "default" and sigma > 0.0:
        return None
    settings |= {"sigma": sigma, "epsilon": epsilon}
    return repeated(lambda seed: accuracy(fit(mode, seed, **settings)), repetitions)


def fit(
    mode: str,
    seed: int,
    *,
    sigma: float,
    epsilon: float,
    delta: float,
    epochs: int,
    step: float,
    keep: Callable[[int, np.ndarray], None] = lambda epoch, coef: None,
) -> np.ndarray:
    """Weights after `epochs`, steps ``step/t``; `keep` is called with those after each epoch."""
    X, y = (part[:TRAINING] for part in digits()[:2])
    per_epoch = -(-TRAINING // BATCH)
    if mode == "paper":
        noise = dp_lssgd_sigma(epsilon, delta, TRAINING, epochs * per_epoch)
        return _program(X, y, sigma, noise, step, epochs, seed, keep)
    problem = dperm.Objective(
        "softmax", X, y, l2=RIDGE, row_norm=LONGEST, fit_intercept=True, n_classes=10, n_threads=1
    )
    if mode == "default":
        return whitened_gd(problem, epsilon, delta, neighbors="add_or_remove", random_state=seed).coef
    terms = {"clip": 1.0, "batch_size": BATCH, "steps": epochs * per_epoch, "step_size": f"{step}/t"}
    terms |= {"momentum": 0.0, "tail": 0.0, "learn_scales": False, "smoothing": sigma}
    terms |= {"sampling": "without_replacement", "neighbors": "replace_one"}
    return dp_lssgd(problem, epsilon, delta, random_state=seed, **terms).coef


def _program(X, y, sigma: float, noise: float, step: float, epochs: int, seed: int, keep) -> np.ndarray:
    """The mean of a batch is clipped: all weights, all intercepts. t stands still within an epoch."""
    rng, per_epoch = np.random.default_rng(seed), -(-len(X) // BATCH)
    targets = np.eye(10, dtype=np.float32)[y]
    parts = [rng.uniform(-1 / 28, 1 / 28, shape).astype(np.float32) for shape in ((10, 784), (10,))]
    for epoch in range(epochs):
        size, order = step / (1 + epoch * per_epoch), rng.permutation(len(X))
        for start in range(0, len(X), BATCH):
            rows = order[start : start + BATCH]
            slopes = softmax(X[rows] @ parts[0].T + parts[1], axis=1) - targets[rows]
            for part, mean in zip(parts, (slopes.T @ X[rows] / len(rows), slopes.mean(axis=0)), strict=True):
                mean /= max(1.0, float(np.linalg.norm(mean)))
                noisy = mean + noise * rng.standard_normal(mean.shape, dtype=np.float32)
                part -= size * (_smoothed(noisy, sigma) + RIDGE * part)
        keep(epoch + 1, np.vstack([parts[0].T, parts[1]]))
    return np.vstack([parts[0].T, parts[1]])


def _smoothed(part: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth along the cycle of all entries, by a Fourier transform."""
    if sigma == 0.0:
        return part
    angles = 2.0 * np.pi * np.arange(part.size // 2 + 1) / part.size
    spectrum = np.fft.rfft(part.ravel()) / (1.0 + 2.0 * sigma * (1.0 - np.cos(angles)))
    return np.fft.irfft(spectrum, part.size).reshape(part.shape).astype(np.float32)


def accuracy(coef: np.ndarray) -> float:
    """On the test images."""
    _, _, X, y = digits()
    return 100.0 * float(np.mean(np.argmax(X @ coef[:-1] + coef[-1], axis=1) == y))
