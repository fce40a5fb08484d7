"""The file of a durable ledger: creation, connections, and transactions that are on disk when they end.

On a file system known to be local the file is in write-ahead mode with ``synchronous=EXTRA``: a commit is one
fsync of the log. Elsewhere (network file systems, where processes on several machines share no memory;
systems whose mounts cannot be listed) a rollback journal is used, which takes three more fsyncs.

A file ``<path>-count`` holds the number of charges. It is written after each commit, without fsync, so it is
never ahead of the database; a database with fewer charges has lost some (its log was deleted or damaged, or
it was replaced by an older copy).

SQLite connections must not be used across a fork: the child would believe that it holds the parent's locks. A
process has one connection to a file. All are closed before a fork, and both sides open new ones when needed.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import os
import secrets
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dperm._files import read_limited
from dperm.accounting.ledger import tables
from dperm.accounting.ledger.tables import COMMIT_UNDONE, RESTORE, primary_code, translated
from dperm.errors import (
    BudgetExceededError,
    LedgerCorruptError,
    LedgerError,
    LedgerInDoubtError,
    LedgerNotFoundError,
)

#: Held during every transaction, and by the process that forks.
LOCK = threading.RLock()

#: Seconds after which the log is copied into the database at the next charge.
TIDY_AFTER = 1.0

# Local file systems, on which processes share memory.
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "overlay"})

_EARLIER = (
    "If that ledger is lost for good and the data may be used under a new budget, delete these files and "
    "create it again."
)
_SMALLEST = 512  # bytes of a page


class LedgerFile:
    """One file; usable from any thread and any process, before and after a fork.

    Parameters
    ----------
    path : str or Path
        Made absolute.
    timeout : float
        How long to wait for other processes, seconds.
    """

    def __init__(self, path: str | Path, timeout: float) -> None:
        self.path = os.path.realpath(os.path.expanduser(path))
        self.timeout = timeout

    def exists(self) -> bool:
        """Whether there is anything at the path."""
        return os.path.lexists(self.path)

    def create(self) -> None:
        """Write an empty ledger file, unless another process has created one in the meantime.

        The file appears at its path complete, or not at all.
        """
        leftovers = [name for name in map(self._beside, ("-journal", "-wal", "-count")) if _size(name)]
        if self.exists():
            return
        if leftovers:
            raise LedgerError(
                self.path,
                f"It is gone, but {', '.join(leftovers)} of an earlier ledger is still there.",
                f"Put the ledger file back. {_EARLIER}",
            )
        new = f"{self.path}.{secrets.token_hex(8)}.new"
        try:
            with translated(self.path):
                write_new(new, tables.create)
                publish(new, self.path)
        finally:
            for name in (new, f"{new}-journal", f"{new}-wal", f"{new}-shm"):
                with contextlib.suppress(OSError):
                    os.remove(name)

    def check(self) -> None:
        """Raise if the file is damaged or not a ledger file. Reads all of it."""
        with LOCK, translated(self.path):
            kept = self._connection()
            kept.checked = False
            kept.verified.clear()
            with self.transaction(write=False):
                pass

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[Kept]:
        """A transaction; if it writes, it is on disk when the block ends without an exception.

        The first one on a connection checks the whole file. Inside another transaction of the same thread,
        it becomes part of that one.

        Raises
        ------
        LedgerError
            For any error of the file. The transaction is rolled back, or in doubt.
        """
        with LOCK, translated(self.path):
            kept = self._connection()
            if kept.connection.in_transaction:
                yield kept
                return
            try:
                self._begin(kept, write)
                yield kept
                charges = _charges(kept.connection)
                self._commit(kept, write)
            except BaseException as error:
                if isinstance(error, BudgetExceededError) or primary_code(error) == sqlite3.SQLITE_BUSY:
                    _roll_back(kept.connection)
                else:
                    discard(self.path)  # closing the connection rolls back
                raise
            if write:
                self._store_count(charges)
                tidy(kept)

    def _connection(self) -> Kept:
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise LedgerNotFoundError(
                self.path,
                "There is no such file.",
                "Check the path, or create the ledger: open_ledger(url, name, epsilon=..., delta=...) or "
                "`dperm budget create`.",
            ) from None
        if not stat.S_ISREG(found.st_mode):
            raise LedgerError(self.path, "It is a folder, a device or a pipe.", "Name the file of a ledger.")
        if found.st_size < _SMALLEST:  # SQLite would treat it as a new database
            raise LedgerCorruptError(self.path, "It is empty: its content was lost.", RESTORE)
        if found.st_nlink > 1:
            self._check_for_other_names(found)
        return connect(self.path, found)

    def _check_for_other_names(self, found: os.stat_result) -> None:
        """Refuse a file with a second name: charges made through that one have a log of their own."""
        for leftover in glob.glob(f"{glob.escape(self.path)}.*.new"):  # from a creation that was killed
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(leftover), found):
                    os.remove(leftover)
        if os.stat(self.path).st_nlink > 1:
            raise LedgerError(
                self.path,
                "It has a second name (a hard link), under which charges could be made unseen.",
                "Remove all names but one: `find -samefile` lists them. To use a ledger from several places, "
                "give them the same path or a symbolic link.",
            )

    def _begin(self, kept: Kept, write: bool) -> None:
        connection = kept.connection
        connection.execute(f"PRAGMA busy_timeout = {int(self.timeout * 1000)}")
        counted = self._stored_count()  # read first: the file can only have more
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        tables.check_kind(connection, self.path)
        if not kept.checked:
            tables.check_content(connection, self.path)
            kept.checked = True
        charges = _charges(connection)
        if charges < counted:
            raise LedgerCorruptError(
                self.path,
                f"It holds {charges} charges, but {counted} were stored: an older copy was put in its "
                f"place, or the file {self._beside('-wal')!r} was deleted or damaged.",
                f"Restore a copy that holds all charges. The number is kept in {self._beside('-count')!r}.",
            )

    def _commit(self, kept: Kept, write: bool) -> None:
        try:
            kept.connection.execute("COMMIT")
            if write and kept.unsynced_folder:
                sync_folder(self.path)
                kept.unsynced_folder = False
        except (sqlite3.Error, OSError) as error:
            if primary_code(error) in COMMIT_UNDONE:
                raise
            raise LedgerInDoubtError(
                self.path,
                f"Storing the charge failed at the commit: {error}.",
                "Nothing may be released for it. Look at the ledger's history, and at the disk.",
            ) from error

    def _beside(self, suffix: str) -> str:
        return self.path + suffix

    def _stored_count(self) -> int:
        try:
            # Not synced: after a power failure it may be empty, or zero bytes.
            return int(read_limited(self._beside("-count"), 64).strip(b"\0\n") or b"0")
        except FileNotFoundError:
            return 0
        except ValueError:
            raise LedgerCorruptError(
                self.path,
                f"The number of charges in {self._beside('-count')!r} is damaged.",
                "Compare the ledger's history with what you know, then delete that file.",
            ) from None

    def _store_count(self, charges: int) -> None:
        # A failure is harmless to the charge, which is on disk; only a loss may go unnoticed.
        with contextlib.suppress(OSError):
            number = os.open(self._beside("-count"), os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(number, b"%020d\n" % charges)  # one write of fixed length: never half of it
            finally:
                os.close(number)


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _charges(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()[0])


def _size(name: str) -> int:
    try:
        return os.stat(name).st_size
    except OSError:
        return 0


@dataclass
class Kept:
    """An open connection, the file (device and inode) behind it, and what was verified through it."""

    connection: sqlite3.Connection
    file: tuple[int, int]
    checked: bool = False  # pages, indexes and tables
    verified: set[int] = field(default_factory=set)  # ledgers whose chain was followed from the start
    unsynced_folder: bool = True  # the log may have been created
    tidied: float = field(default_factory=time.monotonic)


_KEPT: dict[str, Kept] = {}


def connect(path: str, found: os.stat_result) -> Kept:
    """The connection to the file at `path`, whose status is `found`."""
    file = (found.st_dev, found.st_ino)
    kept = _KEPT.get(path)
    if kept is not None and kept.file == file:
        return kept
    discard(path)  # replaced by another file
    if is_mounted(path):
        raise LedgerError(
            path,
            "It is mounted as a single file, so it has another name elsewhere, under which charges could be "
            "made that are not seen here.",
            "Mount the folder that it is in.",
        )
    connection = _configured(path)
    try:
        if _journal(connection) == "wal" and not on_local_file_system(path):
            connection.execute("PRAGMA journal_mode = DELETE")
    except BaseException:
        connection.close()
        raise
    _KEPT[path] = Kept(connection, file)
    return _KEPT[path]


def discard(path: str) -> None:
    """Close the connection to `path`; a transaction that was not committed is rolled back."""
    kept = _KEPT.pop(path, None)
    if kept is not None:
        with contextlib.suppress(sqlite3.Error):
            kept.connection.close()


def tidy(kept: Kept) -> None:
    """Copy the log into the database from time to time, so that the file alone is nearly complete."""
    now = time.monotonic()
    if now - kept.tidied > TIDY_AFTER:
        with contextlib.suppress(sqlite3.Error):  # everything is on disk already
            kept.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        kept.tidied = now


def write_new(path: str, write: Callable[[sqlite3.Connection], None]) -> None:
    """Create a database at `path`, a name that no other process uses."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # accessible to its owner only
    connection = _configured(path)
    try:
        write(connection)
        if on_local_file_system(path):
            connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    _fsync(path, os.O_RDWR)


