"""Files that change while they are read in several passes: an operator's mistake, usually noticed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dperm.errors import DataError


class UnchangedFiles:
    """The size and modification time of files, to notice that one has been written to or replaced.

    Files must not change while a model is trained. Writes that leave both as they were go unnoticed.

    Parameters
    ----------
    paths : iterable of Path

    Raises
    ------
    DataError
        For a file that does not exist.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._states = {path: _size_and_time(path) for path in paths}

    def check(self) -> None:
        """Raise DataError if a file has changed."""
        for path, before in self._states.items():
            if _size_and_time(path) != before:
                raise DataError(
                    f"{path} has changed since training began. Nothing was released from this pass over the "
                    "data; train on files that nobody writes to."
                )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise DataError if a file has changed, before or after the block, even if the block raises."""
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


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return stat.st_size, stat.st_mtime_ns
