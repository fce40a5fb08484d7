"""Reading of small files, in whose place anything may stand."""

from __future__ import annotations

import os
import stat


def read_limited(path: str | os.PathLike[str], max_bytes: int = 1 << 26, *, pipes: bool = False) -> bytes:
    """The content of a file.

    Raises
    ------
    ValueError
        If it is longer, or a folder, a device or, unless `pipes`, a pipe.
    OSError
        If it cannot be read.
    """
    wait = 0 if pipes else getattr(os, "O_NONBLOCK", 0)  # a pipe that nobody writes to
    if os.path.isdir(path):
        raise ValueError(f"{os.fspath(path)} is not a file")
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | wait)) as file:
        kind = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(kind) and not (pipes and stat.S_ISFIFO(kind)):
            raise ValueError(f"{os.fspath(path)} is not a file")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"{os.fspath(path)} has more than {max_bytes:,} bytes")
    return content
