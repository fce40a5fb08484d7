"""Records as a split reads them: their public format, and bytes that are equal for equal records only.

Two records are equal if all their cells are: numbers by value, texts by their characters, missing cells
always. The bytes of a record, and those of a cell, depend on that record and that cell alone. The dtype of a
column depends on all its cells: one missing number turns integers into doubles, one string turns numbers into
objects, which must not change the part of other records.
"""

from __future__ import annotations

import bisect
import hashlib
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, rel_entr

from dperm.accounting._checks import check_real, check_text, shown
from dperm.accounting.neighbours import Neighbours

Words = NDArray[np.uint64]

_BLOCK = 1 << 16  # records that are hashed at a time


def row_bytes(records: Any, key: bytes) -> Iterable[NDArray[np.uint8]]:
    """The bytes of each record in memory; `key` hashes cells that are no doubles."""
    if hasattr(records, "tocsr"):
        return _entries(records.tocsr().copy())
    if hasattr(records, "numeric") and hasattr(records, "codes"):  # a tabular matrix
        return _doubles(np.concatenate([np.asarray(records.numeric), np.asarray(records.codes)], axis=1))
    if not hasattr(records, "columns"):
        array = np.asarray(records).reshape(len(records), -1)
        if _is_number(array.dtype):
            return _numbers(array)
        import pandas

        records = pandas.DataFrame(array.astype(object))
    elif hasattr(records, "to_pandas"):  # Arrow tables, polars frames
        records = _as_pandas(records)
    words = [_column_words(records.iloc[:, place], key) for place in range(records.shape[1])]
    return np.concatenate([*words, np.zeros((len(records), 0), dtype="<u8")], axis=1).view(np.uint8)


def _as_pandas(table: Any) -> Any:
    return table.to_pandas(integer_object_nulls=True)  # not as doubles, which round


def _entries(rows: Any) -> Iterator[NDArray[np.uint8]]:
    """The bytes of the nonzero entries of each row."""
    rows.sum_duplicates()
    rows.eliminate_zeros()
    places = rows.indices.astype("<i8").reshape(-1, 1).view(np.uint8)
    pairs = np.concatenate([places, _numbers(rows.data.reshape(-1, 1))], axis=1)
    return (pairs[a:b].ravel() for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True))


