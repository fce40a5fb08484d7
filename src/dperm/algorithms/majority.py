"""The constant classifier: the class that most records are in."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.budget import Budget
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.requirements import needs
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.statement.privacy_statement import PrivacyStatement


@needs(labels=True, intercept=True)
def majority(
    objective: Objective,
    epsilon: float = math.inf,
    delta: float = 1e-6,
    *,
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Predict the most frequent class, from noisy counts.

    Parameters
    ----------
    objective : Objective
        A classification objective with an intercept, which carries the answer.
    epsilon : float
        Infinite (the default) takes the exact count: nothing is protected and the result says so.
    delta : float
        Strictly between 0 and 1.
    neighbors, ledger, random_state
        As for :func:`dperm.algorithms.noisy_gd`.
    callback : callable, optional
        Called once with ``{"iteration", "coef"}``.

    Returns
    -------
    FitResult
        All weights 0 but the intercept: the log-odds of the noisy share of positive labels, or, with more
        than one weight per column, the logarithm of each class's noisy share.

    Notes
    -----
    The sum of the labels changes by 1 (add_or_remove) or 2 (replace_one) between neighbours, the vector of
    the counts of classes by 1 or sqrt(2); either is released once with exactly sampled Gaussian noise of
    the analytic scale.
    """
    budget = Budget.from_epsilon(epsilon, delta, "gdp")
    releaser = Releaser(
        epsilon,
        delta,
        budget,
        neighbors=neighbors,
        ledger=ledger,
        random_state=random_state,
        description="majority",
        statement=public_facts(objective),
    )
    per_class = objective.loss.n_classes is not None
    counted = objective.class_counts() if per_class else objective.label_sum()
    multiplier = gaussian_noise_multiplier(budget.share(parts=1), "gdp")
    noisy = releaser.gaussian_sum(counted, multiplier)
    coef = np.zeros(objective.shape)
    coef[-1] = _log_shares(noisy) if per_class else _log_odds(noisy[0], objective)
    coef[-1] /= min(1.0, objective.row_norm)
    if callback is not None:
        callback({"iteration": 1, "coef": coef.copy()})
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta if epsilon < math.inf else 0.0,
        neighbors=neighbors,
        mechanism=f"Gaussian (noisy {'counts' if per_class else 'sum'} of labels)",
        accountant="gdp",
        sensitivity=counted.sensitivity(neighbors),
        noise_scale=multiplier * counted.sensitivity(neighbors),
        row_norm=objective.row_norm,
        steps=1,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=gdp_mu(epsilon, delta),
        ledger=ledger_note(ledger, epsilon, delta),
        public=public_facts(objective),
    )
    released = {"class_counts": noisy} if per_class else {"label_sum": float(noisy[0])}
    return FitResult(coef=coef, privacy=privacy, n_iter=1, history=[released])


# Shares are kept half a record away from 0 and 1: post-processing.


def _log_odds(noisy_sum: float, objective: Objective) -> float:
    n = objective.n_public
    share = min(max((noisy_sum / n + 1.0) / 2.0, 0.5 / n), 1.0 - 0.5 / n)
    return math.log(share / (1.0 - share))


def _log_shares(noisy_counts: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.maximum(noisy_counts, 0.5)
    return np.asarray(np.log(shares / shares.sum()))
