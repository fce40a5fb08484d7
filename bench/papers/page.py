"""The page and the figure of a table, and the file of numbers that they are made from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from papers.framework import Cell, Row, Table, agrees, number, shown

Records = Mapping[str, Mapping[str, Any]]
#: Text stays text, and equal numbers give equal files.
PLAIN = {"svg.fonttype": "none", "svg.hashsalt": "dperm"}


def _records(table: Table, row: Row, records: Records) -> dict[str, Mapping[str, Any] | None]:
    return {mode: records.get(Cell(table, mode, row.settings).key) for mode in table.modes}


def _varying(table: Table) -> list[str]:
    """Settings that differ between rows; the first one if none does."""
    keys = dict.fromkeys(key for row in table.rows for key in row.settings)
    return [key for key in keys if len({json.dumps(row.settings.get(key)) for row in table.rows}) > 1] or [
        *keys
    ][:1]


def _ratio(table: Table, row: Row, found: Mapping[str, Any]) -> float:
    columns = {"printed": row.number if table.rule != "claim" else math.nan}
    columns |= {mode: number(record) for mode, record in found.items()}
    above, below = (columns.get(column, math.nan) for column in table.ratio)
    return above / below if below else math.nan


def _group(table: Table, row: Row, *left_out: str | None) -> str:
    """Name of the group of rows that differ only in the settings left out."""
    keys = [key for key in _varying(table) if key not in left_out]
    return ", ".join(_named(key, row.settings.get(key)) for key in keys)


def _named(key: str, value: Any) -> str:
    """Numbers need their setting's name; words do not."""
    return value if isinstance(value, str) else f"{key} {value}"


def verdicts(table: Table, records: Records) -> list[str]:
    """Verdicts, one per row."""
    found = [_records(table, row, records) for row in table.rows]
    if table.rule != "constant":
        return [agrees(table, row, each.get("paper")) for row, each in zip(table.rows, found, strict=True)]
    groups = [_group(table, row, table.plot.get("x")) for row in table.rows]
    ends: dict[str, list[tuple[float, float]]] = {}
    for group, row, each in zip(groups, table.rows, found, strict=True):
        ratio, last = _ratio(table, row, each), 0.5 / 10 ** len(row.printed.partition(".")[2])
        last *= ratio / row.number
        ends.setdefault(group, []).append((ratio - last, ratio + last))
    # A printed number stands for all that are rounded to it.
    spread = {
        group: max(low for low, _ in each) / min(high for _, high in each)
        if not any(math.isnan(low) for low, _ in each)
        else math.nan
        for group, each in ends.items()
    }
    said = {True: "yes", False: "no"}
    return [
        "" if math.isnan(spread[group]) else said[spread[group] <= 1.0 + table.tolerance] for group in groups
    ]


def text(table: Table, records: Records) -> str:
    """Markdown of the page."""
    keys = _varying(table)
    ratio_of = " / ".join(table.printed_is if column == "printed" else column for column in table.ratio)
    heading = [*keys, table.printed_is, *table.modes, ratio_of, "verdict"]
    lines = [f"# {table.title}", "", f"{table.source}. {table.quantity}", ""]
    if table.reason:
        lines += [table.reason.strip(), ""]
    if table.plot:
        lines += [f"![{table.title}]({table.name}.svg)", ""]
    cells_of_rows = []
    notes: dict[str, list[str]] = {}
    for row, verdict in zip(table.rows, verdicts(table, records), strict=True):
        found = _records(table, row, records)
        ratio = _ratio(table, row, found)
        cells = [str(row.settings.get(key, "")) for key in keys] + [str(row.printed) or "-"]
        cells += [shown(found[mode]) for mode in table.modes]
        cells += ["" if math.isnan(ratio) else f"{ratio:.3g}", verdict]
        cells_of_rows.append(cells)
        place = ", ".join(cells[: len(keys)])
        if row.reason:
            notes.setdefault(row.reason.strip(), []).append(place)
        for mode, record in found.items():
            for kind in ("refused", "failed"):
                if record and kind in record:
                    notes.setdefault(f"{mode} {kind}: {record[kind]}", []).append(place)
    shown_columns = [
        k for k, column in enumerate(zip(*cells_of_rows, strict=True)) if set(column) - {"", "-"}
    ]
    for cells in (heading, ["---"] * len(heading), *cells_of_rows):
        lines.append("| " + " | ".join(cells[k] for k in shown_columns) + " |")
    fixed = {key: value for key, value in table.rows[0].settings.items() if key not in keys}
    if fixed:
        lines += ["", "Everywhere: " + ", ".join(f"{key} = {value}" for key, value in fixed.items()) + "."]
    if notes:
        lines += ["", *(f"- {'; '.join(places)}: {note}" for note, places in notes.items())]
    commits = {record["commit"] for record in records.values()}
    return "\n".join([*lines, "", f"Computed at commit {', '.join(sorted(commits))}.", ""])


