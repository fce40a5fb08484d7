"""Linear regression from noisy sufficient statistics: AdaSSP (Wang, UAI 2018, Algorithm 2)."""

from __future__ import annotations

import math

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.requirements import needs
from dperm.mechanisms.noise import LARGEST_SCALE
from dperm.mechanisms.random_source import RandomState
from dperm.objective.gradients import check_sums
from dperm.objective.moments import (
    bound_before_rounding,
    regression_sums,
    row_grid,
    unweighted_symmetric_matrix,
)
from dperm.objective.objective import Objective


@needs(losses=("squared_error",), linear_prediction=True, whole_rows=True, unweighted=True)
def sufficient_statistics(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise the squared error by noisy releases of its sufficient statistics.

    A ridge term outweighs the noise on the eigenvalues of the second moments, as far as the smallest of them
    does not. Pseudo-code, guarantee and proof: :doc:`/theory/sufficient_statistics`.

    Parameters
    ----------
    objective : Objective
        With the loss :class:`dperm.losses.SquaredError` and a finite ``target_bound``.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    calibration : {"tight", "paper"}
        Exact accounting by Gaussian differential privacy, or the published noise, for add_or_remove and a
        finite epsilon.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called once with ``{"iteration", "coef", "second_moments"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    All releases are (epsilon, delta)-DP together; the regression is post-processing.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> loss = dperm.losses.SquaredError(target_bound=1.0)
    >>> objective = dperm.Objective(loss, X, X @ [1.0, -1.0])
    >>> result = sufficient_statistics(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> result.coef.round()
    array([ 1., -1.])
    """
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        check_sums(objective, gram=True)
        if objective.loss.target_bound == math.inf:
            raise ValueError(
                "sufficient_statistics needs SquaredError(target_bound=...), a public bound on |y|"
            )
        fit.warn_if_slow("sufficient_statistics", "noisy_gd")
        return _adassp(fit)


#: Probability that the ridge term is too small.
_FAILURE = 0.05


def _adassp(fit: Fit) -> FitResult:
    objective, n, d = fit.objective, fit.n, fit.objective.dimension
    fit.check_published("sufficient_statistics")
    budget = fit.budget()
    log_term = math.log(6.0 / fit.delta)  # of the published noise
    multiplier = fit.noise_multiplier(budget, 3, published=lambda: math.sqrt(log_term) / (fit.epsilon / 3.0))
    _check_noise(objective, multiplier * fit.neighbors.sum_factor)
    release = fit.open("sufficient_statistics", budget)

    factor = objective.row_norm / objective.loss.target_bound  # targets on the scale of the rows
    smallest, moments, products = regression_sums(objective, factor)
    noise = multiplier * moments.sensitivity(fit.neighbors)
    # 1. a lower bound on the smallest eigenvalue
    lowest = release.gaussian_sum(smallest, multiplier)[0] - math.sqrt(log_term) * noise
    # 2. a ridge that outweighs the noise on the others
    needed = math.sqrt(d * math.log(2.0 * d**2 / _FAILURE)) * noise
    ridge = max(0.0, needed - max(lowest, 0.0))
    # 3. - 5. noisy sums and their regression
    noisy = unweighted_symmetric_matrix(release.gaussian_sum(moments, multiplier))
    noisy_products = release.gaussian_sum(products, multiplier) / factor
    penalty = ridge * np.eye(d) + n * np.diag(objective.penalty_gradient(np.ones(d)))
    coef = np.linalg.lstsq(noisy + penalty, noisy_products)[0]
    fit.report(1, coef, second_moments=noisy / n, noise=noise / n)
    mechanism = (
        "Gaussian noise on the sums of products of columns, on the smallest eigenvalue of these, and on the "
        "sums of products of columns with the target"
    )
    return fit.result(coef, mechanism, n_iter=1)


def _check_noise(objective: Objective, multiplier: float) -> None:
    """Refuse, before the charge, noise too wide for the sampler, and rows too short for their grid."""
    row_norm, n = objective.row_norm, objective.n_public
    grid = row_grid(row_norm, n)
    bound_before_rounding(row_norm, grid, objective.dimension)
    if multiplier * row_norm**2 > LARGEST_SCALE * grid**2 * (1.0 - 2.0**-10):  # less what is rounded up
        raise ValueError(
            f"epsilon and delta require noise of {multiplier:.3g} times what a record adds, which drowns "
            f"the sums of n = {n} records and cannot be drawn exactly. Use larger ones"
        )
