"""Concurrent calls from several threads."""

import threading


def in_threads(work, number):
    """Call ``work(i)`` for i below `number`, each in its own thread, all starting at the same time."""
    start = threading.Barrier(number)

    def begin(i):
        start.wait()
        work(i)

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
