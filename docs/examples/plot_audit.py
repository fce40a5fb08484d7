"""
Auditing an algorithm of your own
=================================

Suppose you write private gradient descent in a few lines of numpy. Does it keep its promise? An audit trains
it many times on two data sets that differ in one record, and tries to tell which one was used. How well
that works gives a certified *lower bound* on epsilon: if it exceeds the claim, the claim is false. An audit
cannot show that a claim is true.
"""

# %%
# The algorithm
# -------------
# Ten noisy gradients, with the usual composition of Gaussian releases. One of the two versions has a bug that
# occurs in published code: it clips the mean gradient of the batch instead of each record's.

import math

import matplotlib.pyplot as plt
import numpy as np

import dperm
from dperm.audit import Transcript, epsilon_lower_bound, worst_case_neighbours

EPSILON, DELTA, STEPS = 1.0, 1e-5, 10
MU = dperm.accounting.gdp_mu(EPSILON, DELTA)


def clipped(rows, clip=0.5):
    """Rows, those longer than the clip scaled down to it."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))


def sum_of_clipped(gradients):
    """No record adds more than 0.5."""
    return clipped(gradients).sum(axis=0)


def clipped_mean(gradients):
    """The bug: one long record changes the mean by more than 0.5 over the number of records."""
    return len(gradients) * clipped(gradients.mean(axis=0))


def descent(data, seed, gradient_sum):
    """Weights after ten steps, with noise for a sum that one record changes by 0.5."""
    rng, w = np.random.default_rng(seed), np.zeros(data.X.shape[1])
    for _ in range(STEPS):
        slopes = -data.y / (1.0 + np.exp(data.y * (data.X @ w)))
        noise = rng.normal(scale=math.sqrt(STEPS) * 0.5 / MU, size=w.shape)
        w = w - 2.0 * (gradient_sum(slopes[:, None] * data.X) + noise) / data.n_public
    return w


def right(data, seed):
    """Keeps its promise."""
    return descent(data, seed, sum_of_clipped)


def wrong(data, seed):
    """Does not."""
    return descent(data, seed, clipped_mean)


# %%
# Two data sets
# -------------
# All records are alike but one, which is as long as public bounds allow and orthogonal to the others: this
# leaks the most. Rows have norm 4, so a gradient can be up to eight times as long as the clip.

pair = worst_case_neighbours("orthogonal", n=20, d=2, row_norm=4.0)

# %%
# The audit
# ---------
# Part of the 4,000 trainings is used to learn how to tell the two data sets apart; the rest, held out until
# then, certifies the bound. The method "gdp", the default, suits a claim that rests on mu-GDP, as here.

reports = {}
for fit in (right, wrong):
    reports[fit.__name__] = epsilon_lower_bound(
        fit, pair, delta=DELTA, trainings=4_000, claim=EPSILON, n_jobs=1, random_state=0
    )
    print(fit.__name__, reports[fit.__name__], sep="\n", end="\n\n")

# %%
figure, axis = plt.subplots(figsize=(5, 2.5), layout="constrained")
axis.barh(list(reports), [report.epsilon for report in reports.values()])
axis.axvline(EPSILON, color="C3", linestyle="--", label="claim")
axis.set(xlabel=f"epsilon at delta = {DELTA:g}: at least")
axis.legend()

# %%
# The algorithms of this package
# ------------------------------
# The tests audit them in the same way, and check the audit itself by halving their noise. An audit can see
# more than the final weights: :class:`dperm.audit.Transcript` observes every release.


def noisy_gd(objective, seed):
    """The same algorithm, from this package."""
    return dperm.algorithms.noisy_gd(
        objective, EPSILON, DELTA, steps=STEPS, clip=0.5, step_size=2.0, learn_scales=False, random_state=seed
    )


report = epsilon_lower_bound(
    Transcript(noisy_gd, pair), pair, delta=DELTA, trainings=2_000, claim=EPSILON, n_jobs=1, random_state=0
)
print(report)
