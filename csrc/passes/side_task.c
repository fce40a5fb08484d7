/* See side_task.h. */
#include "passes/side_task.h"

void run_tasks(const struct side_task *tasks, int64_t n_tasks, int n_threads) {
    (void)n_threads; /* in a build without threads */
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
    for (int64_t k = 0; k < n_tasks; k++)
        tasks[k].run(tasks[k].context);
}
