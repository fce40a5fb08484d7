"""Draws of the noise of one training, as benchmarks make them, against fits that train each time."""

import numpy as np
import pytest
from scipy.stats import chi2, gamma, kstest

from algorithms.problems import objective
from dperm.accounting import Ledger
from dperm.algorithms import dp_sgd_output, noisy_gd, output_perturbation_gd
from repetitions import noise_draws

SETTINGS = {"epsilon": 0.5, "delta": 1e-6}


@pytest.mark.parametrize("algorithm", [output_perturbation_gd, dp_sgd_output])
def test_gaussian_draws(algorithm):
    settings = {**SETTINGS, "mechanism": "gaussian"}
    fit = algorithm(objective(), random_state=4, **settings)
    draws = noise_draws(algorithm, objective(), 500, seed=4, **settings)
    assert draws.shape == (500, 6)
    assert not draws.private
    squares = (((draws - draws.mean(axis=0)) / fit.privacy.noise_scale) ** 2).sum()
    low, high = chi2(499 * 6).ppf(5e-10), chi2(499 * 6).isf(5e-10)  # false alarm: 1e-9
    assert low < squares < high
    deviation = fit.privacy.noise_scale
    centre = np.linalg.norm(draws.mean(axis=0) - fit.coef) / deviation
    assert centre < np.sqrt(chi2(6, scale=1 + 1 / 500).isf(1e-9))


def test_norm_laplace_draws():
    settings = {"epsilon": 0.5, "delta": 0.0}
    fit = output_perturbation_gd(objective(), random_state=4, **settings)
    draws = noise_draws(output_perturbation_gd, objective(), 500, seed=4, **settings)
    twice = noise_draws(output_perturbation_gd, objective(), 500, seed=5, **settings)
    radii = np.linalg.norm(draws - (draws.mean(axis=0) + twice.mean(axis=0)) / 2, axis=1)
    assert kstest(radii / fit.privacy.noise_scale, gamma(6).cdf).pvalue > 1e-9


def test_what_is_no_single_release_is_refused():
    with pytest.raises(ValueError, match="are not private"):
        noise_draws(output_perturbation_gd, objective(), 2, seed=0, ledger=Ledger(1.0, 1e-6), **SETTINGS)
    with pytest.raises(ValueError, match="makes 50 releases"):
        noise_draws(noisy_gd, objective(), 2, seed=0, steps=50, learn_scales=False, **SETTINGS)
