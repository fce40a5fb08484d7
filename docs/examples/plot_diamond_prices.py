"""
Curves instead of lines: the price of a diamond
===============================================

An additive model has a curve for each number: nearly as readable as a linear model, and often far better.
Here it learns what 54,000 diamonds were sold for, one record a sale that the dealer wants to keep to himself.
The table is one that plotnine ships.
"""

# %%
# The table and its public description
# ------------------------------------
# Bounds and gradings are public: they are those of the trade. That the price rises with the weight is, too:
# the curve of ``carat`` may only rise. Colour and clarity may have an effect together. The target is the
# logarithm of the price, of which a step of 0.01 is about one per cent.

import matplotlib.pyplot as plt
import numpy as np
from plotnine.data import diamonds
from sklearn.model_selection import train_test_split

import dperm

columns = [
    dperm.Numeric("carat", 0.2, 5, transform="log1p", monotone=1),
    dperm.Numeric("depth", 50, 75),
    dperm.Numeric("table", 50, 75),
    dperm.Categorical("cut", ["Fair", "Good", "Very Good", "Premium", "Ideal"]),
    dperm.Categorical("color", list("DEFGHIJ")),
    dperm.Categorical("clarity", ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"]),
    dperm.Interaction("clarity", "color"),
]
schema = dperm.Schema(columns, ignored=["x", "y", "z", "price"])
price = np.log(diamonds["price"].to_numpy(float))
X, X_test, y, y_test = train_test_split(diamonds, price, test_size=0.2, random_state=0)

# %%
# A line, and a curve
# -------------------
# ``additive=True`` learns bins of the numbers from a twentieth of the budget first, in the same charge. The
# table is published, so that exact scores harm nobody.

terms = {"schema": schema, "threshold": np.inf, "target_bound": 10.0, "n_public": 43_000}
for epsilon in (0.1, 1.0, np.inf):
    models = [dperm.HuberRegressor(epsilon, 1e-6, additive=each, **terms).fit(X, y) for each in (False, True)]
    scores = [1 - np.var(y_test - each.predict(X_test)) / np.var(y_test) for each in models]
    print(f"epsilon = {epsilon:<4} R^2: lines {scores[0]:.3f}, curves {scores[1]:.3f}")

# %%
# What it has learned
# -------------------
# The numbers in brackets, and in the table below, say how much a column moves the logarithm of the price.
# Curves and numbers follow from what was released, and cost nothing.

model = dperm.HuberRegressor(1.0, 1e-6, additive=True, **terms).fit(X, y)
dperm.reports.ShapesDisplay.from_estimator(model)
plt.show()

# %%

model.importances()

# %%
# One prediction as a product
# ---------------------------
# Of logarithms the sum of contributions is a product of prices: what multiplies the price of this diamond, as
# against the mean of all that are tested.

parts = model.contributions(X_test)
print(X_test.iloc[0][["carat", "depth", "table", "cut", "color", "clarity", "price"]].to_dict())
for name, each in parts.items():
    print(f"{name:16} x {np.exp(each[0] - each.mean()):.2f}")
print(f"predicted {np.exp(model.predict(X_test[:1])[0]):,.0f}")

# %%
# The statement
# -------------

model.privacy_
