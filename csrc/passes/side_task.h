/* Work that a pass over the data does on the side. */
#ifndef DPERM_SIDE_TASK_H
#define DPERM_SIDE_TASK_H

/* Done once, from beginning to end, by whichever thread of the pass comes first, while the others
 * are at the rows. */
struct side_task {
    void (*run)(void *context);
    void *context;
};

#endif
