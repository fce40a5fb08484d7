"""Ledgers in memory: of fits, of a search that was charged to another ledger, of a model that was stored."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import Any, NoReturn

from dperm.accounting._checks import shown
from dperm.accounting.ledger.account import Account, Check
from dperm.accounting.ledger.cost import Cost, largest_epsilon, slack_units
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.privacy_ledger import LedgerPart, PrivacyLedger
from dperm.accounting.ledger.terms import LedgerTerms
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant, Units


class Ledger(PrivacyLedger):
    """Budget in memory, shared by all fits of one process that are given it.

    Parameters
    ----------
    epsilon, delta : float
        epsilon > 0 (infinite means an unlimited budget), delta strictly between 0 and 1.
    accountant : {"gdp", "zcdp"}
        What is added up under composition. A "zcdp" ledger also accepts fits accounted with "gdp" (mu-GDP
        implies (mu^2/2)-zCDP), a "gdp" ledger does not accept fits accounted with "zcdp".
    name : str, default=""
        Shown in statements and error messages.
    neighbors : {"add_or_remove", "replace_one"}
        The neighbouring relation of everything that is charged.
    slack : float, optional
        Part of delta that is reserved for fits that are Gaussian differentially private up to a slack (those
        with secret batches); by default a tenth. 0 leaves all of delta to the others.
    pure : float, default=0.0
        Part of epsilon that is reserved for fits with delta = 0, which are charged to it when that is
        cheaper.
    ceiling : float, optional
        The largest epsilon that `extend` can ever raise the total to; by default epsilon, so that it cannot.
    allow_seeded : bool, default=False
        Accept fits with a random_state. For tests: with equal seeds in two fits, the noise cancels.

    Notes
    -----
    All fits that are charged are together (epsilon, delta)-DP, also when later ones depend on the results of
    earlier ones (see `dperm.accounting.ledger.cost`); with a ceiling, (ceiling, delta)-DP. Copies
    (`copy.deepcopy`, `sklearn.base.clone`) are the same ledger. Charging is thread-safe; the ledger cannot be
    shared with other processes.

    Examples
    --------
    >>> ledger = Ledger(epsilon=3.0, delta=1e-6)
    >>> entry = ledger.charge(epsilon=1.0, delta=1e-6, description="first model")
    >>> ledger.spent
    1.0
    >>> ledger.remaining > 2.0
    True
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        accountant: str = "gdp",
        *,
        name: str = "",
        neighbors: str = "add_or_remove",
        slack: float | None = None,
        pure: float = 0.0,
        ceiling: float | None = None,
        allow_seeded: bool = False,
    ) -> None:
        further: dict[str, Any] = {"slack": slack, "ceiling": ceiling, "neighbors": neighbors}
        terms = LedgerTerms(
            epsilon,
            delta,
            Accountant.parse(accountant),
            name=name,
            pure=pure,
            allow_seeded=allow_seeded,
            **further,
        )
        super().__init__(terms)
        self._entries: list[LedgerEntry] = []
        self._now = Account(terms, terms.epsilon, terms.caps(terms.epsilon))
        self._secrets: dict[str, bytes] = {}
        self._lock = threading.RLock()
        self._process = os.getpid()

    def history(self) -> list[LedgerEntry]:
        """All entries, oldest first: a new list of immutable entries.

        Examples
        --------
        >>> ledger = Ledger(epsilon=3.0, delta=1e-6)
        >>> entry = ledger.charge(epsilon=1.0, delta=1e-6, description="first model")
        >>> [(each.description, each.epsilon) for each in ledger.history()]
        [('first model', 1.0)]
        """
        with self._lock:
            return list(self._entries)

    @property
    def serves_processes(self) -> bool:
        """False: it lives in one process."""
        return False

    def _account(self) -> Account:
        return self._now

    def _append(self, entry: LedgerEntry, check: Check) -> LedgerEntry | None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "An in-memory Ledger cannot be charged from a forked process: the charge would be lost to "
                "the others. Use threads, or a durable ledger."
            )
        with self._lock:
            if not check(self._account(), entry):
                return None
            self._now = self._now.after(entry)
            self._entries.append(entry)
            return entry

    def _keep(self, name: str, secret: bytes) -> bytes:
        with self._lock:
            return self._secrets.setdefault(name, secret)

    def _recall(self, name: str, digest: str) -> bytes:
        return self._secrets[name]

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError(
            "An in-memory Ledger cannot be pickled or sent to another process: the copy would be a second, "
            "uncharged budget. Use a durable ledger, dperm.accounting.open_ledger(file, name, epsilon, "
            "delta), or threads: joblib.parallel_config('threading')."
        )


