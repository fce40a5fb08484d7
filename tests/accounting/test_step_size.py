import math

import pytest
from scipy.optimize import minimize_scalar

from dperm.accounting import gdp_mu
from dperm.accounting import permutation_sensitivity as ps
from dperm.accounting import step_size as ss


@pytest.mark.parametrize("jump", [0.0, 1.0])
def test_output_step_size_minimises_the_bound(jump):
    n, passes, g, d, row, radius, mu = 500, 3, 1.5, 20, 1.2, 2.0, gdp_mu(1.0, 1e-6)

    def risk(log_eta):
        eta = math.exp(log_eta)
        move = ps.permutation_pass_sensitivity(n, passes, 2.0 * eta * g, 0.0)
        smoothing = eta * jump**2 * row**2 / 16.0
        optimisation = radius**2 / (2.0 * eta * n * passes) + eta * g**2 / 2.0
        return optimisation + smoothing + g * math.sqrt(d) * move / mu

    eta = ss.output_step_size(radius, n, passes, g, d, mu, jump=jump * row)
    found = minimize_scalar(risk, bounds=(-15.0, 0.0), method="bounded", options={"xatol": 1e-9})
    assert eta == pytest.approx(math.exp(found.x), rel=1e-5)


def test_step_size_stays_below_two_over_smoothness():
    assert ss.output_step_size(100.0, 10, 1, 1.0, 1, math.inf, smoothness=4.0) == 0.5
    assert ss.numeric_step_size(lambda eta: eta, 100.0, 10, 1.0, 1, 1e9, smoothness=4.0) <= 0.5


def test_numeric_agrees_with_the_closed_form():
    mu = gdp_mu(1.0, 1e-6)
    numeric = ss.numeric_step_size(
        lambda eta: ps.permutation_pass_sensitivity(500, 2, 2.0 * eta, 0.0), 1.0, 1000, 1.0, 10, mu
    )
    assert numeric == pytest.approx(ss.output_step_size(1.0, 500, 2, 1.0, 10, mu), rel=1e-5)


def test_numeric_step_of_a_hoelder_loss_is_shorter_than_of_a_smooth_one():
    def move(eta):
        return ps.permutation_pass_sensitivity(500, 1, 2.0 * eta, ps.glm_kappa(0.5, 1.5, 1.0, eta))

    mu = gdp_mu(1.0, 1e-6)
    assert ss.numeric_step_size(move, 1.0, 500, 1.0, 10, mu) < ss.output_step_size(1.0, 500, 1, 1.0, 10, mu)


def test_gradient_step_size():
    assert ss.gradient_step_size(2.0, 100, 3.0, 2.0, 4) == pytest.approx(2.0 / math.sqrt(100 * 25), rel=1e-15)


def test_refusals():
    with pytest.raises(ValueError, match="mu"):
        ss.output_step_size(1.0, 10, 1, 1.0, 1, 0.0)
