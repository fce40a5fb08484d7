"""Test accuracy in per cent or final objective, mean over folds."""

from papers.tables.lee2018_figure2 import measure

__all__ = ["measure"]
