"""From a raw table to a published model with its accuracy and its standard errors, within one budget.

    python docs/whole_analysis.py adult.data budget.db
    dperm budget report adult --file budget.db

adult.data is the file that the UCI repository publishes, compressed with gzip or not; budget.db is created,
with a budget of (2, 1e-6).

Every number that is printed was released with noise and charged to the ledger. A keyed hash splits the
records into a training part and a test part. Each record is in one part, so together the parts cost what the
most expensive one does.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pandas as pd

import dperm
from dperm.accounting import PrivacyLedger, open_ledger
from dperm.algorithms.inference import InferenceResult
from dperm.metrics.evaluation import Evaluation

COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
]  # fmt: skip
LABEL, NOT_USED = "income", "fnlwgt"
CANDIDATES = {"l2": [1e-6, 1e-4, 1e-3, 1e-2]}
# Columns that get standard errors: the fewer, the narrower the intervals.
EXPLAINED = ("age", "education-num", "hours-per-week", "sex")
# The reference level of its factor; unknown values, if any, count towards it.
COMPARED_WITH = "sex=Female"


@dataclass(frozen=True)
class Analysis:
    """What is published."""

    schema: dperm.Schema
    model: dperm.LogisticRegression
    settings: dict[str, Any]
    evaluation: Evaluation
    inference: dperm.LogisticRegression

    @property
    def intervals(self) -> InferenceResult:
        """Estimates with standard errors."""
        return self.inference.inference_


def analyse(table: pd.DataFrame, ledger: PrivacyLedger, n: int, random_state: int | None = None) -> Analysis:
    """Learn a schema, choose and train a model, evaluate it, and estimate weights with standard errors.

    Parameters
    ----------
    table : DataFrame
        Raw records, including the label.
    ledger : PrivacyLedger
        With a budget such as (2, 1e-6), of which about nine tenths are used.
    n : int
        Public, rounded number of records.
    random_state : int, optional
        For tests only.
    """
    parts = ledger.split({"train": 0.8, "test": 0.2})
    train, test = (part.take(table) for part in parts.values())
    n_train = parts["train"].n_public(n)

    # 1. Bounds and categories, for 5 % of the budget.
    kinds, seed = {NOT_USED: "ignored"}, {"random_state": random_state}
    schema = dperm.Schema.learn(train, label=LABEL, kinds=kinds, ledger=parts["train"], **seed)

    # 2. The best of four settings, refitted on the whole training part.
    records, labels = train.drop(columns=LABEL), train[LABEL]
    model = dperm.LogisticRegression(schema=schema, classes=list(schema.classes or ()), n_public=n_train)
    search = dperm.PrivateSearch(model, CANDIDATES, 1.2, 1e-7, refit=True, ledger=parts["train"], **seed)
    search.fit(records, labels)

    # 3. Its quality on held-out records, at no further cost, because training costs more.
    evaluation = dperm.metrics.evaluate(
        search.best_estimator_, test.drop(columns=LABEL), test[LABEL], 1.8, 1e-7, ledger=parts["test"], **seed
    )

    # 4. The weights of a few columns, with standard errors.
    few = dperm.Schema([column for column in schema.columns if column.name in EXPLAINED])
    omit = {"omit": [few.feature_names.index(COMPARED_WITH)]}
    inference = dperm.LogisticRegression(
        1.4, 1e-7, solver="noisy_newton", schema=few, classes=list(schema.classes or ()), n_public=n_train,
        ledger=parts["train"], solver_options=omit, **seed,
    )  # fmt: skip
    inference.fit(records[list(few.column_names)], labels)
    return Analysis(schema, search.best_estimator_, search.best_params_, evaluation, inference)


def main() -> None:
    """Analyse Adult."""
    records, budget = sys.argv[1:]
    table = pd.read_csv(records, names=COLUMNS, skipinitialspace=True)
    ledger = open_ledger(f"sqlite:///{budget}", "adult", epsilon=2.0, delta=1e-6)
    found = analyse(table, ledger, n=32_500)
    print(found.schema.report, f"\nBest settings: {found.settings}\n", found.evaluation, sep="\n")
    print(found.inference.summary())
    print(f"\nSpent: epsilon = {ledger.spent:.3f} of {ledger.epsilon:g}")


if __name__ == "__main__":
    main()