def _is_number(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _numbers(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes of floating-point numbers as doubles, of integers as 64 bits."""
    return _doubles(values) if values.dtype.kind == "f" else values.astype("<i8").view(np.uint8)


def _doubles(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes of numbers as doubles, with -0 as 0 and all NaNs alike."""
    doubles = np.ascontiguousarray(values, dtype="<f8") + 0.0
    return np.where(np.isnan(doubles), np.nan, doubles).view(np.uint8)


def _column_words(column: Any, key: bytes) -> Words:
    """128 bits for each cell of a column, see `_cell_words`."""
    dtype = column.dtype
    if getattr(dtype, "kind", "O") not in "biuf" or dtype.itemsize > 8:
        places, cells = _distinct(column)
        known = np.array([_cell_words(cell, key) for cell in [*cells, None]], dtype="<u8")
        return np.asarray(known[places])  # the last one for -1, a missing cell
    words = np.zeros((len(column), 2), dtype="<u8")
    words[:, 1] = _doubles(column.to_numpy(dtype="float64", na_value=math.nan)).view("<u8")
    if dtype.kind in "iu" and dtype.itemsize == 8:
        integers = column.to_numpy(dtype="int64" if dtype.kind == "i" else "uint64", na_value=0)
        large = ~_are_doubles(integers)
        words[large, 0], words[large, 1] = np.where(integers[large] < 0, 4, 2), integers[large].view("<u8")
    return words


def _are_doubles(integers: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a double is equal to each integer of 64 bits."""
    doubles = integers.astype(np.float64)
    inside = doubles < 2.0 ** (63 if integers.dtype.kind == "i" else 64)
    return np.asarray(inside & (np.where(inside, doubles, 0.0).astype(integers.dtype) == integers))


def _distinct(column: Any) -> tuple[NDArray[np.intp], Iterable[Any]]:
    """The place of each cell among others, -1 if it is missing, and those."""
    import pandas

    if isinstance(column.dtype, pandas.CategoricalDtype):
        return np.asarray(column.cat.codes), column.cat.categories
    merged = getattr(column.dtype, "kind", "O") not in "Of"
    if merged or pandas.api.types.infer_dtype(column, skipna=True) == "string":
        places, cells = pandas.factorize(column)
        return places, cells
    # Objects of different types may compare equal: they are not merged.
    return np.where(column.isna(), -1, np.arange(len(column))), list(column.to_numpy())


def _cell_words(cell: Any, key: bytes) -> tuple[int, int]:
    """128 bits for a cell, equal for equal numbers and equal texts only.

    0 and a double; 2 or 4 and an integer of 64 bits, by its sign, that no double equals; else a keyed hash,
    whose first word is odd.
    """
    if isinstance(cell, str):
        return _hashed(f"text {cell}", key)
    if cell is None or isinstance(cell, (numbers.Number, np.bool_)):
        return _number_words(math.nan if cell is None else cell, key)
    return _hashed(f"{type(cell).__name__} {cell.tolist() if isinstance(cell, np.ndarray) else cell}", key)


def _number_words(number: Any, key: bytes) -> tuple[int, int]:
    exact = int(number) if isinstance(number, (numbers.Integral, np.bool_)) else number
    try:
        double = float(exact)
    except (TypeError, ValueError, OverflowError):  # complex numbers, integers beyond the range of doubles
        return _hashed(f"number {exact}", key)
    if double == exact or math.isnan(double):
        return 0, int(_doubles(np.array([double])).view("<u8")[0])
    if isinstance(exact, int) and -(2**63) <= exact < 2**64:
        return 4 if exact < 0 else 2, exact % 2**64
    return _hashed("number {}/{}".format(*exact.as_integer_ratio()), key)


def _hashed(content: str, key: bytes) -> tuple[int, int]:
    digest = hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16, key=key, person=b"cell")
    first, second = np.frombuffer(digest.digest(), dtype="<u8").tolist()
    return first | 1, second


# -- what is public about them ---------------------------------------------------------------------------


def format_of(records: Any) -> dict[str, Any]:
    """The public format of records: their kind, the number or names of their columns, and types.

    Equal records have equal bytes only in the same format.
    """
    _check_can_be_split(records)
    if in_files(records):
        with closing(records.blocks()) as blocks:
            records = next(blocks, None)
        if records is None:
            raise ValueError("the files hold no record to split")
    if hasattr(records, "tocsr"):
        return {"kind": "sparse matrix", "columns": records.shape[1], "type": _type_name(records.dtype)}
    if hasattr(records, "numeric") and hasattr(records, "codes"):
        layout = hashlib.sha256(repr(records.layout).encode()).hexdigest()
        kind = _type_name(records.numeric.dtype)
        return {"kind": "TabularMatrix", "columns": records.shape[1], "type": kind, "layout": layout}
    if not hasattr(records, "columns"):
        array = np.asarray(records)
        width = math.prod(array.shape[1:])
        return {"kind": "array", "columns": width, "type": _type_name(array.dtype)}
    if hasattr(records, "to_pandas"):
        records = _as_pandas(records[:0])  # types without contents
    types = [_type_name(records.iloc[:, place].dtype) for place in range(records.shape[1])]
    columns = [[str(name), kind] for name, kind in zip(records.columns, types, strict=True)]
    return {"kind": "table", "columns": columns}


def _type_name(dtype: Any) -> str:
    """A class of types in which equal cells have equal bytes."""
    kind = getattr(dtype, "kind", "O")
    if hasattr(dtype, "categories"):
        return _type_name(dtype.categories.dtype)
    if kind in "biu":
        return "integer"
    return f"float{8 * dtype.itemsize}" if kind == "f" else {"M": "time", "m": "duration"}.get(kind, "text")


def describe_format(known: Any) -> str:
    """A format in words."""
    kind, columns = known["kind"], known["columns"]
    if kind != "table":
        article, layout = "an" if kind == "array" else "a", known.get("layout", "")
        words = f"{article} {kind} with {columns} columns of type {known['type']}"
        return f"{words} and layout {layout[:8]}" if layout else words
    listed = ", ".join(f"{name} ({kind})" for name, kind in columns[:20])
    return f"a table with {len(columns)} columns: {listed}{', ...' if len(columns) > 20 else ''}"


def format_difference(first: Any, other: Any) -> str:
    """What distinguishes two formats, in words; empty if they are equal."""
    if first == other:
        return ""
    if first["kind"] == other["kind"] == "table" and len(first["columns"]) == len(other["columns"]):
        pairs = enumerate(zip(first["columns"], other["columns"], strict=True), start=1)
        changes = [
            f"column {k} was {a[0]!r} ({a[1]}) and is {b[0]!r} ({b[1]})" for k, (a, b) in pairs if a != b
        ]
        return f"In the records that were split first {'; '.join(changes[:5])}"
    return (
        f"The records that were split first are {describe_format(first)}; these are {describe_format(other)}"
    )


# -- access ----------------------------------------------------------------------------------------------


def in_files(records: Any) -> bool:
    """Whether these are `RecordFiles`; looks at the type, since a frame's columns are attributes, too."""
    return hasattr(type(records), "blocks") and hasattr(type(records), "labelled_matrices")


def blocks_of(records: Any) -> Iterator[Any]:
    """The records, some at a time."""
    if in_files(records):
        return records.blocks()  # type: ignore[no-any-return]
    starts = range(0, number_of(records), _BLOCK)
    return (rows_of(records, slice(at, at + _BLOCK)) for at in starts)


def number_of(records: Any) -> int:
    """The number of records.

    Raises
    ------
    TypeError
        If they cannot be split.
    """
    if in_files(records):
        return sum(block.num_rows for block in records.blocks())
    _check_can_be_split(records)
    return int(records.shape[0]) if hasattr(records, "shape") else len(records)


def _check_can_be_split(records: Any) -> None:
    sized = hasattr(records, "shape") or hasattr(records, "__len__") or in_files(records)
    if not sized or hasattr(records, "__dask_graph__"):
        raise TypeError(
            "records must be in memory (an array, a sparse matrix, a TabularMatrix or a data frame) or in "
            "files opened by dperm.data.scan_parquet, to which a Dask collection can be written; got "
            f"{type(records).__name__}"
        )


def rows_of(values: Any, rows: slice | NDArray[np.int64]) -> Any:
    """Rows of an array, a sparse or tabular matrix, or a data frame."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "take") and hasattr(values, "to_pandas") and not isinstance(rows, slice):  # Arrow
        return values.take(rows)
    return values[rows] if hasattr(values, "shape") else np.asarray(values)[rows]


@dataclass(frozen=True)
class Coins:
    """The coins of one split.

    Attributes
    ----------
    key : bytes
        Secret key of the hash.
    shares : mapping
        Probability of each part.
    neighbors : Neighbours
        Under add_or_remove a record's coin depends on its content alone, so that adding a record does not
        move others (coins by position would move all that come after it). Equal records stay together. Under
        replace_one the coin depends on the position alone, and the sizes of the parts are public.
    """

    key: bytes
    shares: Mapping[str, float]
    neighbors: Neighbours

    def mask(self, records: Any, part: str) -> NDArray[np.bool_]:
        """Which records are in a part; `records` come without labels, which coins do not depend on."""
        if self.neighbors is Neighbours.ADD_OR_REMOVE:
            return self._are_in(part, self._digests(records))
        return self._are_in(part, self._places(number_of(records)))

    def size(self, n: int, part: str) -> int:
        """How many of n records are in a part, if coins depend on positions."""
        return int(np.count_nonzero(self._are_in(part, self._places(n))))

    def _are_in(self, part: str, words: Words) -> NDArray[np.bool_]:
        uniform = words.astype(np.float64) * 2.0**-64
        assigned = np.searchsorted(np.cumsum(list(self.shares.values())), uniform, side="right")
        return np.asarray(assigned == list(self.shares).index(part))

    def fingerprint(self, records: Any) -> bytes:
        """A keyed digest of the records in their order."""
        return hashlib.blake2b(self._digests(records).tobytes(), digest_size=32, key=self.key).digest()

    def _places(self, n: int) -> Words:
        positions = np.arange(n, dtype="<u8")
        return _digests(positions[:, None].view(np.uint8), self.key)

    def _digests(self, records: Any) -> Words:
        """64 bits for each record, equal for equal records."""
        blocks = (_digests(row_bytes(block, self.key), self.key) for block in blocks_of(records))
        return np.concatenate([*blocks, np.zeros(0, dtype="<u8")])


def _digests(rows: Iterable[NDArray[np.uint8]], key: bytes) -> Words:
    keyed = hashlib.blake2b(digest_size=8, key=key)  # a copy need not hash the key again

    def digest(row: NDArray[np.uint8]) -> bytes:
        own = keyed.copy()
        own.update(row.data)
        return own.digest()

    return np.frombuffer(b"".join([digest(row) for row in rows]), dtype="<u8")


def size_cap(n: int, share: float, equal: int, probability: float) -> int:
    """Cap that the size of a part exceeds with at most this probability, given that one record is in it.

    Parameters
    ----------
    n : int
        Number of all records.
    share : float
        Probability of the part.
    equal : int
        Largest number of equal records, which share a coin.
    probability : float

    Notes
    -----
    If all records are different, the number of others in the part is binomial. Otherwise, with k = `equal`,
    the known record brings at most k, and the n - k others come in groups of sizes ``m <= k``. Since ``log(1
    - s + s e^(t m))`` is convex in m and 0 at 0, the Chernoff bound of their sum is at most that of ``(n -
    k)/k`` groups of k, where that need not be an integer.
    """
    share = min(1.0, share + 2.0**-50)  # rounding of coins and of sums of shares
    others = n - equal

    def exceeded(cap: int) -> float:
        """Bound on the probability of more than `cap` records."""
        if equal == 1:
            return float(betainc(cap, n - cap, share))
        level = min(1.0, (cap + 1 - equal) / others)
        if level <= share:
            return 1.0
        return math.exp(-others / equal * (rel_entr(level, share) + rel_entr(1.0 - level, 1.0 - share)))

    if equal >= n or share == 1.0:
        return n
    enough = probability * (1.0 - 1e-6)
    return 1 + bisect.bisect_left(range(1, n), True, key=lambda cap: exceeded(cap) <= enough)


def check_shares(shares: Mapping[str, float], name: str) -> dict[str, float]:
    """Check the shares of a split and the names of it and its parts; return the shares sorted by name."""
    if not isinstance(shares, Mapping) or not shares:
        raise TypeError(f"shares must map the names of the parts to their shares, got {shown(shares)}.")
    for each in (name, *shares):
        if not check_text(each, "the name of a part") or not each.isprintable() or "/" in each:
            raise ValueError(f"the name of a part must be printable, without '/', got {shown(each)}.")
    expected = "a number in (0, 1]"
    known = {
        each: check_real(share, f"the share of {each!r}", expected, lambda value: 0.0 < value <= 1.0)
        for each, share in shares.items()
    }
    if sum(known.values()) > 1.0 + 1e-12 or len(known) > 100:
        raise ValueError(f"shares must be at most 100 and sum to at most 1, got {shown(dict(shares))}.")
    return dict(sorted(known.items()))  # coins do not depend on the order in which shares are given
