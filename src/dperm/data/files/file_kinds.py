"""File formats recognised by their magic bytes, for messages about files of the wrong format."""

from __future__ import annotations

from pathlib import Path

from dperm.errors import DataError

_KINDS = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\xff\xff\xff\xff": "an Arrow stream",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"\x04\x22\x4d\x18": "compressed with lz4",
    b"PK\x03\x04": "a zip archive or a workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
_SHOWN_BYTES = 1024


def check_is_csv(path: Path) -> None:
    """Raise DataError if a file is recognised as something other than text."""
    kind = _kind(_first_bytes(path))
    if kind is not None:
        raise DataError(f"{path} is {kind}, not CSV: {_advice(kind)}")


def check_is_parquet(path: Path) -> None:
    """Raise DataError if a file is recognised as something other than Parquet."""
    start = _first_bytes(path)
    kind = _kind(start)
    if kind is None and start and _is_text(start):
        kind = "text"
    if kind not in (None, "a Parquet file"):
        raise DataError(f"{path} is {kind}, not Parquet: {_advice(str(kind))}")


def _first_bytes(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_SHOWN_BYTES)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def _kind(start: bytes) -> str | None:
    return next((kind for magic, kind in _KINDS.items() if start.startswith(magic)), None)


def _is_text(start: bytes) -> bool:
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3:  # otherwise a character may be cut off
            return False
        text = start[: error.start].decode()
    return all(letter.isprintable() or letter in "\t\r\n\ufeff" for letter in text)


def _advice(kind: str) -> str:
    if kind == "a Parquet file":
        return "read it as Parquet (scan_parquet; for commands, name it *.parquet)"
    if kind.startswith("compressed"):
        return "decompress it first"
    if kind == "text":
        return "read CSV files with scan_csv (for commands, name them *.csv)"
    return "save it as Parquet, or as CSV in UTF-8"
