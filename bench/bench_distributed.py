"""Two worker processes of a Dask cluster against one process with two threads, on the same records.

    python bench/bench_distributed.py [--rows 3000000] [--rounds 15]

Gradient passes over float32 rows, half of them on each worker, ten in a row as in a fit. Both sides are timed
alternately, and the median of the rounds' ratios is shown. The records are in memory twice: 3 GB for the
default number of rows.
"""

from functools import partial
from itertools import pairwise

import dask.array
import numpy as np
from distributed import Client, LocalCluster

import dperm
from measuring import command_line, seconds, show, times_in_turn

COLUMNS, CLIP, PARTITIONS, PASSES = 120, 0.5, 4, 10


def rows(first: int, stop: int) -> np.ndarray:
    """Rows of norm about 1, the same wherever they are generated."""
    rng = np.random.default_rng(first)
    block = rng.standard_normal((stop - first, COLUMNS), dtype=np.float32)
    block /= np.float32(np.sqrt(COLUMNS))
    return block


def labels(block: np.ndarray) -> np.ndarray:
    """-1 and +1."""
    return np.where(block[:, 0] > 0, np.float32(1.0), np.float32(-1.0))


def objectives(n_rows: int) -> tuple[dperm.Objective, dperm.Objective]:
    """The same records in this process and on the workers."""
    cuts = np.linspace(0, n_rows, PARTITIONS + 1).astype(int).tolist()
    blocks = [
        dask.array.from_delayed(dask.delayed(rows)(first, stop), (stop - first, COLUMNS), np.float32)
        for first, stop in pairwise(cuts)
    ]
    X = dask.array.concatenate(blocks)
    y = X.map_blocks(labels, drop_axis=1, dtype=np.float32)
    there = dperm.Objective("logistic", X, y, fit_intercept=True)
    X_here = np.empty((n_rows, COLUMNS), dtype=np.float32)
    for first, stop in pairwise(cuts):
        X_here[first:stop] = rows(first, stop)
    return dperm.Objective("logistic", X_here, labels(X_here), fit_intercept=True, n_threads=2), there


def of_few_records() -> dperm.Objective:
    """A hundred records on the workers, to measure the overhead of a pass."""
    X = dask.array.from_array(rows(0, 100), chunks=(50, COLUMNS))
    return dperm.Objective("logistic", X, dask.array.ones(100, chunks=50), fit_intercept=True)


if __name__ == "__main__":
    arguments = command_line(__doc__, rows=3_000_000, rounds=15)
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**settings, memory_limit=0) as cluster, Client(cluster):
        sides = dict(
            zip(("one process with two threads", "two workers"), objectives(arguments.rows), strict=True)
        )
        w = np.random.default_rng(1).normal(size=COLUMNS + 1)
        assert np.array_equal(*[each.clipped_gradient_sum(w, CLIP)._integers for each in sides.values()])

        def passes(objective: dperm.Objective) -> None:
            for _ in range(PASSES):
                objective.clipped_gradient_sum(w, CLIP)

        times = times_in_turn({name: partial(passes, each) for name, each in sides.items()}, arguments.rounds)
        for name, each in times.items():
            show(f"pass of {name} (milliseconds)", 1e3 * np.median(each) / PASSES)
        here, there = times.values()
        show("one process / two workers", float(np.median(here / there)))
        few = of_few_records()
        calls = [seconds(lambda: few.clipped_gradient_sum(w, CLIP)) for _ in range(100)]
        show("pass of two workers over few records (milliseconds)", 1e3 * float(np.median(calls)))
