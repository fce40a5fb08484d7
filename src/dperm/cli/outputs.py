"""Files that a command writes: whether that is possible is found out before anything is paid for."""

from __future__ import annotations

import shutil
from pathlib import Path

from dperm.data.files.whole_files import beside


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
    trial = beside(path)
    trial.write_bytes(b"")
    trial.unlink()
    if shutil.disk_usage(path.parent).free < 2 * size:
        raise ValueError(f"no space is left on the disk of {path}")
