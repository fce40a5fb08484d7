/* Threads of OpenMP, if the build has them. */
#ifndef DPERM_THREADS_H
#define DPERM_THREADS_H

#ifdef _OPENMP
#include <omp.h>
#endif

/* 1 when this build has threads. */
int has_threads(void);

/* How many the OpenMP library would take if it was not told; 1 without it. */
int max_threads(void);

/* Ends the threads of the last pass, which would spin for the next one: what is read meanwhile
 * needs their cores. The next pass starts threads of its own. Does nothing where OpenMP cannot. */
void end_threads(void);

/* The number of the calling thread in its team. */
static inline int this_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

#endif
