"""How many threads a pass over the data uses."""

import os

from dperm._kernels.row_kernels import threads_compiled_in

# Below this many matrix entries a pass takes less time than waking a second thread.
_SERIAL_ENTRIES = 1 << 16

_forked = False


def _after_fork() -> None:
    # GNU OpenMP does not survive fork: a child that asks for threads hangs.
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def machine_threads() -> int:
    """Threads that this process may use: its CPU affinity, limited by OMP_NUM_THREADS."""
    has_affinity = hasattr(os, "sched_getaffinity")
    available = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return max(1, min(available, int(limit)) if limit.isdigit() else available)


def check_n_threads(n_threads: int | None) -> None:
    """Raise ValueError unless ``n_threads`` is None, positive, or -1 for all."""
    valid = n_threads is None or (
        isinstance(n_threads, int) and not isinstance(n_threads, bool) and (n_threads >= 1 or n_threads == -1)
    )
    if not valid:
        raise ValueError(f"n_threads must be None, -1 (all) or a positive integer, got {n_threads!r}")


def threads_for(n_threads: int | None, n_entries: int) -> int:
    """Threads for a pass over ``n_entries`` matrix entries; the result never depends on it."""
    if not threads_compiled_in() or _forked or n_entries < _SERIAL_ENTRIES:
        return 1
    return machine_threads() if n_threads is None or n_threads == -1 else n_threads
