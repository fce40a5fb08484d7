"""What a search finds, what it costs, what it refuses, and what it keeps secret."""

import gc
import logging
import math
import pickle
import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dperm
from dperm import HuberRegressor, LogisticRegression, PrivateSearch, QuantileRegressor
from dperm.accounting import Ledger, gaussian_delta
from dperm.accounting.ledger.cost import slack_as_float, slack_units
from dperm.accounting.random_trials import TruncatedNegativeBinomial
from dperm.accounting.units import budget_units, units_as_float
from dperm.errors import BudgetExceededError, ExactSizeWarning, PrivacyWarning, SeededNoiseWarning
from dperm.estimators.linear_model import PrivateLinearModel
from dperm.mechanisms import release_without_privacy
from dperm.mechanisms.hooks import watch_releases
from dperm.search import run as run_module
from dperm.search.scores import HeldOut, Records, scoring_of
from estimators.test_conventions import expected_failures
from reference.exact import RELATIONS_ONE_SLOW
from search.problems import DELTA, GRID, model, records, search

pytestmark = pytest.mark.filterwarnings(
    "ignore::dperm.errors.SeededNoiseWarning", "ignore:the budget of a fit in this search"
)
METHODS = ("all_candidates", "random_trials")


class TestWhatComesOut:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("refit", [False, True])
    def test_the_best_is_found_with_a_large_budget(self, method, refit):
        X, _ = records(4000)
        y = np.where(X[:, 0] > 0.15, 1, -1)  # not without an intercept
        candidates = [{"fit_intercept": False}, {"l2": 1e-4}, {"l2": 1.0, "fit_intercept": False}]
        found = search(candidates, epsilon=50.0, method=method, refit=refit).fit(X, y)
        assert found.best_params_ == {"l2": 1e-4}
        assert (found.best_index_, found.method_) == (1, method)
        assert found.score(X, y) > 0.9
        assert found.cv_results_["chosen"].tolist() == [False, True, False]
        assert found.cv_results_["param_fit_intercept"].tolist() == [False, None, False]
        assert not hasattr(found, "best_score_")
        np.testing.assert_array_equal(found.predict(X), found.best_estimator_.predict(X))
        np.testing.assert_array_equal(found.predict_proba(X), found.best_estimator_.predict_proba(X))

    @pytest.mark.parametrize("method", METHODS)
    def test_the_winner_carries_the_guarantee_of_the_search(self, method):
        ledger = Ledger(5.0, 1e-5, pure=2.0, allow_seeded=True, name="data")
        found = search(method=method, ledger=ledger).fit(*records())
        statement = found.best_estimator_.privacy_
        assert statement is found.privacy_
        assert (statement.epsilon, statement.delta) == (1.0, DELTA)
        assert statement.public["candidates"] == 3
        assert statement.public["method"] == method
        assert "secret" in str(statement)
        assert "'data'" in statement.ledger
        assert found.best_estimator_.ledger is ledger
        assert (found.best_estimator_.n_public, found.best_estimator_.random_state) == (None, None)
        (entry,) = ledger.history()
        assert entry.description == "PrivateSearch"

    @pytest.mark.parametrize(
        ("estimator", "scoring"),
        [
            (HuberRegressor(target_bound=1.0, row_norm=2.0), None),
            (HuberRegressor(target_bound=1.0, row_norm=2.0), "absolute_error"),
            (QuantileRegressor(target_bound=1.0, row_norm=2.0, solver="noisy_gd"), None),
            (QuantileRegressor(target_bound=1.0, row_norm=2.0), "squared_error"),
        ],
    )
    @pytest.mark.parametrize("method", METHODS)
    def test_regressors(self, estimator, scoring, method):
        X, _ = records(3000)
        y = np.clip(X @ [1.0, -0.5, 0.0] + 0.3, -1.0, 1.0)
        settings = {"scoring": scoring, "method": method, "estimator": estimator}
        found = search([{"l2": 1e-5}, {"l2": 100.0}], epsilon=20.0, **settings).fit(X, y)
        assert found.best_index_ == 0
        assert np.abs(found.predict(X) - y).mean() < 0.2

    @pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
    def test_equal_seeds_give_equal_results(self, relation):
        X, y = records()
        for method in METHODS:
            one, other = (search(method=method, neighbors=relation).fit(X, y) for _ in range(2))
            np.testing.assert_array_equal(one.best_estimator_.coef_, other.best_estimator_.coef_)

    def test_representations(self):
        X, y = records(600)
        schema = dperm.Schema([dperm.Numeric(name, -1, 1) for name in "abc"])
        frame = pd.DataFrame(X, columns=list("abc"))
        known = model(schema=schema)
        cases = [(X.astype(np.float32), model()), (sp.csr_array(X), model()), (frame, known)]
        for own, estimator in [*cases, (schema.encode(frame), known), (X.tolist(), model())]:
            found = search(epsilon=20.0, estimator=estimator).fit(own, y)
            assert found.score(own, y) > 0.8

    def test_records_that_are_not_finite_count_for_nothing(self):
        X, y = records()
        X[::7] = np.nan
        for data in (X, sp.csr_array(X)):
            assert (
                search(estimator=model(non_finite="zero"), epsilon=20.0).fit(data, y).score(X[1:7], y[1:7])
                >= 0.5
            )
        with pytest.raises(ValueError, match="NaN"):
            search().fit(X, y)


