"""Output perturbation of the exact minimiser of a strongly convex objective.

Chaudhuri, Monteleoni and Sarwate, JMLR 2011, Algorithm 1, with a certified approximate minimiser and Gaussian
noise as an alternative. In phases: Feldman, Koren and Talwar, STOC 2020, Algorithm 3.
"""

from __future__ import annotations

import math

import numpy as np

from dperm.accounting import Neighbours, gaussian_or_norm_laplace, paper
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.output_noise import (
    DISJOINT,
    LAWS,
    SECRET_ITERATES,
    OutputNoise,
    SecretTrainingTerms,
    add_or_remove_note,
    clip_for,
    for_disjoint_parts,
    noise_law,
    norm_laplace_noise,
    output_noise,
    parts_of_phases,
    publish,
)
from dperm.algorithms.rules_of_thumb import output_reach
from dperm.algorithms.settings import Schedule, Setting
from dperm.mechanisms.random_source import random_bits
from dperm.mechanisms.sampling import permutation
from dperm.objective.bounded_training import Minimisation, PublicConstants, released_sensitivity
from dperm.objective.objective import Array, Objective

EXACT_MINIMISER = (
    "The published noise is for an exact minimiser. This one is certified to lie close to it, and is "
    "rounded; where the proof needs it, the noise is wider by what that adds to the sensitivity."
)


class OutputPerturbationMinimumArguments(Schedule, SecretTrainingTerms):
    """Arguments of :func:`output_perturbation_minimum`.

    Attributes
    ----------
    clip : float
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it. By default from
        public numbers: see :func:`dperm.algorithms.output_noise.default_clip`.
    extra_l2 : float
        Strength of a further ridge term on every weight, at least 0. By default from public numbers: see
        :func:`default_extra_l2`; 0 is the published algorithm. With phases it is that of the first one; the
        term is centred at the weights released before, and gets 8 times as strong from phase to phase.
    phases : int
        Number of phases. Each gets half of the remaining records. About ``log2(n)`` in the paper; for records
        in memory.
    """

    clip: Setting[float] = Setting(check.clip_norm_or_infinite)
    extra_l2: Setting[float] = Setting(check.non_negative)
    phases: Setting[int] = Setting(check.positive_integer, 1)


def default_extra_l2(
    objective: Objective, epsilon: float, delta: float, relation: Neighbours, clip: float = math.inf
) -> float:
    """The further ridge term that minimises ``extra D^2/2 + (beta/d + l2 + extra) E||z||^2/2``.

    The first term is its cost at an optimum at distance D, the second the cost of the noise z under a Hessian
    of trace ``beta`` plus the ridge terms. The noise is inversely proportional to the ridge terms.
    """
    c = PublicConstants.of(objective, clip=clip)
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
    strongly_convex=True,
    linear_prediction=True,
)
def output_perturbation_minimum(fit: Fit, given: OutputPerturbationMinimumArguments) -> FitResult:
    """Find the minimiser in secret and publish it with noise.

    Parameters
    ----------
    objective : Objective
        Convex and smooth, with ``l2 > 0`` on every weight (``penalize_intercept=True``). The noise is
        proportional to ``clip / (l2 + extra_l2)``.
    calibration : {"tight", "paper"}
        "paper": noise of the published scale ``2 L/(n l2 epsilon)``, L the Lipschitz constant of the
        loss, for ``delta=0``, ``replace_one`` and a finite epsilon. Approximation and rounding increase it
        by about 0.3 %, unless the loss leaves room for them.

    Returns
    -------
    FitResult
        ``n_iter`` is the number of phases: the solver's running time depends on the records and stays secret.

    Notes
    -----
    Only the published weights are (epsilon, delta)-DP. The gradient norm of the computed point is *certified*
    to be at most a thousandth of one record's contribution, or what double precision can guarantee. A
    quasi-Newton method finds it; if that fails, gradient descent does within a known number of steps.

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
    given = given.completed(clip=clip_for(fit))
    if given.phases > 1:
        return _in_phases(fit, given)
    rule = 0.0
    if not fit.as_published:
        rule = default_extra_l2(fit.objective, fit.epsilon, fit.delta, fit.neighbors, given.clip)
    given = given.completed(extra_l2=rule)
    if fit.as_published and (given.extra_l2 > 0.0 or given.clip < math.inf):
        raise ValueError("calibration='paper' of output_perturbation_minimum has no extra_l2 and no clip")
    training = _training(fit.objective, given)
    noise = _published_noise(fit, training, given.mechanism) if fit.as_published else None
    return publish(
        fit,
        "output_perturbation_minimum",
        training,
        noise or output_noise(fit, noise_law(fit, given.mechanism)),
        words="exact minimisation",
        steps=None,
        notes=(EXACT_MINIMISER,) if fit.as_published else (),
        clip=given.clip,
        extra_l2=given.extra_l2,
        tolerance=training.tolerance,
    )


def _training(
    objective: Objective,
    given: OutputPerturbationMinimumArguments,
    phase: int = 0,
    centre: Array | None = None,
) -> Minimisation:
    """To a thousandth of one record's contribution to the gradient."""
    c = PublicConstants.of(objective, clip=given.clip)
    return Minimisation.with_tolerance(
        objective,
        2.0**-10 * c.lipschitz / c.n,
        extra_l2=given.extra_l2 * 8.0**phase,
        centre=centre,
        clip=given.clip,
    )