def _curves(table: Table, records: Records) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Points by panel and line. Modes are lines or, where ``plot.lines`` names a setting for them, panels."""
    x, lines = table.plot["x"], table.plot.get("lines")
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in table.rows:
        place = _group(table, row, x, lines)
        values = {mode: number(record) for mode, record in _records(table, row, records).items()}
        values[table.printed_is] = row.number
        for mode, value in values.items():
            panel, line = place, mode
            if lines is not None:
                panel, line = ", ".join(filter(None, (place, mode))), _named(lines, row.settings[lines])
            if math.isfinite(value):
                curves.setdefault(panel, {}).setdefault(line, []).append((row.settings[x], value))
    return curves


def figure(table: Table, records: Records, file: Path) -> None:
    """Draw computed and printed numbers against ``plot.x``, a panel for each value of the other settings."""
    curves = _curves(table, records)
    labels = list(dict.fromkeys(line for lines in curves.values() for line in lines))
    width = max(1, min(len(curves), 3))
    height = max(1, -(-len(curves) // width))
    size = (4.2 * width, 3.2 * height + 0.8)
    drawing = Figure(figsize=size, layout="constrained")
    axes = drawing.subplots(height, width, squeeze=False)
    drawn = {}
    for axis, (panel, lines) in zip(axes.flat, curves.items(), strict=False):
        for line, points in lines.items():
            style = "kx--" if line == table.printed_is else f"C{labels.index(line)}o-"
            (drawn[line],) = axis.plot(*zip(*points, strict=True), style, markersize=4)
        axis.set(title=panel, xlabel=table.plot["x"], xscale=table.plot.get("xscale", "linear"))
        axis.set_yscale(table.plot.get("yscale", "linear"))
        axis.set_xticks(places := sorted({x for points in lines.values() for x, _ in points}), places)
        axis.xaxis.minorticks_off()
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(curves) :]:
        axis.remove()
    drawing.legend(drawn.values(), drawn, loc="outside lower center", ncols=5)
    drawing.suptitle(table.title)
    with matplotlib.rc_context(PLAIN):
        drawing.savefig(file, metadata={"Date": None})


def write(table: Table, records: Records, folder: Path) -> list[Path]:
    """Write ``NAME.md`` and, if the table has a plot, ``NAME.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{table.name}.md"
    page.write_text(text(table, records), encoding="utf-8")
    if not table.plot:
        return [page]
    figure(table, records, page.with_suffix(".svg"))
    return [page, page.with_suffix(".svg")]


def write_numbers(table: Table, records: Records, file: Path) -> None:
    """Write what was computed as JSON, a line for each row, the one that a test computes again last."""
    keys = _varying(table)
    rows = [(row.settings, {key: row.settings.get(key) for key in keys}) for row in table.rows]
    rows.append((table.rows[0].settings | table.check, {"check": True}))
    lines = []
    for settings, line in rows:
        for mode in table.modes:
            record = records.get(Cell(table, mode, settings).key)
            kept = {key: (record or {}).get(key) for key in ("value", "error", "refused")}
            line[mode] = {key: value for key, value in kept.items() if value is not None}
            if record is None:
                line[mode] = "not computed"
        lines.append(json.dumps(line))
    commits = ", ".join(sorted({record["commit"] for record in records.values()}))
    whole = f'{{"commit": "{commits}", "rows": [\n' + ",\n".join(lines) + "\n]}\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(whole, encoding="utf-8")


def read_numbers(table: Table, file: Path) -> dict[str, dict[str, Any]]:
    """Read what `write_numbers` wrote, by the key of the cell."""
    keys, records, found = _varying(table), {}, json.loads(file.read_text(encoding="utf-8"))
    settings = [row.settings for row in table.rows] + [table.rows[0].settings | table.check]
    for each, line in zip(settings, found["rows"], strict=True):
        if "check" not in line and any(line[key] != each.get(key) for key in keys):
            raise ValueError(f"{file.name} has no line for {each}, which {table.name}.toml lists.")
        for mode in table.modes:
            if line[mode] == "not computed":
                continue
            record = line[mode] if "refused" in line[mode] else {"value": None, "error": None, **line[mode]}
            records[Cell(table, mode, each).key] = {**record, "commit": found["commit"]}
    return records
