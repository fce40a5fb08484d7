import math

import pytest

from dperm.accounting import noise_multiplier, paper, sgd_epsilon, zcdp_rho
from dperm.accounting.paper import compare_with_paper, nonsmooth, stochastic
from dperm.accounting.pure_composition import sgd_advanced_step_epsilon
from dperm.errors import PrivacyWarning


def near(value):
    return pytest.approx(value, rel=1e-9)


def output_noise(epsilon, delta, n, steps, eta):
    return paper.output_perturbation(
        epsilon, delta, n_samples=n, steps=steps, eta=eta, lipschitz=1, beta=0.25
    )


def pure_objective(n, epsilon, l2):
    return paper.objective_perturbation_pure(epsilon, n_samples=n, l2=l2)


def selection_rate(rho, generations, stride):
    return paper.privgene(rho, generations=generations, entry_bound=1, stride=stride)


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        (output_noise, (1, 1e-5, 1000, 50, 0.5), 0.3705648624),
        (output_noise, (0.1, 1e-3, 45211, 200, 2), 1.034867410),
        (output_noise, (2, 1e-3, 32561, 100, 4), 0.07184575180),
        (paper.smooth_erm_sensitivity, (1000, 50, 0.5, 1, 0.25), 0.075),
        (paper.smooth_erm_sensitivity, (45211, 200, 2, 1, 0.25, 0.01), 0.01148461147),
        (paper.smooth_erm_sensitivity, (32561, 100, 4, 1, 0.25), 0.03685390498),
        (paper.smooth_erm_sensitivity, (1000, 30, 4, 1, 0.25, 0.1), 0.06428571429),
        (stochastic.rrpsgd_sigma, (1, 1e-5, 1000), 30.87095131),
        (stochastic.rrpsgd_sigma, (0.5, 1e-5, 10000), 65.28208694),
        (stochastic.rrpsgd_sigma, (0.1, 1e-6, 30000), 382.5979454),
        (stochastic.dp_lssgd_sigma, (0.1, 1e-5, 60000, 23450), 0.3471474884),
        (pure_objective, (1000, 0.5, 0.01), (0.4506147748, 0)),
        (pure_objective, (1000, 0.1, 0.001), (0.05, 0.008875520828)),
        (pure_objective, (45211, 1, 1e-4), (0.8923568816, 0)),
        (selection_rate, (0.001, 1, 0.5), 0.02236067977),
        (selection_rate, (2.088163809e-4, 20, 0.475), 0.002405075317),
        (selection_rate, (0.01, 50, 0.25), 0.02),
    ],
)
def test_vectors(function, arguments, value):
    assert function(*arguments) == near(value)


def test_output_perturbation_refuses_and_warns():
    settings = {"n_samples": 1000, "steps": 50, "lipschitz": 1, "beta": 0.25}
    with pytest.raises(ValueError, match=r"is not \(20, 0.001\)-DP"):
        paper.output_perturbation(20, 1e-3, eta=0.5, **settings)
    with pytest.raises(ValueError, match="eta must be at most"):
        paper.output_perturbation(1, 1e-3, eta=8.1, **settings)
    with pytest.warns(PrivacyWarning, match="outside the range"):
        paper.output_perturbation(1, 1e-3, eta=6, **settings)


@pytest.mark.slow
def test_rrpsgd_is_verified():
    assert paper.rrpsgd(1, 1e-5, n_samples=100) == near(stochastic.rrpsgd_sigma(1, 1e-5, 100))
    comparison = compare_with_paper("rrpsgd", epsilon=0.5, delta=1e-5, n_samples=1000)
    assert comparison.tight_noise / 2 == pytest.approx(7.436, rel=3e-3)
    assert comparison.ratio == pytest.approx(4.15, rel=3e-3)
    assert comparison.true_epsilon == pytest.approx(0.1011, rel=3e-3)
    with pytest.warns(PrivacyWarning, match="outside the range"):
        paper.rrpsgd(10, 1e-3, n_samples=100)
    with pytest.raises(ValueError, match="is not"):
        paper.rrpsgd(20, 1e-3, n_samples=1000)


