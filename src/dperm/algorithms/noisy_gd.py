"""Noisy gradient descent: full-batch, projected, averaged.

Bassily, Smith and Thakurta, "Private empirical risk minimization: efficient algorithms and tight
error bounds", FOCS 2014, in the form of Nikolov's lecture notes on private ERM, with the exact
accounting of Gaussian differential privacy.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.accounting.budget import Budget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.lockstep import Fit, GradientRequest, alone, in_lockstep
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import (
    check_fraction,
    check_positive,
    check_positive_integer,
    override,
    warn_unproved,
)
from dperm.losses import Loss
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded
from dperm.statement.privacy_statement import PrivacyStatement

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NoisyGDSchedule:
    """Public settings of a run of noisy gradient descent.

    Attributes
    ----------
    steps : int
        Number of noisy gradients; the iterates are ``w_0 = 0, ..., w_steps``.
    clip : float
        Bound on the norm of one record's gradient.
    step_size : float
        Step on the mean gradient.
    momentum : float
        Heavy-ball coefficient in [0, 1).
    tail : float
        The last ``ceil(tail * (steps + 1))`` iterates are averaged; in (0, 1].
    """

    steps: int
    clip: float
    step_size: float
    momentum: float
    tail: float


def noisy_gd_schedule(
    n: int, dimension: int, mu: float, loss: Loss, row_norm: float, l2: float = 0.0
) -> NoisyGDSchedule:
    """Default settings from public numbers alone.

    Parameters
    ----------
    n : int
        Public number of records.
    dimension : int
        Number of weights.
    mu : float
        Privacy parameter of Gaussian differential privacy, halved where records are exchanged; infinite
        without noise.
    loss : Loss
        For its constants. One without a Lipschitz constant is clipped like a loss of slope 1 (without
        noise, out of reach), and steps where gradients are not Lipschitz continuous follow
        :func:`typical_curvature`.
    row_norm : float
        Bound on the norm of a row.
    l2 : float
        Strength of the ridge term.

    Notes
    -----
    Everything depends on the signal-to-noise number ``k = n mu / sqrt(dimension)``: with little signal, few
    steps and a clip far below the longest gradient, which trades bias for noise; with much, many steps
    and hardly any clipping. The distance that can be travelled, ``clip * steps * step_size /
    (1 - momentum)``, grows like ``k^1.5``; it is reached with a step that is stable for any data (heavy
    ball: ``step_size * smoothness < 2 (1 + momentum)``, with the smoothness of the clipped objective)
    and as much momentum as that takes. The constants were found on public data sets;
    ``bench/accuracy.py`` and ``bench/accuracy_mnist.py`` measure them.

    No step is stable at a kink where many records meet: the weights swing across it by the length of a
    step. With a ridge term they need not travel far, as it forgets the start within ``1/(l2 reach)`` steps,
    ``reach = step_size / (1 - momentum)``; a run of 20 such times is long enough, and has the shortest steps.
    """
    signal = n * mu / math.sqrt(dimension)
    if loss.n_classes is not None:
        # Its constants were found where records are exchanged, and mu counts half.
        return _softmax_schedule(2.0 * signal, loss, row_norm, l2)
    lipschitz = longest_gradient(loss, row_norm, noisy=mu < math.inf)
    steps = round(min(max(2.0 * signal, 50), 1000))
    clip = lipschitz * min(1.0, max(math.sqrt(signal / 4800.0), 0.02))
    plain = clipped = typical_curvature(loss, row_norm)
    if loss.smoothness(row_norm) < math.inf:
        clipped = loss.clipped_smoothness(row_norm, clip)
    reach = min(140.0 * (signal + 15.0) / steps, 160.0) / (plain + l2)  # step_size / (1 - momentum)
    # With less signal noise alone would carry the weights far from 0, which labels forgive longer.
    reach *= min((signal / 8.0) ** 1.5 if loss.classification else signal / 20.0, 1.0)
    if loss.kink_jump > 0.0 and l2 > 0.0:
        reach = min(reach, _FORGETTING_TIMES / (l2 * steps))
    step_size = min(3.6 / (clipped + l2), 0.1 * reach)
    return NoisyGDSchedule(
        steps=steps, clip=clip, step_size=step_size, momentum=1.0 - step_size / reach, tail=0.5
    )


# Length of a run on a loss with kinks, in times in which the ridge term forgets the start.
_FORGETTING_TIMES = 20.0


def longest_gradient(loss: Loss, row_norm: float, *, noisy: bool) -> float:
    """The Lipschitz constant, or where there is none a bound that a clip can put in its place.

    That of a slope of 1 under noise; without noise one so large that records do not reach it.
    """
    slope = loss.lipschitz(row_norm)
    if slope < math.inf:
        return slope
    if noisy:
        return row_norm
    at_zero = loss.slope_at_zero(row_norm)
    return 1000.0 * (at_zero if at_zero < math.inf else row_norm)


def typical_curvature(loss: Loss, row_norm: float) -> float:
    """Curvature in the weights that a step size should reckon with: the smoothness, where it is finite.

    A kink is taken for a bend as wide as that of the logistic loss or, with real targets up to Y, for one of
    Y/10. A Hölder continuous derivative bends as sharply as its constants allow over what a clip at slope 1
    leaves of it (-1 to 0 for a loss of margins, -1 to 1 for one of residuals), if that is sharper.
    """
    smoothness = loss.smoothness(row_norm)
    if smoothness < math.inf:
        return smoothness
    slope = loss.lipschitz(row_norm)
    bends_within = 4.0 if loss.target_bound == math.inf else 0.1 * loss.target_bound
    kink = (slope if slope < math.inf else row_norm) * row_norm / bends_within
    if loss.holder_exponent == 0.0:
        return kink
    rise = 1.0 if loss.classification else 2.0
    width = math.pow(rise / loss.holder_slope, 1.0 / loss.holder_exponent)
    return max(kink, row_norm**2 * rise / width)


def softmax_clip(signal: float, row_norm: float) -> float:
    """Default clip of softmax gradients at the signal-to-noise number ``n mu / sqrt(dimension)``."""
    return row_norm * min(math.sqrt(2.0), max(math.sqrt(signal / 960.0), 0.25))


def _softmax_schedule(signal: float, loss: Loss, row_norm: float, l2: float) -> NoisyGDSchedule:
    """As :func:`noisy_gd_schedule`; less depends on the signal than for a loss of one prediction."""
    steps = round(min(max(14.0 * math.sqrt(signal), 30), 1000))
    curvature = loss.smoothness(row_norm) + l2
    reach = min(max(100.0, 0.5 * signal), 160.0) / curvature  # step_size / (1 - momentum)
    step_size = 3.6 / curvature
    return NoisyGDSchedule(
        steps=steps,
        clip=softmax_clip(signal, row_norm),
        step_size=step_size,
        momentum=1.0 - step_size / reach,
        tail=0.5,
    )


@needs()
def noisy_gd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    steps: int | None = None,
    clip: float | None = None,
    step_size: float | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    radius: float = math.inf,
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by full-batch gradient descent with Gaussian noise, and average the iterates.

    Parameters
    ----------
    objective : Objective
        Any loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    steps, clip, step_size, momentum, tail : optional
        See :class:`NoisyGDSchedule`; by default from :func:`noisy_gd_schedule`, which looks at public
        numbers only. The notes' algorithm is ``momentum=0, tail=1``.
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    calibration : {"tight", "paper"}
        "paper": the notes' noise (textbook Gaussian, ``add_or_remove`` only).
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    ledger : PrivacyLedger, optional
        Charged (epsilon, delta) once, before anything is drawn.
    random_state : None, int or Generator
        None: cryptographic noise.
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, or a paper calibration that does not give the claimed guarantee.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    The whole transcript, all iterates included, is (epsilon, delta)-DP: ``steps`` releases with noise
    multiplier ``sqrt(steps) / mu`` are ``mu``-GDP exactly (Dong, Roth and Su 2022, Corollary 3.3), and
    ``mu`` is the largest for which mu-GDP implies (epsilon, delta)-DP (Balle and Wang 2018, Theorem 8).
    """
    fit = _fit(
        objective,
        epsilon,
        delta,
        steps=steps,
        clip=clip,
        step_size=step_size,
        momentum=momentum,
        tail=tail,
        radius=radius,
        calibration=calibration,
        neighbors=neighbors,
        ledger=ledger,
        random_state=random_state,
        callback=callback,
    )
    return alone(objective, fit)