class TestScikitLearn:
    def test_parameters_and_clones(self):
        own = search().set_params(estimator__fit_intercept=False, validation_share=0.3)
        copy = clone(own)
        assert copy.get_params()["estimator__fit_intercept"] is False
        assert copy.get_params()["validation_share"] == 0.3
        assert copy.fit(*records()).classes_.tolist() == [-1, 1]
        assert own.__sklearn_tags__().estimator_type == "classifier"

    def test_in_a_pipeline_and_over_a_pipeline(self):
        X, y = records(1000)
        outside = make_pipeline(Normalizer(), search(epsilon=20.0)).fit(X, y)
        over = make_pipeline(Normalizer(), model())
        inside = search({"logisticregression__l2": [1e-4, 1.0]}, epsilon=20.0, estimator=over).fit(X, y)
        assert isinstance(inside.best_estimator_, Pipeline)
        assert inside.best_estimator_[-1].privacy_ is inside.privacy_
        assert min(outside.score(X, y), inside.score(X, y)) > 0.85
        frozen = make_pipeline(FrozenEstimator(StandardScaler().fit(X[:50])), model(row_norm=3.0))
        assert search([{}], estimator=frozen).fit(X, y).score(X, y) > 0.7

    @pytest.mark.parametrize(
        "candidates",
        [ParameterGrid(GRID), ParameterSampler(GRID, 2, random_state=0), [{"l2": 1.0}, {"l2": 0.1}], GRID],
    )
    def test_kinds_of_candidates(self, candidates):
        found = search(candidates).fit(*records())
        assert found.best_params_ in list(ParameterGrid(candidates) if candidates is GRID else candidates)

    def test_every_parameter_and_attribute_is_documented(self):
        text = PrivateSearch.__doc__.splitlines()
        documented = {name for line in text if " : " in line for name in line.split(" : ")[0].split(", ")}
        found = search().fit(*records())
        fitted = {name for name in vars(found) if name.endswith("_")}
        assert {name.strip() for name in documented} >= {*found.get_params(deep=False), *fitted}


@contextmanager
def recorded_charges():
    """The charges to the internal ledger of a search."""
    charges, append = [], run_module.Allotment._append

    def recorded(self, entry, check):
        stored = append(self, entry, check)
        charges.extend([] if stored is None or stored.kind != "charge" else [stored])
        return stored

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module.Allotment, "_append", recorded)
        yield charges


