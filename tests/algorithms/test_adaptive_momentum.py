"""Momentum that rises while released gradients point along the way travelled."""

import math

import numpy as np
import pytest
from scipy import stats

from dperm import Objective
from dperm.algorithms import nonprivate, preconditioned_gd
from dperm.algorithms.defaults.constants import Momentum
from dperm.algorithms.defaults.preconditioned_gd import preconditioned_gd_schedule
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.step_rules import AdaptiveMomentum
from dperm.losses import Logistic

STEPS = 60


def momenta(gradients, noise, *, least=0.4, most=Momentum.HIGHEST, travelled=None):
    """Momentum of every step for these gradients, after a way along the first axis or that given."""
    rising = AdaptiveMomentum(least, most, len(gradients))
    along = np.eye(gradients.shape[1])[0] if travelled is None else travelled
    return np.array([rising.at(gradient, along, noise) for gradient in gradients])


@pytest.mark.parametrize("least", [0.0, 0.4, 0.9, 0.97])
def test_it_stays_within_its_bounds(least):
    gradients = np.full((STEPS, 3), -100.0)
    found = momenta(gradients, 1.0, least=least)
    assert found.min() == least
    assert found.max() == max(min(1.0 - (1.0 - least) / 8.0, Momentum.HIGHEST), least)
    settled = 2.0 / (1.0 - least)  # until the least momentum has forgotten the start
    assert (found[: math.floor(min(settled, STEPS))] == least).all()
    assert (momenta(gradients, 1.0, least=least, most=least) == least).all()
    assert (momenta(gradients, 0.0, least=least) == least).all()
    assert (momenta(gradients, 1.0, least=least, travelled=np.zeros(3)) == least).all()


@pytest.mark.parametrize("d", [2, 12])
def test_noise_alone_hardly_raises_it(d):
    """In a step with a probability of at most that of 2.5 standard deviations, in expectation."""
    rng = np.random.default_rng(d)
    found = [momenta(rng.normal(size=(STEPS, d)), 1.0) for _ in range(500)]
    # Below that share by more than the chance of 500 runs, as if all steps of one rose together.
    allowed = stats.norm.sf(2.5)
    assert np.mean(np.array(found) > 0.4) < allowed + 4.0 * math.sqrt(allowed / 500)


def test_it_reaches_an_optimum_far_from_the_start():
    """Strong signal: labels hardly ever depend on chance. Mean of three runs, against the usual momentum."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20_000, 8)) / math.sqrt(8)
    margin = X @ rng.normal(size=8)
    y = np.where(10.0 * margin / margin.std() + rng.logistic(size=len(X)) > 0.0, 1.0, -1.0)
    obj = Objective("logistic", X, y, row_norm=2.5, fit_intercept=True, n_threads=1)
    usual = preconditioned_gd_schedule(PublicProblem(20_000, 9, 0.3, Logistic(), 2.5, intercept=True))
    best = obj.value(nonprivate(obj).coef)

    def excess(**settings):
        runs = (preconditioned_gd(obj, 1.6, 1e-6, random_state=s, **settings) for s in range(3))
        return np.mean([obj.value(run.coef) for run in runs]) - best

    assert excess() < 0.5 * excess(momentum=usual.momentum)
