"""Local clusters of processes, and faults injected into their workers."""

import os
import signal
import time
from contextlib import contextmanager

import dask
import dask.array
import numpy as np

from dperm.errors import DataError


@contextmanager
def cluster_of_processes(n_workers=2, default=True):
    """A client of single-threaded workers; `default` makes it the current client."""
    from distributed import Client, LocalCluster

    settings = {"n_workers": n_workers, "threads_per_worker": 1, "processes": True}
    options = {
        # Otherwise a worker that is dead again 15 seconds after it died is given up.
        "distributed.deploy.lost-worker-timeout": "1 hour",
        # A restarted worker has Dask imported already.
        "distributed.worker.multiprocessing-method": "forkserver",
    }
    with (
        dask.config.set(options),
        LocalCluster(**settings, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster, set_as_default=default) as client,
    ):
        yield client


def partitioned(X, y, lengths):
    """Dask arrays of the records in partitions of the given lengths."""
    assert sum(lengths) == len(X)
    chunks = tuple(lengths)
    return (
        dask.array.from_array(X, chunks=(chunks, X.shape[1])),
        dask.array.from_array(y, chunks=(chunks,)),
    )


def holders_of(objective):
    """Workers that hold partitions of an objective."""
    from distributed import default_client, wait

    partitions = objective._rows._partitions
    wait(partitions)
    return sorted({worker for each in default_client().who_has(partitions).values() for worker in each})


def set_trap(passes, how):
    """Make the worker die in one of its next passes; runs on the worker, see `trap`."""
    from dperm.data.dask_rows import Partition

    make_pass, left = Partition.run, [passes]

    def run(self, pass_, n_threads, needed):
        if left[0] == 0:
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(1)
        left[0] -= 1
        return make_pass(self, pass_, n_threads, needed)

    Partition.run = run


def trap(client, worker, passes=0, how="kill"):
    """Make a worker die in a pass over a partition, after `passes` complete ones."""
    client.run(set_trap, passes, how, workers=[worker])


def kill_all(client):
    """Kill all workers at once, and wait until the scheduler knows."""
    killed = process_ids(client)
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not killed.keys().isdisjoint(client.scheduler_info(n_workers=-1).get("workers", {})):
        assert time.monotonic() < deadline, "the scheduler has not noticed"
        time.sleep(0.02)


class StrangeBlock:
    """An object with a shape that is not a matrix."""

    def __init__(self, block):
        self.shape = block.shape


def dying_once(marker, value):
    """A task that returns the value, except that its first call kills the worker."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return value
    os.kill(os.getpid(), signal.SIGKILL)


def process_ids(client):
    """Process ids of the workers."""
    return client.run(os.getpid)


def nanny_status(dask_worker):
    """Name of the status of a nanny; runs on nannies."""
    return dask_worker.status.name


def wait_for_workers(client, n_workers=2):
    """Wait until killed workers are replaced and their nannies are running again."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        client.wait_for_workers(n_workers, timeout=60)
        states = client.run(nanny_status, nanny=True, on_error="ignore")
        if list(states.values()) == ["running"] * n_workers:
            return
        time.sleep(0.02)
    raise TimeoutError("the cluster has lost workers for good")


def encoded(frame):
    """An encoder for workers: numbers for the letters a and b, DataError for other letters."""
    wrong = np.flatnonzero(~frame["letter"].isin(["a", "b"]))
    if wrong.size:
        raise DataError(f"letter {frame['letter'].iloc[wrong[0]]!r} at row {wrong[0]}")
    return np.column_stack([frame["letter"] == "a", frame["number"]]).astype(np.float32)


def random_records(n, d, dtype=np.float64, seed=0):
    """Rows, some of norm above 1, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype) / 2.0
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X.astype(dtype), y
