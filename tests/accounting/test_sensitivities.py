import dataclasses
import math

import mpmath
import numpy as np
import pytest

from dperm.accounting import gaussian_sigma, smoothing_beta, smoothing_gamma
from dperm.accounting import objective_perturbation as op
from dperm.accounting import output_sensitivity as os_
from dperm.accounting import permutation_sensitivity as ps
from dperm.accounting.norm_laplace import gaussian_or_norm_laplace
from dperm.accounting.output_sensitivity import DescentRun
from dperm.accounting.selection import offspring_range, privgene_rate


def near(value):
    return pytest.approx(value, rel=1e-9)


def descent(n, steps, eta):
    """Sensitivity of gradient descent on a loss of slope 1 and curvature 1/4."""
    return os_.gradient_descent_sensitivity(DescentRun(n, steps, eta), 1.0, 0.25)


def noisy_gd_sigma(epsilon, delta, steps, n, sensitivity):
    """Noise on the mean gradient of each of so many steps."""
    return gaussian_sigma(epsilon, delta, math.sqrt(steps) * sensitivity / n)


def sgd(n, batch_size, passes, eta, l2, beta):
    return os_.permutation_sgd_sensitivity(n, batch_size, passes, eta, 1, beta, l2=l2)


def selection_rate(rho, generations, stride, neighbors="add_or_remove"):
    return privgene_rate(rho, generations, offspring_range(1, stride, neighbors))


diameter = os_.logistic_gradient_diameter
VECTORS = [
    (diameter, (0, 1), 1),
    (diameter, (1, 1), 1.099095477),
    (diameter, (5, 1), 1.617278089),
    (diameter, (2, 3), 5.042017510),
    (sgd, (1000, 50, 10, 0.5, 0.05, 1), 0.05001994407),
    (sgd, (1000, 50, 10, 0.5, 0, 1), 0.2),
    (sgd, (45200, 200, 5, 0.1, 0.001, 0.25), 0.004781462236),
    (os_.permutation_sgd_decreasing_sensitivity, (1000, 50, 1, 0.05), 0.04),
    (os_.permutation_sgd_decreasing_sensitivity, (45200, 200, 1, 0.001), 0.04424778761),
    (gaussian_sigma, (1, 1e-5, descent(1000, 50, 0.5)), 0.1865315817),
    (gaussian_sigma, (0.1, 1e-3, descent(45211, 200, 2)), 0.3079674628),
    (gaussian_sigma, (2, 1e-3, descent(32561, 100, 4)), 0.03550847114),
    (noisy_gd_sigma, (1, 1e-5, 99, 1000, 2), 0.07423863218),
    (noisy_gd_sigma, (1, 1e-5, 99, 1000, 1), 0.03711931609),
    (noisy_gd_sigma, (0.5, 1e-8, 49, 45211, 2 * 11.1803398875), 0.03414848698),
    (noisy_gd_sigma, (1, 1e-5, 99, 1000, diameter(1.0)), 0.04079767243),
    (noisy_gd_sigma, (1, 1e-5, 99, 1000, 0.7310585786300049), 0.02713639446),
    (noisy_gd_sigma, (1, 1e-5, 500, 1000, 2), 0.1668389187),
    (ps.averaged_count_sigma, (1, 1e-6, 1000, 1000, 0.02, 0.02), 2.675646554),
    (ps.averaged_count_sigma, (1, 1e-6, 1000, 10000, 0.1, 0.0), 6.480294833),
    (ps.unbounded_iterate_radius, (2, 0.02, 0.5, 1.5, 1.0), math.sqrt(0.0400000675)),
    (ps.unbounded_iterate_radius, (1000, 0.02, 0.5, 1.5, 1.0), 6.321397585),
    (selection_rate, (0.001, 1, 0.5), 0.08944271910),
    (selection_rate, (0.001, 1, 0.5, "replace_one"), 0.04472135955),
    (selection_rate, (2.088163809e-4, 20, 0.475), 0.009620301270),
    (selection_rate, (2.088163809e-4, 20, 0.475, "replace_one"), 0.004810150635),
    (selection_rate, (0.01, 50, 0.25), 0.08),
    (selection_rate, (0.01, 50, 0.25, "replace_one"), 0.04),
]


