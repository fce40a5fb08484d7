"""Work that several threads do at once."""

import threading


def in_threads(work, number):
    """Call ``work(i)`` for i below `number`, each in a thread of its own that starts with the others."""
    start = threading.Barrier(number)

    def begin(i):
        start.wait()
        work(i)

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
