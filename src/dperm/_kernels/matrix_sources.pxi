# Design matrices that are not stored densely: a part of row_kernels.pyx.

cdef class MatrixSource:
    """A design matrix that is not stored densely; passed to rows instead of an array."""

    cdef row_source source
    cdef readonly tuple shape  # of the dense matrix
    cdef readonly object dtype  # of the expanded rows
    cdef readonly int64_t size  # stored numbers
    cdef tuple arrays  # that the pointers point into


cdef const void *start_of(array) except? NULL:
    """The address of the data of a C-ordered array, which the caller keeps alive."""
    cdef Py_buffer octets
    PyObject_GetBuffer(array, &octets, PyBUF_SIMPLE)
    PyBuffer_Release(&octets)
    return octets.buf


cdef class TabularSource(MatrixSource):
    """A block of numbers and codes, see csrc/tabular/tabular_matrix.h.

    maps: for each column of codes None, or (size + 1, width) float32, the last row of zeros.
    """

    cdef tabular_matrix table

    def __init__(self, numeric, codes, numeric_columns, first_columns, sizes, double step, maps=()):
        maps = maps or (None,) * len(sizes)
        widths = [size if each is None else each.shape[1] for size, each in zip(sizes, maps)]
        places = [np.array(each, dtype=np.int64) for each in (numeric_columns, first_columns, sizes, widths)]
        addresses = np.array([0 if each is None else <size_t>start_of(each) for each in maps], dtype=np.uintp)
        self.arrays = (numeric, codes, addresses, *places, *maps)
        self.table.numeric, self.table.codes = start_of(numeric), start_of(codes)
        self.table.numeric_type = {
            "float32": NUMERIC_F32, "float64": NUMERIC_F64, "uint8": NUMERIC_U8, "uint16": NUMERIC_U16,
        }[numeric.dtype.name]
        self.table.code_bytes, self.table.number_bytes = codes.dtype.itemsize, numeric.dtype.itemsize
        self.table.step = step
        self.table.n_numeric, self.table.n_categorical = numeric.shape[1], codes.shape[1]
        self.table.n_columns = numeric.shape[1] + int(places[3].sum())
        self.table.numeric_columns = <const int64_t *>start_of(places[0])
        self.table.first_columns = <const int64_t *>start_of(places[1])
        self.table.sizes = <const int64_t *>start_of(places[2])
        self.table.widths = <const int64_t *>start_of(places[3])
        self.table.maps = <const float *const *>start_of(addresses)
        check(plan_tabular(&self.table))
        self.source.matrix, self.source.expand = &self.table, expand_tabular
        self.source.representation = <representation>REPRESENTATION_TABLE
        self.shape = codes.shape[0], self.table.n_columns
        self.size = numeric.size + codes.size
        self.dtype = np.dtype(np.float64)

    def __dealloc__(self):
        free_tabular_plan(&self.table)

    @property
    def nonzero_bytes(self):
        """Bytes of the nonzero columns (csrc/tabular/nonzero_columns.h) that later passes read; 0 if none."""
        cdef const nonzero_columns *found = nonzero_columns_of(&self.table)
        return found.bytes if found != NULL else 0


cdef class ColumnsSource(MatrixSource):
    """Columns of float32 or of float64, see csrc/dense/columns_matrix.h."""

    cdef columns_matrix matrix

    def __init__(self, columns):
        cdef tuple arrays = tuple(columns)
        cdef size_t[::1] addresses = np.empty(len(arrays), dtype=np.uintp)
        for j, each in enumerate(arrays):
            addresses[j] = <size_t>start_of(each)
        self.arrays = (addresses, *arrays)
        self.matrix.columns = <const void *const *>&addresses[0]
        self.matrix.n_columns = len(arrays)
        self.source.matrix = &self.matrix
        self.source.representation = <representation>REPRESENTATION_COLUMNS
        self.dtype = arrays[0].dtype
        self.source.expand = chosen.dense[<int>(REAL_F32 if self.dtype == np.float32 else REAL_F64)].expand_columns
        self.shape = arrays[0].size, len(arrays)
        self.size = arrays[0].size * len(arrays)


cdef class SparseSource(MatrixSource):
    """A compressed sparse matrix, see csrc/sparse/sparse_matrix.h.

    values, columns (n_entries,): float32 or float64, and int32 or int64. starts (n_rows + 1,): int64, ascending
    from 0 to at most n_entries. Before it is passed to rows, `fault` must have found nothing.
    """

    cdef sparse_matrix sparse

    def __init__(self, values, columns, starts, int64_t n_columns):
        self.arrays = (values, columns, starts)
        self.sparse.values, self.sparse.columns = start_of(values), start_of(columns)
        self.sparse.starts = <const int64_t *>start_of(starts)
        self.sparse.n_rows, self.sparse.n_columns = starts.shape[0] - 1, n_columns
        self.sparse.n_entries = values.shape[0]
        self.sparse.type = REAL_F32 if values.dtype == np.float32 else REAL_F64
        self.sparse.index = INDEX_I32 if columns.dtype == np.int32 else INDEX_I64
        self.source.matrix, self.source.expand = &self.sparse, expand_sparse
        self.source.representation = <representation>REPRESENTATION_SPARSE
        self.shape = self.sparse.n_rows, n_columns
        self.size = values.size
        self.dtype = values.dtype

    def fault(self):
        """``(fault, row)``: the worst of None, "not canonical" and "out of range", and its first row."""
        cdef int64_t row = 0
        cdef sparse_fault worst
        with nogil:
            worst = sparse_check(&self.sparse, &row)
        names = {SPARSE_NOT_CANONICAL: "not canonical", SPARSE_OUT_OF_RANGE: "out of range"}
        return names.get(worst), row
