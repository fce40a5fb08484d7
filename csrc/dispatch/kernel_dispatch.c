/* The kernel tables in this build, and the choice among them. */
#include <stddef.h>
#include <string.h>

#include "dispatch/instruction_sets.h"
#include "kernel_table.h"

extern const struct kernel_table kernel_table_baseline;

#ifdef HAVE_X86_LEVELS
extern const struct kernel_table kernel_table_avx2;
extern const struct kernel_table kernel_table_avx512;
#endif

static const struct {
    const struct kernel_table *table;
    int (*runs_here)(void);
} LEVELS[] = {
    {&kernel_table_baseline, runs_anywhere},
#ifdef HAVE_X86_LEVELS
    {&kernel_table_avx2, runs_avx2},
    {&kernel_table_avx512, runs_avx512},
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
