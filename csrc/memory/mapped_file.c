/* See mapped_file.h. */
#ifndef _WIN32
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif

#include <errno.h>

#include "memory/mapped_file.h"

#ifdef _WIN32 /* which does not let a mapped file shrink */

int map_file(int descriptor, int64_t offset, int64_t length, struct mapped_file *file_out) {
    (void)descriptor, (void)offset, (void)length, (void)file_out;
    return ENOTSUP;
}

int mapped_file_lost(const struct mapped_file *file) {
    (void)file;
    return 0;
}

void unmap_file(const struct mapped_file *file) {
    (void)file;
}

#else

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_MAPPINGS = 1024 };

/* Read by the handler: no locks, and never freed. */
struct mapping {
    _Atomic uintptr_t begin, end; /* whole pages; both 0 if the place is free */
    atomic_int taken, lost;
};
static struct mapping mappings[MAX_MAPPINGS];
static _Atomic uintptr_t page_size;
static atomic_int handler_state; /* 0, 1 while it is being installed, 2 */
static struct sigaction previous;

static void pass_on(int signal, siginfo_t *info, void *context) {
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(signal, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(signal);
    else
        sigaction(signal, &previous,
                  NULL); /* the instruction runs again and fails as without this handler */
}

/* POSIX does not list mmap as async-signal-safe, but it is a plain system call wherever this
 * compiles. */
static void on_bus_error(int signal, siginfo_t *info, void *context) {
    const int before = errno;
    const uintptr_t address = (uintptr_t)info->si_addr;
    for (int place = 0; place < MAX_MAPPINGS; place++) {
        struct mapping *mapping = mappings + place;
        const uintptr_t begin = atomic_load(&mapping->begin), end = atomic_load(&mapping->end);
        if (address < begin || address >= end)
            continue;
        const uintptr_t page = address - address % atomic_load(&page_size);
        atomic_store(&mapping->lost, 1);
        if (mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) != MAP_FAILED) {
            errno = before;
            return;
        }
    }
    errno = before;
    pass_on(signal, info, context);
}

/* Runs once per process. */
static int install_handler(void) {
    int expected = 0;
    if (!atomic_compare_exchange_strong(&handler_state, &expected, 1)) {
        while (atomic_load(&handler_state) == 1)
            ;
        return atomic_load(&handler_state) == 2 ? 0 : EAGAIN;
    }
    atomic_store(&page_size, (uintptr_t)sysconf(_SC_PAGESIZE));
    struct sigaction action = {0};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    const int status = sigaction(SIGBUS, &action, &previous) == 0 ? 0 : errno;
    atomic_store(&handler_state, status == 0 ? 2 : 0);
    return status;
}

static int free_place(void) {
    for (int place = 0; place < MAX_MAPPINGS; place++) {
        int expected = 0;
        if (atomic_compare_exchange_strong(&mappings[place].taken, &expected, 1))
            return place;
    }
    return -1;
}

int map_file(int descriptor, int64_t offset, int64_t length, struct mapped_file *file_out) {
    const int status = install_handler();
    if (status != 0)
        return status;
    const int place = free_place();
    if (place < 0)
        return EAGAIN;
    struct mapping *mapping = mappings + place;
    const uintptr_t page = atomic_load(&page_size);
    const uintptr_t before = (uintptr_t)offset % page, size = before + (uintptr_t)length;
    char *start = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, offset - (int64_t)before);
    if (start == MAP_FAILED) {
        const int error = errno;
        atomic_store(&mapping->taken, 0);
        return error;
    }
    atomic_store(&mapping->lost, 0);
    atomic_store(&mapping->end, (uintptr_t)start + (size + page - 1) / page * page);
    atomic_store(&mapping->begin, (uintptr_t)start);
    file_out->start = start + before;
    file_out->place = place;
    return 0;
}

int mapped_file_lost(const struct mapped_file *file) {
    return atomic_load(&mappings[file->place].lost);
}

void unmap_file(const struct mapped_file *file) {
    struct mapping *mapping = mappings + file->place;
    const uintptr_t begin = atomic_load(&mapping->begin), end = atomic_load(&mapping->end);
    atomic_store(&mapping->end, 0);
    atomic_store(&mapping->begin, 0);
    munmap((void *)begin, end - begin);
    atomic_store(&mapping->taken, 0);
}

#endif
