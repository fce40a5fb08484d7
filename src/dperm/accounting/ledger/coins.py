"""Which part of a split a record is in: secret coins, drawn for each record from a key."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting._checks import check_real, check_text, shown
from dperm.accounting.neighbours import Neighbours

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Coins:
    """The coins of one split.

    Attributes
    ----------
    key : bytes
        Secret.
    shares : mapping
        Probability of each part.
    neighbors : Neighbours
        Under add_or_remove a record's coin depends on its content alone, so that one more record moves no
        other (coins by position from a known seed would move all that come after it). Equal records stay
        together. Under replace_one the coin depends on the position alone, and the sizes of the parts are
        public.
    """

    key: bytes
    shares: Mapping[str, float]
    neighbors: Neighbours

    def mask(self, records: Any, part: str) -> NDArray[np.bool_]:
        """Which records are in a part; records without the label: a coin never looks at one."""
        by_content = self.neighbors is Neighbours.ADD_OR_REMOVE
        words = content_hashes(records) if by_content else np.arange(records.shape[0], dtype="<u8")
        uniform = _keyed(words, self.key).astype(np.float64) * 2.0**-64
        assigned = np.searchsorted(np.cumsum(list(self.shares.values())), uniform, side="right")
        return np.asarray(assigned == list(self.shares).index(part))

    def fingerprint(self, records: Any) -> bytes:
        """A keyed digest of the records in their order."""
        return hmac.digest(self.key, content_hashes(records).tobytes(), "sha256")


def content_hashes(records: Any) -> Words:
    """64 bits for each record, equal for equal records."""
    if hasattr(records, "to_pandas"):  # Arrow tables, polars frames
        records = records.to_pandas()
    if hasattr(records, "columns"):
        import pandas

        return np.asarray(pandas.util.hash_pandas_object(records, index=False), dtype="<u8")
    if hasattr(records, "tocsr"):
        rows = records.tocsr().sorted_indices()
        ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        entries = rows.indices.astype("<i8"), rows.data.astype("<f8")
        return _digests(b"".join(part[a:b].tobytes() for part in entries) for a, b in ends)
    rows = np.asarray(records)
    if rows.dtype == object:
        import pandas

        return content_hashes(pandas.DataFrame(rows))
    return _digests(np.ascontiguousarray(row, dtype="<f8").tobytes() for row in rows)


def _digests(rows: Any) -> Words:
    return np.frombuffer(b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in rows), dtype="<u8")


def _keyed(words: Words, key: bytes) -> Words:
    """A keyed hash of each word."""
    text = words.tobytes()
    hashed = (
        hashlib.blake2b(text[at : at + 8], digest_size=8, key=key).digest() for at in range(0, len(text), 8)
    )
    return np.frombuffer(b"".join(hashed), dtype="<u8")


def take(values: Any, mask: NDArray[np.bool_]) -> Any:
    """The rows of an array, a sparse matrix or a data frame."""
    if hasattr(values, "iloc"):
        return values.iloc[mask]
    if hasattr(values, "filter") and not isinstance(values, np.ndarray):  # Arrow tables, polars frames
        return values.filter(mask)
    return values[mask] if hasattr(values, "shape") else np.asarray(values)[mask]


def check_shares(shares: Mapping[str, float], name: str) -> dict[str, float]:
    """The shares of a split, if they and the names of it and of its parts can be used."""
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
    return known
