/* Which process this is, told apart from its forked children. */
#ifndef DPERM_PROCESS_MARK_H
#define DPERM_PROCESS_MARK_H

#include <stdint.h>

/* Counts forks of this process and of its ancestors from now on. Call once, before process_mark().
 */
void process_mark_prepare(void);

/* A number that stays the same within a process, and that no process forked from it has, nor one
 * forked from that: forks are counted, because numbers of processes come again (every container has
 * a process 1). The number of the process is in it, too, for forks that went round the C library.
 */
uint64_t process_mark(void);

#endif
