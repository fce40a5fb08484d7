"""``additive=True``: what is learned first, for which charge, from which tables, and what is refused."""

import math
from dataclasses import replace

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dperm
from dperm import Categorical, Interaction, Numeric, Schema
from dperm.accounting import Ledger, gdp_mu
from dperm.algorithms.fit import FitResult
from dperm.audit import replay_check
from dperm.data import aggregate
from dperm.errors import BudgetExceededError, DataError
from dperm.mechanisms.hooks import watch_releases
from dperm.reports import ShapesDisplay
from dperm.schema_learning.functions import Cells
from dperm.search import PrivateSearch
from reference.schema_tables import arrow, in_csv, in_dask, in_parquet

pytestmark = pytest.mark.filterwarnings(
    "ignore::dperm.errors.SeededNoiseWarning", "ignore::dperm.errors.ExactSizeWarning"
)

SCHEMA = Schema(
    [
        Numeric("age", 17, 90),
        Numeric("gain", 0, 1e5, "log1p", missing="column"),
        Numeric("since", "2020-01-01", "2026-01-01", unit="day"),
        Categorical("job", ["clerk", "cook"]),
    ],
    label="label",
)


def people(n=6000, seed=0):
    """A label that depends on the distance of the age from 50, and on a gain that most do not have."""
    rng = np.random.default_rng(seed)
    age, gain = rng.integers(17, 91, n), np.where(rng.random(n) < 0.7, 0.0, rng.gamma(2.0, 3000.0, n))
    score = np.abs(age - 50) + rng.normal(0.0, 6.0, n) - 10.0 * (gain > 3000.0)
    return pd.DataFrame(
        {
            "age": age.astype(float),
            "gain": np.where(rng.random(n) < 0.1, np.nan, gain),
            "since": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
            "job": rng.choice(["clerk", "cook"], n),
            "label": np.where(score < 18.0, 1, -1),
        }
    )


def fitted(table, epsilon=1.0, **settings):
    settings = {"schema": SCHEMA, "classes": [-1, 1], "random_state": 0, "additive": True} | settings
    model = dperm.LogisticRegression(epsilon, 1e-6, **settings)
    if isinstance(table, pd.DataFrame):
        return model.fit(table.drop(columns="label"), table["label"])
    return model.fit(table)


class TestWhatItGives:
    def test_curves_that_a_line_misses(self):
        train, test = people(), people(seed=1)
        model = fitted(train)
        assert (
            model.score(test, test["label"]) > fitted(train, additive=False).score(test, test["label"]) + 0.1
        )
        age, gain, since, _ = model.schema_.columns
        assert age.functions == gain.functions == since.functions == model.privacy_.public["functions"]
        assert (age.atoms, gain.atoms, since.atoms) == ((), (0.0,), ())
        # Equally many records in bins of ages, besides those of equal width.
        assert 17 < min(age.edges) < max(age.edges) < 90
        assert model.schema is SCHEMA
        assert clone(model).additive
        assert "counts of the numbers of 3 columns in public cells (5 % of" in model.privacy_.mechanism

    def test_a_model_file_predicts_the_same(self, tmp_path):
        model, table = fitted(people()), people(500, seed=2)
        model.save(tmp_path / "model.json")
        loaded = dperm.load(tmp_path / "model.json")
        np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))

    @pytest.mark.parametrize(
        "estimator",
        [dperm.HuberRegressor, dperm.QuantileRegressor, dperm.LinearSVC],
        ids=lambda e: e.__name__,
    )
    def test_other_losses(self, estimator):
        table = people()
        own = {"classes": [-1, 1]} if estimator is dperm.LinearSVC else {"target_bound": 1.0}
        scores = [
            estimator(2.0, 1e-6, schema=SCHEMA, additive=additive, random_state=0, **own)
            .fit(table.drop(columns="label"), table["label"])
            .score(table, table["label"])
            for additive in (False, True)
        ]
        assert scores[1] > scores[0] + 0.05

    def test_without_privacy_and_with_little_of_it(self):
        model = fitted(people(), math.inf)
        assert not model.privacy_.private
        assert model.score(people(seed=1), people(seed=1)["label"]) > 0.8
        np.testing.assert_array_equal(
            fitted(people(), 1e-3).coef_, fitted(people(), 1e-3, additive=False).coef_
        )
        with_jobs = {"schema": Schema([SCHEMA.columns[3]], ignored=["age", "gain", "since"], label="label")}
        assert fitted(people(), **with_jobs).coef_.shape == (1, 2)


