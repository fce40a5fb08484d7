"""Release of private sums: the charge comes before the draw; nothing else opens a sum."""

import math

import numpy as np
import pytest
from scipy.stats import gamma, kstest

from dperm.accounting import Ledger
from dperm.accounting.budget import Budget
from dperm.accounting.events import ExponentialMechanismRelease, GaussianRelease, PureRelease
from dperm.errors import BudgetExceededError
from dperm.mechanisms import release_without_privacy
from dperm.mechanisms.hooks import replace_noise
from dperm.mechanisms.release import Releaser
from dperm.private_values.bounded import Bounded
from reference.goodness_of_fit import assert_fits, assert_rate
from reference.noisy_selection import permute_and_flip_probabilities


def vector_sum(d=3, add_or_remove=1.0):
    return Bounded(np.arange(d, dtype=np.int64), grid=2.0**-10, add_or_remove=add_or_remove)


def scores(values=(5, 0, 9), add_or_remove=1.0):
    return Bounded(np.array(values, dtype=np.int64), grid=2.0**-4, add_or_remove=add_or_remove, scores=True)


def releaser(epsilon=1.0, delta=1e-6, accountant="gdp", seed=0, neighbors="add_or_remove", ledger=None):
    budget = Budget.from_epsilon(epsilon, delta, accountant)
    return Releaser(
        epsilon, delta, budget, neighbors=neighbors, ledger=ledger, random_state=seed, description="test"
    )


@pytest.mark.parametrize(("neighbors", "factor"), [("add_or_remove", 1.0), ("replace_one", 2.0)])
def test_noise_has_the_scale_of_the_sensitivity(neighbors, factor):
    door = releaser(epsilon=math.inf, neighbors=neighbors)
    private = vector_sum(d=20_000, add_or_remove=3.0)
    noise = door.gaussian_sum(private, 2.0) - release_without_privacy(private)
    sigma = 2.0 * 3.0 * factor
    # chi-square with 20,000 degrees of freedom: standard deviation of the ratio is 0.01; 5.2 of them
    # give a false alarm in 2e-7 of the runs.
    assert abs(np.mean((noise / sigma) ** 2) - 1.0) < 0.052


def test_results_lie_on_the_grid():
    noisy = releaser().gaussian_sum(vector_sum(), 5.0)
    assert np.all(noisy * 2.0**10 == np.rint(noisy * 2.0**10))


#: Releases of epsilon 0.1, or of that noise multiplier, by the name of the noise that they draw.
RELEASES = {
    "gaussian": (lambda door: door.gaussian_sum(vector_sum(), 100.0), GaussianRelease(100.0)),
    "norm_laplace": (lambda door: door.norm_laplace_sum(vector_sum(), 0.1), PureRelease(0.1)),
    "exponential_mechanism": (lambda door: door.select(scores(), 0.1), ExponentialMechanismRelease(0.1)),
    "permute_and_flip": (lambda door: door.select_permute_and_flip(scores(), 0.1), PureRelease(0.1)),
    "report_noisy_min": (lambda door: door.select_laplace(scores(), 0.1), PureRelease(0.1)),
}


@pytest.mark.parametrize("noise", RELEASES)
def test_charge_comes_before_the_draw(noise):
    release, event = RELEASES[noise]
    door, spent_at_draw = releaser(epsilon=2.0), []

    def draw(*_):
        spent_at_draw.append(door.budget.spent_units)
        raise RuntimeError("the source broke")

    with replace_noise(**{noise: draw}), pytest.raises(RuntimeError, match="source broke"):
        release(door)
    assert spent_at_draw == [event.cost_units("gdp")]
    assert door.budget.spent_units == event.cost_units("gdp")  # over-counted, never under-counted


def test_a_release_over_budget_draws_nothing():
    door = releaser(epsilon=0.1)
    nothing = replace_noise(gaussian=pytest.fail, exponential_mechanism=pytest.fail)
    with nothing, pytest.raises(BudgetExceededError):
        door.gaussian_sum(vector_sum(), 0.5)
    with pytest.raises(BudgetExceededError):
        door.select(scores(), 50.0)
    assert door.budget.spent_units == 0


def test_ledger_is_charged_when_the_door_opens():
    ledger = Ledger(1.0, 1e-6, allow_seeded=True)
    releaser(epsilon=1.0, ledger=ledger)
    assert ledger.spent == 1.0
    assert [entry.description for entry in ledger.history()] == ["test"]
    with pytest.raises(BudgetExceededError):
        releaser(epsilon=0.1, ledger=ledger)


def test_bad_random_state_is_found_before_the_charge():
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(TypeError, match="random_state"):
        releaser(seed="zero", ledger=ledger)
    assert ledger.spent == 0.0


@pytest.mark.parametrize(("neighbors", "factor"), [("add_or_remove", 1.0), ("replace_one", 2.0)])
def test_norm_laplace_noise_has_the_scale_of_the_sensitivity(neighbors, factor):
    door = releaser(epsilon=math.inf, neighbors=neighbors)
    private = vector_sum(d=20_000, add_or_remove=3.0)
    noise = door.norm_laplace_sum(private, 0.5) - release_without_privacy(private)
    # Gamma(d): the standard deviation of the ratio is 1 / sqrt(20,000) = 0.0071
    assert abs(np.linalg.norm(noise) / (20_000 * 3.0 * factor / 0.5) - 1.0) < 0.037
    assert np.all(noise * 2.0**10 == np.rint(noise * 2.0**10))


