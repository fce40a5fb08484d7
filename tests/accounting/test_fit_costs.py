"""Costs of objective perturbation, against exact privacy profiles of the minimiser in one dimension."""

import math

import numpy as np
import pytest
from scipy.special import expit

from dperm.accounting import gaussian_delta, gaussian_sigma
from dperm.accounting.fit_costs import perturbed_minimum_cost, sampled_gaussian_cost
from dperm.accounting.objective_perturbation import (
    logistic_objective_sigma,
    replaced_objective_delta,
    replaced_objective_sigma,
)

#: Derivative and second derivative of monotone losses in the prediction, and their bounds L and beta.
LOSSES = {
    "logistic": (lambda z: -expit(-z), lambda z: expit(z) * expit(-z), 1.0, 0.25),
    "steep": (lambda z: -expit(-4.0 * z), lambda z: 4.0 * expit(4.0 * z) * expit(-4.0 * z), 1.0, 1.0),
}

#: The same for a loss of residuals, whose derivative has both signs; the target is 0.
TWO_SIDED = (np.tanh, lambda z: 1.0 / np.cosh(z) ** 2, 1.0, 1.0)


def shifted_delta(epsilon, mu):
    """The profile of the Gaussian mechanism at any real epsilon."""
    if epsilon >= 0.0:
        return gaussian_delta(epsilon, 1.0 / mu)
    return 1.0 - math.exp(epsilon) * (1.0 - gaussian_delta(-epsilon, 1.0 / mu))


def densities(loss, records, l2, sigma):
    """Density of the minimiser of ``sum loss(x w) + l2 w^2/2 + b w``, b normal, on a grid of w."""
    derivative, curvature, _, _ = LOSSES.get(loss, TWO_SIDED)
    reach = (4.0 + 14.0 * sigma) / l2
    w = np.linspace(-reach, reach, 200_001)
    b = -(sum(x * derivative(x * w) for x in records) + l2 * w)
    slope = sum(x * x * curvature(x * w) for x in records) + l2
    return w, np.exp(-0.5 * (b / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)) * slope


def exact_delta(epsilon, loss, one, other, l2, sigma):
    """Profile of the minimiser for two lists of records, in the worse direction, at one or many epsilons."""
    (w, p), (_, q) = (densities(loss, records, l2, sigma) for records in (one, other))
    step = w[1] - w[0]
    assert p.sum() * step == pytest.approx(1, abs=1e-6)
    assert q.sum() * step == pytest.approx(1, abs=1e-6)
    excess = [
        max(np.maximum(p - factor * q, 0.0).sum(), np.maximum(q - factor * p, 0.0).sum()) * step
        for factor in np.exp(np.atleast_1d(epsilon))
    ]
    return np.array(excess) if np.ndim(epsilon) else excess[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("l2", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 4.0])
@pytest.mark.parametrize("others", [[], [1.0], [-1.0, -1.0, 0.3]], ids=len)
def test_the_cost_covers_the_exact_profile_in_both_directions(loss, l2, sigma, others):
    _, _, lipschitz, beta = LOSSES[loss]
    kind = "logistic" if loss == "logistic" else "monotone"
    cost = perturbed_minimum_cost(lipschitz, beta, l2, sigma, 1e9, loss=kind, neighbors="add_or_remove")
    epsilons = np.linspace(-6.0, 6.0, 49)
    bounds = np.array([shifted_delta(epsilon - cost.epsilon, cost.mu) for epsilon in epsilons])
    exact = exact_delta(epsilons, loss, [*others, 1.0], others, l2, sigma)
    assert np.all(exact <= bounds + 2e-6 * (1.0 + np.exp(epsilons)))
    if kind == "logistic":
        assert (cost.epsilon == 0.0) == (l2 >= 2.0 * sigma**2)


