"""Crash safety of the durable ledger: everything that was released had been charged before."""

import contextlib
import os
import random
import signal
import time
from collections import Counter

import pytest

from accounting.forks import in_child
from dperm.accounting import SqliteLedger, open_ledger
from dperm.accounting.units import budget_units
from dperm.errors import BudgetExceededError

DELTA = 1e-6
EPSILON = 0.05
UNITS = budget_units(EPSILON, DELTA)
#: Kills in the long test, which takes about a tenth of a second for each.
KILLS = int(os.environ.get("DPERM_KILLS", "400"))
SHARES = {"train": 0.7, "validation": 0.3}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def charge_and_release(ledger, releases, name):
    """Repeatedly charge the ledger or one of its parts, then record that something was released."""
    accounts = [ledger, *ledger.split(SHARES).values()]
    for number in range(1_000_000):
        with contextlib.suppress(BudgetExceededError):
            account = accounts[number % len(accounts)]
            entry = account.charge(epsilon=EPSILON, delta=DELTA, description=f"{name}-{number}")
            os.write(releases, f"{entry.description}\n".encode())
            os.fsync(releases)


def check(path, release_file, name="adult"):
    """Every release has exactly one charge, and the file is intact."""
    released = release_file.read_text().split()  # read first, since others may still be charging
    ledger = open_ledger(path, name)  # verifies pages, indexes and chain
    charges = [entry for entry in ledger.history() if entry.kind == "charge"]
    charged = [entry.description for entry in charges]
    assert len(set(charged)) == len(charged)
    assert len(set(released)) == len(released)
    assert set(released) <= set(charged)
    by_part = Counter(entry.part for entry in charges)
    largest = max([count for part, count in by_part.items() if part], default=0)
    units = (by_part[""] + largest) * UNITS
    assert units <= ledger.charged.units <= ledger.caps.units  # others may still be charging
    return len(charged), len(released)


def kill_at_random(tmp_path, kills, epsilon, seed=0, processes=2, until_used_up=False):
    """Kill charging processes `kills` times, and then until no charge fits if `until_used_up`."""
    path, release_file = tmp_path / "budget.db", tmp_path / "releases"
    ledger = open_ledger(path, "adult", epsilon, DELTA)
    rng = random.Random(seed)
    releases = os.open(release_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    killed = 0
    running = []
    while killed < kills or (until_used_up and ledger.caps.units - ledger.charged.units >= UNITS):
        while len(running) < processes:  # others continue while one is killed
            name = f"{killed}-{len(running)}-{rng.random()}"
            running.append(in_child(lambda name=name: charge_and_release(ledger, releases, name)))
        time.sleep(rng.expovariate(1 / 0.02))
        victims = running if rng.random() < 0.3 else [running[0]]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        for victim in victims:
            assert os.WIFSIGNALED(os.waitpid(victim, 0)[1])  # a child that failed would have exited
        killed += len(victims)
        running = [child for child in running if child not in victims]
        if rng.random() < 0.1:
            check(path, release_file)
    for child in running:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(releases)
    return check(path, release_file)


def test_kills_at_random_instants(tmp_path):
    charged, released = kill_at_random(tmp_path, kills=50, epsilon=8.0)
    assert charged >= released > 10


def test_kills_while_the_budget_runs_out(tmp_path):
    charged, _ = kill_at_random(tmp_path, kills=15, epsilon=0.3, until_used_up=True)
    ledger = open_ledger(tmp_path / "budget.db", "adult")
    assert ledger.caps.units - ledger.charged.units < UNITS
    assert charged >= ledger.charged.units // UNITS


@pytest.mark.slow
def test_many_kills(tmp_path):
    charged, released = kill_at_random(tmp_path, kills=KILLS, epsilon=20.0, seed=1, processes=4)
    assert charged >= released > KILLS / 2


@pytest.mark.parametrize("fresh", [False, True], ids=["inherited", "opened"])
def test_processes_together_never_pass_the_total(tmp_path, fresh):
    path, release_file = tmp_path / "budget.db", tmp_path / "releases"
    ledger = open_ledger(path, "adult", 1.0, DELTA)
    possible = ledger.caps.units // UNITS
    releases = os.open(release_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hammer(name):
        while not (tmp_path / "go").exists():
            time.sleep(1e-3)
        mine = SqliteLedger(path, "adult") if fresh else ledger
        for number in range(possible):
            try:
                mine.charge(epsilon=EPSILON, delta=DELTA, description=f"{name}-{number}")
            except BudgetExceededError:
                return
            os.write(releases, f"{name}-{number}\n".encode())
            (tmp_path / f"started-{name}").touch()
            deadline = time.monotonic() + 60.0
            while len(list(tmp_path.glob("started-*"))) < 3:  # a busy machine might run one after the other
                assert time.monotonic() < deadline, "another process has failed"
                time.sleep(1e-3)

    assert possible > 3
    children = [in_child(lambda name=name: hammer(name)) for name in range(3)]
    (tmp_path / "go").touch()
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    os.close(releases)
    assert check(path, release_file) == (possible, possible)
    assert len({entry.process for entry in ledger.history()}) == 3


def test_a_kill_while_the_file_is_created_leaves_nothing_or_all(tmp_path):
    rng = random.Random(0)
    for number in range(10):
        path = tmp_path / f"{number}.db"
        child = in_child(lambda path=path: open_ledger(path, "adult", 1.0, DELTA))
        time.sleep(rng.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert open_ledger(path, "adult", 1.0, DELTA).history() == []


def test_a_stopped_process_holds_up_nobody_for_longer_than_the_timeout(tmp_path):
    ledger = open_ledger(tmp_path / "budget.db", "adult", 8.0, DELTA, timeout=0.2)
    releases = os.open(tmp_path / "releases", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    child = in_child(lambda: charge_and_release(ledger, releases, "child"))
    try:
        for _ in range(5):
            time.sleep(0.02)
            os.kill(child, signal.SIGSTOP)
            started = time.monotonic()
            with contextlib.suppress(RuntimeError):
                ledger.charge(epsilon=EPSILON, delta=DELTA, description=f"mine {time.monotonic()}")
            assert time.monotonic() - started < 5.0
            os.kill(child, signal.SIGCONT)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(releases)
    assert len(ledger.history()) > 0
