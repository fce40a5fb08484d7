"""The constant classifier: predicts the most frequent class."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult, Terms
from dperm.objective.counts import class_counts, label_sum


@dataclass
class MajorityArguments(Terms):
    """Arguments of :func:`majority`."""

    epsilon: float = math.inf
    delta: float = 1e-6


@algorithm(MajorityArguments, labels=True, intercept=True, unweighted=True)
def majority(fit: Fit, given: MajorityArguments) -> FitResult:
    """Predict the most frequent class, from noisy counts.

    Parameters
    ----------
    objective : Objective
        A classification objective with an intercept, the only weight that is fitted.
    epsilon : float
        Infinite (the default) takes the exact count: nothing is protected, and the result says so.
    callback : callable, optional
        Called once with ``{"iteration", "coef"}``.

    Returns
    -------
    FitResult
        All weights are 0 except the intercept: the log-odds of the noisy share of positive labels, or for
        softmax the logarithm of each class's noisy share.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> y = np.where(X[:, 0] > 0.25, 1, -1)
    >>> objective = dperm.Objective("logistic", X, y, row_norm=1.3, fit_intercept=True)
    >>> result = majority(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> result.coef.round(1)  # the log-odds of a quarter
    array([ 0. ,  0. , -1.1])
    """
    objective, n, budget = fit.objective, fit.n, fit.budget()
    multiplier = fit.noise_multiplier(budget, 1)
    release = fit.open("majority", budget)
    per_class = objective.loss.n_classes is not None
    noisy = release.gaussian_sum(class_counts(objective) if per_class else label_sum(objective), multiplier)
    coef = np.zeros(objective.shape)
    # Shares are kept half a record away from 0 and 1.
    if per_class:
        counts = np.maximum(noisy, 0.5)
        coef[-1] = np.log(counts / counts.sum())
    else:
        share = min(max((noisy[0] / n + 1.0) / 2.0, 0.5 / n), 1.0 - 0.5 / n)
        coef[-1] = math.log(share / (1.0 - share))
    coef[-1] /= min(1.0, objective.row_norm)
    fit.report(1, coef, **({"class_counts": noisy} if per_class else {"label_sum": float(noisy[0])}))
    return fit.result(coef, f"Gaussian (noisy {'counts' if per_class else 'sum'} of labels)", n_iter=1)
