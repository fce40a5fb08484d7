"""Published tables, described in TOML, and their cells, each computed once.

A table is two files in ``tables/``. ``NAME.toml`` says what was printed for which settings and, where our
numbers cannot match, why. ``NAME.py`` has ``measure(mode, **settings)``, a pure function that computes one
cell. A list among the settings of a row stands for one row per entry; several lists stand for all their
combinations, the last changing fastest. A test computes the row of ``[check]`` again and compares it with
what the published page was made from: the first row, with the settings given there.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import math
import subprocess
import time
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

TABLES = Path(__file__).parent / "tables"
MODES = ("paper", "tight", "default")
RULES = ("digits", "within", "below", "constant", "claim", "none")
#: Keys of a row that are not settings.
ABOUT = ("printed", "reason")

Settings = dict[str, Any]


class Refused(Exception):
    """A mode has no answer for these settings: the published noise is not private, or there is none."""


@dataclass(frozen=True)
class Row:
    """Settings, what was printed for them (as a string: its digits count), and why it cannot match.

    A printed deviation stands behind the number: "81.74 ± 0.96".
    """

    settings: Settings
    printed: str = ""
    reason: str = ""

    @property
    def number(self) -> float:
        """The printed number, NaN if there is none."""
        return float(self.printed.split()[0]) if self.printed else math.nan


@dataclass(frozen=True)
class Table:
    """What ``NAME.toml`` says.

    Attributes
    ----------
    rule : str
        When paper mode agrees with the printed number: "digits" (in all that are printed), "within"
        (`tolerance`), "below" (the printed number is an upper bound), "constant" (printed / paper mode varies
        by at most the factor 1 + `tolerance`, but for rounding, among rows that differ only in the x of
        `plot`), "claim" (a sentence that holds or fails) or "none".
    reason : str
        Why nothing is printed, or why it cannot match; needed if a row has neither a printed number nor a
        reason of its own.
    modes : tuple of str
        The modes that mean something for this table.
    ratio : tuple of str
        The two columns whose ratio the page shows.
    check : mapping
        Settings of the first row that make it cheap enough for a test.
    printed_is : str
        Heading of the printed column. Any but "printed" may leave the numbers to ``expected(**settings)`` in
        ``NAME.py``: those of a theorem.
    """

    name: str
    title: str
    source: str
    quantity: str
    rule: str
    rows: tuple[Row, ...]
    reason: str = ""
    tolerance: float = 0.0
    modes: tuple[str, ...] = MODES
    ratio: tuple[str, str] = ("printed", "paper")
    printed_is: str = "printed"
    plot: Mapping[str, Any] = field(default_factory=dict)
    check: Mapping[str, Any] = field(default_factory=dict)

    def measure(self, mode: str, settings: Settings) -> Any:
        """Compute one cell."""
        return _module(self.name).measure(mode, **settings)


def _module(name: str) -> Any:
    return importlib.import_module(f"papers.tables.{name}")


def names() -> list[str]:
    """All tables."""
    return sorted(path.stem for path in TABLES.glob("*.toml"))


def published(folder: Path) -> list[str]:
    """Tables whose numbers are in `folder`."""
    return [name for name in names() if (folder / f"{name}.json").exists()]


def title(name: str) -> str:
    """Title of a table, without importing what computes it."""
    return str(_toml(name)["title"])


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))


def read(name: str, *, quick: bool = False, repetitions: int | None = None) -> Table:
    """Read ``NAME.toml``; `quick` and `repetitions` replace settings of the rows that have them."""
    found = _toml(name)
    common, fast = found.pop("settings", {}), found.pop("quick", {})
    changed = dict(fast) if quick else {}
    if repetitions is not None:
        changed["repetitions"] = repetitions
    rows = []
    for entry in found.pop("rows"):
        about = {key: entry.pop(key) for key in ABOUT if key in entry}
        given = {**common, **entry}
        given |= {key: value for key, value in changed.items() if key in given}
        rows += _expand(given, **about)
    if found.get("printed_is", "printed") != "printed" and not any(row.printed for row in rows):
        rows = [
            Row(row.settings, f"{_module(name).expected(**row.settings):.6g}", row.reason) for row in rows
        ]
    table = Table(name=name, rows=tuple(rows), **{k: _frozen(v) for k, v in found.items()})
    if table.rule not in RULES:
        raise ValueError(f"{name}.toml: rule must be one of {RULES}, got {table.rule!r}.")
    silent = [row for row in rows if not (row.printed or row.reason)]
    if silent and not table.reason:
        raise ValueError(
            f"{name}.toml: no number was printed for {silent[0].settings}, and no reason is given."
        )
    return table


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _expand(given: Settings, printed: Any = "", reason: str = "") -> Iterator[Row]:
    lists = [[(key, each) for each in value] for key, value in given.items() if isinstance(value, list)]
    combinations = list(itertools.product(*lists))
    numbers = printed if isinstance(printed, list) else [printed] * len(combinations)
    for combination, number in zip(combinations, numbers, strict=True):
        yield Row({**given, **dict(combination)}, number, reason)


@dataclass(frozen=True)
class Cell:
    """One row in one mode."""

    table: Table
    mode: str
    settings: Settings

    @property
    def key(self) -> str:
        """What identifies the cell in the file of results."""
        return json.dumps([self.table.name, self.mode, self.settings], sort_keys=True)

    def run(self) -> dict[str, Any]:
        """Value, standard error and CPU seconds, or why there is no value."""
        start = time.process_time()
        record: dict[str, Any] = {"key": self.key, "commit": commit()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about seeds, and about bounds measured on the records
                found = self.table.measure(self.mode, self.settings)
            value, error = found if isinstance(found, tuple) else (found, None)
            record |= {"value": value, "error": error}
        except Refused as refusal:
            record["refused"] = str(refusal)
        except Exception as failure:  # one failing cell must not stop the rest of a long run
            record["failed"] = f"{type(failure).__name__}: {failure}"
        return record | {"seconds": round(time.process_time() - start, 3)}


def compute(cells: Sequence[Cell], file: Path, jobs: int = 1) -> dict[str, dict[str, Any]]:
    """Records of the cells by key; `file` keeps all but failures, and what it has is not computed again."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    *whole, half = text.split("\n")  # the last line is incomplete if a run was killed
    records = {record["key"]: record for record in map(json.loads, whole)}
    missing = list({cell.key: cell for cell in cells if cell.key not in records}.values())
    file.parent.mkdir(parents=True, exist_ok=True)
    runs = Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(cell.run)() for cell in missing)
    with file.open("r+" if text else "w", encoding="utf-8") as kept:
        kept.seek(len(text.encode()) - len(half.encode()))
        kept.truncate()
        for done, record in enumerate(runs, 1):
            records[record["key"]] = record
            if "failed" not in record:
                kept.write(json.dumps(record) + "\n")
                kept.flush()
            said = record.get("failed") or shown(record)
            print(f"{done}/{len(missing)} {record['key']}: {said} ({record['seconds']} s)", flush=True)
    return {cell.key: records[cell.key] for cell in cells}


