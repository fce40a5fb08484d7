"""Reading the published files from a local folder."""

from __future__ import annotations

import csv
import gzip
import hashlib
import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import Cells
from dperm.datasets.table_schema import SourceFile, TableSchema
from dperm.datasets.tables import BLOCK_ROWS, Table, array_table
from dperm.errors import DataError

FOLDER_VARIABLE = "DPERM_DATA"

_CHUNK = 1 << 20


def data_folder() -> Path | None:
    """Return the folder that the environment names, or None."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder).expanduser() if folder else None


def read_files(schema: TableSchema, folder: Path) -> Table:
    """Return the records of the files of `schema`, one file after the other.

    Raises
    ------
    FileNotFoundError
        When a file is missing; the message says where it was expected and what else to do.
    DataError
        When the contents are not the published ones.
    """
    contents = [(file, verified_contents(schema, file, folder)) for file in schema.files]
    if schema.files[0].format == "idx":
        return _idx_table([parse_idx(content) for _, content in contents])
    return _csv_table(schema, contents)


def verified_contents(schema: TableSchema, file: SourceFile, folder: Path) -> bytes:
    """Decompressed bytes of `file`, after comparing their SHA-256 with the published one."""
    path = _existing_path(schema, file, folder)
    digest = hashlib.sha256()
    chunks = []
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                chunks.append(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be decompressed: {error}") from None
    if digest.hexdigest() != file.sha256:
        raise DataError(
            f"{path} is not the published file: the SHA-256 of its contents is {digest.hexdigest()}, "
            f"expected {file.sha256} (the file as stored: {file.sha256_stored})"
        )
    return b"".join(chunks)


def _existing_path(schema: TableSchema, file: SourceFile, folder: Path) -> Path:
    path = folder / file.path
    for candidate in (path, path.with_suffix("") if path.suffix == ".gz" else path):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(
        f"{path} does not exist. {FOLDER_VARIABLE} is {str(folder)!r}, and the data set {schema.name!r} "
        f"needs {', '.join(needed.path for needed in schema.files)} below it. Put the files there (from "
        f"{schema.source}), point {FOLDER_VARIABLE} to the folder that has them, or unset "
        f"{FOLDER_VARIABLE} to let scikit-learn download the data ({schema.fetch.function})."
    )


def _csv_table(schema: TableSchema, contents: list[tuple[SourceFile, bytes]]) -> Table:
    lines: list[bytes] = []
    for file, content in contents:
        lines.extend(line for line in content.splitlines()[file.skip_lines :] if line.strip())
    # Parsing is what takes time, and in some data sets most lines repeat: each is parsed once.
    index: dict[bytes, int] = {}
    positions = np.fromiter((index.setdefault(line, len(index)) for line in lines), np.intp, len(lines))
    blocks = _csv_blocks(schema, list(index), schema.files[0].delimiter)
    return Table(len(index), blocks, positions if len(index) < len(lines) else None)


def _csv_blocks(schema: TableSchema, lines: list[bytes], delimiter: str) -> Iterator[Sequence[Cells]]:
    for start in range(0, len(lines), BLOCK_ROWS):
        text = (line.decode("utf-8") for line in itertools.islice(lines, start, start + BLOCK_ROWS))
        rows = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
        try:
            yield list(zip(*rows, strict=True))
        except ValueError:
            raise DataError(f"{schema.name}: the lines have different numbers of cells") from None


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
