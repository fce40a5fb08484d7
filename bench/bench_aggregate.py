"""Cost and benefit of merging identical records, on KDDCup99 (10 %): ratios in one run.

    python bench/bench_aggregate.py [--rounds 9] [--dtype float64]

DPERM_DATA must name the folder of the data sets, or they are downloaded.
"""

import numpy as np
import pandas as pd

import dperm
from dperm.data import aggregate
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from measuring import command_line, show_ratios
from problems import CLIP, numpy_passes, passes


def merging(X: np.ndarray, y: np.ndarray, full: dperm.Objective, w: np.ndarray, rounds: int) -> None:
    """Merging compared with a pass over the records, and with numpy and pandas."""
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
    gradient, _ = passes(full, w, w)
    show_ratios({"merging, in gradient passes over all records": (merge, gradient)}, rounds)
    others = {
        "np.unique(axis=0, return_counts=True) / merging": (unique, merge),
        "pandas groupby(all columns).size() / merging": (group, merge),
    }
    show_ratios(others, 2)


def compare(full: dperm.Objective, merged: dperm.Objective, w: np.ndarray, rounds: int) -> None:
    """Times of passes over all records, relative to passes over distinct rows with counts."""
    batches = [SecretBatches("poisson", random_bits(1), 40_000, each.n_public) for each in (full, merged)]

    def sampled(objective: dperm.Objective, batches: SecretBatches) -> object:
        return objective.clipped_gradient_sum(w, CLIP, rows=next(batches))

    gradients, lines = zip(*(passes(each, w, w) for each in (full, merged)), strict=True)
    show_ratios(
        {
            "gradient pass, unmerged / merged": gradients,
            "line search of 20 steps, unmerged / merged": lines,
        },
        rounds,
    )
    show_ratios({"Gram sum, unmerged / merged": (full.gram_sum, merged.gram_sum)}, 3)
    sides = [lambda pair=pair: sampled(*pair) for pair in zip((full, merged), batches, strict=True)]
    show_ratios({"gradient of a Poisson sample of 40,000, unmerged / merged": sides}, rounds)


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=9, dtype=("float64", "float32"))
    data = dperm.datasets.load("kddcup99", dense=True)
    X, y = data.X.astype(arguments.dtype), data.y.astype(arguments.dtype)
    settings = {"row_norm": data.row_norm, "n_public": len(X)}
    full = dperm.Objective("logistic", X, y, **settings)
    full._rows.compact = None  # every pass must read all records
    rows, targets, counts = aggregate(X, y)
    merged = dperm.Objective("logistic", rows, targets, counts=counts, **settings)
    w = np.random.default_rng(0).normal(size=X.shape[1]) / 10.0
    compare(full, merged, w, arguments.rounds)
    best, _, _ = numpy_passes(data.X, data.y, w, w)
    sides = best, passes(merged, w, w)[0]
    show_ratios({"best numpy (float64, all records) / gradient pass, merged": sides}, arguments.rounds)
    merging(X, y, full, w, arguments.rounds)
