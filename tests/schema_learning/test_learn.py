"""`Schema.learn`: what it finds, what it costs, what it refuses, and what it must not show."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from pyarrow import set_cpu_count

import dperm
from dperm import Schema
from dperm.accounting import Ledger, gdp_mu
from dperm.accounting.units import units_as_float
from dperm.audit import replay_check
from dperm.errors import BudgetExceededError, DataError, PrivacyWarning
from dperm.estimators.standard_errors import reference_levels
from dperm.mechanisms.hooks import replace_noise, watch_releases
from dperm.schema_learning.bounds import Magnitudes
from dperm.schema_learning.sources import Counting
from reference.replaced_noise import scaled_noise
from reference.schema_tables import KINDS, REPRESENTATIONS, arrow, in_parquet, people

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.SeededNoiseWarning")


def learn(table, epsilon=1.0, delta=1e-6, **settings):
    return Schema.learn(
        table, epsilon, delta, **{"kinds": KINDS, "label": "label", "random_state": 0} | settings
    )


class TestWhatItFinds:
    def test_bounds_and_categories(self):
        schema = learn(people())
        age, job, pay, town = schema.columns
        assert (age.name, pay.name) == ("age", "pay")
        assert 16 <= age.low <= 20
        # Noise alone makes about one bound in seven wider.
        highs = [learn(people(), random_state=seed).columns[0].high for seed in range(9)]
        assert 76 <= np.median(highs) <= 82
        assert pay.missing == "column"
        assert age.missing == "zero"
        frame = people()
        assert (frame.pay > pay.high).mean() < 0.03
        assert (frame.pay < pay.low).mean() < 0.03
        assert job.categories == ("clerk", "cook", "nurse")
        assert job.unknown == job.missing == "zero"
        assert town.categories == ("North", "South")
        assert schema.classes == (-1, 1)
        assert schema.ignored == ("row",)
        assert schema.target_bounds is None
        references = {each["name"]: each.get("reference") for each in schema.report.columns}
        assert (references["job"], references["town"]) == ("cook", None)  # a fifth of the records has no town
        assert reference_levels(schema, True) == [schema.feature_names.index("job=cook")]

    def test_it_encodes_the_table_and_a_model_is_fitted(self):
        frame, ledger = people(), Ledger(1.0, 1e-6)
        schema = Schema.learn(frame, kinds=KINDS, label="label", ledger=ledger)
        model = dperm.LogisticRegression(
            ledger.remaining, 1e-6, schema=schema, classes=list(schema.classes), ledger=ledger
        )
        model.fit(frame.drop(columns="label"), frame["label"])
        assert "learned" in model.privacy_.public["schema"]
        assert ledger.remaining < 1e-6

    def test_without_noise_less_than_the_share_lies_outside(self):
        frame = people(20_000)
        schema = learn(frame, math.inf)
        report = {each["name"]: each for each in schema.report.columns}
        for name in ("age", "pay"):
            (column,) = (each for each in schema.columns if each.name == name)
            below, above = (frame[name] < column.low).mean(), (frame[name] > column.high).mean()
            assert below <= 0.005
            assert above <= 0.005
            assert report[name]["below"] == pytest.approx([below] * 3, abs=1e-12)
            assert report[name]["above"] == pytest.approx([above] * 3, abs=1e-12)
        assert not schema.privacy.private
        assert report["job"]["unknown"] == [0.0] * 3  # a count of 2 is enough without noise

    def test_shares_are_within_their_intervals(self):
        """95 times in a hundred, and more often where the share is 0."""
        held = []
        for seed in range(30):
            frame = people(3000, seed).assign(
                hours=np.random.default_rng(seed).choice([0.0, 38.0, 40.0], 3000)
            )
            schema = learn(frame, random_state=seed, kinds=KINDS | {"hours": "numeric"})
            report = {each["name"]: each for each in schema.report.columns}
            for column in schema.columns:
                cells = frame[column.name]
                if isinstance(column, dperm.Categorical):
                    outside = {"unknown": ~cells.isin(column.categories)}
                else:
                    outside = {"below": cells < column.low, "above": cells > column.high}
                for key, found in outside.items():
                    share, low, high = report[column.name][key]
                    assert 0.0 <= low <= share <= high <= 1.0
                    held.append(low <= found.mean() <= high)
        assert np.mean(held) > 0.93

    def test_a_column_of_one_value_is_not_narrowed(self):
        frame = people().assign(age=0)
        assert (learn(frame).columns[0].low, learn(frame).columns[0].high) == (0, 1)

    def test_numbers_far_below_their_bound_take_a_logarithm(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"bytes": np.exp(rng.normal(3.0, 3.0, 20_000))})
        (column,) = learn(frame, kinds=None, label=None).columns
        assert column.transform == "log1p"

    def test_functions_of_numbers(self):
        frame, ledger = people(), Ledger(4.0, 1e-6, allow_seeded=True)
        schema = learn(frame, ledger=ledger, functions="auto")
        age, _, pay, _ = schema.columns
        assert age.functions == pay.functions > 1
        assert (len(age.edges), len(pay.edges)) > (8, 8)
        assert (age.low, age.high) == (learn(frame).columns[0].low, learn(frame).columns[0].high)
        assert schema.privacy.public["functions"] == "auto"
        assert Schema.from_text(schema.to_text()) == schema
        assert learn(frame, functions=3).columns[0].functions == 3
        with pytest.raises(ValueError, match="give a ledger"):
            learn(frame, functions="auto")

    def test_a_numeric_label(self):
        frame = people().assign(label=np.linspace(-3.0, 5.0, 6000))
        schema = learn(frame, kinds=KINDS | {"label": "numeric"})
        low, high = schema.target_bounds
        assert -4 <= low <= -2.8
        assert 4.8 <= high <= 8
        assert schema.classes is None
        assert "label" not in schema.column_names

    def test_columns_in_which_nothing_stands_out_are_ignored(self):
        frame = people().assign(job=[f"name {i}" for i in range(6000)])
        with pytest.warns(PrivacyWarning, match="nothing of column 'job'"):
            schema = learn(frame)
        assert schema.ignored == ("job", "row")
        schema.encode(frame.drop(columns="label"))

    def test_noise_that_hides_the_finer_grid_leaves_the_rough_one(self):
        scales = np.array([1.0, 5.0, 30.0, 0.2])
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 4)) * scales, columns=list("abcd"))
        for seed in (9, 25, 54, 58):
            columns = Schema.learn(frame, 1.0, 1e-6, neighbors="replace_one", random_state=seed).columns
            ends = np.abs([[each.low, each.high] for each in columns])
            mantissas, _ = np.frexp(ends)
            assert (np.isin(mantissas, [0.0, 0.5]).all(axis=1)).any()

    def test_a_column_of_hardly_any_numbers(self):
        frame = pd.DataFrame({"a": np.where(np.arange(200_000) < 500, 3.0, np.nan)})
        (column,) = Schema.learn(frame, 1.0, 1e-6, random_state=0).columns
        assert (column.low, column.high, column.missing) == (2, 4, "column")

    def test_no_records(self):
        ledger = Ledger(1.0, 1e-6, allow_seeded=True)
        with pytest.raises(DataError, match="no column stood out"):
            learn(people(10)[:0], ledger=ledger)
        assert ledger.spent > 0.0

    def test_whole_numbers_and_truth_values_as_categories(self):
        frame = pd.DataFrame(
            {"zip": np.tile([7.0, 8.5, np.nan, 9.0], 2000), "yes": np.tile([True, False], 4000)}
        )
        zips, yes = learn(frame, kinds={"zip": "categorical"}, label=None).columns
        assert zips.categories == (7, 9)
        assert yes.categories == (False, True)


class TestRepresentations:
    @pytest.mark.parametrize("name", REPRESENTATIONS)
    def test_equal_seeds_give_equal_schemas(self, name, tmp_path):
        table = REPRESENTATIONS[name](people(), tmp_path)
        assert learn(table).to_text() == learn(people()).to_text()

    @pytest.mark.parametrize("threads", [1, 4])
    def test_threads_play_no_part(self, threads, tmp_path):
        set_cpu_count(threads)
        try:
            assert learn(in_parquet(people(), tmp_path)).to_text() == learn(people()).to_text()
        finally:
            set_cpu_count(2)

    def test_nor_does_the_order_of_the_records(self):
        assert learn(people().sample(frac=1.0, random_state=3)).to_text() == learn(people()).to_text()

    def test_types_tell_what_kinds_do_not(self):
        frame = people().drop(columns="row")
        known = {name: kind for name, kind in KINDS.items() if name in frame}
        assert learn(frame, kinds=None).to_text() == learn(frame, kinds=known).to_text()

    def test_workers_are_sent_what_to_count(self):
        counting = Counting({"age": Magnitudes()}, {"job": str}, tuple(people()))
        sent = pickle.loads(pickle.dumps(counting))(people())
        assert sent.bins.tolist() == counting(people()).bins.tolist()
        assert pickle.loads(pickle.dumps(sent)).values == (people()["job"].value_counts().to_dict(),)

    def test_a_file_that_changes_before_the_second_pass(self, tmp_path):
        files = in_parquet(people(), tmp_path)

        def change(releaser, method, private, *args):
            (tmp_path / "0.parquet").write_bytes((tmp_path / "2.parquet").read_bytes())
            return method(releaser, private, *args)

        with watch_releases(change), pytest.raises(DataError, match="changed"):
            learn(files)


#: A record, by what it might do to the counts.
RECORDS = {
    "ordinary": (33, "cook", 900.0, "North", 0, 1),
    "rare": (33, "acrobat", 1e300, "Atlantis", 0, 77),
    "missing": (33, None, np.nan, None, 0, 1),
    "infinite": (-(2**62), "clerk", -np.inf, "South", 0, -1),
    "another kind": (0, "", -1e-320, "South", 0, -1),
}


def with_records(*names, n=400):
    frame = people(n)
    more = pd.DataFrame(
        [RECORDS[name] for name in names], columns=["age", "job", "pay", "town", "row", "label"]
    )
    return pd.concat([frame, more], ignore_index=True).astype(
        {"age": "int64", "pay": "float64", "label": "int64"}
    )


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_a_record_moves_no_release_by_more_than_its_sensitivity(representation, relation, tmp_path):
    """Recorded on one table and replayed on its neighbours, for any record and in both directions."""
    largest = 0.0
    for i, name in enumerate(RECORDS):
        other = list(RECORDS)[i - 1]
        pair = (name,), () if relation == "add_or_remove" else (other,)
        tables = []
        for j, records in enumerate(pair):
            (tmp_path / f"{name} {j}").mkdir()
            tables.append(REPRESENTATIONS[representation](with_records(*records), tmp_path / f"{name} {j}"))
        report = replay_check(lambda table: learn(table, 8.0, neighbors=relation, functions=2), *tables)
        assert report.ok, report
        assert report.accesses == 3
        largest = max(largest, report.largest_share)
    assert largest > 0.99  # the worst case is one


def released_noise(factor):
    """The noise of released bins and values, divided by its stated scale."""
    found = []

    def watch(releaser, method, private, *args):
        exact = private._bins
        released = method(releaser, private, *args)
        found.append((released[0] - exact) / releaser.releases[-1].scale)
        return released

    with watch_releases(watch), scaled_noise(factor):
        learn(people(), random_state=5)
    return np.concatenate(found)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_an_audit_of_the_noise_catches_half_of_it(factor):
    noise = released_noise(factor)
    # Chi-square with that many degrees of freedom, five standard deviations: false alarm 6e-7.
    spread = abs(np.mean(noise**2) - 1.0) * math.sqrt(len(noise) / 2.0)
    assert len(noise) > 390
    assert (spread < 5.0) == (factor == 1.0)


class TestCharge:
    @pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
    @pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
    def test_a_twentieth_of_the_ledger(self, accountant, neighbors):
        ledger = Ledger(1.0, 1e-6, accountant, neighbors=neighbors)
        schema = Schema.learn(people(), kinds=KINDS, label="label", ledger=ledger)
        share = ledger.charged.units / ledger.caps.units
        assert share == pytest.approx(0.05, rel=1e-12)
        assert ledger.charged.slack / ledger.caps.slack == pytest.approx(0.125)
        assert schema.privacy.neighbors == neighbors
        assert len(ledger.history()) == 1
        twice = Schema.learn(people(), kinds=KINDS, label="label", ledger=ledger)
        assert ledger.charged.units / ledger.caps.units == pytest.approx(0.1, rel=1e-12)
        assert twice.privacy.delta < schema.privacy.delta

    def test_what_is_asked_for(self):
        ledger = Ledger(2.0, 1e-5)
        schema = Schema.learn(people(), 0.5, 1e-6, kinds=KINDS, label="label", ledger=ledger)
        mu = gdp_mu(0.5, 0.9e-6)
        assert math.sqrt(units_as_float(ledger.charged.units)) == pytest.approx(mu, rel=1e-9)
        assert ledger.charged.slack / 2**200 == pytest.approx(1e-7, rel=1e-12)
        assert (schema.privacy.epsilon, schema.privacy.delta) == (0.5, 1e-6)
        assert schema.privacy.mu == pytest.approx(mu, rel=1e-9)
        assert schema.privacy.public["slack"] == pytest.approx(1e-7)

    def test_releases_spend_what_was_charged(self):
        """The noise of the two releases together: the sum of their mu^2."""
        for relation, factor in (("add_or_remove", 1.0), ("replace_one", 2.0)):
            squares = []

            def watch(releaser, method, private, *args, factor=factor, squares=squares):
                released = method(releaser, private, *args)
                columns = [5, 1][
                    len(squares)
                ]  # age, job, pay, town, label; then age alone, as pay takes a logarithm
                squares.append(factor * columns / releaser.releases[-1].scale ** 2)
                return released

            with watch_releases(watch):
                learn(people(), neighbors=relation)
            assert len(squares) == 2
            assert sum(squares) == pytest.approx(gdp_mu(1.0, 0.9e-6) ** 2, rel=1e-6)

    def test_numbers_alone_take_no_slack(self):
        ledger = Ledger(1.0, 1e-6, slack=0.0)
        Schema.learn(people()[["age"]], ledger=ledger)
        assert ledger.charged.slack == 0
        assert ledger.charged.units > 0
        with pytest.raises(ValueError, match="no slack left"):
            Schema.learn(people()[["job"]], ledger=ledger)

    def test_a_part_of_a_ledger(self):
        frame = people()
        ledger = Ledger(1.0, 1e-6)
        part = ledger.split({"train": 0.5, "rest": 0.5})["train"]
        train = part.take(frame.drop(columns="label"))
        schema = Schema.learn(train, kinds=KINDS, ledger=part)
        assert ledger.charged.units == part.charged.units > 0
        assert "North" in schema.columns[3].categories

    def test_it_is_charged_before_noise_is_drawn(self):
        ledger = Ledger(1.0, 1e-6)

        def draw(*_):
            assert ledger.charged.units > 0
            raise RuntimeError("the source broke")

        with replace_noise(gaussian=draw), pytest.raises(RuntimeError, match="source broke"):
            Schema.learn(people(), kinds=KINDS, ledger=ledger)
        assert ledger.spent > 0.0

    def test_a_price_without_a_charge(self):
        ledger = Ledger(1.0, 1e-6)
        entry = ledger.cost_of(Schema.learn, people(), kinds=KINDS)
        assert ledger.spent == 0.0
        assert ledger.affords(entry)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"epsilon": math.nan}, ValueError, "epsilon"),
        ({"epsilon": 1e-30, "delta": 1e-30}, ValueError, "unit"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"epsilon": 3.0}, BudgetExceededError, "exceeded"),
        ({"delta": 1e-4}, BudgetExceededError, "exceeded"),
        ({"label": "height"}, ValueError, "no column 'height'"),
        ({"kinds": {"height": "numeric"}}, ValueError, "no column 'height'"),
        ({"kinds": {"age": "number"}}, ValueError, "must be 'numeric'"),
        ({"kinds": {"name": "numeric"}}, ValueError, "holds texts, which is no numeric column"),
        ({"kinds": {"label": "ignored"}}, ValueError, "cannot be ignored"),
        ({"kinds": {"age": "ignored", "name": "ignored"}}, ValueError, "no column to describe"),
        ({"kinds": [1]}, TypeError, "mapping"),
        ({"neighbors": "neighbours"}, ValueError, "neighbo"),
        ({"neighbors": "replace_one"}, ValueError, "add_or_remove"),
        ({"frame": np.zeros((3, 2))}, TypeError, "data frame"),
        ({"frame": [1, 2]}, TypeError, "data frame"),
        ({"frame": {"age": [1, 2], "label": np.array([1, 2])}}, DataError, "type depends on its cells"),
        (
            {"frame": pd.DataFrame({"label": [1], "when": [pd.Timestamp(0)]})},
            ValueError,
            "leave it out with kinds",
        ),
        ({"frame": pd.DataFrame({"label": [1], 3: [1]})}, DataError, "name of a column"),
        ({"random_state": "seed"}, (TypeError, ValueError), "random_state"),
        ({"random_state": 3}, ValueError, "random_state=None only"),
    ],
)
def test_what_is_refused_is_not_charged(change, error, message):
    ledger = Ledger(1.0, 1e-6)
    frame = pd.DataFrame({"age": [1.0, 2.0], "name": pd.array(["a", "b"], dtype="str"), "label": [0, 1]})
    arguments = {"frame": frame, "epsilon": 0.5, "delta": 1e-6, "label": "label", "ledger": ledger} | change
    with pytest.raises(error, match=message):
        Schema.learn(**arguments)
    assert ledger.charged == Ledger(1.0, 1e-6).charged
    assert not ledger.history()


def test_a_budget_is_needed():
    with pytest.raises(ValueError, match="give epsilon and delta, or a ledger"):
        Schema.learn(people(), 1.0)
    with pytest.raises(TypeError, match="ledger"):
        Schema.learn(people(), 1.0, 1e-6, ledger="budget.db")


def test_rare_values_show_nowhere():
    """Neither in the results nor in texts about them, nor in errors."""
    frame = people(6000).assign(secret=["Atlantis" if i == 17 else "plain" for i in range(6000)])
    frame.loc[40, "pay"] = 123456789.5
    ledger = Ledger(1.0, 1e-6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        schema = Schema.learn(frame, kinds=KINDS, label="label", ledger=ledger)
        with pytest.raises(BudgetExceededError) as failure:
            Schema.learn(frame, 5.0, 1e-6, kinds=KINDS, label="label", ledger=ledger)
    texts = [schema.to_text(), repr(schema), str(schema.report), schema.report._repr_html_()]
    texts += [str(schema.privacy), schema.privacy._repr_html_(), str(ledger.history()), repr(ledger)]
    texts += [str(failure.value), *(str(each.message) for each in caught)]
    for word in ("Atlantis", "astronaut", "123456789"):
        assert not any(word in text for text in texts)


class TestItsStatement:
    def test_says_what_was_done(self):
        schema = learn(people(), random_state=None)
        said = str(schema.privacy)
        for words in ("noisy count is", "age", "how many distinct values", "2 accesses", "public"):
            assert words in " ".join(said.split())
        assert schema.privacy.random == "cryptographic"
        assert schema.privacy.steps == 2
        assert learn(people()).privacy.random == "seeded"

    def test_survives_the_file(self, tmp_path):
        schema = learn(people())
        schema.to_toml(tmp_path / "people.toml")
        again = Schema.from_toml(tmp_path / "people.toml")
        assert again == schema
        assert again.digest == schema.digest
        assert again.privacy == schema.privacy
        assert again.classes == schema.classes
        assert str(again.report) == str(schema.report)
        assert again.to_text() == schema.to_text()

    def test_others_have_none(self):
        schema = Schema([dperm.Numeric("a", 0, 1)])
        assert schema.privacy is schema.report is schema.classes is schema.target_bounds is None
        with pytest.raises(ValueError, match="learned must be a table"):
            Schema.from_text(f"learned = 3\n{schema.to_text()}")

    def test_the_report_prints(self):
        lines = str(learn(people()).report).splitlines()
        assert lines[0].split() == ["column", "learned", "below", "above", "unknown"]
        assert [line.split()[0] for line in lines[1:]] == ["age", "job", "pay", "town", "label"]
        assert "3 categories" in lines[2]
        assert "<td>pay</td>" in learn(people()).report._repr_html_()


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_a_ledger_decides_on_the_relation(relation):
    schema = learn(arrow(people()), ledger=Ledger(2.0, 1e-5, neighbors=relation, allow_seeded=True))
    assert schema.privacy.neighbors == relation