@pytest.mark.parametrize("loss", [*LOSSES, "two-sided"])
@pytest.mark.parametrize("l2", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 4.0])
@pytest.mark.parametrize("records", [(1.0, -1.0), (1.0, 0.3), (1.0, 0.0), (0.5, -1.0)])
def test_a_replaced_record_stays_within_its_bound(loss, l2, sigma, records):
    """With another record besides the one that is replaced."""
    _, _, lipschitz, beta = LOSSES.get(loss, TWO_SIDED)
    monotone, epsilons = loss != "two-sided", np.linspace(0.0, 6.0, 25)
    one, other = ([record, -0.7] for record in records)
    exact = exact_delta(epsilons, loss, one, other, l2, sigma)
    for epsilon, found in zip(epsilons, exact, strict=True):
        bound = replaced_objective_delta(epsilon, lipschitz, beta, l2, sigma, monotone=monotone)
        assert found <= bound + 2e-6 * (1.0 + math.exp(epsilon))


def test_the_bound_for_a_replaced_record_is_nearly_attained():
    """Opposite records and strong regularisation: the far corner dominates."""
    exact = exact_delta(0.25, "logistic", [1.0], [-1.0], 30.0, 4.0)
    assert exact > 0.05 * replaced_objective_delta(0.25, 1.0, 0.25, 30.0, 4.0, monotone=True)
    noise = replaced_objective_sigma(0.5, 1e-6, 1.0, 0.25, 5.0, monotone=True)
    assert replaced_objective_delta(0.5, 1.0, 0.25, 5.0, noise, monotone=True) <= 1e-6
    assert replaced_objective_delta(0.5, 1.0, 0.25, 5.0, noise * 0.999, monotone=True) > 1e-6
    assert replaced_objective_sigma(0.01, 1e-6, 1.0, 0.25, 0.05, monotone=True) == math.inf


def test_half_of_the_pure_part_is_not_enough():
    """The test of the cost can fail: with half of the pure part the profile exceeds the bound."""
    cost = perturbed_minimum_cost(1.0, 1.0, 0.05, 4.0, 1e9, loss="monotone", neighbors="add_or_remove")
    epsilons = np.linspace(0.0, 4.0, 41)
    bounds = [shifted_delta(epsilon - cost.epsilon / 2, cost.mu) for epsilon in epsilons]
    assert np.max(exact_delta(epsilons, "steep", [1.0], [], 0.05, 4.0) - bounds) > 1e-4


@pytest.mark.parametrize(("epsilon", "row"), [(0.1, 1.0), (0.5, 2.0), (1.0, 1.0), (3.0, 1.0)])
def test_exact_densities_stay_below_the_logistic_profile(epsilon, row):
    for sigma in (row, 3 * row):
        for l2 in (row**2 / epsilon, 3 * row**2 / epsilon):
            exact = exact_delta(epsilon, "logistic", [row], [], l2, sigma)
            assert exact <= gaussian_delta(epsilon, sigma, row) * (1 + 1e-6)


def test_the_condition_on_l2_is_needed():
    assert exact_delta(0.1, "logistic", [1.0], [], 0.02, 2.0) == pytest.approx(0.1827, abs=1e-4)
    assert gaussian_delta(0.1, 2.0) == pytest.approx(0.1593, abs=1e-4)
    assert logistic_objective_sigma(1.0, 1e-5, 0.2) > gaussian_sigma(1.0, 1e-5)
    with pytest.raises(ValueError, match="no noise is enough"):
        logistic_objective_sigma(0.1, 1e-5, 0.02)


def test_the_output_noise_adds():
    cost = perturbed_minimum_cost(1.0, 0.25, 5.0, 1.0, 2.0, loss="logistic", neighbors="add_or_remove")
    assert cost.mu == pytest.approx(math.sqrt(1.0 + 0.25))


@pytest.mark.parametrize(("loss", "neighbors"), [("other", "add_or_remove"), ("logistic", "replace_one")])
def test_what_does_not_add_up(loss, neighbors):
    assert perturbed_minimum_cost(1.0, 0.25, 5.0, 1.0, 2.0, loss=loss, neighbors=neighbors) is None


def test_a_run_with_secret_batches_costs_less_than_without():
    run = {"n_samples": 1000, "steps": 100, "sampling": "poisson", "neighbors": "add_or_remove"}
    cost = sampled_gaussian_cost(2.0, batch_size=10, **run)(1e-9)
    assert cost.slack == 1e-9
    assert 0.0 < cost.mu < 0.2 * math.sqrt(100) / 2.0
