"""KDDCup99 (10 %) as a table: dperm against numpy on the dense one-hot matrix, ratios in one run.

    python bench/bench_kdd.py [--rounds 9]

Both sides of a ratio are timed alternately and the median of the rounds' ratios is shown, as in
ratios.py. DPERM_DATA must name the folder of the data sets, or they are downloaded. Leave OMP_WAIT_POLICY
unset: with "passive" some virtual machines wake both threads of a pass on one processor.
"""

import argparse

import numpy as np

import dperm
from dperm.accounting.zcdp import zcdp_rho
from dperm.algorithms import dp_agd
from dperm.algorithms.dp_agd import dp_agd_schedule
from dperm.data import TabularLayout, TabularMatrix, aggregate
from ratios import CLIP, STEPS, median_ratio, ratio, seconds, show
from reference import numpy_algorithms as twin

LOSS_CLIP = 4.0


def in_bytes(table: TabularMatrix) -> TabularMatrix:
    """The table with its numbers rounded to multiples of 1/255."""
    layout = TabularLayout(
        table.layout.numeric_columns, table.layout.first_columns, table.layout.sizes, 1.0 / 255
    )
    return TabularMatrix(np.rint(table.numeric * 255.0).astype(np.uint8), table.codes, layout)


def passes(name: str, table: TabularMatrix, y, row_norm: float, w, rounds: int) -> None:
    """Gradient pass and line search on the table, and on its distinct records, against numpy."""
    dense = table.to_dense()
    norms = np.linalg.norm(dense, axis=1)
    full = dperm.Objective("logistic", table, y, row_norm=row_norm)
    rows, targets, counts = aggregate(table, y)
    merged = dperm.Objective("logistic", rows, targets, row_norm=row_norm, counts=counts)

    def numpy_best() -> object:
        return twin.clipped_logistic_gradient(dense, y, norms, w, CLIP)

    def numpy_materialised() -> object:
        return twin.clipped_logistic_gradient_materialised(dense, y, w, CLIP)

    def numpy_line_search() -> object:
        return twin.clipped_logistic_losses(dense, y, w, w, STEPS, LOSS_CLIP)

    show(f"{name}: memory of dense float64 / table", dense.nbytes / table.nbytes)
    for kind, objective in (("table", full), (f"{len(rows)} distinct", merged)):

        def gradient(objective: dperm.Objective = objective) -> object:
            return objective.clipped_gradient_sum(w, CLIP)

        def line_search(objective: dperm.Objective = objective) -> object:
            return objective.clipped_loss_sums(w, w, STEPS, LOSS_CLIP)

        for _ in range(3):  # the second one finds the nonzero columns that later ones read
            gradient()
        nonzero = objective._rows.x.nonzero_bytes
        show(f"{name}, {kind}: memory of nonzero columns (bytes a row)", nonzero / objective._rows.x.shape[0])
        show(f"{name}, {kind}: gradient pass (ms)", 1e3 * min(seconds(gradient) for _ in range(9)))
        show(f"{name}, {kind}: best numpy / gradient pass", ratio(numpy_best, gradient, rounds))
        show(f"{name}, {kind}: materialising numpy / gradient pass", ratio(numpy_materialised, gradient, 3))
        show(f"{name}, {kind}: line search, in gradient passes", ratio(line_search, gradient, rounds))
        show(f"{name}, {kind}: numpy / line search", ratio(numpy_line_search, line_search, 3))


def whole_fit(table: TabularMatrix, y, row_norm: float, rounds: int) -> None:
    """Whole DP-AGD fits, full batches, against the numpy twin's on scaled dense rows.

    Everything from the records to the weights counts for dperm, merging equal records included. The number of
    updates of a fit is random, so times are divided by it.
    """
    epsilon, delta = 0.4, 1e-12
    settings = {"row_norm": row_norm, "fit_intercept": True}
    objective = dperm.Objective("logistic", table, y, **settings)
    scaled = twin.scaled_rows(table.to_dense(), row_norm, True)
    mu = dperm.accounting.gdp_mu(epsilon, delta)
    schedule = dp_agd_schedule(objective.n_public, objective.dimension, mu, objective.loss, row_norm)
    rho = zcdp_rho(epsilon, delta)
    selection = schedule.selection_share * rho / schedule.splits
    gradient = (1.0 - schedule.selection_share) * rho / schedule.splits

    def per_update(fit) -> float:
        updates = []
        return seconds(lambda: updates.append(fit())) / updates[-1]

    def on_the_table() -> int:
        own = dperm.Objective("logistic", table, y, **settings)
        return dp_agd(own, epsilon, delta, accountant="zcdp").n_iter

    def on_distinct_records() -> int:
        rows, targets, counts = aggregate(table, y)
        own = dperm.Objective("logistic", rows, targets, counts=counts, **settings)
        return dp_agd(own, epsilon, delta, accountant="zcdp").n_iter

    def numpy_twin() -> int:
        rng = np.random.default_rng()
        return twin.dp_agd(scaled, y, rho, gradient, selection, schedule, rng)[1]

    rows, targets, counts = aggregate(table, y)
    merged = dperm.Objective("logistic", rows, targets, counts=counts, **settings)
    for name, fit in (
        ("table, from the records", on_the_table),
        ("distinct records, merging included", on_distinct_records),
        (
            "distinct records, merged before",
            lambda: dp_agd(merged, epsilon, delta, accountant="zcdp").n_iter,
        ),
    ):
        share = median_ratio(lambda: per_update(numpy_twin), lambda fit=fit: per_update(fit), rounds)
        show(f"dp_agd, whole fit, {name}: numpy twin / dperm, per update", share)
    show("updates of a fit", merged and dp_agd(merged, epsilon, delta, accountant="zcdp").n_iter)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--fits", type=int, default=1, help="rounds of whole fits")
    arguments = parser.parse_args()
    print(dperm.build_info())
    data = dperm.datasets.load("kddcup99")
    y = np.asarray(data.y, dtype=np.float64)
    w = 0.1 * np.random.default_rng(0).normal(size=len(data.feature_names))
    for table in (data.X, in_bytes(data.X)):
        passes(table.numeric.dtype.name, table, y, data.row_norm, w, arguments.rounds)
    if arguments.fits:
        whole_fit(data.X, y, data.row_norm, arguments.fits)


if __name__ == "__main__":
    main()
