"""Test accuracy and objective of DP-AGD when one of its settings is varied."""

from papers.tables.lee2018_figure2 import measure as measured


def measure(mode: str, *, setting: str, value: float, **rest) -> tuple[float, float | None] | None:
    """All other settings as published."""
    return measured(mode, model="logistic", algorithm="dp_agd", **rest, **{setting: value})
