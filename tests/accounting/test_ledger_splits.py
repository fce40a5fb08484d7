"""Parallel composition: fits on different parts of a split cost the largest, not the sum."""

import pickle
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from dperm import Categorical, Numeric, Schema
from dperm.accounting import Ledger, open_ledger
from dperm.accounting.ledger.account import Account, Split, joined
from dperm.accounting.ledger.cost import Cost, slack_units
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.terms import LedgerTerms
from dperm.data import scan_parquet
from dperm.errors import BudgetExceededError, DataError
from reference.threads import in_threads

pa = pytest.importorskip("pyarrow")

DELTA = 1e-6
SHARES = {"train": 0.7, "validation": 0.2}


def charge(ledger, epsilon):
    return ledger.charge(epsilon=epsilon, delta=DELTA).cost


class TestCosts:
    def test_parts_cost_their_maximum_and_all_records_add_up(self, make):
        ledger = make(3.0, DELTA)
        parts = ledger.split(SHARES)
        train = charge(parts["train"], 1.0)
        charge(parts["validation"], 0.5)
        assert ledger.charged == train
        validation = charge(parts["validation"], 1.0)
        assert ledger.charged == parts["validation"].charged
        both = charge(ledger, 0.7)
        assert ledger.charged == parts["validation"].charged + both
        assert parts["train"].charged == train
        assert parts["train"].remaining > parts["validation"].remaining == ledger.remaining
        assert validation == train

    def test_each_part_can_use_up_the_ledger(self, make):
        ledger = make(1.0, DELTA)
        for part in ledger.split(SHARES).values():
            charge(part, 1.0)
            assert part.remaining == 0.0
        assert (ledger.spent, ledger.remaining) == (1.0, 0.0)
        with pytest.raises(BudgetExceededError):
            charge(ledger, 0.01)

    def test_independent_splits_add_up_and_parts_can_be_split(self, make):
        ledger = make(3.0, DELTA)
        first, second = ledger.split(SHARES), ledger.split({"a": 0.5, "b": 0.5}, name="second")
        inner = first["train"].split({"x": 0.5, "y": 0.5}, name="inner")
        x, y = charge(inner["x"], 0.5), charge(inner["y"], 0.7)
        own, b = charge(first["train"], 0.3), charge(second["b"], 0.4)
        assert x.units < y.units
        assert first["train"].charged == own + y
        assert ledger.charged == own + y + b
        assert inner["x"].history() != first["train"].history()
        assert [entry.kind for entry in first["train"].history()] == ["split", "charge", "charge", "charge"]

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=30))
    def test_the_formula_against_brute_force(self, charges):
        """Cost of a record: the sum over all nodes that it is in; the ledger counts the worst record."""
        nodes = ["", "s/a", "s/b", "s/a/t/x", "s/a/t/y", "u/c"]
        s, t, u = (Split(dict.fromkeys(parts, 0.5)) for parts in ("ab", "xy", "c"))
        splits = {"": {"s": s, "u": u}, "s/a": {"t": t}}
        account = Account(LedgerTerms(1.0, DELTA), 1.0, Cost(100), splits=splits)
        spent = dict.fromkeys(nodes, 0)
        for node, units in charges:
            path = nodes[node]
            trial = spent | {path: spent[path] + units}
            leaves = [["s/a", "s/a/t/x"], ["s/a", "s/a/t/y"], ["s/b"]]
            worst = max(trial[""] + trial["u/c"] + sum(trial[each] for each in leaf) for leaf in leaves)
            cost = Cost(units)
            entry = LedgerEntry(datetime.now(UTC), "", 0.1, 1e-7, "gdp", cost, part=path)
            assert account.fits(entry) == (worst <= 100)
            assert cost.within(account.room(path)) == (worst <= 100)
            if worst <= 100:
                spent, account = trial, account.after(entry)
                assert account.total() == Cost(worst)

    def test_the_work_of_a_charge_does_not_grow_with_the_number_of_splits(self, monkeypatch):
        """Opening a ledger adds up all entries: with twice the splits it took four times as long."""
        ledger, calls, counts = Ledger(3.0, DELTA), [], []
        add = Cost.__add__
        monkeypatch.setattr(Cost, "__add__", lambda one, other: calls.append(1) or add(one, other))
        for number in range(40):
            part = ledger.split(SHARES, name=f"split {number}")["train"]
            calls.clear()
            charge(part, 0.001)
            counts.append(len(calls))
        assert counts[-1] == counts[0] > 0

    def test_threads_never_overspend_a_part(self, make):
        ledger = make(1.0, DELTA)
        parts = ledger.split(SHARES)
        unit = Ledger(1.0, DELTA).charge(epsilon=0.2, delta=DELTA).cost_units
        accepted = {name: [] for name in parts}

        def hammer(i):
            name = list(parts)[i % 2]
            try:
                for _ in range(20):
                    accepted[name].append(charge(parts[name], 0.2))
            except BudgetExceededError:
                pass

        in_threads(hammer, 4)
        assert {len(each) for each in accepted.values()} == {ledger.caps.units // unit}


class TestHandles:
    def test_the_same_split_is_found_again_and_another_is_refused(self, path, ledger):
        X = np.random.default_rng(0).normal(size=(50, 3))
        first = ledger.split(SHARES)["train"]
        again = open_ledger(path, "adult").split(SHARES)["train"]
        np.testing.assert_array_equal(first.mask(X), again.mask(X))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).mask(X), first.mask(X))
        with pytest.raises(ValueError, match="split as 'split' before, with shares"):
            open_ledger(path, "adult").split({"train": 0.5})
        other = open_ledger(path, "adult").split(SHARES, name="other")["train"]
        assert (other.mask(X) != first.mask(X)).any()

    def test_the_key_is_not_shown(self, ledger):
        part = ledger.split(SHARES)["train"]
        assert part._coins.key.hex() not in repr(ledger.history()) + repr(part) + repr(ledger)

    @pytest.mark.parametrize(
        ("shares", "words"),
        [
            ({}, "shares must map"),
            ({"a": 0.0}, "share of 'a'"),
            ({"a": 0.7, "b": 0.7}, "at most 1"),
            ({"a/b": 1}, "/"),
        ],
    )
    def test_bad_shares(self, make, shares, words):
        ledger = make(1.0, DELTA)
        with pytest.raises((ValueError, TypeError), match=words):
            ledger.split(shares)
        assert ledger.history() == []

    def test_a_part_is_not_extended_or_closed_by_itself(self, make):
        part = make(1.0, DELTA, ceiling=2.0).split(SHARES)["train"]
        for use in (lambda: part.extend(2.0), part.close):
            with pytest.raises(ValueError, match="whole ledger"):
                use()

    def test_n_public_is_the_share(self):
        part = Ledger(1.0, DELTA).split(SHARES)["train"]
        assert (part.n_public(1000), part.share) == (700, 0.7)


