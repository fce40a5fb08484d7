"""Private sums opened without noise."""

import numpy as np

from dperm.private_values.bounded import Bounded


class NotPrivateArray(np.ndarray):
    """An exact sum, marked as released without privacy."""

    private = False

    def __repr__(self) -> str:
        return super().__repr__().replace("NotPrivateArray", "NOT PRIVATE ", 1)


def release_without_privacy(private: Bounded) -> NotPrivateArray:
    """Open a private sum without noise: for tests and non-private fits. Nothing is protected.

    Returns
    -------
    NotPrivateArray
        The sum as float64; the attribute ``private`` is False.
    """
    return (private._integers * private.grid).view(NotPrivateArray)