def cells_of(table: Table, modes: Sequence[str]) -> list[Cell]:
    """Cells of a table in the given modes, those that a test computes again last."""
    settings = [row.settings for row in table.rows] + [table.rows[0].settings | table.check]
    return [Cell(table, mode, each) for each in settings for mode in table.modes if mode in modes]


@functools.cache
def commit() -> str:
    """The last commit that changed the package."""
    command = ["git", "log", "-1", "--format=%h", "--", "src", "csrc"]
    return subprocess.run(command, cwd=TABLES.parents[2], capture_output=True, text=True).stdout.strip()


def shown(record: Mapping[str, Any] | None) -> str:
    """A cell as the page shows it."""
    if record is None or record.get("value", "") is None:
        return "-"
    if "value" not in record:
        return "failed" if "failed" in record else "refused"
    value, error = record["value"], record["error"]
    if isinstance(value, int | str):
        return str(value)
    return f"{value:.5g}" if error is None else f"{value:.4g} ± {error:.2g}"


def number(record: Mapping[str, Any] | None) -> float:
    """Value of a record, NaN if it has none."""
    value = (record or {}).get("value")
    return math.nan if value is None or isinstance(value, str) else float(value)


def agrees(table: Table, row: Row, record: Mapping[str, Any] | None) -> str:
    """Verdict on one row, for every rule but "constant", which compares rows."""
    if record is None or "failed" in record:
        return ""
    value = record.get("value")
    if table.rule == "claim":
        return {True: "holds", False: "fails", None: "not testable"}[value]
    if not row.printed or math.isnan(number(record)):
        return ""
    printed, measured = row.number, number(record)
    if table.rule == "digits":
        scale = 10 ** len(row.printed.partition(".")[2])  # papers round digits or cut them off
        return "yes" if round(printed * scale) in (round(measured * scale), int(measured * scale)) else "no"
    if table.rule == "within":
        return "yes" if abs(printed - measured) <= table.tolerance else "no"
    return {"below": "yes" if measured <= printed else "no"}.get(table.rule, "")
