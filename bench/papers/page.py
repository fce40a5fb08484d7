"""The page and the figure of a table that has been computed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

from papers.framework import Cell, Row, Table, agrees, number, shown

matplotlib.use("svg")
from matplotlib import pyplot as plt

Records = Mapping[str, Mapping[str, Any]]


def _records(table: Table, row: Row, records: Records) -> dict[str, Mapping[str, Any] | None]:
    return {mode: records.get(Cell(table, mode, row.settings).key) for mode in table.modes}


def _varying(table: Table) -> list[str]:
    """Settings that are not the same in all rows."""
    keys = dict.fromkeys(key for row in table.rows for key in row.settings)
    return [key for key in keys if len({json.dumps(row.settings.get(key)) for row in table.rows}) > 1] or [
        *keys
    ][:1]


def _ratio(table: Table, row: Row, found: Mapping[str, Any]) -> float:
    columns = {"printed": float(row.printed or "nan") if table.rule != "claim" else math.nan}
    columns |= {mode: number(record) for mode, record in found.items()}
    above, below = (columns.get(column, math.nan) for column in table.ratio)
    return above / below if below else math.nan


def _group(table: Table, row: Row) -> str:
    """Rows that differ in the x of the figure alone are one line of it."""
    return ", ".join(str(row.settings.get(key)) for key in _varying(table) if key != table.plot.get("x"))


def verdicts(table: Table, records: Records) -> list[str]:
    """One for each row."""
    found = [_records(table, row, records) for row in table.rows]
    if table.rule != "constant":
        return [agrees(table, row, each.get("paper")) for row, each in zip(table.rows, found, strict=True)]
    ratios: dict[str, list[float]] = {}
    for row, each in zip(table.rows, found, strict=True):
        ratios.setdefault(_group(table, row), []).append(_ratio(table, row, each))
    spread = {group: max(values) / min(values) for group, values in ratios.items()}
    said = {True: "yes", False: "no"}
    return [
        ""
        if math.isnan(spread[_group(table, row)])
        else said[spread[_group(table, row)] <= 1.0 + table.tolerance]
        for row in table.rows
    ]


def text(table: Table, records: Records) -> str:
    """Return the page."""
    keys = _varying(table)
    heading = [*keys, table.printed_is, *table.modes, " / ".join(table.ratio), "verdict"]
    lines = [f"# {table.title}", "", f"{table.source}. {table.quantity}", ""]
    if table.reason:
        lines += [table.reason.strip(), ""]
    lines += ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    notes: dict[str, list[str]] = {}
    seconds = 0.0
    for row, verdict in zip(table.rows, verdicts(table, records), strict=True):
        found = _records(table, row, records)
        ratio = _ratio(table, row, found)
        cells = [str(row.settings.get(key, "")) for key in keys] + [str(row.printed) or "-"]
        cells += [shown(found[mode]) for mode in table.modes]
        cells += ["" if math.isnan(ratio) else f"{ratio:.3g}", verdict]
        lines.append("| " + " | ".join(cells) + " |")
        place = ", ".join(cells[: len(keys)])
        if row.reason:
            notes.setdefault(row.reason.strip(), []).append(place)
        for mode, record in found.items():
            seconds += (record or {}).get("seconds", 0.0)
            for kind in ("refused", "failed"):
                if record and kind in record:
                    notes.setdefault(f"{mode} {kind}: {record[kind]}", []).append(place)
    fixed = {key: value for key, value in table.rows[0].settings.items() if key not in keys}
    if fixed:
        lines += ["", "Everywhere: " + ", ".join(f"{key} = {value}" for key, value in fixed.items()) + "."]
    if notes:
        lines += ["", *(f"- {'; '.join(places)}: {note}" for note, places in notes.items())]
    return "\n".join([*lines, "", f"{seconds:.0f} CPU seconds.", ""])


def figure(table: Table, records: Records, file: Path) -> None:
    """Draw every mode, and what was printed, against ``plot.x``: a panel for each of the other settings."""
    x = table.plot["x"]
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        groups.setdefault(_group(table, row), []).append(row)
    width = min(len(groups), 3)
    height = -(-len(groups) // width)
    drawing, axes = plt.subplots(height, width, figsize=(4.2 * width, 3.2 * height), squeeze=False)
    for axis, (group, rows) in zip(axes.flat, groups.items(), strict=False):
        places = [row.settings[x] for row in rows]
        for mode in table.modes:
            values = [number(_records(table, row, records)[mode]) for row in rows]
            if any(map(math.isfinite, values)):
                axis.plot(places, values, marker="o", label=mode)
        if any(row.printed for row in rows):
            printed = [float(row.printed or "nan") for row in rows]
            axis.plot(places, printed, "k--", marker="x", label=table.printed_is)
        axis.set(title=group, xlabel=x, xscale=table.plot.get("xscale", "linear"))
        axis.set_yscale(table.plot.get("yscale", "linear"))
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(groups) :]:
        axis.remove()
    axes[0, 0].legend()
    drawing.suptitle(table.title)
    drawing.tight_layout()
    drawing.savefig(file)
    plt.close(drawing)


def write(table: Table, records: Records, folder: Path) -> Sequence[Path]:
    """Write ``NAME.md``, and ``NAME.svg`` where the table says what to draw."""
    page = folder / f"{table.name}.md"
    page.write_text(text(table, records), encoding="utf-8")
    if not table.plot:
        return [page]
    figure(table, records, page.with_suffix(".svg"))
    return [page, page.with_suffix(".svg")]
