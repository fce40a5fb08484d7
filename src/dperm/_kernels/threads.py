"""The number of threads for a pass over the data."""

import functools
import os

from dperm._kernels.row_kernels import openmp_threads, threads_compiled_in
from dperm._kernels.samplers import process_mark

# A pass over fewer matrix entries takes less time than waking up a second thread.
_SERIAL_ENTRIES = 1 << 16

_first_process = process_mark()


def forked() -> bool:
    """Whether this process was forked after dperm was imported.

    GNU OpenMP does not survive a fork: a child that uses threads hangs if its parent has used them, which any
    library in the process may have done. So passes in a forked child run in one thread.
    """
    return process_mark() != _first_process


@functools.cache
def _cores() -> int:
    """Cores of the machine, or the number that the container's CPU quota (cgroup) amounts to."""
    from joblib import cpu_count

    return int(cpu_count())


def machine_threads() -> int:
    """Number of threads for a large pass in this process.

    The minimum of: cores, CPU affinity, CPU quota of the container, and the limit set by OMP_NUM_THREADS,
    OMP_THREAD_LIMIT or threadpoolctl; 1 in a forked child, and without OpenMP.
    """
    if forked() or not threads_compiled_in():
        return 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cores()
    return max(1, min(_cores(), affinity, openmp_threads()))


def check_n_threads(n_threads: int | None) -> None:
    """Raise ValueError unless ``n_threads`` is None, positive, or -1 for all."""
    valid = n_threads is None or (
        isinstance(n_threads, int) and not isinstance(n_threads, bool) and (n_threads >= 1 or n_threads == -1)
    )
    if not valid:
        raise ValueError(f"n_threads must be None, -1 (all) or a positive integer, got {n_threads!r}")


def threads_for(n_threads: int | None, n_entries: int) -> int:
    """Number of threads for a pass over ``n_entries`` matrix entries; results never depend on it.

    None and -1 mean :func:`machine_threads`.
    """
    if n_entries < _SERIAL_ENTRIES or forked() or not threads_compiled_in():
        return 1
    return machine_threads() if n_threads is None or n_threads == -1 else n_threads