def largest_group_tail(sizes, share):
    """Distribution of the total size of groups that come together; the first one always comes."""
    law = np.zeros(sum(sizes) + 1)
    law[sizes[0]] = 1.0
    for size in sizes[1:]:
        law = (1.0 - share) * law + share * np.concatenate([np.zeros(size), law[:-size]])
    return law


class TestSizeCaps:
    @pytest.mark.parametrize(("n", "share", "cap"), [(1000, 0.5, 611), (10, 0.9, 10), (50_000, 0.2, None)])
    def test_the_smallest_that_the_binomial_law_allows(self, n, share, cap):
        """One record is in the part for certain, n - 1 others with probability `share`."""
        found = Ledger(1.0, DELTA).split({"a": share})["a"].size_cap(n, equal=1)
        assert cap in (None, found)
        assert binom.sf(found - 1, n - 1, share) <= 1e-12 or found == n
        assert binom.sf(found - 2, n - 1, share) > 1e-12

    @pytest.mark.parametrize("equal", [2, 5, 16])
    @pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
    def test_equal_records_share_a_coin(self, equal, share):
        n, probability = 400, 1e-9
        cap = Ledger(1.0, DELTA).split({"a": share})["a"].size_cap(n, equal=equal, probability=probability)
        full = [equal] * (n // equal)
        for sizes in (full, [1] * n, [equal] + [1] * (n - equal), [1, *full[1:]], full[: n // (2 * equal)]):
            assert largest_group_tail(sizes, share)[cap + 1 :].sum() <= probability
        assert largest_group_tail(full, share)[int(0.9 * cap) :].sum() > probability

    def test_it_is_charged_once_and_before_the_first_fit(self, make):
        parts = make(1.0, DELTA).split(SHARES)
        train, validation = parts["train"], parts["validation"]
        assert not train._is_capped(10**9)
        cap = train.size_cap(1000, equal=1, probability=1e-9)
        assert cap == train.size_cap(1000, equal=1, probability=1e-9)
        assert train.charged == Cost(slack=slack_units(1e-9, up=True))
        assert train._is_capped(cap)
        assert not train._is_capped(cap - 1)
        assert not validation._is_capped(cap)
        validation.size_cap(1000, equal=1)
        charge(validation, 0.3)
        with pytest.raises(ValueError, match="before the first fit"):
            train.size_cap(1000, equal=1, probability=1e-8)
        assert train.size_cap(1000, equal=1, probability=1e-9) == cap

    def test_without_a_bound_on_equal_records_it_is_n_and_costs_nothing(self, make):
        part = make(1.0, DELTA).split(SHARES)["train"]
        charge(part, 0.3)
        before = part.charged
        assert part.size_cap(1000) == 1000
        assert part.charged == before
        assert part._is_capped(1000)

    def test_a_part_of_a_part_needs_that_of_the_other(self):
        whole = Ledger(1.0, DELTA)
        part = whole.split({"a": 0.5})["a"]
        inner = part.split({"b": 0.5})["b"]
        with pytest.raises(ValueError, match="that part's size_cap"):
            inner.size_cap(611, equal=1)
        part.size_cap(1000, equal=1)
        assert inner.size_cap(611, equal=1) < 611
        assert whole.charged == Cost(slack=2 * slack_units(1e-12, up=True))

    def test_where_sizes_are_public_it_is_the_size(self):
        part = Ledger(1.0, DELTA, neighbors="replace_one").split(SHARES)["train"]
        assert part.size_cap(1000) == part.mask(np.zeros((1000, 1))).sum()
        assert part.charged == Cost()
        assert part._is_capped(1)

    def test_a_ledger_without_slack_has_none_for_it(self, make):
        part = make(1.0, DELTA, slack=0.0).split(SHARES)["train"]
        with pytest.raises(BudgetExceededError):
            part.size_cap(1000, equal=1)
        assert not part._is_capped(10**9)


#: A column of each kind.
MIXED = {
    "integers": np.arange(100),
    "small integers": np.arange(100, dtype=np.int8),
    "single": np.arange(100, dtype=np.float32) / 3,
    "doubles": np.arange(100) / 3,
    "truth": np.arange(100) % 2 == 0,
    "texts": [f"t{i}" for i in range(100)],
    "texts of numbers": [str(i) for i in range(100)],
    "nullable": pd.array(range(100), dtype="Int64"),
    "large": np.arange(100) + 2**60,
    "categories": pd.Categorical([f"c{i}" for i in range(100)]),
    "dates": pd.date_range("2019-01-01", periods=100),
}


def frames(rng, n):
    """Records in every representation; the matrices have equal contents."""
    dense = rng.integers(0, 3, size=(n, 4)).astype(np.float64)
    yield dense
    yield dense.astype(np.float32)
    yield sp.csr_matrix(dense)
    yield pd.DataFrame({"a": dense[:, 0], "b": rng.choice(["x", "y"], n), "c": dense[:, 2]})


def without(records, row):
    keep = np.arange(records.shape[0]) != row
    return records.iloc[keep] if hasattr(records, "iloc") else records[keep]


@pytest.fixture
def half():
    """A part with half of the records."""
    return Ledger(1.0, DELTA).split({"half": 0.5})["half"]


class TestCoins:
    def test_one_record_less_moves_no_other(self):
        """Each record of each representation is left out once."""
        for records in frames(np.random.default_rng(0), 40):
            parts = Ledger(1.0, DELTA).split(SHARES)
            masks = {name: part.mask(records) for name, part in parts.items()}
            for row in range(40):
                for name, part in parts.items():
                    np.testing.assert_array_equal(
                        part.mask(without(records, row)), np.delete(masks[name], row)
                    )

    @pytest.mark.parametrize("column", MIXED)
    @pytest.mark.parametrize("bad", [None, np.nan, pd.NA, "?", "1", 0.5, True, -7, pd.Timestamp(0)])
    def test_a_cell_of_another_kind_moves_no_other_record(self, half, column, bad):
        """A missing or misspelt cell changes the type of its whole column, and must not move the others."""
        cells = MIXED[column]
        one, other = pd.DataFrame({"x": cells}), pd.DataFrame({"x": [bad, *list(cells)[1:]]})
        if column == "large" and other.x.dtype == np.float64:
            return  # pandas itself has rounded these integers
        np.testing.assert_array_equal(half.mask(one)[1:], half._coins.mask(other, "half")[1:])
        if column != "truth":  # which has two distinct values
            assert 10 < half.mask(one).sum() < 90

    @pytest.mark.parametrize(
        "one_and_other",
        [
            np.array([2**60, 2**60 + 1]),
            np.array([2**63, 2**63 + 1], dtype=np.uint64),
            sp.csr_array(np.array([[2**60], [2**60 + 1]])),
            pd.array([2**60, 2**60 + 1], dtype="Int64"),
            pd.array([None, 0], dtype="Int64"),
            [-(2**60) - 1, 2**64 - 2**60 - 1],
            pd.array([2**53, 2**53 + 1], dtype="int64"),
            [10**400, 10**400 + 1],
            [Decimal("0.1"), 0.1],
            ["07", "007"],
            ["7", 7],
            ["1", "1.0"],
            ["12E403", "13E403"],
            ["nan", None],
            ["", None],
            pd.Categorical(["07", "007"]),
            pd.to_datetime([1, 2], unit="ns"),
            [b"7", "b'7'"],
            np.array([1.0, 1.0 + np.finfo(np.longdouble).eps], dtype=np.longdouble),
        ],
        ids=str,
    )
    def test_different_records_may_be_in_different_parts(self, one_and_other):
        """As `equal=1` of `size_cap` assumes; no hash of 30 keys parts them with probability 2^-30."""
        records = one_and_other if sp.issparse(one_and_other) else pd.DataFrame({"x": one_and_other})
        splits = [Ledger(1.0, DELTA).split({"half": 0.5})["half"].mask(records) for _ in range(30)]
        assert any(mask[0] != mask[1] for mask in splits)

    @pytest.mark.parametrize(
        "cells",
        [
            [1, 1.0, True, np.float32(1), Decimal(1)],
            [2**60, 2.0**60],
            [2**60 + 1, np.int64(2**60 + 1)],
            [0.0, -0.0],
            [None, np.nan],
        ],
    )
    def test_equal_cells_of_other_types_are_equal_records(self, cells):
        records = pd.DataFrame({"x": np.array([*cells, "?"], dtype=object)[:-1]})
        for _ in range(10):
            assert len(set(Ledger(1.0, DELTA).split({"half": 0.5})["half"].mask(records))) == 1

    def test_the_parts_of_many_records_that_round_to_equal_doubles_respect_the_cap(self):
        """The example of 1,000 identifiers of 19 digits: the size of half of them is binomial."""
        part = Ledger(1.0, DELTA).split({"half": 0.5})["half"]
        cap = part.size_cap(1000, equal=1)
        assert 389 <= part.mask(pd.DataFrame({"id": 2**60 + np.arange(1000)})).sum() <= cap == 611

    def test_shares_in_another_order_are_the_same_parts(self, make):
        X = np.random.default_rng(3).normal(size=(500, 2))
        ledger = make(1.0, DELTA)
        parts, others = ledger.split(SHARES), ledger.split(dict(reversed(SHARES.items())))
        for name in SHARES:
            np.testing.assert_array_equal(parts[name].mask(X), others[name].mask(X))
        assert not (parts["train"].mask(X) & others["validation"].mask(X)).any()

    def test_every_kind_of_table_and_matrix(self, half):
        rng = np.random.default_rng(4)
        frame = pd.DataFrame({"a": rng.integers(0, 50, 300), "b": rng.choice(["x", "y"], 300)})
        mask = half.mask(frame)
        nullable = frame.astype({"a": "Int64", "b": "category"})
        for other in (pl.from_pandas(frame), nullable, pa.Table.from_pandas(frame)):
            np.testing.assert_array_equal(half.mask(other), mask)
            assert half.take(other).shape == (mask.sum(), 2)
        encoded = Schema([Numeric("a", 0, 50), Categorical("b", ["x", "y"])]).encode(frame)
        half = Ledger(1.0, DELTA).split({"half": 0.5})["half"]
        taken, labels = half.take(encoded, np.arange(300))
        assert len(taken) == len(labels) == half.mask(encoded).sum()
        dense = encoded.to_dense()
        np.testing.assert_array_equal(taken.to_dense(), dense[labels])
        half = Ledger(1.0, DELTA).split({"half": 0.5})["half"]
        with_zeros = sp.csr_matrix(dense)
        with_zeros.data[::7] = 0.0
        cleaned = with_zeros.copy()
        cleaned.eliminate_zeros()
        np.testing.assert_array_equal(half.mask(with_zeros), half.mask(cleaned))

    def test_what_is_not_in_memory_or_not_as_long_is_refused(self, half):
        with pytest.raises(TypeError, match="must be in memory"):
            half.mask(iter([1, 2]))
        with pytest.raises(ValueError, match="must be as long"):
            half.take(np.zeros((5, 2)), np.zeros(4))

    def test_equal_records_stay_together(self, half):
        dense, *_ = frames(np.random.default_rng(1), 200)
        mask = half.mask(dense)
        for row in range(200):
            assert len(set(mask[(dense == dense[row]).all(axis=1)])) == 1

    def test_shares_are_probabilities(self):
        """20,000 distinct records; each count within 5 standard deviations: 1e-6 of false alarms."""
        X = np.arange(20_000.0)[:, None]
        for relation in ("add_or_remove", "replace_one"):
            parts = Ledger(1.0, DELTA, neighbors=relation).split(SHARES)
            masks = [part.mask(X) for part in parts.values()]
            assert not (masks[0] & masks[1]).any()
            for mask, share in zip(masks, SHARES.values(), strict=True):
                assert abs(mask.sum() - 20_000 * share) < 5 * np.sqrt(20_000 * share * (1 - share))

    def test_replaced_records_keep_the_place_and_another_order_is_refused(self, make):
        X = np.random.default_rng(0).normal(size=(60, 2))
        part = make(1.0, DELTA, neighbors="replace_one").split(SHARES)["train"]
        part.mask(X)
        with pytest.raises(ValueError, match="another order"):
            part.mask(X[::-1])
        changed = X.copy()
        changed[3] = 7.0
        assert (part._coins.mask(changed, "train") == part.mask(X)).all()

    def test_take_gives_the_same_rows_of_everything(self):
        for records in frames(np.random.default_rng(2), 80):
            half = Ledger(1.0, DELTA).split({"half": 0.5})["half"]
            taken, own = half.take(records, list(range(80)))
            np.testing.assert_array_equal(own, np.flatnonzero(half.mask(records)))
            assert taken.shape[0] == own.size
            assert half.take(records).shape == taken.shape


FRAME = pd.DataFrame({"age": [31, 45, 70], "name": ["a", "b", "c"], "x": [0.5, 0.25, 0.0]})


class TestFormat:
    """Records whose part is asked for in another format might be in both parts."""

    @pytest.mark.parametrize(
        ("first", "other", "words"),
        [
            (np.eye(3), np.eye(3, dtype=np.float32), "array with 3 columns of type float64.*float32"),
            (np.eye(3), sp.csr_array(np.eye(3)), "an array.*a sparse matrix"),
            (np.eye(3), np.eye(3, 4), "3 columns.*4 columns"),
            (FRAME, FRAME[["age", "x", "name"]], "column 2 was 'name'.* and is 'x'"),
            (FRAME, FRAME.assign(label=1), "3 columns.*4 columns: .*label"),
            (FRAME, FRAME.drop(columns="name").to_numpy(), "a table.*an array"),
            (FRAME, FRAME.astype({"x": np.float32}), r"column 3 was 'x' \(float64\) and is 'x' \(float32\)"),
            (FRAME, FRAME.astype({"age": str}), "'age' .integer. and is 'age' .text."),
        ],
        ids=["precision", "sparse", "width", "order", "label", "kind", "precision of a column", "text"],
    )
    def test_another_one_is_refused(self, make, first, other, words):
        parts = make(1.0, DELTA).split({"a": 0.5, "b": 0.5})
        taken = parts["a"].take(first)
        with pytest.raises(ValueError, match=f"(?s){words}.*in the first format"):
            parts["b"].take(other)
        assert taken.shape[0] + parts["b"].take(first).shape[0] == 3

    def test_it_is_kept_in_the_file_and_its_chain(self, path, ledger):
        seal = ledger.split(SHARES) and ledger.seal
        part = ledger.split(SHARES)["train"]
        part.take(FRAME)
        assert ledger.seal != seal
        assert [entry.kind for entry in ledger.history()] == ["split", "records"]
        columns = [["age", "integer"], ["name", "text"], ["x", "float64"]]
        assert ledger.history()[1].statement == {"format": {"kind": "table", "columns": columns}}
        again = open_ledger(path, "adult").split(SHARES)["validation"]
        with pytest.raises(ValueError, match="was 'age'"):
            again.take(FRAME.rename(columns={"age": "years"}))
        again.take(pl.from_pandas(FRAME))
        assert len(ledger.history()) == 2

    def test_of_files_as_of_tables(self, tmp_path):
        FRAME.assign(label=1).to_parquet(tmp_path / "records.parquet")
        files = scan_parquet(tmp_path / "records.parquet", label="label", columns=["age", "x"])
        parts = Ledger(1.0, DELTA).split(SHARES)
        parts["train"].take(FRAME[["age", "x"]])
        parts["validation"].take(files)
        with pytest.raises(ValueError, match=r"2 columns.*1 columns"):
            parts["validation"].take(scan_parquet(tmp_path / "records.parquet", label="label", columns=["x"]))

    def test_splits_and_parts_of_parts_have_their_own(self):
        ledger = Ledger(1.0, DELTA)
        ledger.split(SHARES)["train"].take(np.eye(3))
        part = ledger.split(SHARES, name="other")["train"]
        part.take(FRAME)
        part.split(SHARES)["train"].take(np.eye(3))


def test_paths():
    assert joined("", "s", "a") == "s/a"
    assert joined("s/a", "t", "x") == "s/a/t/x"


def test_parts_come_in_the_order_of_their_shares():
    """Otherwise unpacking them could swap training and test records."""
    ledger = Ledger(1.0, 1e-6)
    assert list(ledger.split({"train": 0.8, "test": 0.2})) == ["train", "test"]
    test, train = ledger.split({"test": 0.2, "train": 0.8}).values()  # the same split
    assert (test.share, train.share) == (0.2, 0.8)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_parts_of_files_are_those_of_the_same_records_in_memory(relation, tmp_path):
    """Whatever the batches and labels; parts of parts; changed files are detected."""
    path = tmp_path / "records.parquet"
    frame = pd.DataFrame(
        {"tables": np.arange(500.0) % 90, "blocks": np.where(np.arange(500) % 7, 1.5, np.nan)}
    )
    frame.assign(label=np.arange(500)).to_parquet(path)
    files = scan_parquet(path, label="label", chunk_rows=37)
    parts = Ledger(1.0, 1e-6, neighbors=relation).split({"train": 0.7, "test": 0.3})
    taken = [part.take(files) for part in parts.values()]
    for part, own in zip(parts.values(), taken, strict=True):
        np.testing.assert_array_equal(own.targets(), part.take(frame, np.arange(500))[1])
    assert sorted(np.concatenate([own.targets() for own in taken])) == list(range(500))
    if relation == "add_or_remove":
        inner = parts["train"].split({"one": 0.5, "other": 0.5})
        both = [part.take(taken[0]).targets() for part in inner.values()]
        assert 0 < len(both[0]) < len(taken[0].targets())
        assert sorted(np.concatenate(both)) == sorted(taken[0].targets())
    with pytest.raises(ValueError, match="hold the labels"):
        parts["train"].take(files, np.arange(500))
    frame.assign(label=1)[:400].to_parquet(path)
    with pytest.raises(DataError, match="hold 400 records, and held 500"):
        taken[0].targets()
