import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm._kernels import samplers
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.selection import (
    dyadic_rate,
    exponential_mechanism,
    laplace_rate,
    permute_and_flip,
    report_noisy_min,
)
from reference import exponential_mechanism as twin
from reference import noisy_selection
from reference.bit_reader import assert_equals_twin, awkward_streams, constant_bits
from reference.goodness_of_fit import FALSE_ALARM, assert_fits, assert_rate, chi_square_p_value

DRAWS = 100_000


def counts(scores, rate, draws=DRAWS, seed=1):
    bits = random_bits(seed)
    scores = np.asarray(scores)
    chosen = [exponential_mechanism(bits, scores, rate) for _ in range(draws)]
    return np.bincount(chosen, minlength=len(scores))


def probabilities(scores, rate):
    weights = np.exp(-rate * (np.asarray(scores, float) - np.min(scores)))
    return weights / weights.sum()


def test_printed_vector():
    printed = [0.3928718287, 0.1855795114, 0.02845953982, 0.3928718287, 0.0002172912680]
    scores = [10, 12, 17, 10, 30]
    np.testing.assert_allclose(probabilities(scores, 3 / 8), printed, rtol=1e-9)
    assert_fits(counts(scores, 3 / 8), printed)


@pytest.mark.parametrize("rate", [0.0096, 0.0104])
def test_four_per_cent_of_the_rate_would_be_noticed(rate):
    scores = [0, 100]
    observed = counts(scores, rate, draws=200_000)
    assert chi_square_p_value(observed, probabilities(scores, 0.01)) < FALSE_ALARM


@pytest.mark.parametrize("rate", [0.0, 2.0**-80, 0.1, 1 / 3, 1.0, 2.5])
@pytest.mark.parametrize("scores", [[0], [5, 5], [-3, 0, 2, 1], list(range(30)), [7, -(10**9), -(10**9) + 1]])
def test_distribution(scores, rate):
    observed = counts(scores, rate, draws=20_000)
    assert_fits(observed, probabilities(scores, rate))


def test_scores_at_both_ends_of_int64():
    info = np.iinfo(np.int64)
    scores = [info.max, info.min, info.min + 1, 0]
    assert counts(scores, 1.0, draws=2000)[[0, 3]].sum() == 0
    rate = math.log(3) / 2.0**63  # the differences are 2^64 - 1, 0, 1 and 2^63
    expected = [1 / 9, 1, 1, 1 / 3]
    assert_fits(counts(scores, rate), np.array(expected) / sum(expected))


def log_probability_change(choose, draws):
    """Change of the first candidate's log-probability when its score grows by 1, of 21 tied ones."""
    tied, moved = np.zeros(21, np.int64), np.eye(21, dtype=np.int64)[0]
    before, after = (np.mean([choose(scores) == 0 for _ in range(draws)]) for scores in (tied, moved))
    slack = 6 * math.sqrt((1 / before + 1 / after) / draws)  # six standard errors of the difference
    return math.log(after / before), slack


def test_moving_one_of_many_tied_scores():
    eta, bits = 0.5, random_bits(2)
    change, slack = log_probability_change(lambda u: exponential_mechanism(bits, u, eta), DRAWS)
    assert change == pytest.approx(-eta + math.log(21 / (20 + math.exp(-eta))), abs=slack)
    assert abs(change) <= eta + slack


PURE = {
    "permute and flip": permute_and_flip,
    "exponential noise": lambda bits, u, rate: report_noisy_min(bits, u, 1 / rate, "exponential"),
    "Laplace noise": lambda bits, u, rate: report_noisy_min(bits, u, 1 / rate, "laplace"),
}
LAWS = {
    "permute and flip": noisy_selection.permute_and_flip_probabilities,
    "exponential noise": lambda u, rate: noisy_selection.noisy_min_probabilities(u, rate, two_sided=False),
    "Laplace noise": lambda u, rate: noisy_selection.noisy_min_probabilities(u, rate, two_sided=True),
}


