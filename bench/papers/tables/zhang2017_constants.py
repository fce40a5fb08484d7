"""Excess empirical risk of output perturbation for constants that the paper does not state."""

from papers.tables.zhang2017_table3 import measure

__all__ = ["measure"]
