"""A search against brute force: the exact distribution of its choice, sensitivities, replays and audits.

Fixed models stand in for fitted ones, which leaves the coins, the scores and the choice of a search.
"""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone

from audit_faults import halved_noise
from dperm import HuberRegressor, LogisticRegression, QuantileRegressor
from dperm.accounting import Ledger, gaussian_delta
from dperm.accounting.budget import Budget
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.random_trials import TruncatedNegativeBinomial
from dperm.accounting.units import selection_eta, units_as_float
from dperm.algorithms.fit import FitResult
from dperm.audit import certify_observations, replay_check
from dperm.data import scan_parquet
from dperm.errors import DataError
from dperm.estimators.design import FittedDesign
from dperm.mechanisms import release_without_privacy
from dperm.mechanisms.hooks import replace_noise, watch_releases
from dperm.mechanisms.random_source import random_source
from dperm.mechanisms.selection import exponential_mechanism
from dperm.search.candidates import Candidates, SharedRecords
from dperm.search.plan import SearchTerms, search_plan
from dperm.search.run import SearchRun
from dperm.search.scores import HeldOut, Records, scoring_of
from reference.exact import RELATIONS_ONE_SLOW
from reference.goodness_of_fit import assert_fits
from search.problems import DELTA, model, records, search

pytestmark = pytest.mark.filterwarnings(
    "ignore::dperm.errors.SeededNoiseWarning", "ignore:the budget of a fit in this search"
)
# Weights of the fixed models, by their `l2`.
DIRECTIONS = {1.0: (1.0, 0.0), 2.0: (0.0, 1.0), 3.0: (-1.0, -1.0)}
POINTS = np.array([[0.5, 0.1], [0.3, -0.2], [-0.4, 0.2], [0.1, 0.6], [-0.2, -0.3], [0.7, -0.6]])
LABELS = np.array([1, 1, -1, 1, -1, -1])
METHODS = ("all_candidates", "random_trials")


@pytest.fixture
def known_models(monkeypatch):
    def fit_all(self, models, settings):
        for each in models:
            each.classes_, each.n_features_in_ = np.array([-1, 1]), 2
            each.coef_, each.intercept_ = np.array([DIRECTIONS[each.l2]]), np.zeros(1)
            each._design = FittedDesign(None, 2.0, True)

    monkeypatch.setattr(SharedRecords, "fit_all", fit_all)


def a_run(method, X=POINTS, y=LABELS, *, epsilon=2.0, relation="add_or_remove", seed=0):
    candidates = Candidates(model(), {"l2": list(DIRECTIONS)})
    terms = SearchTerms(3, epsilon, DELTA, 0.0, Neighbours.parse(relation), None)
    plan = search_plan(method, terms)
    scoring = scoring_of(None, candidates.model)
    return SearchRun(candidates, plan, terms, random_source(seed), Records(X, y), scoring, 0.5)


def chosen(run):
    if run.plan.law is None:
        run.plan = replace(run.plan, budget=Budget(run.plan.budget.total_units))  # as of a new search
        return run._best_of_all(run.charge({}))[0]
    return run._best_of_trials()[0]


def held_out_of(run):
    return run._held._X, run._held._targets


def errors(X, y):
    """Number of errors of each candidate, by brute force."""
    directions = np.array(list(DIRECTIONS.values()))
    return np.array(
        [sum((x @ w > 0) != (label > 0) for x, label in zip(X, y, strict=True)) for w in directions]
    )


