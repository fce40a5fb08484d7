"""
From a raw table to a published model
=====================================

Who earns more than 50,000 dollars a year? A census table is split, its columns are described, a model is
trained and evaluated, all within one budget. Nothing that is printed here was computed from the records
without noise.

If ``DPERM_DATA`` names a folder with the published *Adult* file, that file is the table. Otherwise a table of
the same form is **generated**, whose numbers say nothing about the census.
"""

# %%
# The table
# ---------
# The columns as published, without the sampling weight; the generated table has about half of them. The
# label is one of the columns.

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd

import dperm

COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
]  # fmt: skip


def generated_table(n: int) -> pd.DataFrame:
    """Made-up records in the form of Adult."""
    rng = np.random.default_rng(0)
    age, years = rng.integers(17, 91, n), rng.integers(1, 17, n)
    sex, married = rng.choice(["Female", "Male"], n), rng.choice(["Married", "Single", "Divorced"], n)
    hours = np.clip(rng.normal(40, 12, n).round(), 1, 99).astype(int)
    gain = np.where(rng.random(n) < 0.08, rng.lognormal(8, 1.2, n).round(), 0).astype(int)
    job = rng.choice(["Sales", "Craft-repair", "Exec-managerial", "Prof-specialty", "Other-service"], n)
    score = 0.35 * (years - 10) + 0.03 * (age - 38) + 0.03 * (hours - 40) + 1.5 * (married == "Married")
    score = score + 0.8 * (job == "Exec-managerial") + (gain > 5000) * 3.0 - 2.4 + rng.logistic(size=n)
    return pd.DataFrame(
        {
            "age": age, "education-num": years, "marital-status": married, "occupation": job, "sex": sex,
            "capital-gain": gain, "hours-per-week": hours,
            "income": np.where(score > 0.0, ">50K", "<=50K"),
        }
    )  # fmt: skip


published = Path(os.environ.get("DPERM_DATA", ""), "adult", "adult.data.gz")
if published.is_file():
    with gzip.open(published, "rt") as file:
        table = pd.read_csv(file, names=COLUMNS, skipinitialspace=True).drop(columns="fnlwgt")
else:
    table = generated_table(32_561)
print("published" if published.is_file() else "generated", "table of", table.shape[1], "columns")

# %%
# The budget
# ----------
# A data owner grants epsilon = 1 and delta = 1e-6 for everything that is released from this table; a real
# one would keep the ledger in a file (:func:`dperm.accounting.open_ledger`). A keyed hash puts each record in
# one part, so spending on the parts costs the larger of the two totals, not their sum.

n_public = 32_500  # the approximate number of records is public
ledger = dperm.accounting.Ledger(epsilon=1.0, delta=1e-6)
parts = ledger.split({"train": 0.8, "test": 0.2})
train, test = (part.take(table) for part in parts.values())

# %%
# A schema
# --------
# Bounds and categories are learned for 5 % of the budget. (If they are publicly known, say from the
# questionnaire, write them down instead: ``dperm.Numeric("age", 17, 90)``. That costs nothing.) The report
# says what is cut off.

schema = dperm.Schema.learn(train, label="income", ledger=parts["train"])
print(schema.report)

# %%
# The model
# ---------
# It takes the raw columns. Every record is encoded by itself, so nothing else is learned from the data.

model = dperm.LogisticRegression(
    epsilon=0.9,
    delta=1e-7,
    schema=schema,
    classes=["<=50K", ">50K"],
    ledger=parts["train"],
    n_public=parts["train"].n_public(n_public),
)
model.fit(train.drop(columns="income"), train["income"])
model.privacy_

# %%
# How good it is
# --------------
# ``model.score`` on private records would be an exact number that no budget has paid for.
# :func:`dperm.metrics.evaluate` releases counts with noise, once, and computes all metrics from these;
# intervals cover both sampling and noise. Because the training part has spent more, the release on the test
# part adds nothing to what the table has spent.

found = dperm.metrics.evaluate(
    model, test.drop(columns="income"), test["income"], 0.9, 1e-7, ledger=parts["test"]
)
print(found)

# %%
found.plot()

# %%
# What was spent
# --------------

for entry in ledger.history():
    print(f"{entry.description:18}{entry.part:13}", f"epsilon = {entry.epsilon:.3f}" if entry.epsilon else "")
print(f"epsilon = {ledger.spent:.3f} of {ledger.epsilon:g}")
