"""Open the secret batches of a run on made-up data."""

from contextlib import contextmanager

from dperm.mechanisms.batches import watch_batches


@contextmanager
def recorded_batches(n):
    """A list of the index arrays of the batches drawn inside the block, for a data set of n records."""
    indices = []

    def open_it(rows):
        indices.append(rows._among(n, n))
        return rows

    with watch_batches(open_it):
        yield indices