TABLES = {
    "mapping": lambda frame, _: {name: frame[name].to_numpy() for name in frame if name != "label"},
    "arrow": lambda frame, _: arrow(frame),
    "dask": lambda frame, _: in_dask(frame),
    "parquet": lambda frame, folder: in_parquet(frame, folder, schema=SCHEMA),
    "csv": lambda frame, folder: in_csv(frame, folder, schema=SCHEMA),
}


class TestTables:
    @pytest.mark.parametrize("name", TABLES)
    def test_equal_seeds_give_equal_weights(self, name, tmp_path, request):
        if name == "dask":
            request.getfixturevalue("client")
        frame = people(4000)
        table = TABLES[name](frame, tmp_path)
        model = dperm.LogisticRegression(
            1.0, 1e-6, schema=SCHEMA, additive=True, classes=[-1, 1], random_state=0, n_public=4000
        )
        y = (
            None
            if name in ("parquet", "csv")
            else in_dask(frame)["label"]
            if name == "dask"
            else frame["label"]
        )
        model.fit(table, y)
        assert model.schema_ == fitted(frame, n_public=4000).schema_
        if y is None:  # files are scanned with the schema that the estimator was given
            assert model.score(table) == pytest.approx(model.score(frame, frame["label"]))
        np.testing.assert_allclose(model.coef_, fitted(frame, n_public=4000).coef_, atol=1e-6)

    def test_an_array_in_the_order_of_the_schema(self):
        frame = people()[["age", "gain"]]
        schema = Schema(SCHEMA.columns[:2])
        own = {"schema": schema, "classes": [-1, 1], "random_state": 0, "additive": True}
        models = [
            dperm.LogisticRegression(1.0, 1e-6, **own).fit(X, people()["label"])
            for X in (frame, frame.to_numpy())
        ]
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)

    def test_rows_that_stand_for_several_records(self):
        frame = people(3000)[["age", "label"]]
        rows, labels, counts = aggregate(frame[["age"]].to_numpy(), frame["label"].to_numpy())
        own = {"schema": Schema(SCHEMA.columns[:1]), "classes": [-1, 1], "random_state": 0, "additive": True}
        model = dperm.LogisticRegression(1.0, 1e-6, n_public=3000, **own)
        whole = clone(model).fit(frame[["age"]], frame["label"])
        merged = clone(model).fit(rows, labels, counts=counts)
        assert merged.schema_ == whole.schema_


def result(table, relation):
    model = fitted(table, 4.0, neighbors=relation, n_public=2000)
    return FitResult(model.coef_, model.privacy_, model.n_iter_)


RECORDS = {
    "ordinary": (33.0, 900.0, "2022-01-01", "cook", 1),
    "at a bound": (90.0, 0.0, "2026-01-01", "cook", -1),
    "beyond them": (-1e300, np.inf, "1900-01-01", "clerk", 1),
    "missing": (17.0, np.nan, "2020-01-01", "clerk", -1),
}


class TestCharge:
    def test_one_charge_and_every_release_within_it(self):
        ledger, squares = Ledger(1.0, 1e-6, allow_seeded=True), []

        def watch(releaser, method, private, *arguments):
            assert len(ledger.history()) == 1
            released = method(releaser, private, *arguments)
            squares.append((releaser.releases[-1].sensitivity / releaser.releases[-1].scale) ** 2)
            return released

        with watch_releases(watch):
            model = fitted(people(), ledger=ledger)
        assert ledger.charged.units == ledger.caps.units
        assert squares[0] == pytest.approx(0.05 * gdp_mu(1.0, 1e-6) ** 2)
        assert sum(squares) == pytest.approx(gdp_mu(1.0, 1e-6) ** 2)
        assert (model.privacy_.epsilon, model.privacy_.steps) == (1.0, len(squares))

    @pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
    def test_a_record_moves_no_release_by_more_than_its_sensitivity(self, relation):
        largest = 0.0
        for i, name in enumerate(RECORDS):
            others = [name], [list(RECORDS)[i - 1]] if relation == "replace_one" else []
            tables = []
            for records in others:
                more = pd.DataFrame([RECORDS[each] for each in records], columns=list(people(1)))
                more["since"] = pd.to_datetime(more["since"])
                tables.append(pd.concat([people(2000), more.astype(people(1).dtypes)], ignore_index=True))
            report = replay_check(lambda table: result(table, relation), *tables)
            assert report.ok, report
            largest = max(largest, report.largest_share)
        assert largest > 0.99