def noisy_gd_many(
    objective: Objective, fits: Iterable[Mapping[str, Any]], *, folds: ArrayLike | None = None
) -> list[FitResult]:
    """Several fits of `noisy_gd` on the same records, which are read once for a step of all of them.

    For repetitions: seeds, budgets, settings, folds of a cross-validation. Fits with fewer steps end earlier.
    Every fit charges its own ledger, and its result is that of ``noisy_gd(objective, **settings)``, bit for
    bit for the same seed.

    Parameters
    ----------
    objective : Objective
        Any loss. Dense rows and tables under a loss of one prediction profit, and for any loss files and
        Dask collections (these without folds).
    fits : iterable of mappings
        The arguments of :func:`noisy_gd` but the objective, by name: ``epsilon`` and ``delta`` at least. With
        `folds` also ``"fold"``: the number of the fold that the fit does not see, if there is one.
    folds : (n_samples,) array_like of int, optional
        The fold of each record, drawn independently of the data, and public; -1 for none.

    Returns
    -------
    list of FitResult
        In the order of `fits`. Each is (epsilon, delta)-DP; whoever sees several of them knows as much as
        after separate fits.

    Raises
    ------
    ValueError, BudgetExceededError
        As `noisy_gd`, at the first fit that is refused. Those before it stay charged. Also, before any is
        charged, where `folds` or a ``"fold"`` is none, or no record is in that fold.

    Notes
    -----
    A cross-validation over budgets reads the data once for a step of all its fits; scikit-learn's
    ``GridSearchCV`` trains one model at a time and cannot. Steps are those of `n_public` records, of which
    a fit that leaves a fold out sees fewer. Scores on the records that were left out are not private:
    release them with noise, or keep them to research on public data.

    Examples
    --------
    >>> settings = [{"epsilon": epsilon, "delta": 1e-6} for epsilon in (0.1, 0.4, 1.6)]
    >>> results = noisy_gd_many(objective, settings)  # doctest: +SKIP

    Three budgets on five folds, fifteen models:

    >>> folds = np.random.default_rng(0).integers(5, size=objective.n_public)  # doctest: +SKIP
    >>> crossed = [own | {"fold": fold} for own in settings for fold in range(5)]
    >>> results = noisy_gd_many(objective, crossed, folds=folds)  # doctest: +SKIP
    """
    settings = [dict(own) for own in fits]
    public_folds = None if folds is None else objective.public_folds(folds)
    known = None if public_folds is None else np.unique(public_folds[public_folds >= 0])
    left_out = [_fold(own.pop("fold", -1), known) for own in settings]
    runs = [_fit(objective, fold=fold, **own) for fold, own in zip(left_out, settings, strict=True)]
    return in_lockstep(objective, runs, public_folds, left_out)