@pytest.mark.parametrize(("function", "arguments", "value"), VECTORS)
def test_vectors(function, arguments, value):
    printed = 1e-7 if function is ps.averaged_count_sigma else 1e-9
    assert function(*arguments) == pytest.approx(value, rel=printed)


GD = [
    (1000, 50, 0.5, 0, 0.25, 0.05, 0.025, 0.0255),
    (45211, 200, 2, 0.01, 0.25, 0.004345898358, 0.002172949179, None),
    (32561, 100, 4, 0, 0.25, 0.02456926999, 0.01228463499, 0.01240748135),
    (1000, 30, 4, 0.1, 0.25, 0.01999999558, 0.009999997789, None),
]


@pytest.mark.parametrize(("n", "steps", "eta", "l2", "beta", "replace", "null", "average"), GD)
def test_gradient_descent_vectors(n, steps, eta, l2, beta, replace, null, average):
    def sensitivity(**keywords):
        return os_.gradient_descent_sensitivity(DescentRun(n, steps, eta, l2=l2, **keywords), 1.0, beta)

    assert sensitivity() == near(replace)
    assert sensitivity(neighbors="add_or_remove") == near(null)
    if average is not None:
        assert sensitivity(average=True) == near(average)
    assert sensitivity(radius=1e-3) == 2e-3
    recursion, total = 0.0, 0.0
    for _ in range(steps):
        recursion = os_.contraction(eta, l2, beta) * recursion + 2 * eta / n
        total += recursion
    assert sensitivity() == near(recursion)
    assert sensitivity(average=True) == near(total / steps)


def test_linear_and_quadratic_losses_attain_the_bound():
    n, steps, eta, l2 = 50, 40, 0.3, 0.7
    for strength, beta in ((0.0, 1.0), (l2, 1e-9)):
        bound = os_.gradient_descent_sensitivity(DescentRun(n, steps, eta, l2=strength), 1, beta)
        w = v = 0.0
        for _ in range(steps):
            w -= eta * (strength * w + 1.0)
            v -= eta * (strength * v + (1.0 - 2.0 / n))
        assert abs(w - v) <= bound * (1 + 1e-12)
        assert abs(w - v) > 0.999999 * bound


def test_too_large_a_step_is_refused():
    with pytest.raises(ValueError, match="eta must be at most"):
        os_.gradient_descent_sensitivity(DescentRun(100, 10, 2.1), 1, 1)
    with pytest.raises(ValueError, match="eta must be at most"):
        os_.gradient_descent_sensitivity(DescentRun(100, 10, 2.0, l2=0.1), 1, 1)


@pytest.mark.parametrize(
    ("steps", "eta", "row_norm", "n", "l2", "replace", "null", "end"),
    [
        (10, 1, 1, 1000, 0, 0.01277347160, 0.008474404232, 3.597777774),
        (50, 0.2, 1, 1000, 0, 0.01220381100, 0.008274164533, 2.637845148),
        (100, 1, 1, 1000, 0.01, 0.1074081147, 0.06267352888, 8.185008106),
        (30, 4, 1, 32561, 0, 0.006734772449, 0.003613194248, 23.06771372),
    ],
)
def test_logistic_vectors(steps, eta, row_norm, n, l2, replace, null, end):
    run = DescentRun(n, steps, eta, l2=l2)
    assert os_.logistic_sensitivity(run, row_norm) == near(replace)
    assert os_.logistic_sensitivity(dataclasses.replace(run, neighbors="add_or_remove"), row_norm) == near(
        null
    )
    assert os_.logistic_iterate_norms(run, row_norm)[-1] == near(end)


