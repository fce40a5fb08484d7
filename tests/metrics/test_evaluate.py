"""One charge before the noise, correct statements, tables and plots."""

import json
import math
import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

import dperm
from dperm import PrivacyStatement
from dperm.accounting import Ledger, gaussian_sigma
from dperm.accounting.neighbours import Neighbours
from dperm.audit import epsilon_lower_bound
from dperm.errors import BudgetExceededError, ExactScoreWarning
from dperm.estimators import dask_input
from dperm.mechanisms.hooks import replace_noise, watch_releases
from dperm.metrics import evaluate
from reference.replaced_noise import scaled_noise

N = 2000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
T = X[:, 0] + RNG.normal(size=N)
MODEL = LogisticRegression().fit(X, Y)
REGRESSOR = LinearRegression().fit(X, T)
MARGINS = LinearSVC().fit(X, Y)


def no_noise():
    return replace_noise(gaussian=lambda bits, sigma, exponent, shape: np.zeros(shape, dtype=np.int64))


# -- what is released -----------------------------------------------------------------------------------

SCORES = 0.75**2 + 0.5**2 + 3 * 0.375**2  # the squared weights of the levels of bins
LOSS = 1 + 1 / 4 + 1 / 16  # the loss, its square, whether it is clipped
SENSITIVITIES = [
    (MODEL, ["accuracy"], 1.0, 1.0),
    (MODEL, ["f1", "mcc", "accuracy"], 1.0, math.sqrt(2)),
    (MODEL, ["roc_auc", "brier"], math.sqrt(SCORES + LOSS), math.sqrt(2 * SCORES + LOSS)),
    (MODEL, ["accuracy", "roc_auc"], math.sqrt(1 + SCORES), math.sqrt(1 + 2 * SCORES)),
    (MODEL, ["log_loss"], math.sqrt(1 + LOSS), math.sqrt(LOSS)),
    (REGRESSOR, ["mae"], math.sqrt(1 + LOSS), math.sqrt(LOSS)),
    (REGRESSOR, ["r2"], math.sqrt(4 + 6 / 16), math.sqrt(5 + 12 / 16)),
]


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("model", "names", "added", "replaced"), SENSITIVITIES)
def test_noise_is_calibrated_to_the_joint_sensitivity(model, names, added, replaced, relation):
    seen = []

    def watcher(releaser, method, private, multiplier):
        seen.append((private.sensitivity(relation), multiplier * private.sensitivity(relation)))
        return method(releaser, private, multiplier)

    ledger = Ledger(1.0, 1e-6, neighbors=str(relation), allow_seeded=True)
    with watch_releases(watcher):
        y = T if model is REGRESSOR else Y
        found = evaluate(model, X, y, 0.5, 1e-7, metrics=names, ledger=ledger, loss_bound=9.0, random_state=0)
    [(sensitivity, sigma)] = seen
    assert sensitivity == pytest.approx(added if relation == "add_or_remove" else replaced, rel=1e-5)
    assert sigma == pytest.approx(gaussian_sigma(0.5, 1e-7) * sensitivity, rel=1e-6)
    [entry] = ledger.history()
    assert (entry.description, entry.epsilon, entry.delta) == ("evaluate", 0.5, 1e-7)
    assert (found.privacy.sensitivity, found.privacy.noise_scale) == (sensitivity, sigma)
    assert found.privacy.neighbors == relation
    assert ("n" in found.privacy.public) == (relation == "replace_one")


def test_the_charge_comes_before_the_noise():
    ledger = Ledger(1.0, 1e-6, allow_seeded=True)

    def draw(bits, sigma, exponent, shape):
        assert len(ledger.history()) == 1
        raise KeyboardInterrupt

    with replace_noise(gaussian=draw), pytest.raises(KeyboardInterrupt):
        evaluate(MODEL, X, Y, 1.0, 1e-6, ledger=ledger, random_state=0)
    assert len(ledger.history()) == 1


def test_the_test_part_of_a_split_costs_nothing_beyond_the_training():
    ledger = Ledger(1.0, 1e-6)
    parts = ledger.split({"train": 0.7, "test": 0.3})
    rows, labels = parts["train"].take(X, Y)
    model = dperm.LogisticRegression(
        0.8, 1e-7, classes=[0, 1], row_norm=3.0, ledger=parts["train"], n_public=1400
    )
    model.fit(rows, labels)
    spent = ledger.spent
    found = evaluate(model, *parts["test"].take(X, Y), 0.8, 1e-7, ledger=parts["test"])
    assert ledger.spent == spent
    assert ledger.history()[-1].part == "split/test"
    assert "charged to the ledger" in found.privacy.ledger
    with pytest.raises(BudgetExceededError):
        evaluate(model, *parts["test"].take(X, Y), 0.8, 1e-6, ledger=parts["test"])


def test_exact_evaluations_are_refused_by_a_finite_ledger():
    ledger = Ledger(3.0, 1e-6)
    with pytest.raises(BudgetExceededError):
        evaluate(MODEL, X, Y, math.inf, 1e-6, ledger=ledger)
    assert ledger.history() == []
    dperm.config(require_ledger=True)
    try:
        with pytest.raises(ValueError, match="ledger is required"):
            evaluate(MODEL, X, Y, math.inf, 1e-6)
    finally:
        dperm.config(require_ledger=False)