def test_noisy_gd():
    settings = {"n_samples": 1000, "steps": 100}
    assert paper.noisy_gd(0.5, 1e-5, **settings) == near(10 * math.sqrt(2 * math.log(1.25e5)) / 500)
    with pytest.raises(ValueError, match="half of the noise"):
        paper.noisy_gd(0.5, 1e-5, neighbors="replace_one", **settings)
    with pytest.warns(PrivacyWarning):
        paper.noisy_gd(2.0, 1e-5, **settings)
    with pytest.raises(ValueError, match="is not"):
        paper.noisy_gd(30.0, 1e-5, **settings)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho", "selection", "gradient", "sigma", "laplace", "iterations", "cks", "quarter"),
    [
        (0.1, 1e-8, 1.353498885e-4, 3.472222222e-7, 9.311990306e-9, 21982.90076, 3600, 379, 585, 2172),
        (0.4, 1e-8, 2.148211134e-3, 5.555555556e-6, 1.489918449e-7, 5495.725189, 900, 376, 523, 1941),
        (1.6, 1e-12, 2.251508061e-2, 8.888888889e-5, 1.595612181e-6, 1679.355285, 225, 248, 294, 1119),
    ],
)
def test_dp_agd_vectors(epsilon, delta, rho, selection, gradient, sigma, laplace, iterations, cks, quarter):
    split = paper.dp_agd(epsilon, delta)
    assert split[:5] == near((rho, selection, gradient, sigma, laplace))
    assert split.first_try_iterations == iterations
    tight = zcdp_rho(epsilon, delta)
    assert int(tight / (split.rho_selection + split.rho_gradient)) == cks
    assert int(tight / (split.rho_selection / 4 + split.rho_gradient)) == quarter
    with pytest.raises(ValueError, match="half of the noise"):
        paper.dp_agd(epsilon, delta, neighbors="replace_one")


MNIST = {"batch_size": 128, "n_samples": 50000, "steps": 19550}


@pytest.mark.parametrize(
    ("epsilon", "noise", "multiplier", "lower", "upper", "poisson", "ratio", "poisson_ratio"),
    [
        (0.1, 0.3803620951, 24.34317409, 0.0418, 0.0425, 0.025, 2.13, 4.34),
        (0.2, 0.1905917, 12.1979, 0.0897, 0.0927, 0.045, 1.96, 4.12),
        (0.3, 0.1273344343, 8.149403795, 0.1398, 0.1468, 0.068, 1.84, 3.97),
        (1.0, 0.038769, 2.4812, 0.535, 0.617, 0.243, 1.42, 3.28),
        (2.0, 0.019784, 1.2662, 1.292, 1.634, 0.522, 1.13, 2.60),
    ],
)
def test_dp_lssgd_at_the_published_setting(
    epsilon, noise, multiplier, lower, upper, poisson, ratio, poisson_ratio
):
    digits = 1e-9 if epsilon in (0.1, 0.3) else 3e-5
    comparison = compare_with_paper("dp_lssgd", epsilon=epsilon, delta=1e-5, **MNIST)
    assert comparison.paper_noise == pytest.approx(noise, rel=digits)
    assert comparison.paper_noise * 128 / 2 == pytest.approx(multiplier, rel=digits)
    assert lower <= comparison.true_epsilon <= upper * 1.002
    assert comparison.ratio == pytest.approx(ratio, abs=0.0151)
    assert comparison.holds
    other = compare_with_paper("dp_lssgd", epsilon=epsilon, delta=1e-5, neighbors="add_or_remove", **MNIST)
    assert 0.75 * poisson <= other.true_epsilon <= 1.01 * poisson  # printed: upper bounds on a coarser grid
    assert poisson_ratio * 0.995 <= other.ratio <= poisson_ratio * 1.02  # printed for slightly too much noise


@pytest.mark.parametrize(
    ("n", "b", "steps", "delta", "epsilon", "noise", "true"),
    [
        (1000, 10, 1, 1e-6, 0.083, 0.1793976182, None),
        (50000, 500, 1, 1e-5, 0.075, 0.003625164468, None),
        (1000, 100, 1, 1e-5, 0.75, 0.01838873121, None),
        (1000, 10, 20, 1e-6, 0.37, None, 0.987),
        (50000, 128, 10, 1e-5, 0.061, None, 0.118),
        (50000, 128, 40, 1e-5, 0.122, None, 0.182),
    ],
)
def test_dp_lssgd_counterexamples_are_refused(n, b, steps, delta, epsilon, noise, true):
    settings = {"batch_size": b, "n_samples": n, "steps": steps}
    comparison = compare_with_paper("dp_lssgd", epsilon=epsilon, delta=delta, **settings)
    assert comparison.proved  # the condition of the theorem is met
    assert not comparison.holds
    if noise is not None:
        assert comparison.paper_noise == near(noise)
    if true is not None:
        assert comparison.true_epsilon >= true * 0.995
    with pytest.raises(ValueError, match="'dp_lssgd' is not"):
        paper.dp_lssgd(epsilon, delta, **settings)