@pytest.mark.parametrize("name", PURE)
def test_moving_one_of_many_tied_scores_for_a_pure_guarantee(name):
    eta, bits = 0.1, random_bits(3)
    change, slack = log_probability_change(lambda u: PURE[name](bits, u, eta), 40_000)
    assert abs(change) <= eta + slack
    assert change < 0.0


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("rate", [0.1, 1.0])
@pytest.mark.parametrize("scores", [[0], [0, 0, 0], [3, 0, 1, 5], [0, 2, 2, 0, 7, 1]])
def test_distribution_of_the_pure_mechanisms(name, scores, rate):
    bits = random_bits(4)
    chosen = [PURE[name](bits, scores, rate) for _ in range(20_000)]
    expected = LAWS[name](scores, rate)
    assert sum(expected) == pytest.approx(1, abs=1e-12)
    assert_fits(np.bincount(chosen, minlength=len(scores)), expected)


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_probabilities_of_the_pure_mechanisms_are_private(name, rate):
    # All changes of range 2, up to a shift of all scores, which does not affect the probabilities.
    rng = np.random.default_rng(0)
    for _ in range(30):
        scores = rng.integers(0, 4, rng.integers(2, 6))
        before = np.array(LAWS[name](scores.tolist(), rate))
        after = np.array(LAWS[name]((scores + rng.integers(0, 3, scores.size)).tolist(), rate))
        assert abs(np.log(before / after)).max() <= 2 * rate + 1e-9


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("scores", [[0, 0, 0], [3, 0, 1, 5]])
def test_a_shift_of_all_scores_changes_no_probability(name, scores):
    shifted = np.array(scores) + 7
    assert LAWS[name](shifted.tolist(), 0.5) == pytest.approx(LAWS[name](scores, 0.5))
    draw, again = random_bits(5), random_bits(5)
    first = [PURE[name](draw, scores, 0.5) for _ in range(300)]
    assert first == [PURE[name](again, shifted, 0.5) for _ in range(300)]


def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism():
    for scores in ([0, 1, 2, 3], [0, 0, 5], [2, 9, 9, 9, 9]):
        pure, exponential = LAWS["permute and flip"](scores, 0.7), probabilities(scores, 0.7)
        assert np.dot(pure, scores) <= np.dot(exponential, scores) + 1e-12


def test_the_wrong_sign_of_the_noise_would_be_noticed():
    # One of 21 candidates that is behind by one then wins with probability exp(-20 eta) / 21.
    eta, rng = 0.1, np.random.default_rng(3)

    def wrong(scores):
        return np.argmax(-scores - rng.exponential(1 / eta, 21))

    change, slack = log_probability_change(wrong, 20_000)
    assert abs(change) > eta + slack


@pytest.mark.parametrize("g", [0, 2.0**-20, 0.01, 0.3, 0.5, 1, 1.5, math.pi, 10])
def test_bernoulli_exp(g):
    draws = samplers.bernoulli_exp(random_bits(4), *dyadic_rate(g), 400_000)
    assert draws.dtype == np.bool_
    assert_rate(draws.sum(), draws.size, math.exp(-g))


rates = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 127))
all_scores = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), min_size=1, max_size=8)


@settings(max_examples=200)
@given(awkward_streams, rates)
def test_bernoulli_exp_equals_twin(source, rate):
    assert_equals_twin(
        source,
        lambda bits: samplers.bernoulli_exp(bits, *rate, 20),
        lambda reader: [twin.bernoulli_exp(reader, *rate) for _ in range(20)],
    )


def assert_chooses_as_twin(source, compiled, twin, scores, *arguments):
    """Five choices, one after the other."""
    assert_equals_twin(
        source,
        lambda bits: [compiled(bits, np.array(scores), *arguments) for _ in range(5)],
        lambda reader: [twin(reader, scores, *arguments) for _ in range(5)],
    )


@settings(max_examples=200)
@given(awkward_streams, rates, all_scores)
def test_exponential_mechanism_equals_twin(source, rate, scores):
    assert_chooses_as_twin(source, samplers.exponential_mechanism, twin.exponential_mechanism, scores, *rate)


