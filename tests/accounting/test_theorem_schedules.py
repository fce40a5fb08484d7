"""Steps, step sizes and bounds of the theorems, against minimisation, simulation and many digits."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from dperm.accounting import paper
from dperm.accounting.paper import stochastic
from reference.numpy_sgd import smoothing_dense

near = pytest.approx
ERM = {"n_samples": 5000, "dimension": 10, "lipschitz": 1.0, "beta": 0.25, "distance": 4.0}


def mean_square_noise(epsilon, delta, steps, eta, l2=0.0):
    moved = paper.smooth_erm_sensitivity(5000, steps, eta, 1.0, 0.25, l2)
    if delta == 0.0:  # the radius has a Gamma law with parameters d and moved / epsilon
        return 10 * 11 * (moved / epsilon) ** 2
    return 10 * (math.sqrt(2 * math.log(2 / delta)) * moved / epsilon) ** 2


@pytest.mark.parametrize("delta", [1e-5, 0.0])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 8.0])
def test_convex_descent_is_the_best_number_of_steps(epsilon, delta):
    steps, eta, bound = paper.smooth_erm_schedule(epsilon, delta, **ERM)
    risks = [
        0.25 * 16 / (2 * t) + 0.125 * mean_square_noise(epsilon, delta, t, 4.0)
        for t in range(1, 3 * steps + 10)
    ]
    assert (eta, steps) == (4.0, 1 + int(np.argmin(risks)))
    assert bound == near(min(risks), rel=1e-12)


@pytest.mark.parametrize("delta", [1e-5, 0.0])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_strongly_convex_descent_ends_below_the_noise(epsilon, delta):
    steps, eta, bound = paper.smooth_erm_schedule(epsilon, delta, l2=0.05, **ERM)
    noise = 0.15 * mean_square_noise(epsilon, delta, steps, eta, 0.05)
    left = [0.15 * 16 * max(1 - 0.05 * eta, abs(1 - 0.3 * eta)) ** (2 * t) for t in range(steps + 1)]
    assert eta == near(1 / 0.35)
    assert left[steps] <= noise < left[steps - 1]
    assert bound == near(left[steps] + noise, rel=1e-12)


@pytest.mark.parametrize("l2", [0.0, 0.05])
def test_descent_stays_below_its_bound(l2):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 10))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    y = np.where(rng.random(5000) < expit(6.0 * rows[:, 0]), 1.0, -1.0)

    def risk(w):
        return np.logaddexp(0.0, -y * (rows @ w)).mean() + 0.5 * l2 * w @ w

    def gradient(w):
        return (-y * expit(-y * (rows @ w))) @ rows / 5000 + l2 * w

    optimum = np.zeros(10)
    for _ in range(2000):
        optimum = optimum - 3.0 * gradient(optimum)
    distance = float(np.linalg.norm(optimum))
    steps, eta, bound = paper.smooth_erm_schedule(2.0, 1e-5, l2=l2, **{**ERM, "distance": distance})
    w = np.zeros(10)
    for _ in range(steps):
        w = w - eta * gradient(w)
    deviation = math.sqrt(mean_square_noise(2.0, 1e-5, steps, eta, l2) / 10)
    excess = np.mean([risk(w + rng.normal(scale=deviation, size=10)) for _ in range(200)]) - risk(optimum)
    assert 1e-3 * bound < excess < bound


def test_random_rounds_of_a_quadratic():
    """The exact mean plus a term for the risk after the last step equals the bound, for any steps."""
    beta, variance, start = 0.7, 0.3, 2.0
    eta = np.random.default_rng(1).uniform(0.01, 2.8, size=50)
    law = paper.round_probabilities(eta, beta)
    squares = [start**2]  # E w_k^2 under w <- w - eta (beta w + noise)
    for step in eta:
        squares.append((1 - step * beta) ** 2 * squares[-1] + step**2 * variance)
    mean = law @ (beta**2 * np.array(squares[:-1]))
    after = beta * squares[-1] / (2 * eta - beta * eta**2).sum()
    bound = paper.random_round_bound(eta, beta, gap=0.5 * beta * start**2, variance=variance)
    assert bound == near(mean + after, rel=1e-12)
    assert law.sum() == near(1.0)
    np.testing.assert_allclose(paper.round_probabilities(np.full(7, 0.3), 1.0), 1 / 7)
    for bad in ([0.0], [3.0], [], [[0.1]], [math.nan]):
        with pytest.raises(ValueError, match=r"below 2/beta = 2.85714"):
            paper.round_probabilities(bad, beta)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.3, 0.385, 0.39, 0.49, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("bounded", [True, False])
def test_steps_of_hoelder_losses_balance_the_sensitivity(alpha, bounded):
    """T makes the terms of Theorem 7 equal, constants aside, or is n: then the first is the smaller one."""
    n = 10**9
    steps, eta, rate = paper.sgd_output_schedule(
        1e6, 1e-6, n_samples=n, dimension=1, alpha=alpha, bounded=bounded
    )
    power = 0.5 if bounded else 1 / (3 + alpha)
    assert eta * steps == near(n**power)
    assert rate >= n**-power
    if alpha == 1.0:
        assert steps == n
        return
    drift = steps * eta ** (2 / (1 - alpha))
    pushes = (eta * steps / n) ** 2 * (1.0 if bounded else (steps * eta) ** alpha)
    if steps > n:
        assert drift == near(pushes, rel=1e-3)
    else:
        assert steps == n
        assert drift <= pushes * (1 + 1e-6)


def conditions(beta, epsilon, delta, n, steps):
    """Whether (32) and (33) hold, in many digits."""
    with mp.workdps(40):
        order = mp.log(1 / mp.mpf(delta)) / ((1 - mp.mpf(beta)) * epsilon) + 1
        square = 14 * mp.mpf(steps) * order / (beta * mp.mpf(n) ** 2 * epsilon)
        third = square / 6 * mp.log(n / (order * (1 + square / 4))) - (order - 1)
        return bool(square / 4 >= mp.mpf("0.67") and third >= 0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "steps"),
    [
        (1.0, 1e-6, 1000, 1000),
        (1.0, 1e-8, 10**4, 10**6),
        (2.0, 1e-8, 10**4, 10**8),
        (0.5, 1e-6, 10**5, 10**8),
    ],
)
def test_beta_closest_to_one_half(epsilon, delta, n, steps):
    settings = {"n_samples": n, "steps": steps}
    beta = paper.feasible_beta(epsilon, delta, choose="nearest_half", **settings).beta
    other = paper.feasible_beta(epsilon, delta, **settings)
    assert conditions(beta * (1 - 1e-9), epsilon, delta, n, steps) or beta == 0.5
    distance = abs(beta - 0.5)
    assert distance <= abs(other.beta - 0.5)
    nearer = 0.5 + np.linspace(-1, 1, 401) * distance * (1 - 1e-6)
    assert distance == 0.0 or not any(conditions(b, epsilon, delta, n, steps) for b in nearer)
    assert other.sigma <= paper.feasible_beta(epsilon, delta, choose="nearest_half", **settings).sigma


def test_beta_is_one_half_where_that_is_feasible():
    assert paper.feasible_beta(2.0, 1e-8, n_samples=10**4, steps=10**8, choose="nearest_half").beta == 0.5
    with pytest.raises(ValueError, match="choose must be"):
        paper.feasible_beta(2.0, 1e-8, n_samples=10**4, steps=10**8, choose="best")


def test_lemma_13_fails_for_small_n():
    """At its threshold no beta is feasible up to n = 43, and one is from 44 on."""
    for n in (18, 43, 44, 1000):
        epsilon = paper.feasible_epsilon(n)
        betas = np.concatenate([np.geomspace(1e-6, 0.5, 800), 1 - np.geomspace(1e-4, 0.5, 100)])
        assert any(conditions(b, epsilon, 1 / n**2, n, n) for b in betas) == (n >= 44)
    with mp.workdps(40):
        root = mp.cbrt(1000) - 1
        exact = (7 * root + 4000 * mp.log(1000) + 7) / (2000 * root)
    assert paper.feasible_epsilon(1000) == near(float(exact), rel=1e-14)


def test_projected_descent():
    best = minimize_scalar(lambda e: 4 / (2 * e * 50) + e * 9 / 2, bounds=(1e-3, 1), method="bounded")
    assert paper.projected_gd_step_size(2.0, 3.0, 50) == near(best.x, rel=1e-4)
    assert 2.0 * 3.0 / math.sqrt(50) == near(best.fun, rel=1e-8)
    eta, w, total = paper.projected_gd_step_size(2.0, 3.0, 5000), 0.0, 0.0
    for _ in range(5000):  # 3 |w - 2|: the optimum is as far as it may be
        total += w
        w = min(max(w - eta * 3.0 * np.sign(w - 2.0), -2.0), 2.0)
    assert 0.45 * 6.0 < 3.0 * (2.0 - total / 5000) * math.sqrt(5000) <= 6.0


@pytest.mark.parametrize("steps", [None, 40, 10_000])
def test_projected_descent_with_the_published_noise(steps):
    settings = {"n_samples": 1000, "clip": 1.5}
    chosen = paper.projected_gd_schedule(0.5, 1e-5, dimension=20, radius=3.0, steps=steps, **settings)
    sigma = paper.noisy_gd(0.5, 1e-5, steps=chosen.steps, **settings)
    longest = math.sqrt(1.5**2 + 20 * sigma**2)
    assert chosen.step_size == near(3.0 / (longest * math.sqrt(chosen.steps)))
    assert chosen.bound == near(3.0 * longest / math.sqrt(chosen.steps))
    if steps is None:
        assert 20 * sigma**2 == near(1.5**2, rel=0.01)
        many = paper.projected_gd_schedule(0.5, 1e-5, dimension=20, radius=3.0, steps=10**9, **settings)
        assert chosen.bound / many.bound == near(math.sqrt(2), rel=0.01)


def test_records_for_a_risk():
    problem = {"dimension": 20, "radius": 3.0, "clip": 1.5}
    steps, n = paper.projected_gd_sizes(0.05, 0.5, 1e-5, **problem)
    reached = paper.projected_gd_schedule(0.5, 1e-5, n_samples=n, steps=steps, **problem)
    assert reached.bound == near(0.05 / math.sqrt(2), rel=1e-3)  # a sum of two halves bounds the root


@pytest.mark.parametrize("gap", [0.5, 1e9])
def test_random_rounds_take_the_best_constant_step(gap):
    n, d, lipschitz, beta = 100, 7, 1.5, 0.3
    steps, eta, bound = paper.rrpsgd_schedule(
        0.8, 1e-5, n_samples=n, dimension=d, lipschitz=lipschitz, beta=beta, gap=gap
    )
    variance = 4 * lipschitz**2 + d * (lipschitz * paper.rrpsgd(0.8, 1e-5, n_samples=n)) ** 2
    every = {"gap": gap, "variance": variance}
    assert (steps, bound) == (n * n, near(paper.random_round_bound([eta] * steps, beta, **every)))
    if eta < 1 / beta:  # the bound without beta eta^2, at half and at twice the step
        assert eta == near(math.sqrt(2 * gap / beta / variance) / n)
    else:
        assert math.sqrt(2 * gap / beta / variance) / n > eta


@pytest.mark.parametrize("smoothness", [None, 0.7])
@pytest.mark.parametrize("smoothing", [0.0, 1.0, 4.0])
def test_smoothed_descent(smoothing, smoothness):
    """The bound with traces of the inverse matrix and the exact noise, which is less than the theorem's."""
    n, d, clip, gap, epsilon, delta = 20_000, 30, 0.8, 3.0, 0.5, 1e-5
    inverse = np.column_stack([smoothing_dense(e, smoothing) for e in np.eye(d)])
    problem = {"n_samples": n, "dimension": d, "clip": clip, "gap": gap}
    steps, eta, bound = paper.dp_lssgd_schedule(
        epsilon, delta, smoothing=smoothing, smoothness=smoothness, **problem
    )
    nu = clip * stochastic.dp_lssgd_sigma(epsilon, delta, n, steps)
    if smoothness is None:
        rest, noise = gap + clip**2, np.trace(inverse) * nu**2
    else:
        rest, noise = 2 * gap + smoothness * clip**2, smoothness * np.trace(inverse @ inverse) * nu**2
        assert (1 + 4 * smoothing) * np.linalg.eigvalsh(inverse)[0] == near(1.0)  # plain norm of a gradient
    assert eta == near(steps**-0.5)
    assert (rest + noise) / (2 * math.sqrt(steps)) <= bound <= rest / math.sqrt(steps)
    theorem = noise * 3 * math.log(1 / delta) / epsilon / (2 * math.log(1 / delta) / epsilon + 1)
    assert theorem == near(rest, rel=1 / steps)
    with pytest.raises(ValueError, match=r"at most log\(1/delta\)"):
        paper.dp_lssgd_schedule(12.0, 1e-5, **problem)
