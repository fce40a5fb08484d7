"""Linear regression from noisy sufficient statistics.

Once scales are learned, one Gaussian release of ``sum z z^T`` and ``sum z y`` together and a ridge regression
on it, instead of the three releases of AdaSSP (Wang, UAI 2018, Algorithm 2): ``calibration="paper"``.
"""

from __future__ import annotations

import math

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms.defaults.constants import Norms, Statistics
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.preconditioner import Preconditioner
from dperm.algorithms.private_scales import ScaleNoise, scale_facts, scales_to_learn
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.requirements import needs
from dperm.mechanisms.noise import LARGEST_SCALE
from dperm.mechanisms.random_source import RandomState
from dperm.objective.gradients import check_sums
from dperm.objective.moments import (
    DIAGONAL,
    OFF_DIAGONAL,
    bound_before_rounding,
    gram_sum,
    regression_sums,
    row_grid,
    symmetric_matrix,
    target_sensitivities,
    unweighted_symmetric_matrix,
)
from dperm.objective.objective import Array, Objective


@needs(losses=("squared_error",), linear_prediction=True, whole_rows=True, unweighted=True)
def sufficient_statistics(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    learn_scales: bool | str = "auto",
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise the squared error by one noisy release of its sufficient statistics.

    Eigenvalues of the noisy second moments are raised to the spectral norm of the noise, and the weights are
    shrunk by the fraction of noise in what they explain. Pseudo-code, guarantee and proof:
    :doc:`/theory/sufficient_statistics`.

    Parameters
    ----------
    objective : Objective
        With the loss :class:`dperm.losses.SquaredError` and a finite ``target_bound``.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    learn_scales : {"auto", True, False}
        As for :func:`dperm.algorithms.noisy_gd`.
    calibration : {"tight", "paper"}
        One release with exact accounting by Gaussian differential privacy, or AdaSSP as published: three
        releases, for add_or_remove and a finite epsilon.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called once with ``{"iteration", "coef", "second_moments"}``, all released; the moments are those in
        the learned coordinates if scales are learned.

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
        if not fit.as_published:
            return _one_release(fit, learn_scales)
        scales_to_learn(fit, learn_scales, {})  # none, or an error if they are asked for
        return _adassp(fit)


_BELOW_ONE = 1.0 - 2.0**-20

_MECHANISM = "Gaussian noise on the sums of products of columns and of columns with the target"


def _check_noise(
    objective: Objective, multiplier: float, sensitivity: float, row_norm: float, grid: float
) -> None:
    """Refuse, before the charge, noise too wide for the sampler, and rows too short for their grid."""
    bound_before_rounding(row_norm, grid, objective.dimension)
    if multiplier * sensitivity > LARGEST_SCALE * grid**2 * (1.0 - 2.0**-40):
        raise ValueError(
            f"epsilon and delta require noise of {multiplier:.3g} times what a record adds, which drowns "
            f"the sums of n = {objective.n_public} records and cannot be drawn exactly. Use larger ones"
        )


def _one_release(fit: Fit, learn_scales: bool | str) -> FitResult:
    objective, weight = fit.objective, Statistics.TARGET_WEIGHT
    scales = scales_to_learn(fit, learn_scales, {})
    rest = fit.budget()
    scale_noise = ScaleNoise.of(scales, objective.loss, fit.budget(), rest)
    multiplier = fit.noise_multiplier(rest, 1)
    scale_noise.check_labels(fit)
    # A learned bound may be anywhere between powers of two. Relative to the grid, noise is widest just below
    # one of them, and rows are shortest just above.
    norm = _BELOW_ONE / max(1.0, weight) if scales.together else objective.row_norm
    sensitivity = target_sensitivities(norm, weight * norm)[fit.neighbors is Neighbours.REPLACE_ONE]
    grid = row_grid(max(norm, weight * norm), fit.n)
    _check_noise(objective, multiplier, sensitivity, 0.5 * norm if scales.together else norm, grid)
    facts = {"target_weight": weight, **scale_facts(scales)}
    release = fit.open("sufficient_statistics", fit.budget(), **facts)

    # 1. coordinates, and a constant prediction that targets are seen from
    left = fit.problem.without(scales.together)
    preconditioner = Preconditioner.learned(fit, release, scale_noise, left, Norms.SHORTENED)
    start, problem, factors = preconditioner.start, preconditioner.problem, preconditioner.factors
    norm, scale = problem.row_norm, problem.target_scale
    limit = objective.loss.target_bound if scale == math.inf else _clipped_at(problem) * scale
    factor = weight * norm / limit
    # 2. noisy second moments, and products with the targets' distances from the constant
    sums = gram_sum(
        objective,
        target_factor=factor,
        target_centre=float(start[-1]) if scale < math.inf else 0.0,
        target_limit=limit,
        transform=preconditioner.scaling,
    )
    noisy = symmetric_matrix(release.gaussian_sum(sums, multiplier), target=True) / fit.n
    noise = multiplier * sums.sensitivity(fit.neighbors) / (DIAGONAL * fit.n)
    # 3. regression
    penalty = factors * objective.penalty_gradient(np.ones(objective.dimension))
    products = noisy[:-1, -1] / factor - penalty * start
    moments = _raised(noisy[:-1, :-1], noise, norm) + np.diag(factors * penalty)
    u = np.linalg.solve(moments, products)
    u *= _shrinkage(moments, float(products @ u), noise * DIAGONAL / OFF_DIAGONAL / factor)
    coef = start + factors * u
    fit.report(1, coef, second_moments=noisy[:-1, :-1], noise=noise)
    return fit.result(coef, preconditioner.description(_MECHANISM), n_iter=1)


def _clipped_at(problem: PublicProblem) -> float:
    """Distance of targets from the constant at which they are clipped, in learned target scales.

    One in fifty is further away than a target scale. With much signal, clipping costs more than noise.
    """
    return min(max(problem.per_record().signal / Statistics.SIGNAL, 1.0), Statistics.MOST_SCALES)


#: Probability that AdaSSP's ridge is too small.
_FAILURE = 0.05


def _adassp(fit: Fit) -> FitResult:
    """Wang 2018, Algorithm 2: three releases with noise ``sqrt(log(6 / delta)) / (epsilon / 3)``."""
    objective, n, d = fit.objective, fit.n, fit.objective.dimension
    fit.check_published("sufficient_statistics")
    budget = fit.budget()
    log_term, part = math.log(6.0 / fit.delta), fit.epsilon / 3.0
    multiplier = fit.noise_multiplier(budget, 3, published=lambda: 3.0 * math.sqrt(log_term) / fit.epsilon)
    square = objective.row_norm**2
    _check_noise(objective, multiplier, square, objective.row_norm, row_grid(objective.row_norm, n))
    release = fit.open("sufficient_statistics", budget)

    factor = objective.row_norm / objective.loss.target_bound  # targets on the scale of the rows
    smallest, moments, products = regression_sums(objective, factor)
    # 1. a lower bound on the smallest eigenvalue
    lowest = release.gaussian_sum(smallest, multiplier)[0] - log_term / part * square
    # 2. a ridge that outweighs the noise on the others
    needed = math.sqrt(d * log_term * math.log(2.0 * d**2 / _FAILURE)) * square / part
    ridge = max(0.0, needed - max(lowest, 0.0))
    # 3. - 5. noisy sums and their regression
    noisy = unweighted_symmetric_matrix(release.gaussian_sum(moments, multiplier))
    noisy_products = release.gaussian_sum(products, multiplier) / factor
    penalty = ridge * np.eye(d) + n * np.diag(objective.penalty_gradient(np.ones(d)))
    coef = np.asarray(np.linalg.solve(noisy + penalty, noisy_products))
    noise = multiplier * moments.sensitivity(fit.neighbors) / n
    fit.report(1, coef, second_moments=noisy / n, noise=noise)
    return fit.result(coef, _MECHANISM, n_iter=1)


def _raised(moments: Array, noise: float, row_norm: float) -> Array:
    """Noisy second moments with eigenvalues raised to the spectral norm of the noise."""
    d = len(moments)
    values, vectors = np.linalg.eigh(moments)
    floor = Statistics.FLOOR * max(float(values[-1]), row_norm**2 / d)
    raised = np.maximum(values, max(noise * math.sqrt(2.0 * d), floor))
    return np.asarray((vectors * raised) @ vectors.T)


def _shrinkage(moments: Array, explained: float, noise: float) -> float:
    """The factor of James and Stein for a regression whose products have noise of this standard deviation.

    `explained` is the decrease of the squares, of which the noise makes about ``noise^2 tr(moments^-1)``.
    """
    by_noise = noise**2 * float(np.trace(np.linalg.inv(moments)))
    return max(0.0, 1.0 - by_noise / explained) if explained > 0.0 else 1.0
