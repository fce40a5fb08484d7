"""The constant classifier: predicts the most frequent class."""

from __future__ import annotations

import math

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.requirements import needs
from dperm.mechanisms.random_source import RandomState
from dperm.objective.counts import class_counts, label_sum
from dperm.objective.objective import Objective


@needs(labels=True, intercept=True, unweighted=True)
def majority(
    objective: Objective,
    epsilon: float = math.inf,
    delta: float = 1e-6,
    *,
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Predict the most frequent class, from noisy counts.

    Pseudo-code, guarantee and proof: :doc:`/theory/majority`.

    Parameters
    ----------
    objective : Objective
        A classification objective with an intercept, the only weight that is fitted.
    epsilon : float
        Infinite (the default) takes the exact count: nothing is protected, and the result says so.
    delta : float
        Strictly between 0 and 1.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called once with ``{"iteration", "coef"}``.

    Returns
    -------
    FitResult
        All weights are 0 except the intercept: the log-odds of the noisy fraction of positive labels, or for
        softmax the logarithm of each class's noisy fraction.

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

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
    with Fit(
        objective, epsilon, delta, neighbors=neighbors, ledger=ledger, random_state=random_state,
        callback=callback,
    ) as fit:  # fmt: skip
        n, budget = fit.n, fit.budget()
        multiplier = fit.noise_multiplier(budget, 1)
        release = fit.open("majority", budget)
        per_class = objective.loss.n_classes is not None
        counts = class_counts(objective) if per_class else label_sum(objective)
        noisy = release.gaussian_sum(counts, multiplier)
        coef = np.zeros(objective.shape)
        # Fractions are kept half a record away from 0 and 1.
        if per_class:
            frequencies = np.maximum(noisy, 0.5)
            coef[-1] = np.log(frequencies / frequencies.sum())
        else:
            positive = min(max((noisy[0] / n + 1.0) / 2.0, 0.5 / n), 1.0 - 0.5 / n)
            coef[-1] = math.log(positive / (1.0 - positive))
        coef[-1] /= min(1.0, objective.row_norm)
        fit.report(1, coef, **({"class_counts": noisy} if per_class else {"label_sum": float(noisy[0])}))
        return fit.result(coef, f"Gaussian (noisy {'counts' if per_class else 'sum'} of labels)", n_iter=1)