def law_of_choice(plan, scores, relation="add_or_remove"):
    """Exact probabilities of the candidates, given their scores."""
    if plan.law is None:
        spread = Neighbours.parse(relation).score_range_factor
        weights = np.exp(-selection_eta(plan.choice) / spread * (scores - scores.min()))
        return weights / weights.sum()
    sigma, noise = 1.0 / math.sqrt(units_as_float(plan.choice)), np.arange(-400, 401)
    trial = np.zeros((len(noise), len(scores)))  # by noisy score, then by candidate: the order of trials
    cells = norm.cdf((noise + 0.5) / sigma) - norm.cdf((noise - 0.5) / sigma)
    for index, score in enumerate(scores):
        trial[:, index] = np.roll(cells, int(score)) / len(scores)
    gamma = plan.law.gamma
    worse = 1.0 - np.concatenate([[0.0], np.cumsum(trial.ravel())])
    best = gamma * worse / (1.0 - (1.0 - gamma) * worse)  # geometric: E[worse^K]
    return -np.diff(best).reshape(trial.shape).sum(axis=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("relation", RELATIONS_ONE_SLOW)
def test_the_choice_has_its_law(method, relation, known_models):
    run = a_run(method, relation=relation)
    scores = errors(*held_out_of(run))
    assert len(set(scores)) > 1
    draws = 600
    if method == "random_trials":  # fewer trials, for less time
        run.plan, draws = replace(run.plan, law=TruncatedNegativeBinomial(1.0, 0.3)), 400
    counts = np.bincount([chosen(run) for _ in range(draws)], minlength=3)
    assert_fits(counts, law_of_choice(run.plan, scores, relation))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 6.0])
def test_exact_laws_of_the_choice_are_private(method, epsilon):
    """The law of the choice, averaged over all coins of six records; each record is removed in turn."""
    plan = search_plan(method, SearchTerms(3, epsilon, DELTA, 0.0, Neighbours.ADD_OR_REMOVE, None))

    def law(X, y):
        coins = itertools.product([False, True], repeat=len(y))
        parts = [np.array(each) for each in coins]
        return sum(law_of_choice(plan, errors(X[part], y[part])) for part in parts) / len(parts)

    whole = law(POINTS, LABELS)
    used = 0.0
    for record in range(len(LABELS)):
        without = law(np.delete(POINTS, record, axis=0), np.delete(LABELS, record))
        for p, q in ((whole, without), (without, whole)):
            assert np.maximum(p - math.exp(epsilon) * q, 0.0).sum() <= DELTA
            used = max(used, np.abs(np.log(p / q)).max())
    assert used > 0.02 * epsilon  # the test would see a choice that is far from private


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_a_fixed_choice_of_coins_is_private(method, relation):
    """Scores that differ as much as the sensitivity allows."""
    plan = search_plan(method, SearchTerms(3, 2.0, DELTA, 0.0, Neighbours.parse(relation), None))
    moves = itertools.product([0, 1] if relation == "add_or_remove" else [-1, 0, 1], repeat=3)
    base, largest = np.array([10, 11, 10]), 0.0
    for move in moves:
        p, q = (law_of_choice(plan, scores, relation) for scores in (base, base + np.array(move)))
        for one, other in ((p, q), (q, p)):
            assert np.maximum(one - math.exp(2.0) * other, 0.0).sum() <= DELTA
            for at in (0.0, 0.5, 1.0):
                excess = np.maximum(one - math.exp(at) * other, 0.0).sum()
                if method == "all_candidates":
                    assert excess <= gaussian_delta(at, 1.0 / math.sqrt(units_as_float(plan.choice)))
            largest = max(largest, np.abs(np.log(one / other)).max())
    assert largest > 0.05


ESTIMATORS = {
    "errors": (LogisticRegression(classes=[-1, 1]), None),
    "huber": (HuberRegressor(target_bound=1.0, threshold=0.5), None),
    "pinball": (QuantileRegressor(target_bound=1.0, quantile=0.9), None),
    "absolute": (HuberRegressor(target_bound=1.0), "absolute_error"),
    "squared": (HuberRegressor(target_bound=0.7), "squared_error"),
    "errors by class": (LogisticRegression(classes=[-1, 1], class_weight={-1: 0.25, 1: 0.5}), None),
    "errors of a class": (LogisticRegression(class_weight={-1: 0.25}), None),
}


