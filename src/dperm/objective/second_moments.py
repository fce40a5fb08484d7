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

import math

import numpy as np
from numpy.typing import NDArray

from dperm.private_values.bounded import Bounded

Array = NDArray[np.float64]

DIAGONAL, OFF_DIAGONAL = 29, 41
_SUM_BITS = 50  # n (B / grid)^2 <= 2^50, times 41 below 2^56
_MAX_BITS = 20  # keeps panels of 64 rows exact


def row_grid(bound: float, n_public: int) -> float:
    """Grid of rows of norm at most ``bound``: a power of two, from public numbers alone."""
    bits = min(_MAX_BITS, (_SUM_BITS - (n_public - 1).bit_length()) // 2)
    if bits < 4:
        raise ValueError(f"n_public = {n_public} is too large for exact second moments")
    return math.ldexp(1.0, math.frexp(bound)[1] - bits)


def bound_before_rounding(bound: float, grid: float, dimension: int) -> float:
    """Bound on a row such that rounding its entries to the grid keeps it within ``bound``."""
    inner = (bound - 0.5 * grid * math.sqrt(dimension)) / (1.0 + 2.0**-49 + (dimension + 16) * 2.0**-52)
    if not inner > 0.0:
        raise ValueError(f"rows of {dimension} dimensions are too wide for exact second moments")
    return inner


def mean_weight(clip: float, row_norm: float, grid: float) -> float:
    """Factor of the columns' sums relative to those of squares: ``clip / row_norm``, down to the grid."""
    steps = math.floor(clip / row_norm / grid * (1.0 - 2.0**-50))
    if steps < 1:
        raise ValueError(
            f"clip must be at least {row_norm * grid:g} for sums of so many records, got {clip!r}"
        )
    return steps * grid


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


def regression_sums(
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


def diagonal(triangle: NDArray[np.int64]) -> NDArray[np.int64]:
    """The diagonal entries of a triangle."""
    return np.asarray(triangle[_on_diagonal(_width(triangle.size))])


def _width(size: int) -> int:
    return (math.isqrt(8 * size + 1) - 1) // 2


def _on_diagonal(width: int) -> NDArray[np.bool_]:
    rows, marks = np.arange(width), np.zeros(width * (width + 1) // 2, dtype=np.bool_)
    marks[rows * width - rows * (rows - 1) // 2] = True
    return marks


def denoised(matrix: Array, noise: float) -> Array:
    """An estimate of second moments from a noisy release: low rank plus diagonal.

    Noise of standard deviation ``noise`` on the diagonal and ``noise / sqrt(2)`` off it has eigenvalues up to
    ``edge = noise sqrt(2 d)``. Larger eigenvalues are kept and debiased, as an eigenvalue ``l`` of the matrix
    appears at ``l + edge^2 / (4 l)`` (Capitaine, Donati-Martin and Feral 2009); of the rest only the diagonal
    is used.
    """
    edge = noise * math.sqrt(2.0 * len(matrix))
    values, vectors = np.linalg.eigh(matrix)
    kept = np.where(values > edge, 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))), 0.0)
    main = (vectors * kept) @ vectors.T
    return np.asarray(main + np.diag(np.maximum(np.diag(matrix) - np.diag(main), 0.0)))
