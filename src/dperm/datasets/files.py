"""Reading the published files from a local folder."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.description import Description, SourceFile
from dperm.datasets.progress import progress
from dperm.datasets.tables import BLOCK_ROWS, Table, array_table
from dperm.errors import DataError

FOLDER_VARIABLE = "DPERM_DATA"

_CHUNK = 1 << 20


def data_folder() -> Path | None:
    """Return the folder that the environment names, or None."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder).expanduser() if folder else None


def read_files(description: Description, folder: Path) -> Table:
    """Return the records of the files of `description`, one file after the other.

    Raises
    ------
    FileNotFoundError
        When a file is missing; the message says where it was expected and what else to do.
    DataError
        When the contents are not the published ones.
    """
    chunks = [verified_chunks(description, file, folder) for file in description.files]
    if description.files[0].format == "idx":
        return _idx_table([parse_idx(b"".join(each)) for each in chunks])
    return _csv_table(description, chunks)


def verify_files(description: Description, folder: Path) -> None:
    """Raise as `read_files` does unless all files are there and the published ones; parses nothing."""
    for file in description.files:
        path = _existing_path(description, file, folder)
        with path.open("rb") as stored:
            digest = hashlib.file_digest(stored, "sha256").hexdigest()
        # The described copy need not be decompressed.
        if digest not in (file.sha256_stored, file.sha256 if path.suffix != ".gz" else None):
            for _ in verified_chunks(description, file, folder):
                pass


def verified_chunks(description: Description, file: SourceFile, folder: Path) -> Iterator[bytes]:
    """Decompressed bytes of `file`, piece by piece; after the last, their SHA-256 is compared with the
    published one, so nothing may be made of them before the end.
    """
    path = _existing_path(description, file, folder)
    digest = hashlib.sha256()
    with path.open("rb") as stored, progress(f"reading {file.path}", path.stat().st_size) as advance:
        compressed = path.suffix == ".gz"
        if file.sha256 is None:
            _check_stored(path, file, hashlib.file_digest(stored, "sha256").hexdigest())
            stored.seek(0)
        stream = gzip.GzipFile(fileobj=stored) if compressed else stored
        try:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                advance(stored.tell())
                yield chunk
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{path} cannot be decompressed: {error}") from None
    if file.sha256 is not None and digest.hexdigest() != file.sha256:
        raise DataError(
            f"{path} is not the published file: the SHA-256 of its contents is {digest.hexdigest()}, "
            f"expected {file.sha256} (the file as stored: {file.sha256_stored})"
        )


def _check_stored(path: Path, file: SourceFile, digest: str) -> None:
    if digest != file.sha256_stored:
        raise DataError(
            f"{path} is not the published file: its SHA-256 is {digest}, expected {file.sha256_stored}"
        )


def _existing_path(description: Description, file: SourceFile, folder: Path) -> Path:
    path = folder / file.path
    for candidate in (path, path.with_suffix("") if path.suffix == ".gz" else path):
        if candidate.is_file():
            return candidate
    other = ""
    if description.fetch is not None:
        other = (
            f", or unset {FOLDER_VARIABLE} to let scikit-learn download the data "
            f"({description.fetch.function})"
        )
    raise FileNotFoundError(
        f"{path} does not exist. {FOLDER_VARIABLE} is {str(folder)!r}, and the data set "
        f"{description.name!r} needs {', '.join(needed.path for needed in description.files)} below it. Put "
        f"the files there (from {description.source}), point {FOLDER_VARIABLE} to the folder that has "
        f"them{other}."
    )


def _csv_table(description: Description, contents: Iterable[Iterable[bytes]]) -> Table:
    # Parsing is what takes time and memory, and in some data sets most lines repeat: each is parsed once.
    index: dict[bytes, int] = {}
    positions = []
    for file, chunks in zip(description.files, contents, strict=True):
        skipped = 0
        for lines in _whole_lines(chunks):
            wanted = [line for line in lines[max(0, file.skip_lines - skipped) :] if line.strip()]
            skipped += len(lines)
            places = (index.setdefault(line, len(index)) for line in wanted)
            positions.append(np.fromiter(places, np.intp, len(wanted)))
    blocks = _csv_blocks(description, list(index), description.files[0].delimiter)
    return Table(blocks, np.concatenate(positions) if positions else None)


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = b""
    for chunk in chunks:
        complete, newline, after = chunk.rpartition(b"\n")
        if newline:
            yield (rest + complete).splitlines()
            rest = after
        else:
            rest += chunk
    if rest:
        yield rest.splitlines()


def _csv_blocks(
    description: Description, lines: list[bytes], delimiter: str
) -> Iterator[Sequence[Sequence[str]]]:
    with progress(f"parsing {description.name}", len(lines)) as advance:
        for start in range(0, len(lines), BLOCK_ROWS):
            text = (line.decode("utf-8") for line in lines[start : start + BLOCK_ROWS])
            rows = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
            try:
                yield list(zip(*rows, strict=True))
            except ValueError:
                raise DataError(f"{description.name}: the lines have different numbers of cells") from None
            advance(start + BLOCK_ROWS)


def parse_idx(content: bytes) -> NDArray[Any]:
    """Array of an IDX file of unsigned bytes: two zero bytes, type, rank, sizes, then the values."""
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise DataError("not an IDX file of unsigned bytes")
    rank = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=rank, offset=4).astype(np.int64)
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank)
    if values.size != shape.prod():
        raise DataError(f"the IDX file announces shape {tuple(shape)} and holds {values.size} values")
    return values.reshape(shape)


def _idx_table(arrays: list[NDArray[Any]]) -> Table:
    """Files come in pairs: images, then their labels."""
    images = np.concatenate([array.reshape(len(array), -1) for array in arrays[::2]])
    labels = np.concatenate(arrays[1::2])
    return array_table(images, labels.astype(str))