@pytest.mark.parametrize(
    ("rate", "steps", "epsilon", "delta", "inner", "published"),
    [
        (0.01, 100, 1, 1e-5, 1.087069093, 23.07125423),
        (0.0052, 125, 1.6, 1e-8, 1.672436110, None),
        (0.00256, 1000, 0.5, 1e-6, 0.7556854252, 45.90159112),
    ],
)
def test_sgd_advanced_vectors(rate, steps, epsilon, delta, inner, published):
    assert sgd_advanced_step_epsilon(epsilon, delta, rate, steps) == near(inner)
    if published is None:
        with pytest.raises(ValueError, match="needs epsilon_t"):
            paper.sgd_advanced_composition(epsilon, delta, rate=rate, steps=steps)
    else:
        assert paper.sgd_advanced_composition(epsilon, delta, rate=rate, steps=steps) == near(published)


@pytest.mark.parametrize(
    ("epsilon", "delta", "row", "l2", "sigma"),
    [(1, 1e-5, 1, 1, 10.08209210), (0.1, 1e-8, 1, 10, 123.8186672), (0.5, 1e-6, 2, 8, 43.46387225)],
)
def test_objective_perturbation_vectors(epsilon, delta, row, l2, sigma):
    assert paper.objective_perturbation(epsilon, delta, l2=l2, row_norm=row) == near(sigma)
    comparison = compare_with_paper(
        "objective_perturbation", epsilon=epsilon, delta=delta, l2=l2, row_norm=row
    )
    assert comparison.ratio == pytest.approx(2.70, abs=0.006)
    with pytest.raises(ValueError, match="l2 must be at least"):
        paper.objective_perturbation(epsilon, delta, l2=0.4 * row**2 / epsilon, row_norm=row)


def test_sgd_output_vectors():
    settings = {"n_samples": 1000, "steps": 1000, "eta": 0.01, "alpha": 0, "holder": 2, "gradient_at_zero": 1}
    assert paper.sgd_output_sensitivity(5e-7, radius=1, **settings) == near(6.587000465)
    with pytest.warns(PrivacyWarning, match="outside the range"):
        assert paper.sgd_output(1, 1e-6, radius=1, **settings) == near(35.75449250)
    smooth = settings | {"alpha": 1, "holder": 0.25, "gradient_at_zero": 0.5, "eta": 0.05, "steps": 10000}
    assert paper.sgd_output_sensitivity(5e-7, radius=1, **smooth) == near(9.242842746)
    comparison = compare_with_paper("dp_sgd_output", epsilon=1, delta=1e-6, radius=1, **smooth)
    assert comparison.paper_noise == near(50.17050680)


@pytest.mark.parametrize(
    ("n", "steps", "delta", "beta", "order", "sigma"),
    [
        (1000, 1000, 1e-6, 0.003812913743, 14.86838953, 7.388690801),
        (10**4, 10**6, 1e-8, 0.09753938283, None, 5.543687646),
        (10**4, 10**8, 1e-8, 0.3528512011, None, 34.19139132),
    ],
)
def test_sgd_gradient_vectors(n, steps, delta, beta, order, sigma):
    choice = nonsmooth.feasible_beta(1, delta, n_samples=n, steps=steps)
    assert choice.beta == pytest.approx(beta, rel=1e-8)
    assert choice.sigma == near(sigma)
    if order is not None:
        assert choice.order == near(order)


def test_sgd_gradient_is_verified_and_refused():
    assert paper.sgd_gradient(1, 1e-6, n_samples=1000, steps=1000, gradient_bound=3) == near(3 * 7.388690801)
    comparison = compare_with_paper("dp_sgd_gradient", epsilon=1, delta=1e-6, n_samples=1000, steps=1000)
    assert comparison.tight_noise == pytest.approx(1.399, rel=2e-3)
    with pytest.raises(ValueError, match="No beta is feasible"):
        paper.sgd_gradient(1, 1e-6, n_samples=1000, steps=10**6)


def test_beta_of_one_half_breaks_the_guarantee_where_it_is_infeasible():
    half = math.sqrt(14 * 1000 * (math.log(1e6) * 2 + 1) / (0.5 * 1e6))
    assert half == pytest.approx(0.895, abs=6e-4)
    settings = {"sampling": "without_replacement", "neighbors": "replace_one"}
    assert sgd_epsilon(half, 1e-6, batch_size=1, n_samples=1000, steps=1000, **settings) > 2


def test_unknown_algorithm():
    with pytest.raises(ValueError, match="algorithm must be one of 'output_perturbation_gd'"):
        compare_with_paper("adam", epsilon=1, delta=1e-5)
    assert noise_multiplier(1.0, 1e-5, batch_size=1, n_samples=1, steps=1) > 3.7
