"""
Credit scoring: one default in twenty
=====================================

If one class is rare, the most accurate model may be one that never predicts it. This example shows which
metrics to use, how to choose a threshold from costs, and what privacy costs, on **generated** loans.
"""

# %%
# Loans
# -----
# 60,000 loans, of which about 5 % default. The bounds of the columns are public: they are on the form that
# applicants fill in.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, train_test_split

import dperm

rng = np.random.default_rng(0)
n = 60_000
loans = pd.DataFrame(
    {
        "income": np.clip(rng.lognormal(10.4, 0.5, n), 5_000, 500_000).round(),
        "debt-ratio": rng.beta(2.0, 4.0, n),
        "late-payments": np.minimum(rng.poisson(0.4, n), 10),
        "years-employed": np.clip(rng.gamma(2.0, 4.0, n), 0, 50).round(1),
        "home": rng.choice(["own", "mortgage", "rent"], n, p=[0.2, 0.45, 0.35]),
    }
)
risk = 3.2 * loans["debt-ratio"] + 0.9 * loans["late-payments"] - 0.9 * np.log(loans["income"] / 30_000)
risk += 0.5 * (loans["home"] == "rent") - 0.04 * loans["years-employed"]
default = (risk + rng.logistic(size=n) > 4.7).to_numpy().astype(int)
X, X_test, y, y_test = train_test_split(loans, default, test_size=0.3, random_state=0)

schema = dperm.Schema(
    [
        dperm.Numeric("income", 5_000, 500_000, transform="log1p"),
        dperm.Numeric("debt-ratio", 0, 1),
        dperm.Numeric("late-payments", 0, 10),
        dperm.Numeric("years-employed", 0, 50),
        dperm.Categorical("home", ["own", "mortgage", "rent"]),
    ]
)

# %%
# Accuracy says little
# --------------------
# The model hardly ever predicts a default, and is right about as often as the constant "no default".

terms = {"schema": schema, "classes": [0, 1], "n_public": 42_000}  # about how many, which is no secret
model = dperm.LogisticRegression(epsilon=1.0, delta=1e-6, **terms).fit(X, y)
metrics = ["accuracy", "balanced_accuracy", "precision", "recall", "roc_auc", "average_precision"]
print(dperm.metrics.evaluate(model, X_test, y_test, 1.0, 1e-6, metrics=metrics))

# %%
# A threshold from costs
# ----------------------
# With a rare class, use the probabilities. If a default costs twelve times as much as refusing a good loan,
# refuse loans whose probability of default is above 1/13. The costs are public, so this is free.
# scikit-learn's wrapper makes this rule a classifier, which is evaluated like any other.

careful = FixedThresholdClassifier(FrozenEstimator(model), threshold=1 / 13).fit(X[:2], [0, 1])
print(dperm.metrics.evaluate(careful, X_test, y_test, 1.0, 1e-6, metrics=metrics[:4]))

# %%
# Or weights from costs
# ---------------------
# With the costs as public class weights, the model itself makes about the same decisions as with the
# threshold. Its probabilities are then those of loans among which the odds of default are twelve times as
# high: prefer the threshold if you need probabilities, and weights for models that have none, such as
# `LinearSVC`.

weighted = dperm.LogisticRegression(1.0, 1e-6, **terms, class_weight={1: 12.0})
weighted.fit(X, y)
print(dperm.metrics.evaluate(weighted, X_test, y_test, 1.0, 1e-6, metrics=metrics[:4]))

# %%
# What privacy costs
# ------------------
# Ranking by risk works even with small budgets; calibrated probabilities need larger ones. The loans are
# generated, so exact scores harm nobody.

budgets = [0.05, 0.1, 0.3, 1.0, 3.0]
found = []
for epsilon in budgets:
    own = model.set_params(epsilon=epsilon).fit(X, y)
    found.append(dperm.metrics.evaluate(own, X_test, y_test, np.inf, 1e-6, metrics=["roc_auc", "brier"]))
exact = dperm.LogisticRegression(epsilon=np.inf, schema=schema, classes=[0, 1]).fit(X, y)
best = dperm.metrics.evaluate(exact, X_test, y_test, np.inf, 1e-6, metrics=["roc_auc", "brier"])

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for axis, name in zip(axes, ["roc_auc", "brier"], strict=True):
    axis.plot(budgets, [each[name].value for each in found], "o-", label="private")
    axis.axhline(best[name].value, color="gray", linestyle="--", label="without privacy")
    axis.set(xscale="log", xlabel="epsilon", title=name)
    axis.legend()
