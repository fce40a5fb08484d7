"""Which part of a split a record belongs to: a secret coin for each record, drawn from a key."""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, rel_entr

from dperm.accounting._checks import check_real, check_text, shown
from dperm.accounting.ledger.records import Words, blocks_of, number_of, row_bytes
from dperm.accounting.neighbours import Neighbours


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
