"""PrivGene: sensitivity of the offspring's scores, selection rates, numpy reference, budget."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.problems import objective, separable, zero_rows
from dperm import Objective
from dperm.accounting import zcdp_rho
from dperm.accounting.selection import offspring_range, privgene_rate
from dperm.accounting.zcdp import zcdp_rho_bun_steinke
from dperm.algorithms import noisy_gd, privgene
from dperm.algorithms.privgene import PrivGeneSchedule
from dperm.losses import Huber
from dperm.mechanisms import release
from dperm.objective.losses import coordinate_loss_sums
from reference import awkward_arrays
from reference import numpy_algorithms as twin
from reference.exact import RELATIONS, assert_change_within, assert_scores_within, opened


@pytest.fixture
def selections(monkeypatch):
    """Every selection: releaser, scores, eta."""
    seen, original = [], release.Releaser.select

    def watched(self, private, eta, public_scores=0.0):
        seen.append((self, private, eta))
        return original(self, private, eta, public_scores)

    monkeypatch.setattr(release.Releaser, "select", watched)
    return seen


# -- scores of the offspring --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", awkward_arrays.DTYPES)
@settings(max_examples=60)
@given(data=st.data(), loss=st.sampled_from(["logistic", "hinge", "huber", "squared_hinge"]))
def test_a_record_adds_between_zero_and_the_clip(dtype, data, loss):
    width = data.draw(st.sampled_from([1, 2, 7, 33, 65]))
    rows = awkward_arrays.special_rows(width, dtype)
    x = rows[data.draw(st.sampled_from(sorted(rows)))][None, :]
    y = np.array([data.draw(st.sampled_from([-1.0, 1.0]))], dtype)
    row_norm = data.draw(st.sampled_from([1e-3, 1.0, 1e3]))
    obj = Objective(loss, x, y, row_norm=row_norm, fit_intercept=True, non_finite="zero")
    w = data.draw(st.sampled_from([0.0, 1.0, -1e6, 1e300])) * np.ones(width + 1)
    stride = data.draw(st.sampled_from([1e-6, 0.3, 1e6]))
    scores = coordinate_loss_sums(obj, w, stride, data.draw(st.sampled_from([1e-3, 1.0, 7.0])))
    assert_scores_within(scores, scores.add_or_remove)


@pytest.mark.parametrize("clip", [math.inf, 0.1])
def test_range_of_one_record_is_attained(clip):
    stride, row_norm = 0.25, 2.0
    up, down = (Objective(Huber(1.5), [[row_norm, 0.0]], [y], row_norm=row_norm) for y in (1e6, -1e6))
    a, b = (coordinate_loss_sums(each, np.zeros(2), stride, clip) for each in (up, down))
    single = offspring_range(1.5 * row_norm, stride, clip=clip)
    one, other = opened(a), opened(b)
    assert a.score_range("add_or_remove") == pytest.approx(single)
    assert a.score_range("replace_one") == pytest.approx(2 * single)
    assert 0.999999 * single < np.ptp(one) <= single
    assert 0.999999 * 2 * single < np.ptp(one - other) <= 2 * single


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_stay_within_the_range(relation):
    rng = np.random.default_rng(0)
    for _ in range(50):
        X, y = rng.normal(size=(6, 3)), np.where(rng.random(6) < 0.5, 1.0, -1.0)
        w, stride, clip = 3 * rng.normal(size=4), rng.exponential(), rng.exponential()
        settings = {"n_public": 6, "row_norm": 2.0, "fit_intercept": True}
        strides = {"stride": stride, "clip": clip}
        one = Objective("logistic", X, y, **settings)
        X2, y2 = (X[:5], y[:5]) if relation == "add_or_remove" else (X.copy(), y.copy())
        if relation == "replace_one":
            X2[5], y2[5] = rng.normal(size=3), -y[5]
        other = Objective("logistic", X2, y2, **settings)
        assert_change_within(*(coordinate_loss_sums(each, w, **strides) for each in (one, other)), relation)


@pytest.mark.parametrize("stride", [0.0, -1.0, math.nan, math.inf])
def test_strides_out_of_range_are_refused(stride):
    with pytest.raises(ValueError, match=r"^stride"):
        coordinate_loss_sums(objective(), np.zeros(6), stride)


# -- the algorithm ------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_rates_are_those_of_the_formulas(selections, neighbors, calibration):
    settings = {"generations": 20, "stride": 0.5, "decay": 0.95, "entry_bound": 1.0}
    settings |= {"neighbors": neighbors, "calibration": calibration}
    result = privgene(objective(row_norm=2.0), 0.1, 1e-8, **settings)
    factor = 2 if neighbors == "replace_one" else 1
    for generation, (_, scores, eta) in enumerate(selections):
        stride = 0.5 * 0.95**generation
        rate = eta / scores.score_range(neighbors)
        if calibration == "paper":
            expected = math.sqrt(2 * zcdp_rho_bun_steinke(0.1, 1e-8) / 20) / (4 * stride)
        else:
            expected = privgene_rate(zcdp_rho(0.1, 1e-8), 20, factor * 2 * stride)
        assert rate == pytest.approx(expected, rel=1e-9)
    assert result.n_iter == len(selections) == 20


def test_pure_rate(selections):
    settings = {"generations": 20, "stride": 0.5, "decay": 1.0, "entry_bound": 1.0}
    result = privgene(objective(row_norm=2.0), 1.0, 0.0, **settings)
    releaser, scores, eta = selections[0]
    assert eta / scores.score_range("add_or_remove") == pytest.approx(0.05, rel=1e-9)
    assert releaser.budget.spent_units == releaser.budget.total_units == 20
    assert result.privacy.accountant == "pure"


def test_the_budget_is_spent_and_not_exceeded(selections):
    privgene(objective(), 0.7, 1e-7)
    budget = selections[-1][0].budget
    assert budget.total_units * (1 - 1e-9) <= budget.spent_units <= budget.total_units


def test_without_noise_it_equals_the_numpy_reference():
    X, y = separable()
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True)
    settings = {"generations": 40, "stride": 0.4, "decay": 0.97, "entry_bound": 0.6}
    result = privgene(obj, math.inf, 1e-6, **settings)
    schedule = PrivGeneSchedule(**settings)
    expected = twin.privgene(twin.scaled_rows(X, 1.5, True), y, math.inf, schedule, None)
    np.testing.assert_allclose(result.coef, expected, atol=1e-12)


def test_without_noise_the_loss_never_rises_and_ends_low():
    obj, values = objective(n=400, l2=1e-3), []
    privgene(obj, math.inf, 1e-6, callback=lambda released: values.append(obj.value(released["coef"])))
    assert all(late <= early + 1e-9 for early, late in itertools.pairwise(values))
    assert values[-1] < obj.value(noisy_gd(obj, math.inf, 1e-6).coef) + 0.02


def test_the_ridge_term_shrinks_the_weights():
    weak, strong = (privgene(objective(n=400, l2=l2), math.inf, 1e-6).coef for l2 in (0.0, 5.0))
    assert np.linalg.norm(strong[:-1]) < 0.2 * np.linalg.norm(weak[:-1])


def test_the_parent_is_not_a_candidate_in_paper_mode():
    for seed in range(20):
        result = privgene(
            zero_rows(50, d=2), 1.0, 1e-6, generations=3, calibration="paper", random_state=seed
        )
        assert all(entry["candidate"] < 4 for entry in result.history)