class TestCosts:
    @pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
    @pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
    @pytest.mark.parametrize("refit", [False, True])
    @pytest.mark.parametrize("method", METHODS)
    def test_one_charge_of_what_was_asked(self, method, refit, accountant, relation):
        terms = {"neighbors": relation, "allow_seeded": True, "pure": 2.0}
        ledger = Ledger(4.0, 1e-5, accountant, **terms)
        search(method=method, refit=refit, ledger=ledger).fit(*records())
        (entry,) = ledger.history()
        assert entry.statement["neighbors"] == relation
        if method == "all_candidates":
            assert entry.cost_units == budget_units(1.0, DELTA, accountant)
        else:
            assert entry.cost.pure > 0
        assert ledger.spent <= 1.6

    def test_fits_and_choice_stay_within_what_was_paid(self):
        """The internal ledger is charged for every fit: together they cost what was paid, and no more."""
        with recorded_charges() as charges:
            search(refit=True, refit_share=0.25).fit(*records())
        total = budget_units(1.0, DELTA)
        train = sum(entry.cost_units for entry in charges if entry.part)
        last = sum(entry.cost_units for entry in charges if not entry.part)
        assert [entry.part for entry in charges] == ["split/train"] * 3 + [""]
        assert 0.7499 * total < train <= 0.75 * total
        assert 0.2499 * total < last <= 0.25 * total

    def test_auto_takes_the_way_whose_fits_get_more(self):
        X, y = records()
        few = search(method="auto").fit(X, y)
        many = search({"l2": np.geomspace(1e-4, 1.0, 12).tolist()}, method="auto").fit(X, y)
        assert (few.method_, many.method_) == ("all_candidates", "random_trials")
        ledger = Ledger(2.0, 1e-5, allow_seeded=True)  # without a column for pure epsilons
        paid = search({"l2": np.geomspace(1e-4, 1.0, 12).tolist()}, method="auto", ledger=ledger).fit(X, y)
        assert paid.method_ == "all_candidates"
        for one, other in ((few, "random_trials"), (many, "all_candidates")):
            rejected = clone(one).set_params(method=other).fit(X, y)
            assert one.cv_results_["epsilon"][0] > rejected.cv_results_["epsilon"][0]

    def test_random_trials_take_an_unused_ledger_without_a_pure_column_as_a_whole(self):
        ledger = Ledger(1.0, DELTA, allow_seeded=True)
        search(method="random_trials", ledger=ledger).fit(*records())
        assert ledger.remaining == 0.0
        used = Ledger(2.0, DELTA, allow_seeded=True)
        search(ledger=used).fit(*records())
        with pytest.raises(BudgetExceededError):
            search(method="random_trials", ledger=used).fit(*records())
        assert len(used.history()) == 1

    def test_a_part_of_a_split_pays(self):
        X, y = records(1000)
        ledger = Ledger(1.0, DELTA, allow_seeded=True)
        parts = ledger.split({"analysis": 0.7, "test": 0.3})
        own = parts["analysis"].take(X, y)
        search(estimator=model(n_public=parts["analysis"].n_public(1000)), ledger=parts["analysis"]).fit(*own)
        assert ledger.charged == parts["analysis"].charged
        assert parts["test"].remaining == 1.0


