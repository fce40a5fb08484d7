"""Detection of files that change during or between passes over them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dperm.errors import DataError

# File systems have a clock resolution of up to that: a second write within one tick leaves no trace.
_TICK_NS = 20_000_000


@dataclass(frozen=True)
class _State:
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int  # on systems that record it, it cannot be set back

    @classmethod
    def of(cls, path: Path) -> _State:
        try:
            stat = os.stat(path)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


class UnchangedFiles:
    """The inode, size, and modification times of files, to detect changes.

    Parameters
    ----------
    paths : iterable of Path

    Raises
    ------
    DataError
        For a file that does not exist.

    Notes
    -----
    Writes through a memory mapping update these times only now and then, and so can go unnoticed.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = tuple(paths)
        states = [_State.of(path) for path in self.paths]
        newest = max((max(state.modified_ns, state.changed_ns) for state in states), default=0)
        age = time.time_ns() - newest
        if 0 <= age < _TICK_NS:  # wait for the next tick: until then a write may leave the time unchanged
            time.sleep((_TICK_NS - age) / 1e9)
            states = [_State.of(path) for path in self.paths]
        self._states = dict(zip(self.paths, states, strict=True))

    def check(self) -> None:
        """Raise DataError if a file has changed."""
        for path, before in self._states.items():
            now = _State.of(path)
            if now != before:
                raise DataError(
                    f"{path} has changed since training began ({_difference(before, now)}). Nothing was "
                    "released from this pass over the data; train on files that nobody writes to."
                )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise DataError if a file has changed, before or after the block.

        If the block raises and a file has changed, the change is reported instead.
        """
        self.check()
        try:
            yield
        except Exception as error:
            try:
                self.check()
            except DataError as change:
                raise change from error
            raise
        self.check()


def _difference(before: _State, now: _State) -> str:
    if (now.device, now.inode) != (before.device, before.inode):
        return "another file is in its place"
    if now.size != before.size:
        return f"{before.size} bytes then, {now.size} now"
    return "it was written to"
