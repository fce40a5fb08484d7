"""Files that a command writes: whether that is possible is found out before anything is paid for."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def check_writable(path: Path, *, force: bool, size: int) -> None:
    """Raise unless a file of about so many bytes can be written at `path`.

    Raises
    ------
    ValueError
        If there is a file already and `force` is false, or no space on the disk.
    OSError
        If the folder is not there or cannot be written.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not the name of a file")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already: choose another name, or --force to write over it")
    trial = _beside(path)
    trial.write_bytes(b"")
    trial.unlink()
    if shutil.disk_usage(path.parent).free < 2 * size:
        raise ValueError(f"no space is left on the disk of {path}")


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears complete, or not at all."""
    with written_whole(path) as file:
        file.write(text.encode())


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, that appears complete when the block ends, or not at all."""
    new = _beside(path)
    try:
        with new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