REFUSED = [
    ({"method": "best"}, "method must be"),
    ({"epsilon": 0.0}, "epsilon must be"),
    ({"epsilon": np.inf}, "epsilon must be"),
    ({"validation_share": 1.0}, "validation_share must be"),
    ({"refit": True, "refit_share": 0.0}, "refit_share must be"),
    ({"refit": "yes"}, "refit must be"),
    ({"scoring": "accuracy"}, "scoring of a classifier"),
    ({"neighbors": "both"}, "neighbors must be"),
    ({"ledger": 3.0}, "ledger must be"),
    ({"candidates": []}, "at least one"),
    ({"candidates": 3}, "candidates must be"),
    ({"candidates": [3]}, "a candidate must be"),
    ({"candidates": {"l3": [1.0]}}, "Invalid parameter"),
    ({"candidates": {"epsilon": [1.0, 2.0]}}, "the search's own"),
    ({"candidates": {"l2": [1.0, -1.0]}}, "l2 must be"),
    ({"candidates": {"solver": ["noisy_gd", "nonprivate"], "solver_options": [{}]}}, "without privacy"),
    (
        {
            "candidates": {"solver": ["objective_perturbation"], "l2": [0.01]},
            "estimator": model(solver_options=None),
            "neighbors": "replace_one",
            "ledger": None,
        },
        "accounted by",
    ),
    ({"candidates": [{"solver_options": {"callback": print}}]}, "shows nothing"),
    ({"candidates": [{}], "method": "random_trials"}, "at least two"),
    ({"estimator": StandardScaler()}, "estimator must be"),
    ({"estimator": make_pipeline(StandardScaler(), model()), "candidates": [{}]}, "learns from the records"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_bad_arguments_leave_no_charge(settings, message):
    ledger = Ledger(9.0, 1e-4, pure=4.0, allow_seeded=True)
    own = {"ledger": ledger} | settings
    candidates, epsilon = own.pop("candidates", GRID), own.pop("epsilon", 1.0)
    with pytest.raises((ValueError, TypeError), match=message):
        search(candidates, epsilon, **own).fit(*records())
    assert not ledger.history()


@pytest.mark.parametrize("method", METHODS)
def test_data_that_cannot_be_used_leave_no_charge(method):
    ledger = Ledger(9.0, 1e-4, pure=4.0, allow_seeded=True)
    for place in range(0, 400, 40):  # whichever part the record is in
        X, y = records()
        for bad_X, bad_y in [
            (np.where(np.arange(400)[:, None] == place, np.nan, X), y),
            (X, np.where(np.arange(400) == place, 7, y)),
        ]:
            with pytest.raises(ValueError, match=r"NaN|label 7"):
                search(method=method, ledger=ledger).fit(bad_X, bad_y)
    with pytest.raises(ValueError, match="position"):
        search(neighbors="replace_one").fit(X, y, counts=np.ones(400, dtype=int))
    assert not ledger.history()


def test_a_search_is_refused_whole():
    ledger = Ledger(0.9, DELTA, allow_seeded=True)
    seen = []
    with pytest.raises(BudgetExceededError), watch_releases(lambda *args: seen.append(args)):
        search(ledger=ledger).fit(*records())
    assert not seen
    assert not ledger.history()


@pytest.fixture
def files(tmp_path):
    """The same records in memory and in files."""
    X, y = records(1000)
    frame = pd.DataFrame(X, columns=list("abc")).assign(label=y)
    frame.to_csv(tmp_path / "records.csv", index=False, float_format="%.17g")
    csv = dperm.data.scan_csv(tmp_path / "records.csv", label="label", block_bytes=9000)
    frame.to_parquet(tmp_path / "records.parquet")
    parquet = dperm.data.scan_parquet(tmp_path / "records.parquet", label="label", chunk_rows=170)
    return X, y, (csv, parquet)


@pytest.mark.parametrize("relation", RELATIONS_ONE_SLOW)
@pytest.mark.parametrize("method", METHODS)
def test_files_give_what_records_in_memory_give(method, relation, files):
    X, y, sources = files
    own = {"method": method, "epsilon": 5.0, "neighbors": relation, "refit": True}
    expected = search(**own).fit(X, y)
    for source in sources:
        found = search(**own).fit(source)
        assert found.best_index_ == expected.best_index_
        np.testing.assert_array_equal(found.best_estimator_.coef_, expected.best_estimator_.coef_)
        assert found.score(X, y) > 0.8


def test_records_that_cannot_be_split_are_refused(files):
    array = pytest.importorskip("dask.array")
    X, y, (csv, _) = files
    with pytest.raises(TypeError, match="scan_parquet"):
        search().fit(array.from_array(X), array.from_array(y))
    with pytest.raises(ValueError, match="no sample_weight"):
        search().fit(csv, sample_weight=np.ones(1000))
    with pytest.raises(ValueError, match="need a schema"):
        search(estimator=model(non_finite="zero")).fit(csv)
    with pytest.raises(ValueError, match="takes no files"):
        search([{}], estimator=make_pipeline(Normalizer(), model())).fit(csv)


class TestSecretBatches:
    """Candidates whose cost has a slack in delta."""

    SGD = model(solver="dp_sgd", solver_options={"steps": 20, "batch_size": 60})

    @pytest.mark.parametrize("refit", [False, True])
    def test_costs_stay_within_what_was_paid(self, refit):
        """Sums of mu^2 and of slacks in the ledger and inside, for candidates with and without slack."""
        ledger = Ledger(4.0, 1e-5, slack=2e-6, allow_seeded=True)
        grid = {"solver": ["dp_sgd", "noisy_gd"], "solver_options": [{"steps": 20}]}
        with recorded_charges() as charges:
            found = search(grid, refit=refit, ledger=ledger, method="auto").fit(*records())
        (paid,) = ledger.history()
        assert found.method_ == "all_candidates"
        assert 0 < paid.cost.slack <= slack_units(1e-7, up=True)
        assert sum(each.cost.units for each in charges) <= paid.cost.units
        assert 0 < sum(each.cost.slack for each in charges) <= paid.cost.slack
        assert charges[0].cost.slack > 0 == charges[1].cost.slack
        for each in charges[:2]:  # nearly all of it
            assert each.cost.units > (0.24 if refit else 0.48) * paid.cost.units
        total = gaussian_delta(1.0, 1.0 / math.sqrt(units_as_float(paid.cost.units)))
        assert total + slack_as_float(paid.cost.slack) <= DELTA * (1.0 + 1e-9)

    @pytest.mark.slow
    def test_a_random_number_of_rounds_costs_what_it_was_priced_at(self):
        ledger = Ledger(4.0, 1e-5, allow_seeded=True)
        candidates = [{"solver_options": {"rounds": rounds, "batch_size": 20}} for rounds in (40, 60)]
        rounds = model(solver="rrpsgd")
        with recorded_charges() as charges:
            found = search(candidates, estimator=rounds, refit=True, ledger=ledger, random_state=1)
            found.fit(*records())
        (paid,) = ledger.history()
        assert len(charges) == 3
        for column in ("units", "slack"):
            assert 0 < sum(getattr(each.cost, column) for each in charges) <= getattr(paid.cost, column)
        assert [each.epsilon for each in charges[:2]] == found.cv_results_["epsilon"].tolist()

    def test_the_best_is_found(self):
        found = search({"l2": [1e-4, 100.0]}, epsilon=4.0, estimator=self.SGD).fit(*records())
        assert found.best_index_ == 0
        assert found.privacy_.mu is None

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"method": "random_trials"}, "all_candidates"),
            ({"ledger": Ledger(4.0, 1e-5, "zcdp", allow_seeded=True)}, "counts mu"),
            ({"ledger": Ledger(4.0, 1e-5, slack=0.0, allow_seeded=True)}, "has none left"),
        ],
    )
    def test_where_there_is_no_slack(self, settings, message):
        with pytest.raises(ValueError, match=message):
            search(estimator=self.SGD, **settings).fit(*records())


