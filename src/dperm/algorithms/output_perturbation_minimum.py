"""Output perturbation of the exact minimiser of a strongly convex objective.

Chaudhuri, Monteleoni and Sarwate, "Differentially private empirical risk minimization", JMLR 2011,
Algorithm 1, with a certified instead of an exact minimiser and Gaussian noise as an alternative.
"""

from __future__ import annotations

import math

from dperm.accounting import Neighbours, gaussian_or_norm_laplace, paper
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.output_noise import (
    OutputNoise,
    SecretTrainingTerms,
    noise_law,
    norm_laplace_noise,
    output_noise,
    publish,
)
from dperm.algorithms.rules_of_thumb import output_reach
from dperm.algorithms.settings import Schedule, Setting
from dperm.objective.bounded_training import Minimisation, PublicConstants, released_sensitivity
from dperm.objective.objective import Objective

EXACT_MINIMISER = (
    "The published noise is for an exact minimiser. This one is certified to lie close to it, and is "
    "rounded; where the proof needs it, the noise is wider by what that adds to the sensitivity."
)


class OutputPerturbationMinimumArguments(Schedule, SecretTrainingTerms):
    """Arguments of :func:`output_perturbation_minimum`.

    Attributes
    ----------
    extra_l2 : float
        Strength of a further ridge term on every weight, at least 0. By default from public numbers: see
        :func:`default_extra_l2`; 0 is the published algorithm.
    """

    extra_l2: Setting[float] = Setting(check.non_negative)


def default_extra_l2(objective: Objective, epsilon: float, delta: float, relation: Neighbours) -> float:
    """The further ridge term that minimises ``extra D^2/2 + (beta/d + l2 + extra) E||z||^2/2``.

    That is what it costs an optimum at distance D and what noise z costs under a Hessian of trace ``beta``
    beside the ridge terms, to which its length is inversely proportional.
    """
    c = PublicConstants.of(objective)
    distance = output_reach(objective.loss, c.row_norm, c.strong)
    if epsilon == math.inf:
        return 0.0

    def risk(extra: float) -> float:
        moved = relation.sum_factor * c.lipschitz / (c.n * (c.strong + extra))
        noise = gaussian_or_norm_laplace(epsilon, delta, c.dimension, moved).mean_square(c.dimension)
        return 0.5 * (extra * distance**2 + (c.beta / c.dimension + c.strong + extra) * noise)

    return min([0.0, *(c.beta * 2.0**-k for k in range(-10, 40))], key=risk)


@algorithm(
    OutputPerturbationMinimumArguments,
    convex=True,
    smooth=True,
    lipschitz=True,
    strongly_convex=True,
    linear_prediction=True,
)
def output_perturbation_minimum(fit: Fit, given: OutputPerturbationMinimumArguments) -> FitResult:
    """Find the minimiser in secret and publish it with noise.

    Parameters
    ----------
    objective : Objective
        Convex, smooth, of bounded slope, with ``l2 > 0`` on every weight (``penalize_intercept=True``). The
        noise is inversely proportional to ``l2 + extra_l2``.
    calibration : {"tight", "paper"}
        "paper": noise of the published scale ``2 L/(n l2 epsilon)``, L the Lipschitz constant of the
        loss, for ``delta=0``, ``replace_one`` and a finite epsilon. What an approximate minimiser and
        rounding add to the sensitivity, about 0.3 %, is added to it where the loss leaves no room.

    Returns
    -------
    FitResult
        ``n_iter`` is 1: how long the solver took depends on the records and is not told.

    Notes
    -----
    The published weights alone are (epsilon, delta)-DP: one record moves the minimiser by at most ``s L/(n
    l2)``, s = 2 or 1 (Lemma 7 of the paper; less for the logistic loss with a large ridge term), and the
    computed point lies within ``tau/l2`` of it on either data set. Its gradient, rounding errors included, is
    *certified* to be no longer than tau, which is a thousandth of what one record adds or what arithmetic
    reaches for sure. A quasi-Newton method finds it; should that fail, gradient descent does within a known
    number of steps.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]), l2=0.1)
    >>> result = output_perturbation_minimum(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    c = PublicConstants.of(fit.objective)
    rule = 0.0 if fit.as_published else default_extra_l2(fit.objective, fit.epsilon, fit.delta, fit.neighbors)
    extra_l2 = given.completed(extra_l2=rule).extra_l2
    if fit.as_published and extra_l2 > 0.0:
        raise ValueError("calibration='paper' of output_perturbation_minimum has no extra_l2")
    training = Minimisation.with_tolerance(fit.objective, 2.0**-10 * c.lipschitz / c.n, extra_l2=extra_l2)
    noise = _published_noise(fit, training, given.mechanism) if fit.as_published else None
    return publish(
        fit,
        "output_perturbation_minimum",
        training,
        noise or output_noise(fit, noise_law(fit, given.mechanism)),
        words="exact minimisation",
        steps=None,
        notes=(EXACT_MINIMISER,) if fit.as_published else (),
        extra_l2=extra_l2,
        tolerance=training.tolerance,
    )


def _published_noise(fit: Fit, training: Minimisation, mechanism: str) -> OutputNoise:
    """Algorithm 1 of the paper, and no less than what the program's own sensitivity needs."""
    if fit.delta != 0.0:
        raise ValueError(f"calibration='paper' of output_perturbation_minimum has delta=0, got {fit.delta!r}")
    if mechanism not in ("auto", "norm_laplace"):
        raise ValueError(f"calibration='paper' has norm-Laplace noise, got mechanism={mechanism!r}")
    fit.check_published("output_perturbation_minimum", neighbors="replace_one")
    c = PublicConstants.of(fit.objective)
    scale = paper.output_perturbation_minimum(fit.epsilon, n_samples=c.n, lipschitz=c.lipschitz, l2=c.strong)
    sensitivity = released_sensitivity(training, fit.objective, fit.neighbors)
    return norm_laplace_noise(min(fit.epsilon, sensitivity / scale))
