"""Atomic writing of files."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_DATABASE = b"SQLite format 3\x00"


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file atomically: it appears complete or not at all."""
    with written_whole(Path(path)) as file:
        file.write(text.encode())


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which appears complete at the end of the block or not at all.

    Raises
    ------
    ValueError
        If something stands at `path` that must not be replaced: see `check_replaceable`.
    """
    check_replaceable(path)
    new = beside(path)
    try:
        with new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def check_replaceable(path: Path) -> None:
    """Raise ValueError for a folder, a device or a pipe, and for a database, which may be a ledger."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not the name of a file")
    # /dev/stdout and its like lead to a file if the output is redirected to one: the link would be replaced.
    is_device = path.absolute().is_relative_to("/dev") and not path.absolute().is_relative_to("/dev/shm")
    if is_device or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} is a device or a pipe, and only files are written: name a file")
    main = path.with_name(re.sub(r"-(wal|shm|journal)$", "", path.name))  # SQLite keeps these beside it
    if main.is_file():
        with main.open("rb") as file:
            if file.read(len(_DATABASE)) == _DATABASE:
                raise ValueError(
                    f"{main} is a database, such as a ledger, and never written over: name another"
                )


def beside(path: Path) -> Path:
    """A path for a new temporary file in the same folder."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
