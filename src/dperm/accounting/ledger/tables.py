"""Tables of a ledger file, which triggers make append-only."""

from __future__ import annotations

import sqlite3

from dperm.accounting.ledger.errors import RESTORE
from dperm.errors import LedgerCorruptError, LedgerVersionError

APPLICATION_ID = 0x6470726D  # "dprm"
VERSION = 2

_STATEMENTS = (
    """CREATE TABLE ledger (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  accountant TEXT NOT NULL,
  neighbors TEXT NOT NULL,
  slack REAL NOT NULL,
  pure REAL NOT NULL,
  ceiling REAL NOT NULL,
  allow_seeded INTEGER NOT NULL,
  caps TEXT NOT NULL,
  created TEXT NOT NULL,
  version TEXT NOT NULL,
  identity TEXT NOT NULL,
  entries INTEGER NOT NULL,
  seal TEXT NOT NULL
)""",
    """CREATE TABLE entry (
  id INTEGER PRIMARY KEY,
  ledger INTEGER NOT NULL REFERENCES ledger (id),
  sequence INTEGER NOT NULL,
  created TEXT NOT NULL,
  kind TEXT NOT NULL,
  part TEXT NOT NULL,
  description TEXT NOT NULL,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  accountant TEXT NOT NULL,
  cost TEXT NOT NULL,
  spent TEXT NOT NULL,
  statement TEXT NOT NULL,
  process INTEGER NOT NULL,
  version TEXT NOT NULL,
  seal TEXT NOT NULL,
  UNIQUE (ledger, sequence)
)""",
    """CREATE TABLE secret (
  ledger INTEGER NOT NULL REFERENCES ledger (id),
  name TEXT NOT NULL,
  value BLOB NOT NULL,
  UNIQUE (ledger, name)
)""",
    """CREATE TRIGGER secret_is_kept BEFORE DELETE ON secret
BEGIN SELECT RAISE(ABORT, 'a secret cannot be deleted'); END""",
    """CREATE TRIGGER secret_is_fixed BEFORE UPDATE ON secret
BEGIN SELECT RAISE(ABORT, 'a secret cannot be changed'); END""",
    """CREATE TRIGGER ledger_is_kept BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'a ledger cannot be deleted'); END""",
    """CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger
WHEN (NEW.id, NEW.name, NEW.epsilon, NEW.delta, NEW.accountant, NEW.neighbors, NEW.slack, NEW.pure,
  NEW.ceiling, NEW.allow_seeded, NEW.caps, NEW.created, NEW.version, NEW.identity, NEW.entries) IS NOT
  (OLD.id, OLD.name, OLD.epsilon, OLD.delta, OLD.accountant, OLD.neighbors, OLD.slack, OLD.pure,
  OLD.ceiling, OLD.allow_seeded, OLD.caps, OLD.created, OLD.version, OLD.identity, OLD.entries + 1)
BEGIN SELECT RAISE(ABORT, 'a budget cannot be changed'); END""",
    """CREATE TRIGGER entry_is_kept BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'a charge cannot be deleted'); END""",
    """CREATE TRIGGER entry_is_fixed BEFORE UPDATE ON entry
BEGIN SELECT RAISE(ABORT, 'a charge cannot be changed'); END""",
    """CREATE TRIGGER entry_is_next BEFORE INSERT ON entry
WHEN NEW.id IS NOT 1 + (SELECT coalesce(max(id), 0) FROM entry)
  OR NEW.sequence IS NOT 1 + (SELECT entries FROM ledger WHERE id = NEW.ledger)
BEGIN SELECT RAISE(ABORT, 'a charge must come after the last one'); END""",
    """CREATE TRIGGER entry_is_counted AFTER INSERT ON entry
BEGIN UPDATE ledger SET entries = NEW.sequence, seal = NEW.seal WHERE id = NEW.ledger; END""",
)


def create(connection: sqlite3.Connection) -> None:
    """Write the tables into an empty database."""
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in _STATEMENTS:
        connection.execute(statement)
    connection.execute("COMMIT")


def check_kind(connection: sqlite3.Connection, path: str) -> None:
    """Raise unless this is a ledger file that this version can read."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise LedgerCorruptError(path, "It is a database, but no ledger.", "Give the path of a ledger file.")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise LedgerVersionError(
            path,
            f"It has format {version}, and this version of dperm knows formats up to {VERSION}.",
            "Install a newer dperm.",
        )
    if version == 1:
        raise LedgerVersionError(
            path,
            "It has format 1, whose charges may have been made under different neighbouring relations and "
            "cannot be added up.",
            "Open it with dperm 0.1 to see what was spent, and create a new ledger with a budget that takes "
            "account of it.",
        )
    if version != VERSION:
        raise LedgerCorruptError(path, f"It claims format {version}, which never existed.", RESTORE)


def check_content(connection: sqlite3.Connection, path: str) -> None:
    """Raise if a page, an index, a table or a trigger is damaged or altered. Reads the whole file."""
    found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        raise LedgerCorruptError(path, f"It is damaged: {'; '.join(map(str, found[:3]))}.", RESTORE)
    present = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    expected = {(statement.split()[2], statement) for statement in _STATEMENTS}
    if len(present) != len(expected) or set(present) != expected:
        raise LedgerCorruptError(path, "Its tables or triggers were altered.", RESTORE)
