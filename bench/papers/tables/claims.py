"""Claims that a computation can decide, one function each, which says whether the claim holds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad
from scipy.special import expit

from dperm.accounting import gaussian_delta, gdp_epsilon, sgd_epsilon
from dperm.accounting.gaussian import smoothing_gamma
from dperm.accounting.paper import (
    compare_with_paper,
    feasible_beta,
    feasible_epsilon,
    sgd_output_sensitivity,
    smooth_erm_schedule,
)
from papers.learning import digits, records
from papers.tables import lssgd_tables3_4, nikolov_theorem1, zhang2017_table3

CHECKS: dict[str, Callable[[], bool]] = {}


def measure(mode: str, *, check: str, **_: str) -> bool | None:
    """True, False, or None for a claim that cannot be tested here."""
    return None if check == "none" else bool(CHECKS[check]())


def decides(function: Callable[[], bool]) -> Callable[[], bool]:
    """Register a check under its name."""
    CHECKS[function.__name__] = function
    return function


@decides
def gaussian_step() -> bool:
    """At every epsilon up to 20."""
    targets = [(epsilon, delta) for epsilon in (0.1, 1.0, 5.0, 10.0, 20.0) for delta in (1e-3, 1e-5, 1e-8)]
    return all(gaussian_delta(e, math.sqrt(2.0 * math.log(2.0 / d)) / e) <= d for e, d in targets)


@decides
def descent_sensitivity() -> bool:
    """Noise of Lemmas 2 and 3 at an epsilon where the Gaussian mechanism of Theorem 1 is private."""
    run = {"n_samples": 10_000, "steps": 100, "eta": 1.0, "lipschitz": 1.0, "beta": 0.25}
    return all(
        compare_with_paper("output_perturbation_gd", epsilon=0.5, delta=1e-5, l2=l2, **run).holds
        for l2 in (0.0, 0.01, 0.1)
    )


@decides
def random_rounds() -> bool:
    """Noise of Theorem 4."""
    return all(
        compare_with_paper("rrpsgd", epsilon=epsilon, delta=1e-5, n_samples=1000).holds
        for epsilon in (0.1, 1.0)
    )


@decides
def fewer_gradients() -> bool:
    """Fewer than n^2 gradients, on data of the size of Bank."""
    run = {"n_samples": 45_211, "dimension": 43, "lipschitz": 1.0, "beta": 0.25, "distance": 10.0}
    return all(
        smooth_erm_schedule(e, 1e-3, l2=l2, **run).steps < 45_211 for e in (0.1, 2.0) for l2 in (0.0, 0.01)
    )


@decides
def smooth_bound() -> bool:
    """Risk on Bank against Theorem 2, whose bound on the norm of the optimum, 10, holds there."""
    run = {"epsilon": 0.5, "delta": 1e-3, "l2": 0.01, "distance": 10.0}
    risk, _ = zhang2017_table3.measure("paper", data="bank_dummies", repetitions=20, **run)
    sizes = {"n_samples": 45_211, "dimension": 43, "lipschitz": 1.0, "beta": 0.25}
    return risk <= smooth_erm_schedule(**run, **sizes).bound


@decides
def lecture_bound() -> bool:
    """Two of the settings of nikolov_theorem1."""
    run = {"data": "wine", "steps": 50, "epsilon": 0.3, "delta": 1e-6, "repetitions": 3}
    return all(
        nikolov_theorem1.measure("paper", radius=radius, **run)[0]
        <= nikolov_theorem1.expected(radius=radius, **run)
        for radius in (1.0, 10.0)
    )


@decides
def lecture_noise_added() -> bool:
    """Noise of Section 6 under add_or_remove."""
    run = {"n_samples": 1000, "steps": 100}
    return all(compare_with_paper("noisy_gd", epsilon=e, delta=1e-5, **run).holds for e in (0.1, 0.9))


@decides
def lecture_noise_replaced() -> bool:
    """Replacing a record moves a sum of gradients by up to 2 C."""
    epsilon, delta, steps = 0.9, 1e-5, 100
    noise = math.sqrt(steps) * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon
    return gdp_epsilon(math.sqrt(steps - 1) * 2.0 / noise, delta) <= epsilon


@decides
def smoothed_moments() -> bool:
    """Renyi divergence of order 4 of a Gaussian of variance 0.8 sampled at 1 %, a sum of binomial terms."""
    rate, order, ratio = 0.01, 4, 1.0 / 0.8
    terms = (
        math.comb(order, k) * (1.0 - rate) ** (order - k) * rate**k * math.exp(ratio * k * (k - 1) / 2.0)
        for k in range(order + 1)
    )
    return math.log(sum(terms)) / (order - 1) <= rate**2 * ratio * order


@decides
def smoothed_closed_forms() -> bool:
    """Closed forms against the eigenvalues."""
    cells = [
        {"constant": c, "sigma": s, "d": d} for c in ("gamma", "beta") for s in (1.0, 3.0) for d in (5, 1000)
    ]
    return all(
        math.isclose(*(lssgd_tables3_4.measure(m, **cell) for m in ("paper", "tight")), rel_tol=1e-12)
        for cell in cells
    )


@decides
def smoothed_few_steps() -> bool:
    """One step, at settings that the theorem allows."""
    run = {"batch_size": 10, "n_samples": 1000, "steps": 1}
    return compare_with_paper("dp_lssgd", epsilon=0.083, delta=1e-6, **run).holds


@decides
def smoothed_mnist() -> bool:
    """Batches and epochs of the experiment on MNIST."""
    run = {"batch_size": 128, "n_samples": 60_000, "steps": 23_450}
    return all(compare_with_paper("dp_lssgd", epsilon=e, delta=1e-5, **run).holds for e in (0.1, 0.2, 0.3))


@decides
def clipped_mean() -> bool:
    """At the weights 0: random batches of MNIST, one record of each replaced by random others."""
    X, y, _, _ = digits()
    slopes, rng, batch, largest = 0.1 - np.eye(10, dtype=np.float32), np.random.default_rng(0), 128, 0.0
    for _ in range(5):
        chosen = rng.integers(len(X), size=batch)
        total = slopes[y[chosen]].T @ X[chosen]
        for other in rng.integers(len(X), size=40):
            changed = total + np.outer(slopes[y[other]], X[other])
            changed -= np.outer(slopes[y[chosen[0]]], X[chosen[0]])
            clipped = [mean / max(1.0, np.linalg.norm(mean)) for mean in (total / batch, changed / batch)]
            largest = max(largest, float(np.linalg.norm(clipped[0] - clipped[1])))
    return largest <= 2.0 / batch


@decides
def smoothing_same_guarantee() -> bool:
    """Smoothing can be undone, since all eigenvalues are positive, so it changes no guarantee."""
    eigenvalues = 1.0 + 2.0 * 3.0 * (1.0 - np.cos(2.0 * np.pi * np.arange(7850) / 7850))
    return (eigenvalues > 0.0).all()


@decides
def gamma_vanishes() -> bool:
    """gamma in a dimension of 10^8."""
    return smoothing_gamma(1.0, 10**8) < 0.01


@decides
def moments_one_step() -> bool:
    """Tight epsilon of one step of SGD at q = 0.0052, noise multiplier 4 and delta = 1e-8."""
    run = {
        "batch_size": 0.0052 * 10**9,
        "n_samples": 10**9,
        "sampling": "poisson",
        "neighbors": "add_or_remove",
    }
    return sgd_epsilon(4.0, 1e-8, steps=1, **run) >= 0.57


@decides
def subtracted_noise() -> bool:
    """One of 21 equal losses grows by a unit of the noise: its probability may fall by a factor of e."""

    def chance(gap: float) -> float:  # of -gap - E_1 above all other -E_i, E exponential
        return quad(lambda e: math.exp(-e - 20.0 * (e + gap)), 0.0, math.inf)[0]

    return math.log(chance(0.0) / chance(1.0)) <= 1.0 + 1e-9


@decides
def batch_of_fixed_size() -> bool:
    """The record that takes the place of another may have the opposite gradient."""
    batch = np.ones(10)
    filled = np.append(batch[:-1], -1.0)
    return abs(batch.sum() - filled.sum()) <= 1.0


@decides
def unclipped_descent() -> bool:
    """Bank with its first record at the corner of the unit cube, under either label: 50 steps of 1."""
    X, y, _ = records("bank_dummies")
    X, y, results = np.column_stack([X, np.ones(len(y))]), np.array(y, dtype=np.float64), []
    X[0] = 1.0
    for label in (1.0, -1.0):
        y[0] = label
        w = np.zeros(X.shape[1])
        for _ in range(50):
            w = w + (y * expit(-y * (X @ w))) @ X / len(y) - 1e-4 * w
        results.append(w)
    return float(np.linalg.norm(results[0] - results[1])) <= 3.0 * 50 / len(y)


@decides
def stability_of_the_average() -> bool:
    """Distance between averages of random runs on the absolute loss, with one record replaced."""
    n, eta, rng, largest = 200, 0.05, np.random.default_rng(0), 0.0
    for _ in range(20):
        X = rng.normal(size=(n, 5))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y, indices, means = rng.choice([-1.0, 1.0], n), rng.integers(n, size=n), []
        for label in (1.0, -1.0):
            y[indices[0]] = label
            w, total = np.zeros(5), np.zeros(5)
            for i in indices:
                total += w
                w = w + eta * np.sign(y[i] - X[i] @ w) * X[i]
                w /= max(1.0, float(np.linalg.norm(w)))
            means.append(total / n)
        largest = max(largest, float(np.linalg.norm(means[0] - means[1])))
    run = {"alpha": 0.0, "holder": 2.0, "gradient_at_zero": 1.0, "radius": 1.0}
    return largest <= sgd_output_sensitivity(0.5, n_samples=n, steps=n, eta=eta, **run)


@decides
def textbook_gaussian() -> bool:
    """At every epsilon up to 20, beyond the range below 1 for which it is proved."""
    return all(
        gaussian_delta(e, math.sqrt(2.0 * math.log(1.25e5)) / e) <= 1e-5 for e in (0.5, 5.0, 10.0, 20.0)
    )


@decides
def noise_of_the_average() -> bool:
    """Noise of Theorem 8 for the hinge loss."""
    hinge = {"alpha": 0.0, "holder": 1.0, "gradient_at_zero": 1.0, "radius": 1.0}
    return compare_with_paper(
        "dp_sgd_output", epsilon=0.5, delta=1e-6, n_samples=1000, steps=1000, eta=0.03, **hinge
    ).holds


@decides
def noise_of_gradients() -> bool:
    """Noise of Theorem 11 with the feasible beta of least noise."""
    return compare_with_paper("dp_sgd_gradient", epsilon=1.0, delta=1e-6, n_samples=1000, steps=1000).holds


@decides
def beta_exists() -> bool:
    """From the threshold of Lemma 13 on."""
    for n in (18, 30, 43, 100):
        try:
            feasible_beta(feasible_epsilon(n), n**-2.0, n_samples=n, steps=n)
        except ValueError:
            return False
    return True


@decides
def beta_is_a_constant() -> bool:
    """For T = n and growing n, as the rate of Theorem 12 assumes."""
    found = [feasible_beta(1.0, n**-2.0, n_samples=n, steps=n).beta for n in (10**3, 10**4, 10**5)]
    return min(found) > 0.1
