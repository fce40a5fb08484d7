"""What an algorithm returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
