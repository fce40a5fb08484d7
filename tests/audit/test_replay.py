"""Record and replay: what depends on the data other than through releases is found."""

import math

import numpy as np
import pytest

from audit_faults import CONFIGURATIONS, PRIVATE, skipped_clip
from dperm import Objective, algorithms
from dperm.accounting.budget import Budget
from dperm.audit import replay_check, worst_case_neighbours
from dperm.mechanisms import release_without_privacy
from dperm.mechanisms.hooks import watch_releases
from dperm.mechanisms.release import Releaser
from dperm.objective.gradients import clipped_gradient_sum

DELTA = 1e-3


def replay(run, relation="add_or_remove", fit_intercept=False, **kwargs):
    pair = worst_case_neighbours(n=50, d=3, relation=relation, fit_intercept=fit_intercept, **kwargs)
    return replay_check(run, pair.first.objective, pair.second.objective)


# With the same linear term the minimisers of objective perturbation differ by more than any sensitivity:
# what protects them is that the term is secret, and there is no sum to compare.
REPLAYED = [name for name in PRIVATE if name != "objective_perturbation"]


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("random_state", [None, 3])
@pytest.mark.parametrize("name", REPLAYED)
def test_replay_passes_for_every_private_algorithm(name, relation, random_state):
    if name == "rrpsgd" and random_state is None:
        pytest.skip("the number of rounds is public and random: only a seed repeats it")
    entry = CONFIGURATIONS[name]
    report = replay(
        lambda objective: getattr(algorithms, name)(
            objective,
            entry.epsilon,
            DELTA,
            neighbors=relation,
            random_state=random_state,
            **(entry.settings | entry.replay),
        ),
        relation,
        entry.fit_intercept,
        l2=entry.l2,
        loss=entry.loss,
    )
    assert report.ok, report
    assert report.accesses >= 1
    # The worst case is one: the sensitivity is used up. Not quite where a ridge term pulls the weights back,
    # and where an exchanged label leaves the products of the row with itself alone: how much they weigh is up
    # to the noise of the steps before, so that only a seed makes it known.
    known = {"sufficient_statistics": 0.8}
    if name == "noisy_newton" and relation == "replace_one":
        known[name] = 0.0 if random_state is None else 0.08
    used_up = 0.4 if entry.l2 else known.get(name, 0.999)
    assert used_up < report.largest_share <= 1.0
    assert "passed" in str(report)


def small(objective, **settings):
    return algorithms.noisy_gd(
        objective, 4.0, DELTA, **{"steps": 5, "clip": 0.01, "random_state": 0, **settings}
    )


def with_exact_sum(objective):
    exact = release_without_privacy(clipped_gradient_sum(objective, np.zeros(3), 0.1))
    result = small(objective)
    return algorithms.FitResult(result.coef + exact, result.privacy, result.n_iter, result.history)


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (with_exact_sum, "coef depends on the data"),
        (algorithms.nonprivate, "coef depends on the data"),
        (lambda objective: small(objective, clip=0.01 + objective.value(np.ones(3))), "add_or_remove is"),
        (lambda objective: small(objective, steps=int(100 * objective.value(np.ones(3)))), "access"),
    ],
)
def test_replay_finds_what_depends_on_the_data(run, problem):
    report = replay(run)
    assert not report.ok
    assert problem in str(report)


def test_replay_finds_a_skipped_clip():
    with skipped_clip():
        report = replay(small)
    assert not report.ok
    assert "times its sensitivity" in report.problems[0]
    assert report.largest_share > 10.0


def test_replay_finds_a_private_number_of_records():
    n = 2**19 + 1  # one more than a power of two: the grid of exact sums is coarser
    X, y = np.ones((n, 1)), np.ones(n)
    report = replay_check(small, Objective("logistic", X, y), Objective("logistic", X[:-1], y[:-1]))
    assert any("grid is" in problem for problem in report.problems)


def test_replay_finds_a_run_that_fails_on_the_neighbour():
    calls = []

    def run(objective):
        calls.append(objective)
        if len(calls) == 2:
            raise FloatingPointError("diverged")
        return small(objective)

    assert "raised FloatingPointError" in str(replay(run))


def releasing(result, budget, count):
    """A run that makes ``count`` equal releases within ``budget`` and returns ``result``."""

    def run(objective):
        door = Releaser(
            1.0,
            1e-3,
            budget(),
            neighbors="add_or_remove",
            ledger=None,
            random_state=0,
            description="test",
        )
        for _ in range(count()):
            door.gaussian_sum(clipped_gradient_sum(objective, np.zeros(3), 0.1), 50.0)
        return result

    return run


@pytest.mark.parametrize(
    ("counts", "problem"), [([3, 5], "more accesses than the 3"), ([5, 3], "3 accesses instead of 5")]
)
def test_replay_finds_another_number_of_accesses(counts, problem):
    """The noise of a step and the result are the same: only the length gives it away."""
    result = small(worst_case_neighbours(n=50, d=3).first.objective)
    count = iter(counts)
    report = replay(releasing(result, lambda: Budget.from_epsilon(1.0, 1e-3), lambda: next(count)))
    assert len(report.problems) == 1
    assert problem in report.problems[0]


def test_replay_finds_another_charge():
    """The same noise in budgets of the same size, which count in different units."""
    result = small(worst_case_neighbours(n=50, d=3).first.objective)
    accountants = iter(["gdp", "zcdp"])
    report = replay(releasing(result, lambda: Budget(10**18, next(accountants)), lambda: 1))
    assert len(report.problems) == 1
    assert "cost_units is" in report.problems[0]


def test_replay_finds_other_batches():
    """The rate is public and must not depend on the data."""

    def run(objective):
        size = 10 + round(objective.value(np.zeros(3)) / math.log(2)) * len(calls)
        calls.append(objective)
        return algorithms.dp_sgd(
            objective, 4.0, DELTA, batch_size=size, steps=3, clip=0.01, accountant="rdp", random_state=0
        )

    calls = []
    report = replay(run)
    assert "other batches than those recorded" in str(report)


def test_a_watcher_leaves_with_its_block():
    def broken(*_):
        raise RuntimeError("watching")

    objective = worst_case_neighbours(n=5, d=2).second.objective
    with pytest.raises(RuntimeError, match="watching"), watch_releases(broken):
        small(objective)
    assert small(objective).n_iter == 5
