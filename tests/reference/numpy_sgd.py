"""Plain numpy twins of the stochastic gradient methods, given the batches and the noise."""

import math

import numpy as np

from reference.numpy_algorithms import clipped_logistic_gradient


def heavy_ball(step_size, momentum):
    def move(g, memory):
        memory["v"] = momentum * memory.get("v", 0.0) - step_size * g
        return memory["v"]

    return move


def adam(step_size, beta1=0.9, beta2=0.999):
    def move(g, memory):
        t = memory["t"] = memory.get("t", 0) + 1
        m = memory["m"] = beta1 * memory.get("m", 0.0) + (1 - beta1) * g
        s = memory["s"] = beta2 * memory.get("s", 0.0) + (1 - beta2) * g * g
        return -step_size * (m / (1 - beta1**t)) / (np.sqrt(s / (1 - beta2**t)) + 1e-8)

    return move


def minibatch_descent(rows, y, batches, noise, schedule, move, smooth=lambda g: g, l2=0.0):
    """``batches``: index arrays; ``noise``: one vector per step; ``l2``: ridge term on every weight."""
    norms = np.linalg.norm(rows, axis=1)
    w, memory = np.zeros(rows.shape[1]), {}
    iterates = [w]
    for batch, z in zip(batches, noise, strict=True):
        total = clipped_logistic_gradient(rows[batch], y[batch], norms[batch], w, schedule.clip)
        g = smooth((total + z) / schedule.batch_size + l2 * w)
        w = w + move(g, memory)
        iterates.append(w)
    return np.mean(iterates[-max(1, math.ceil(schedule.tail * len(iterates))) :], axis=0)


def smoothing_by_fft(v, sigma):
    """``(I - sigma L)^-1 v``, L the second difference on a ring, by discrete Fourier transform."""
    d = len(v)
    symbol = 1.0 + 4.0 * sigma * np.sin(np.pi * np.arange(d // 2 + 1) / d) ** 2
    return np.fft.irfft(np.fft.rfft(v) / symbol, d)


def smoothing_dense(v, sigma):
    """The same by solving the system."""
    d = len(v)
    laplacian = np.zeros((d, d))
    for i in range(d):
        laplacian[i, i] -= 2.0
        laplacian[i, (i + 1) % d] += 1.0
        laplacian[i, (i - 1) % d] += 1.0
    return np.linalg.solve(np.eye(d) - sigma * laplacian, v)
