"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears complete, or not at all."""
    new = beside(path)
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def beside(path: Path) -> Path:
    """A name for a new file in the same folder."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
