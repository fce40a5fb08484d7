# The C headers that row_kernels.pyx includes, declared to Cython.
from libc.stdint cimport int32_t, int64_t

from dperm._kernels.samplers cimport side_task


cdef extern from "kernel_table.h" nogil:
    enum real_type:
        REAL_F32
        REAL_F64

    enum loss_kind:
        N_LOSS_KINDS

    const char *loss_name(loss_kind kind)

    struct loss:
        loss_kind kind
        double parameter
        double curvature

    enum:
        REPRESENTATION_COLUMNS "COLUMN_ROWS"
        REPRESENTATION_TABLE "TABULAR_ROWS"
        REPRESENTATION_SPARSE "SPARSE_ROWS"

    enum representation:
        pass

    enum pass_kind:
        PASS_row_norms
        PASS_entry_sum
        PASS_predictions
        PASS_clipped_gradient_sum
        PASS_gradient_sum
        PASS_clipped_loss_sums
        PASS_coordinate_loss_sums
        PASS_gram_sum
        PASS_moment_sums
        PASS_norms_scaled
        PASS_norms_through
        PASS_norm_counts
        PASS_magnitude_counts
        PASS_image_sum
        PASS_image_gram
        PASS_image_table
        PASS_residual_sums

    struct kernel_pass "pass":
        pass_kind kind
        loss loss
        int64_t n_classes
        const double *w
        double inner_clip
        double grid
        const double *direction
        const double *steps
        int64_t n_steps
        double clip
        double stride
        double intercept_stride
        double target_factor
        double target_centre
        double target_limit
        int upper
        const double *matrix
        int64_t n_out
        const double *column_scales
        const double *column_shifts
        int64_t n_bins
        int64_t image_factor
        int64_t n_images
        double image_unit
        double image_bound
        double largest_square
        double largest_curvature
        int with_loss
        int precise

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
        const int64_t *multiplicity
        const double *weights
        const double *clip_norms
        double *predictions
        const row_source *source
        const side_task *side_tasks
        int n_side_tasks

    ctypedef void pass_fn(const dense_rows *rows, int64_t begin, int64_t end,
                          const kernel_pass *pass_, void *out, void *workspace)

    ctypedef void expand_columns_fn(const void *matrix, const int64_t *places, int64_t first,
                                    int64_t count, void *x_out)

    struct route:
        pass_fn *kernel

    struct dense_kernels:
        route rows[1]
        expand_columns_fn *expand_columns

    struct kernel_table:
        const char *instruction_set
        const dense_kernels *dense[2]

    const char *kernels_available(int index)
    const kernel_table *kernels_choose(const char *name)
    const kernel_table *chosen "kernels_in_use"


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
        representation representation
        pass_fn *find_norms


cdef extern from "tabular/nonzero_columns.h" nogil:
    struct nonzero_columns:
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
        const int64_t *widths
        const float *const *maps
        # fields that plan_tabular() sets are private to C

    const nonzero_columns *nonzero_columns_of(const tabular_matrix *)
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
        double inner_clip
        double grid
        double divisor
        double l2
        int64_t n_penalized
        double radius

    struct sgd_block:
        double *w
        double *w_sum
        int64_t n_steps
        const int64_t *order
        const int64_t *batch_ends
        const double *step_sizes
        const int64_t *noise_integers
        const double *noise
        double *carried
        int begun
        int64_t n_open

    int run_sgd_block(const kernel_table *, real_type, const dense_rows *, const sgd_settings *,
                      const sgd_block *)


cdef extern from "passes/threads.h" nogil:
    int has_threads()
    int max_threads()
    void end_threads()


cdef extern from "passes/run_pass.h" nogil:
    enum combine:
        ADD_INTEGERS

    struct result:
        combine combine
        int n_axes
        int64_t shape[2]
        int with_loss

    result result_of_pass(const dense_rows *, const kernel_pass *)
    int64_t result_size(const result *)

    int run_pass(const kernel_table *, real_type, const dense_rows *, const kernel_pass *,
                 int n_threads, void *out)


cdef extern from "smoothing/circulant_solve.h" nogil:
    int circulant_solve(const kernel_table *, int n_threads, double sigma, const double *v,
                        int64_t n_vectors, int64_t d, double *u)
