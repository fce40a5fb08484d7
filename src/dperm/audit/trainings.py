"""Many seeded trainings on two data sets, on all cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: ``fit(data, seed) -> observation``: a number or an array of fixed size.
Fit = Callable[[Any, int], Any]
RandomState = int | np.random.Generator | np.random.SeedSequence | None

# Chunks per process: enough for load balancing and for a progress bar.
_CHUNKS_PER_PROCESS = 16


def observe(
    fit: Fit,
    neighbours: Sequence[Any],
    runs: int,
    *,
    n_jobs: int | None,
    progress: bool,
    random_state: RandomState,
) -> tuple[Array, Array]:
    """Train ``runs`` times on each of two data sets, each time with its own seed.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)``; with more than one process it and the data must be picklable (functions
        defined in a session are).
    neighbours : pair
        The two data sets.
    runs : int
        Trainings on each data set.
    n_jobs : int or None
        Number of processes as for joblib, with one thread each; None for all cores, 1 for this process.
    progress : bool
        Show a bar, if rich is installed.
    random_state : None, int, Generator or SeedSequence
        Source of the seeds.

    Returns
    -------
    two ndarrays, shape (runs, size of an observation)
    """
    seeds = np.random.default_rng(random_state).integers(0, 2**63, size=(2, runs))
    processes = joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs)
    size = max(1, math.ceil(runs / (_CHUNKS_PER_PROCESS * processes)))
    chunks = [seeds[:, start : start + size] for start in range(0, runs, size)]
    parallel = joblib.Parallel(n_jobs=processes, return_as="generator", batch_size=1)
    results = parallel(joblib.delayed(_train)(fit, neighbours, chunk) for chunk in chunks)
    with _bar(progress, len(chunks)) as shown:
        observations = np.concatenate(list(shown(results)), axis=1)
    return observations[0], observations[1]


def _train(fit: Fit, neighbours: Sequence[Any], seeds: NDArray[np.int64]) -> Array:
    """Observations, shape (2, runs, size)."""
    rows = [
        [np.ravel(fit(data, seed)) for seed in own.tolist()]
        for data, own in zip(neighbours, seeds, strict=True)
    ]
    return np.asarray(rows, dtype=np.float64)


@contextmanager
def _bar(progress: bool, total: int) -> Iterator[Callable[[Iterable[Any]], Iterable[Any]]]:
    """A function that passes an iterable through, with a progress bar on request."""
    if not progress:
        yield lambda items: items
        return
    try:
        from rich.progress import Progress
    except ImportError:
        yield lambda items: items
        return
    with Progress(transient=True) as bar:
        yield lambda items: bar.track(items, total=total, description="Training")
