/* Other work for the threads of a pass over the data. */
#ifndef DPERM_SIDE_TASK_H
#define DPERM_SIDE_TASK_H

#include <stdint.h>

/* Run once, by one thread of the pass, while the others process rows. */
struct side_task {
    void (*run)(void *context);
    void *context;
};

/* Runs tasks without a pass, in up to n_threads threads. */
void run_tasks(const struct side_task *tasks, int64_t n_tasks, int n_threads);

#endif
