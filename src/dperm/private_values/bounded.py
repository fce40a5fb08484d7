"""Private sums: exact integers with their sensitivity, which only a mechanism can open."""

import math
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.neighbours import Neighbours
from dperm.private_values.opaque import Unchangeable
from dperm.private_values.transform import Transform


class Bounded(Unchangeable):
    """A sum over records on a public grid, with a bound on what one record changes in it.

    It does not print, convert, iterate, compare, copy or pickle. Numbers come out of it only through the
    mechanisms of :mod:`dperm.mechanisms`, which charge a budget and add noise, and
    :func:`dperm.mechanisms.release_without_privacy`, whose result says that nothing is protected.

    Attributes
    ----------
    grid : float
        A power of two; the sum is an integer multiple of it. Public.
    add_or_remove : float
        Add-or-remove sensitivity: the largest Euclidean norm of one record's contribution. For scores the
        contribution to each entry is in ``[0, add_or_remove]``. Public.
    replace_one : float
        Replace-one sensitivity: the largest Euclidean distance between the contributions of two records; at
        most twice `add_or_remove`. Public.
    shape : tuple of int
        Shape of the sum. Public.
    scores : bool
        Whether the entries are scores of candidates (sums of non-negative losses).

    Examples
    --------
    >>> import dperm
    >>> from dperm.objective.gradients import clipped_gradient_sum
    >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1])
    >>> total = clipped_gradient_sum(objective, [0.0], clip=0.25)
    >>> total.shape, total.sensitivity("add_or_remove"), total.sensitivity("replace_one")
    ((1,), 0.25, 0.5)
    >>> float(total)
    Traceback (most recent call last):
        ...
    TypeError: a Bounded value is private: release it through a mechanism, or with ...
    """

    _refusal = (
        "a Bounded value is private: release it through a mechanism, or with "
        "dperm.mechanisms.release_without_privacy where no privacy is wanted"
    )
    __slots__ = ("_integers", "add_or_remove", "grid", "replace_one", "scores")

    _integers: NDArray[np.int64]
    grid: float
    add_or_remove: float
    replace_one: float
    scores: bool

    def __init__(
        self,
        integers: NDArray[np.int64],
        *,
        grid: float,
        add_or_remove: float,
        replace_one: float | None = None,
        scores: bool = False,
    ) -> None:
        replace_one = 2.0 * add_or_remove if replace_one is None else replace_one
        check_sensitivity("add_or_remove", add_or_remove)
        check_sensitivity("replace_one", replace_one)
        check_sensitivity("grid", grid)
        put = object.__setattr__
        put(self, "_integers", integers)
        put(self, "grid", grid)
        put(self, "add_or_remove", add_or_remove)
        put(self, "replace_one", replace_one)
        put(self, "scores", scores)

    @classmethod
    def rounding(cls, values: NDArray[np.float64], *, add_or_remove: float, replace_one: float) -> Self:
        """The result of a private computation, rounded to a grid that follows from its sensitivity.

        Parameters
        ----------
        values : ndarray of float64
            Private numbers, such as weights trained on the records. They are clipped to 2^61 steps of the
            grid, which brings no two results further apart.
        add_or_remove, replace_one : float
            Largest Euclidean distance between the results on two neighbouring data sets, where one
            record is null in one of them or one record is replaced. Public, positive, and proved for
            the program that computed the values, its rounding included. The rounding here is added.

        Examples
        --------
        >>> import numpy as np
        >>> trained = Bounded.rounding(np.array([0.5, -1.25]), add_or_remove=0.1, replace_one=0.2)
        >>> trained.shape, round(trained.sensitivity("replace_one"), 6)
        ((2,), 0.200086)
        """
        grid, rounding = result_grid(add_or_remove, replace_one, values.size)
        steps = np.clip(values / grid, -(2.0**61), 2.0**61)
        return cls(
            np.rint(steps).astype(np.int64),
            grid=grid,
            add_or_remove=add_or_remove + rounding,
            replace_one=replace_one + rounding,
        )

    def mapped(self, transform: Transform, *, add_or_remove: float | None = None) -> "Bounded":
        """The image of a vector sum under a public matrix, exact except for at most one final rounding.

        A sum that is a matrix is mapped column by column.

        Parameters
        ----------
        transform : Transform
            With a column for every entry of the sum, or for every row of a matrix.
        add_or_remove : float, optional
            Largest norm of one record's image, if a better bound is known than from the norm of the matrix.
            The rounding here is added.
        """
        if self.scores or self._integers.ndim > 2:
            raise TypeError("only sums of vectors have images under a matrix")
        integers, shift = transform.exact_product(self._integers)
        grid = math.ldexp(self.grid * transform.grid, shift)
        if add_or_remove is None:
            add_or_remove = transform.singular_values[0] * self.add_or_remove
        rounding = grid * math.sqrt(integers.size) if shift else 0.0  # each of two results moves by half
        return Bounded(integers, grid=grid, add_or_remove=add_or_remove + rounding)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""
        return self._integers.shape

    def sensitivity(self, neighbors: Neighbours | str) -> float:
        """Largest change of the sum between neighbours, including rounding to the grid.

        For a vector the Euclidean norm of the change, for scores the largest change of one entry.

        Examples
        --------
        >>> import dperm
        >>> from dperm.objective.counts import class_counts
        >>> objective = dperm.Objective("softmax", [[0.5], [-1.0]], [0, 1], n_classes=2)
        >>> counts = class_counts(objective)
        >>> counts.sensitivity("add_or_remove"), round(counts.sensitivity("replace_one"), 3)
        (1.0, 1.414)
        """
        replaced = Neighbours.parse(neighbors) is Neighbours.REPLACE_ONE
        return self.replace_one if replaced and not self.scores else self.add_or_remove

    def score_range(self, neighbors: Neighbours | str) -> float:
        """For scores: largest spread ``max_j - min_j`` of the changes between neighbours.

        Examples
        --------
        >>> import dperm
        >>> from dperm.objective.losses import clipped_loss_sums
        >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1])
        >>> losses = clipped_loss_sums(objective, [0.0], [1.0], steps=[0.0, 1.0, 2.0], clip=3.0)
        >>> losses.score_range("add_or_remove"), losses.score_range("replace_one")
        (3.0, 6.0)
        """
        if not self.scores:
            raise TypeError("score_range is defined for scores, not for a vector sum")
        return Neighbours.parse(neighbors).score_range_factor * self.add_or_remove

    def __repr__(self) -> str:
        kind = "scores" if self.scores else "sum"
        return f"<Bounded {kind}, shape {self.shape}, not released>"

    __array_ufunc__ = None  # makes arithmetic with arrays a TypeError
    __iter__ = __len__ = __getitem__ = __bool__ = __float__ = __int__ = __hash__ = Unchangeable._refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = Unchangeable._refuse


def check_sensitivity(name: str, value: float) -> None:
    """Raise ValueError unless the bound is positive and finite: noise cannot be calibrated to others."""
    if not 0.0 < value < math.inf:  # also false for NaN
        raise ValueError(
            f"{name} of a private value must be positive and finite, got {value!r}: no noise can protect it. "
            "Bound the rows (row_norm), the targets (target_bound) and the clip"
        )


def result_grid(add_or_remove: float, replace_one: float, size: int) -> tuple[float, float]:
    """Grid of `Bounded.rounding`, and the increase of the sensitivity by rounding to it.

    The grid is the largest power of two below a thousandth of the smaller bound per coordinate; each of
    two results moves by at most half of the increase.

    Raises
    ------
    ValueError
        For bounds that are not positive and finite.
    """
    check_sensitivity("add_or_remove", add_or_remove)
    check_sensitivity("replace_one", replace_one)
    smallest = min(add_or_remove, replace_one)
    grid = math.ldexp(1.0, math.frexp(smallest / (1024.0 * math.sqrt(size)))[1] - 1)
    return grid, grid * math.sqrt(size)
