"""Damaged files and full or read-only disks: errors say what to do, and no charge goes unnoticed."""

import contextlib
import os
import pickle
import random
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

from accounting.forks import in_child
from dperm.accounting import open_ledger
from dperm.accounting.ledger import store
from dperm.errors import (
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    LedgerInDoubtError,
    LedgerReadOnlyError,
)

DELTA = 1e-6


@pytest.fixture
def closed(path, ledger):
    """A ledger with 60 charges, whose file no process has open."""
    for number in range(60):
        ledger.charge(epsilon=0.05, delta=DELTA, description=f"fit {number}", statement={"n": number})
    store.discard(ledger.path)
    assert not Path(f"{path}-wal").exists()
    return ledger


def outcome(ledger, known):
    """The error that a later process finds, or None if it finds exactly the known charges."""
    store.discard(ledger.path)
    try:
        found = open_ledger(Path(ledger.path), "adult").history()
    except LedgerError as error:
        return error
    finally:
        store.discard(ledger.path)
    assert found == known
    return None


def test_flipped_bytes_are_detected_or_harmless(closed):
    path, known, rng = Path(closed.path), closed.history(), random.Random(0)
    store.discard(closed.path)
    intact = path.read_bytes()
    detected = 0
    for trial in range(300):
        damaged = bytearray(intact)
        # Half of the trials aim at the header and the schema.
        offset = rng.randrange(4096 if trial % 2 else len(intact))
        damaged[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        error = outcome(closed, known)
        detected += error is not None
        assert error is None or error.advice
    assert detected > 100
    path.write_bytes(intact)
    assert outcome(closed, known) is None


def test_overwritten_stretches_are_detected_or_harmless(closed):
    path, known, rng = Path(closed.path), closed.history(), random.Random(1)
    store.discard(closed.path)
    intact = path.read_bytes()
    for _ in range(60):
        damaged = bytearray(intact)
        offset, length = rng.randrange(len(intact)), rng.choice([4, 64, 512, 4096])
        damaged[offset : offset + length] = rng.choice([bytes, rng.randbytes])(length)
        path.write_bytes(damaged)
        outcome(closed, known)


def test_a_damaged_or_deleted_log_is_detected(tmp_path, ledger):
    for _ in range(10):
        ledger.charge(epsilon=0.05, delta=DELTA)
    known = ledger.history()
    crashed = tmp_path / "crashed"  # what is on disk while the file is open, as after a kill
    crashed.mkdir()
    for name in ("budget.db", "budget.db-wal", "budget.db-count"):
        shutil.copy(tmp_path / name, crashed)
    log = crashed / "budget.db-wal"
    intact, rng = log.read_bytes(), random.Random(2)
    main = (crashed / "budget.db").read_bytes()
    moved = pickle.loads(pickle.dumps(ledger))
    moved._file.path = str(crashed / "budget.db")
    for _ in range(60):
        damaged = bytearray(intact)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (crashed / "budget.db").write_bytes(main)
        log.write_bytes(damaged)
        Path(f"{moved.path}-shm").unlink(missing_ok=True)
        outcome(moved, known)
    (crashed / "budget.db").write_bytes(main)
    log.unlink(missing_ok=True)
    assert isinstance(outcome(moved, known), LedgerError)


@pytest.mark.parametrize("keep", [0, 1, 15, 100, 4096, 5000, 8192, 0.5, 0.9, 0.999])
def test_truncated_files(closed, keep):
    known = closed.history()
    store.discard(closed.path)
    size = os.stat(closed.path).st_size
    os.truncate(closed.path, int(keep * size) if isinstance(keep, float) else keep)
    error = outcome(closed, known)
    assert isinstance(error, LedgerCorruptError)
    assert "restore a copy" in str(error)
    with pytest.raises(LedgerError):
        open_ledger(Path(closed.path), "adult", 3.0, DELTA)  # not created again
    with pytest.raises(LedgerError):
        closed.charge(epsilon=0.05, delta=DELTA)


def test_not_a_database(path):
    path.write_text("not a database, but longer than the header of one " * 100)
    with pytest.raises(LedgerCorruptError, match="damaged, or no database"):
        open_ledger(path, "adult", 1.0, DELTA)
    path.unlink()
    path.mkdir()
    with pytest.raises(LedgerError):
        open_ledger(path, "adult", 1.0, DELTA)


def fill(ledger):
    """Charge until the disk is full; return how many charges were stored, and the error."""
    for number in range(2000):
        try:
            ledger.charge(epsilon=1e-4, delta=DELTA, description="x" * 500)
        except LedgerError as error:
            return number, error
    pytest.fail("never full")


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(not shutil.which("mount"), reason="needs mount")
def test_full_disk(small_disk):
    ledger = open_ledger(small_disk / "budget.db", "adult", 3.0, DELTA)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(60_000))
    stored, error = fill(ledger)
    assert isinstance(error, LedgerFullError)
    assert "No space is left" in str(error)
    ballast.unlink()
    assert len(ledger.history()) == stored > 0
    ledger.charge(epsilon=1e-4, delta=DELTA)
    assert len(ledger.history()) == stored + 1
    store.discard(ledger.path)


@contextlib.contextmanager
def file_size_limit(size):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_full_disk_at_creation(path):
    with file_size_limit(8192), pytest.raises(LedgerError):
        open_ledger(path, "adult", 3.0, DELTA)
    assert os.listdir(path.parent) == []


def test_file_size_limit(ledger):
    with file_size_limit(100_000):
        stored, error = fill(ledger)
    # The commit failed: the charge may count, and nothing may be released for it.
    assert isinstance(error, LedgerInDoubtError)
    assert "may have been stored" in str(error)
    assert stored <= len(ledger.history()) <= stored + 1
    ledger.charge(epsilon=1e-4, delta=DELTA)