@pytest.mark.parametrize("weight_bound", [None, 0.3, 5.0])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_record_moves_a_score_by_at_most_its_bound(name, weight_bound):
    """Also for records, weights and predictions far out of bounds; and the bound is tight."""

    class Predicts:
        def __init__(self, factor):
            self.factor = factor

        def predict(self, X):
            products = self.factor * X[:, 0]
            return np.where(products > 0, 1, -1) if name.startswith("errors") else products

    estimator, scoring = ESTIMATORS[name]
    if weight_bound is not None:
        estimator = clone(estimator).set_params(weight_bound=weight_bound)
    own, models = (
        scoring_of(scoring, estimator, weighted=weight_bound is not None),
        [Predicts(each) for each in (-1e6, -1.0, 0.0, 1e-3, 1.0, 1e300, np.inf, np.nan)],
    )
    X = np.array([[0.3], [-0.2], [1e5], [-1e5]])
    weights = None if weight_bound is None else np.array([1.0, np.nan, np.inf, 0.9 * weight_bound])
    targets = [-1.0, 1.0] if name.startswith("errors") else [-1e9, -1.0, -0.7, 0.0, 0.3, 1.0, 1e9]

    def integers(rows, y):
        of_rows = None if weights is None else weights[rows]
        held = HeldOut(Records(X[rows], np.array(y), None, of_rows), own, estimator)
        scores = held.scores(models)
        singles = [release_without_privacy(held.score(each))[0] for each in models]
        np.testing.assert_array_equal(release_without_privacy(scores), singles)
        return scores, np.asarray(release_without_privacy(scores))

    changes = []
    for row, target in itertools.product(range(len(X)), targets):
        scores, one = integers([0, row], [targets[0], target])
        _, none = integers([0], [targets[0]])
        changes.append(one - none)
    changes = np.array(changes)
    assert changes.min() >= 0.0
    assert 0.7 * scores.add_or_remove <= changes.max() <= scores.add_or_remove
    assert scores.score_range("replace_one") == 2.0 * scores.score_range("add_or_remove")
    single = HeldOut(Records(X, np.zeros(4) + targets[0], None, weights), own, estimator).score(models[0])
    assert single.sensitivity("replace_one") == single.sensitivity("add_or_remove") == scores.add_or_remove


@pytest.mark.parametrize("loss", [-1e9, -np.inf, np.nan, 1e9, np.inf])
def test_a_score_is_never_out_of_its_range(loss):
    """Whatever a loss computes; a model that predicts another number of records is refused."""
    estimator = HuberRegressor(target_bound=1.0)
    own = replace(scoring_of(None, estimator), losses=lambda p, y: np.full(len(y), loss))
    held = HeldOut(Records(np.zeros((1, 1)), np.zeros(1)), own, estimator)
    found = release_without_privacy(held.score(SimpleNamespace(predict=lambda X: np.zeros(1))))
    assert 0.0 <= found[0] <= own.bound
    with pytest.raises(DataError, match=r"must predict shape \(1,\)"):
        held.score(SimpleNamespace(predict=lambda X: np.zeros((1, 9))))


def test_scores_that_could_overflow_are_refused():
    X, y = np.linspace(-0.5, 0.5, 40)[:, None], np.ones(40)
    ledger = Ledger(1.0, DELTA, allow_seeded=True)
    estimator = HuberRegressor(target_bound=1.0, solver="noisy_gd", solver_options={"steps": 5})
    with pytest.raises(DataError, match="too many for exact sums of scores"):
        search({"l2": [0.1, 1.0]}, 1.0, estimator, ledger=ledger).fit(X, y, counts=np.full(40, 2**40))
    assert ledger.spent == 0.0
    held = HeldOut(
        Records(X, -y, np.full(40, 2**34)),
        scoring_of("squared_error", HuberRegressor(target_bound=1.0)),
        None,
    )
    found = held.score(SimpleNamespace(predict=lambda X: np.full(len(X), 5.0)))
    assert release_without_privacy(found)[0] == 40 * 2**34


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_replay(method, refit, relation):
    """The search depends on the records through its releases only, which move within their sensitivities."""
    X, y = records(60)

    def run(data):
        found = search(method=method, refit=refit, neighbors=relation, estimator=model(n_public=60)).fit(
            *data
        )
        own = found.best_estimator_
        coef = np.concatenate([own.coef_.ravel(), own.intercept_])
        return FitResult(
            coef, found.privacy_, own.n_iter_, [{"best": found.best_index_, **found.cv_results_}]
        )

    shares = []
    for record in (0, 17, 31):
        if relation == "add_or_remove":
            neighbour = np.delete(X, record, axis=0), np.delete(y, record)
        else:
            neighbour = X.copy(), y.copy()
            neighbour[0][record], neighbour[1][record] = -X[record], -y[record]
        report = replay_check(run, (X, y), neighbour)
        assert report.ok, report
        shares.append(report.largest_share)
    assert max(shares) > 0.3