def test_an_exact_evaluation_needs_no_delta():
    found, other = (evaluate(MODEL, X, Y, math.inf, delta) for delta in (0.0, 1e-6))
    assert found.to_dict() == other.to_dict()
    assert not found.privacy.private


BAD = [
    ({"epsilon": 0.0}, ValueError, "epsilon"),
    ({"epsilon": math.nan}, ValueError, "epsilon"),
    ({"delta": 0.0}, ValueError, "delta"),
    ({"delta": 1.0}, ValueError, "delta"),
    ({"metrics": "accurracy"}, ValueError, "metrics of a classifier"),
    ({"metrics": []}, ValueError, "metrics of a classifier"),
    ({"metrics": ["mae"]}, ValueError, "metrics of a classifier"),
    ({"bins": 1}, ValueError, "bins"),
    ({"bins": 2.5}, ValueError, "bins"),
    ({"loss_bound": 0.0}, ValueError, "loss_bound"),
    ({"loss_bound": {"f1": 1.0}}, ValueError, "loss_bound"),
    ({"loss_bound": math.inf}, ValueError, "loss_bound"),
    ({"neighbors": "both"}, ValueError, "neighbors"),
    ({"neighbors": "replace_one"}, ValueError, "add_or_remove"),
    ({"random_state": "today"}, (ValueError, TypeError), "random_state|seed"),
    ({"random_state": 1}, ValueError, "seed"),
    ({"counts": [1]}, ValueError, "counts"),
    ({"counts": -np.ones(N)}, ValueError, "counts"),
    ({"model": MARGINS, "metrics": "brier"}, ValueError, "predict_proba"),
    ({"model": REGRESSOR, "metrics": "accuracy"}, ValueError, "metrics of a regressor"),
    ({"model": REGRESSOR, "metrics": "r2"}, ValueError, "loss_bound must be given"),
    ({"model": REGRESSOR, "metrics": ["mae", "mse"], "loss_bound": 3.0}, ValueError, "different units"),
    ({"model": LogisticRegression()}, NotFittedError, "not fitted"),
    ({"model": "a model"}, TypeError, "model"),
    ({"X": X[:, :2]}, ValueError, "features"),
    ({"epsilon": 1e-60, "delta": 1e-40}, ValueError, "unit"),
]


@pytest.mark.parametrize(("changed", "error", "message"), BAD)
def test_bad_arguments_leave_no_charge(changed, error, message):
    ledger = Ledger(1.0, 1e-6)
    given = {"model": MODEL, "X": X, "y": Y, "epsilon": 0.5, "delta": 1e-6} | changed
    with pytest.raises(error, match=message):
        evaluate(**given, ledger=ledger)
    assert ledger.history() == []


def test_a_ledger_that_is_none():
    with pytest.raises(TypeError, match="ledger"):
        evaluate(MODEL, X, Y, 1.0, 1e-6, ledger=1.0)


# -- audits -----------------------------------------------------------------------------------------------


class Sure:
    """Always predicts 0."""

    classes_ = np.array([0, 1])

    def predict(self, rows):
        return np.zeros(len(rows), dtype=int)

    def predict_proba(self, rows):
        return np.column_stack([np.ones(len(rows)), np.zeros(len(rows))])


def audited(factor):
    """A lower bound on epsilon from evaluations of neighbours, with the noise scaled by `factor`."""
    rows, labels = np.zeros((3, 1)), np.array([0, 1, 1])  # with no loss, and with the largest

    def observe(counts, seed):
        settings = {"metrics": ["confusion_matrix", "log_loss"], "random_state": seed, "counts": counts}
        with scaled_noise(factor):
            found = evaluate(Sure(), rows, labels, 4.0, 1e-5, **settings)
        return np.array(
            [found["confusion_matrix"].value[1, 0], found["log_loss"].value * found.n_records]  # sums
        )

    # Both are larger with the record. For any weights, a true claim is not contradicted.
    settings = {"statistic": lambda seen: seen @ [1.0, 0.2], "trainings": 1000, "claim": 4.0}
    return epsilon_lower_bound(
        observe, ([9, 9, 0], [9, 9, 1]), delta=1e-5, confidence=1 - 1e-6, n_jobs=1, random_state=0, **settings
    )


def test_an_audit_passes_and_finds_halved_noise():
    honest, halved = audited(1.0), audited(1 / 2)
    assert not honest.violates(), honest
    assert halved.violates(), halved


# -- what comes out ---------------------------------------------------------------------------------------


def test_the_public_size_is_used():
    with no_noise():
        found = evaluate(MODEL, X, Y, 1.0, 1e-6, neighbors="replace_one", random_state=0)
    assert found.n_records == N
    assert found["confusion_matrix"].value.sum() == pytest.approx(N)
    assert str(found).startswith(f"Evaluation on {N:,} records")