def test_norm_laplace_is_one_vector_whatever_its_shape():
    door = releaser(epsilon=math.inf)
    private = Bounded(np.zeros((4, 3), dtype=np.int64), grid=2.0**-20, add_or_remove=1.0)
    radii = [np.linalg.norm(door.norm_laplace_sum(private, 2.0)) for _ in range(2000)]
    assert kstest(radii, gamma(12, scale=0.5).cdf).pvalue > 1e-6


def test_norm_laplace_that_cannot_be_released_costs_nothing():
    door = releaser(epsilon=0.1)
    with replace_noise(norm_laplace=pytest.fail), pytest.raises(BudgetExceededError):
        door.norm_laplace_sum(vector_sum(), 5.0)
    for epsilon in (0.0, -1.0, math.nan, 2.0**-50):
        with pytest.raises(ValueError, match=r"epsilon|scale"):
            door.norm_laplace_sum(vector_sum(), epsilon)
    with pytest.raises(TypeError, match="select"):
        door.norm_laplace_sum(scores(), 0.01)
    assert door.budget.spent_units == 0


def test_norm_laplace_without_privacy_is_the_sum():
    door = releaser(epsilon=math.inf)
    np.testing.assert_array_equal(door.norm_laplace_sum(vector_sum(), math.inf), np.arange(3) / 1024)


def test_selection_follows_the_exponential_mechanism():
    door = releaser(epsilon=math.inf)
    private = scores((5, 0, 9), add_or_remove=0.5)
    counts = np.bincount([door.select(private, 1.0) for _ in range(20_000)], minlength=3)
    weights = np.exp(-1.0 / 0.5 * np.array([5, 0, 9]) / 16.0)
    assert_fits(counts, weights / weights.sum())


def test_replace_one_halves_the_rate_of_selection():
    door = releaser(epsilon=math.inf, neighbors="replace_one")
    private = scores((0, 16), add_or_remove=0.5)
    chosen = sum(door.select(private, 1.0) for _ in range(20_000))
    assert_rate(chosen, 20_000, 1.0 / (1.0 + math.exp(1.0)))  # rate 1 / (2 * 0.5) on a difference of 1


def test_laplace_selection_matches_its_closed_form():
    door = releaser(epsilon=math.inf)
    private = scores((0, 16), add_or_remove=1.0)
    chosen = np.array([door.select_laplace(private, 1.0) for _ in range(20_000)])
    # P(Lap + 1 < Lap') for scale 1: (1 + 1/2) e^{-1} / 2, and half the ties of the grid of 1/16
    assert abs(chosen.mean() - 0.75 * math.exp(-1.0)) < 0.03


@pytest.mark.parametrize(("neighbors", "factor"), [("add_or_remove", 1.0), ("replace_one", 2.0)])
def test_permute_and_flip_matches_its_exact_probabilities(neighbors, factor):
    door = releaser(epsilon=math.inf, neighbors=neighbors)
    private, public = scores((5, 0, 9, 3), add_or_remove=0.5), [0.0, 0.25, 0.0, 0.0]
    chosen = [door.select_permute_and_flip(private, 1.5, public) for _ in range(20_000)]
    rate = 1.5 / (16.0 * 0.5 * factor)  # per step of the grid of 1/16
    assert_fits(np.bincount(chosen, minlength=4), permute_and_flip_probabilities([5, 4, 9, 3], rate))


def test_permute_and_flip_that_cannot_be_released_costs_nothing():
    door = releaser(epsilon=0.1)
    with replace_noise(permute_and_flip=pytest.fail), pytest.raises(BudgetExceededError):
        door.select_permute_and_flip(scores(), 5.0)
    for epsilon in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            door.select_permute_and_flip(scores(), epsilon)
    with pytest.raises(ValueError, match="rate"):
        door.select_permute_and_flip(scores(), 1e30)
    with pytest.raises(ValueError, match="public_scores"):
        door.select_permute_and_flip(scores(), 0.01, [math.inf, 0, 0])
    with pytest.raises(TypeError, match="gaussian_sum"):
        door.select_permute_and_flip(vector_sum(), 0.01)
    assert door.budget.spent_units == 0
    assert releaser(epsilon=math.inf).select_permute_and_flip(scores((5, 0, 9)), math.inf) == 1


def test_public_scores_are_added():
    door = releaser(epsilon=math.inf)
    assert door.select(scores((0, 0, 0)), math.inf, [1.0, 0.5, 2.0]) == 1
    with pytest.raises(ValueError, match="public_scores"):
        door.select(scores(), 1.0, [math.nan, 0, 0])
    assert door.select(scores((0, 9, 5)), math.inf, [1e30, 0, 0]) == 2
    assert door.select(scores((0, 9, 5)), math.inf, [3e30, 1e30, 2e30]) == 1


def test_vectors_and_scores_do_not_mix():
    door = releaser(epsilon=math.inf)
    with pytest.raises(TypeError, match="select"):
        door.gaussian_sum(scores(), 1.0)
    with pytest.raises(TypeError, match="gaussian_sum"):
        door.select(vector_sum(), 1.0)


def test_release_without_privacy_marks_the_result():
    opened = release_without_privacy(vector_sum())
    assert opened.private is False
    assert "NOT PRIVATE" in repr(opened)
    np.testing.assert_array_equal(opened, np.arange(3) / 1024)
