/* See threads.h. */
#include "passes/threads.h"

int has_threads(void) {
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}

int max_threads(void) {
#ifdef _OPENMP
    const int limit = omp_get_thread_limit(), most = omp_get_max_threads();
    return most < limit ? most : limit;
#else
    return 1;
#endif
}

void end_threads(void) {
#ifdef HAVE_OMP_PAUSE
    omp_pause_resource_all(omp_pause_soft);
#endif
}
