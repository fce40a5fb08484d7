"""Output perturbation of the exact minimiser of a strongly convex objective.

Chaudhuri, Monteleoni and Sarwate, "Differentially private empirical risk minimization", JMLR 2011,
Algorithm 1, with a certified instead of an exact minimiser and Gaussian noise as an alternative.
"""

from __future__ import annotations

import math

from dperm.accounting import paper
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms.fit_result import Callback, FitResult, public_facts
from dperm.algorithms.output_noise import OutputNoise, laplace_noise, output_noise, release_trained_weights
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_choice
from dperm.mechanisms.random_source import RandomState
from dperm.objective.bounded_training import Minimisation, PublicConstants, released_sensitivity
from dperm.objective.objective import Objective

EXACT_MINIMISER = (
    "The published noise is for an exact minimiser. This one is certified to lie close to it, and is "
    "rounded; where the proof needs it, the noise is wider by what that adds to the sensitivity."
)


@needs(convex=True, smooth=True, lipschitz=True, strongly_convex=True, linear_prediction=True)
def output_perturbation_minimum(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    mechanism: str = "auto",
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Find the minimiser in secret and publish it with noise.

    Parameters
    ----------
    objective : Objective
        Convex, smooth, of bounded slope, with ``l2 > 0`` on every weight (``penalize_intercept=True``). The
        noise is inversely proportional to ``l2``.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        In [0, 1); 0 gives a pure guarantee, by norm-Laplace noise.
    mechanism : {"auto", "gaussian", "norm_laplace"}
        As for :func:`output_perturbation_gd`.
    calibration : {"tight", "paper"}
        "paper": noise of the published scale ``2 L/(n l2 epsilon)``, L the Lipschitz constant of the
        loss, for ``delta=0``, ``replace_one`` and a finite epsilon. What an approximate minimiser and
        rounding add to the sensitivity, about 0.3 %, is added to it where the loss leaves no room.
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation. "add_or_remove" means that a record is replaced by an empty one: the public
        number of records stays.
    ledger : PrivacyLedger, optional
        Charged once, before the records are read.
    random_state : None, int or Generator
        None: cryptographic noise.
    callback : callable, optional
        Called once with ``{"iteration", "coef"}``, the published weights.

    Returns
    -------
    FitResult
        ``n_iter`` is 1: how long the solver took depends on the records and is not told.

    Raises
    ------
    ValueError
        For a setting out of range, an objective without these properties, or a paper calibration outside
        the conditions of the paper.
    DataError
        If there are more records than ``objective.n_public``.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    The published weights alone are (epsilon, delta)-DP: one record moves the minimiser by at most ``s L/(n
    l2)``, s = 2 or 1 (Lemma 7 of the paper; less for the logistic loss with a large ridge term), and the
    computed point lies within ``tau/l2`` of it on either data set. Its gradient, rounding errors included, is
    *certified* to be no longer than tau, which is a thousandth of what one record adds or what arithmetic
    reaches for sure. A quasi-Newton method finds it; should that fail, gradient descent does within a known
    number of steps.
    """
    relation = Neighbours.parse(neighbors)
    check_choice("calibration", calibration, ("tight", "paper"))
    c = PublicConstants.of(objective)
    training = Minimisation.with_tolerance(objective, 2.0**-10 * c.lipschitz / c.n)
    if calibration == "paper":
        noise = _paper_noise(objective, training, epsilon, delta, mechanism, relation)
    else:
        noise = output_noise(epsilon, delta, objective.dimension, mechanism)
    return release_trained_weights(
        objective,
        training,
        noise,
        epsilon,
        neighbors=relation,
        ledger=ledger,
        random_state=random_state,
        callback=callback,
        algorithm="output_perturbation_minimum",
        mechanism="exact minimisation in secret",
        steps=None,
        public=public_facts(objective, tolerance=training.tolerance, calibration=calibration),
        notes=(EXACT_MINIMISER,) if calibration == "paper" else (),
    )


def _paper_noise(
    objective: Objective,
    training: Minimisation,
    epsilon: float,
    delta: float,
    mechanism: str,
    relation: Neighbours,
) -> OutputNoise:
    """Algorithm 1 of the paper, and no less than what the program's own sensitivity needs."""
    if epsilon == math.inf:
        raise ValueError("calibration='paper' needs a finite epsilon")
    if delta != 0.0:
        raise ValueError(f"calibration='paper' of output_perturbation_minimum has delta=0, got {delta!r}")
    if mechanism not in ("auto", "norm_laplace"):
        raise ValueError(f"calibration='paper' has norm-Laplace noise, got mechanism={mechanism!r}")
    if relation is not Neighbours.REPLACE_ONE:
        raise ValueError(
            "calibration='paper' of output_perturbation_minimum is for neighbors='replace_one': the paper's "
            "neighbours differ by replacing one record"
        )
    c = PublicConstants.of(objective)
    scale = paper.output_perturbation_minimum(epsilon, n_samples=c.n, lipschitz=c.lipschitz, l2=c.strong)
    return laplace_noise(min(epsilon, released_sensitivity(training, objective, relation) / scale))
