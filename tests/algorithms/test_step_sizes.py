"""Step size schedules: their forms, descent with them, the distribution of random rounds, refusals."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from algorithms.problems import separable
from dperm import Objective
from dperm._kernels.samplers import RandomBits
from dperm.accounting import Ledger
from dperm.accounting.random_rounds import random_round_noise_multiplier
from dperm.algorithms import dp_lsadam, dp_lssgd, dp_sgd, dp_sgd_gradient, noisy_gd, rrpsgd
from dperm.algorithms.rrpsgd import _RoundLaw
from dperm.algorithms.step_sizes import step_size, step_sizes
from dperm.mechanisms.random_source import random_bits, random_source
from reference import numpy_sgd

T = 7
# The argument, the step sizes, how a statement describes them.
FORMS = {
    "number": (0.25, np.full(T, 0.25), 0.25),
    "1/t": ("0.7/t", [0.7, 0.35, 0.7 / 3, 0.175, 0.14, 0.7 / 6, 0.1], "0.7/t"),
    "1/sqrt(t)": (" .5 / sqrt(t)", 0.5 / np.sqrt([1, 2, 3, 4, 5, 6, 7]), "0.5/sqrt(t)"),
    "drops": (
        {4: 0.1, 1: 0.5, 6: 0.05, 100: 0.01},
        [0.5, 0.5, 0.5, 0.1, 0.1, 0.05, 0.05],
        "0.5, 0.1 from step 4 on, 0.05 from step 6 on, 0.01 from step 100 on",
    ),
    "function": (
        lambda t: 1.0 / (t + 1) ** 2,
        [1 / 4, 1 / 9, 1 / 16, 1 / 25, 1 / 36, 1 / 49, 1 / 64],
        "by step: 0.25, 0.1111, 0.0625, .., 0.01562",
    ),
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS)
# With full batches and without noise, all of them are gradient descent.
WHOLE = {"batch_size": 40, "neighbors": "replace_one"}
DESCENTS = {
    noisy_gd: {"steps": T, "momentum": 0.0, "learn_scales": False},
    dp_sgd: {**WHOLE, "sampling": "permutation", "steps": T, "momentum": 0.0},
    dp_lssgd: {**WHOLE, "sampling": "permutation", "steps": T, "momentum": 0.0, "smoothing": 0.0},
    dp_lsadam: {**WHOLE, "sampling": "permutation", "steps": T, "smoothing": 0.0, "momentum": 0.9},
    dp_sgd_gradient: {**WHOLE, "steps": T, "report_every": 1},
    rrpsgd: {**WHOLE, "rounds": T, "report_every": 1},
}
EVERY_DESCENT = pytest.mark.parametrize("algorithm", DESCENTS, ids=lambda each: each.__name__)


def problem(**keywords):
    X, y = separable(n=40)
    return Objective("logistic", X, y, row_norm=1.5, l2=0.1, n_threads=1, **keywords)


@EVERY_FORM
def test_forms(form):
    given, expected, words = FORMS[form]
    rule = step_size("step_size", given)
    np.testing.assert_allclose(step_sizes(rule, T), expected, rtol=1e-15)
    np.testing.assert_array_equal(step_sizes(rule, 3), step_sizes(given, T)[:3])
    assert getattr(rule, "words", rule) == (words if form != "function" else rule.words)


def test_a_function_is_called_once_per_step():
    """The step sizes that were checked are the ones used, even if the function is not deterministic."""
    calls = []
    rule = step_size("step_size", lambda t: calls.append(t) or 1.0 / len(calls))
    sizes = step_sizes(rule, 5)
    np.testing.assert_array_equal(step_sizes(rule, 7)[:5], sizes)
    assert calls == [1, 2, 3, 4, 5, 6, 7]


@EVERY_FORM
@EVERY_DESCENT
def test_descent_without_noise_takes_these_steps(algorithm, form):
    given, sizes, words = FORMS[form]
    objective, seen = problem(), {}
    result = algorithm(
        objective, math.inf, 1e-6, clip=8.0, step_size=given, random_state=2, **DESCENTS[algorithm],
        callback=lambda released: seen.update({released["iteration"]: released["coef"]}),
    )  # fmt: skip
    w, adam, memory = np.zeros(objective.dimension), numpy_sgd.adam(1.0, 0.9), {}
    for t in range(1, result.n_iter + 1):
        gradient = objective.gradient(w)
        w = w + (
            sizes[t - 1] * adam(gradient, memory) if algorithm is dp_lsadam else -sizes[t - 1] * gradient
        )
        np.testing.assert_allclose(seen[t], w, rtol=1e-6, atol=1e-9)
    assert algorithm is rrpsgd or result.n_iter == T
    assert result.privacy.public["step_size"] == words


@EVERY_DESCENT
def test_noise_does_not_depend_on_the_step_sizes(algorithm):
    """Except with random rounds, whose distribution follows from the step sizes."""
    sizes = {"step_size": "0.5/t", "epsilon": 1.0, "delta": 1e-5, "clip": 0.5, "random_state": 3}
    settings = DESCENTS[algorithm]
    changing = algorithm(problem(), **settings, **sizes).privacy.noise_scale
    constant = algorithm(problem(), **settings, **{**sizes, "step_size": 0.5}).privacy.noise_scale
    if algorithm is not rrpsgd:
        assert changing == constant
        return
    eta, smoothness = 0.5 / np.arange(1.0, T + 1.0), 1.5**2 / 4 + 0.1
    law = 2.0 * eta - smoothness * eta**2
    law[: T // 2] = 0.0
    expected = random_round_noise_multiplier(1.0, 1e-5, 40, 40, T, round_weights=law)
    assert changing == pytest.approx(0.5 * expected, rel=1e-6)
    assert changing < constant  # late steps are short, so late rounds are rare


def test_random_rounds_follow_their_distribution():
    weights = np.floor(1e6 / np.arange(1.0, 9.0) ** 2)
    bits = random_bits(random_source(5))
    assert isinstance(bits, RandomBits)
    law = _RoundLaw(8, 1, weights)
    counts = np.bincount([law.draw(bits) - 1 for _ in range(4000)], minlength=8)
    expected = 4000 * weights / weights.sum()
    assert ((counts - expected) ** 2 / expected).sum() < chi2(7).isf(1e-9)


@EVERY_DESCENT
def test_bad_step_sizes_are_refused_before_the_charge(algorithm):
    settings = dict(DESCENTS[algorithm])
    ledger = Ledger(1.0, 1e-5, neighbors=settings.pop("neighbors", "add_or_remove"))
    bad = {
        "1/x": "c/sqrt", "nan/t": "c/sqrt", "-1/t": "c/sqrt", "1e200/t": "c/sqrt",
        (2, 0.5): "from step 1", (1, -0.5): "from step 1", (0, 0.5): "positive integer",
        (lambda t: 1.0 if t < T else math.nan): f"step_size of step {T}",
        (lambda t: "x"): "step_size of step 1",
        (lambda t: None): "step_size of step 1",
    }  # fmt: skip
    for given, message in bad.items():
        step = dict([given]) if isinstance(given, tuple) else given
        with pytest.raises(ValueError, match=message):
            algorithm(problem(), 0.5, 1e-6, clip=0.5, step_size=step, ledger=ledger, **settings)
    with pytest.raises(ValueError, match="at most 100 times"):
        algorithm(problem(), 0.5, 1e-6, step_size=dict.fromkeys(range(1, 102), 1.0), ledger=ledger)
    with pytest.raises(ValueError, match=r"must be a number, .*got \[1, 2\]"):
        algorithm(problem(), 0.5, 1e-6, step_size=[1, 2], ledger=ledger)
    assert not ledger.history()


def test_step_size_arrays_that_do_not_fit_in_memory_are_refused():
    with pytest.raises(ValueError, match="must be a number for more than 10,000,000 steps"):
        step_sizes("1/t", 10**7 + 1)
    assert step_sizes(0.5, 10**9).shape == (10**9,)


def test_step_sizes_that_let_weights_overflow_are_refused():
    """Under a ridge term: long steps throughout, but not long steps at the start only."""
    settings = {"steps": 500, "clip": 1.0, "momentum": 0.0}
    result = noisy_gd(problem(), 1.0, 1e-5, step_size="1000/t", random_state=0, **settings)
    assert np.isfinite(result.coef).all()
    with pytest.raises(ValueError, match="beyond the range of doubles"):
        noisy_gd(problem(), 1.0, 1e-5, step_size={1: 1000.0, 400: 0.1}, **settings)
