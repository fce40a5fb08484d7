"""
Half a million connections
==========================

KDD Cup 1999: network connections with 41 columns, attack or not. Categories are stored as one byte each,
identical records are merged, and a pass over the data takes milliseconds.

If the folder named by ``DPERM_DATA`` has the published file, that is used. Otherwise connections of the same
form are **generated**.
"""

# %%
# A table, not a matrix
# ---------------------
# With one column of zeros and ones per category the matrix would have well over a hundred columns. A
# :class:`~dperm.data.TabularMatrix` stores the numbers, and one byte for each categorical column.

import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dperm
from dperm.objective.gradients import clipped_gradient_sum


def generated_connections(n):
    """Made-up records in the form of KDDCup99: few columns that vary, many identical records."""
    rng = np.random.default_rng(0)
    kinds = 2_000  # most connections are repetitions
    kind = rng.zipf(1.3, n) % kinds
    attack = rng.random(kinds) < 0.8
    numbers = {
        f"number {j}": (rng.random(kinds).round(2) * (rng.random(kinds) < 0.3))[kind] for j in range(34)
    }
    sizes = {"protocol": 3, "service": 66, "flag": 11, "logged-in": 2}
    codes = {name: ((rng.integers(size, size=kinds) + attack) % size)[kind] for name, size in sizes.items()}
    columns = [dperm.Numeric(name, 0, 1) for name in numbers]
    columns += [dperm.Categorical(name, list(range(size))) for name, size in sizes.items()]
    schema = dperm.Schema(columns)
    return schema, schema.encode(numbers | codes), np.where(attack[kind], 1.0, -1.0)


if Path(os.environ.get("DPERM_DATA", ""), "kddcup99").is_dir():
    data = dperm.datasets.load("kddcup99")
    schema, X, y = data.schema, data.X, data.y
    print("the published 10 % file")
else:
    schema, X, y = generated_connections(494_021)
    print("generated connections")
n, d = X.shape
print(f"{n:,} records, {d} columns: {X.nbytes / 1e6:.0f} MB; {8e-6 * n * d:.0f} MB as a dense matrix")

# %%
# Identical records are merged
# ----------------------------
# Sums count each distinct record as often as it occurs: the same integers, and so the same guarantee, from
# fewer rows.

rows, labels, counts = dperm.data.aggregate(X, y)
print(f"{len(labels):,} distinct records")

# %%
# Passes
# ------
# A gradient sum reads every record once. It is an exact integer sum that cannot be looked at: only a
# mechanism opens it.

row_norm = schema.row_norm(fit_intercept=True)
whole = dperm.Objective("logistic", X, y, row_norm=row_norm, fit_intercept=True)
merged = dperm.Objective("logistic", rows, labels, row_norm=row_norm, fit_intercept=True, counts=counts)
w = np.zeros(whole.dimension)


def seconds(objective):
    """Median time of a gradient sum."""
    times = []
    for _ in range(15):
        start = time.perf_counter()
        clipped_gradient_sum(objective, w, 1.0)
        times.append(time.perf_counter() - start)
    return np.median(times)


by_records = {"all records": seconds(whole), "distinct records": seconds(merged)}
for name, value in by_records.items():
    print(f"{name}: {1e3 * value:.2f} ms a pass, {n / value / 1e6:.0f} million records a second")
print(clipped_gradient_sum(whole, w, 1.0))

# %%
# A model
# -------
# Estimators take counts as well. With this much data a small budget is enough.

epsilons, scores, fit_seconds = [0.01, 0.03, 0.1, 0.3], [], []
for epsilon in epsilons:
    model = dperm.LogisticRegression(epsilon=epsilon, delta=1e-12, schema=schema, classes=[-1, 1], n_public=n)
    start = time.perf_counter()
    model.fit(rows, labels, counts=counts)
    fit_seconds.append(time.perf_counter() - start)
    found = dperm.metrics.evaluate(model, rows, labels, np.inf, 1e-12, metrics="accuracy", counts=counts)
    scores.append(found["accuracy"].value)
    print(f"epsilon {epsilon:<5} accuracy {scores[-1]:.4f}  {model.n_iter_} steps in {fit_seconds[-1]:.1f} s")

figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.plot(epsilons, scores, "o-")
axis.set(xscale="log", xlabel="epsilon", ylabel="accuracy, training records")
