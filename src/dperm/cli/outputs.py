"""Output files of a command: checked before anything is charged."""

from __future__ import annotations

import shutil
from pathlib import Path

from dperm.data.files.whole_files import beside


def check_writable(path: Path, *, force: bool, size: int) -> None:
    """Raise unless a file of about that many bytes can be written at `path`.

    Raises
    ------
    ValueError
        If the file exists and `force` is false, or if the disk is full.
    OSError
        If the folder does not exist or is not writable.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not the name of a file")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already: choose another name, or --force to write over it")
    trial = beside(path)
    trial.write_bytes(b"")
    trial.unlink()
    if shutil.disk_usage(path.parent).free < 2 * size:
        raise ValueError(f"no space is left on the disk of {path}")