def publish(new: str, path: str) -> None:
    """Give the finished file its final name, unless that exists; on disk when this returns."""
    try:
        os.link(new, path)
    except FileExistsError:
        return
    except OSError:  # no hard links on this file system
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.replace(new, path)
    sync_folder(path)


def sync_folder(path: str) -> None:
    """Write the folder of `path` to disk, so that a new file in it survives a power failure."""
    if sys.platform != "win32":
        _fsync(os.path.dirname(path), os.O_RDONLY)


def _fsync(path: str, flags: int) -> None:
    number = os.open(path, flags)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def on_local_file_system(path: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Whether `path` is known to be on a local file system; False if that is not certain."""
    folder = os.path.join(os.path.realpath(os.path.dirname(path)), "")
    best, kind = "", ""
    for mount_point, file_system in _mounts(mounts):
        point = os.path.join(mount_point, "")
        if folder.startswith(point) and len(point) >= len(best):
            best, kind = point, file_system
    return kind in _LOCAL


def is_mounted(path: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Whether a single file is mounted at `path`; False if mounts cannot be listed."""
    real = os.path.realpath(path)
    return any(point == real for point, _ in _mounts(mounts))


def _mounts(listing: str) -> Iterator[tuple[str, str]]:
    """Mount points and the types of their file systems; none if they cannot be listed."""
    try:
        lines = Path(listing).read_text().splitlines()
    except (OSError, UnicodeError):
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        yield before.split()[4].encode().decode("unicode_escape"), after.split()[0]


def _configured(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: flush the disk's cache, too
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _journal(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _close_all() -> None:
    for path in list(_KEPT):
        discard(path)


def _before_fork() -> None:
    LOCK.acquire()
    _close_all()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=LOCK.release, after_in_child=LOCK.release)
