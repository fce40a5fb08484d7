"""What merging identical records costs and gains, on KDDCup99 (10 %): ratios in one run.

    python bench/bench_aggregate.py [--rounds 9] [--dtype float64]

Both sides of a ratio are timed alternately and the median of the rounds' ratios is shown, as in
ratios.py. DPERM_DATA must name the folder of the data sets, or they are downloaded.
"""

import argparse

import numpy as np
import pandas as pd

import dperm
from dperm.data import aggregate
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from ratios import CLIP, STEPS, ratio, show
from reference import numpy_algorithms as twin

LOSS_CLIP = 4.0


def merging(X: np.ndarray, y: np.ndarray, full: dperm.Objective, w: np.ndarray, rounds: int) -> None:
    """Merging next to a pass over the records, and to what numpy and pandas offer."""
    both = np.column_stack([X, y])

    def merge() -> object:
        return aggregate(X, y)

    def unique() -> object:
        return np.unique(both, axis=0, return_counts=True)

    def group() -> object:
        frame = pd.DataFrame(both)
        return frame.groupby(list(frame.columns), sort=False).size()

    distinct = len(aggregate(X, y)[0])
    print(f"{len(X)} records, {distinct} distinct; pandas finds {len(group())}, numpy {len(unique()[0])}")
    show("merging, in gradient passes over all records", ratio(merge, lambda: gradient(full, w), rounds))
    show("np.unique(axis=0, return_counts=True) / merging", ratio(unique, merge, 2))
    show("pandas groupby(all columns).size() / merging", ratio(group, merge, 2))


def gradient(objective: dperm.Objective, w: np.ndarray) -> object:
    """One clipped gradient pass."""
    return objective.clipped_gradient_sum(w, CLIP)


def line_search(objective: dperm.Objective, w: np.ndarray) -> object:
    """Clipped losses at 20 points of a line."""
    return objective.clipped_loss_sums(w, w, STEPS, LOSS_CLIP)


def passes(full: dperm.Objective, merged: dperm.Objective, w: np.ndarray, rounds: int) -> None:
    """Aggregated dense: passes over all records, over the passes over rows with counts."""
    batches = [SecretBatches("poisson", random_bits(1), 40_000, each.n_public) for each in (full, merged)]

    def sampled(objective: dperm.Objective, which: int) -> object:
        return objective.clipped_gradient_sum(w, CLIP, rows=next(batches[which]))

    show(
        "gradient pass, unmerged / merged",
        ratio(lambda: gradient(full, w), lambda: gradient(merged, w), rounds),
    )
    show(
        "line search of 20 steps, unmerged / merged",
        ratio(lambda: line_search(full, w), lambda: line_search(merged, w), rounds),
    )
    show("Gram sum, unmerged / merged", ratio(full.gram_sum, merged.gram_sum, 3))
    show(
        "gradient of a Poisson sample of 40,000, unmerged / merged",
        ratio(lambda: sampled(full, 0), lambda: sampled(merged, 1), rounds),
    )


def against_numpy(data: dperm.datasets.Dataset, merged: dperm.Objective, w: np.ndarray, rounds: int) -> None:
    """The best numpy on all records in float64, over the pass over rows with counts."""
    X, y = data.X.astype(np.float64), data.y.astype(np.float64)
    norms = np.linalg.norm(X, axis=1)

    def best_numpy() -> object:
        return twin.clipped_logistic_gradient(X, y, norms, w, CLIP)

    show(
        "best numpy (float64, all records) / gradient pass, merged",
        ratio(best_numpy, lambda: gradient(merged, w), rounds),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    arguments = parser.parse_args()
    print(dperm.build_info())
    data = dperm.datasets.load("kddcup99")
    X, y = data.X.astype(arguments.dtype), data.y.astype(arguments.dtype)
    settings = {"row_norm": data.row_norm, "n_public": len(X)}
    full = dperm.Objective("logistic", X, y, **settings)
    rows, targets, counts = aggregate(X, y)
    merged = dperm.Objective("logistic", rows, targets, counts=counts, **settings)
    w = np.random.default_rng(0).normal(size=X.shape[1]) / 10.0
    passes(full, merged, w, arguments.rounds)
    against_numpy(data, merged, w, arguments.rounds)
    merging(X, y, full, w, arguments.rounds)


if __name__ == "__main__":
    main()
