"""The algorithms as solvers of an estimator: their names, the default, and the call."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from dperm import algorithms
from dperm.algorithms.fit_result import Callback, FitResult
from dperm.estimators.input_checks import check_options
from dperm.losses import Loss
from dperm.objective import Objective

Solver = Callable[..., FitResult]

#: By name: every algorithm that declares what it needs of an objective.
SOLVERS: dict[str, Solver] = {
    name: getattr(algorithms, name)
    for name in algorithms.__all__
    if hasattr(getattr(algorithms, name), "needs")
}

#: Most weights that ``solver="auto"`` whitens.
MOST_WHITENED = 1000


def choose_solver(*, n: int, dimension: int, epsilon: float, delta: float, loss: Loss, neighbors: str) -> str:
    """What ``solver="auto"`` means, from public numbers alone.

    Parameters
    ----------
    n, dimension : int
        Public number of records, and of weights.
    epsilon, delta : float
        Budget of the fit.
    loss : Loss
    neighbors : str
        Neighbouring relation.

    Returns
    -------
    str
        A name in :data:`SOLVERS`.

    Notes
    -----
    `preconditioned_gd` decides by itself, from the same numbers, how much whitening the budget pays for,
    and runs like `noisy_gd` where it pays for none; ``bench/solver_choice.py`` and ``bench/accuracy.py``
    compare the two: for labels it wins nearly everywhere, for real targets it does not. Beyond
    `MOST_WHITENED` weights its square matrices cost more than the passes over the data. delta = 0 leaves
    noise in the manner of Laplace: on the linear term, the weights or the choices.
    """
    if epsilon == math.inf:
        return "nonprivate"
    if delta == 0.0:
        return _pure_solver(loss)
    labels = loss.classification and loss.n_classes is None
    return "preconditioned_gd" if labels and dimension <= MOST_WHITENED else "noisy_gd"


def _pure_solver(loss: Loss) -> str:
    if loss.name == "logistic":
        return "objective_perturbation"
    return "output_perturbation_gd" if loss.convex and loss.smoothness(1.0) < math.inf else "privgene"


def check_solver(name: str) -> None:
    """Raise ValueError for a name that is neither "auto" nor a solver's."""
    if name != "auto" and name not in SOLVERS:
        raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {name!r}")


def run_solver(
    name: str,
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    common: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    verbose: int,
) -> FitResult:
    """Minimise the objective with that solver.

    Parameters
    ----------
    name : str
        A solver, or "auto".
    objective : Objective
    epsilon, delta : float
    common : mapping
        neighbors, calibration, ledger and random_state; the last two may be None.
    options : mapping, optional
        Further keyword arguments of the solver.
    verbose : int
        Print progress to standard error unless 0.

    Raises
    ------
    ValueError
        When the objective lacks what the solver needs, or the solver has no such option. Nothing is
        charged.
    """
    if name == "auto":
        name = choose_solver(
            n=objective.n_public,
            dimension=objective.dimension,
            epsilon=epsilon,
            delta=delta,
            loss=objective.loss,
            neighbors=common["neighbors"],
        )
    solver = SOLVERS[name]
    reason = solver.needs.refusal(objective)  # type: ignore[attr-defined]
    if reason is not None:
        raise ValueError(f"solver={name!r} {reason}")
    chosen = check_options(solver, options)
    if verbose:
        chosen.setdefault("callback", _printer(name))
    if name == "nonprivate":
        return solver(objective, **chosen)
    return solver(objective, epsilon, delta, **{**_accepted(name, solver, common), **chosen})


def _accepted(name: str, solver: Solver, common: Mapping[str, Any]) -> dict[str, Any]:
    """The common keywords that the solver takes; the others must have their default."""
    known = inspect.signature(solver).parameters
    if "calibration" not in known and common["calibration"] != "tight":
        raise ValueError(f"solver={name!r} has one calibration only: leave calibration='tight'")
    return {keyword: value for keyword, value in common.items() if keyword in known}


def _printer(name: str) -> Callback:
    def report(released: Mapping[str, Any]) -> None:
        print(f"{name}: iteration {released['iteration']}", file=sys.stderr)

    return report
