# The C headers kernel_table.h and row_ranges.h, declared to Cython.
from libc.stdint cimport int32_t, int64_t

from dperm._kernels.samplers cimport errand


cdef extern from "kernel_table.h" nogil:
    enum real_type:
        REAL_F32
        REAL_F64

    enum loss_kind:
        N_LOSS_KINDS

    struct loss:
        loss_kind kind
        double parameter
        double curvature

    struct row_source

    struct dense_rows:
        const void *x
        const void *y
        const double *norms
        int64_t n_rows
        int64_t n_columns
        int intercept
        double row_norm
        const int64_t *batch
        const int64_t *counts
        const double *clip_norms
        double *predictions
        const row_source *source
        const errand *errands
        int n_errands

    struct integer_rows:
        loss loss
        const double *w
        double bound_in
        double grid
        double target_factor
        int upper

    struct models:
        int64_t n_models
        const double *w
        const double *clips_in
        const double *grids
        const int32_t *folds
        const int32_t *left_out

    ctypedef void clipped_gradient_sum_fn(
        const dense_rows *rows, int64_t begin, int64_t end, loss loss, const double *w,
        double clip_in, double grid, int64_t *sum_out, void *workspace)

    ctypedef void row_norms_fn(const dense_rows *rows, int64_t begin, int64_t end,
                               double *norms_out)

    ctypedef void expand_columns_fn(const void *matrix, const int64_t *places, int64_t first,
                                    int64_t count, void *x_out)

    struct kernel_table:
        const char *instruction_set
        row_norms_fn *row_norms[2]
        expand_columns_fn *expand_columns[2]

    const char *kernels_available(int index)
    const kernel_table *kernels_choose(const char *name)
    const kernel_table *chosen "kernels_in_use"


cdef extern from "sparse/column_panels.h" nogil:
    struct strip_store:
        pass

    int64_t count_strips(const strip_store *)
    void free_strips(strip_store *)


cdef extern from "sparse/sparse_matrix.h" nogil:
    enum index_type:
        INDEX_I32
        INDEX_I64

    struct sparse_matrix:
        const void *values
        const int64_t *starts
        const void *columns
        int64_t n_rows
        int64_t n_columns
        int64_t n_entries
        real_type type
        index_type index
        strip_store *store

    enum sparse_fault:
        SPARSE_SOUND
        SPARSE_NOT_CANONICAL
        SPARSE_OUT_OF_RANGE

    sparse_fault sparse_check(const sparse_matrix *, int64_t *row)
    void expand_sparse(const void *matrix, const int64_t *places, int64_t first, int64_t count,
                       void *x_out)


cdef extern from "dense/row_blocks.h" nogil:
    struct columns_matrix
    struct tabular_matrix

    ctypedef void expand_rows_fn(const void *matrix, const int64_t *places, int64_t first,
                                 int64_t count, void *x_out)

    struct row_source:
        const void *matrix
        expand_rows_fn *expand
        const tabular_matrix *table
        const sparse_matrix *sparse
        const columns_matrix *columns
        row_norms_fn *find_norms


cdef extern from "tabular/nonzero_columns.h" nogil:
    struct live_columns:
        int64_t bytes


cdef extern from "tabular/tabular_matrix.h" nogil:
    enum numeric_type:
        NUMERIC_F32
        NUMERIC_F64
        NUMERIC_U8
        NUMERIC_U16

    struct tabular_matrix:
        const void *numeric
        const void *codes
        numeric_type numeric_type
        int code_bytes
        int number_bytes
        double step
        int64_t n_numeric
        int64_t n_categorical
        int64_t n_columns
        const int64_t *numeric_columns
        const int64_t *first_columns
        const int64_t *sizes
        # what plan_tabular() makes is C's own


    const live_columns *live_columns_of(const tabular_matrix *)
    int plan_tabular(tabular_matrix *)
    void free_tabular_plan(tabular_matrix *)
    expand_rows_fn expand_tabular


cdef extern from "dense/columns_matrix.h" nogil:
    struct columns_matrix:
        const void *const *columns
        int64_t n_columns


cdef extern from "sgd/sgd_steps.h" nogil:
    struct sgd_settings:
        loss loss
        double clip_in
        double grid
        double divisor
        double l2
        int64_t n_penalized
        double radius

    struct sgd_block:
        int64_t n_steps
        const int64_t *order
        const int64_t *batch_ends
        const double *step_sizes
        const int64_t *noise_integers
        const double *noise
        double *carried
        int begun
        int64_t n_open


cdef extern from "passes/row_ranges.h" nogil:
    int one_sgd_block(const kernel_table *, real_type, const dense_rows *, const sgd_settings *,
                      const sgd_block *, double *w, double *w_sum)
    int has_threads()
    int most_threads()
    void end_threads()
    int all_row_norms(const kernel_table *, real_type, const dense_rows *, int n_threads,
                      double *norms_out)
    int all_clipped_gradient_sum(const kernel_table *, real_type, const dense_rows *, int n_threads,
                                 loss, const double *w, double clip_in, double grid,
                                 int64_t *sum_out)
    int all_clipped_gradient_sums(const kernel_table *, real_type, const dense_rows *, int n_threads,
                                  loss, const models *, int64_t *sum_out)
    int all_gradient_sum(const kernel_table *, real_type, const dense_rows *, int n_threads,
                         loss, const double *w, int precise, double *sum_out, double *loss_out)
    int all_clipped_loss_sums(const kernel_table *, real_type, const dense_rows *, int n_threads,
                              loss, const double *w, const double *direction,
                              const double *steps, int64_t n_steps, double clip, double grid,
                              int64_t *sum_out)
    int all_coordinate_loss_sums(const kernel_table *, real_type, const dense_rows *,
                                 int n_threads, loss, const double *w, double stride, double clip,
                                 double grid, int64_t *sum_out)
    int all_predictions(const kernel_table *, real_type, const dense_rows *, int n_threads,
                        const double *w, double *p_out)
    int all_gram_sum(const kernel_table *, real_type, const dense_rows *, int n_threads,
                     const integer_rows *, int64_t *sum_out)
    int all_moment_sums(const kernel_table *, real_type, const dense_rows *, int n_threads,
                       const integer_rows *, double clip, int64_t *sum_out)
    int all_norms_through(const kernel_table *, real_type, const dense_rows *, int n_threads,
                          const integer_rows *, const double *matrix, int64_t n_out,
                          double *norms_out)
    int all_entry_sum(const kernel_table *, real_type, const dense_rows *, int n_threads,
                      double *sum_out)
    int all_clipped_softmax_gradient_sum(const kernel_table *, real_type, const dense_rows *,
                                         int n_threads, int64_t n_classes, const double *w,
                                         double clip_in, double grid, int64_t *sum_out)
    int all_softmax_gradient_sum(const kernel_table *, real_type, const dense_rows *, int n_threads,
                                 int64_t n_classes, const double *w, double *sum_out,
                                 double *loss_out)
    int all_clipped_softmax_loss_sums(const kernel_table *, real_type, const dense_rows *,
                                      int n_threads, int64_t n_classes, const double *w,
                                      const double *direction, const double *steps,
                                      int64_t n_steps, double clip, double grid,
                                      int64_t *sum_out)
    int all_class_scores(const kernel_table *, real_type, const dense_rows *, int n_threads,
                         int64_t n_classes, const double *w, double *p_out)


cdef extern from "smoothing/circulant_solve.h" nogil:
    int circulant_solve(const kernel_table *, int n_threads, double sigma, const double *v,
                        int64_t n_vectors, int64_t d, double *u)