class TestWeights:
    def test_weighted_records_decide(self):
        """Half of the records have weight 0 and the opposite labels."""
        X, y = records(2000)
        weights = np.repeat([1.0, 0.0], 1000)
        y[1000:] *= -1
        for estimator, own in (
            (model(weight_bound=1.0), {"l2": [1e-4, 100.0]}),
            (make_pipeline(Normalizer(), model()), {"logisticregression__l2": [1e-4, 100.0]}),
        ):
            found = search(own, epsilon=20.0, estimator=estimator).fit(X, y, sample_weight=weights)
            assert found.best_index_ == 0
            assert found.score(X[:1000], y[:1000]) > 0.85
        assert "weighted" in found.privacy_.public["scoring"]

    def test_scores_are_of_weighted_records(self):
        X, y = records(400)
        held = HeldOut(
            Records(X, y, np.full(400, 3), np.linspace(-1.0, 3.0, 400)),
            scoring_of(None, model(weight_bound=2.0, class_weight={1: 0.5}), weighted=True),
            None,
        )
        constant = SimpleNamespace(predict=lambda X: np.full(len(X), -1))
        expected = 3 * np.clip(np.linspace(-1.0, 3.0, 400), 0.0, 2.0)[y == 1].sum() * 0.5
        assert release_without_privacy(held.score(constant)) == pytest.approx(expected, rel=1e-5)

    def test_class_weights_decide_between_models(self):
        """Errors on a rare label cost more than on the other."""
        X, _ = records(3000)
        noise = np.random.default_rng(0).normal(size=3000)
        y = np.where(X[:, 0] + 0.3 * noise > 0.4, 1, -1)
        grid = {"class_weight": [None, {1: 20.0}]}
        chosen = [
            search(grid, epsilon=30.0, estimator=model(class_weight=given)).fit(X, y).best_index_
            for given in grid["class_weight"]
        ]
        assert chosen == [0, 1]


def test_seeds_are_refused_and_warned_of():
    with pytest.raises(ValueError, match="allow_seeded"):
        search(ledger=Ledger(2.0, DELTA)).fit(*records())
    with pytest.warns(SeededNoiseWarning):
        search().fit(*records())


def test_small_searches_are_warned_of():
    with pytest.warns(UserWarning, match="a single model with default settings"):
        search().fit(*records())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(estimator=model(n_public=600), epsilon=30.0, random_state=None).fit(*records(600))


