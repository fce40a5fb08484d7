"""Atomic writing of files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically: it appears complete or not at all."""
    with written_whole(path) as file:
        file.write(text.encode())


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which appears complete at the end of the block or not at all."""
    new = beside(path)
    try:
        with new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def beside(path: Path) -> Path:
    """A path for a new temporary file in the same folder."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
