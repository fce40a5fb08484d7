"""Linear regression from noisy sufficient statistics.

One Gaussian release of ``sum z z^T`` and ``sum z y`` together, and a ridge regression on it, in place of the
three releases of Wang, "Revisiting differentially private linear regression: optimal and adaptive
prediction & estimation in unbounded domain", UAI 2018, Algorithm 2 (AdaSSP). The spectrum of the noisy sum
takes the place of AdaSSP's separate release of the smallest eigenvalue.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.budget import Budget
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_positive
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective import Objective
from dperm.privacy_statement import PrivacyStatement
from dperm.second_moments import DIAGONAL, symmetric_matrix

Array = NDArray[np.float64]


@needs(losses=("squared_error",), linear_prediction=True)
def sufficient_statistics(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    target_weight: float = 0.7,
    ridge: float | None = None,
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise the squared error by one noisy release of its sufficient statistics.

    Parameters
    ----------
    objective : Objective
        With the loss :class:`dperm.losses.SquaredError` and a finite ``target_bound``.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    target_weight : float
        Weight of the targets beside the rows, which shifts accuracy between the two sums: at 1 the largest
        target weighs as much as the longest row.
    ridge : float, optional
        Added to the eigenvalues of the noisy ``sum z z^T / n`` beside ``objective.l2``, at least 0.
        Default: by the size of that sum's noise. Eigenvalues then count at least that much.
    calibration : {"tight"}
        Noise by the exact accounting of Gaussian differential privacy.
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    ledger : PrivacyLedger, optional
        Charged (epsilon, delta) once, before anything is drawn.
    random_state : None, int or Generator
        None: cryptographic noise.
    callback : callable, optional
        Called once with ``{"iteration", "coef", "second_moments"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, or without a bound on the targets.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    With ``t = target_weight row_norm / target_bound`` the release is the triangle of
    ``sum (z, t y) (z, t y)^T`` without its last entry: one Gaussian mechanism, of sensitivity
    ``sqrt(R^4 + 2 R^2 (t Y)^2)`` in the Frobenius norm for a record added or removed. Everything after it is
    post-processing. The default ridge follows the noise's spectral norm, about ``sigma sqrt(2 d)``, less what
    the eigenvalues above that level tell: the estimate shrinks directions that noise dominates instead of
    amplifying it.
    """
    relation = Neighbours.parse(neighbors)
    if calibration != "tight":
        raise ValueError(f"calibration of sufficient_statistics must be 'tight', got {calibration!r}")
    target_bound = objective.loss.target_bound
    if target_bound == math.inf:
        raise ValueError("sufficient_statistics needs SquaredError(target_bound=...), a public bound on |y|")
    check_positive("target_weight", target_weight)
    if ridge is not None and not 0.0 <= ridge < math.inf:
        raise ValueError(f"ridge must be finite and at least 0, got {ridge!r}")
    mu = gdp_mu(epsilon, delta)
    budget = Budget.from_epsilon(epsilon, delta, "gdp")
    multiplier = gaussian_noise_multiplier(budget.share(1), "gdp")
    public = public_facts(
        objective,
        calibration=calibration,
        target_bound=target_bound,
        target_weight=target_weight,
        ridge="by the noise" if ridge is None else ridge,
    )
    releaser = Releaser(
        epsilon,
        delta,
        budget,
        neighbors=relation,
        ledger=ledger,
        random_state=random_state,
        description="sufficient_statistics",
        statement=public,
    )
    factor = target_weight * objective.row_norm / target_bound
    sums = objective.gram_sum(target_factor=factor)
    sensitivity = sums.sensitivity(relation)
    noisy = symmetric_matrix(releaser.gaussian_sum(sums, multiplier), target=True) / objective.n_public
    noise = multiplier * sensitivity / (DIAGONAL * objective.n_public)
    coef = _ridge_regression(objective, noisy[:-1, :-1], noisy[:-1, -1] / factor, noise, ridge)
    released: dict[str, Any] = {"coef": coef.copy(), "second_moments": noisy[:-1, :-1]}
    if callback is not None:
        callback({"iteration": 1, **released})
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        neighbors=relation,
        mechanism="Gaussian noise on the sums of products of columns and of columns with the target",
        accountant="gdp",
        sensitivity=sensitivity,
        noise_scale=multiplier * sensitivity,
        row_norm=objective.row_norm,
        steps=1,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=mu,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=1, history=[{"noise": noise}])


def _ridge_regression(
    objective: Objective, moments: Array, products: Array, noise: float, ridge: float | None
) -> Array:
    """Solve for the weights in the eigenvectors of the noisy moments, none of them below the noise."""
    d = objective.dimension
    penalty = np.diag(objective.penalty_gradient(np.ones(d)))
    values, vectors = np.linalg.eigh(moments)
    if ridge is None:
        level = noise * math.sqrt(2.0 * d)
        # An eigenvalue below the level is worth no more than the level; one above keeps its own.
        raised = np.maximum(values, level)
    else:
        raised = np.maximum(values, 0.0) + ridge
    floor = 1e-12 * max(float(values[-1]), objective.row_norm**2 / d)
    matrix = (vectors * np.maximum(raised, floor)) @ vectors.T + penalty
    return np.asarray(np.linalg.solve(matrix, products))