@pytest.mark.parametrize("kind", ["weights", "secret batches", "files"])
def test_replay_of_other_records_and_solvers(kind, tmp_path):
    X, y = records(60)
    weights = np.linspace(0.0, 3.0, 60)
    estimator = model(n_public=60, weight_bound=2.0, class_weight={1: 1.5})
    if kind == "secret batches":
        estimator = model(n_public=60, solver="dp_sgd", solver_options={"steps": 6, "batch_size": 20})

    def run(data):
        found = search(estimator=estimator, epsilon=2.0)
        if kind == "files":
            path = tmp_path / f"{len(data[1])}.parquet"
            pd.DataFrame(data[0], columns=list("abc")).assign(label=data[1]).to_parquet(path)
            found.fit(scan_parquet(path, label="label", chunk_rows=1024))
        else:
            found.fit(*data[:2], sample_weight=data[2] if kind == "weights" else None)
        own = found.best_estimator_
        return FitResult(np.append(own.coef_, own.intercept_), found.privacy_, own.n_iter_, [])

    report = replay_check(run, (X, y, weights), (X[:-1], y[:-1], weights[:-1]))
    assert report.ok, report
    assert report.largest_share > 0.1


def runs_that_hold_out(X, y, seed, method):
    """A run that trains on the first record alone, if that seed gives such coins."""
    try:
        run = a_run(method, X, y, epsilon=6.0, seed=seed)
    except ValueError:  # no record to train on
        return []
    return [run] if len(run._held._targets) == len(y) - 1 and X[0, 0] not in run._held._X[:, 0] else []


def audited(method):
    """Mu of a choice, or of the score of a trial, by an audit with fixed models; and the claimed mu."""
    X, y = np.array([[0.3, 0.3], [0.5, 0.5], [0.5, -0.4]]), np.ones(3, dtype=int)
    mus = {}
    observed = {True: [], False: []}
    for there in (True, False):
        n = 2 + there  # the candidates differ on the last record only
        run = next(
            each
            for seed in itertools.count(1000 * n)
            for each in runs_that_hold_out(X[:n], y[:n], seed, method)
        )
        mus[there] = math.sqrt(units_as_float(run.plan.choice))
        if method == "all_candidates":
            observed[there] = [float(chosen(run) == 1) for _ in range(600)]
            continue

        def watch(releaser, method, private, *args, there=there):
            released = method(releaser, private, *args)
            observed[there].append(float(released[0]))
            return released

        with watch_releases(watch):
            while len(observed[there]) < 600:
                run._trials([1])
    judge = "gdp_threshold" if method == "all_candidates" else "gdp"
    result = certify_observations(
        np.array(observed[False]), np.array(observed[True]), delta=DELTA, confidence=0.9999, method=judge
    )
    return result.mu, mus[True]


def doubled_rate():
    """Gumbel noise of half the scale that was charged."""
    return replace_noise(
        exponential_mechanism=lambda bits, scores, rate: exponential_mechanism(bits, scores, 2 * rate)
    )


class TestAudits:
    @pytest.mark.parametrize("method", METHODS)
    def test_an_audit_confirms_the_claim(self, method, known_models):
        found, claimed = audited(method)
        assert found <= claimed

    @pytest.mark.parametrize(
        ("method", "fault"), [("all_candidates", doubled_rate), ("random_trials", halved_noise)]
    )
    def test_an_audit_catches_less_noise(self, method, fault, known_models):
        with fault():
            found, claimed = audited(method)
        assert found > claimed
