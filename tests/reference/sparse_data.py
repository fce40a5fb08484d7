"""Sparse matrices for tests, and kernels bound to them."""

import numpy as np
import scipy.sparse as sp

from dperm._kernels import row_kernels


def random_csr(n_rows, width, density, dtype, *, index=np.int32, seed=0, long_rows=True):
    """Random entries at random places, with some empty rows, and rows of very different norms."""
    rng = np.random.default_rng([seed, n_rows, width])
    counts = rng.binomial(width, density * rng.uniform(0, 2 if density <= 0.5 else 1, n_rows))
    columns = [np.sort(rng.choice(width, count, replace=False)) for count in counts]
    starts = np.concatenate([[0], np.cumsum(counts)])
    values = rng.normal(size=starts[-1])
    if long_rows:
        values *= np.repeat(np.exp(rng.normal(size=n_rows)), counts)
    matrix = sp.csr_array((n_rows, width), dtype=dtype)
    matrix.data = values.astype(dtype)
    matrix.indices = np.concatenate([*columns, np.empty(0)]).astype(index)
    matrix.indptr = starts.astype(index)
    return matrix


def source_of(matrix):
    """A canonical CSR matrix as a source for the kernels."""
    starts = matrix.indptr.astype(np.int64)
    return row_kernels.SparseSource(matrix.data, matrix.indices, starts, matrix.shape[1])


def bind_sparse(matrix, y, intercept=False, row_norm=1.0, threads=1, **counts):
    return row_kernels.DenseRows(source_of(matrix), y, intercept, row_norm, threads, **counts)


def scrambled(matrix, seed=0, duplicates=True):
    """The same matrix with entries in random order, one per row split into two equal halves."""
    rng = np.random.default_rng(seed)
    values, columns, starts = [], [], [0]
    for i in range(matrix.shape[0]):
        here = slice(matrix.indptr[i], matrix.indptr[i + 1])
        value, column = matrix.data[here], matrix.indices[here]
        if duplicates and len(value):
            half = value / 2
            value, column = np.concatenate([value[:-1], half[-1:], half[-1:]]), np.append(column, column[-1])
        order = rng.permutation(len(value))
        values.append(value[order])
        columns.append(column[order])
        starts.append(starts[-1] + len(order))
    result = sp.csr_array(matrix.shape, dtype=matrix.dtype)
    result.data = np.concatenate([*values, np.empty(0, matrix.dtype)]).astype(matrix.dtype)
    result.indices = np.concatenate([*columns, np.empty(0, matrix.indices.dtype)]).astype(
        matrix.indices.dtype
    )
    result.indptr = np.array(starts, dtype=matrix.indptr.dtype)
    return result
