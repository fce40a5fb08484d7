"""Reading published files from a local folder."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.description import Description, SourceFile
from dperm.datasets.progress import progress
from dperm.datasets.records import Records, array_records
from dperm.errors import DataError

FOLDER_VARIABLE = "DPERM_DATA"

_READ_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 24  # text that is parsed at a time


def data_folder() -> Path | None:
    """The folder given by the environment variable, or None."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder).expanduser() if folder else None


def read_files(description: Description, folder: Path) -> Iterator[Records]:
    """The records of the files of `description`, file by file, in blocks.

    Raises
    ------
    FileNotFoundError
        If a file is missing; the message says where it was expected and what else to do.
    DataError
        If the contents are not the published ones.
    ImportError
        For text files without pyarrow.
    """
    files = description.files
    if files[0].format == "idx":  # in pairs: images, then their labels
        arrays = [parse_idx(verified_content(description, file, folder)) for file in files]
        images = np.concatenate([array.reshape(len(array), -1) for array in arrays[::2]])
        yield array_records(description, images, np.concatenate(arrays[1::2]).astype(str))
        return
    for file in files:
        yield from csv_records(description, file, verified_content(description, file, folder))


def verified_content(description: Description, file: SourceFile, folder: Path) -> bytes:
    """The decompressed bytes of `file`, after a check of its SHA-256."""
    path = _existing_path(description, file, folder)
    with path.open("rb") as stored, progress(f"reading {file.path}", path.stat().st_size) as advance:
        if file.sha256 is None:
            _check_digest(path, hashlib.file_digest(stored, "sha256").hexdigest(), file.sha256_stored)
            stored.seek(0)
        stream = gzip.GzipFile(fileobj=stored) if path.suffix == ".gz" else stored
        content = bytearray()
        try:
            while chunk := stream.read(_READ_BYTES):
                content += chunk
                advance(stored.tell())
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{path} cannot be decompressed: {error}") from None
    if file.sha256 is not None:
        _check_digest(path, hashlib.sha256(content).hexdigest(), file.sha256)
    return bytes(content)


def _check_digest(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise DataError(f"{path} is not the published file: its SHA-256 is {found}, expected {expected}")


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
        f"the files there (from {description.source}), set {FOLDER_VARIABLE} to the folder that has "
        f"them{other}."
    )


def csv_records(description: Description, file: SourceFile, content: bytes) -> Iterator[Records]:
    """The records of a CSV file, in blocks; the label is in its last column."""
    from dperm.data.files.arrow_tables import csv_type, pyarrow, trimmed_texts
    from dperm.data.files.csv_faults import csv_fault

    arrow = pyarrow(f"the data set {description.name!r}, a text file,")
    csv, label = arrow.csv, description.label.name
    names = [*description.file_columns, label]
    types = {column.name: csv_type(column) for column in description.schema.columns}
    types[label] = arrow.string()
    options = {
        "read_options": csv.ReadOptions(
            column_names=names, skip_rows=file.skip_lines, block_size=_BLOCK_BYTES
        ),
        "parse_options": csv.ParseOptions(delimiter=file.delimiter),
        "convert_options": csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=[]
        ),
    }
    try:
        source = arrow.BufferReader(content)
        with (
            progress(f"parsing {file.path}", len(content)) as advance,
            csv.open_csv(source, **options) as reader,
        ):
            for batch in reader:
                table = trimmed_texts(arrow.Table.from_batches([batch]))
                yield table.drop_columns([label]), table[label].to_numpy()
                advance(source.tell())
    except arrow.ArrowInvalid as error:
        fault = csv_fault(error, names)
        reason = str(error) if fault is None else fault.problem.lstrip(":, ")
        raise DataError(f"{file.path} is not as described: {reason}") from error


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
