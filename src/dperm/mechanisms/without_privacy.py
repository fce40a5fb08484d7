"""Release of private sums without noise."""

import numpy as np

from dperm.private_values.bounded import Bounded


class NotPrivateArray(np.ndarray):
    """An exact sum, marked as released without privacy."""

    private = False

    def __repr__(self) -> str:
        return super().__repr__().replace("NotPrivateArray", "NOT PRIVATE ", 1)


def release_without_privacy(private: Bounded) -> NotPrivateArray:
    """Release a private sum without noise, for tests and non-private fits. Nothing is protected.

    Returns
    -------
    NotPrivateArray
        The sum as float64; the attribute ``private`` is False.

    Examples
    --------
    >>> import dperm
    >>> from dperm.objective.gradients import clipped_gradient_sum
    >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1])
    >>> gradient = release_without_privacy(clipped_gradient_sum(objective, [0.0], clip=1.0))
    >>> gradient, gradient.private
    (NOT PRIVATE ([-0.75]), False)
    """
    return (private._integers * private.grid).view(NotPrivateArray)
