"""Records of published data sets from files or through scikit-learn, encoded as a design matrix."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import Categorical
from dperm.data.tabular import TabularMatrix, stacked_tables
from dperm.datasets.description import Description, FetchRecipe, SourceFile
from dperm.errors import DataError

_SHOWN_FROM = 1 << 20  # less work takes no time to speak of


def _rich() -> Any:
    """The rich package; None if it is not installed or standard error is not a terminal."""
    if not sys.stderr.isatty():
        return None
    try:
        import rich.console
        import rich.progress
    except ModuleNotFoundError:
        return None
    return rich


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal if rich is installed, else nothing.

    Parameters
    ----------
    title : str
    total : int
        Amount of work; small amounts are not shown.

    Yields
    ------
    callable
        To be called with the amount done so far.
    """
    rich = None if total < _SHOWN_FROM else _rich()
    if rich is None:
        yield lambda _: None
        return
    with rich.progress.Progress(console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def waiting(title: str) -> AbstractContextManager[Any]:
    """A spinner on a terminal if rich is installed, else nothing."""
    rich = _rich()
    return nullcontext() if rich is None else rich.console.Console(stderr=True).status(title)


#: Some records: a table that `Schema.encode` accepts, and the cells of the label.
Records = tuple[Any, NDArray[Any]]


def array_records(description: Description, rows: NDArray[Any], labels: NDArray[Any]) -> Records:
    """Records from an array with the columns of the published file; texts may be bytes."""
    if len(rows) != len(labels):
        raise DataError(f"there are {len(rows)} rows and {len(labels)} labels")
    table = dict(zip(description.file_columns, rows.T, strict=True))
    for column in description.schema.columns:
        if isinstance(column, Categorical):
            table[column.name] = _texts(table[column.name])
    return table, _texts(labels)


def encode(
    description: Description, records: Iterable[Records], numeric_dtype: str
) -> tuple[TabularMatrix, NDArray[Any]]:
    """Design matrix and labels. Each row is a function of its record and of the public `description`."""
    parts = [
        (description.schema.encode(table, numeric_dtype), description.label.encode(labels))
        for table, labels in records
    ]
    if not parts:
        raise DataError(f"{description.name}: there are no records")
    matrices, labels = zip(*parts, strict=True)
    if len(parts) == 1:
        return matrices[0], labels[0]
    return stacked_tables(matrices), np.concatenate(labels)


def _texts(cells: NDArray[Any]) -> NDArray[Any]:
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [cell.decode() if isinstance(cell, bytes) else cell for cell in cells]
    return texts


logger = logging.getLogger(__name__)


def fetch(description: Description) -> Records:
    """Return the records from scikit-learn, with the published values of every column.

    Raises FileNotFoundError if scikit-learn cannot obtain the data; the message names the other way to
    provide them.
    """
    # Importing scikit-learn takes longer than reading most data sets.
    from sklearn import datasets

    recipe = description.fetch
    if recipe is None:
        raise FileNotFoundError(
            f"scikit-learn does not have the data set {description.name!r}. {_from_files(description)}"
        )
    if recipe.function == "load_breast_cancer":
        bunch = datasets.load_breast_cancer()
        return array_records(description, bunch.data, bunch.target_names[bunch.target])
    logger.info("obtaining %s through scikit-learn, which may download it", description.name)
    try:
        with waiting(f"{description.name}: through scikit-learn, which downloads what it does not have"):
            if recipe.function == "fetch_kddcup99":
                bunch = datasets.fetch_kddcup99(percent10=recipe.percent10)
                return array_records(description, bunch.data, bunch.target)
            # This parser does not need pandas and returns numbers: codes of categories, NaN where missing.
            bunch = datasets.fetch_openml(data_id=recipe.data_id, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise FileNotFoundError(
            f"scikit-learn could not obtain the data set {description.name!r} ({error}). "
            f"{_from_files(description)}"
        ) from error
    return array_records(
        description, _with_categories(recipe, bunch), _published_labels(recipe, bunch.target)
    )


def _from_files(description: Description) -> str:
    paths = ", ".join(file.path for file in description.files)
    return f"Set {FOLDER_VARIABLE} to a folder that holds {paths} (from {description.source})."


def _with_categories(recipe: FetchRecipe, bunch: Any) -> NDArray[Any]:
    """Rows with the names of categories instead of their codes."""
    if not bunch.categories:
        return np.asarray(bunch.data)
    rows = bunch.data.astype(object)
    for j, name in enumerate(bunch.feature_names):
        if name in bunch.categories:
            names = np.array([*bunch.categories[name], recipe.missing], dtype=object)
            codes = np.where(np.isnan(bunch.data[:, j]), len(names) - 1, bunch.data[:, j])
            rows[:, j] = names[codes.astype(np.intp)]
    return np.asarray(rows)


def _published_labels(recipe: FetchRecipe, labels: NDArray[Any]) -> NDArray[Any]:
    published = recipe.label_values or {}
    # Grades may be floats such as 6.0.
    texts = [label if isinstance(label, str) else f"{label:g}" for label in labels]
    return np.array([published.get(text, text) for text in texts], dtype=object)


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
    from dperm.data.files.csv_records import csv_fault

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