def test_labels_are_read_once_with_a_warning():
    with pytest.warns(PrivacyWarning, match="classes was not given") as caught:
        found = search(estimator=model(classes=None)).fit(*records())
    assert sum("classes" in str(each.message) for each in caught) == 1
    assert found.classes_.tolist() == [-1, 1]


class TestNothingLeaks:
    """The number of trials, and all models but the winner, stay secret."""

    @staticmethod
    def with_trials(count, **settings):
        X, y = records()
        ledger = Ledger(9.0, 1e-4, pure=4.0, allow_seeded=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TruncatedNegativeBinomial, "quantile", lambda self, uniform: count)
            return search(method="random_trials", ledger=ledger, **settings).fit(X, y), ledger

    def test_the_number_of_trials(self, capfd, caplog, recwarn):
        caplog.set_level(logging.DEBUG)
        (one, ledger), (other, second) = self.with_trials(1), self.with_trials(40)
        assert one.privacy_.to_dict() == other.privacy_.to_dict()
        assert vars(one).keys() == vars(other).keys()
        assert vars(one.best_estimator_).keys() == vars(other.best_estimator_).keys()
        assert one.best_estimator_.n_iter_ == other.best_estimator_.n_iter_
        (first,), (last,) = ledger.history(), second.history()
        assert (first.statement, first.cost) == (last.statement, last.cost)
        for found in (one, other):
            found.set_params(ledger=None)
            found.best_estimator_.ledger = None
        for name in ("best_index_", "best_params_", "cv_results_"):  # which one it is may differ
            delattr(one, name), delattr(other, name)
        for found in (one, other):
            found.best_estimator_.l2, found.best_estimator_.coef_, found.best_estimator_.intercept_ = (
                0.0,
                0,
                0,
            )
        assert pickle.dumps(one) == pickle.dumps(other)
        assert capfd.readouterr() == ("", "")
        assert not caplog.records
        known = [each.category for each in recwarn if issubclass(each.category, PrivacyWarning)]
        assert known == [ExactSizeWarning] * 2  # one for each search

    @pytest.mark.parametrize("method", METHODS)
    def test_no_other_model_is_reachable(self, method):
        found = search(method=method).fit(*records())
        known, waiting, fitted = set(), [found], []
        while waiting:
            one = waiting.pop()
            if id(one) in known or isinstance(one, type) or type(one).__name__ in ("module", "function"):
                continue
            known.add(id(one))
            if isinstance(one, PrivateLinearModel) and hasattr(one, "coef_"):
                fitted.append(one)
            waiting += gc.get_referents(one)
        assert fitted == [found.best_estimator_]


def test_fits_to_shared_records_are_those_of_each_model_alone():
    from dperm.search.candidates import SharedRecords

    X, y = records()
    settings = [
        {"l2": 1e-3},
        {"l2": 0.1},
        {"solver": "whitened_gd", "solver_options": {}, "learn_scales": False},
        {"fit_intercept": False},
    ]
    alone = [
        model(random_state=seed, **{"learn_scales": False, **own}).fit(X, y)
        for seed, own in enumerate(settings)
    ]
    together = [model(random_state=seed, **own) for seed, own in enumerate(settings)]
    SharedRecords(X, y).fit_all(together, settings)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.coef_, other.coef_)
        np.testing.assert_array_equal(one.intercept_, other.intercept_)
        assert one.privacy_.to_dict() == other.privacy_.to_dict()
        assert one.classes_.tolist() == other.classes_.tolist()
        assert one.n_features_in_ == other.n_features_in_
    with pytest.raises(ValueError, match="epsilon must be"):
        SharedRecords(X, y).fit_all([model(epsilon=-1.0)], [{}])


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning", "ignore::dperm.errors.CopyWarning")
@parametrize_with_checks(
    [
        PrivateSearch(LogisticRegression(n_threads=1), {"l2": [1e-3, 0.1]}, 1.0, DELTA),
        PrivateSearch(HuberRegressor(target_bound=100.0), {"l2": [1e-3, 0.1]}, 1.0, DELTA, refit=True),
    ],
    expected_failed_checks=lambda search: {
        **expected_failures(search.estimator),
        "check_classifier_data_not_an_array": "a frame is split otherwise than an array",
    },
)
def test_sklearn_conventions(estimator, check):
    check(estimator)
