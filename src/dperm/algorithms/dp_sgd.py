"""DP-SGD: stochastic gradient descent on secret batches, with clipped gradients and Gaussian noise.

Abadi et al., CCS 2016, Algorithm 1 (moments accountant); Bassily, Smith and Thakurta, FOCS 2014 (advanced
composition). By default costs are composed by privacy loss distributions, which need the least noise.
"""

from __future__ import annotations

from dperm.accounting import paper
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.minibatch_descent import OPTIMIZERS, MinibatchArguments, MinibatchRun
from dperm.algorithms.settings import Setting


class DPSGDArguments(MinibatchArguments):
    """Arguments of :func:`dp_sgd`.

    Attributes
    ----------
    optimizer : {"momentum", "adam"}
        Update rule on the noisy gradients; it costs no privacy.
    """

    optimizer: Setting[str] = Setting(check.one_of(*OPTIMIZERS), "momentum")


@algorithm(DPSGDArguments, weighs_privately=True)
def dp_sgd(fit: Fit, given: DPSGDArguments) -> FitResult:
    """Minimise by stochastic gradient descent on secret batches, with Gaussian noise on each gradient.

    Settings follow from public numbers where they are not given. ``momentum=0, tail=0`` is the published
    algorithm.

    Parameters
    ----------
    calibration : {"tight", "paper"}
        "paper": published noise, for ``accountant="moments"`` and for ``"advanced_composition"`` (Lee and
        Kifer 2018, Section 6); Poisson sampling and ``add_or_remove`` only.
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released.

    Notes
    -----
    The whole transcript, all iterates included, is (epsilon, delta)-DP as long as the batches stay secret.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_sgd(objective, epsilon=1.0, delta=1e-6, batch_size=100, steps=50, random_state=0)
    >>> np.sign(result.coef), result.privacy.sampling
    (array([ 1., -1.]), 'poisson')
    """
    run = MinibatchRun(fit, given, given.optimizer)
    return run.descend("dp_sgd", _published_noise(run) if fit.as_published else run.noise_multiplier())


def _published_noise(run: MinibatchRun) -> float:
    fit = run.fit
    published = {
        "moments": paper.sgd_moments,
        "advanced_composition": paper.sgd_advanced_composition,
    }.get(run.schedule.accountant)
    if published is None or (run.schedule.sampling, fit.neighbors) != ("poisson", "add_or_remove"):
        raise ValueError(
            "calibration='paper' of dp_sgd needs accountant='moments' or 'advanced_composition', "
            "sampling='poisson' and neighbors='add_or_remove'"
        )
    fit.check_published("dp_sgd")
    rate = run.schedule.batch_size / fit.n
    return published(fit.epsilon, fit.delta, rate=rate, steps=run.schedule.steps)
