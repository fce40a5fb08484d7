/* Other work for the threads of a pass over the data. */
#ifndef DPERM_SIDE_TASK_H
#define DPERM_SIDE_TASK_H

/* Run once, by one thread of the pass, while the others process rows. */
struct side_task {
    void (*run)(void *context);
    void *context;
};

#endif
