"""The records of a part of a split: which they are, and a cap on their number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting._checks import ReadOnlyMapping, check_delta, check_steps, plain, shown
from dperm.accounting.ledger.account import Account, Entries, outer_part
from dperm.accounting.ledger.cost import Cost, slack_units
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.records import Coins, format_difference, format_of, in_files, rows_of, size_cap
from dperm.accounting.neighbours import Neighbours


class PartRecords(Entries):
    """The methods of `LedgerPart` that concern its records."""

    _coins: Coins
    _whole: Entries

    @property
    def _split(self) -> str:
        return self._part.rpartition("/")[0]

    @property
    def _own_name(self) -> str:
        return self._part.rpartition("/")[2]

    @property
    def share(self) -> float:
        """Probability that a record is in this part."""
        return self._coins.shares[self._own_name]

    def n_public(self, n: int) -> int:
        """Public divisor for sums over this part: its share of a public number of records, rounded.

        Parameters
        ----------
        n : int
            Public number of all records.
        """
        return max(1, round(check_steps(n, "n") * self.share))

    def size_cap(self, n: int, *, equal: int | None = None, probability: float = 1e-12) -> int:
        """Public cap on the number of records in this part, for fits that must not see more than `n_public`.

        Step sizes and sensitivities of such fits depend on it: output perturbation, objective perturbation,
        shuffled epochs. The share of n is not a cap, since half of all splits exceed it.

        Parameters
        ----------
        n : int
            Public upper bound on the number of records that were split; for a part of a part, the cap on the
            outer part.
        equal : int, optional
            Public upper bound on the number of times that a record occurs, labels aside. If not given, the
            cap under add_or_remove is n, since equal records are in the same part.
        probability : float, default=1e-12
            Probability of more records than the cap. It is charged, as slack in delta.

        Returns
        -------
        int
            Under replace_one the number of records of the part, which is public there.

        Raises
        ------
        ValueError
            If a part of this split was charged for a fit before. What that released may reveal the part's
            size, and with it whether the cap holds: take caps first.
        BudgetExceededError
            If the slack does not fit. Nothing is charged.

        Notes
        -----
        Fits on this part are as private as stated unless it holds the record in which two data sets differ
        and exceeds the cap in the larger one. Before anything that depends on the coins is released, the
        probability of that, given the part of that record, is at most the one charged. So taking a cap is
        0-GDP up to that slack, and composes like a fit (:mod:`dperm.accounting.approximate_gdp`).

        Examples
        --------
        >>> from dperm.accounting import Ledger
        >>> part = Ledger(1.0, 1e-6).split({"a": 0.5, "b": 0.5})["a"]
        >>> part.n_public(1000), part.size_cap(1000, equal=1)
        (500, 611)
        """
        n, equal = check_steps(n, "n"), n if equal is None else check_steps(equal, "equal")
        if self.neighbors is Neighbours.REPLACE_ONE:
            return self._coins.size(n, self._own_name)
        if not self._whole._is_capped(n):
            raise ValueError(f"n = {n} must be a cap on the part that was split: give that part's size_cap.")
        cap = size_cap(n, self.share, equal, check_delta(probability, "probability"))
        if not self._is_capped(cap):
            self._charge_cap(cap, n, equal, probability if cap < n else 0.0)
        return cap

    def _is_capped(self, n: int) -> bool:
        """Whether a cap of at most n was taken before; always true under replace_one."""
        own = (each.statement for each in self.history() if each.part == self._part)
        capped = any(facts.get("size_cap", math.inf) <= n for facts in own)
        return capped or self.neighbors is Neighbours.REPLACE_ONE

    def _charge_cap(self, cap: int, n: int, equal: int, slack: float) -> None:
        siblings = (each for each in self._whole.history() if each.part.startswith(f"{self._split}/"))
        if slack and any(each.kind == "charge" and "size_cap" not in each.statement for each in siblings):
            raise ValueError(
                "A part of this split was charged for a fit before, which may have revealed how many records "
                "are in the parts: take size caps before the first fit, or split again under another name."
            )

        def check(account: Account, entry: LedgerEntry) -> bool:
            if account.closed or not entry.cost.within(account.room(self._part)):
                raise account.exceeded(entry, "A size cap is charged as slack in delta (Ledger: slack).")
            return True

        words = f"at most {cap} records of {n}, none of which occurs more than {equal} times"
        cost, facts = Cost(slack=slack_units(slack, up=True)), ReadOnlyMapping({"size_cap": cap})
        now, accountant = datetime.now(UTC), str(self.accountant)
        self._append(LedgerEntry(now, words, 0.0, slack, accountant, cost, facts, self._part), check)

    def mask(self, records: Any) -> NDArray[np.bool_]:
        """Which records are in this part.

        Parameters
        ----------
        records : array, sparse matrix, TabularMatrix, data frame or RecordFiles
            All records, raw, before any row is dropped, and without labels (which are ignored in files).
            Public: the names, number and types of the columns. The first call fixes them for the split.

        Raises
        ------
        ValueError
            If the records have another format than those that the split was first used with; under
            replace_one, if the records or their order differ.

        Notes
        -----
        The part of a record depends on its bytes. What a format does not show must be the same for all parts:
        values that were rescaled or rounded, columns of an array in another order, a label among its columns.
        Otherwise the same person's records may be in several parts, and the ledger counts too little.
        """
        self._check_records(records)
        return self._coins.mask(records, self._own_name)

    def _check_records(self, records: Any) -> None:
        """Raise ValueError unless these have the format of the first records that were split."""
        found: dict[str, Any] = {"format": format_of(records)}
        known = self._known_records()
        if known is None:
            known = self._keep_records(found | self._order(records))
        difference = format_difference(plain(known["format"]), found["format"])
        if difference:
            raise ValueError(
                f"{difference}. A record's part depends on its bytes: in two formats it may be in two parts. "
                "Give the records in the first format, or split under another name."
            )
        if any(known[each] != digest for each, digest in self._order(records).items()):
            raise ValueError(
                "These are other records, or in another order, than those that this split was used with: "
                "under replace_one a record's part depends on its position."
            )

    def _known_records(self) -> Mapping[str, Any] | None:
        outer, split = outer_part(self._part)
        return self._whole._account().splits[outer][split].records

    def _keep_records(self, facts: dict[str, Any]) -> Mapping[str, Any]:
        """Add facts about the records, unless there are some already; return those that are kept."""
        outer, split = outer_part(self._part)
        now, accountant, kept = datetime.now(UTC), str(self.accountant), ReadOnlyMapping(plain(facts))
        entry = LedgerEntry(now, split, 0.0, 0.0, accountant, Cost(), kept, outer, "records")
        self._append(entry, lambda account, _: account.splits[outer][split].records is None)
        known = self._known_records()
        assert known is not None
        return known

    def _order(self, records: Any) -> dict[str, str]:
        """A keyed digest of the records in their order, where coins depend on positions."""
        if self.neighbors is Neighbours.ADD_OR_REMOVE:
            return {}
        return {"order": self._coins.fingerprint(records).hex()}

    def take(self, records: Any, *others: Any) -> Any:
        """The records of this part, and the same rows of further arrays (labels, counts).

        Parameters
        ----------
        records : array, sparse matrix, data frame or RecordFiles
            See `mask`. A part of files is files again, of which every pass skips the other records.
        *others : array_like
            As long as `records`.

        Returns
        -------
        one object, or a tuple of as many as were given
        """
        mask = self.mask(records)
        for each in others:
            if (each.shape[0] if hasattr(each, "shape") else len(each)) != mask.size:
                raise ValueError(f"arrays taken with {mask.size} records must be as long, got {shown(each)}")
        if in_files(records):
            if others:
                raise ValueError("files hold the labels, too: pass nothing else with them")
            return records.where(mask)
        rows = np.flatnonzero(mask)
        taken = tuple(rows_of(each, rows) for each in (records, *others))
        return taken if others else taken[0]
