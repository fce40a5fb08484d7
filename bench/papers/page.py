"""The page and the figure of a table, and the file of numbers that they are made from."""

from __future__ import annotations

import csv
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
    columns = {"printed": float(row.printed or "nan") if table.rule != "claim" else math.nan}
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
    ratios: dict[str, list[float]] = {}
    for group, row, each in zip(groups, table.rows, found, strict=True):
        ratios.setdefault(group, []).append(_ratio(table, row, each))
    spread = {group: max(values) / min(values) for group, values in ratios.items()}
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
    return "\n".join([*lines, ""])


def _curves(table: Table, records: Records) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Points by panel and line. Modes are lines or, where ``plot.lines`` names a setting for them, panels."""
    x, lines = table.plot["x"], table.plot.get("lines")
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in table.rows:
        place = _group(table, row, x, lines)
        values = {mode: number(record) for mode, record in _records(table, row, records).items()}
        values[table.printed_is] = float(row.printed or "nan")
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
    """Write what was computed: a line for each row, with value and error, if it has one, for each mode."""
    keys = _varying(table)
    found = [_records(table, row, records) for row in table.rows]
    columns = {}
    for mode in table.modes:
        columns[mode] = [_value(each[mode]) for each in found]
        errors = [(each[mode] or {}).get("error") for each in found]
        if any(error is not None for error in errors):
            columns[f"{mode} error"] = ["" if error is None else f"{error:.3g}" for error in errors]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as opened:
        lines = csv.writer(opened, lineterminator="\n")
        lines.writerow([*keys, *columns])
        for row, *values in zip(table.rows, *columns.values(), strict=True):
            lines.writerow([*(row.settings.get(key, "") for key in keys), *values])


def _value(record: Mapping[str, Any] | None) -> str:
    if record is None or "failed" in record:
        return ""
    if "refused" in record:
        return f"refused: {record['refused']}"
    value = record["value"]
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value)


def read_numbers(table: Table, file: Path) -> dict[str, dict[str, Any]]:
    """Read what `write_numbers` wrote, by the key of the cell."""
    keys = _varying(table)
    records = {}
    with file.open(encoding="utf-8", newline="") as opened:
        for row, line in zip(table.rows, csv.DictReader(opened), strict=True):
            settings = [str(row.settings.get(key, "")) for key in keys]
            if settings != [line.get(key) for key in keys]:
                raise ValueError(f"{file.name} has no line for {settings}, which {table.name}.toml lists.")
            for mode in table.modes:
                if line[mode]:
                    records[Cell(table, mode, row.settings).key] = _record(line, mode)
    return records


def _record(line: Mapping[str, str], mode: str) -> dict[str, Any]:
    if line[mode].startswith("refused: "):
        return {"refused": line[mode].removeprefix("refused: ")}
    value, error = json.loads(line[mode]), line.get(f"{mode} error")
    return {"value": float(value), "error": float(error)} if error else {"value": value, "error": None}
