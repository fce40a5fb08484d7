"""Gradient sums at K weight vectors: one read of the data compared with K passes.

python bench/bench_models.py [--rounds 9] [--threads 1] [--size small]
"""

import numpy as np

import dperm
from dperm import Objective
from dperm.algorithms import noisy_gd, noisy_gd_many
from measuring import command_line, ratio, show
from problems import CLIP, problem


def sums(size: str, dtype: str, threads: int | None, rounds: int) -> None:
    """Time of K sums together, in single passes over the data."""
    X, y, w, _ = problem(size, dtype)
    objective = Objective("logistic", X, y, row_norm=2.0, n_threads=threads)
    for k in (1, 2, 4, 8, 16):
        models = np.outer(np.linspace(-1.0, 1.0, k), w)

        def together(models: np.ndarray = models) -> object:
            return objective.clipped_gradient_sums(models, CLIP)

        def one() -> object:
            return objective.clipped_gradient_sum(w, CLIP)

        show(f"{dtype}: {k} models at once, in passes of one", ratio(together, one, rounds))


def fits(threads: int | None, rounds: int) -> None:
    """Adult as a table: eight sums, and noisy gradient descent for eight seeds."""
    data = dperm.datasets.load("adult")
    objective = Objective(
        "logistic", data.X, data.y, row_norm=data.row_norm, fit_intercept=True, n_threads=threads
    )
    models = np.random.default_rng(0).normal(size=(8, objective.dimension))
    tabular = ratio(
        lambda: objective.clipped_gradient_sums(models, CLIP),
        lambda: objective.clipped_gradient_sum(models[0], CLIP),
        rounds,
    )
    show("tabular: 8 models at once, in passes of one", tabular)
    settings = [{"epsilon": 1.6, "delta": 1e-8, "steps": 100, "random_state": seed} for seed in range(8)]

    def one_by_one() -> object:
        return [noisy_gd(objective, **own) for own in settings]

    def together() -> object:
        return noisy_gd_many(objective, settings)

    show("noisy_gd on Adult, 8 seeds: one by one / together", ratio(one_by_one, together, 3))


def searches(name: str, dense: bool, threads: int | None, rounds: int) -> None:
    """A search over sixteen ridge terms, trained in lockstep, against a fit of one."""
    data = dperm.datasets.load(name)
    X = data.X.to_dense() if dense and not isinstance(data.X, np.ndarray) else data.X
    settings = {"solver": "noisy_gd", "solver_options": {"steps": 500}, "classes": [-1, 1]}
    model = dperm.LogisticRegression(
        1.0,
        1e-6,
        row_norm=data.row_norm,
        learn_scales=False,  # as fits in lockstep do
        n_threads=threads,
        **settings,
    )
    ridges = {"l2": np.logspace(-6, -1, 16).tolist()}

    def search() -> object:
        found = dperm.PrivateSearch(model, ridges, 1.0, 1e-6, method="all_candidates", refit=False)
        return found.fit(X, data.y)

    def one() -> object:
        return model.fit(X, data.y)

    kind = "dense" if dense else "as a table"
    show(f"{name} {kind}: search over 16 ridge terms, in fits of one", ratio(search, one, rounds))


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=9, threads=int, size=("large", "small"))
    for dtype in ("float64", "float32"):
        sums(arguments.size, dtype, arguments.threads, arguments.rounds)
    fits(arguments.threads, arguments.rounds)
    for name in ("adult", "bank", "kddcup99"):
        searches(name, False, arguments.threads, 3)
    for name in ("adult", "bank", "wine"):
        searches(name, True, arguments.threads, 3)
