"""Ledgers: the budget shared by everything that is released from a data set, and from parts of it.

A fit reserves its whole cost with one `charge`, before any noise is drawn. Releases inside the fit are
accounted by its own `Budget`. An exception or a kill after the charge leaves it in place, so a ledger may
overcount but never undercount.
"""

from __future__ import annotations

import hashlib
import html
import math
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Self

from dperm.accounting._checks import ReadOnlyMapping, check_positive_epsilon, check_text, shown
from dperm.accounting.ledger.account import Account, Check, Entries, joined, ledger_card
from dperm.accounting.ledger.cost import Cost, FitCost
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.part import PartRecords
from dperm.accounting.ledger.pricing import Request, advice_on, price, warn_of_the_last
from dperm.accounting.ledger.records import Coins, check_shares
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import check_target
from dperm.errors import LedgerError

_SEEDED = (
    "This ledger accepts fits with random_state=None only: fits with equal seeds draw equal noise, which "
    "cancels between them, also for those who do not know the seed. Ledger(..., allow_seeded=True) is for "
    "tests."
)

_NOTHING = Cost()


class PrivacyLedger(Entries):
    """Base class of ledgers; subclasses store the entries.

    Parameters
    ----------
    terms : LedgerTerms
        What was fixed at creation.

    Examples
    --------
    >>> from dperm.accounting import Ledger
    >>> Ledger(1.0, 1e-6, name="adult")
    Ledger('adult', epsilon=1, delta=1e-06, ...: spent=0, left=1, charges=0)
    """

    #: Facts that every charge notes.
    _notes: Mapping[str, str] = {}

    # -- what was promised, what is left ----------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """The budget's epsilon; `extend` moves it up to the ceiling."""
        return self._account().epsilon

    @property
    def caps(self) -> Cost:
        """Caps on the cost of everything together: mu^2 or rho, slack, pure epsilon."""
        return self._account().caps

    @property
    def charged(self) -> Cost:
        """What was charged; of the parts of a split, the largest cost counts."""
        return self._account().total(self._part)

    @property
    def room(self) -> Cost:
        """What one more fit may cost."""
        return self._account().room(self._part)

    @property
    def spent(self) -> float:
        """Epsilon, at the ledger's delta, of everything charged so far; never above `epsilon`."""
        return self._account().spent(self._part)

    @property
    def left(self) -> float:
        """``epsilon - spent``; for a part, what all fits spent that saw its records."""
        return self._account().left(self._part)

    @property
    def remaining(self) -> float:
        """Largest epsilon, at the ledger's delta, of one more fit with the ledger's accountant.

        More than `left`: under composition two fits cost together less than the sum of their epsilons.
        """
        return self._account().remaining(self._part)

    # -- charges ----------------------------------------------------------------------------------------

    def charge(
        self,
        *,
        epsilon: float,
        delta: float,
        accountant: str | None = None,
        description: str = "",
        statement: Mapping[str, Any] | None = None,
        neighbors: str | None = None,
        cost: FitCost | Callable[[float], FitCost] | None = None,
        seeded: bool = False,
    ) -> LedgerEntry:
        """Reserve the budget of a whole fit. Call it once, before any noise is drawn.

        Anything random that the guarantee averages over, such as a number of steps, is drawn afterwards, too.

        Parameters
        ----------
        epsilon, delta : float
            Guarantee of the fit, ``0 <= delta < 1``.
        accountant : str, optional
            How the fit is accounted: "gdp", "zcdp", "pure" (an epsilon-DP fit), or the name of any other
            accountant, whose (epsilon, delta) takes a whole, unused ledger unless `cost` is given, with a
            warning if that is more. By default "pure" for ``delta = 0``, else the ledger's own.
        description : str, default=""
            What the charge is for: one line, public.
        statement : Mapping, optional
            Further public facts, stored with the entry.
        neighbors : {"add_or_remove", "replace_one"}, optional
            Neighbouring relation of the guarantee, by default the ledger's. A ledger of replace_one accepts a
            fit under add_or_remove at twice its mu; the reverse is refused.
        cost : FitCost or callable, optional
            Cost of the fit in mu, slack and pure epsilon, if it does not follow from (epsilon, delta) and the
            accountant. A function is called with the slack that the ledger grants.
        seeded : bool, default=False
            Whether the noise is drawn from a seed.

        Returns
        -------
        LedgerEntry
            The entry as stored.

        Raises
        ------
        BudgetExceededError
            If the charge does not fit. Nothing is stored.
        ValueError
            If a "gdp" ledger is charged for a "zcdp" fit, a ledger of add_or_remove for one of replace_one,
            or a fit is seeded.

        Examples
        --------
        >>> from dperm.accounting import Ledger
        >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
        >>> ledger.charge(epsilon=0.6, delta=1e-6, description="first model").description
        'first model'
        >>> ledger.charge(epsilon=0.9, delta=1e-6)
        Traceback (most recent call last):
            ...
        dperm.errors.BudgetExceededError: Privacy budget exceeded (epsilon at delta=1e-06): total ...
        """
        epsilon, delta = check_target(check_positive_epsilon(epsilon), delta)
        kind = "pure" if delta == 0.0 else str(self.accountant)
        if accountant is not None:
            kind = str(check_text(accountant, "accountant"))
        if statement is not None and not isinstance(statement, Mapping):
            raise TypeError(f"statement must be a mapping, got {shown(statement)}.")
        relation = self.neighbors if neighbors is None else Neighbours.parse(neighbors)
        if seeded and not self.allow_seeded and self._known_account().epsilon < math.inf:
            raise ValueError(_SEEDED)
        request = Request(epsilon, delta, kind, relation, cost)
        facts = ReadOnlyMapping({**self._notes, **(statement or {}), "neighbors": str(relation)})
        words, account = check_text(description, "description"), self._known_account()
        while True:
            asked, now = price(request, account, self._part), datetime.now(UTC)
            entry = LedgerEntry(now, words, epsilon, delta, kind, asked, facts, self._part)
            warn_of_the_last(entry, account)
            stored = self._append(entry, self._check_of_room(account))
            if stored is not None:
                return stored
            account = self._account()

    def _check_of_room(self, known: Account) -> Check:
        """A check that a charge fits; False if the account has changed since the charge was priced."""

        def check(account: Account, entry: LedgerEntry) -> bool:
            if account.caps != known.caps:
                return False
            if account.fits(entry):
                return True
            if account != known:
                return False
            raise account.exceeded(entry, advice_on(entry, account))

        return check

    def cost_of(self, fit: Callable[..., Any], *args: Any, **kwargs: Any) -> LedgerEntry:
        """What a fit would be charged; nothing is charged and the data are not read.

        Parameters
        ----------
        fit, *args, **kwargs
            Called as ``fit(*args, ledger=..., **kwargs)``, for instance an algorithm of `dperm.algorithms`.
            It is stopped at the point where it would be charged.

        Returns
        -------
        LedgerEntry
            The entry that the fit would make; ``ledger.affords(entry)`` says whether there is room for it.

        Raises
        ------
        ValueError
            If the fit returns without a charge. Whatever it raises before it is charged is passed on.

        Examples
        --------
        >>> from dperm.accounting import Ledger
        >>> ledger = Ledger(1.0, 1e-6)
        >>> entry = ledger.cost_of(lambda ledger: ledger.charge(epsilon=0.5, delta=1e-6))
        >>> ledger.affords(entry), ledger.spent
        (True, 0.0)
        """
        try:
            fit(*args, ledger=_Pricing(self), **kwargs)
        except _PriceError as price:
            return price.entry
        raise ValueError("The fit returned without a charge: it does not use the ledger that it is given.")

    def affords(self, entry: LedgerEntry) -> bool:
        """Whether there is room for a charge like this one.

        Examples
        --------
        >>> from dperm.accounting import Ledger
        >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
        >>> ledger.affords(ledger.cost_of(lambda ledger: ledger.charge(epsilon=0.8, delta=1e-6)))
        True
        """
        return self._account().fits(entry)

    def noting(self, *, purpose: str = "", by: str = "", **facts: str) -> PrivacyLedger:
        """The ledger, noting with every charge what it is for and who makes it.

        Parameters
        ----------
        purpose, by : str
            Public, one line each; empty ones are not noted.
        **facts : str
            Others, by name.

        Examples
        --------
        >>> from dperm.accounting import Ledger
        >>> ledger = Ledger(1.0, 1e-6)
        >>> entry = ledger.noting(purpose="annual report", by="A. Turing").charge(epsilon=0.5, delta=1e-6)
        >>> dict(ledger.history()[0].statement)
        {'purpose': 'annual report', 'by': 'A. Turing', 'neighbors': 'add_or_remove'}
        """
        given = {"purpose": purpose, "by": by, **facts}
        return NotingLedger(self, {name: check_text(text, name) for name, text in given.items() if text})

    # -- its life ---------------------------------------------------------------------------------------

    def extend(self, epsilon: float) -> LedgerEntry:
        """Raise the total to `epsilon`, at most the ceiling that was fixed at creation.

        Since the decision to extend may depend on results, everything released is guaranteed the ceiling
        only.

        Raises
        ------
        ValueError
            If `epsilon` is not above the present total or exceeds the ceiling, or the ledger was closed.

        Examples
        --------
        >>> from dperm.accounting import Ledger
        >>> ledger = Ledger(epsilon=1.0, delta=1e-6, ceiling=3.0)
        >>> ledger.extend(2.0).epsilon, ledger.ceiling
        (2.0, 3.0)
        """
        epsilon = check_positive_epsilon(epsilon)

        def check(account: Account, entry: LedgerEntry) -> bool:
            account.check_extension(entry.epsilon, entry.cost)
            return True

        return self._stored(self._event("extend", epsilon, self._terms.caps(epsilon)), check)

    def close(self) -> LedgerEntry:
        """Close the ledger: nothing can be charged any more.

        Examples
        --------
        >>> from dperm.accounting import Ledger
        >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
        >>> ledger.close().kind, ledger.remaining
        ('close', 0.0)
        """

        def check(account: Account, entry: LedgerEntry) -> bool:
            if account.closed:
                raise ValueError("The ledger was closed before.")
            return True

        return self._stored(self._event("close"), check)

    def _stored(self, entry: LedgerEntry, check: Check) -> LedgerEntry:
        stored = self._append(entry, check)
        assert stored is not None
        return stored

    def split(self, shares: Mapping[str, float], *, name: str = "split") -> dict[str, LedgerPart]:
        """Split the records at random: fits on different parts together cost the largest, not the sum.

        Parameters
        ----------
        shares : mapping
            Name and probability of each part; they sum to at most 1. Under add_or_remove equal records are in
            the same part: if a few records occur very often, the sizes may be far from these shares.
        name : str, default="split"
            Name of the split. The same name and shares give the same parts again, also in another process. A
            split of another name is independent, and its charges add to those of this one.

        Returns
        -------
        dict of LedgerPart
            Ledgers of the parts, in the order of `shares`, which also select the records of each part.

        Raises
        ------
        ValueError, TypeError
            If a name or a share is out of range, or there is a split of this name with other shares.
        LedgerCorruptError
            If the secret key of the split was altered or deleted.

        Examples
        --------
        >>> import numpy as np
        >>> from dperm.accounting import Ledger
        >>> X, y = np.arange(2000.0).reshape(1000, 2), np.ones(1000)
        >>> parts = Ledger(epsilon=1.0, delta=1e-6).split({"train": 0.8, "validation": 0.2})
        >>> X_train, y_train = parts["train"].take(X, y)
        >>> X_train.shape == (len(y_train), 2)
        True
        """
        known = check_shares(shares, name)
        path = joined(self._part, name, "")
        if name not in self._account().splits.get(self._part, {}):
            drawn = self._keep(f"{path}key", secrets.token_bytes(32))
            facts = {"shares": known, "key": hashlib.sha256(drawn).hexdigest()}
            entry = self._event("split", words=name, facts=facts)
            self._append(entry, lambda account, entry: name not in account.splits.get(self._part, {}))
        made = self._account().splits[self._part][name]
        if made.shares != known:
            raise ValueError(
                f"The records were split as {name!r} before, with shares {dict(made.shares)}: give the same, "
                "or another name."
            )
        coins = Coins(self._recall(f"{path}key", made.key), known, self.neighbors)
        return {each: LedgerPart(self, joined(self._part, name, each), coins) for each in shares}

    def _event(
        self,
        kind: str,
        epsilon: float = 0.0,
        cost: Cost = _NOTHING,
        words: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> LedgerEntry:
        if self._part and kind != "split":
            raise ValueError("A part has the budget of the whole ledger: extend or close that.")
        now, accountant, known = datetime.now(UTC), str(self.accountant), ReadOnlyMapping(facts or {})
        return LedgerEntry(now, words, epsilon, 0.0, accountant, cost, known, self._part, kind)

    # A ledger is the account of a data set: a copy would be a second, uncharged budget. scikit-learn's
    # clone and grid search copy parameters deeply, and all their fits must charge this ledger.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    __sklearn_clone__ = __copy__

    def __repr__(self) -> str:
        """Show the budget and what was spent of it; of a ledger that cannot be read, why."""
        try:
            account = self._account()
        except LedgerError as error:
            return f"{type(self).__name__}({self.name!r}: {error.problem})"
        name = f"{self.name!r}, " if self.name else ""
        part = f"part={self._part!r}, " if self._part else ""
        return (
            f"{type(self).__name__}({name}{part}epsilon={account.epsilon:g}, delta={self.delta:g}, "
            f"accountant={str(self.accountant)!r}, neighbors={str(self.neighbors)!r}: "
            f"spent={self.spent:.6g}, left={self.left:.6g}, charges={self._n_charges()})"
        )

    def _n_charges(self) -> int:
        """The number of charges: of a part, its own."""
        if not self._part:
            return self._account().charges
        return sum(each.kind == "charge" for each in self.history())

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
        try:
            return ledger_card(type(self).__name__, self._account(), self._part, self._n_charges())
        except RuntimeError:  # the account is elsewhere, or cannot be read
            return f"<p>{html.escape(repr(self))}</p>"


class _PriceError(Exception):
    """Carries the entry of a fit that would have been charged."""

    def __init__(self, entry: LedgerEntry) -> None:
        self.entry = entry


class _View(PrivacyLedger):
    """A ledger that reads and writes the account of another one."""

    _whole: Entries

    def __init__(self, whole: PrivacyLedger) -> None:
        super().__init__(whole._terms)
        self._whole, self._part, self._notes = whole, whole._part, whole._notes

    def history(self) -> list[LedgerEntry]:
        """Entries of the part and of its own parts, oldest first."""
        inside = f"{self._part}/"
        entries = self._whole.history()
        return [each for each in entries if not self._part or f"{each.part}/".startswith(inside)]

    @property
    def serves_processes(self) -> bool:
        """Whether other processes can charge the ledger behind this view."""
        return self._whole.serves_processes

    def _is_capped(self, n: int) -> bool:
        """Whether n bounds the number of records of the ledger behind this view."""
        return self._whole._is_capped(n)

    def _account(self) -> Account:
        return self._whole._account()

    def _append(self, entry: LedgerEntry, check: Check) -> LedgerEntry | None:
        return self._whole._append(entry, check)

    def _keep(self, name: str, secret: bytes) -> bytes:
        return self._whole._keep(name, secret)

    def _recall(self, name: str, digest: str) -> bytes:
        return self._whole._recall(name, digest)


class _Pricing(_View):
    """Stops a fit at the point where it would be charged."""

    def _append(self, entry: LedgerEntry, check: Check) -> LedgerEntry | None:
        raise _PriceError(entry)


class NotingLedger(_View):
    """A ledger that adds facts to every charge; made by `PrivacyLedger.noting`."""

    def __init__(self, whole: PrivacyLedger, facts: Mapping[str, str]) -> None:
        super().__init__(whole)
        self._notes = {**whole._notes, **facts}


class LedgerPart(PartRecords, _View):
    """The ledger of a part of the records; made by `PrivacyLedger.split`.

    It is charged like any ledger. Of the parts of one split, the whole ledger counts the one that was charged
    most.

    Parameters
    ----------
    whole : PrivacyLedger
        The ledger that was split.
    path : str
        Path of the part.
    coins : Coins
        Coins of the split.

    Examples
    --------
    >>> from dperm.accounting import Ledger
    >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
    >>> parts = ledger.split({"a": 0.5, "b": 0.5})
    >>> entries = [part.charge(epsilon=0.7, delta=1e-6) for part in parts.values()]
    >>> round(ledger.spent, 6)
    0.7
    """

    def __init__(self, whole: PrivacyLedger, path: str, coins: Coins) -> None:
        super().__init__(whole)
        self._part, self._coins = path, coins