class TestSearch:
    """Candidates with curves, which each fit learns from a part of its own budget."""

    def search(self, table, epsilon=2.0, method="all_candidates", **terms):
        given = Schema([replace(SCHEMA.columns[0], functions=4), *SCHEMA.columns[1:]], label="label")
        candidates = [{"additive": False}, {"additive": True}, {"schema": given}]
        model = dperm.LogisticRegression(schema=SCHEMA, classes=[-1, 1], n_public=2000)
        search = PrivateSearch(model, candidates, epsilon, 1e-6, method=method, random_state=0, **terms)
        return search.fit(table.drop(columns="label"), table["label"])

    @pytest.mark.parametrize("method", ["all_candidates", "random_trials"])
    def test_curves_win_within_one_charge(self, method):
        ledger = Ledger(3.0, 1e-6, allow_seeded=True)
        found = self.search(people(), 3.0, method, ledger=ledger, refit=True)
        assert found.best_index_ > 0
        assert found.score(people(seed=1), people(seed=1)["label"]) > 0.8
        assert ledger.spent == 3.0
        assert len(ledger.history()) == 1

    def test_what_the_schema_of_a_later_candidate_refuses_costs_nothing(self):
        ledger = Ledger(2.0, 1e-6, allow_seeded=True)
        whole = [replace(SCHEMA.columns[0], missing="zero"), *SCHEMA.columns[1:]]
        candidates = [{"schema": Schema(whole, label="label")}, {"schema": SCHEMA}]
        model = dperm.LogisticRegression(classes=[-1, 1], n_public=500)
        for row in range(8):  # some of them are held out for the scores
            table = people(500).astype({"age": float})
            table.loc[row, "age"] = np.nan
            search = PrivateSearch(model, candidates, 2.0, 1e-6, ledger=ledger, random_state=0)
            with pytest.raises(DataError, match="age"):
                search.fit(table.drop(columns="label"), table["label"])
        assert ledger.spent == 0.0

    @pytest.mark.filterwarnings("ignore:the budget of a fit in this search")
    def test_every_release_is_within_its_sensitivity(self):
        def run(table):
            found = self.search(table, 4.0)
            return FitResult(found.best_estimator_.coef_, found.privacy_, 1)

        table, shares = people(2000), []
        for row in range(3):
            report = replay_check(run, table, table.drop(index=row))
            assert report.ok, report
            shares.append(report.largest_share)
        assert max(shares) > 0.3


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "error", "match"),
        [
            ({"schema": None}, ValueError, "needs the public bounds"),
            ({"solver": "dp_sgd"}, ValueError, "whose cost is one of mu"),
            ({"solver_options": {"steps": 0}}, ValueError, "steps"),
            ({"classes": [0, 1]}, ValueError, "class"),
            ({"epsilon": 9.0}, BudgetExceededError, "9"),
            ({"additive": "yes"}, TypeError, "additive must be True or False"),
        ],
    )
    def test_before_the_charge(self, settings, error, match):
        ledger = Ledger(1.5, 1e-6, allow_seeded=True)
        with pytest.raises(error, match=match):
            fitted(people(), ledger=ledger, **settings)
        assert ledger.charged.units == 0

    def test_encoded_records_and_pure_guarantees(self):
        table = people().drop(columns="label")
        model = dperm.LogisticRegression(1.0, 1e-6, schema=SCHEMA, additive=True, classes=[-1, 1])
        with pytest.raises(DataError, match="encoded already"):
            model.fit(SCHEMA.encode(table), people()["label"])
        with pytest.raises(ValueError, match="delta > 0"):
            model.set_params(delta=0.0).fit(table, people()["label"])


