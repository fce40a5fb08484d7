"""Test accuracy of DP-AGD in per cent when one of its settings is varied."""

from papers.tables.lee2018_figures2_3 import measure as accuracy


def measure(mode: str, *, setting: str, value: float, **rest) -> tuple[float, float | None] | None:
    """All other settings as published."""
    return accuracy(mode, model="logistic", algorithm="dp_agd", **rest, **{setting: value})
