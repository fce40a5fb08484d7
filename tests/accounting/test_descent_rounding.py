"""Rounding of stochastic gradient descent against exact arithmetic, and the fast path of realised counts."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dperm import Objective, losses
from dperm.accounting.output_sensitivity import descent_rounding
from dperm.accounting.permutation_sensitivity import realised_sensitivity
from dperm.mechanisms.without_privacy import release_without_privacy
from dperm.objective.descents import DescentPlan, sgd_weights


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("l2", [0.0, 0.25])
def test_computed_weights_stay_within_the_bound_of_exact_ones(batch_size, l2):
    """Exact steps for Huber's loss in rational numbers; step sizes are not powers of two."""
    rng = np.random.default_rng(0)
    n, d, passes, eta, threshold = 12, 3, 4, 0.3, 0.7
    X, y = rng.normal(size=(n, d)) / 3, rng.normal(size=n)
    objective = Objective(losses.Huber(threshold), X, y, l2=l2, row_norm=10.0)
    steps = passes * n // batch_size
    plan = DescentPlan(objective.loss, steps, batch_size, eta, math.inf, average=True)
    computed = release_without_privacy(
        sgd_weights(objective, plan, np.arange(n), add_or_remove=2.0**-45, replace_one=2.0**-45)
    )
    rows, targets = [[Fraction(v) for v in row] for row in X], [Fraction(v) for v in y]
    w, total, h = [Fraction(0)] * d, [Fraction(0)] * d, Fraction(threshold)
    for step in range(steps):
        total = [a + b for a, b in zip(total, w, strict=True)]
        gradient = [Fraction(0)] * d
        for k in range(batch_size):
            i = (step * batch_size + k) % n
            residual = sum(a * b for a, b in zip(rows[i], w, strict=True)) - targets[i]
            slope = max(-h, min(h, residual))
            gradient = [g + slope * v for g, v in zip(gradient, rows[i], strict=True)]
        w = [
            a - Fraction(eta) * (g / batch_size + Fraction(l2) * a) for a, g in zip(w, gradient, strict=True)
        ]
        w = [Fraction(round(v * 2**200), 2**200) for v in w]  # far below double precision
    error = math.dist(computed, [float(v / steps) for v in total])
    rounding = descent_rounding(
        steps, eta, batch_size=batch_size, dimension=d, gradient_bound=7.0, smoothness=100.0,
        l2=l2, reach=7.0 * eta * steps,
    )  # fmt: skip
    assert error <= rounding.additive / 2 + 1e-15
    assert rounding.additive < 1e-8
    assert rounding.drift == 0.0


def test_a_kink_adds_drift_instead():
    settings = {"batch_size": 1, "dimension": 5, "gradient_bound": 1.0, "l2": 0.0}
    rough = descent_rounding(100, 0.1, smoothness=math.inf, reach=2.0, **settings)
    assert 0.0 < rough.drift < 1e-13
    assert rough.additive < descent_rounding(100, 0.1, smoothness=10.0, reach=2.0, **settings).additive


def test_the_fast_path_of_realised_counts_is_the_recursion():
    rng = np.random.default_rng(0)
    for _ in range(50):
        indices = rng.integers(0, 6, int(rng.integers(1, 30)))
        fast = realised_sensitivity(indices, 0.3, 0.0)
        slow = realised_sensitivity(indices, 0.3, 1e-12)
        assert fast == pytest.approx(slow, rel=1e-6, abs=1e-9)
