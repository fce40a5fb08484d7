"""Parallel composition: fits on different parts of a split cost the largest, not the sum."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dperm.accounting import Cost, Ledger, open_ledger
from dperm.accounting.ledger.account import Account, joined
from dperm.accounting.ledger.terms import LedgerTerms
from dperm.errors import BudgetExceededError
from reference.threads import in_threads

DELTA = 1e-6
SHARES = {"train": 0.7, "validation": 0.2}


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    """Makes ledgers of both kinds."""
    if request.param == "memory":
        return Ledger
    return lambda *budget, **terms: open_ledger(tmp_path / "budget.db", "data", *budget, **terms)


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
        account = Account(LedgerTerms(1.0, DELTA), 1.0, Cost(100))
        account = Account(
            account.terms,
            1.0,
            Cost(100),
            splits={"": {"s": ("a", "b"), "u": ("c",)}, "s/a": {"t": ("x", "y")}},
        )
        spent = dict.fromkeys(nodes, 0)
        for node, units in charges:
            path = nodes[node]
            trial = spent | {path: spent[path] + units}
            leaves = [["s/a", "s/a/t/x"], ["s/a", "s/a/t/y"], ["s/b"]]
            worst = max(trial[""] + trial["u/c"] + sum(trial[each] for each in leaf) for leaf in leaves)
            cost = Cost(units)
            assert account.fits(path, cost) == (worst <= 100)
            assert cost.within(account.room(path)) == (worst <= 100)
            if worst <= 100:
                spent = trial
                charged = dict(account.charged)
                charged[path] = charged.get(path, Cost()) + cost
                account = Account(account.terms, 1.0, Cost(100), charged, account.splits)
                assert account.total() == Cost(worst)

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
        assert {len(each) for each in accepted.values()} == {ledger.total_units // unit}


class TestHandles:
    def test_the_same_split_is_found_again_and_another_is_refused(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(50, 3))
        first = open_ledger(tmp_path / "budget.db", "data", 1.0, DELTA).split(SHARES)["train"]
        again = open_ledger(tmp_path / "budget.db", "data").split(SHARES)["train"]
        np.testing.assert_array_equal(first.mask(X), again.mask(X))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).mask(X), first.mask(X))
        with pytest.raises(ValueError, match="split as 'split' before, with shares"):
            open_ledger(tmp_path / "budget.db", "data").split({"train": 0.5})
        other = open_ledger(tmp_path / "budget.db", "data").split(SHARES, name="other")["train"]
        assert (other.mask(X) != first.mask(X)).any()

    def test_the_key_is_not_shown(self, tmp_path):
        ledger = open_ledger(tmp_path / "budget.db", "data", 1.0, DELTA)
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


def frames(rng, n):
    """Records in every form, with equal contents."""
    dense = rng.integers(0, 3, size=(n, 4)).astype(np.float64)
    yield dense
    yield dense.astype(np.float32)
    yield sp.csr_matrix(dense)
    yield pd.DataFrame({"a": dense[:, 0], "b": rng.choice(["x", "y"], n), "c": dense[:, 2]})


def without(records, row):
    keep = np.arange(records.shape[0]) != row
    return records.iloc[keep] if hasattr(records, "iloc") else records[keep]


class TestCoins:
    def test_one_record_less_moves_no_other(self):
        """Every record of every form is left out once, the first one too."""
        for records in frames(np.random.default_rng(0), 40):
            parts = Ledger(1.0, DELTA).split(SHARES)
            masks = {name: part.mask(records) for name, part in parts.items()}
            for row in range(40):
                for name, part in parts.items():
                    np.testing.assert_array_equal(
                        part.mask(without(records, row)), np.delete(masks[name], row)
                    )

    def test_equal_records_stay_together_whatever_the_dtype(self):
        part = Ledger(1.0, DELTA).split({"half": 0.5})["half"]
        dense, single, _, _ = frames(np.random.default_rng(1), 200)
        mask = part.mask(dense)
        np.testing.assert_array_equal(mask, part.mask(single))
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
        part = Ledger(1.0, DELTA).split({"half": 0.5})["half"]
        for records in frames(np.random.default_rng(2), 80):
            labels = list(range(80))
            taken, own = part.take(records, labels)
            np.testing.assert_array_equal(own, np.flatnonzero(part.mask(records)))
            assert taken.shape[0] == own.size
            assert part.take(records).shape == taken.shape


def test_paths():
    assert joined("", "s", "a") == "s/a"
    assert joined("s/a", "t", "x") == "s/a/t/x"
