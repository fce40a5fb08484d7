/* Work that a pass over the data does on the side. */
#ifndef DPERM_ERRANDS_H
#define DPERM_ERRANDS_H

/* Done once, from beginning to end, by whichever thread of the pass comes first, while the others
 * are at the rows. */
struct errand {
    void (*run)(void *context);
    void *context;
};

#endif