def _fold(fold: Any, known: NDArray[np.int32] | None) -> int:
    if not isinstance(fold, (int, np.integer)) or isinstance(fold, bool):
        raise ValueError(f"fold must be the number of a fold, got {fold!r}")
    if fold == -1:
        return -1
    if known is None:
        raise ValueError(f"a fit leaves out fold {fold!r}: give folds, an integer for each record, too")
    if fold not in known:  # a slip would give a score on the records that were trained on
        names = ", ".join(map(str, known[:10])) + (", .." if known.size > 10 else "")
        raise ValueError(f"a fit leaves out fold {fold!r}, which no record is in; the folds are {names}")
    return int(fold)


def _fit(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    fold: int = -1,
    steps: int | None = None,
    clip: float | None = None,
    step_size: float | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    radius: float = math.inf,
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> Fit:
    """A fit that asks for its gradient sums: see `in_lockstep`. It does not see the records of a fold."""
    relation = Neighbours.parse(neighbors)
    mu = gdp_mu(epsilon, delta)
    schedule = override(
        noisy_gd_schedule(
            objective.n_public,
            objective.dimension,
            mu / relation.sum_factor,
            objective.loss,
            objective.row_norm,
            objective.l2,
        ),
        steps=steps,
        clip=clip,
        step_size=step_size,
        momentum=momentum,
        tail=tail,
    )
    _check(schedule, radius)
    budget = Budget.from_epsilon(epsilon, delta, "gdp")
    noise_multiplier = _noise_multiplier(budget, epsilon, delta, schedule.steps, calibration, relation)
    public = public_facts(
        objective,
        step_size=schedule.step_size,
        momentum=schedule.momentum,
        tail=schedule.tail,
        radius=radius,
        calibration=calibration,
        **({} if fold == -1 else {"left_out_fold": fold}),
    )
    releaser = Releaser(
        epsilon,
        delta,
        budget,
        neighbors=relation,
        ledger=ledger,
        random_state=random_state,
        description="noisy_gd",
        statement={"clip": schedule.clip, "steps": schedule.steps, **public},
    )
    coef, history, sensitivity = yield from _descend(
        objective, releaser, noise_multiplier, schedule, radius, callback
    )
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        neighbors=relation,
        mechanism="full-batch gradient descent, Gaussian noise on each clipped gradient sum",
        accountant="gdp",
        sensitivity=sensitivity,
        noise_scale=noise_multiplier * sensitivity,
        clip=schedule.clip,
        row_norm=objective.row_norm,
        steps=schedule.steps,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=mu,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=schedule.steps, history=history)