class Allotment(Ledger):
    """Ledger for the fits of one search, on the same records and on parts of them.

    It lives as long as the search. Its caps are the amount that was charged elsewhere, so a search that
    exceeded it would be refused here.

    Parameters
    ----------
    units : int
        Cap on mu^2 or rho of all fits together.
    delta : float
        Delta of the fits.
    accountant : Accountant
    neighbors : Neighbours
    payer : PrivacyLedger, optional
        The ledger that was charged; it knows whether the number of records is capped.
    slack : float
        Cap on the slack in delta of fits with secret batches; charged elsewhere, too.
    """

    def __init__(
        self,
        units: Units,
        delta: float,
        accountant: Accountant,
        neighbors: Neighbours,
        payer: PrivacyLedger | None = None,
        slack: float = 0.0,
    ) -> None:
        epsilon = largest_epsilon(units, delta, accountant)
        super().__init__(epsilon, delta, accountant, neighbors=neighbors, slack=0.0, allow_seeded=True)
        # The exact caps: those that follow from epsilon are rounded down.
        self._now = replace(self._now, caps=Cost(units, slack_units(slack, up=False)))
        self._payer = payer

    def _is_capped(self, n: int) -> bool:
        """Whether the number of records of the ledger that was charged is capped."""
        return self._payer is None or self._payer._is_capped(n)

    def split_by(self, key: bytes, share: float) -> tuple[LedgerPart, LedgerPart]:
        """Split off a share of the records for validation, with a secret key of 32 bytes.

        Returns
        -------
        train, validation : LedgerPart
        """
        self._keep("split/key", key)
        parts = self.split({"train": 1.0 - share, "validation": share})
        return parts["train"], parts["validation"]


class ClosedLedger(PrivacyLedger):
    """Name and terms of a ledger that a stored model does not carry along: nothing can be charged to it.

    Examples
    --------
    >>> import pickle
    >>> from dperm import LogisticRegression
    >>> from dperm.accounting import Ledger
    >>> model = LogisticRegression(row_norm=1.5, classes=[0, 1], ledger=Ledger(3.0, 1e-5, name="patients"))
    >>> model = pickle.loads(pickle.dumps(model.fit([[0.0], [1.0]] * 50, [0, 1] * 50)))
    >>> model.ledger
    ClosedLedger('patients')
    """

    @classmethod
    def of(cls, ledger: PrivacyLedger) -> ClosedLedger:
        """The stand-in for a ledger; a stand-in is returned as it is."""
        return ledger if isinstance(ledger, ClosedLedger) else cls(ledger._terms)

    def charge(self, **_: Any) -> NoReturn:
        """Refuse every charge.

        Raises
        ------
        RuntimeError
            Always.
        """
        name = f" {self.name!r}" if self.name else ""
        raise RuntimeError(
            f"The ledger{name} stayed where this model was fitted: a model that was stored and loaded cannot "
            "charge it. Nothing was charged. To fit again, give the ledger: "
            "model.set_params(ledger=dperm.accounting.open_ledger(...))"
        )

    def history(self) -> list[LedgerEntry]:
        """Refuse, as `charge` does."""
        self.charge()

    def _account(self) -> Account:
        self.charge()

    def _append(self, entry: LedgerEntry, check: Check) -> LedgerEntry | None:
        self.charge()

    def _keep(self, name: str, secret: bytes) -> bytes:
        self.charge()

    def _recall(self, name: str, digest: str) -> bytes:
        self.charge()

    def __repr__(self) -> str:
        """Show the name."""
        return f"ClosedLedger({self.name!r})"


def check_ledger(ledger: object) -> PrivacyLedger:
    """Return `ledger` if it is one, else raise TypeError.

    Examples
    --------
    >>> check_ledger(1.0)
    Traceback (most recent call last):
        ...
    TypeError: ledger must be a dperm.accounting.Ledger or what dperm.accounting.open_ledger ...
    """
    if not isinstance(ledger, PrivacyLedger):
        raise TypeError(
            "ledger must be a dperm.accounting.Ledger or what dperm.accounting.open_ledger returns, got "
            f"{shown(ledger)} of type {type(ledger).__name__}."
        )
    return ledger
