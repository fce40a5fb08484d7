"""Work in a forked process."""

import os


def in_child(work):
    """Run `work` in a forked process, whose exit code is 0 unless it raises; return the process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)
