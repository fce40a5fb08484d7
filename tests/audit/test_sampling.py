"""A sampling algorithm that shuffles its records while claiming the epsilon of Poisson sampling."""

from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import norm

from dperm.accounting import gaussian_delta
from dperm.audit import epsilon_lower_bound

DELTA = 1e-3
CONFIDENCE = 1 - 1e-6
BATCHES, EPOCHS, SIGMA = 64, 25, 1.0


def poisson_epsilon(sigma, rate, steps, delta, step=1e-3, size=2**17):
    """Epsilon of ``steps`` Poisson-subsampled Gaussians by convolving rounded-up privacy losses."""
    x = np.linspace(-12 * sigma, 1 + 12 * sigma, 400_001)
    edges = (x[1:] + x[:-1]) / 2
    absent = np.diff(norm.cdf(edges / sigma), prepend=0, append=1)
    present = (1 - rate) * absent + rate * np.diff(norm.cdf((edges - 1) / sigma), prepend=0, append=1)
    right = np.append(edges, x[-1])  # the loss grows with x: the right end of a cell has its largest
    left = np.insert(edges, 0, x[0])
    ratio = lambda at: np.log(1 - rate + rate * np.exp((2 * at - 1) / (2 * sigma**2)))  # noqa: E731
    result = 0.0
    for mass, loss in ((present, ratio(right)), (absent, -ratio(left))):
        cells = np.bincount(np.ceil(loss / step).astype(int) % size, weights=mass, minlength=size)
        total = np.fft.irfft(np.fft.rfft(cells) ** steps, size)
        losses = np.fft.fftfreq(size, 1 / size) * step
        low, high = 0.0, 50.0
        for _ in range(50):
            middle = (low + high) / 2
            excess = (total * -np.expm1(np.minimum(middle - losses, 0.0)))[losses > middle].sum()
            low, high = (middle, high) if excess > delta else (low, middle)
        result = max(result, high)
    return result


@lru_cache
def toy_claim():
    return poisson_epsilon(SIGMA, 1 / BATCHES, BATCHES * EPOCHS, DELTA)


def toy_dp_sgd(present, seed, sampling):
    """Noisy sums of all batches, (epochs, batches): one record of gradient 1 or none, the others have 0."""
    rng = np.random.default_rng(seed)
    if sampling == "poisson":
        sums = 1.0 * (rng.random((EPOCHS, BATCHES)) < 1 / BATCHES)
    else:  # dealt into batches once, which each epoch passes through
        sums = np.zeros((EPOCHS, BATCHES))
        sums[:, rng.integers(BATCHES)] = 1.0
    return present * sums + SIGMA * rng.normal(size=(EPOCHS, BATCHES))


def always_in_one_batch(observations):
    """Log-likelihood ratio of a record that is in the same batch all along."""
    sums = observations.reshape(-1, EPOCHS, BATCHES).sum(axis=1)
    return np.log(np.mean(np.exp((sums - EPOCHS / 2) / SIGMA**2), axis=1))


def in_random_batches(observations):
    """Log-likelihood ratio under Poisson sampling."""
    ratio = np.exp((observations - 0.5) / SIGMA**2)
    return np.log1p((ratio - 1) / BATCHES).sum(axis=1)


@pytest.mark.parametrize("statistic", [always_in_one_batch, in_random_batches])
@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_shuffling_accounted_as_poisson_is_found(sampling, statistic):
    """No GDP claim here: only the method that assumes nothing is right."""
    result = epsilon_lower_bound(
        lambda present, seed: toy_dp_sgd(present, seed, sampling),
        (False, True),
        delta=DELTA,
        trainings=4000,
        statistic=statistic,
        method="clopper_pearson",
        claim=toy_claim(),
        confidence=CONFIDENCE,
        n_jobs=1,
        random_state=0,
    )
    assert result.violates() == (sampling == "shuffled" and statistic is always_in_one_batch), result


def test_the_toy_accountant_is_the_gaussian_one_without_sampling():
    epsilon = poisson_epsilon(2.0, 1.0, 4, 1e-3)
    assert 1e-3 * (1 - 0.02) < gaussian_delta(epsilon, 2.0, 2.0) <= 1e-3
