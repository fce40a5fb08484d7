"""Test accuracy in per cent, mean over folds."""

from papers.tables.lee2018_figures2_3 import measure

__all__ = ["measure"]
