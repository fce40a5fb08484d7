"""SGD in noisy phases: numpy reference, disjoint parts, sensitivity, charge, noise."""

import math
from itertools import pairwise

import numpy as np
import pytest

from algorithms.problems import objective, secret_bits, separable
from dperm import Objective, losses
from dperm.accounting import Ledger, gdp_mu
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms import dp_sgd_output
from dperm.errors import BudgetExceededError
from dperm.mechanisms.sampling import permutation
from dperm.objective.bounded_descent import BoundedDescent, DescentRecipe
from reference.exact import opened
from reference.replaced_noise import scaled_noise
from reference.sgd_twin import sgd

REPLACE = {"neighbors": "replace_one"}
SIZES = [48, 24, 12, 15]  # of the parts of 99 records, in 4 phases and batches of 3
RIDGE = {"l2": 0.05, "penalize_intercept": True}


def released_by_phase(obj, **settings):
    """The weights that each phase releases, without noise."""
    own = {"phases": 4, "batch_size": 3, "step_size": 0.5, "clip": 8.0}
    seen = []
    dp_sgd_output(
        obj, math.inf, 1e-6, random_state=3, callback=lambda found: seen.append(found["coef"]),
        **{**own, **REPLACE, **settings},
    )  # fmt: skip
    return seen


@pytest.mark.parametrize("output", ["average", "last"])
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("radius", [math.inf, 0.4])
def test_without_noise_it_equals_the_numpy_reference(output, passes, radius):
    X, y = separable(n=99)
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True, l2=0.1)
    seen = released_by_phase(obj, passes=passes, output=output, radius=radius)
    order, w, first = permutation(secret_bits(3), 99), np.zeros(6), 0
    assert len(seen) == 4
    for phase, (size, coef) in enumerate(zip(SIZES, seen, strict=True)):
        part = order[first : first + size].reshape(-1, 3)
        iterates = sgd(
            X, y, obj.loss, list(part) * passes, [0.5 / 4**phase] * (len(part) * passes), row_norm=1.5,
            fit_intercept=True, clip=8.0, divisor=3.0, l2=0.1, n_penalized=5, radius=radius, start=w,
        )  # fmt: skip
        w = iterates[:-1].mean(axis=0) if output == "average" else iterates[-1]
        np.testing.assert_allclose(coef, w, atol=2e-4)  # rounded to a thousandth of the sensitivity
        first += size


def test_a_record_is_used_in_one_phase_only():
    """Replacing a record of a phase changes its release and later ones, but none before."""
    X, y = separable(n=99)
    order = permutation(secret_bits(3), 99)
    seen = released_by_phase(Objective("logistic", X, y, row_norm=1.5, **RIDGE), output="last")
    ends = np.cumsum(SIZES)
    for place in (0, 47, 48, 71, 72, 84, 98):
        other, label = X.copy(), y.copy()
        other[order[place]] *= -0.5
        label[order[place]] *= -1.0
        obj = Objective("logistic", other, label, row_norm=1.5, **RIDGE)
        changed = released_by_phase(obj, output="last")
        phase = int(np.searchsorted(ends, place, side="right"))
        same = [np.array_equal(*pair) for pair in zip(seen, changed, strict=True)]
        assert same == [True] * phase + [False] * (4 - phase)


def distance(X, y, loss, recipe, start, changed):
    """How far the result moves on changed data, and the bound."""
    weights = []
    for rows, targets in ((X, y), changed):
        obj = Objective(loss, rows, targets, row_norm=1.0)
        run = BoundedDescent.of(obj, recipe, np.arange(len(y)), start)
        weights.append(opened(run.train(obj)))
    return np.linalg.norm(weights[0] - weights[1]), run.sensitivity(Neighbours.REPLACE_ONE)


def recipe(step_size, average, passes=1, clip=math.inf):
    return DescentRecipe(passes, 1, step_size, False, clip, math.inf, average, False, True)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("start", [0.0, 3.0, -1e6])
def test_the_sensitivity_is_attained_from_any_start(average, start):
    """Far from the targets, gradients of the Huber loss are constant, and opposite for the changed record."""
    n, eta, slope = 40, 0.3, 0.1
    X, y = np.ones((n, 1)), np.full(n, 1e9)
    opposed = np.concatenate([[-1e9], y[1:]])
    moved, bound = distance(X, y, losses.Huber(slope), recipe(eta, average), np.array([start]), (X, opposed))
    exact = 2.0 * eta * slope * ((1.0 - 1.0 / n) if average else 1.0)
    assert exact <= bound <= exact * (1.0 + 1e-5)
    assert 0.999 * bound < moved <= bound * (1.0 + 2e-3)  # results are rounded to a grid


