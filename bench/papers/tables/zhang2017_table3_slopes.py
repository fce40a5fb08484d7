"""Rank of the methods and slopes along epsilon: of the printed errors, and of ours as published."""

import math

import numpy as np

from papers import framework, page

NUMBERS = framework.TABLES.parents[2] / "docs" / "reproduced" / "zhang2017_table3.json"


def measure(mode: str, *, quantity: str, data: str, l2: float) -> float:
    """Of our numbers."""
    table = framework.read("zhang2017_table3", quick=True)
    kept = page.read_numbers(table, NUMBERS)
    ours = [framework.number(kept.get(framework.Cell(table, mode, row.settings).key)) for row in table.rows]
    return _quantity(table, ours, quantity, data, l2)


def expected(*, quantity: str, data: str, l2: float) -> float:
    """Of the printed numbers."""
    table = framework.read("zhang2017_table3", quick=True)
    return _quantity(table, [row.number for row in table.rows], quantity, data, l2)


def _quantity(table: framework.Table, errors: list[float], quantity: str, data: str, l2: float) -> float:
    found: dict[str, list[tuple[float, float]]] = {"output": [], "sgd": []}
    for row, error in zip(table.rows, errors, strict=True):
        if (row.settings["data"], row.settings["l2"]) == (data, l2):
            found[row.settings["method"]].append((row.settings["epsilon"], error))
    if quantity == "rank":
        pairs = zip(found["output"], found["sgd"], strict=True)
        return float(sum(output[1] < sgd[1] for output, sgd in pairs))
    points = found[quantity.removeprefix("slope of ")]
    return float(
        np.polyfit(*zip(*((math.log(e), math.log(error)) for e, error in points), strict=True), 1)[0]
    )
