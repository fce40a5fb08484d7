"""KDDCup99 (10 %) as a table: dperm compared with numpy on the dense one-hot matrix, ratios in one run.

    python bench/bench_kdd.py [--rounds 9] [--full]

--full takes all 4.9 million records. DPERM_DATA must name the folder of the data sets, or they are
downloaded. Leave OMP_WAIT_POLICY unset: with "passive", some virtual machines wake both threads of a pass
on the same core.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import dperm
from dperm.algorithms import dp_agd
from dperm.data import TabularLayout, TabularMatrix, aggregate
from measuring import command_line, median_ratio, milliseconds, per_unit, show, show_ratios
from problems import dp_agd_twin, numpy_passes, passes

EPSILON, DELTA = 0.4, 1e-12


def in_bytes(table: TabularMatrix) -> TabularMatrix:
    """The table with its numbers rounded to multiples of 1/255."""
    layout = TabularLayout(
        table.layout.numeric_columns, table.layout.first_columns, table.layout.sizes, 1.0 / 255
    )
    return TabularMatrix(np.rint(table.numeric * 255.0).astype(np.uint8), table.codes, layout)


def compare(table: TabularMatrix, y: np.ndarray, row_norm: float, w: np.ndarray, rounds: int) -> None:
    """Gradient pass and line search on the table and on its distinct records, compared with numpy."""
    name, dense = table.numeric.dtype.name, table.to_dense()
    rows, targets, counts = aggregate(table, y)
    settings = {"row_norm": row_norm}
    kinds = {
        "table": dperm.Objective("logistic", table, y, **settings),
        f"{len(rows)} distinct": dperm.Objective("logistic", rows, targets, counts=counts, **settings),
    }
    kinds["table"]._rows.compact = None  # every pass must read all records
    best, materialised, lines = numpy_passes(dense, y, w, w)
    show(f"{name}: memory of dense float64 / table", dense.nbytes / table.nbytes)
    for kind, objective in kinds.items():
        gradient, line_search = passes(objective, w, w)
        for _ in range(3):  # the second pass finds the nonzero columns that later ones read
            gradient()
        what, stored = f"{name}, {kind}", objective._rows.x
        show(f"{what}: memory of nonzero columns (bytes a row)", stored.nonzero_bytes / stored.shape[0])
        show(f"{what}: gradient pass (ms)", milliseconds(gradient, 9))
        show_ratios({f"{what}: best numpy / gradient pass": (best, gradient)}, rounds)
        show_ratios({f"{what}: materialising numpy / gradient pass": (materialised, gradient)}, 3)
        show_ratios({f"{what}: line search, in gradient passes": (line_search, gradient)}, rounds)
        show_ratios({f"{what}: numpy / line search": (lines, line_search)}, 3)


def whole_fit(table: TabularMatrix, y: np.ndarray, row_norm: float, rounds: int) -> None:
    """Whole full-batch DP-AGD fits, compared with the numpy twin on scaled dense rows.

    The time for dperm includes everything from the records to the weights, also merging identical records.
    The number of updates of a fit is random, so times are divided by it.
    """
    settings = {"row_norm": row_norm, "fit_intercept": True}

    def objective_of(X: object, y: np.ndarray, counts: np.ndarray | None = None) -> dperm.Objective:
        return dperm.Objective("logistic", X, y, counts=counts, **settings)

    def updates(objective: dperm.Objective) -> int:
        return dp_agd(objective, EPSILON, DELTA, accountant="zcdp").n_iter

    numpy_updates = dp_agd_twin(objective_of(table, y), table.to_dense(), y, EPSILON, DELTA)
    merged = objective_of(*aggregate(table, y))
    for name, fit in {
        "table, from the records": lambda: updates(objective_of(table, y)),
        "distinct records, merging included": lambda: updates(objective_of(*aggregate(table, y))),
        "distinct records, merged before": lambda: updates(merged),
    }.items():
        share = median_ratio(lambda: per_unit(numpy_updates), lambda fit=fit: per_unit(fit), rounds)
        show(f"dp_agd, whole fit, {name}: numpy twin / dperm, per update", share)
    show("updates of a fit", updates(merged))


def default_fit(table: TabularMatrix, y: np.ndarray, row_norm: float, rounds: int) -> None:
    """The estimator's default fit, compared with scikit-learn's non-private one on the dense matrix."""
    dense = table.to_dense()

    def private() -> object:
        model = dperm.LogisticRegression(epsilon=1.0, delta=DELTA, row_norm=row_norm, classes=[-1, 1])
        return model.fit(table, y)

    def not_private() -> object:
        return LogisticRegression().fit(dense, y)

    show_ratios({"default fit, scikit-learn (lbfgs) / dperm": (not_private, private)}, rounds)


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=9, fits=1, full=False)  # fits: rounds of whole fits
    data = dperm.datasets.load("kddcup99_full" if arguments.full else "kddcup99")
    y = np.asarray(data.y, dtype=np.float64)
    w = 0.1 * np.random.default_rng(0).normal(size=len(data.feature_names))
    for table in (data.X, in_bytes(data.X)):
        compare(table, y, data.row_norm, w, arguments.rounds)
    if arguments.fits:
        default_fit(data.X, y, data.row_norm, arguments.fits)
        whole_fit(data.X, y, data.row_norm, arguments.fits)