# -- phases ------------------------------------------------------------------------------------------


def _in_phases(fit: Fit, given: OutputPerturbationMinimumArguments) -> FitResult:
    """Minimise on one part of the records after the other, each time closer to the last release."""
    own, law = fit.objective, noise_law(fit, given.mechanism)
    most = int(math.log2(max(fit.n, 2)))
    if given.phases > most or fit.as_published:
        raise ValueError(f"phases must be at most {most}, with calibration='tight', got {given.phases}")
    given = given.completed(extra_l2=_default_first_ridge(fit, given.phases, given.clip))
    fit.check_size_cap()
    own.check_places()
    order = np.asarray(permutation(random_bits(fit.spawn_source()), fit.n), dtype=np.int64)
    parts = [own._part(part) for part in parts_of_phases(order, given.phases)]
    noise = for_disjoint_parts(output_noise(fit, law), given.phases)
    for phase, part in enumerate(parts):  # centres are not known yet
        training = _training(part, given, phase)
        noise.claim(fit, {relation: training.sensitivity(part, relation) for relation in Neighbours})
    release = fit.open(
        "output_perturbation_minimum",
        noise.budget,
        sampling="permutation",
        phases=given.phases,
        clip=given.clip,
        extra_l2=given.extra_l2,
        mechanism=law,
    )
    coef = np.zeros(own.shape)
    for phase, part in enumerate(parts):
        coef = noise.release(release, _training(part, given, phase, coef).train(part))
        fit.show(phase + 1, coef)
    return fit.result(
        coef,
        f"exact minimisation in secret, {LAWS[law]} noise on the result, in {given.phases} phases",
        n_iter=given.phases,
        notes=(SECRET_ITERATES, DISJOINT, *add_or_remove_note(fit.neighbors)),
    )


def _default_first_ridge(fit: Fit, phases: int, clip: float) -> float:
    """The first phase's ridge term that minimises the cost of all, and of the last noise.

    As in `default_extra_l2` a ridge term r costs ``r D^2/2``. In the first phase D is the distance of the
    optimum, later the noise of the phase before.
    """
    c = PublicConstants.of(fit.objective, clip=clip)
    sizes = [part.size for part in parts_of_phases(np.arange(fit.n), phases)]
    if fit.epsilon == math.inf:
        return 0.0

    def risk(first: float) -> float:
        square, total = output_reach(fit.objective.loss, c.row_norm, c.strong) ** 2, 0.0
        for phase, n in enumerate(sizes):
            ridge = first * 8.0**phase
            total += 0.5 * ridge * square
            moved = fit.neighbors.sum_factor * c.lipschitz / (n * (c.strong + ridge))
            square = gaussian_or_norm_laplace(fit.epsilon, fit.delta, c.dimension, moved).mean_square(
                c.dimension
            )
        return total + 0.5 * (c.beta / c.dimension + c.strong) * square

    return min([0.0, *(c.beta * 2.0**-k for k in range(-10, 60))], key=risk)


def _published_noise(fit: Fit, training: Minimisation, mechanism: str) -> OutputNoise:
    """The noise of Algorithm 1, or more if the sensitivity of the program needs more."""
    if fit.delta != 0.0:
        raise ValueError(f"calibration='paper' of output_perturbation_minimum has delta=0, got {fit.delta!r}")
    if mechanism not in ("auto", "norm_laplace"):
        raise ValueError(f"calibration='paper' has norm-Laplace noise, got mechanism={mechanism!r}")
    fit.check_published("output_perturbation_minimum", neighbors="replace_one")
    c = PublicConstants.of(fit.objective)
    scale = paper.output_perturbation_minimum(fit.epsilon, n_samples=c.n, lipschitz=c.lipschitz, l2=c.strong)
    sensitivity = released_sensitivity(training, fit.objective, fit.neighbors)
    return norm_laplace_noise(min(fit.epsilon, sensitivity / scale))
