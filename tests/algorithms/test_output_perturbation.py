"""Output perturbation: published examples, numpy reference, noise, paper modes, schedule."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from algorithms.problems import objective, separable, zero_rows
from dperm import Objective
from dperm.accounting import Ledger, gaussian_sigma
from dperm.algorithms import nonprivate, output_perturbation_gd
from dperm.errors import PrivacyWarning
from dperm.losses import Huber
from reference import numpy_algorithms as twin

ROUNDING = 2.0**-9  # largest relative increase of the sensitivity by rounding the result


def strong(**keywords):
    return objective(**{"l2": 0.05, "penalize_intercept": True, **keywords})


# L = 1 and beta = 1/4, for a loss without a sharper bound
PLAIN = {"loss": Huber(2.0), "row_norm": 0.5}
UNCLIPPED = {"clip": math.inf}


@pytest.mark.parametrize(
    ("n", "steps", "eta", "epsilon", "delta", "tight", "paper"),
    [
        (1000, 50, 0.5, 1, 1e-5, 0.1865315817, 0.3705648624),
        (45211, 200, 2, 0.1, 1e-3, 0.3079674628, 1.034867410),
        (32561, 100, 4, 2, 1e-3, 0.03550847114, 0.07184575180),
    ],
)
def test_noise_of_the_published_examples(n, steps, eta, epsilon, delta, tight, paper):
    settings = {"steps": steps, "step_size": eta, "neighbors": "replace_one", "mechanism": "gaussian"}
    result = output_perturbation_gd(zero_rows(n, **PLAIN), epsilon, delta, **UNCLIPPED, **settings)
    assert tight <= result.privacy.noise_scale <= tight * (1 + ROUNDING)
    result = output_perturbation_gd(zero_rows(n, **PLAIN), epsilon, delta, calibration="paper", **settings)
    assert result.privacy.noise_scale == pytest.approx(paper, rel=1e-9)


@pytest.mark.parametrize(
    ("steps", "eta", "n", "l2", "replace", "null"),
    [
        (10, 1, 1000, 0, 0.01277347160, 0.008474404232),
        (100, 1, 1000, 0.01, 0.1074081147, 0.06267352888),
        (30, 4, 32561, 0, 0.006734772449, 0.003613194248),
    ],
)
def test_sensitivity_of_logistic_examples(steps, eta, n, l2, replace, null):
    for neighbors, expected in (("replace_one", replace), ("add_or_remove", null)):
        settings = {"steps": steps, "step_size": eta, "neighbors": neighbors, **UNCLIPPED}
        result = output_perturbation_gd(zero_rows(n, l2=l2), 1.0, 1e-5, **settings)
        assert expected <= result.privacy.sensitivity <= expected * (1 + ROUNDING)


def test_without_noise_it_equals_the_numpy_reference():
    X, y = separable()
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True)
    result = output_perturbation_gd(obj, math.inf, 1e-6, steps=30, step_size=2.0)
    expected = twin.output_perturbation_gd(
        twin.scaled_rows(X, 1.5, True), y, 30, 2.0, 0.0, np.random.default_rng()
    )
    # exact up to the grid of the result
    np.testing.assert_allclose(result.coef, expected, atol=result.privacy.sensitivity / 1000)
    assert not result.privacy.private


def test_without_noise_it_reaches_the_optimum():
    obj = strong()
    result = output_perturbation_gd(obj, math.inf, 1e-6, steps=1000, step_size=3.0)
    np.testing.assert_allclose(result.coef, nonprivate(obj).coef, atol=result.privacy.sensitivity / 500)


@pytest.mark.parametrize(("delta", "mechanism"), [(1e-6, "gaussian"), (0.0, "auto"), (1e-6, "auto")])
def test_one_release_spends_the_budget(delta, mechanism, releases):
    result = output_perturbation_gd(strong(), 0.7, delta, mechanism=mechanism)
    ((method, budget),) = releases
    assert budget.total_units * (1 - 1e-14) <= budget.spent_units <= budget.total_units
    laplace = method == "norm_laplace_sum"
    assert laplace == (delta == 0.0 or mechanism == "auto")  # six weights: norm-Laplace noise is smaller
    assert result.privacy.delta == (0.0 if laplace else delta)
    assert result.privacy.accountant == ("pure" if laplace else "gdp")


def test_measured_noise_scale():
    """Chi-squared test of 1500 noisy coordinates: beyond 5 standard deviations with probability 6e-7."""
    settings = {"steps": 3, "step_size": 1.0, "mechanism": "gaussian"}
    runs = [
        output_perturbation_gd(zero_rows(100), 1.0, 1e-3, random_state=seed, **settings)
        for seed in range(1500)
    ]
    noise = np.array([run.coef[0] for run in runs]) / runs[0].privacy.noise_scale
    assert abs(np.sum(noise**2) - 1500) < 5 * math.sqrt(2 * 1500)
    expected = gaussian_sigma(1.0, 1e-3, runs[0].privacy.sensitivity)
    assert runs[0].privacy.noise_scale == pytest.approx(expected, rel=1e-8)


def test_a_pure_fit_charges_no_delta():
    ledger = Ledger(1.0, 1e-6)
    output_perturbation_gd(strong(), 0.1, 0.0, ledger=ledger)
    assert ledger.history()[0].delta == 0.0
    assert ledger.history()[0].accountant == "pure"


@pytest.mark.parametrize("bound", [{}, {"clip": 0.5}, {"radius": 3.0}, {"radius": 3.0, **UNCLIPPED}], ids=str)
def test_a_clip_or_a_radius_admits_losses_without_a_lipschitz_bound(bound):
    X, y = separable()
    obj = Objective("squared_hinge", X, y, row_norm=1.5, fit_intercept=True)
    with pytest.raises(ValueError, match="clip or radius"):
        output_perturbation_gd(obj, 1.0, 1e-6, **UNCLIPPED)
    result = output_perturbation_gd(obj, 1e4, 1e-6, random_state=0, **bound)
    assert np.mean(np.sign(X @ result.coef[:-1] + result.coef[-1]) == y) > 0.8


def test_noise_is_proportional_to_the_clip():
    settings = {"steps": 20, "step_size": 1.0}
    one, other = (
        output_perturbation_gd(strong(), 1.0, 1e-6, clip=clip, **settings).privacy for clip in (0.1, 0.2)
    )
    assert other.noise_scale == pytest.approx(2.0 * one.noise_scale, rel=2 * ROUNDING)
    assert (one.clip, other.clip) == (0.1, 0.2)


class TestPaperMode:
    def test_a_false_claim_is_refused(self):
        with pytest.raises(ValueError, match="not"):
            output_perturbation_gd(
                zero_rows(1000),
                20.0,
                1e-3,
                steps=5,
                step_size=1.0,
                calibration="paper",
                neighbors="replace_one",
            )

    def test_pure_noise_is_the_published_sensitivity(self):
        result = output_perturbation_gd(
            zero_rows(1000, **PLAIN), 0.5, 0.0, steps=50, step_size=0.5, calibration="paper",
            neighbors="replace_one",
        )  # fmt: skip
        assert result.privacy.noise_scale == pytest.approx(0.075 / 0.5, rel=1e-9)

    def test_it_warns_outside_the_range_of_its_proof(self):
        settings = {"steps": 50, "step_size": 0.5, "calibration": "paper"}
        with pytest.warns(PrivacyWarning, match="replacing"):
            output_perturbation_gd(zero_rows(1000, **PLAIN), 1.0, 1e-5, **settings)
        with pytest.warns(PrivacyWarning, match="outside the range"):
            output_perturbation_gd(
                zero_rows(1000, **PLAIN), 1.0, 1e-5, neighbors="replace_one", **{**settings, "step_size": 7.0}
            )


def test_the_algorithm_reads_no_exact_gradients():
    """Only bounded trainings do; the algorithm gets private values with a bound."""
    source = Path(sys.modules[output_perturbation_gd.__module__].__file__).read_text()
    assert ".gradient(" not in source
    assert "release_without_privacy" not in source