@settings(max_examples=200)
@given(awkward_streams, rates, all_scores)
def test_permute_and_flip_equals_twin(source, rate, scores):
    assert_chooses_as_twin(source, samplers.permute_and_flip, noisy_selection.permute_and_flip, scores, *rate)


@settings(max_examples=200)
@given(awkward_streams, rates.filter(lambda rate: rate[0] << 60 >= 1 << rate[1]), all_scores, st.booleans())
def test_report_noisy_min_equals_twin(source, rate, scores, two_sided):
    compiled, twin = samplers.report_noisy_min, noisy_selection.report_noisy_min
    assert_chooses_as_twin(source, compiled, twin, scores, *rate, two_sided)


def test_constant_streams_end():
    # Zeros always continue the walk, ones never give an index below 3. Neither may hang.
    with pytest.raises(RuntimeError, match="broken"):
        samplers.bernoulli_exp(constant_bits(b"\x00"), 1, 1, 1)
    with pytest.raises(RuntimeError, match="broken"):
        exponential_mechanism(constant_bits(b"\xff"), [0, 0, 0], 1)


@given(st.floats(0, 2.0**64, exclude_max=True))
def test_rate_is_exact_or_rounded_down(rate):
    numerator, shift = dyadic_rate(rate)
    assert 0 <= numerator < 1 << 64
    assert 0 <= shift <= 127
    used = Fraction(numerator, 1 << shift)
    assert used <= Fraction(rate)
    if rate >= 2.0**-74:
        assert used == Fraction(rate)


@given(st.fractions(Fraction(1, 1 << 60), 1000))
def test_rational_rate_loses_little(rate):
    used = Fraction(*dyadic_rate(rate)[:1]) / (1 << dyadic_rate(rate)[1])
    assert rate * (1 - Fraction(1, 1 << 62)) <= used <= rate


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf, 2.0**64])
def test_bad_rate(rate):
    with pytest.raises(ValueError, match="rate"):
        exponential_mechanism(random_bits(0), [1, 2], rate)


@pytest.mark.parametrize("scores", [[], [[1, 2]], 3])
def test_bad_shape(scores):
    with pytest.raises(ValueError, match="scores"):
        exponential_mechanism(random_bits(0), np.array(scores, dtype=np.int64), 1.0)


@pytest.mark.parametrize("scores", [[1.0, 2.0], np.array([1], np.uint64), ["a"], [2**70]])
def test_scores_must_be_integers(scores):
    with pytest.raises(TypeError, match="scores"):
        exponential_mechanism(random_bits(0), scores, 1.0)


def test_bad_compiled_arguments():
    for rate in [(-1, 0), (2**64, 0), (1, -1), (1, 128)]:
        with pytest.raises(ValueError, match="rate needs"):
            samplers.bernoulli_exp(random_bits(0), *rate, 1)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**61, 2.0**-64])
def test_bad_scale(scale):
    with pytest.raises(ValueError, match="scale"):
        report_noisy_min(random_bits(0), [1, 2], scale)


def test_bad_noise_and_scores_of_the_pure_mechanisms():
    bits = random_bits(0)
    with pytest.raises(ValueError, match="noise"):
        report_noisy_min(bits, [1, 2], 1.0, "gumbel")
    for choose in (lambda u: permute_and_flip(bits, u, 1.0), lambda u: report_noisy_min(bits, u, 1.0)):
        with pytest.raises(ValueError, match="scores"):
            choose(np.array([], dtype=np.int64))
        with pytest.raises(TypeError, match="scores"):
            choose([1.0, 2.0])
    with pytest.raises(ValueError, match="rate"):
        samplers.report_noisy_min(bits, np.array([1, 2]), 1, 61, True)


@given(st.floats(2.0**-63, 2.0**60))
def test_scale_of_the_noise_is_exact_or_rounded_up(scale):
    numerator, shift = laplace_rate(scale)
    rate = Fraction(numerator, 1 << shift)
    assert rate <= 1 / Fraction(scale) <= rate * (1 + Fraction(1, 1 << 62))
