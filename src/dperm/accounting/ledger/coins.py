"""Which part of a split a record belongs to: a secret coin for each record, drawn from a key."""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, rel_entr

from dperm.accounting._checks import check_real, check_text, shown
from dperm.accounting.neighbours import Neighbours

Words = NDArray[np.uint64]

_BLOCK = 1 << 16  # records that are hashed at a time


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
        return self._are_in(part, self._places(_number_of(records)))

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
        blocks = (_digests(_tokens(block), self.key) for block in _blocks_of(records))
        return np.concatenate([*blocks, np.zeros(0, dtype="<u8")])


# The bytes of a record, and the token of a cell, must depend on that record and that cell alone. The dtype of
# a column depends on all its cells: one missing number turns integers into doubles, one string turns numbers
# into objects, which must not change the coins of other records.


def _tokens(records: Any) -> list[NDArray[np.uint8]] | NDArray[np.uint8]:
    """The bytes of each record."""
    if hasattr(records, "tocsr"):
        return _entries(records.tocsr().copy())
    if hasattr(records, "numeric") and hasattr(records, "codes"):  # a tabular matrix
        columns = np.concatenate([np.asarray(records.numeric), np.asarray(records.codes)], axis=1)
        return _bytes_of_numbers(columns)
    if hasattr(records, "to_pandas"):  # Arrow tables, polars frames
        records = records.to_pandas()
    if not hasattr(records, "columns"):
        records = np.asarray(records)
        if records.dtype != object:
            return _bytes_of_numbers(records.reshape(len(records), -1))
        import pandas

        records = pandas.DataFrame(records)
    tokens = [_column_tokens(records.iloc[:, place]) for place in range(records.shape[1])]
    return np.stack(tokens, axis=1).view(np.uint8)


def _entries(rows: Any) -> list[NDArray[np.uint8]]:
    """The bytes of the nonzero entries of each row."""
    rows.sum_duplicates()
    rows.eliminate_zeros()
    places = rows.indices.astype("<i8").reshape(-1, 1).view(np.uint8)
    pairs = np.concatenate([places, _bytes_of_numbers(rows.data.reshape(-1, 1))], axis=1)
    return [pairs[a:b].ravel() for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]


def _bytes_of_numbers(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes of numbers as doubles, with -0 as 0 and all NaNs alike."""
    doubles = np.ascontiguousarray(values, dtype="<f8") + 0.0
    return np.where(np.isnan(doubles), np.nan, doubles).view(np.uint8)


def _column_tokens(column: Any) -> Words:
    """64 bits for each cell of a column."""
    import pandas

    if getattr(column.dtype, "kind", "O") in "biuf":  # the same as _cell_token for each cell
        return _bytes_of_numbers(column.to_numpy(dtype="float64", na_value=math.nan)).view("<u8")
    codes, distinct = pandas.factorize(column.astype(object), use_na_sentinel=True)
    tokens = np.array([_cell_token(cell) for cell in [*distinct, None]], dtype="<u8")
    return np.asarray(tokens[codes])  # the last one for -1, a missing cell


def _cell_token(cell: Any) -> int:
    """64 bits for a cell: a number, also one written as a string, or a hash; None and NaN are equal."""
    try:
        number = np.array([math.nan if cell is None else float(cell)])
    except (TypeError, ValueError, OverflowError):
        text = str(cell).encode(errors="surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return int(_bytes_of_numbers(number).view("<u8")[0])


def _digests(rows: Iterable[NDArray[np.uint8]], key: bytes) -> Words:
    keyed = hashlib.blake2b(digest_size=8, key=key)  # a copy need not hash the key again

    def digest(row: NDArray[np.uint8]) -> bytes:
        own = keyed.copy()
        own.update(row.data)
        return own.digest()

    return np.frombuffer(b"".join([digest(row) for row in rows]), dtype="<u8")


def in_files(records: Any) -> bool:
    """Whether these are `RecordFiles`; looks at the type, since a frame's columns are attributes, too."""
    return hasattr(type(records), "blocks") and hasattr(type(records), "labelled_matrices")


def _blocks_of(records: Any) -> Iterator[Any]:
    if in_files(records):
        return records.blocks()  # type: ignore[no-any-return]
    starts = range(0, _number_of(records), _BLOCK)
    return (rows_of(records, slice(at, at + _BLOCK)) for at in starts)


def _number_of(records: Any) -> int:
    if in_files(records):
        return sum(block.num_rows for block in records.blocks())
    sized = hasattr(records, "shape") or hasattr(records, "__len__")
    if not sized or hasattr(records, "__dask_graph__"):
        raise TypeError(
            "records must be in memory (an array, a sparse matrix, a TabularMatrix or a data frame) or in "
            "files opened by dperm.data.scan_parquet, to which a Dask collection can be written; got "
            f"{type(records).__name__}"
        )
    return int(records.shape[0]) if hasattr(records, "shape") else len(records)


def rows_of(values: Any, rows: slice | NDArray[np.int64]) -> Any:
    """Rows of an array, a sparse or tabular matrix, or a data frame."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "take") and hasattr(values, "to_pandas") and not isinstance(rows, slice):  # Arrow
        return values.take(rows)
    return values[rows] if hasattr(values, "shape") else np.asarray(values)[rows]


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
