"""Differentially private empirical risk minimisation of linear models.

Sub-modules and names are imported when first used, so that ``import dperm`` stays light.
"""

import importlib
from typing import Any

_PUBLIC = {
    "Bounded": "dperm.private_values.bounded",
    "Categorical": "dperm.data.schema.columns",
    "HuberRegressor": "dperm.estimators",
    "LinearSVC": "dperm.estimators",
    "LogisticRegression": "dperm.estimators",
    "Numeric": "dperm.data.schema.columns",
    "Objective": "dperm.objective.objective",
    "PrivacyStatement": "dperm.statement.privacy_statement",
    "QuantileRegressor": "dperm.estimators",
    "Schema": "dperm.data.schema.schema",
    "build_info": "dperm._build_info",
}
_SUBMODULES = {
    "accounting",
    "algorithms",
    "audit",
    "data",
    "datasets",
    "errors",
    "estimators",
    "losses",
    "mechanisms",
}

__all__ = [*_PUBLIC, *_SUBMODULES, "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"dperm.{name}")
    raise AttributeError(f"module 'dperm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
