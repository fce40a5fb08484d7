"""The constant classifier: the label that most records carry."""

from __future__ import annotations

import math

import numpy as np

from dperm.accounting.budget import Budget
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger import PrivacyLedger
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.requirements import needs
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective import Objective
from dperm.privacy_statement import PrivacyStatement


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
    """Predict the more frequent label, from one noisy count.

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
        All weights 0 but the intercept, the log-odds of the noisy share of positive labels.

    Notes
    -----
    The sum of the labels changes by 1 (add_or_remove) or 2 (replace_one) between neighbours; it is
    released once with exactly sampled Gaussian noise of the analytic scale.
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
    label_sum = objective.label_sum()
    multiplier = gaussian_noise_multiplier(budget.share(parts=1), "gdp")
    noisy_sum = float(releaser.gaussian_sum(label_sum, multiplier)[0])
    # Share of positive labels, kept half a record away from 0 and 1: post-processing.
    n = objective.n_public
    share = min(max((noisy_sum / n + 1.0) / 2.0, 0.5 / n), 1.0 - 0.5 / n)
    coef = np.zeros(objective.dimension)
    coef[-1] = math.log(share / (1.0 - share)) / min(1.0, objective.row_norm)
    if callback is not None:
        callback({"iteration": 1, "coef": coef.copy()})
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta if epsilon < math.inf else 0.0,
        neighbors=neighbors,
        mechanism="Gaussian (one noisy sum of labels)",
        accountant="gdp",
        sensitivity=label_sum.sensitivity(neighbors),
        noise_scale=multiplier * label_sum.sensitivity(neighbors),
        row_norm=objective.row_norm,
        steps=1,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=gdp_mu(epsilon, delta),
        ledger=ledger_note(ledger, epsilon, delta),
        public=public_facts(objective),
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=1, history=[{"label_sum": noisy_sum}])
