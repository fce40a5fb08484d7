"""Attacks on the joint vector: no record changes it by more than the stated sensitivity."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dperm.accounting.neighbours import Neighbours
from dperm.mechanisms import release_without_privacy
from dperm.mechanisms.hooks import watch_releases
from dperm.metrics import evaluate
from dperm.metrics.judging import Judge, sum_over
from dperm.metrics.parts import JointSum
from dperm.metrics.plan import CLASSIFICATION, REGRESSION, Settings, plan_for

RELATIONS = list(Neighbours)
ODD = [math.nan, math.inf, -math.inf, 1e300, -1e300]


class Classifier:
    """Scores are the first column; a row with NaN counts as empty."""

    non_finite = "zero"

    def __init__(self, k=2):
        self.classes_ = np.arange(k)

    def predict_proba(self, X):
        scores = X[:, :1].toarray() if scipy.sparse.issparse(X) else X[:, :1]
        weights = np.exp(np.clip(scores * np.arange(len(self.classes_)), -700, 700))
        return weights / weights.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Regressor:
    """Predicts its first column as it is, finite or not."""

    target_bound = 3.0
    non_finite = "zero"

    def predict(self, X):
        return X[:, [0]].toarray()[:, 0] if scipy.sparse.issparse(X) else X[:, 0]


def joint_sum(model, names, relation):
    settings = Settings(None, 16, exact=False, size_known=relation is Neighbours.REPLACE_ONE)
    plan = plan_for(Judge(model), names, settings)
    return JointSum(Judge(model), tuple(plan.parts.values()))


def contribution(joint, x, y):
    """Contribution of one record, in units of the sensitivity."""
    total, _ = sum_over(joint, np.array([[x]], dtype=float), np.array([y]))
    return total * joint.grid


def check_all_pairs(joint, relation, contributions):
    bound = joint.sensitivity(relation)
    assert max(np.linalg.norm(each) for each in contributions) <= joint.sensitivity(Neighbours.ADD_OR_REMOVE)
    if relation is Neighbours.REPLACE_ONE:
        pairs = itertools.combinations(contributions, 2)
        assert max(np.linalg.norm(one - other) for one, other in pairs) <= bound


CASES = [
    *[("two classes", [name]) for name in CLASSIFICATION],
    ("two classes", list(CLASSIFICATION)),
    ("three classes", ["confusion_matrix", "log_loss", "brier"]),
    ("three classes", ["roc_auc", "average_precision"]),
    *[("regression", [name]) for name in REGRESSION],
    ("regression", list(REGRESSION)),
]
MODELS = {"two classes": Classifier(2), "three classes": Classifier(3), "regression": Regressor()}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("kind", "names"), CASES, ids=lambda case: case if isinstance(case, str) else "+".join(case)
)
def test_worst_records(kind, names, relation):
    model = MODELS[kind]
    joint = joint_sum(model, names, relation)
    scores = [0.0, -3.0, 3.0, 1.5, -40.0, 40.0, *ODD]
    targets = [-3.0, 3.0, 0.0, 1.0, -1e300, math.nan, math.inf] if kind == "regression" else model.classes_
    found = [contribution(joint, x, y) for x, y in itertools.product(scores, targets)]
    check_all_pairs(joint, relation, found)
    # The sensitivity is not far from the largest contribution, either.
    assert max(np.linalg.norm(each) for each in found) > 0.6 * joint.sensitivity(Neighbours.ADD_OR_REMOVE)


@pytest.mark.parametrize("relation", RELATIONS)
@given(records=st.lists(st.tuples(st.floats(), st.floats()), min_size=2, max_size=6))
def test_any_records_of_a_regression(relation, records):
    joint = joint_sum(Regressor(), list(REGRESSION), relation)
    check_all_pairs(joint, relation, [contribution(joint, *each) for each in records])


def exact_sums(*args, **kwargs):
    """The exact sums that `evaluate` releases, in units of their sensitivity."""
    seen = []

    def watcher(releaser, method, private, *rest):
        sensitivity = private.sensitivity(releaser.neighbors)
        seen.append(np.asarray(release_without_privacy(private)) / sensitivity)
        return method(releaser, private, *rest)

    with watch_releases(watcher):
        evaluate(*args, 1.0, 1e-6, random_state=0, **kwargs)
    assert len(seen) == 1
    return seen[0]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_matrix], ids=["dense", "sparse"])
def test_neighbouring_data_with_counts_and_rows_of_nan(kind, make):
    rng = np.random.default_rng(1)
    model = MODELS[kind]
    X = rng.normal(size=(40, 2))
    X[3, 1], X[5, 0] = math.nan, math.inf
    y = rng.normal(size=40) if kind == "regression" else rng.choice(model.classes_, 40)
    counts = rng.integers(0, 4, 40)
    counts[[3, 5]] = 2
    whole = exact_sums(model, make(X), y, counts=counts)
    moved = []
    for row in np.flatnonzero(counts):
        fewer = counts.copy()
        fewer[row] -= 1
        moved.append(np.linalg.norm(whole - exact_sums(model, make(X), y, counts=fewer)))
    assert 0.0 < max(moved) <= 1.0
    moved = []
    for row in range(8, 20):
        replaced = X.copy()
        replaced[row] = X[3]
        one, other = (exact_sums(model, make(each), y, neighbors="replace_one") for each in (X, replaced))
        moved.append(np.linalg.norm(one - other))
    assert 0.0 < max(moved) <= 1.0


def test_a_row_of_count_zero_is_not_seen():
    X, y = np.array([[1.0], [-2.0], [0.5]]), np.array([1, 0, 17])
    whole = exact_sums(Classifier(), X, y, counts=[2, 1, 0])
    assert np.array_equal(whole, exact_sums(Classifier(), X[:2], y[:2], counts=[2, 1]))


def test_a_record_that_cannot_be_scored_counts_as_even_odds():
    X, y = np.array([[math.nan], [4.0]]), np.array([1, 1])
    found = evaluate(
        Classifier(), X, y, math.inf, 1e-6, metrics=["confusion_matrix", "log_loss", "roc_curve"]
    )
    assert np.array_equal(found["confusion_matrix"].value, [[0, 0], [1, 1]])
    assert evaluate(Regressor(), X, X[:, 0], 8.0, 1e-2, metrics="mae", random_state=0)["mae"].value >= 0.0