def test_logistic_gradients_of_random_pairs_stay_within_the_diameter():
    rng = np.random.default_rng(3)
    for norm in (0.1, 1.0, 4.0):
        w = np.array([norm, 0.0])
        v = rng.normal(size=(4000, 2))
        v /= np.linalg.norm(v, axis=1)[:, None]
        gradients = -v / (1 + np.exp(v @ w))[:, None]
        gaps = np.linalg.norm(gradients[:, None] - gradients[None, :500], axis=2)
        assert gaps.max() <= os_.logistic_gradient_diameter(norm)
        assert gaps.max() > 0.99 * os_.logistic_gradient_diameter(norm)


@pytest.mark.parametrize("b", [1, 10, 20])
def test_decreasing_steps_attain_the_bound_for_every_batch_size(b):
    n, l2 = 200, 0.05
    w = v = 0.0
    for t in range(1, n // b + 1):
        change = 2.0 / b if t == 1 else 0.0  # the record sits in the first batch
        w -= (l2 * w + 1.0) / (l2 * t)
        v -= (l2 * v + 1.0 - change) / (l2 * t)
    assert abs(w - v) == pytest.approx(os_.permutation_sgd_decreasing_sensitivity(n, b, 1, l2), rel=1e-9)


def test_a_remainder_batch_is_refused():
    with pytest.raises(ValueError, match="batch_size must divide"):
        os_.permutation_sgd_sensitivity(1000, 30, 1, 0.1, 1, 1)


@pytest.mark.parametrize(
    ("push", "kappa", "n", "passes", "last", "average", "sigma"),  # sigma of the average at (1, 1e-6)
    [
        (0.02, 0.02, 1000, 1, 0.6324555320, 0.4213166622, 1.779927609),
        (0.02, 0.02, 200, 4, 0.6164913706, 0.4040651035, 1.707045313),
        (0.1, 0.0, 100, 5, 0.5, 0.299, 1.263178988),
        (2.121320344, ps.glm_kappa(0.5, 1.5, 1, 0.5), 100, 3, 6.975229467, 4.572106355, 19.31568120),
        (0.02, 0.0, 1000, 1, 0.02, 0.01998, 0.08440908421),
    ],
)
def test_permutation_pass_vectors(push, kappa, n, passes, last, average, sigma):
    assert ps.permutation_pass_sensitivity(n, passes, push, kappa, average=False) == near(last)
    computed = ps.permutation_pass_sensitivity(n, passes, push, kappa)
    assert computed == near(average)
    assert gaussian_sigma(1, 1e-6, computed) == near(sigma)
    assert ps.permutation_pass_sensitivity(n, passes, push, kappa, radius=0.01) == min(0.02, computed)


def test_kappa_vectors():
    assert ps.holder_kappa(0.0, 2.0, 0.01) == near(0.02)
    assert ps.glm_kappa(0.5, 1.5, 1, 0.5) == near(0.1082531755)
    assert ps.holder_kappa(0.5, 1.5, 0.5) == near(0.1623797632)
    assert ps.holder_kappa(1.0, 0.25, 8.0) == 0.0
    for q, factor in ((1.2, 0.760), (1.5, 0.667), (1.8, 0.624)):
        ratio = ps.glm_kappa(q - 1, q, 1, 0.1) / ps.holder_kappa(q - 1, q, 0.1)
        assert ratio == pytest.approx(factor, abs=6e-4)
    with pytest.raises(ValueError, match="eta must be at most 2/L"):
        ps.holder_kappa(1.0, 0.25, 8.1)


@pytest.mark.parametrize("batch_size", [1, 4, 20])
def test_mini_batches_without_expansion(batch_size):
    n, m, a = 100, 3, 0.1
    last = ps.permutation_pass_sensitivity(n, m, a, 0.0, batch_size=batch_size, average=False)
    assert last == near(m * a / batch_size)
    mean = ps.permutation_pass_sensitivity(n, m, a, 0.0, batch_size=batch_size)
    assert mean == near(a / batch_size * ((m + 1) / 2 - batch_size / n))


def recursion(indices, record, push, kappa):
    distance, before = 0.0, []
    for index in indices:
        before.append(distance)
        if index == record:
            distance += push
        elif distance > 0:
            distance = math.sqrt(distance**2 + kappa**2)
    return distance, sum(before) / len(before)


def test_realised_index_vectors():
    indices = [2, 0, 2, 1, 3, 2, 1, 0]
    expected = [
        (0.06898979486, 0.02707955523),
        (0.05818625822, 0.01719578794),
        (0.08105379061, 0.04491198914),
        (0.04, 0.01036566092),
    ]
    for record, pair in enumerate(expected):
        assert recursion(indices, record, 0.02, 0.02) == near(pair)
    last, average = ps.realised_sensitivity(indices, 0.02, 0.02)
    assert last == near(0.08105379061)
    assert 0.04491198914 * (1 - 1e-9) <= average <= 0.04491198914 * 1.001


def test_realised_indices_against_the_recursion():
    rng = np.random.default_rng(1)
    indices = rng.integers(0, 5, size=900)
    indices[100:400] = 0
    pairs = [recursion(indices, record, 0.03, 0.01) for record in range(5)]
    last, average = ps.realised_sensitivity(indices, 0.03, 0.01)
    assert last == near(max(pair[0] for pair in pairs))
    exact = max(pair[1] for pair in pairs)
    assert exact * (1 - 1e-12) <= average <= 1.001 * exact


def test_count_sensitivity_is_the_worst_over_positions():
    from itertools import combinations

    steps, push, kappa = 8, 0.5, 0.3
    for count in range(1, 5):
        worst = [0.0, 0.0]
        for used in combinations(range(steps), count):
            indices = [1 if t in used else 0 for t in range(steps)]
            pair = recursion(indices, 1, push, kappa)
            worst = [max(worst[0], pair[0]), max(worst[1], pair[1])]
        assert ps.count_sensitivity(count, steps, push, kappa) == near(worst[0])
        assert ps.count_sensitivity(count, steps, push, kappa, average=True) >= worst[1]
    assert ps.count_sensitivity(0, steps, push, kappa) == 0.0


def test_one_pass_is_attained_by_power_losses():
    eta, n = 0.1, 40
    for q in (1.0, 1.25, 1.5, 1.8):
        alpha, slope = q - 1.0, q * 2 ** (2 - q)
        kappa = ps.glm_kappa(alpha, slope, 1.0, eta)
        # the gap of residuals that expands most, symmetric about 0
        gaps = np.geomspace(1e-9, 2.0, 200001)
        slopes = 2 * q * (gaps / 2) ** (q - 1)
        growth = (eta * slopes) ** 2 - 2 * eta * slopes * gaps
        assert growth.max() == pytest.approx(kappa**2, rel=1e-6)
        assert ps.permutation_pass_sensitivity(n, 1, 0.2, kappa, average=False) == near(
            math.sqrt(0.04 + (n - 1) * kappa**2)
        )


OBJECTIVE = [
    (1, 1e-5, 1, 1, 3.730631635, 0.9640742977, 0.2231435513, 4.697072980),
    (0.1, 1e-8, 1, 10, 45.93736018, 0.09976306024, 0.02469261259, 60.24034229),
    (0.5, 1e-6, 2, 8, 16.11523696, 0.4922988319, 0.1177830357, 20.71564708),
]


@pytest.mark.parametrize(("epsilon", "delta", "row", "l2", "sigma", "k", "c", "shifted"), OBJECTIVE)
def test_objective_vectors(epsilon, delta, row, l2, sigma, k, c, shifted):
    assert op.logistic_objective_sigma(epsilon, delta, l2, row) == near(sigma)
    assert op.logistic_threshold(l2, sigma, row) == pytest.approx(k, rel=1e-9)
    assert math.log1p(row**2 / 4 / l2) == near(c)
    assert op.objective_sigma(epsilon, delta, row, row**2 / 4, l2, monotone=True) == near(shifted)


@pytest.mark.parametrize(
    ("epsilon", "lipschitz", "beta", "l2", "sigma", "monotone", "two_sided"),
    [(1, 1, 0.25, 1, 4, 9.525856913e-5, 1.905171383e-4), (0.5, 1, 1, 10, 9, 4.471058163e-6, 8.942116327e-6)],
)
def test_objective_delta_vectors(epsilon, lipschitz, beta, l2, sigma, monotone, two_sided):
    assert op.objective_delta(epsilon, lipschitz, beta, l2, sigma, monotone=True) == near(monotone)
    assert op.objective_delta(epsilon, lipschitz, beta, l2, sigma, monotone=False) == near(two_sided)
    noise = op.objective_sigma(epsilon, two_sided, lipschitz, beta, l2, monotone=False)
    assert noise == pytest.approx(sigma, rel=1e-8)


@pytest.mark.parametrize(("rest", "mu"), [(0.5, 2.0), (30.0, 9.0), (690.0, 40.0), (1e3, 45.0), (1e6, 1500.0)])
def test_objective_delta_of_large_epsilon(rest, mu):
    """From above, by no more than the allowance for rounding, where e^epsilon is out of range."""
    with mpmath.workdps(60):
        exact = float(1 - 2 * mpmath.exp(rest) * mpmath.erfc(mpmath.mpf(mu) / mpmath.sqrt(2)) / 2)
    found = op.objective_delta(rest + math.log(2.0), 1.0, 1.0, 1.0, 1.0 / mu, monotone=False)
    assert exact <= found <= exact + 1e-14 * (1.0 + rest)


def test_pure_objective_scale():
    assert op.pure_objective_scale(0.5, 2.0) == near(2.0)
    assert op.pure_objective_scale(0.5, 4.0, neighbors="replace_one") == near(4.0)
    with pytest.raises(ValueError, match="l2 must be at least 2 R"):
        op.pure_objective_scale(0.5, 2.0, neighbors="replace_one")


@pytest.mark.parametrize(
    ("smoothing", "dimension", "gamma", "beta"),
    [
        (1, 5, 0.4545454545, 0.2892561983),
        (1, 1000, 0.4472135955, 0.2683281573),
        (2, 3, 0.4285714286, 0.3469387755),
        (3, 1000, 0.2773500981, 0.1493423605),
        (5, 10, 0.2234503234, 0.1286004046),
    ],
)
def test_smoothing_vectors(smoothing, dimension, gamma, beta):
    assert smoothing_gamma(smoothing, dimension) == near(gamma)
    assert smoothing_beta(smoothing, dimension) == near(beta)
    eigenvalues = 1 + 2 * smoothing * (1 - np.cos(2 * np.pi * np.arange(dimension) / dimension))
    assert smoothing_gamma(smoothing, dimension) == pytest.approx(np.mean(1 / eigenvalues), rel=1e-12)
    assert smoothing_beta(smoothing, dimension) == pytest.approx(np.mean(1 / eigenvalues**2), rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "last"),
    [
        (1, 1e-3, 5),
        (1, 1e-5, 12),
        (1, 1e-6, 16),
        (1, 1e-8, 25),
        (0.1, 1e-3, 2),
        (0.1, 1e-5, 8),
        (0.1, 1e-6, 12),
        (0.1, 1e-8, 20),
    ],
)
def test_norm_laplace_is_chosen_up_to_the_printed_dimension(epsilon, delta, last):
    assert gaussian_or_norm_laplace(epsilon, delta, last, 3.0).mechanism == "norm_laplace"
    assert gaussian_or_norm_laplace(epsilon, delta, last + 1, 3.0).mechanism == "gaussian"


def test_noise_choice_vectors():
    choice = gaussian_or_norm_laplace(1, 1e-5, 10)
    assert (choice.mechanism, choice.delta) == ("norm_laplace", 0.0)
    assert choice.mean_square(10) == near(110)
    choice = gaussian_or_norm_laplace(1, 1e-5, 20)
    assert (choice.mechanism, choice.delta) == ("gaussian", 1e-5)
    assert choice.mean_square(20) == near(278.3522479)
    assert gaussian_or_norm_laplace(1, 0, 1000).mechanism == "norm_laplace"
    assert gaussian_or_norm_laplace(math.inf, 1e-5, 3).scale == 0.0
