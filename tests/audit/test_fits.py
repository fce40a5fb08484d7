"""What an audit observes: a function of what was released, and of nothing else."""

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from dperm import algorithms, audit
from dperm.audit import fits, worst_case_neighbours
from dperm.private_values.bounded import Bounded
from reference.exact import RELATIONS_ONE_SLOW
from reference.noisy_selection import permute_and_flip_probabilities


def bounded(integers, **kwargs):
    return Bounded(np.array(integers, dtype=np.int64), grid=0.25, add_or_remove=2.0, **kwargs)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_log_ratio_of_a_noisy_sum_is_that_of_the_densities(relation):
    """From either data set, the same released value gives the same number."""
    door = SimpleNamespace(neighbors=relation)
    one, other = bounded([4, -8, 0]), bounded([0, -4, 4])
    released = np.array([2.0, 0.5, -7.25])
    sigma = 1.5 * one.sensitivity(relation)
    expected = norm.logpdf(released, [0.0, -1.0, 1.0], sigma) - norm.logpdf(released, [1.0, -2.0, 0.0], sigma)
    assert fits._gaussian_log_ratio(door, other, one, released, 1.5) == pytest.approx(expected.sum())
    assert -fits._gaussian_log_ratio(door, one, other, released, 1.5) == pytest.approx(expected.sum())


def test_log_ratio_of_norm_laplace_noise_is_that_of_the_densities():
    door = SimpleNamespace(neighbors="replace_one")
    one, other, released = bounded([4, -8]), bounded([0, -8]), np.array([1.0, 2.0])
    expected = (np.hypot(1.0, 4.0) - 4.0) * 3.0 / 4.0  # scale: sensitivity 4 over epsilon 3
    assert fits._norm_laplace_log_ratio(door, one, other, released, 3.0) == pytest.approx(expected)
    assert fits._norm_laplace_log_ratio(door, other, one, released, 3.0) == pytest.approx(-expected)


def exponential_mechanism_probabilities(scores, rate):
    weights = np.exp(-rate * scores)
    return weights / weights.sum()


@pytest.mark.parametrize(("relation", "rate"), [("add_or_remove", 0.5), ("replace_one", 0.25)])
@pytest.mark.parametrize(
    ("method", "probabilities"),
    [
        ("select", exponential_mechanism_probabilities),
        ("select_permute_and_flip", permute_and_flip_probabilities),
    ],
)
def test_log_ratio_of_a_selection_is_that_of_the_probabilities(method, probabilities, relation, rate):
    door = SimpleNamespace(neighbors=relation)
    one, other = bounded([4, 8, 0, 4], scores=True), bounded([8, 8, 4, 4], scores=True)
    public = np.array([0.0, 1.0, 5.0, 0.5])
    exact = [
        probabilities(np.array(scores) + public, rate)
        for scores in ([1.0, 2.0, 0.0, 1.0], [2.0, 2.0, 1.0, 1.0])
    ]
    for chosen in range(4):
        expected = np.log(exact[0][chosen] / exact[1][chosen])
        found = fits.LOG_RATIOS[method](door, one, other, chosen, 1.0, public)
        assert found == pytest.approx(expected, abs=1e-12)


def test_without_noise_the_transcript_gives_everything_away():
    pair = worst_case_neighbours(n=20, d=2, fit_intercept=True)
    fit = audit.Transcript(lambda objective, seed: algorithms.majority(objective), pair)
    assert fit(pair.first, 0) == -np.inf
    assert fit(pair.second, 0) == np.inf


def test_watching_a_fit_does_not_change_it():
    pair = worst_case_neighbours(n=20, d=2)
    results = []

    def run(objective, seed):
        results.append(algorithms.dp_agd(objective, 4.0, 1e-3, random_state=seed))
        return results[-1]

    fit = audit.Transcript(run, pair)
    fit(pair.second, 3)
    np.testing.assert_array_equal(audit.Coefficients(run)(pair.second, 3), results[0].coef)
    assert results[0].history == results[1].history


def test_data_from_elsewhere_are_refused():
    pair = worst_case_neighbours(n=20, d=2)
    with pytest.raises(ValueError, match="pair"):
        audit.Transcript(lambda objective, seed: None, pair)(worst_case_neighbours(n=20, d=2).first, 0)


