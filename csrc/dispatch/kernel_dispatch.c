/* The kernel tables in this build, and the choice among them. */
#include <stddef.h>
#include <string.h>

#include "dispatch/instruction_sets.h"
#include "kernel_table.h"

/* The table of one instruction set, from what its files export. */
#define DECLARE_KERNELS(level)                                                                     \
    extern const struct dense_kernels dense_kernels_f32_##level, dense_kernels_f64_##level;        \
    extern const struct route softmax_routes_f32_##level[], softmax_routes_f64_##level[];          \
    extern const struct route tabular_routes_##level[];                                            \
    extern const struct sgd_kernels sgd_kernels_f32_##level, sgd_kernels_f64_##level;              \
    extern const struct smoothing_kernels smoothing_kernels_##level;                               \
    extern const struct sparse_kernels sparse_kernels_f32_i32_##level,                             \
        sparse_kernels_f32_i64_##level, sparse_kernels_wide_i32_##level,                           \
        sparse_kernels_wide_i64_##level, sparse_kernels_f64_i32_##level,                           \
        sparse_kernels_f64_i64_##level;
#define TABLE_OF(level)                                                                            \
    {                                                                                              \
        .instruction_set = #level,                                                                 \
        .dense = {&dense_kernels_f32_##level, &dense_kernels_f64_##level},                         \
        .softmax = {softmax_routes_f32_##level, softmax_routes_f64_##level},                       \
        .tabular = tabular_routes_##level,                                                         \
        .sgd = {&sgd_kernels_f32_##level, &sgd_kernels_f64_##level},                               \
        .smoothing = &smoothing_kernels_##level,                                                   \
        .sparse = {{&sparse_kernels_f32_i32_##level, &sparse_kernels_f32_i64_##level},             \
                   {&sparse_kernels_f64_i32_##level, &sparse_kernels_f64_i64_##level}},            \
        .precise_sparse = {{&sparse_kernels_wide_i32_##level, &sparse_kernels_wide_i64_##level},   \
                           {&sparse_kernels_f64_i32_##level, &sparse_kernels_f64_i64_##level}},    \
    }

DECLARE_KERNELS(baseline)
static const struct kernel_table baseline = TABLE_OF(baseline);
#ifdef HAVE_X86_LEVELS
DECLARE_KERNELS(avx2)
static const struct kernel_table avx2 = TABLE_OF(avx2);
DECLARE_KERNELS(avx512)
static const struct kernel_table avx512 = TABLE_OF(avx512);
#endif

static const struct {
    const struct kernel_table *table;
    int (*runs_here)(void);
} LEVELS[] = {
    {&baseline, runs_anywhere},
#ifdef HAVE_X86_LEVELS
    {&avx2, runs_avx2},
    {&avx512, runs_avx512},
#endif
};

enum { N_LEVELS = sizeof LEVELS / sizeof LEVELS[0] };

const struct kernel_table *_Atomic kernels_in_use;

const char *kernels_available(int index) {
    for (int i = 0; i < N_LEVELS; i++)
        if (LEVELS[i].runs_here() && index-- == 0)
            return LEVELS[i].table->instruction_set;
    return NULL;
}

const struct kernel_table *kernels_choose(const char *name) {
    const struct kernel_table *chosen = NULL;
    for (int i = 0; i < N_LEVELS; i++)
        if (LEVELS[i].runs_here() &&
            (name == NULL || strcmp(name, LEVELS[i].table->instruction_set) == 0))
            chosen = LEVELS[i].table;
    return chosen;
}