def test_numbers_without_noise_are_those_of_an_exact_evaluation():
    names = ["confusion_matrix", "f1", "roc_auc", "average_precision", "brier", "log_loss"]
    with no_noise():
        found = evaluate(MODEL, X, Y, 1.0, 1e-6, metrics=names, loss_bound=30.0, random_state=0)
    exact = evaluate(MODEL, X, Y, math.inf, 1e-6, metrics=names, loss_bound=30.0)
    for name in names:  # scores are in wider bins where there may be noise
        error = {"abs": 0.01} if name in ("roc_auc", "average_precision") else {"rel": 1e-4}
        assert np.asarray(found[name].value) == pytest.approx(np.asarray(exact[name].value), **error)


@pytest.mark.parametrize("epsilon", [math.inf, 1.0, 0.001])
@pytest.mark.parametrize("model", [MODEL, MARGINS, REGRESSOR], ids=["probabilities", "margins", "regressor"])
def test_tables_and_json(model, epsilon):
    y = T if model is REGRESSOR else Y
    bounds = {"mae": 5.0, "mse": 25.0} if model is REGRESSOR else None
    found = evaluate(model, X, y, epsilon, 1e-6, loss_bound=bounds, random_state=0)
    as_json = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert set(as_json) == {"metrics", "privacy"}
    assert list(as_json["metrics"]) == list(found)
    assert all(set(each) == {"value", "low", "high"} for each in as_json["metrics"].values())
    assert PrivacyStatement.from_dict(as_json["privacy"]).epsilon == epsilon
    text, card = str(found), found._repr_html_()
    assert repr(found) == text
    for name, *_ in found.rows():
        assert name in text
        assert name in card
    assert ("comparable to the noise" in text) == (epsilon == 0.001)
    if epsilon == 0.001 and model is not REGRESSOR:
        assert as_json["metrics"]["roc_auc"]["low"] is None


def test_it_says_how_much_was_clipped_and_at_what():
    bounds = {"mae": 1.0, "mse": 4.0, "target": 1.5}
    error, target = np.abs(T - REGRESSOR.predict(X)), np.abs(T)
    outside = {"mae": error > 1.0, "r2": (error > 2.0) | (target > 1.5)}
    with no_noise():
        found = evaluate(REGRESSOR, X, T, 1.0, 1e-6, metrics=["mae", "r2"], loss_bound=bounds, random_state=0)
    for name, where in (("mae", "clipped at 1:"), ("r2", "clipped at 4, targets at 1.5:")):
        assert f"{where} {100 * outside[name].mean():.2g} % of records" in found[name].note
        assert found[name].note in str(found)
    assert evaluate(REGRESSOR, X, T, math.inf, 0.0, metrics="mae")["mae"].note == ""


def test_counts_that_the_noise_cancels_have_no_interval():
    never = DummyClassifier(strategy="constant", constant=0).fit(X, Y)
    cancels = replace_noise(
        gaussian=lambda bits, sigma, exponent, shape: np.array([[0, 9], [0, -9]]).reshape(shape)
    )
    with cancels, warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate(never, X, Y, 1.0, 1e-6, metrics="precision")["precision"]
    assert np.isnan([found.value, found.low, found.high]).all()


def test_pictures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    everything = evaluate(MODEL, X, Y, 1.0, 1e-6, random_state=0).plot()
    titles = [ax.get_title() for ax in everything.axes_]
    assert titles == ["ROC", "Precision and recall", "Calibration", "Confusion matrix"]
    roc = everything.displays_[0]
    assert roc.ax_ is everything.axes_[0]
    assert list(roc.line_.get_ydata()) == list(roc.estimate.value["tpr"])
    numbers = evaluate(MODEL, X, Y, 1.0, 1e-6, metrics=["accuracy", "log_loss"], random_state=0).plot()
    assert [[text.get_text() for text in ax.get_yticklabels()] for ax in numbers.axes_] == [
        ["accuracy"],
        ["log_loss"],
    ]
    nothing = evaluate(MODEL, X, Y, 0.001, 1e-6, metrics="roc_curve", random_state=0).plot()
    assert "comparable to the noise" in nothing.axes_[0].texts[0].get_text()
    pyplot.close("all")


# -- scores that are not private --------------------------------------------------------------------------


@pytest.fixture
def fresh_process():
    """Forget that the warning was given."""
    dask_input._warn_once_of_exact_scores.cache_clear()
    yield
    dask_input._warn_once_of_exact_scores.cache_clear()


@pytest.mark.usefixtures("fresh_process")
def test_a_score_warns_once():
    settings = {"classes": [0, 1], "row_norm": 3.0, "random_state": 0}
    exact = dperm.LogisticRegression(math.inf, 1e-6, **settings).fit(X, Y)
    model = dperm.LogisticRegression(1.0, 1e-6, **settings).fit(X, Y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExactScoreWarning)
        exact.score(X, Y)
        assert not caught
        model.score(X, Y)
        model.score(X, Y)
    [warning] = caught
    assert issubclass(warning.category, ExactScoreWarning)
    assert warning.filename == __file__
