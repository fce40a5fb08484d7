"""The file of a durable ledger: creation, connections and transactions that are on disk when they end.

On a file system known to be local the file is in write-ahead mode with ``synchronous=EXTRA``: a commit is
one fsync of the log. Elsewhere (network file systems, where processes on several machines share no memory;
systems whose mounts cannot be listed) a rollback journal is used, slower by the three further fsyncs.

A file ``<path>-count`` holds how many charges were stored. It is written after each commit without
fsync, so it is never ahead of what was on disk; a database that holds fewer charges has lost some (its log
was deleted or damaged, or an older copy was put in its place).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from dperm.accounting.ledger import connections
from dperm.accounting.ledger import tables as schema
from dperm.accounting.ledger.errors import COMMIT_UNDONE, primary_code, translated
from dperm.errors import (
    BudgetExceededError,
    LedgerCorruptError,
    LedgerError,
    LedgerInDoubtError,
    LedgerNotFoundError,
)

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
        self.path = str(Path(path).expanduser().resolve())
        self.timeout = timeout

    def exists(self) -> bool:
        """Whether there is anything at the path."""
        return os.path.lexists(self.path)

    def create(self) -> None:
        """Write an empty ledger file; leave alone what another process created in the meantime.

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
                connections.write_new(new, schema.create)
                connections.publish(new, self.path)
        finally:
            for name in (new, f"{new}-journal", f"{new}-wal", f"{new}-shm"):
                with contextlib.suppress(OSError):
                    os.remove(name)

    def check(self) -> None:
        """Raise if the file is damaged or no ledger file. Reads all of it."""
        with connections.LOCK, translated(self.path):
            kept = self._connection()
            kept.checked = False
            kept.verified.clear()
            with self.transaction(write=False):
                pass

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[connections.Kept]:
        """A transaction; a writing one is on disk when the block is left without an exception.

        The first one on a connection checks the whole file. Inside another transaction of the same thread,
        it is a part of that one.

        Raises
        ------
        LedgerError
            For everything that goes wrong with the file. The transaction is undone, or in doubt.
        """
        with connections.LOCK, translated(self.path):
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
                    connections.discard(self.path)  # closing it undoes the transaction
                raise
            if write:
                self._store_count(charges)
                connections.tidy(kept)

    def _connection(self) -> connections.Kept:
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise LedgerNotFoundError(
                self.path,
                "There is no such file.",
                "Check the path, or create the ledger: open_ledger(url, name, epsilon=..., delta=...) or "
                "`dperm budget create`.",
            ) from None
        if found.st_size < _SMALLEST:  # SQLite would take it for a new database
            raise LedgerCorruptError(self.path, "It is empty: its content was lost.", schema.RESTORE)
        return connections.connect(self.path, found)

    def _begin(self, kept: connections.Kept, write: bool) -> None:
        connection = kept.connection
        connection.execute(f"PRAGMA busy_timeout = {int(self.timeout * 1000)}")
        counted = self._stored_count()  # read first: the file can only have more
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        schema.check_kind(connection, self.path)
        if not kept.checked:
            schema.check_content(connection, self.path)
            kept.checked = True
        charges = _charges(connection)
        if charges < counted:
            raise LedgerCorruptError(
                self.path,
                f"It holds {charges} charges, but {counted} were stored: an older copy was put in its "
                f"place, or the file {self._beside('-wal')!r} was deleted or damaged.",
                f"Restore a copy that holds all charges. The number is kept in {self._beside('-count')!r}.",
            )

    def _commit(self, kept: connections.Kept, write: bool) -> None:
        try:
            kept.connection.execute("COMMIT")
            if write and kept.unsynced_folder:
                connections.sync_folder(self.path)
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
            return int(Path(self._beside("-count")).read_bytes().strip(b"\0\n") or b"0")
        except FileNotFoundError:
            return 0
        except ValueError:
            raise LedgerCorruptError(
                self.path,
                f"The number of charges in {self._beside('-count')!r} is damaged.",
                "Compare the ledger's history with what you know, then delete that file.",
            ) from None

    def _store_count(self, charges: int) -> None:
        # Without it a loss goes unnoticed, but the charge itself is safe: no reason to fail.
        with contextlib.suppress(OSError):
            number = os.open(self._beside("-count"), os.O_WRONLY | os.O_CREAT, 0o666)
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
