"""The algorithms as solvers of the estimators: their names, the default, and the call."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dperm import algorithms
from dperm._progress import log, progress
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms.fit import FitResult
from dperm.algorithms.settings import boolean_or_auto, close
from dperm.estimators.input_checks import check_options
from dperm.losses import Loss
from dperm.objective.objective import Objective

Solver = Callable[..., FitResult]

#: By name: every algorithm that declares what it needs of an objective.
SOLVERS: dict[str, Solver] = {
    name: getattr(algorithms, name)
    for name in algorithms.__all__
    if hasattr(getattr(algorithms, name), "needs")
}

#: Those with a noise that their authors published.
PUBLISHED = tuple(
    name for name, solver in SOLVERS.items() if "calibration" in inspect.signature(solver).parameters
)

#: ``n epsilon / dimension^1.5`` below which objective perturbation comes last with delta = 0: its proof is
#: for gradients without a clip, and the noise on the linear term carries the minimiser far.
MIN_PURE_SIGNAL = 12.0


def choose_solver(
    *,
    n: int,
    dimension: int,
    epsilon: float,
    delta: float,
    loss: Loss,
    neighbors: str,
    objective: Objective | None = None,
) -> str:
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
    objective : Objective, optional
        What is minimised: a solver for ``delta = 0`` must have what it needs.

    Returns
    -------
    str
        A name in :data:`SOLVERS`.

    Raises
    ------
    ValueError
        With ``delta = 0``, where no solver has a pure guarantee.

    Notes
    -----
    `whitened_gd` for every loss, see ``docs/decisions/solver-choice.md``. With delta = 0 noise is of
    Laplace's kind: on the linear term (above `MIN_PURE_SIGNAL`), on the weights or on the choices.
    """
    if epsilon == math.inf:
        return "nonprivate"
    if delta == 0.0:
        sum_factor = Neighbours.parse(neighbors).sum_factor
        return _pure_solver(loss, n * epsilon / sum_factor / dimension**1.5, objective)
    return "whitened_gd"


def pure_solvers(loss: Loss) -> list[str]:
    """Solvers with a guarantee for that loss and ``delta = 0``, the best first."""
    if loss.n_classes is not None:
        return []
    fitting = {
        "objective_perturbation": loss.name == "logistic",
        "output_perturbation_gd": loss.convex and loss.smoothness(1.0) < math.inf,
        "privgene": loss.lipschitz(1.0) < math.inf,
        "dp_sgd_output": loss.convex,
    }
    return [name for name, fits in fitting.items() if fits]


def _pure_solver(loss: Loss, signal: float, objective: Objective | None) -> str:
    if loss.n_classes is not None:
        raise ValueError(
            f"no solver has a pure guarantee (delta=0) for the {loss.name} loss, which has one prediction "
            "per class: pass delta > 0, such as one tenth of 1/n"
        )
    reason = f"the {loss.name} loss is not convex and its slope grows without limit"
    names = pure_solvers(loss)
    if signal < MIN_PURE_SIGNAL:
        names.sort(key="objective_perturbation".__eq__)
    for name in names:
        refusal = None if objective is None else _refusal(name, objective)
        if refusal is None:
            return name
        reason = f"{name} {refusal}"
    raise ValueError(f"no solver with a pure guarantee (delta=0) will do ({reason}): pass delta > 0")


def check_solver(name: str) -> None:
    """Raise ValueError unless the name is "auto" or that of a solver."""
    if not isinstance(name, str) or (name != "auto" and name not in SOLVERS):
        raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {name!r}")


class Call(NamedTuple):
    """A solver and its arguments, except the objective."""

    name: str
    arguments: dict[str, Any]

    def run(self, objective: Objective) -> FitResult:
        """Minimise the objective."""
        start = time.monotonic()
        try:
            result = SOLVERS[self.name](objective, **self.arguments)
        finally:
            close(self.arguments.get("callback"))
        log.info("%s: done in %.1f s", self.name, time.monotonic() - start)
        return result


def solver_call(
    name: str,
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    common: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    verbose: int,
) -> Call:
    """The call that minimises the objective with that solver.

    Parameters
    ----------
    name : str
        A solver, or "auto".
    objective : Objective
    epsilon, delta : float
    common : mapping
        neighbors, calibration, learn_scales, ledger and random_state, the last two possibly None.
    options : mapping, optional
        Further keyword arguments of the solver.
    verbose : int
        If not 0, print progress to standard error.

    Raises
    ------
    ValueError
        If the objective does not meet the solver's requirements, or the solver has no such option. Nothing is
        charged.
    """
    automatic = name == "auto"
    if automatic:
        name = choose_solver(
            n=objective.n_public,
            dimension=objective.dimension,
            epsilon=epsilon,
            delta=delta,
            loss=objective.loss,
            neighbors=common["neighbors"],
            objective=objective,
        )
    if automatic and common["calibration"] == "paper" and name not in PUBLISHED and name != "nonprivate":
        raise ValueError(
            f"calibration='paper' needs a solver with published noise, and solver='auto' chose {name!r}, "
            f"which has none: pass solver= one of {', '.join(map(repr, PUBLISHED))}"
        )
    reason = _refusal(name, objective)
    if reason is not None:
        raise ValueError(f"solver={name!r} {reason}")
    chosen = check_options(SOLVERS[name], options, own=("epsilon", "delta", *common))
    if verbose:
        chosen.setdefault("callback", progress(name))
    if name == "nonprivate":
        _refuse_ledger(common["ledger"])
        return Call(name, chosen)
    return Call(name, {"epsilon": epsilon, "delta": delta, **_accepted(name, common), **chosen})


def _refuse_ledger(ledger: Any) -> None:
    if ledger is not None:
        raise ValueError(
            "a fit without privacy (epsilon=inf, or solver='nonprivate') cannot be charged to a ledger: its "
            "result may reveal any record. Pass a finite epsilon, or ledger=None for a model that is never "
            "published"
        )


def _refusal(name: str, objective: Objective) -> str | None:
    """Why the solver cannot minimise the objective, as the end of a sentence."""
    reason: str | None = SOLVERS[name].needs.refusal(objective)  # type: ignore[attr-defined]
    return reason


def _accepted(name: str, common: Mapping[str, Any]) -> dict[str, Any]:
    """The common keywords that the solver accepts; the others must have their default values."""
    known = _parameters(name)
    learn_scales = boolean_or_auto("learn_scales", common["learn_scales"])
    if "learn_scales" not in known and learn_scales is True:
        able = ", ".join(repr(each) for each in SOLVERS if "learn_scales" in _parameters(each))
        raise ValueError(
            f"solver={name!r} learns no scales: leave learn_scales='auto', or take one of {able}"
        )
    if "calibration" not in known and common["calibration"] != "tight":
        raise ValueError(f"solver={name!r} has one calibration only: leave calibration='tight'")
    if name != "whitened_gd":
        common = {**common, "learn_scales": learn_scales is True}
    return {keyword: value for keyword, value in common.items() if keyword in known}


def _parameters(name: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(SOLVERS[name]).parameters
