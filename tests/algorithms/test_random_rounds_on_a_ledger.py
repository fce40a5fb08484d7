"""rrpsgd on a ledger: its cost is an average over the number of rounds, which is drawn after the charge."""

import functools

import numpy as np
import pytest

from accounting.dp_accounting_losses import composed_losses
from algorithms.problems import zero_rows
from dperm.accounting import Ledger, gdp_mu
from dperm.accounting.fit_costs import sampled_gaussian_cost
from dperm.algorithms import rrpsgd

N, BATCH, ROUNDS, DELTA = 1000, 300, 40, 1e-5
PLAN = {"batch_size": BATCH, "n_samples": N, "sampling": "poisson", "neighbors": "add_or_remove"}
INTERVAL = 5e-4


def fitted(ledger, epsilon, burn_in, seed):
    settings = {"rounds": ROUNDS, "batch_size": BATCH, "clip": 0.5, "step_size": 0.1, "burn_in": burn_in}
    return rrpsgd(zero_rows(N), epsilon, DELTA, ledger=ledger, random_state=seed, **settings)


@pytest.mark.parametrize(("epsilon", "least", "most"), [(0.6, 0.7, 0.8), (1.0, 0.0, 0.0)])
def test_what_remains_does_not_depend_on_the_number_of_rounds(epsilon, least, most):
    ledgers = [Ledger(1.0, DELTA, allow_seeded=True) for _ in range(12)]
    assert len({fitted(ledger, epsilon, 0.5, seed).n_iter for seed, ledger in enumerate(ledgers)}) > 5
    (left,) = {ledger.remaining for ledger in ledgers}
    assert least <= left <= most


@functools.cache
def losses_of_steps(multiplier, steps):
    """Privacy losses by another accountant, rounded down."""
    if steps < 2:
        return composed_losses(multiplier, BATCH / N, 1, INTERVAL, lower=True)
    return losses_of_steps(multiplier, steps - 1).compose(losses_of_steps(multiplier, 1))


def delta_of_both(multiplier, left_after):
    """Delta at epsilon 1 of some rounds, and a Gaussian release that spends what is left; rounded down.

    `left_after` is that epsilon for each R, all of which are equally likely.
    """
    deltas = []
    for rounds, left in left_after.items():
        losses = losses_of_steps(multiplier, rounds - 1)
        if left > 0.0:
            losses = losses.compose(composed_losses(1.0 / gdp_mu(left, DELTA), 1.0, 1, INTERVAL, lower=True))
        deltas.append(losses.get_delta_for_epsilon(1.0))
    return np.mean(deltas)


def left_given(rounds, multiplier, epsilon):
    """What would be left if the charge were that of the rounds that were drawn."""
    ledger, cost = Ledger(1.0, DELTA), sampled_gaussian_cost(multiplier, steps=rounds - 1, **PLAN)
    ledger.charge(epsilon=epsilon, delta=DELTA, accountant="pld", cost=cost)
    return ledger.remaining


@pytest.mark.parametrize(("epsilon", "burn_in"), [(0.6, 0.05), (1.0, 0.05), (1.0, 0.5)])
def test_with_a_gaussian_release_of_what_remains_the_promise_of_the_ledger_is_kept(epsilon, burn_in):
    """A charge for the rounds that were drawn breaks it: a fit with many rounds takes the whole ledger."""
    ledger = Ledger(1.0, DELTA, allow_seeded=True)
    multiplier = fitted(ledger, epsilon, burn_in, 0).privacy.noise_scale / 0.5
    possible = range(int(burn_in * ROUNDS) + 1, ROUNDS + 1)
    assert delta_of_both(multiplier, dict.fromkeys(possible, ledger.remaining)) <= DELTA
    if epsilon == 1.0:
        left = {rounds: left_given(rounds, multiplier, epsilon) for rounds in possible}
        assert delta_of_both(multiplier, left) > 1.1 * DELTA