AWKWARD = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 5e-324, 2.0, math.nextafter(1.0, 2.0), 1.5]


@pytest.mark.parametrize("transform", ["none", "log1p"])
@pytest.mark.parametrize("missing", ["zero", 0.5])
def test_cells_count_each_number_once(transform, missing):
    cells = Cells(Numeric("x", -1.0, 1.0, transform, missing=missing))
    cell, group, eighth, alone = np.split(cells.counts(np.array(AWKWARD)), [1024, 1056, 1064])
    found = dict(zip(cells.values, alone.tolist(), strict=True))
    assert found == {-1.0: 2, 0.0: 2, 1.0: 5} | ({} if missing == "zero" else {0.5: 2})
    assert cell.sum() + alone.sum() == len(AWKWARD) - (missing == "zero")
    np.testing.assert_array_equal(group, cell.reshape(32, 32).sum(axis=1))
    np.testing.assert_array_equal(eighth, group.reshape(8, 4).sum(axis=1))
    # A number on an edge belongs to the cell above it, as it does to the bin in the encoding.
    assert np.flatnonzero(cells.counts(cells.edges[:1])).tolist() == [1, 1024, 1056]


def test_a_column_in_which_nothing_or_two_values_stand_out_keeps_its_line():
    cells = Cells(Numeric("x", 0.0, 1.0))
    counts = np.zeros(cells.n_bins)
    assert cells.column_with(4, counts, 10.0, 100.0) == cells.column
    counts[-2:] = 50.0
    assert cells.column_with(4, counts, 10.0, 100.0) == cells.column
    counts[[100, 200, 1024 + 3, 1024 + 6]] = 50.0  # two more values, alone in their groups
    four = cells.column_with(4, counts, 10.0, 200.0)
    assert (four.functions, four.edges, four.atoms) == (1, (101 / 1024,), (0.0, 1.0))


def test_records_that_stand_out_in_no_group_are_found_in_a_larger_one():
    cells = Cells(Numeric("x", 0.0, 1.0))
    counts = np.zeros(cells.n_bins)
    counts[1024 : 1024 + 4] = [15.0, 10.0, 12.0, 60.0]  # the last stands out by itself
    counts[1024 + 32] = 100.0
    learned = cells.column_with(4, counts, 10.0, 100.0)
    inside = np.array(learned.edges)
    assert (inside < 3 / 32).sum() == pytest.approx(0.4 * 32, abs=1)
    assert ((inside >= 3 / 32) & (inside <= 1 / 8)).sum() == pytest.approx(0.6 * 32, abs=1)
    assert len(inside) == 31


