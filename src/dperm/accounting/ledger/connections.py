"""Open database connections, one a file and process, and how they survive forks and replaced files.

SQLite must not be carried across a fork: the child would believe that it holds the parent's locks. All
connections are closed before a fork and opened again when they are needed, in both processes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: Held during every transaction, and by the process that forks.
LOCK = threading.RLock()

#: A log older than this is copied into the database at the next charge, seconds.
TIDY_AFTER = 1.0

# File systems of one machine, on which its processes share memory.
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "overlay"})


@dataclass
class Kept:
    """An open connection, the file that it is connected to, and what was verified through it."""

    connection: sqlite3.Connection
    file: tuple[int, int]
    checked: bool = False  # pages, indexes and tables
    verified: set[int] = field(default_factory=set)  # ledgers whose chain was followed from the start
    unsynced_folder: bool = True  # the log may have been created
    tidied: float = field(default_factory=time.monotonic)


_KEPT: dict[str, Kept] = {}


def connect(path: str, found: os.stat_result) -> Kept:
    """The connection to the file that was `found` at `path`."""
    file = (found.st_dev, found.st_ino)
    kept = _KEPT.get(path)
    if kept is not None and kept.file == file:
        return kept
    discard(path)  # replaced by another file
    connection = _configured(path, "rw")
    try:
        if _journal(connection) == "wal" and not on_local_file_system(path):
            connection.execute("PRAGMA journal_mode = DELETE")
    except BaseException:
        connection.close()
        raise
    _KEPT[path] = Kept(connection, file)
    return _KEPT[path]


def discard(path: str) -> None:
    """Close the connection to `path`; a transaction that was not committed is undone."""
    kept = _KEPT.pop(path, None)
    if kept is not None:
        with contextlib.suppress(sqlite3.Error):
            kept.connection.close()


def tidy(kept: Kept) -> None:
    """Copy the log into the database now and then, so that the file alone is nearly complete."""
    now = time.monotonic()
    if now - kept.tidied > TIDY_AFTER:
        with contextlib.suppress(sqlite3.Error):  # everything is on disk already
            kept.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        kept.tidied = now


def write_new(path: str, write: Callable[[sqlite3.Connection], None]) -> None:
    """Create a database at `path`, which nobody else knows yet."""
    connection = _configured(path, "rwc")
    try:
        write(connection)
        if on_local_file_system(path):
            connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    number = os.open(path, os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def publish(new: str, path: str) -> None:
    """Give the finished file its name, unless that is taken; on disk when this returns."""
    try:
        os.link(new, path)
    except FileExistsError:
        return
    except OSError:  # no hard links here
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.replace(new, path)
    sync_folder(path)


def sync_folder(path: str) -> None:
    """Write the folder of `path` to disk, so that a new file in it survives a power failure."""
    if sys.platform == "win32":
        return
    number = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def on_local_file_system(path: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Whether `path` is certainly on a file system of this machine; False where that is not known."""
    try:
        lines = Path(mounts).read_text().splitlines()
    except (OSError, UnicodeError):
        return False
    folder = os.path.join(os.path.realpath(os.path.dirname(path)), "")
    best, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = os.path.join(before.split()[4].encode().decode("unicode_escape"), "")
        if folder.startswith(point) and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind in _LOCAL


def _configured(path: str, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: through the disk's cache
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
