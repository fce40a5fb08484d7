"""A ledger in an SQLite file, which survives crashes and can be shared by any number of processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

from dperm import __version__
from dperm.accounting._checks import ReadOnlyMapping, check_positive, plain, shown
from dperm.accounting.ledger import chain
from dperm.accounting.ledger.account import Account, Check
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.accounting.ledger.store import Kept, LedgerFile
from dperm.accounting.ledger.tables import RESTORE
from dperm.accounting.ledger.terms import LedgerTerms
from dperm.accounting.units import Accountant
from dperm.errors import LedgerCorruptError, LedgerMismatchError, LedgerNotFoundError

_SCHEME = "sqlite:///"
_BUDGET = ", ".join(chain.BUDGET_COLUMNS)
_ENTRY = ", ".join(chain.ENTRY_COLUMNS)
_INSERT = (
    f"INSERT INTO entry (id, ledger, {_ENTRY}) VALUES ((SELECT coalesce(max(id), 0) + 1 FROM entry), ?, "
    f"{', '.join('?' * len(chain.ENTRY_COLUMNS))})"
)


class FurtherTerms(TypedDict, total=False):
    """Terms of a ledger besides its budget; `Ledger` documents them."""

    neighbors: str
    slack: float
    pure: float
    ceiling: float
    allow_seeded: bool


def open_ledger(
    url: str | os.PathLike[str],
    name: str,
    epsilon: float | None = None,
    delta: float | None = None,
    accountant: str | None = None,
    *,
    timeout: float = 30.0,
    **terms: Unpack[FurtherTerms],
) -> SqliteLedger:
    """Open the durable ledger of a data set, or create it when a budget is given.

    Parameters
    ----------
    url : str or Path
        ``"sqlite:///budget.db"`` (relative), ``"sqlite:////srv/budget.db"`` (absolute), or a Path. One file
        holds the ledgers of any number of data sets.
    name : str
        Name of the data set.
    epsilon, delta : float, optional
        The budget, both or neither. Needed to create the ledger. If it exists, they must be what it was
        created with.
    accountant : {"gdp", "zcdp"}, optional
        What is added up, see `Ledger`; "gdp" when a ledger is created without it.
    timeout : float, default=30.0
        How long to wait for other processes that are charging, seconds.
    neighbors, slack, pure, ceiling, allow_seeded : optional
        Further terms, see `Ledger`. If the ledger exists, they must be those it was created with.

    Returns
    -------
    SqliteLedger

    Raises
    ------
    LedgerError
        If there is no such ledger and no budget is given, if the budget differs from the ledger's, or if the
        file cannot be used. An existing file or ledger is never replaced.
    ValueError, TypeError
        If an argument is outside its range.

    Examples
    --------
    >>> import tempfile
    >>> url = f"sqlite:///{tempfile.mkdtemp()}/budget.db"
    >>> ledger = open_ledger(url, "adult", epsilon=3.0, delta=1e-6)
    >>> entry = ledger.charge(epsilon=1.0, delta=1e-6, description="first model")
    >>> open_ledger(url, "adult").spent
    1.0
    """
    file = LedgerFile(_path(url), check_positive(timeout, "timeout"))
    _check_name(name)
    if (epsilon is None) != (delta is None):
        raise ValueError("a budget is an epsilon and a delta: give both, or neither to open what exists.")
    asked = None
    if epsilon is not None and delta is not None:
        further: dict[str, Any] = {**terms}
        asked = LedgerTerms(epsilon, delta, Accountant.parse(accountant or "gdp"), name=name, **further)
        if not file.exists():
            file.create()
    file.check()
    if asked is not None:
        _create_missing(file, asked)
    ledger = SqliteLedger(file.path, name, timeout=timeout)
    given = {"epsilon": epsilon, "delta": delta, "accountant": accountant, **terms}
    for key, value in ledger._terms.differences(**given).items():
        raise LedgerMismatchError(
            file.path,
            f"Ledger {name!r} was created with {key}={getattr(ledger._terms, key)!s}, not {key}={value}.",
            "A budget cannot be changed: open the ledger without one, or create one of another name.",
        )
    return ledger


def ledger_names(url: str | os.PathLike[str], *, timeout: float = 30.0) -> list[str]:
    """Names of the ledgers in a file, in the order of creation.

    Raises
    ------
    LedgerError
        If the file cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> url = f"sqlite:///{tempfile.mkdtemp()}/budget.db"
    >>> ledgers = [open_ledger(url, name, epsilon=3.0, delta=1e-6) for name in ("adult", "bank")]
    >>> ledger_names(url)
    ['adult', 'bank']
    """
    file = LedgerFile(_path(url), check_positive(timeout, "timeout"))
    with file.transaction(write=False) as kept:
        return [row[0] for row in kept.connection.execute("SELECT name FROM ledger ORDER BY id")]


class SqliteLedger(PrivacyLedger):
    """Budget of a data set in an SQLite file; made by `open_ledger`.

    Parameters
    ----------
    path : str or Path
        The file.
    name : str
        A ledger in it.
    timeout : float, default=30.0
        How long to wait for other processes, seconds.

    Raises
    ------
    LedgerError
        If the ledger cannot be opened. Every later use may raise it, too.

    Notes
    -----
    A charge is checked and stored in one exclusive transaction, and on disk (fsync) before `charge` returns:
    no number of threads and processes can together exceed the total, and a crash at any instant can lose only
    a charge for which nothing was released yet. When `charge` raises, nothing may be released.

    Charges are append-only and chained by hashes; the chain is verified up to the last charge whenever the
    ledger is used. An object of this class remembers the last charge that it saw, so it notices when the file
    is replaced by an older copy. Somebody with permission to write the file can still forge it: keep `seal`
    elsewhere to detect that.

    The time of an entry is what the clock said. Order and costs do not depend on clocks.

    Objects can be pickled, copied and inherited by forked processes: all of them are the same budget.
    To copy the file, stop the processes that use it, or use SQLite's ``.backup``: recent charges
    may still be in ``<path>-wal``.

    Examples
    --------
    >>> import tempfile
    >>> ledger = open_ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db", "adult", epsilon=3.0, delta=1e-6)
    >>> seal = ledger.seal
    >>> entry = ledger.charge(epsilon=1.0, delta=1e-6)
    >>> ledger.seal == seal, ledger.last_charge == entry.when
    (False, True)
    """

    _before_charge: Callable[[], None] | None = None  # called when nothing can refuse the charge any more

    def __init__(self, path: str | os.PathLike[str], name: str, *, timeout: float = 30.0) -> None:
        self._file = LedgerFile(os.fspath(path), timeout)
        with self._file.transaction(write=False) as kept:
            row = _budget_row(kept.connection, name)
            if row is None:
                raise _unknown(self._file, kept.connection, name)
            self._key, self._budget = row[0], row[1 : 1 + len(chain.BUDGET_COLUMNS)]
            with self._verification():
                self._link = self._first = chain.start(self._budget)
                super().__init__(chain.terms_of(self._budget))
            self._follow(kept)

    @property
    def path(self) -> str:
        """The file, absolute."""
        return self._file.path

    @property
    def seal(self) -> str:
        """Hash of the budget and all charges; a copy kept elsewhere proves later that none was changed."""
        return self._refresh().seal

    @property
    def last_charge(self) -> datetime:
        """Time of the last charge, or of creation."""
        return self._refresh().when

    def history(self) -> list[LedgerEntry]:
        """All charges, oldest first, each verified."""
        with self._file.transaction(write=False) as kept:
            return self._follow(kept, whole=True)

    def _account(self) -> Account:
        return self._refresh().account

    def _known_account(self) -> Account:
        return self._link.account

    def _append(self, entry: LedgerEntry, check: Check) -> LedgerEntry | None:
        facts = ReadOnlyMapping(plain(entry.statement))
        with self._file.transaction(write=True) as kept:
            link = self._refresh()
            if not check(link.account, entry):
                return None
            if self._before_charge is not None:
                self._before_charge()
            entry = replace(entry, when=datetime.now(UTC), statement=facts)
            row, link = chain.append(link, entry)
            kept.connection.execute(_INSERT, (self._key, *row))
        self._link = link
        return entry

    def _keep(self, name: str, secret: bytes) -> bytes:
        with self._file.transaction(write=True) as kept:
            row = (self._key, name, secret)
            kept.connection.execute("INSERT OR IGNORE INTO secret VALUES (?, ?, ?)", row)
            return bytes(self._secret(kept, name)[0])

    def _recall(self, name: str, digest: str) -> bytes:
        with self._file.transaction(write=False) as kept:
            found = self._secret(kept, name)
        if found is None or hashlib.sha256(bytes(found[0])).hexdigest() != digest:
            problem = "deleted" if found is None else "altered"
            raise LedgerCorruptError(
                self.path,
                f"The secret {name!r} of ledger {self.name!r} was {problem}: another one would put records "
                "into several parts of a split.",
                RESTORE,
            )
        return bytes(found[0])

    def _secret(self, kept: Kept, name: str) -> Any:
        query = "SELECT value FROM secret WHERE ledger = ? AND name = ?"
        return kept.connection.execute(query, (self._key, name)).fetchone()

    def _refresh(self) -> chain.Link:
        """Verify what was charged since this object last looked."""
        with self._file.transaction(write=False) as kept:
            self._follow(kept)
            return self._link

    def _follow(self, kept: Kept, *, whole: bool = False) -> list[LedgerEntry]:
        """Read and verify new charges; all of them if `whole`, or on a new connection."""
        entries, connection = [], kept.connection
        with self._verification():
            row = _budget_row(connection, self.name)
            if row is None or row[1:-2] != self._budget:
                raise chain.ChainError(f"ledger {self.name!r} was replaced by another one")
            link = self._link
            if link.sequence > 0:
                known = connection.execute(
                    "SELECT seal FROM entry WHERE ledger = ? AND sequence = ?", (self._key, link.sequence)
                ).fetchone()
                if known != (link.seal,):
                    raise chain.ChainError(f"charge {link.sequence} was there before and is not now")
            if whole or self._key not in kept.verified:
                link = self._first
            for charge in connection.execute(
                f"SELECT {_ENTRY} FROM entry WHERE ledger = ? AND sequence > ? ORDER BY sequence",
                (self._key, link.sequence),
            ):
                entry, link = chain.follow(link, charge)
                entries.append(entry)
            if row[-2:] != (link.sequence, link.seal):
                raise chain.ChainError(f"{row[-2]} charges were made, but {link.sequence} are stored")
            if not link.account.total().within(link.account.caps):
                raise chain.ChainError("more was charged than the budget allows")
        kept.verified.add(self._key)
        self._link = link
        return entries

    @contextlib.contextmanager
    def _verification(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            raise LedgerCorruptError(self.path, f"It was damaged or altered: {error}.", RESTORE) from error

    def __eq__(self, other: object) -> bool:
        """Whether both are the same budget in the same file."""
        if not isinstance(other, SqliteLedger):
            return NotImplemented
        return (self.path, self._budget) == (other.path, other._budget)

    def __hash__(self) -> int:
        return hash((self.path, self._budget))


def _path(url: str | os.PathLike[str]) -> str:
    if not isinstance(url, str):
        return os.fspath(url)
    path = url.removeprefix(_SCHEME)
    if path == url or path in ("", ":memory:"):
        raise ValueError(
            f"url must be {_SCHEME}<path of a file>, for instance 'sqlite:///budget.db' or "
            f"'sqlite:////srv/budget.db' (absolute), got {url!r}."
        )
    return path


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or not name:
        raise ValueError(
            f"name must be a non-empty, printable text without surrounding space, got {shown(name)}."
        )


def _budget_row(connection: sqlite3.Connection, name: str) -> tuple[Any, ...] | None:
    """Key, the values of `BUDGET_COLUMNS`, number of charges and last seal; None if there is none."""
    rows = connection.execute(f"SELECT id, {_BUDGET}, entries, seal FROM ledger WHERE name = ?", (name,))
    found: tuple[Any, ...] | None = rows.fetchone()
    return found


def _create_missing(file: LedgerFile, terms: LedgerTerms) -> None:
    with file.transaction(write=False) as kept:
        if _budget_row(kept.connection, terms.name) is not None:
            return
    budget = (
        terms.name,
        terms.epsilon,
        terms.delta,
        str(terms.accountant),
        str(terms.neighbors),
        terms.slack,
        terms.pure,
        terms.ceiling,
        int(terms.allow_seeded),
        chain.cost_text(terms.caps(terms.epsilon)),
        chain.time_text(datetime.now(UTC)),
        __version__,
        secrets.token_hex(16),
    )
    with file.transaction(write=True) as kept:
        if _budget_row(kept.connection, terms.name) is None:  # no other process created it meanwhile
            kept.connection.execute(
                f"INSERT INTO ledger ({_BUDGET}, seal, entries) "
                f"VALUES ({', '.join('?' * len(budget))}, ?, 0)",
                (*budget, chain.start(budget).seal),
            )


def _unknown(file: LedgerFile, connection: sqlite3.Connection, name: str) -> LedgerNotFoundError:
    names = [row[0] for row in connection.execute("SELECT name FROM ledger ORDER BY id LIMIT 10")]
    return LedgerNotFoundError(
        file.path,
        f"There is no ledger {name!r} in it" + (f", but {', '.join(map(repr, names))}." if names else "."),
        f"Check the name, or create it: open_ledger(url, {name!r}, epsilon=..., delta=...) or "
        f"`dperm budget create {name}`.",
    )
