"""Record the secret batches of a run."""

from contextlib import contextmanager

from dperm.mechanisms.batches import watch_batches


@contextmanager
def recorded_batches(n):
    """A list of index arrays of the batches drawn inside the with block, for a data set of n records."""
    indices = []

    def watch(rows):
        indices.append(rows._among(n, n))
        return rows

    with watch_batches(watch):
        yield indices
