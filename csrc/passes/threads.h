/* OpenMP threads, if the build has them. */
#ifndef DPERM_THREADS_H
#define DPERM_THREADS_H

#ifdef _OPENMP
#include <omp.h>
#endif

/* 1 when this build has threads. */
int has_threads(void);

/* The default number of OpenMP threads; 1 without OpenMP. */
int max_threads(void);

/* Ends the threads of the last pass, which would otherwise spin and occupy cores that readers of
 * data need. The next pass starts new threads. Does nothing if OpenMP cannot. */
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
