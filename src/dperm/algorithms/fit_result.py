"""What an algorithm returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.losses import Loss
from dperm.objective.objective import Objective
from dperm.statement.privacy_statement import PrivacyStatement

#: Called after each iteration with released values only: ``iteration``, ``coef``, and what else the
#: algorithm documents. Its return value is ignored.
Callback = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class FitResult:
    """Released weights and what is guaranteed about them.

    Attributes
    ----------
    coef : ndarray
        Weights, of the objective's shape; the intercept is last when the objective has one.
    privacy : PrivacyStatement
        The guarantee; ``privacy.private`` is False for a non-private fit.
    n_iter : int
        Accesses to the data that the algorithm calls iterations.
    history : list of dict
        Released values only, one entry per iteration.
    """

    coef: NDArray[np.float64]
    privacy: PrivacyStatement
    n_iter: int
    history: list[dict[str, Any]] = field(default_factory=list)


def public_facts(objective: Objective, **settings: Any) -> dict[str, Any]:
    """What a fit treats as public: the objective's settings and the algorithm's."""
    return {
        "n": objective.n_public,
        "dimension": objective.dimension,
        "loss": objective.loss.name,
        **_loss_parameters(objective.loss),
        "l2": objective.l2,
        "fit_intercept": objective.fit_intercept,
        **({"partitions": objective.n_partitions} if objective.n_partitions else {}),
        **settings,
    }


def _loss_parameters(loss: Loss) -> dict[str, Any]:
    """Threshold, level, bound on the targets and so on; infinite ones, which say nothing, left out."""
    chosen: dict[str, Any] = asdict(loss) if is_dataclass(loss) else {}
    return {name: value for name, value in chosen.items() if value != math.inf}


def ledger_note(ledger: PrivacyLedger | None, epsilon: float, delta: float) -> str | None:
    """What the statement says of the ledger."""
    if ledger is None:
        return None
    name = f" {ledger.name!r}" if ledger.name else ""
    return f"epsilon={epsilon:g}, delta={delta:g} charged to the ledger{name}"
