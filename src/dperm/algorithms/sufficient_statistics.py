"""Linear regression from noisy sufficient statistics.

One Gaussian release of ``sum z z^T`` and ``sum z y`` together, and a ridge regression on it, in place of the
three releases of Wang, "Revisiting differentially private linear regression: optimal and adaptive
prediction & estimation in unbounded domain", UAI 2018, Algorithm 2 (AdaSSP). The spectrum of the noisy sum
takes the place of AdaSSP's separate release of the smallest eigenvalue. ``calibration="paper"`` is AdaSSP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.budget import Budget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_choice, check_positive
from dperm.mechanisms.noise import LARGEST_SCALE
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.objective.second_moments import (
    DIAGONAL,
    bound_before_rounding,
    row_grid,
    symmetric_matrix,
    unweighted_symmetric_matrix,
)
from dperm.statement.privacy_statement import PrivacyStatement

Array = NDArray[np.float64]


@needs(losses=("squared_error",), linear_prediction=True, whole_rows=True)
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
    calibration : {"tight", "paper"}
        One release with noise by the exact accounting of Gaussian differential privacy, or AdaSSP as
        published: three releases, for add_or_remove and a finite epsilon; `target_weight` does not apply,
        and `ridge` is refused.
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
        For a setting out of range, without a bound on the targets, or where the published noise does not
        give the guarantee.
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
    check_choice("calibration", calibration, ("tight", "paper"))
    target_bound = objective.loss.target_bound
    if target_bound == math.inf:
        raise ValueError("sufficient_statistics needs SquaredError(target_bound=...), a public bound on |y|")
    check_positive("target_weight", target_weight)
    if ridge is not None and not 0.0 <= ridge < math.inf:
        raise ValueError(f"ridge must be finite and at least 0, got {ridge!r}")
    mu = gdp_mu(epsilon, delta)
    budget = Budget.from_epsilon(epsilon, delta, "gdp")
    if calibration == "paper":
        if ridge is not None:
            raise ValueError("ridge does not apply to calibration='paper', which finds its own")
        multiplier = _published_multiplier(epsilon, delta, relation, budget)
        _check_noise(objective, multiplier, objective.row_norm**2, objective.row_norm)
        own = {}
    else:
        multiplier = gaussian_noise_multiplier(budget.share(1), "gdp")
        norm, target = objective.row_norm, target_weight * objective.row_norm
        sensitivity = relation.sum_factor * DIAGONAL * norm * math.hypot(norm, math.sqrt(2.0) * target)
        _check_noise(objective, multiplier, sensitivity, max(norm, target))
        own = {"target_weight": target_weight, "ridge": "by the noise" if ridge is None else ridge}
    public = public_facts(objective, calibration=calibration, target_bound=target_bound, **own)
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
    if calibration == "paper":
        run = _adassp(objective, releaser, multiplier, epsilon, delta)
    else:
        run = _one_release(objective, releaser, multiplier, target_weight, ridge)
    if callback is not None:
        callback({"iteration": 1, "coef": run.coef.copy(), "second_moments": run.moments})
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        neighbors=relation,
        mechanism="Gaussian noise on the sums of products of columns and of columns with the target",
        accountant="gdp",
        sensitivity=run.sensitivity,
        noise_scale=multiplier * run.sensitivity,
        row_norm=objective.row_norm,
        steps=run.releases,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=mu,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
    )
    return FitResult(coef=run.coef, privacy=privacy, n_iter=1, history=[{"noise": run.noise}])


@dataclass(frozen=True)
class _Run:
    """What was released, and the sensitivity of the release that `moments` come from."""

    coef: Array
    moments: Array  # sum z z^T / n, noisy
    noise: float  # standard deviation on the diagonal of the moments
    sensitivity: float
    releases: int


def _check_noise(objective: Objective, multiplier: float, sensitivity: float, longest: float) -> None:
    """Refuse, before the charge, noise too wide for the sampler, and rows for which there is no grid.

    `longest` bounds the rows and what stands for the target beside them.
    """
    grid = row_grid(longest, objective.n_public)
    bound_before_rounding(objective.row_norm, grid, objective.dimension)
    grid = grid**2
    if multiplier * sensitivity > LARGEST_SCALE * grid * (1.0 - 2.0**-40):
        raise ValueError(
            f"epsilon and delta ask for noise of {multiplier:.3g} times what a record adds, which drowns "
            f"the sums of n = {objective.n_public} records and cannot be drawn exactly. Take larger ones"
        )


def _one_release(
    objective: Objective, releaser: Releaser, multiplier: float, target_weight: float, ridge: float | None
) -> _Run:
    factor = target_weight * objective.row_norm / objective.loss.target_bound
    sums = objective.gram_sum(target_factor=factor)
    sensitivity = sums.sensitivity(releaser.neighbors)
    noisy = symmetric_matrix(releaser.gaussian_sum(sums, multiplier), target=True) / objective.n_public
    noise = multiplier * sensitivity / (DIAGONAL * objective.n_public)
    coef = _ridge_regression(objective, noisy[:-1, :-1], noisy[:-1, -1] / factor, noise, ridge)
    return _Run(coef, noisy[:-1, :-1], noise, sensitivity, releases=1)


#: Probability with which AdaSSP's ridge may be too small.
_FAILURE = 0.05


def _published_multiplier(epsilon: float, delta: float, relation: Neighbours, budget: Budget) -> float:
    """Of each of three releases: ``sqrt(log(6 / delta)) / (epsilon / 3)``."""
    if relation is not Neighbours.ADD_OR_REMOVE:
        raise ValueError("calibration='paper' of sufficient_statistics is for neighbors='add_or_remove'")
    if epsilon == math.inf:
        raise ValueError("calibration='paper' needs a finite epsilon")
    multiplier = 3.0 * math.sqrt(math.log(6.0 / delta)) / epsilon
    if not budget.fits(GaussianRelease(multiplier), 3):
        raise ValueError(
            f"calibration='paper': the published noise does not give epsilon = {epsilon!r}, delta = {delta!r}"
        )
    return multiplier


def _adassp(
    objective: Objective, releaser: Releaser, multiplier: float, epsilon: float, delta: float
) -> _Run:
    """Wang 2018, Algorithm 2."""
    d, n, square = objective.dimension, objective.n_public, objective.row_norm**2
    factor = objective.row_norm / objective.loss.target_bound  # targets on the scale of the rows
    smallest, moments, products = objective.regression_sums(factor)
    log_term, part = math.log(6.0 / delta), epsilon / 3.0
    # 1. a lower bound on the smallest eigenvalue
    lowest = releaser.gaussian_sum(smallest, multiplier)[0] - log_term / part * square
    # 2. a ridge that outweighs the noise on the others
    needed = math.sqrt(d * log_term * math.log(2.0 * d**2 / _FAILURE)) * square / part
    ridge = max(0.0, needed - max(lowest, 0.0))
    # 3. - 5. noisy sums and their regression
    sensitivity = moments.sensitivity(releaser.neighbors)
    noisy = unweighted_symmetric_matrix(releaser.gaussian_sum(moments, multiplier))
    noisy_products = releaser.gaussian_sum(products, multiplier) / factor
    penalty = ridge * np.eye(d) + n * np.diag(objective.penalty_gradient(np.ones(d)))
    coef = np.linalg.solve(noisy + penalty, noisy_products)
    return _Run(coef, noisy / n, multiplier * sensitivity / n, sensitivity, releases=3)


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
