"""
A regression with confidence intervals
======================================

What is a year of schooling worth? When the coefficients themselves are the result, they need standard
errors that account for the noise as well as for sampling. Wages are **generated**, so the truth is known.
"""

# %%
# Wages
# -----

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dperm

rng = np.random.default_rng(1)
n = 60_000
people = pd.DataFrame(
    {
        "schooling": np.clip(rng.normal(12.5, 2.5, n).round(), 6, 20),
        "experience": rng.uniform(0, 40, n).round(1),
        "sector": rng.choice(["private", "public", "charity"], n, p=[0.7, 0.2, 0.1]),
    }
)
TRUTH = {"schooling": 0.08, "experience": 0.012, "sector=public": -0.06, "sector=charity": -0.15}
log_wage = 1.4 + TRUTH["schooling"] * people["schooling"] + TRUTH["experience"] * people["experience"]
log_wage += people["sector"].map({"private": 0.0, "public": -0.06, "charity": -0.15})
log_wage = (log_wage + 0.35 * rng.standard_t(4, n)).to_numpy()  # heavier tails than the normal distribution's

# %%
# Public knowledge
# ----------------
# Bounds on the columns, a bound on the targets (log wages lie between 0 and 5 before they are centred at
# 2.5), and Huber's threshold: about twice the standard deviation of the residuals, as well as that can be
# known in advance.

schema = dperm.Schema(
    [
        dperm.Numeric("schooling", 6, 20),
        dperm.Numeric("experience", 0, 40),
        dperm.Categorical("sector", ["private", "public", "charity"]),
    ]
)
model = dperm.HuberRegressor(
    1.0, 1e-6, threshold=0.7, target_bound=2.5, schema=schema, n_public=n, solver="noisy_newton"
)
model.fit(people, log_wage - 2.5)

# %%
# The table
# ---------
# ``noise`` is the part of an interval's width that is due to privacy. The first level of each factor is left
# out; the coefficients of the others are differences from it. Numbers are scaled to [0, 1] by their bounds,
# so the effect of schooling is that of 14 years.

print(model.summary())

# %%
# Do intervals cover the truth?
# -----------------------------
# The same analysis on thirty other samples of people, with epsilon = 0.5. About one in twenty of the 95 %
# intervals should miss.


def interval(seed):
    """Estimate and interval of the effect of 14 years of schooling, on a new sample."""
    rng = np.random.default_rng(seed)
    own = people.sample(n=20_000, replace=True, random_state=seed)
    mean = 1.4 + 0.08 * own["schooling"] + 0.012 * own["experience"]
    mean += own["sector"].map({"private": 0.0, "public": -0.06, "charity": -0.15})
    targets = mean.to_numpy() + 0.35 * rng.standard_t(4, len(own)) - 2.5
    fitted = model.set_params(epsilon=0.5, n_public=20_000).fit(own, targets)
    return fitted.coef_.ravel()[0], *fitted.conf_int()[0]


estimates = np.array([interval(seed) for seed in range(30)])
truth = 14 * TRUTH["schooling"]
covered = (estimates[:, 1] <= truth) & (truth <= estimates[:, 2])
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
for k, (value, low, high) in enumerate(estimates):
    axis.plot([low, high], [k, k], color="C0" if covered[k] else "C3")
    axis.plot(value, k, ".", color="C0" if covered[k] else "C3")
axis.axvline(truth, color="gray", linestyle="--")
axis.set(
    xlabel="effect of 14 years of schooling on the log wage", yticks=[], title=f"{covered.sum()} of 30 cover"
)