class TestSampledSums:
    """The observer of a sum over a secret batch."""

    @staticmethod
    @cache
    def ratios(relation, own_first, runs=1500):
        """Log-likelihood ratios of one release with much signal."""
        pair = worst_case_neighbours(n=20, d=3, relation=relation)
        fit = fits.Transcript(
            lambda objective, seed: algorithms.dp_sgd(
                objective, 3.0, 0.1, batch_size=6, steps=1, clip=0.01, neighbors=relation, random_state=seed
            ),
            pair,
        )
        data = pair.first if own_first else pair.second
        return np.array([fit(data, seed) for seed in range(runs)])

    @pytest.mark.parametrize("relation", RELATIONS_ONE_SLOW)
    def test_what_it_computes_is_a_likelihood_ratio(self, relation):
        """Its mean on the first data set is 1, and that of its inverse on the second."""
        for ratio in (np.exp(self.ratios(relation, True)), np.exp(-self.ratios(relation, False))):
            assert abs(ratio.mean() - 1.0) < 5 * ratio.std() / math.sqrt(len(ratio))  # false alarm 6e-7
            assert ratio.std() > 0.3

    def test_it_does_not_know_the_batch(self):
        """In seven of ten runs the record is out; then the observer must see nothing but noise."""
        ratios = self.ratios("add_or_remove", False)
        assert ratios.min() >= math.log(0.7) - 1e-12  # not in: a factor of 0.7 at most
        assert np.mean(ratios < 0.0) > 0.5


STEPS = {
    "dp_sgd": {"steps": 4, "clip": 0.01, "step_size": 0.1, "momentum": 0.0},
    "dp_sgd_gradient": {"steps": 4, "clip": 0.01, "step_size": 0.1},
}


def ratios(name, relation, batch_size, known_batches=None, steps=4):
    """Log-likelihood ratios of three runs on each data set."""
    pair = worst_case_neighbours(n=20, d=3, relation=relation)
    settings = STEPS[name] | {"batch_size": batch_size, "steps": steps}

    def run(objective, seed):
        return getattr(algorithms, name)(
            objective, 2.0, 1e-5, neighbors=relation, random_state=seed, **settings
        )

    fit = audit.Transcript(run, pair, known_batches=known_batches)
    return [fit(data, seed) for data in pair for seed in range(3)]


@pytest.mark.parametrize("relation", RELATIONS_ONE_SLOW)
@pytest.mark.parametrize("name", sorted(STEPS))
def test_each_known_sum_with_the_record_tells_as_much_as_gaussian_noise(name, relation):
    """The ratio of k of them is N(+-k mu^2/2, k mu^2) for the mu of one: both moments, over 300 runs each.

    In 30 steps with 5 of 20 records there are fewer than 3 sums with the record with probability 0.01, too
    seldom to show. The moments of 600 normal numbers: 5 standard deviations.
    """
    pair = worst_case_neighbours(n=20, d=3, relation=relation)
    settings = STEPS[name] | {"batch_size": 5, "steps": 30}
    fits_made = []

    def run(objective, seed):
        fit = getattr(algorithms, name)(
            objective, 2.0, 1e-5, neighbors=relation, random_state=seed, **settings
        )
        fits_made.append(fit)
        return fit

    transcript = audit.Transcript(run, pair, known_batches=3)
    scores = np.array([[sign * transcript(data, seed) for seed in range(300)] for sign, data in signed(pair)])
    privacy = fits_made[0].privacy
    mu = math.sqrt(3) * privacy.sensitivity / privacy.noise_scale
    normals = (scores.ravel() - mu**2 / 2) / mu
    assert abs(normals.mean()) < 5 / math.sqrt(600)
    assert abs(np.mean(normals**2) - 1.0) < 5 * math.sqrt(2 / 600)


def signed(pair):
    return (-1, pair.first), (1, pair.second)


def test_known_batches_need_a_number_and_one_record_that_differs():
    pair = worst_case_neighbours(n=20, d=3)
    with pytest.raises(ValueError, match="known_batches must be at least 1"):
        audit.Transcript(lambda objective, seed: None, pair, known_batches=0)
    same = audit.NeighbourPair(pair.second, pair.second, pair.relation, pair.direction)
    with pytest.raises(ValueError, match="differ in one record"):
        audit.Transcript(lambda objective, seed: None, same, known_batches=1)(pair.second, 0)