def test_page_limit(path, monkeypatch):
    configured = store._configured

    def limited(path):
        connection = configured(path)
        connection.execute("PRAGMA max_page_count = 20")
        return connection

    monkeypatch.setattr(store, "_configured", limited)
    ledger = open_ledger(path, "adult", 3.0, DELTA)
    stored, error = fill(ledger)
    assert isinstance(error, LedgerFullError)
    assert len(ledger.history()) == stored
    store.discard(ledger.path)


class FailingCommit:
    """A connection whose commit reports an error, before or after it has happened."""

    def __init__(self, connection, happens):
        self.connection = connection
        self.happens = happens

    def execute(self, statement, *arguments):
        if statement == "COMMIT":
            if self.happens:
                self.connection.execute(statement)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return self.connection.execute(statement, *arguments)

    def __getattr__(self, name):
        return getattr(self.connection, name)


@pytest.mark.parametrize("happens", [False, True])
def test_a_commit_of_unknown_outcome_raises(closed, happens):
    closed.charge(epsilon=0.05, delta=DELTA)
    kept = store._KEPT[closed.path]
    kept.connection = FailingCommit(kept.connection, happens)
    with pytest.raises(LedgerInDoubtError, match=r"at the commit.*may have been stored.*Nothing may be"):
        closed.charge(epsilon=0.05, delta=DELTA, description="in doubt")
    descriptions = [entry.description for entry in closed.history()]
    assert descriptions.count("in doubt") == happens
    closed.charge(epsilon=0.05, delta=DELTA)


def test_an_interrupt_undoes_the_charge(closed, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr("dperm.accounting.ledger.chain.append", interrupt)
        closed.charge(epsilon=0.05, delta=DELTA)
    assert len(closed.history()) == 60
    closed.charge(epsilon=0.05, delta=DELTA)


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("name", ["budget.db", "rollback.db"])
def test_read_only(what, name, monkeypatch):
    """The superuser may write everything, so the attempt is made as nobody."""
    if name == "rollback.db":
        monkeypatch.setattr(store, "on_local_file_system", lambda path: False)
    folder = Path(tempfile.mkdtemp())
    try:
        ledger = open_ledger(folder / name, "adult", 3.0, DELTA)
        ledger.charge(epsilon=1.0, delta=DELTA)
        store.discard(ledger.path)
        folder.chmod(0o555 if what == "folder" else 0o777)
        for file in folder.iterdir():
            file.chmod(0o666 if what == "folder" else 0o444)

        def charge_as_nobody():
            if os.getuid() == 0:
                os.setuid(65534)
            with pytest.raises(LedgerReadOnlyError, match="cannot be written"):
                ledger.charge(epsilon=1.0, delta=DELTA)

        assert os.waitpid(in_child(charge_as_nobody), 0)[1] == 0
        folder.chmod(0o755)
        assert ledger.spent == 1.0
    finally:
        store.discard(str(folder / name))
        shutil.rmtree(folder)


class TestNetworkFileSystems:
    @pytest.mark.parametrize(
        ("path", "local"),
        [
            ("/srv/budget.db", True),
            ("/home/ada/budget.db", False),
            ("/home/budget.db", False),
            ("/homes/budget.db", True),
            ("/mnt/with space/budget.db", False),
        ],
    )
    def test_mounts(self, tmp_path, path, local):
        mounts = tmp_path / "mountinfo"
        mounts.write_text(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
            "28 27 0:5 / /home rw - nfs4 server:/home rw\n"
            "29 27 0:6 / /mnt/with\\040space rw shared:1 - fuse.sshfs ada@host: rw\n"
        )
        assert store.on_local_file_system(path, str(mounts)) is local

    def test_unknown_is_not_local(self, tmp_path):
        assert not store.on_local_file_system("/srv/budget.db", str(tmp_path / "missing"))

    def test_no_shared_memory_is_used(self, path, ledger, monkeypatch):
        ledger.charge(epsilon=0.1, delta=DELTA)
        store.discard(ledger.path)
        monkeypatch.setattr(store, "on_local_file_system", lambda path: False)
        for other in (open_ledger(path, "adult"), open_ledger(path.with_name("new.db"), "adult", 3.0, DELTA)):
            other.charge(epsilon=0.1, delta=DELTA)
            assert not Path(f"{other.path}-shm").exists()
            assert store._journal(store._KEPT[other.path].connection) == "delete"
        assert len(ledger.history()) == 2


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("damage", ["UPDATE secret SET value = ?", "DELETE FROM secret"])
def test_the_key_of_a_split_cannot_be_changed_or_drawn_again(path, relation, damage):
    """Another key puts half of the records into both parts, at the price of one."""
    ledger = open_ledger(path, "adult", 1.0, DELTA, neighbors=relation)
    shares = {"a": 0.5, "b": 0.5}
    part = ledger.split(shares)["a"]
    part.mask([[0.0], [1.0]])
    store.discard(ledger.path)
    flipped = bytes([part._coins.key[0] ^ 1]) + part._coins.key[1:]
    with contextlib.closing(sqlite3.connect(path)) as file:
        triggers = file.execute("SELECT name, sql FROM sqlite_master WHERE name LIKE 'secret_is%'").fetchall()
        for name, _ in triggers:
            file.execute(f"DROP TRIGGER {name}")
        file.execute(damage, [flipped] if "?" in damage else [])
        for _, statement in triggers:
            file.execute(statement)
        file.commit()
    for found in (ledger, open_ledger(path, "adult")):
        with pytest.raises(LedgerCorruptError, match=r"secret 'split/key'.*restore a copy"):
            found.split(shares)
    assert open_ledger(path, "adult").split(shares, name="another")["a"].share == 0.5
