/* Distinguishes a process from its forked children. */
#ifndef DPERM_PROCESS_MARK_H
#define DPERM_PROCESS_MARK_H

#include <stdint.h>

/* Starts counting forks in this process and its descendants. Call once, before process_mark(). */
void process_mark_prepare(void);

/* A number that is constant within a process and differs from that of every descendant. Combines
 * the number of forks, because process ids are reused (every container has a process 1), with the
 * process id, for forks that bypass the C library. */
uint64_t process_mark(void);

#endif
