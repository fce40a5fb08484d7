/* See sgd_steps.h. */
#include "dense/row_blocks.h"
#include "memory/aligned_memory.h"
#include "sgd/sgd_steps.h"
#include "sparse/sparse_passes.h"

int run_sgd_block(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, const struct sgd_settings *settings,
                  const struct sgd_block *block) {
    if (rows->source && rows->source->representation == SPARSE_ROWS)
        return sparse_sgd_block(kernels, type, rows, settings, block);
    const int64_t bytes = round_up(kernels->sgd[type]->workspace_bytes(rows), ALIGNMENT);
    char *workspace = aligned_memory(bytes + round_up(block_scratch_bytes(type, rows), ALIGNMENT));
    if (!workspace)
        return -1;
    if (rows->source)
        sgd_steps_by_blocks(kernels, type, rows, settings, block, workspace, workspace + bytes);
    else
        kernels->sgd[type]->steps(rows, settings, block, workspace);
    free_aligned(workspace);
    return 0;
}
