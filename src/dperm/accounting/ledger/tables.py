"""Tables of a ledger file, which triggers make append-only, and errors of SQLite in words for people."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator

from dperm.errors import (
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    LedgerLockedError,
    LedgerReadOnlyError,
    LedgerVersionError,
)

#: What to do about a damaged file.
RESTORE = "Keep the file for examination and restore a copy that holds all charges."

_LOCKED = (
    LedgerLockedError,
    "Another process held it until the timeout passed.",
    "Try again; look for a process that was stopped while it charged.",
)
_READ_ONLY = (
    LedgerReadOnlyError,
    "The file or its folder cannot be written.",
    "Reading a ledger, too, needs permission to write both.",
)
_FULL = (LedgerFullError, "No space is left on its disk.", "Free some and try again.")
_DAMAGED = (LedgerCorruptError, "It is damaged, or no database.", RESTORE)
_BY_CODE = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_AUTH: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CONSTRAINT: _DAMAGED,
    sqlite3.SQLITE_MISMATCH: _DAMAGED,
}
_BY_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
}

#: After a commit that fails with one of these, the transaction has certainly not happened.
COMMIT_UNDONE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL)


def primary_code(error: BaseException) -> int | None:
    """SQLite's primary result code, None if the error has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn errors of the file at `path` into subclasses of `LedgerError`."""
    try:
        yield
    except sqlite3.Error as error:
        code = primary_code(error)
        # The sqlite3 module itself raises errors without a code, for text that is not UTF-8 for instance.
        kind = _DAMAGED if code is None else _BY_CODE.get(code)
        raise _ledger_error(path, error, kind) from error
    except UnicodeDecodeError as error:  # in a name or a message from the file
        raise _ledger_error(path, error, _DAMAGED) from error
    except OSError as error:
        raise _ledger_error(path, error, _BY_ERRNO.get(error.errno or 0)) from error


def _ledger_error(
    path: str, error: Exception, kind: tuple[type[LedgerError], str, str] | None
) -> LedgerError:
    if kind is None:
        return LedgerError(path, f"It cannot be used: {error}.", "Look at the disk and at the folder.")
    cls, problem, advice = kind
    return cls(path, f"{problem} ({error})", advice)


APPLICATION_ID = 0x6470726D  # "dprm"
VERSION = 2

_STATEMENTS = (
    """CREATE TABLE ledger (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  accountant TEXT NOT NULL,
  neighbors TEXT NOT NULL,
  slack REAL NOT NULL,
  pure REAL NOT NULL,
  ceiling REAL NOT NULL,
  allow_seeded INTEGER NOT NULL,
  caps TEXT NOT NULL,
  created TEXT NOT NULL,
  version TEXT NOT NULL,
  identity TEXT NOT NULL,
  entries INTEGER NOT NULL,
  seal TEXT NOT NULL
)""",
    """CREATE TABLE entry (
  id INTEGER PRIMARY KEY,
  ledger INTEGER NOT NULL REFERENCES ledger (id),
  sequence INTEGER NOT NULL,
  created TEXT NOT NULL,
  kind TEXT NOT NULL,
  part TEXT NOT NULL,
  description TEXT NOT NULL,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  accountant TEXT NOT NULL,
  cost TEXT NOT NULL,
  spent TEXT NOT NULL,
  statement TEXT NOT NULL,
  process INTEGER NOT NULL,
  version TEXT NOT NULL,
  seal TEXT NOT NULL,
  UNIQUE (ledger, sequence)
)""",
    """CREATE TABLE secret (
  ledger INTEGER NOT NULL REFERENCES ledger (id),
  name TEXT NOT NULL,
  value BLOB NOT NULL,
  UNIQUE (ledger, name)
)""",
    """CREATE TRIGGER secret_is_kept BEFORE DELETE ON secret
BEGIN SELECT RAISE(ABORT, 'a secret cannot be deleted'); END""",
    """CREATE TRIGGER secret_is_fixed BEFORE UPDATE ON secret
BEGIN SELECT RAISE(ABORT, 'a secret cannot be changed'); END""",
    """CREATE TRIGGER ledger_is_kept BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'a ledger cannot be deleted'); END""",
    """CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger
WHEN (NEW.id, NEW.name, NEW.epsilon, NEW.delta, NEW.accountant, NEW.neighbors, NEW.slack, NEW.pure,
  NEW.ceiling, NEW.allow_seeded, NEW.caps, NEW.created, NEW.version, NEW.identity, NEW.entries) IS NOT
  (OLD.id, OLD.name, OLD.epsilon, OLD.delta, OLD.accountant, OLD.neighbors, OLD.slack, OLD.pure,
  OLD.ceiling, OLD.allow_seeded, OLD.caps, OLD.created, OLD.version, OLD.identity, OLD.entries + 1)
BEGIN SELECT RAISE(ABORT, 'a budget cannot be changed'); END""",
    """CREATE TRIGGER entry_is_kept BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'a charge cannot be deleted'); END""",
    """CREATE TRIGGER entry_is_fixed BEFORE UPDATE ON entry
BEGIN SELECT RAISE(ABORT, 'a charge cannot be changed'); END""",
    """CREATE TRIGGER entry_is_next BEFORE INSERT ON entry
WHEN NEW.id IS NOT 1 + (SELECT coalesce(max(id), 0) FROM entry)
  OR NEW.sequence IS NOT 1 + (SELECT entries FROM ledger WHERE id = NEW.ledger)
BEGIN SELECT RAISE(ABORT, 'a charge must come after the last one'); END""",
    """CREATE TRIGGER entry_is_counted AFTER INSERT ON entry
BEGIN UPDATE ledger SET entries = NEW.sequence, seal = NEW.seal WHERE id = NEW.ledger; END""",
)


def create(connection: sqlite3.Connection) -> None:
    """Write the tables into an empty database."""
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in _STATEMENTS:
        connection.execute(statement)
    connection.execute("COMMIT")


def check_kind(connection: sqlite3.Connection, path: str) -> None:
    """Raise unless this is a ledger file that this version can read."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise LedgerCorruptError(path, "It is a database, but no ledger.", "Give the path of a ledger file.")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise LedgerVersionError(
            path,
            f"It has format {version}, and this version of dperm knows formats up to {VERSION}.",
            "Install a newer dperm.",
        )
    if version == 1:
        raise LedgerVersionError(
            path,
            "It has format 1, whose charges may have been made under different neighbouring relations and "
            "cannot be added up.",
            "Open it with dperm 0.1 to see what was spent, and create a new ledger with a budget that takes "
            "account of it.",
        )
    if version != VERSION:
        raise LedgerCorruptError(path, f"It claims format {version}, which never existed.", RESTORE)


def check_content(connection: sqlite3.Connection, path: str) -> None:
    """Raise if a page, an index, a table or a trigger is damaged or altered. Reads the whole file."""
    found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        raise LedgerCorruptError(path, f"It is damaged: {'; '.join(map(str, found[:3]))}.", RESTORE)
    present = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    expected = {(statement.split()[2], statement) for statement in _STATEMENTS}
    if len(present) != len(expected) or set(present) != expected:
        raise LedgerCorruptError(path, "Its tables or triggers were altered.", RESTORE)