def _descend(
    objective: Objective,
    releaser: Releaser,
    noise_multiplier: float,
    schedule: NoisyGDSchedule,
    radius: float,
    callback: Callback | None,
) -> Generator[GradientRequest, Bounded, tuple[Array, list[dict[str, Any]], float]]:
    w = np.zeros(objective.shape)
    velocity = np.zeros_like(w)
    averaged = math.ceil(schedule.tail * (schedule.steps + 1))
    total = w.copy() if averaged > schedule.steps else np.zeros_like(w)
    history: list[dict[str, Any]] = []
    sensitivity = 0.0
    for t in range(1, schedule.steps + 1):
        gradient_sum = yield GradientRequest(w, schedule.clip, radius)
        sensitivity = gradient_sum.sensitivity(releaser.neighbors)
        noisy_sum = releaser.gaussian_sum(gradient_sum, noise_multiplier)
        gradient = noisy_sum / objective.n_public + objective.penalty_gradient(w)
        velocity = schedule.momentum * velocity - schedule.step_size * gradient
        w = _project(w + velocity, radius)
        if t > schedule.steps - averaged:
            total += w
        history.append({"gradient_norm": math.sqrt(np.vdot(gradient, gradient))})
        if callback is not None:
            callback({"iteration": t, "coef": w.copy(), "gradient": gradient})
    return total / averaged, history, sensitivity


def _project(w: Array, radius: float) -> Array:
    length = math.sqrt(np.vdot(w, w)) if radius < math.inf else 0.0
    return w if length <= radius else w * (radius / length)


def _noise_multiplier(
    budget: Budget, epsilon: float, delta: float, steps: int, calibration: str, relation: Neighbours
) -> float:
    """``sigma / sensitivity`` of each of ``steps`` equal releases."""
    if calibration == "tight":
        return gaussian_noise_multiplier(budget.share(parts=steps), "gdp")
    if calibration != "paper":
        raise ValueError(f"calibration must be 'tight' or 'paper', got {calibration!r}")
    if relation is not Neighbours.ADD_OR_REMOVE:
        raise ValueError(
            "calibration='paper' of noisy_gd holds for neighbors='add_or_remove' only: the notes' "
            "sensitivity C/n is half of what 'replace_one' needs"
        )
    if epsilon == math.inf:
        raise ValueError("calibration='paper' needs a finite epsilon")
    textbook = math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon
    multiplier = math.sqrt(steps + 1) * textbook
    if not budget.fits(GaussianRelease(multiplier), count=steps):
        raise ValueError(
            f"the published noise does not give (epsilon={epsilon:g}, delta={delta:g}); "
            "use calibration='tight'"
        )
    if epsilon >= 1.0:
        warn_unproved("noisy_gd", "the textbook Gaussian is proved for epsilon < 1")
    return multiplier


def _check(schedule: NoisyGDSchedule, radius: float) -> None:
    check_positive_integer("steps", schedule.steps)
    check_positive("clip", schedule.clip)
    check_positive("step_size", schedule.step_size)
    check_fraction("tail", schedule.tail)
    if not 0.0 <= schedule.momentum < 1.0:
        raise ValueError(f"momentum must be in [0, 1), got {schedule.momentum!r}")
    if not radius > 0.0:
        raise ValueError(f"radius must be positive (inf for no projection), got {radius!r}")
