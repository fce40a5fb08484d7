/* The tables of bulk_table.h in this build, and the choice among them. */
#include <string.h>

#include "dispatch/bulk_table.h"
#include "dispatch/instruction_sets.h"

extern const struct bulk_table bulk_table_baseline;
#ifdef HAVE_X86_LEVELS
extern const struct bulk_table bulk_table_avx2;
extern const struct bulk_table bulk_table_avx512;
#endif

static const struct {
    const struct bulk_table *table;
    int (*runs_here)(void);
} LEVELS[] = {
    {&bulk_table_baseline, runs_anywhere},
#ifdef HAVE_X86_LEVELS
    {&bulk_table_avx2, runs_avx2},
    {&bulk_table_avx512, runs_avx512},
#endif
};

const struct bulk_table *_Atomic bulk_in_use;

const struct bulk_table *bulk_choose(const char *name) {
    const struct bulk_table *chosen = NULL;
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++)
        if (LEVELS[i].runs_here() &&
            (name == NULL || strcmp(name, LEVELS[i].table->instruction_set) == 0))
            chosen = LEVELS[i].table;
    return chosen;
}