class TestWhatPeopleSee:
    def test_a_prediction_is_the_sum_of_contributions_which_the_shapes_show(self):
        model, table = fitted(people()), people(300, seed=3)
        parts = model.contributions(table)
        np.testing.assert_allclose(sum(parts.values()), model.decision_function(table), atol=1e-9)
        shapes = model.shapes()
        age = shapes[(shapes["column"] == "age") & (shapes["kind"] == "number")]
        interpolated = np.interp(table["age"], age["value"].astype(float), age["score"])
        np.testing.assert_allclose(interpolated, parts["age"], atol=1e-5)
        alone = shapes[shapes["kind"].isin(["value", "missing"])].set_index(["column", "kind"])["score"]
        zero, missing = parts["gain"][table["gain"] == 0.0], parts["gain"][table["gain"].isna()]
        np.testing.assert_allclose(zero, alone["gain", "value"], atol=1e-6)
        np.testing.assert_allclose(missing, alone["gain", "missing"], atol=1e-6)
        jobs = shapes[shapes["column"] == "job"].set_index("value")["score"]
        np.testing.assert_allclose(parts["job"], jobs[table["job"]], atol=1e-6)

    @pytest.mark.parametrize("pair", [("job", "shift"), ("age", "job"), ("since", "gain"), ("age", "shift")])
    def test_interactions_are_shown_by_pairs(self, pair):
        shift = Numeric("shift", 0, 24, bins=[6, 18], missing="column")
        age = Numeric("age", 17, 90, functions=3, edges=[25, 40, 60])
        schema = Schema([age, *SCHEMA.columns[1:], shift, Interaction(*pair)], label="label")
        model = fitted(people().assign(shift=np.arange(6000) % 24), schema=schema, additive=False)
        shapes = model.shapes()
        shapes = shapes[shapes["kind"] == "pair"]
        record = {"age": 20, "gain": 0.0, "since": "2021-01-01", "job": "cook", "shift": 2}
        table = pd.DataFrame([record] * len(shapes)).assign(
            **{pair[0]: shapes["value"].to_list(), pair[1]: shapes["other"].to_list()}
        )
        if "since" in pair:  # its middles are numbers of days
            table["since"] = pd.to_datetime("1970-01-01") + pd.to_timedelta(table["since"].astype(float), "D")
        parts = model.contributions(table)[" & ".join(pair)]
        np.testing.assert_allclose(parts, shapes["score"].astype(float), atol=1e-9)
        assert np.ptp(parts) > 0.0
        display = ShapesDisplay.from_estimator(model)
        axes = {each.get_title().partition(" (")[0]: each for each in display.axes_}
        drawn, middles = axes[" & ".join(pair)], {"age": 4, "since": 32, "gain": 32, "shift": 3}
        if "job" in pair:  # a line for each of its two levels
            (number,) = set(pair) - {"job"}
            assert [len(line.get_xdata()) for line in drawn.lines] == [middles[number]] * 2
        else:
            assert drawn.collections[0].get_array().size == np.prod([middles[name] for name in pair])
        matplotlib.pyplot.close(display.figure_)

    def test_importances_are_deviations_of_contributions(self, tmp_path):
        table = people()
        model = fitted(table, 100.0)
        model.save(tmp_path / "model.json")
        found = dperm.load(tmp_path / "model.json").importances().set_index("column")["importance"]
        parts = model.contributions(table)
        assert found.index[0] == "age"
        for name in ("age", "gain", "since", "job"):
            assert found[name] == pytest.approx(parts[name].std(), rel=0.1, abs=0.1)
        with pytest.raises(ValueError, match="moments that were released"):
            fitted(table, additive=False, solver="noisy_gd").importances()

    def test_bands_are_standard_errors_of_curves(self):
        age = Numeric("age", 17, 90, functions=3, edges=[25, 40, 60])
        model = fitted(
            people()[["age", "label"]], schema=Schema([age]), additive=False, solver="noisy_newton"
        )
        shapes = model.shapes()
        rows = np.column_stack(
            [Schema([age]).encode({"age": shapes["value"]}, "float64").to_dense(), 0 * shapes["score"]]
        )
        errors = np.sqrt(np.einsum("ij,jk,ik->i", rows, model.inference_.covariance, rows))
        assert (
            shapes["standard_error"] >= errors * (1 - 1e-9)
        ).all()  # larger where the noise leaves it open
        assert (shapes["standard_error"] <= errors * 2.0).all()
        display = ShapesDisplay.from_estimator(model)
        assert display.axes_[0].collections[0].get_paths()[0].vertices[:, 1].max() > shapes["score"].max()
        matplotlib.pyplot.close(display.figure_)

    def test_one_figure_and_the_report(self):
        model = fitted(people())
        display = ShapesDisplay.from_estimator(model, most=3)
        assert len(display.axes_) == 3
        assert display.axes_[0].get_title().startswith("age (")  # the most important first
        display = ShapesDisplay.from_estimator(model)
        display.figure_.canvas.draw()
        axes = {each.get_title().partition(" (")[0]: each for each in display.axes_}
        assert axes["gain"].get_xscale() == "function"  # on the scale of the column
        assert "20" in axes["since"].get_xticklabels()[1].get_text()  # a date
        matplotlib.pyplot.close(display.figure_)
        matplotlib.pyplot.close(display.figure_)
        assert "what every column adds to the score" in dperm.report(model).to_html()

    def test_curves_need_a_schema(self):
        model = dperm.LinearSVC(row_norm=1.5, classes=[0, 1]).fit([[0.0], [1.0]] * 50, [0, 1] * 50)
        for call in (model.shapes, lambda: model.contributions([[0.0]])):
            with pytest.raises(ValueError, match="the model has none"):
                call()
