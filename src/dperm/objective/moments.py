"""Exact sums of outer products, as vectors whose norm is the matrix's Frobenius norm.

The Frobenius norm of a symmetric matrix is that of its upper triangle with off-diagonal entries times
sqrt(2). As that factor is irrational, the triangle is stored as ``29 G_jj`` and ``41 G_jk``: ``41^2 = 1681 <
1682 = 2 * 29^2``, hence its norm is at most ``29 ||G||_F``, and at least 0.9997 of that.

**Sensitivity.** A record adds ``V V^T`` of an integer row ``V`` with ``||V|| <= B / grid`` (below). Its
vector therefore has norm at most ``29 ||V||^2 <= 29 (B / grid)^2``; equality needs one non-zero entry.
For two records the inner product of the vectors is
``841 sum_j V_j^2 U_j^2 + 1681 sum_{j<k} V_j V_k U_j U_k = 840.5 <V, U>^2 + 0.5 sum_j V_j^2 U_j^2 >= 0``,
so replacing one by the other moves the sum by at most sqrt(2) times as much as adding it. A target
column ``t`` with ``|t| <= T / grid``, whose square is left out, adds ``2 (B T)^2`` to the square of the norm
and ``1681 <V, U> t u`` to the inner product, which is then at least ``-840.5 m``, with the largest value m of
``a (2 T^2 - a)`` for a in [0, B^2] (in units of the grid): ``T^4`` if T is at most B. Rows of equal norm with
opposite targets come close to it.

**Rounding.** ``V`` is ``a (x, 1) / grid`` rounded to nearest, which moves it by at most ``sqrt(d)/2``. The
kernels bound its norm before that by ``bound_in / grid (1 + slack)``; ``bound_in`` is chosen so
that both together stay within ``B / grid``. The sums of products of integers are exact.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dperm.data.passes import GramSum, MomentSums
from dperm.errors import DataError
from dperm.objective.arguments import check_memory, clip_bound, finite_number, number, number_from, real_array
from dperm.objective.hooks import private_sum
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform

Array = NDArray[np.float64]

DIAGONAL, OFF_DIAGONAL = 29, 41
_SUM_BITS = 50  # n (B / grid)^2 <= 2^50, times 41 below 2^56
_MAX_BITS = 20  # keeps panels of 64 rows exact

MAX_RECORDS = 16  # per public record
_MAX_ROW_NORM = 2.0**500  # squares on a grid are doubles


@private_sum
def gram_sum(
    objective: Objective,
    *,
    target_factor: float = 0.0,
    target_centre: float = 0.0,
    target_limit: float = math.inf,
    transform: Transform | None = None,
) -> Bounded:
    """``sum_i z_i z_i^T``, see :func:`dperm.objective.moments.symmetric_matrix`.

    Parameters
    ----------
    target_factor : float
        If positive, a last column ``target_factor (y_i - target_centre)`` is added for the products of
        rows and targets; its square is left out. Needs a finite ``target_bound``, or a classification
        loss.
    target_centre, target_limit : float
        Public; the differences ``y_i - target_centre`` are clipped to ``[-target_limit, target_limit]``.
    transform : Transform, optional
        Public coordinates of the rows, instead of ``z_i`` and `row_norm`. The target of a row that is
        scaled down is scaled down with it.

    Returns
    -------
    Bounded
        Shape ``(d (d + 1) / 2,)`` for ``d = dimension``, or ``((d + 1)(d + 2) / 2 - 1,)``, with the norm
        of the matrix in units of 29: one record contributes at most ``29 row_norm^2``.

    Examples
    --------
    >>> import dperm
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = dperm.Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
    >>> symmetric_matrix(release_without_privacy(gram_sum(objective))).round(3)
    array([[0.25, 0.  ],
           [0.  , 1.  ]])
    """
    centre = finite_number("target_centre", target_centre)
    target = _target_column(objective, target_factor, centre, target_limit)
    bound, columns = scaled_rows(objective, transform)
    integers, grid = _triangle(objective, bound, target_factor, target, centre=centre, columns=columns)
    return bounded_triangle(integers, grid, bound, target and target * (1.0 + 2.0**-50) + grid)


@private_sum
def regression_sums(objective: Objective, target_factor: float) -> tuple[Bounded, Bounded, Bounded]:
    """The smallest eigenvalue of ``sum_i z_i z_i^T``, its plain triangle, and ``sum_i z_i f y_i``.

    Three private values with separate sensitivities: about ``row_norm^2`` for the first two, and
    ``row_norm`` times the bound on ``f y_i``.

    Parameters
    ----------
    target_factor : float
        f, positive. Needs a loss of real targets with a finite ``target_bound``.

    Returns
    -------
    tuple of Bounded
        Shapes ``(1,)``, ``(d (d + 1) / 2,)`` and ``(d,)`` for ``d = dimension``.

    Examples
    --------
    >>> import dperm
    >>> from dperm.mechanisms import release_without_privacy
    >>> loss = dperm.losses.SquaredError(target_bound=1.0)
    >>> objective = dperm.Objective(loss, [[0.5, 0.0], [0.0, -1.0]], [1.0, -0.5])
    >>> smallest, triangle, products = regression_sums(objective, target_factor=1.0)
    >>> release_without_privacy(smallest).round(3), release_without_privacy(products).round(3)
    (array([0.25]), array([0.5, 0.5]))
    """
    target = _target_column(objective, target_factor)
    if objective.loss.classification or not target:
        raise ValueError(
            "the sums of a regression need a positive target_factor, and a loss of real targets with a "
            f"finite target_bound; got target_factor = {target_factor!r} and the {objective.loss.name} loss"
        )
    _check_records(objective)
    integers, grid = _triangle(objective, objective.row_norm, target_factor, target)
    target = target * (1.0 + 2.0**-50) + grid
    return _regression_sums(integers, grid, objective.row_norm, target, MAX_RECORDS * objective.n_public)


@private_sum
def column_sums(objective: Objective, transform: Transform) -> Bounded:
    """``sum_i t_i`` of rows in these coordinates, shape ``(shape[0],)``; sensitivity its `row_norm`.

    Examples
    --------
    >>> import dperm
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = dperm.Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
    >>> transform = Transform.scaling([2.0, 1.0], row_norm=1.5)
    >>> release_without_privacy(column_sums(objective, transform)).round(3)
    array([ 1., -1.])
    """
    return _column_moments(objective, transform, transform.row_norm**2)[0]


@private_sum
def column_squares(objective: Objective, transform: Transform, clip: float) -> Bounded:
    """``sum_i f_i (t_ij^2)_j`` with ``f_i = min(1, clip / ||(t_ij^2)_j||)``, shape ``(shape[0],)``.

    Examples
    --------
    >>> import dperm
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = dperm.Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
    >>> transform = Transform.scaling([2.0, 1.0], row_norm=1.5)
    >>> release_without_privacy(column_squares(objective, transform, clip=1.5)).round(3)
    array([1., 1.])
    """
    return _column_moments(objective, transform, clip)[1]


def _column_moments(objective: Objective, transform: Transform, clip: float) -> tuple[Bounded, Bounded]:
    row_norm, columns = scaled_rows(objective, transform)
    clip, grid, inner, inner_clip = _moment_bounds(objective, clip, row_norm)
    check_overflow_of_products(objective, row_norm / grid)
    sums, squares = objective._run(MomentSums(inner, grid, inner_clip, columns))
    slack = 1.0 + 2.0**-50
    return (
        Bounded(sums, grid=grid, add_or_remove=row_norm * slack),
        Bounded(squares, grid=grid**2, add_or_remove=clip * slack, replace_one=math.sqrt(2.0) * clip * slack),
    )


def check_sums(
    objective: Objective,
    gram: bool,
    target_factor: float,
    columns: bool,
) -> None:
    """Raise ValueError unless these sums can be formed, from public numbers."""
    if gram:
        triangle_bounds(objective, objective.row_norm, _target_column(objective, target_factor))
    if columns:
        # Grids are relative to the bounds; squares of scaled rows are clipped to their length or less.
        _moment_bounds(objective, 0.5 / math.sqrt(objective.dimension), 1.0)


def _target_column(
    objective: Objective, target_factor: float, centre: float = 0.0, limit: float = math.inf
) -> float:
    """Bound on the entries of the target column; 0 for none."""
    factor = number("target_factor", target_factor)
    if factor == 0.0:
        return 0.0
    furthest = (1.0 if objective.loss.classification else objective.loss.target_bound) + abs(centre)
    bound = factor * min(number("target_limit", limit), furthest)
    if not 0.0 < bound <= _MAX_ROW_NORM:
        raise ValueError(
            "sums of rows times targets need a positive target_factor and target_limit, and a loss with "
            f"a finite target_bound, got {target_factor!r}, {limit!r} and {objective.loss.target_bound!r}"
        )
    return bound


def scaled_rows(objective: Objective, transform: Transform | None) -> tuple[float, Array | None]:
    """Bound on the norm of a row, and the factors and shifts of its entries, shape ``(2, width)``."""
    if transform is None:
        return objective.row_norm, None
    scales = real_array("column_scales", transform.values)
    sizes = np.abs(scales[scales != 0.0])
    shape = objective.shape[:1]
    if scales.shape != shape or not ((sizes >= 2.0**-600) & (sizes <= 2.0**600)).all():
        raise ValueError(
            f"column_scales must be from 2^-600 to 2^600, or 0, and of shape {shape}; got {scales}"
        )
    expected = "from 2^-256 to 2^500"
    row_norm = number_from("row_norm", transform.row_norm, 2.0**-256, _MAX_ROW_NORM, expected)
    shifts = np.zeros(shape) if transform.shifts is None else real_array("shifts", transform.shifts)
    if shifts.shape != shape or not (np.abs(shifts) <= 2.0**500).all():
        raise ValueError(f"shifts must be numbers up to 2^500 of shape {shape}, got {shifts}")
    return row_norm, np.stack([scales, shifts])


def _moment_bounds(objective: Objective, clip: float, row_norm: float) -> tuple[float, float, float, float]:
    """Clip, grid of the rows, and bounds on a row and on its squares before rounding."""
    clip = clip_bound(min(number("clip", clip), row_norm**2))
    grid = row_grid(row_norm, objective.n_public)
    inner = bound_before_rounding(row_norm, grid, objective.dimension)
    return clip, grid, inner, bound_before_rounding(clip, grid**2, objective.dimension) / grid**2


def triangle_bounds(objective: Objective, bound: float, target: float) -> tuple[float, float]:
    """Grid of the rows of a triangle, and the bound on a row before rounding."""
    if bound > _MAX_ROW_NORM:
        raise ValueError(
            f"second moments need rows of norm at most 2^500, got {bound!r}: scale columns and row_norm"
        )
    width = objective.shape[0] + (target > 0.0)
    # The triangle, its noise and one triangle per thread; the matrix and its factorisation.
    n_bytes = 4.0 * width * (width + 1) * (2 + objective._threads()) + 16.0 * width**2
    check_memory(n_bytes, f"the matrix of second moments of {width} columns")
    grid = row_grid(max(bound, target), objective.n_public)
    return grid, bound_before_rounding(bound, grid, objective.dimension)


def _triangle(
    objective: Objective,
    bound: float,
    target_factor: float = 0.0,
    target: float = 0.0,
    *,
    centre: float = 0.0,
    columns: Array | None = None,
) -> tuple[NDArray[np.int64], float]:
    """The triangle from the kernel, and the grid of its rows; `target` bounds the last column."""
    grid, inner = triangle_bounds(objective, bound, target)
    check_overflow_of_products(objective, max(bound, target) / grid)
    gram = GramSum(objective.loss.kernel, None, inner, grid, columns=columns)
    if target:
        factor = float(target_factor)
        gram = replace(gram, target_factor=factor, target_centre=centre, target_limit=target / factor)
    return objective._run(gram), grid


def _check_records(objective: Objective) -> None:
    if objective._n_rows > MAX_RECORDS * objective.n_public:
        raise DataError(
            f"n_public = {objective.n_public} is far below the number of records. Pass a larger n_public."
        )


def check_overflow_of_products(objective: Objective, steps: float) -> None:
    """Raise DataError unless sums of products of integers up to ``steps`` fit 64 times."""
    if objective._n_rows * (steps + 1.0) ** 2 * 64.0 > 2.0**62:
        raise objective._far_more_records()


def row_grid(bound: float, n_public: int) -> float:
    """Grid of rows of norm at most ``bound``: a power of two, from public numbers alone."""
    bits = min(_MAX_BITS, (_SUM_BITS - (n_public - 1).bit_length()) // 2)
    if bits < 4:
        raise ValueError(f"n_public = {n_public} is too large for exact second moments")
    return math.ldexp(1.0, math.frexp(bound)[1] - bits)


def finest_moments(n_public: int) -> float:
    """Largest sensitivity of second moments in units of their grid, whatever the bound on the rows."""
    return math.sqrt(2.0) * DIAGONAL * (2.0 / row_grid(1.0, n_public)) ** 2


def bound_before_rounding(bound: float, grid: float, dimension: int) -> float:
    """Bound on a row such that rounding its entries to the grid keeps it within ``bound``."""
    inner = (bound - 0.5 * grid * math.sqrt(dimension)) / (1.0 + 2.0**-49 + (dimension + 16) * 2.0**-52)
    if not inner > 0.0:
        raise ValueError(f"rows of {dimension} dimensions are too wide for exact second moments")
    return inner


def bounded_triangle(integers: NDArray[np.int64], grid: float, bound: float, target: float = 0.0) -> Bounded:
    """The kernel's triangle as a private sum, without the square of a target column.

    `integers` is the upper triangle, row by row, and is overwritten. `grid` is that of the rows. `bound` and
    `target` are the bounds ``B`` and ``T``, rounding included; ``T = 0`` for no target.
    """
    width = _width(integers.size)
    integers *= np.where(_on_diagonal(width), DIAGONAL, OFF_DIAGONAL)
    squared = DIAGONAL * bound**2 * (1.0 + 2.0**-50)
    if not target:
        return Bounded(integers, grid=grid**2, add_or_remove=squared, replace_one=math.sqrt(2.0) * squared)
    adding, replacing = target_sensitivities(bound, target)
    return Bounded(integers[:-1].copy(), grid=grid**2, add_or_remove=adding, replace_one=replacing)


def target_sensitivities(bound: float, target: float) -> tuple[float, float]:
    """Add-or-remove and replace-one sensitivity of a triangle with a target column."""
    length = bound * math.sqrt(bound**2 + 2.0 * target**2)
    opposed = min(bound, target) * math.sqrt(2.0 * target**2 - min(bound, target) ** 2)
    scale = DIAGONAL * (1.0 + 2.0**-50)
    return scale * length, scale * math.sqrt(2.0) * math.hypot(length, opposed)


def symmetric_matrix(triangle: Array, target: bool = False) -> Array:
    """The symmetric matrix of a released triangle; the entry missing with a target column is 0."""
    values = np.append(triangle, 0.0) if target else np.asarray(triangle)
    width = _width(values.size)
    return unweighted_symmetric_matrix(values / np.where(_on_diagonal(width), DIAGONAL, OFF_DIAGONAL))


def unweighted_symmetric_matrix(triangle: Array) -> Array:
    """The symmetric matrix with this upper triangle."""
    width = _width(triangle.size)
    matrix = np.zeros((width, width))
    matrix[np.tri(width, dtype=bool).T] = triangle
    return matrix + np.triu(matrix, 1).T


def _regression_sums(
    integers: NDArray[np.int64], grid: float, bound: float, target: float, most_records: float
) -> tuple[Bounded, Bounded, Bounded]:
    """Smallest eigenvalue of ``sum z z^T``, its plain triangle, and ``sum z t``, as separate private values.

    Takes the kernel's triangle with a target column ``t``, arguments as for `bounded_triangle`, and a public
    bound on the number of records.

    A record adds ``V V^T``: its triangle has a norm of at most ``||V||^2``, and by Weyl's inequality no
    eigenvalue moves further. The errors of LAPACK's symmetric eigenvalues are a modest multiple of the unit
    roundoff times the norm (Anderson et al., LAPACK Users' Guide, section 4.7); 512 times the width is
    allowed for here.
    """
    rows, columns = np.triu_indices(_width(integers.size))
    width = int(columns[-1])  # of z
    moments = integers[columns < width]
    products = integers[(columns == width) & (rows < width)]
    squared = bound**2 * (1.0 + 2.0**-50)
    matrix = unweighted_symmetric_matrix(np.asarray(moments * grid**2, dtype=np.float64))
    error = 512.0 * width * 2.0**-53 * most_records * squared
    smallest = np.asarray(np.linalg.eigvalsh(matrix)[:1], dtype=np.float64)
    return (
        Bounded.rounding(smallest, add_or_remove=squared + 2.0 * error, replace_one=squared + 2.0 * error),
        Bounded(moments, grid=grid**2, add_or_remove=squared),
        Bounded(products, grid=grid**2, add_or_remove=bound * target * (1.0 + 2.0**-50)),
    )


def _width(size: int) -> int:
    return (math.isqrt(8 * size + 1) - 1) // 2


def _on_diagonal(width: int) -> NDArray[np.bool_]:
    rows, marks = np.arange(width), np.zeros(width * (width + 1) // 2, dtype=np.bool_)
    marks[rows * width - rows * (rows - 1) // 2] = True
    return marks
