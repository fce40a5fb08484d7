"""Differentially private empirical risk minimisation of linear models.

Models are fitted as in scikit-learn; the schema says what is public, the ledger what may be spent::

    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform([18, 0], [90, 5000], (20_000, 2))  # age and income, made up
    >>> y = np.where(X[:, 0] > 50, "yes", "no")
    >>> schema = dperm.Schema([dperm.Numeric("age", 0, 100), dperm.Numeric("income", 0, 10_000)])
    >>> ledger = dperm.accounting.Ledger(epsilon=1.0, delta=1e-6)  # of all fits to these people together
    >>> model = dperm.LogisticRegression(0.5, 1e-7, schema=schema, classes=["no", "yes"], ledger=ledger)
    >>> model = model.fit(X[:15_000], y[:15_000])
    >>> found = dperm.metrics.evaluate(model, X[15_000:], y[15_000:], 0.4, 1e-7, ledger=ledger)
    >>> found["accuracy"].value > 0.9, round(ledger.remaining, 2)
    (True, 0.78)
    >>> print(model.privacy_.headline)
    Differentially private (epsilon = 0.5, delta = 1e-07).

``print(model.privacy_)`` states the guarantee; ``dperm.report(model).save("model.html")`` writes a report.
`score` is exact and not covered by the guarantee; to score private records, use `evaluate`.

Models:
    LogisticRegression, LinearSVC, HuberRegressor, QuantileRegressor
    PrivateSearch                tune hyperparameters and train the best model within one budget
    load                         read a model that ``model.save`` or ``dperm fit`` wrote

What is public about the records, and what a fit guarantees:
    Schema, Numeric, Categorical, Interaction
    PrivacyStatement

Building blocks, for research:
    Objective, Bounded           exact sums over the records, released only through a mechanism
    algorithms, mechanisms, losses

Further packages:
    accounting                   budgets of data sets (open_ledger, Ledger), and the mathematics of privacy
    metrics, audit               private evaluation of models; empirical lower bounds on the leakage
    report, reports              reports on models and ledgers, as HTML or Markdown; plots
    data, datasets               data larger than memory; published data sets
    estimators, errors

Settings:
    config, build_info
    progress                     a progress bar for long fits

See ``help(dperm.LogisticRegression)`` and so on, and ``dperm --help`` for the command line. Names are
imported on first use, which keeps ``import dperm`` fast.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the names of `_LAZY` and `_SUBMODULES`, for type checkers and editors
    from dperm import accounting as accounting
    from dperm import algorithms as algorithms
    from dperm import audit as audit
    from dperm import data as data
    from dperm import datasets as datasets
    from dperm import errors as errors
    from dperm import estimators as estimators
    from dperm import losses as losses
    from dperm import mechanisms as mechanisms
    from dperm import metrics as metrics
    from dperm import reports as reports
    from dperm._build_info import build_info as build_info
    from dperm._config import config as config
    from dperm._progress import progress as progress
    from dperm.data.schema.columns import Categorical as Categorical
    from dperm.data.schema.columns import Numeric as Numeric
    from dperm.data.schema.interactions import Interaction as Interaction
    from dperm.data.schema.schema import Schema as Schema
    from dperm.estimators import HuberRegressor as HuberRegressor
    from dperm.estimators import LinearSVC as LinearSVC
    from dperm.estimators import LogisticRegression as LogisticRegression
    from dperm.estimators import QuantileRegressor as QuantileRegressor
    from dperm.estimators.storage.loading import load as load
    from dperm.objective.objective import Objective as Objective
    from dperm.private_values.bounded import Bounded as Bounded
    from dperm.reports import report as report
    from dperm.search import PrivateSearch as PrivateSearch
    from dperm.statement.privacy_statement import PrivacyStatement as PrivacyStatement

_LAZY = {
    "Bounded": "dperm.private_values.bounded",
    "Categorical": "dperm.data.schema.columns",
    "HuberRegressor": "dperm.estimators",
    "Interaction": "dperm.data.schema.interactions",
    "LinearSVC": "dperm.estimators",
    "LogisticRegression": "dperm.estimators",
    "Numeric": "dperm.data.schema.columns",
    "Objective": "dperm.objective.objective",
    "PrivacyStatement": "dperm.statement.privacy_statement",
    "PrivateSearch": "dperm.search",
    "QuantileRegressor": "dperm.estimators",
    "Schema": "dperm.data.schema.schema",
    "build_info": "dperm._build_info",
    "config": "dperm._config",
    "load": "dperm.estimators.storage.loading",
    "progress": "dperm._progress",
    "report": "dperm.reports",
}
_SUBMODULES = (
    "accounting",
    "algorithms",
    "audit",
    "data",
    "datasets",
    "errors",
    "estimators",
    "losses",
    "mechanisms",
    "metrics",
    "reports",
)

__all__ = [*_LAZY, *_SUBMODULES, "__version__"]
__version__ = "0.1.0"

if not TYPE_CHECKING:  # a type checker that saw this function would accept every name

    def __getattr__(name):
        if name in _LAZY:
            return getattr(importlib.import_module(_LAZY[name]), name)
        if name in _SUBMODULES:
            return importlib.import_module(f"dperm.{name}")
        raise AttributeError(f"module 'dperm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
