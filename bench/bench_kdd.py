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

        for _ in range(3):  # the second one finds the live columns that later ones read
            gradient()
        live = objective._rows.x.live_bytes
        show(f"{name}, {kind}: memory of live columns (bytes a row)", live / objective._rows.x.shape[0])
        show(f"{name}, {kind}: gradient pass (ms)", 1e3 * min(seconds(gradient) for _ in range(9)))
        show(f"{name}, {kind}: best numpy / gradient pass", ratio(numpy_best, gradient, rounds))
        show(f"{name}, {kind}: materialising numpy / gradient pass", ratio(numpy_materialised, gradient, 3))
        show(f"{name}, {kind}: line search, in gradient passes", ratio(line_search, gradient, rounds))
        show(f"{name}, {kind}: numpy / line search", ratio(numpy_line_search, line_search, 3))


def whole_fit(table: TabularMatrix, y, row_norm: float, rounds: int) -> None:
    """A whole DP-AGD fit, full batches, against its numpy twin, time per update."""
    epsilon, delta = 0.4, 1e-12
    rows, targets, counts = aggregate(table, y)
    objective = dperm.Objective(
        "logistic", rows, targets, row_norm=row_norm, fit_intercept=True, counts=counts
    )
    scaled = twin.scaled_rows(table.to_dense(), row_norm, True)
    mu = dperm.accounting.gdp_mu(epsilon, delta)
    schedule = dp_agd_schedule(objective.n_public, objective.dimension, mu, objective.loss, row_norm)
    rho = zcdp_rho(epsilon, delta)
    selection = schedule.selection_share * rho / schedule.splits
    gradient = (1.0 - schedule.selection_share) * rho / schedule.splits

    def compiled() -> float:
        updates = []

        def fit() -> None:
            updates.append(dp_agd(objective, epsilon, delta, accountant="zcdp").n_iter)

        return seconds(fit) / updates[-1]

    def numpy_twin() -> float:
        updates = []

        def fit() -> None:
            rng = np.random.default_rng()
            updates.append(twin.dp_agd(scaled, y, rho, gradient, selection, schedule, rng)[1])

        return seconds(fit) / updates[-1]

    show(
        "dp_agd, distinct records: numpy twin / dperm, per update", median_ratio(numpy_twin, compiled, rounds)
    )


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
