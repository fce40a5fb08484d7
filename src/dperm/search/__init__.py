"""Private hyperparameter search."""

from dperm.search.private_search import PrivateSearch

__all__ = ["PrivateSearch"]
