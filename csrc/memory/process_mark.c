#include "memory/process_mark.h"

#ifdef _WIN32

/* There is no fork. */
void process_mark_prepare(void) {}

uint64_t process_mark(void) {
    return 1;
}

#else

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic uint32_t forks;

static void count_fork(void) {
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

void process_mark_prepare(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

uint64_t process_mark(void) {
    return (uint64_t)atomic_load_explicit(&forks, memory_order_relaxed) << 32 | (uint32_t)getpid();
}

#endif
