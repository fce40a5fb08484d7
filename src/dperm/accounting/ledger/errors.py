"""Errors of SQLite and the operating system, translated into errors that say what to do."""

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
