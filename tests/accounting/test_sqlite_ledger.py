"""The durable ledger in one process: it behaves like the one in memory, and protects its file."""

import contextlib
import copy
import itertools
import math
import os
import pickle
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from accounting.forks import in_child
from accounting.ledger_contract import ChargingEstimator, LedgerContract
from dperm import LogisticRegression
from dperm.accounting import SqliteLedger, open_ledger
from dperm.accounting.ledger import sqlite_ledger
from dperm.accounting.ledger.sqlite_ledger import ledger_names
from dperm.accounting.units import budget_units
from dperm.errors import (
    BudgetExceededError,
    LedgerCorruptError,
    LedgerError,
    LedgerLockedError,
    LedgerMismatchError,
    LedgerNotFoundError,
    LedgerVersionError,
)
from reference.threads import in_threads

DELTA = 1e-6


def edit(path, *statements):
    """Change a file as in an SQLite shell."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


class TestSqliteLedger(LedgerContract):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        cls.path = tmp_path_factory.mktemp("contract") / "budget.db"
        cls.number = itertools.count()

    def make(self, epsilon, delta, accountant="gdp", *, name="data", **terms):
        names = ledger_names(self.path) if self.path.exists() else []
        name = name if name not in names else f"{name} {next(self.number)}"
        return open_ledger(self.path, name, epsilon, delta, accountant, **terms)

    def test_grid_search_in_processes_charges_every_fit(self):
        ledger = self.make(3.0, DELTA)
        search = GridSearchCV(ChargingEstimator(ledger=ledger), {"epsilon": [0.1, 0.2]}, cv=3, n_jobs=2)
        search.fit([[0.0]] * 6, [0, 1] * 3)
        assert len(ledger.history()) == 7
        assert search.best_estimator_.ledger is ledger
        assert len({entry.process for entry in ledger.history()} - {os.getpid()}) >= 1


class TestOpening:
    def test_what_was_created_is_found_again(self, path, ledger):
        entry = ledger.charge(epsilon=1.0, delta=DELTA, description="first", statement={"clip": (1, np.inf)})
        again = open_ledger(path, "adult")
        assert again.history() == [entry]
        assert entry.statement["clip"] == [1, "inf"]
        assert (again.epsilon, again.delta, again.accountant, again.name) == (3.0, DELTA, "gdp", "adult")
        assert (again.spent, again.seal, again.caps) == (1.0, ledger.seal, ledger.caps)
        assert again == ledger
        assert open_ledger(path, "adult", 3.0, DELTA) == ledger
        assert open_ledger(path, "adult", Fraction(3), DELTA) == ledger

    def test_relative_and_absolute_urls(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ledger = open_ledger("sqlite:///budget.db", "adult", 1.0, DELTA)
        assert Path(ledger.path) == (tmp_path / "budget.db").resolve()
        monkeypatch.chdir("/")
        ledger.charge(epsilon=0.1, delta=DELTA)
        assert open_ledger(f"sqlite:///{tmp_path}/budget.db", "adult").spent == pytest.approx(0.1)

    @pytest.mark.parametrize("url", ["budget.db", "sqlite://budget.db", "sqlite:///", "sqlite:///:memory:"])
    def test_urls_that_name_no_file(self, url):
        with pytest.raises(ValueError, match="url must be sqlite:///"):
            open_ledger(url, "adult", 1.0, DELTA)

    def test_odd_characters_in_path_and_name(self, tmp_path):
        path = tmp_path / "bud get?#%20é'.db"
        ledger = open_ledger(path, "adult 'é\"?;--", 1.0, DELTA)
        ledger.charge(epsilon=0.1, delta=DELTA, description="Zoë's\nfit")
        assert ledger_names(path) == ["adult 'é\"?;--"]
        assert open_ledger(path, ledger.name).history()[0].description == "Zoë's\nfit"

    @pytest.mark.parametrize("name", ["", " adult", "a\nb", None])
    def test_bad_names(self, path, name):
        with pytest.raises(ValueError, match="name must be"):
            open_ledger(path, name, 1.0, DELTA)
        assert not path.exists()

    def test_bad_budgets_create_nothing(self, path):
        for epsilon, delta in [(0.0, DELTA), (1.0, 0.0), (1.0, None), (None, DELTA), (1e-12, 1e-300)]:
            with pytest.raises(ValueError, match=r"must be|give both|too small"):
                open_ledger(path, "adult", epsilon, delta)
        with pytest.raises(ValueError, match="accountant must be"):
            open_ledger(path, "adult", 1.0, DELTA, "rdp")
        assert not path.exists()

    @pytest.mark.parametrize("other", [(2.0, DELTA, None), (3.0, 1e-7, None), (3.0, DELTA, "zcdp")])
    def test_another_budget_is_an_error(self, path, ledger, other):
        with pytest.raises(
            LedgerMismatchError, match=r"'adult' was created with .*cannot be changed"
        ) as caught:
            open_ledger(path, "adult", *other)
        assert isinstance(caught.value, ValueError)
        assert open_ledger(path, "adult").epsilon == 3.0

    def test_missing_file_and_unknown_name_say_how_to_create(self, path):
        with pytest.raises(LedgerNotFoundError, match=r"no such file.*epsilon=.*dperm budget create"):
            open_ledger(path, "adult")
        assert not path.exists()
        open_ledger(path, "adult", 1.0, DELTA)
        with pytest.raises(LedgerNotFoundError, match=r"'bank' in it, but 'adult'.*dperm budget create"):
            open_ledger(path, "bank")
        with pytest.raises(LedgerNotFoundError):
            open_ledger(path / "below.db", "adult")
        with pytest.raises(LedgerError):
            open_ledger(path.parent / "no folder" / "budget.db", "adult", 1.0, DELTA)

    def test_several_data_sets_in_a_file(self, path, ledger):
        other = open_ledger(path, "bank", 1.0, 1e-5, "zcdp")
        ledger.charge(epsilon=1.0, delta=DELTA)
        other.charge(epsilon=0.5, delta=1e-5)
        ledger.charge(epsilon=1.0, delta=DELTA)
        assert (len(ledger.history()), len(other.history())) == (2, 1)
        assert (other.spent, str(other.accountant)) == (pytest.approx(0.5), "zcdp")
        assert ledger != other
        assert ledger_names(path) == ["adult", "bank"]

    def test_units_beyond_64_bits_and_infinite(self, path):
        for name, epsilon in [("large", 700.0), ("unlimited", math.inf)]:
            ledger = open_ledger(path, name, epsilon, DELTA)
            ledger.charge(epsilon=epsilon, delta=DELTA)
            assert ledger.caps.units > 2**64
            again = open_ledger(path, name, epsilon, DELTA)
            assert (again.spent, again.charged.units) == (epsilon, ledger.caps.units)

    def test_only_one_of_two_creators_creates(self, path):
        ledgers = []
        in_threads(lambda _: ledgers.append(open_ledger(path, "adult", 1.0, DELTA)), 8)
        assert len(ledgers) == 8
        assert len(set(ledgers)) == 1
        assert not list(path.parent.glob("*.new*"))


class TestHandles:
    def test_pickles_are_the_same_budget(self, ledger):
        ledger.charge(epsilon=1.0, delta=DELTA)
        other = pickle.loads(pickle.dumps(ledger))
        assert other == ledger
        assert hash(other) == hash(ledger)
        other.charge(epsilon=1.0, delta=DELTA)
        assert ledger.spent == other.spent > 1.0
        assert copy.deepcopy(ledger) == copy.copy(ledger) == clone(ledger) == ledger

    def test_threads_never_overspend(self, ledger):
        possible = ledger.caps.units // budget_units(1.0, DELTA)
        handles = [ledger, pickle.loads(pickle.dumps(ledger)), SqliteLedger(ledger.path, "adult")]
        accepted = []

        def hammer(i):
            for _ in range(5):
                try:
                    accepted.append(handles[i % 3].charge(epsilon=1.0, delta=DELTA))
                except BudgetExceededError:
                    return

        in_threads(hammer, 6)
        assert len(accepted) == len(ledger.history()) == possible

    def test_repr(self, ledger):
        ledger.charge(epsilon=1.0, delta=DELTA)
        assert repr(ledger).startswith("SqliteLedger('adult', epsilon=3, delta=1e-06")
        assert repr(ledger).endswith("charges=1)")

    def test_a_fit_is_charged_and_described_before_it_starts(self, ledger):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(50, 2)), np.arange(50) % 2
        model = LogisticRegression(
            2.5, DELTA, solver="noisy_gd", learn_scales=False, classes=[0, 1], ledger=ledger
        )
        model.fit(X, y)
        (entry,) = SqliteLedger(ledger.path, "adult").history()
        facts = entry.statement
        assert (entry.description, entry.process, entry.version) == ("noisy_gd", os.getpid(), "0.1.0")
        assert facts["algorithm"] == "noisy_gd"
        assert (facts["epsilon"], facts["delta"], facts["accountant"]) == (2.5, DELTA, "gdp")
        assert (facts["neighbors"], facts["random"], facts["n"]) == ("add_or_remove", "cryptographic", 50)
        assert facts["clip"] == model.privacy_.clip
        unfitted = clone(model)
        with pytest.raises(BudgetExceededError, match="ledger 'adult'"):
            unfitted.fit(X, y)
        assert not hasattr(unfitted, "coef_")
        assert len(ledger.history()) == 1

    def test_no_fit_without_the_file(self, ledger):
        os.remove(ledger.path)
        model = LogisticRegression(1.0, DELTA, classes=[0, 1], ledger=ledger)
        with pytest.raises(LedgerNotFoundError):
            model.fit(np.eye(4), [0, 1, 0, 1])
        assert not hasattr(model, "coef_")


class TestTampering:
    def test_charges_are_append_only(self, path, ledger):
        ledger.charge(epsilon=1.0, delta=DELTA)
        for statement in [
            "DELETE FROM entry",
            "UPDATE entry SET cost = '0 0 0'",
            "DELETE FROM ledger",
            "UPDATE ledger SET epsilon = 100",
            "UPDATE ledger SET entries = 0",
            "INSERT OR REPLACE INTO entry SELECT * FROM entry",
            "REPLACE INTO entry SELECT 1, ledger, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '' FROM entry",
        ]:
            with pytest.raises(sqlite3.IntegrityError):
                edit(path, statement)
        assert open_ledger(path, "adult").spent == 1.0

    @pytest.mark.parametrize(
        "statements",
        [
            ["DROP TRIGGER entry_is_kept"],
            ["DROP TRIGGER entry_is_fixed", "UPDATE entry SET cost = '1 0 0' WHERE sequence = 1"],
            ["DROP TRIGGER ledger_is_fixed", "UPDATE ledger SET epsilon = 9"],
            ["CREATE TRIGGER more BEFORE INSERT ON entry BEGIN SELECT 1; END"],
            ["PRAGMA writable_schema = ON", "UPDATE sqlite_master SET name = 'x' WHERE type = 'trigger'"],
        ],
    )
    def test_altered_tables(self, path, ledger, statements):
        ledger.charge(epsilon=1.0, delta=DELTA)
        edit(path, *statements)
        with pytest.raises(LedgerCorruptError, match=r"altered|damaged"):
            open_ledger(path, "adult")

    @pytest.mark.parametrize(
        ("trigger", "statement"),
        [
            ("entry_is_fixed", "UPDATE entry SET epsilon = 0.2 WHERE sequence = 1"),
            ("entry_is_kept", "DELETE FROM entry WHERE sequence = 2"),
            ("entry_is_kept", "DELETE FROM entry WHERE sequence = 3"),
            ("ledger_is_fixed", "UPDATE ledger SET caps = '1' || caps"),
            ("ledger_is_fixed", "UPDATE ledger SET entries = 2"),
        ],
    )
    def test_altered_rows_behind_restored_triggers(self, path, ledger, trigger, statement):
        for _ in range(3):
            ledger.charge(epsilon=0.1, delta=DELTA)
        connection = sqlite3.connect(path)
        (text,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (trigger,)).fetchone()
        connection.close()
        edit(path, f"DROP TRIGGER {trigger}", statement, text)
        with pytest.raises(LedgerCorruptError):
            open_ledger(path, "adult")
        with pytest.raises(LedgerCorruptError):
            ledger.history()

    def test_a_charge_verifies_what_it_has_not_seen(self, path, ledger):
        ledger.charge(epsilon=0.1, delta=DELTA)
        stale = pickle.loads(pickle.dumps(ledger))
        ledger.charge(epsilon=0.1, delta=DELTA)
        edit(path, "DROP TRIGGER entry_is_fixed", "UPDATE entry SET description = 'x' WHERE sequence = 2")
        with pytest.raises(LedgerCorruptError, match="charge 2 was altered"):
            stale.charge(epsilon=0.1, delta=DELTA)

    def test_an_older_copy_in_its_place_is_noticed(self, path, ledger):
        ledger.charge(epsilon=0.1, delta=DELTA)
        with (
            contextlib.closing(sqlite3.connect(path.with_name("backup.db"))) as backup,
            contextlib.closing(sqlite3.connect(path)) as source,
        ):
            source.backup(backup)
        ledger.charge(epsilon=0.1, delta=DELTA)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        shutil.copy(path.with_name("backup.db"), path)
        with pytest.raises(LedgerCorruptError, match="holds 1 charges, but 2 were stored"):
            open_ledger(path, "adult")
        Path(f"{path}-count").unlink()
        assert len(open_ledger(path, "adult").history()) == 1  # nothing is left that would reveal it ...
        with pytest.raises(LedgerCorruptError, match="charge 2 was there before"):
            ledger.charge(epsilon=0.1, delta=DELTA)  # ... but an object that has seen the charge

    def test_another_ledger_of_the_same_name_is_noticed(self, path, ledger):
        other = open_ledger(path.with_name("other.db"), "adult", 3.0, DELTA)
        other.charge(epsilon=0.1, delta=DELTA)
        os.replace(other.path, path)
        with pytest.raises(LedgerError):  # replaced, or mixed up with the log of the one before
            ledger.charge(epsilon=0.1, delta=DELTA)

    def test_a_deleted_ledger_is_not_silently_replaced(self, path, ledger):
        ledger.charge(epsilon=3.0, delta=DELTA)
        os.remove(path)
        with pytest.raises(LedgerError, match=r"is gone, but .*-count.* Put the ledger file back"):
            open_ledger(path, "adult", 3.0, DELTA)
        assert not path.exists()

    @pytest.mark.parametrize(
        ("version", "words"),
        [
            (3, r"format 3.*Install a newer dperm"),
            (1, r"format 1.*neighbouring relations.*create a new ledger"),
        ],
    )
    def test_other_formats(self, path, ledger, version, words):
        edit(path, f"PRAGMA user_version = {version}")
        for use in (lambda: open_ledger(path, "adult"), lambda: ledger.charge(epsilon=0.1, delta=DELTA)):
            with pytest.raises(LedgerVersionError, match=words):
                use()

    def test_other_databases_are_left_alone(self, path):
        edit(path, "CREATE TABLE mine (a)")
        before = path.read_bytes()
        with pytest.raises(LedgerCorruptError, match="no ledger"):
            open_ledger(path, "adult", 1.0, DELTA)
        assert path.read_bytes() == before


class TestClock:
    def test_a_clock_that_was_wrong_dates_one_entry(self, ledger, monkeypatch):
        class Clock(datetime):
            offset = timedelta(0)

            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + cls.offset

        monkeypatch.setattr(sqlite_ledger, "datetime", Clock)
        first = ledger.charge(epsilon=0.1, delta=DELTA)
        Clock.offset = timedelta(days=40000)
        second = ledger.charge(epsilon=0.1, delta=DELTA)
        assert second.when.year > 2100
        Clock.offset = timedelta(0)
        third = ledger.charge(epsilon=0.1, delta=DELTA)
        assert first.when < third.when < second.when
        assert SqliteLedger(ledger.path, "adult").history() == [first, second, third]
        assert first.when.tzinfo is UTC


def test_locked_by_another_process(path, ledger):
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    impatient = SqliteLedger(path, "adult", timeout=0.05)
    with pytest.raises(LedgerLockedError, match=r"Another process held it.*Nothing was charged.*Try again"):
        impatient.charge(epsilon=0.1, delta=DELTA)
    assert impatient.spent == 0.0
    holder.execute("ROLLBACK")
    holder.close()
    impatient.charge(epsilon=0.1, delta=DELTA)


def test_errors_survive_pickling(path):
    with pytest.raises(LedgerNotFoundError) as caught:
        open_ledger(path, "adult")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.path, type(again)) == (str(caught.value), str(path), LedgerNotFoundError)


def test_the_fork_of_a_process_charges_the_same_file(ledger):
    ledger.charge(epsilon=0.1, delta=DELTA)
    child = in_child(lambda: ledger.charge(epsilon=0.1, delta=DELTA))
    ledger.charge(epsilon=0.1, delta=DELTA)
    assert os.waitpid(child, 0)[1] == 0
    assert len({entry.process for entry in ledger.history()}) == 2
    assert len(ledger.history()) == 3
