"""Memory-mapped files, read in place and checked for changes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.mapped_file import MappedFile
from dperm.data.files.unchanged_files import UnchangedFiles
from dperm.data.passes import Array, DescentSteps, NoisyBatches, Pass
from dperm.data.rows import Rows
from dperm.errors import DataError
from dperm.private_values.secret_rows import SecretRows


class MappedFiles:
    """Files mapped into memory for the lifetime of this object, and checked for changes.

    In an ordinary mapping, reading a page beyond the end of a truncated file kills the process. In these it
    reads as zeros, and `unchanged` raises.

    Parameters
    ----------
    paths : sequence of Path

    Raises
    ------
    DataError
        For a file that does not exist or cannot be read.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = UnchangedFiles(paths)
        self._maps = {path: _mapped(path) for path in paths}

    def bytes_of(self, path: Path) -> MappedFile | None:
        """The contents of a file as a buffer; None if it cannot be mapped, such as an empty one."""
        return self._maps[path]

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise DataError if a file has changed, before or after the block."""
        with self._files.unchanged():
            yield
            for path, content in self._maps.items():
                if content is not None and content.lost:
                    raise DataError(
                        f"{path} could not be read to its end: it was truncated, or the disk failed. Nothing "
                        "was released from this pass over the data."
                    )


def _mapped(path: Path) -> MappedFile | None:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return MappedFile(file.fileno(), 0, size) if size else None
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EAGAIN):  # unsupported here; too many mappings
            return None
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


class GuardedRows:
    """Rows in a memory-mapped file, which is checked before and after every access.

    No result computed from a file that changed meanwhile is returned.
    """

    n_partitions = 0

    def __init__(self, rows: Rows, files: MappedFiles) -> None:
        self._rows, self._files = rows, files
        self.n_rows, self.n_columns, self.dtype = rows.n_rows, rows.n_columns, rows.dtype
        self.n_entries, self.reads_whole_rows = rows.n_entries, rows.reads_whole_rows

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass."""
        with self._files.unchanged():
            return self._rows.run(pass_, n_threads)

    def drawn(self, sample: SecretRows, n_public: int) -> Any:
        """The records of a secret sample; does not read the file."""
        return self._rows.drawn(sample, n_public)

    def descend(self, steps: DescentSteps) -> None:
        """Make steps of stochastic gradient descent, in place."""
        with self._files.unchanged():
            self._rows.descend(steps)

    def noisy_batch_sums(self, sums: NoisyBatches, n_threads: int) -> Callable[[Array], Array] | None:
        """Noisy clipped gradient sums over successive batches; the file is checked at each."""
        noisy_sum = self._rows.noisy_batch_sums(sums, n_threads)
        if noisy_sum is None:
            return None

        def checked(w: Array) -> Array:
            with self._files.unchanged():
                return noisy_sum(w)

        return checked


def guarded_rows(array: MappedArray, make: Callable[[NDArray[Any]], Rows]) -> Rows:
    """The rows ``make(array)``, guarded from the start."""
    with array.files.unchanged():
        rows = make(array.array)
    return GuardedRows(rows, array.files)


class MappedArray(NamedTuple):
    """A caller's array, in our own mapping of the file that the caller has mapped."""

    array: NDArray[Any]
    files: MappedFiles


def mapped_array(array: Any) -> MappedArray | None:
    """The array in our own mapping, if it is a numpy memmap or a contiguous part of one.

    None for anything else: arrays in memory; maps of files that have been moved or deleted, which cannot be
    opened by name; and copy-on-write maps (mode "c"), which need not agree with the file.
    """
    if not (isinstance(array, np.ndarray) and array.size and array.flags.c_contiguous):
        return None
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if not isinstance(whole, np.memmap) or whole.filename is None or whole.mode == "c":
        return None
    path, offset = Path(whole.filename), whole.offset + _address(array) - _address(whole)
    if not _is_mapped_at(path, _address(whole)):
        return None
    files = MappedFiles([path])
    with files.unchanged():
        if path.stat().st_size < offset + array.nbytes:
            raise DataError(f"{path} is shorter than the array that is mapped from it: it was truncated")
        content = files.bytes_of(path)
        if content is None:
            return None
        ours = np.frombuffer(memoryview(content), array.dtype, array.size, offset).reshape(array.shape)
    return MappedArray(ours, files)


def in_memory(array: Any) -> Any:
    """A copy of a memory-mapped array, anything else as it is; DataError if the file changes meanwhile."""
    mapped = mapped_array(array)
    if mapped is None:
        return array
    with mapped.files.unchanged():
        return np.array(mapped.array)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _is_mapped_at(path: Path, address: int) -> bool:
    """Whether the file mapped at an address is the one at `path`, which may have been replaced."""
    try:
        stat = os.stat(path)
    except OSError:
        return False
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, _, _, device, inode, *_ = line.split(maxsplit=5)
                begin, end = (int(each, 16) for each in span.split("-"))
                if begin <= address < end:
                    major, minor = (int(each, 16) for each in device.split(":"))
                    return (int(inode), os.makedev(major, minor)) == (stat.st_ino, stat.st_dev)
    except OSError:  # no /proc on this system: trust the name
        return True
    return False