def unit_rows(rng, n, d):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.where(rng.random(n) < 0.5, -1.0, 1.0)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute"])
def test_no_neighbour_found_exceeds_the_sensitivity_of_a_phase(loss):
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(60):
        n, d, passes = 12, 3, int(rng.integers(1, 4))
        X, y = unit_rows(rng, n, d)
        start = rng.normal(size=d) * 10.0 ** rng.uniform(-1, 2)
        place = int(rng.integers(n))
        other, label = X.copy(), y.copy()
        other[place] = -X[place] if rng.random() < 0.5 else rng.permutation(X[place])
        label[place] *= rng.choice([-1.0, 1.0])
        settings = recipe(0.5, bool(rng.integers(2)), passes, clip=1.0)
        moved, bound = distance(X, y, loss, settings, start, (other, label))
        assert moved <= bound * (1.0 + 2e-3)
        largest = max(largest, moved / bound)
    assert largest > 0.3  # the search finds something


@pytest.mark.parametrize("mechanism", ["gaussian", "norm_laplace"])
def test_all_phases_together_cost_one_release(releases, mechanism):
    spent = []
    for phases in (1, 5):
        ledger = Ledger(1.0, 1e-6, pure=0.5, neighbors="replace_one")
        delta = 1e-7 if mechanism == "gaussian" else 0.0
        terms = {"phases": phases, "mechanism": mechanism, "ledger": ledger}
        result = dp_sgd_output(objective(**RIDGE), 0.4, delta, **terms)
        spent.append(ledger.charged)
        assert "one phase alone" in " ".join(result.privacy.notes) or phases == 1
    assert spent[0] == spent[1]
    assert len(releases) == 6
    budget = releases[-1][1]
    assert budget.spent_units == budget.total_units == 5
    with pytest.raises(BudgetExceededError):
        budget.spend(budget.event)


def standardised_noise(record, relation):
    record.clear()
    obj = objective(n=200, d=20, **RIDGE)
    for seed in range(40):
        terms = {"mechanism": "gaussian", "random_state": seed, "neighbors": relation}
        dp_sgd_output(obj, 1.0, 1e-6, phases=5, **terms)
    assert {entry["multiplier"] for entry in record} == {record[0]["multiplier"]}
    assert record[0]["multiplier"] == pytest.approx(1.0 / gdp_mu(1.0, 1e-6), rel=1e-9)
    scale = record[0]["multiplier"] / gdp_mu(1.0, 1e-6) ** -1
    return np.concatenate([scale * (each["noisy"] - each["exact"]) / each["sigma"] for each in record])


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove"])
def test_noise_of_every_phase_is_as_calibrated_and_halved_noise_is_detected(record, relation):
    """The mean of k squared normals has variance 2/k; 5.5 standard deviations: false alarm below 1e-7."""
    noise = standardised_noise(record, relation)
    assert abs(np.mean(noise**2) - 1.0) < 5.5 * math.sqrt(2 / noise.size)
    with scaled_noise(0.5):
        noise = standardised_noise(record, relation)
    assert abs(np.mean(noise**2) - 1.0) > 5.5 * math.sqrt(2 / noise.size)


def test_later_phases_are_released_with_less_noise(record):
    dp_sgd_output(objective(), 1.0, 1e-6, phases=6, mechanism="gaussian", step_size=0.5, **REPLACE)
    ratios = [later["sigma"] / earlier["sigma"] for earlier, later in pairwise(record)]
    np.testing.assert_allclose(ratios, 0.25, rtol=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"phases": 8}, "phases must be at most 7"),
        ({"phases": 0}, "phases must be a positive integer"),
        ({"phases": 2.0}, "phases must be a positive integer"),
        ({"phases": 3, "batch_size": 50}, "phases must be at most 2"),
        ({"phases": 2, "sampling": "uniform"}, "phases go with sampling='permutation'"),
        ({"phases": 2, "calibration": "paper", "radius": 1.0}, "phases go with"),
    ],
)
def test_incompatible_settings(settings, message):
    ledger = Ledger(2.0, 1e-5, neighbors="replace_one")
    with pytest.raises(ValueError, match=message):
        dp_sgd_output(objective(n=200), 1.0, 1e-6, ledger=ledger, **settings)
    assert not ledger.history()
    ridge = Objective("logistic", *separable(), row_norm=1.5, l2=0.1)
    with pytest.raises(ValueError, match="phases go with"):
        dp_sgd_output(ridge, 1.0, 1e-6, phases=2, step_sizes="decreasing")
    unbounded = Objective(losses.SoftMargin(1.5), *separable(), row_norm=1.5)
    with pytest.raises(ValueError, match="need a clip or a radius"):
        dp_sgd_output(unbounded, 1.0, 1e-6, phases=2, clip=math.inf)


def test_with_much_data_the_population_risk_is_low():
    X, y = separable(n=40_000)
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True)
    result = dp_sgd_output(obj, 1.0, 1e-6, phases=14, random_state=0)
    assert obj.value(result.coef) < 0.5 * math.log(2)
