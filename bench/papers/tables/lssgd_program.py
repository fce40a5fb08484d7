"""DP-LSSGD as its authors' program runs it. Nothing here is private."""

import numpy as np
from scipy.special import softmax

from dperm.accounting.paper.stochastic import dp_lssgd_sigma
from papers.learning import digits, repeated
from papers.tables.lssgd_table2 import accuracy

BATCH, EPOCHS, STEP, RIDGE = 128, 50, 2.0, 1e-4


def measure(mode: str, *, clipped: str, sigma: float, epsilon: float, delta: float, repetitions: int):
    """Test accuracy in per cent, with steps ``2/t``, where t - 1 batches came before the epoch."""
    return repeated(lambda seed: accuracy(_descend(clipped, sigma, epsilon, delta, seed)), repetitions)


def _descend(clipped: str, sigma: float, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Clip, add noise and smooth twice in each step: all weights as one vector, all intercepts as another."""
    X, y, _, _ = digits()
    rng, n, per_epoch = np.random.default_rng(seed), len(X), -(-len(X) // BATCH)
    noise = dp_lssgd_sigma(epsilon, delta, n, EPOCHS * per_epoch)
    targets, squares = np.eye(10, dtype=np.float32)[y], (X * X).sum(axis=1) + 1.0
    parts = [rng.uniform(-1 / 28, 1 / 28, shape).astype(np.float32) for shape in ((10, 784), (10,))]
    for epoch in range(EPOCHS):
        step, order = STEP / (1 + epoch * per_epoch), rng.permutation(n)
        for start in range(0, n, BATCH):
            rows = order[start : start + BATCH]
            slopes = softmax(X[rows] @ parts[0].T + parts[1], axis=1) - targets[rows]
            if clipped == "record":
                norms = np.sqrt((slopes * slopes).sum(axis=1) * squares[rows])
                slopes /= np.maximum(1.0, norms)[:, np.newaxis]
            for part, mean in zip(parts, (slopes.T @ X[rows] / len(rows), slopes.mean(axis=0)), strict=True):
                if clipped == "batch":
                    mean /= max(1.0, float(np.linalg.norm(mean)))
                noisy = mean + noise * rng.standard_normal(mean.shape, dtype=np.float32)
                part -= step * (_smoothed(noisy, sigma) + RIDGE * part)
    return np.vstack([parts[0].T, parts[1]])


def _smoothed(part: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth along the cycle of all entries, by a Fourier transform."""
    if sigma == 0.0:
        return part
    angles = 2.0 * np.pi * np.arange(part.size // 2 + 1) / part.size
    spectrum = np.fft.rfft(part.ravel()) / (1.0 + 2.0 * sigma * (1.0 - np.cos(angles)))
    return np.fft.irfft(spectrum, part.size).reshape(part.shape).astype(np.float32)
