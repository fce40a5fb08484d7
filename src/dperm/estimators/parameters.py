"""Parameters that estimators share: dataclasses write the ``__init__`` that scikit-learn expects, unchecked.

`fit` checks the values; `dperm.estimators.shared_text` documents them. No base is untyped here: type checkers
would then accept any keyword.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.data.schema.schema import Schema
from dperm.mechanisms.random_source import RandomState


@dataclass(eq=False, repr=False)
class ModelParameters:
    """Parameters of every estimator."""

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    solver: str = "auto"
    l2: float = 0.0
    fit_intercept: bool = True
    penalize_intercept: bool = False
    row_norm: float | None = None
    schema: Schema | None = None
    neighbors: str | None = None
    calibration: str = "tight"
    learn_scales: bool | str = "auto"
    solver_options: Mapping[str, Any] | None = None
    ledger: PrivacyLedger | None = None
    n_threads: int | None = None
    random_state: RandomState = None
    non_finite: str = "raise"
    weight_bound: float = 1.0
    n_public: int | None = None
    verbose: int = 0


@dataclass(eq=False, repr=False, kw_only=True)
class ClassifierParameters(ModelParameters):
    """Parameters of every classifier."""

    classes: Sequence[Any] | None = None
    class_weight: Mapping[Any, float] | str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class RegressorParameters(ModelParameters):
    """Parameters of every regressor."""

    target_bound: float | None = None
