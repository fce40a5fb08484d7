"""Fits on part of a split: algorithms whose proof needs a bound on the record count require a size cap."""

import numpy as np
import pytest

from dperm import Objective, algorithms
from dperm.accounting import Ledger

N = 400
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (N, 3))
Y = np.where(RNG.random(N) < 0.5, 1.0, -1.0)
#: The algorithms that need the bound, and further arguments.
BOUNDED = {
    "output_perturbation_gd": {},
    "objective_perturbation": {},
    "dp_sgd_output": {"neighbors": "add_or_remove"},
    "dp_sgd": {"sampling": "permutation"},
}


def part_and_objective(n_public):
    part = Ledger(3.0, 1e-6, pure=1.5).split({"train": 0.5, "test": 0.5})["train"]
    records = part.take(X, Y)
    return part, Objective("logistic", *records, l2=0.5, n_public=n_public(part))


@pytest.mark.parametrize("name", BOUNDED)
def test_an_expected_count_is_refused(name):
    """Whether this part has more or fewer records than expected."""
    for share in (lambda part: part.n_public(N), lambda part: 150, lambda part: 250):
        part, objective = part_and_objective(share)
        with pytest.raises(ValueError, match="size_cap"):
            getattr(algorithms, name)(objective, 1.0, 1e-6, ledger=part, **BOUNDED[name])
        with pytest.raises(ValueError, match="size_cap"):
            part.cost_of(getattr(algorithms, name), objective, 1.0, 1e-6, **BOUNDED[name])
        assert part.history() == []


@pytest.mark.parametrize("name", BOUNDED)
def test_a_size_cap_is_accepted(name):
    part, objective = part_and_objective(lambda part: part.size_cap(N, equal=1))
    result = getattr(algorithms, name)(objective, 1.0, 1e-6, ledger=part, **BOUNDED[name])
    assert np.all(np.isfinite(result.coef))
    assert 200 < objective.n_public < N
    cap, fit = part.history()
    assert cap.cost.slack > 0
    assert fit.statement["n"] == objective.n_public


@pytest.mark.parametrize("name", ["noisy_gd", "dp_sgd"])
def test_other_algorithms_accept_an_expected_count(name):
    part, objective = part_and_objective(lambda part: part.n_public(N))
    assert np.all(np.isfinite(getattr(algorithms, name)(objective, 1.0, 1e-6, ledger=part).coef))
