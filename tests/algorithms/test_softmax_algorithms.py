"""The algorithms on softmax objectives: numpy reference, optimum, budget, reproducibility, audit."""

import math

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression

from algorithms.problems import rows_in_unit_ball
from audit_faults import halved_noise, skipped_clip
from dperm import Objective, audit
from dperm.accounting import Ledger, gdp_mu
from dperm.algorithms import dp_agd, majority, noisy_gd, nonprivate
from dperm.audit import epsilon_lower_bound, replay_check, worst_case_neighbours
from dperm.estimators.solvers import SOLVERS
from dperm.losses import Softmax
from reference import numpy_algorithms as twin
from reference.exact import RELATIONS_ONE_SLOW

CLASSES = 4


def problem(n=2000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rows_in_unit_ball(rng, n, d)
    scores = 4 * X @ rng.normal(size=(d, CLASSES)) + rng.gumbel(size=(n, CLASSES))
    return X, scores.argmax(axis=1).astype(float)


def objective(n=2000, **keywords):
    settings = {"row_norm": 1.5, "fit_intercept": True, "n_classes": CLASSES, **keywords}
    return Objective("softmax", *problem(n), **settings)


def accuracy(coef, X, y):
    return np.mean((X @ coef[:-1] + coef[-1]).argmax(axis=1) == y)


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_every_solver_supports_softmax_or_says_why_not(name):
    """A refusal names the unmet requirement before anything is charged."""
    obj, solver = objective(200, n_threads=1), SOLVERS[name]
    if solver.needs.refusal(obj) is not None:
        ledger = Ledger(1.0, 1e-5)
        with pytest.raises(ValueError, match=r"needs|works with"):
            solver(obj, 1.0, 1e-5, ledger=ledger)
        assert ledger.spent == 0.0
        return
    result = solver(obj) if name == "nonprivate" else solver(obj, 1.0, 1e-5)
    assert result.coef.shape == obj.shape
    assert np.isfinite(result.coef).all()


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nonprivate_is_sklearns_optimum(fit_intercept, dtype):
    X, y = problem()
    X, l2 = X.astype(dtype), 1e-2
    obj = Objective("softmax", X, y, l2=l2, n_classes=CLASSES, row_norm=2.0, fit_intercept=fit_intercept)
    coef = nonprivate(obj).coef
    peer = SklearnLogisticRegression(
        C=1 / (l2 * len(X)), fit_intercept=fit_intercept, tol=1e-12, max_iter=10_000
    ).fit(X.astype(np.float64), y)
    tolerance = 1e-6 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(coef[:5].T, peer.coef_, atol=tolerance)
    if fit_intercept:  # not penalised: defined up to a constant
        centred = peer.intercept_ - peer.intercept_.mean()
        np.testing.assert_allclose(coef[-1] - coef[-1].mean(), centred, atol=tolerance)


def test_softmax_with_two_classes_gives_the_logistic_optimum():
    """The difference of the two columns is the logistic weight, under half of the ridge term."""
    X, y = problem()
    y = (y > 1).astype(float)
    both = nonprivate(Objective("softmax", X, y, l2=0.02, n_classes=2, row_norm=2.0, fit_intercept=True)).coef
    one = nonprivate(Objective("logistic", X, 2 * y - 1, l2=0.01, row_norm=2.0, fit_intercept=True)).coef
    np.testing.assert_allclose(both[:, 1] - both[:, 0], one, atol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_without_noise_it_equals_the_numpy_reference(momentum):
    X, y = problem()
    settings = {"steps": 50, "clip": 0.3, "step_size": 2.0, "momentum": momentum, "tail": 0.5}
    result = noisy_gd(objective(), math.inf, 1e-6, **settings)
    rows = twin.scaled_rows(X, 1.5, True)
    norms = np.linalg.norm(rows, axis=1)
    w, velocity, total = np.zeros((6, CLASSES)), 0.0, 0.0
    for t in range(1, 51):
        gradient = twin.clipped_softmax_gradient(rows, y.astype(int), norms, w, 0.3) / len(X)
        velocity = momentum * velocity - 2.0 * gradient
        w = w + velocity
        total = total + w * (t > 50 - 26)
    np.testing.assert_allclose(result.coef, total / 26, atol=1e-8)
    assert not result.privacy.private
    assert result.privacy.to_dict()["public"]["n_classes"] == CLASSES


@pytest.mark.parametrize("solver", [noisy_gd, dp_agd])
def test_without_noise_it_reaches_the_optimum(solver):
    obj = objective(l2=0.02, penalize_intercept=True)
    exact = nonprivate(obj).coef
    settings = (
        {"steps": 3000, "clip": 10.0, "tail": 0.01}
        if solver is noisy_gd
        else {"clip": 10.0, "max_iter": 300, "loss_clip": 100.0}
    )
    result = solver(obj, math.inf, 1e-6, **settings)
    assert obj.value(result.coef) - obj.value(exact) < (1e-9 if solver is noisy_gd else 1e-3)


@pytest.mark.parametrize(
    ("solver", "settings"), [(noisy_gd, {"steps": 20}), (dp_agd, {"splits": 5}), (majority, {})]
)
def test_seeded_runs_repeat_on_any_number_of_threads(solver, settings):
    problems = [objective(30_000, n_threads=threads) for threads in (1, 2)]
    coefs = [solver(obj, 1.0, 1e-6, random_state=3, **settings).coef for obj in problems]
    np.testing.assert_array_equal(*coefs)
    assert coefs[0].shape == (6, CLASSES)
    other = solver(problems[0], 1.0, 1e-6, random_state=4, **settings).coef
    assert np.any(other != coefs[0])


@pytest.mark.parametrize("solver", [noisy_gd, dp_agd, majority])
@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
def test_the_requested_budget_is_spent(solver, neighbors, record):
    ledger = Ledger(0.7, 1e-7, neighbors=neighbors)
    result = solver(objective(), 0.7, 1e-7, neighbors=neighbors, ledger=ledger)
    budget = record[-1]["budget"]
    assert budget.spent_units <= budget.total_units
    if solver is not dp_agd:  # its remaining budget may be too small for another iteration
        assert budget.spent_units >= budget.total_units - len(record)
    assert ledger.spent == 0.7
    assert result.privacy.private


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("solver", [noisy_gd, dp_agd, majority])
def test_data_are_used_only_through_releases(solver, relation):
    X, y = problem(300)
    other = (X[:-1], y[:-1]) if relation == "add_or_remove" else (X, np.append(y[:-1], (y[-1] + 1) % CLASSES))
    one, neighbour = (
        Objective("softmax", *data, n_classes=CLASSES, row_norm=1.0, fit_intercept=True, n_public=300)
        for data in [(X, y), other]
    )
    report = replay_check(
        lambda obj: solver(obj, 1.0, 1e-6, neighbors=relation, random_state=0), one, neighbour
    )
    assert report.ok, report


DELTA, EPSILON = 1e-3, 4.0


def measure(relation="add_or_remove", clip=0.01):
    pair = worst_case_neighbours(n=50, d=3, relation=relation, loss=Softmax(2))

    def run(obj, seed):
        return noisy_gd(obj, EPSILON, DELTA, neighbors=relation, random_state=seed, steps=12, clip=clip)

    return epsilon_lower_bound(
        audit.Transcript(run, pair), pair, delta=DELTA, claim=EPSILON, trainings=800, confidence=1 - 1e-6,
        n_jobs=1, random_state=0,
    )  # fmt: skip


@pytest.mark.parametrize("relation", RELATIONS_ONE_SLOW)
def test_audited_leakage_is_within_and_near_the_claim(relation):
    result = measure(relation)
    assert not result.violates(), result
    estimate = -math.sqrt(2) * norm.ppf(result.false_negative_rate)
    # with m pairs the estimate of mu (about 1) has a standard error of 2 / sqrt(m)
    assert estimate > 0.9 * gdp_mu(EPSILON, DELTA) - 10 / math.sqrt(result.certified / 2), result


@pytest.mark.slow
def test_a_learned_row_norm_is_within_the_claim():
    """Without a clip the row norm is learned, and the record's gradient is shorter than the default clip."""
    honest = measure(clip=None)
    assert not honest.violates(), honest
    estimate = -math.sqrt(2) * norm.ppf(honest.false_negative_rate)
    assert estimate > 0.75 * gdp_mu(EPSILON, DELTA) - 10 / math.sqrt(honest.certified / 2), honest
    with halved_noise():
        assert measure(clip=None).violates()


@pytest.mark.parametrize("fault", [halved_noise, skipped_clip])
def test_planted_faults_are_detected(fault):
    with fault():
        result = measure()
    assert result.violates(), result


@pytest.mark.parametrize(
    ("neighbors", "sensitivity"), [("add_or_remove", 1.0), ("replace_one", math.sqrt(2))]
)
def test_private_majority_is_one_noisy_vector_of_counts(neighbors, sensitivity):
    obj = objective()
    exact = np.bincount(problem()[1].astype(int), minlength=CLASSES)
    draws = [
        majority(obj, 0.5, 1e-6, neighbors=neighbors, random_state=seed).history[0]["class_counts"]
        for seed in range(600)
    ]
    privacy = majority(obj, 0.5, 1e-6, neighbors=neighbors).privacy
    assert privacy.sensitivity == pytest.approx(sensitivity)
    # 2400 draws: the variance has a standard error of 2.9 %; 6 of these
    assert abs(np.var(draws - exact) / privacy.noise_scale**2 - 1) < 0.175


def test_exact_majority_predicts_the_class_frequencies():
    result = majority(objective())
    shares = np.bincount(problem()[1].astype(int)) / 2000
    np.testing.assert_allclose(softmax(result.coef[-1]), shares, rtol=1e-12)
    np.testing.assert_array_equal(result.coef[:-1], 0.0)
    assert not result.privacy.private


def test_private_weights_beat_the_majority():
    X, y = problem(10_000)
    obj = objective(10_000, n_threads=1)
    trivial = np.bincount(y.astype(int)).max() / len(y)
    for epsilon in (0.5, 2.0):
        coef = noisy_gd(obj, epsilon, 1e-6, neighbors="replace_one", random_state=0).coef
        assert accuracy(coef, X, y) > trivial + 0.2
