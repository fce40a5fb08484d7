"""Noisy gradient descent: full-batch, projected, averaged.

Bassily, Smith and Thakurta, "Private empirical risk minimization: efficient algorithms and tight
error bounds", FOCS 2014, in the form of Nikolov's lecture notes on private ERM, with the exact
accounting of Gaussian differential privacy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.accounting import Neighbours
from dperm.accounting.ledger.terms import relation_of
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult, PublishedTerms, report_each
from dperm.algorithms.learned_coordinates import Frame
from dperm.algorithms.lockstep import Descent, GradientRequest, alone, in_lockstep
from dperm.algorithms.private_scales import LearnedScales, ScaleNoise, scales_to_learn
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import (
    clip_share,
    gathers_at_a_kink,
    longest_gradient,
    quicker_under_ridge,
    softmax_clip,
    steeper_on_one_side,
    typical_curvature,
)
from dperm.algorithms.settings import Schedule, Setting
from dperm.algorithms.step_sizes import StepSize, shrinking, step_size, step_sizes
from dperm.algorithms.suffix_average import SuffixAverage, average_of
from dperm.losses import Loss
from dperm.mechanisms.release import Releaser, gaussian_sums
from dperm.objective.objective import Array, Objective
from dperm.objective.projection import project_each


class NoisyGDSchedule(Schedule):
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
        The last ``ceil(tail * (steps + 1))`` iterates are averaged; in (0, 1]. By default half of them are,
        and earlier ones as far back as they show no drift.
    """

    steps: Setting[int] = Setting(check.step_count)
    clip: Setting[float] = Setting(check.clip_norm)
    step_size: Setting[float] = Setting(check.positive)
    momentum: Setting[float] = Setting(check.below_one)
    tail: Setting[float] = Setting(check.fraction)


def noisy_gd_schedule(problem: PublicProblem) -> NoisyGDSchedule:
    """Default settings from public numbers alone.

    A loss without a Lipschitz constant is clipped as if its slope were at most 1; without noise the clip is
    too large for records to reach. Steps for non-smooth losses follow :func:`typical_curvature`.

    Notes
    -----
    Everything depends on the signal-to-noise number ``k = n mu / sqrt(dimension)``: with little signal, few
    steps and a clip far below the longest gradient, which trades bias for noise; with much, many steps
    and hardly any clipping. The distance that can be travelled, ``clip * steps * step_size /
    (1 - momentum)``, grows like ``k^1.5``; it is reached with a step that is stable for any data (heavy
    ball: ``step_size * smoothness < 2 (1 + momentum)``, with the smoothness of the clipped objective)
    and whatever momentum this requires. The constants were found on public data sets;
    ``bench/accuracy.py`` and ``bench/accuracy_mnist.py`` measure them.

    With a ridge term, heavy ball converges fastest and oscillates least if ``reach = step_size /
    (1 - momentum)`` is about ``1 / sqrt(l2 smoothness)``; the default is at most half of that, or a seventh
    if the descent starts from a constant prediction and the ridge term is weak.

    No step size is stable at a kink shared by many records: the weights oscillate across it by the length of
    a step. With a ridge term the start is forgotten within ``1/(l2 reach)`` steps. A run of 20 such times is
    long enough, so the reach is capped there, which keeps steps short.
    """
    problem = problem.per_record()
    signal, loss, row_norm, l2 = problem.signal, problem.loss, problem.row_norm, problem.l2
    if loss.n_classes is not None:
        # Its constants were tuned in terms of mu under replace-one, which is twice that per record.
        return _softmax_schedule(problem, 2.0 * signal)
    lipschitz = longest_gradient(loss, row_norm, noisy=problem.private, spread=problem.spread)
    enough = max(min(2.0 * signal, 500.0), 0.05 * signal)
    steps = round(min(max(enough, 50.0), 1000.0))
    share = clip_share(problem, lipschitz, 0.02)
    one_sided = steeper_on_one_side(loss)
    clip = lipschitz * (1.0 if one_sided else share)
    plain = clipped = typical_curvature(loss, row_norm, problem.spread)
    if loss.smoothness(row_norm) < math.inf:
        clipped = loss.clipped_smoothness(row_norm, clip)
    reach = min(140.0 * (signal + 15.0) / steps, 160.0) / (plain + l2)  # step_size / (1 - momentum)
    # With less signal, noise alone would carry the weights far from 0; classification tolerates more of that.
    reach *= min((signal / 8.0) ** 1.5 if loss.classification else signal / 20.0, 1.0)
    if problem.attained and not loss.classification and not loss.kink_jump:
        reach *= _REACH_WHERE_ATTAINED
    from_constant = problem.spread < math.inf
    if from_constant:
        reach *= _reach_from_constant(loss, signal)
    if one_sided:  # the noise of a longer clip
        reach *= share
    if loss.classification and loss.kink_jump > 0.0:
        reach *= _REACH_AT_KINKS
    if l2 > 0.0:
        fastest = 1.0 / math.sqrt(l2 * (plain + l2))
        slower = 1.0
        if from_constant:  # the best under the ridge term, which noise should not carry weights far from
            slower = 0.3 * quicker_under_ridge(problem, lipschitz, steps) * min(signal / 40.0, 1.0)
        reach = min(reach, 0.5 * slower * fastest)
    if loss.kink_jump > 0.0 and l2 > 0.0:
        reach = min(reach, _FORGETTING_TIMES / (l2 * steps))
    step_size = min(3.6 / (clipped + l2), 0.1 * reach)
    return NoisyGDSchedule(
        steps=steps, clip=clip, step_size=step_size, momentum=1.0 - step_size / reach, tail=0.5
    )


# Factor on the reach if many rows attain the norm bound: regression weights need not grow as margins do.
_REACH_WHERE_ATTAINED = 0.3

# Factor on the reach for classification losses with kinks: it lowers the objective to between a third and a
# half, and accuracy changes by less than a point.
_REACH_AT_KINKS = 0.3

# Maximum length of a run on a loss with kinks, in units of the 1/(l2 reach) steps that forget the start.
_FORGETTING_TIMES = 20.0


def _reach_from_constant(loss: Loss, signal: float) -> float:
    """A further factor if targets are bounded, and so may start from a constant: they hardly vary about it.

    With much signal noise is no reason to stay near the start; oscillation about a kink is. A Hölder
    continuous derivative is already treated as if it were everywhere as steep as about 0.
    """
    if loss.smoothness(1.0) == math.inf:
        return 0.3 if loss.kink_jump else 1.0
    least = 0.1 if loss.lipschitz(1.0) == math.inf else 0.3  # the squared error counts as if its slope were 1
    return min(least * max(1.0, signal / 400.0), 1.0)


def _softmax_schedule(problem: PublicProblem, signal: float) -> NoisyGDSchedule:
    """As :func:`noisy_gd_schedule`; depends less on the signal than for a loss of one prediction.

    Where many rows attain the norm bound, the distance travelled (steps times reach, in units of the inverse
    curvature) is in proportion to ``n mu``: the noise that it adds to a prediction grows with that distance
    over ``n mu``, whatever the dimension. With more classes the curvature is lower and margins are larger;
    with more columns each weight is held back less, so that noise accumulates.
    """
    loss, row_norm = problem.loss, problem.row_norm
    steps = round(min(max(14.0 * math.sqrt(signal), 30), 1000))
    curvature = loss.smoothness(row_norm) + problem.l2
    reach = min(max(100.0, 0.5 * signal), 160.0)  # step_size / (1 - momentum), in units of 1 / curvature
    if problem.attained:
        assert loss.n_classes is not None
        columns = problem.dimension / loss.n_classes
        travelled = 4.1 * problem.n * problem.mu * loss.n_classes**0.75 / columns**0.25
        reach = min(travelled / steps * min((signal / 8.0) ** 1.5, 1.0), reach)
    step_size, reach = min(3.6, 0.5 * reach) / curvature, reach / curvature
    return NoisyGDSchedule(
        steps=steps,
        clip=softmax_clip(signal, loss, row_norm),
        step_size=step_size,
        momentum=1.0 - step_size / reach,
        tail=0.5,
    )


class NoisyGDArguments(NoisyGDSchedule, LearnedScales, PublishedTerms):
    """Arguments of :func:`noisy_gd`.

    Attributes
    ----------
    step_size : float, str, mapping or callable
        Step on the mean gradient. One number, or ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in
        ``"0.5/sqrt(t)"``; a mapping from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a
        function of the step 1, 2, ...
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    """

    step_size: Setting[StepSize] = Setting(step_size)  # type: ignore[assignment]
    radius: Setting[float] = Setting(check.positive_or_infinite, math.inf)


@algorithm(NoisyGDArguments, weighs_privately=True)
def noisy_gd(fit: Fit, given: NoisyGDArguments) -> FitResult:
    """Minimise by full-batch gradient descent with Gaussian noise, and average the iterates.

    Settings follow from public numbers where they are not given: :func:`noisy_gd_schedule`, whose step size
    falls linearly to 0 in the second half of the run if the loss of a real target has a kink. The notes'
    algorithm is ``momentum=0, tail=1``.

    Parameters
    ----------
    calibration : {"tight", "paper"}
        "paper": the notes' noise (textbook Gaussian, ``add_or_remove`` only).
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released; the gradient is in
        the learned coordinates if scales are learned.

    Notes
    -----
    The whole transcript, all iterates included, is (epsilon, delta)-DP: ``steps`` releases with noise
    multiplier ``sqrt(steps) / mu`` are ``mu``-GDP exactly (Dong, Roth and Su 2022, Corollary 3.3), and
    ``mu`` is the largest for which mu-GDP implies (epsilon, delta)-DP (Balle and Wang 2018, Theorem 8).

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = noisy_gd(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    return alone(fit.objective, _descent([_opened(fit, given)]))


@dataclass(frozen=True)
class _OpenFit:
    """A fit that was charged, and the settings of its descent."""

    fit: Fit
    release: Releaser
    frame: Frame
    schedule: NoisyGDArguments
    sizes: Array  # of the steps
    average: SuffixAverage
    multiplier: float
    fold: int = -1  # that it leaves out


def _opened(fit: Fit, given: NoisyGDArguments, fold: int = -1) -> _OpenFit:
    """Check and charge a fit, and learn its scales."""
    scales = scales_to_learn(fit, given)
    problem = fit.problem.without(scales.together)
    schedule = _completed(given, problem)
    fit.check_published("noisy_gd")
    rest = fit.budget()
    noise_of_scales = ScaleNoise.of(scales, fit.objective.loss, fit.budget(), rest)
    multiplier = fit.noise_multiplier(
        rest, schedule.steps, published=lambda: _published_multiplier(fit, schedule.steps)
    )
    if fit.as_published and fit.epsilon >= 1.0:
        fit.warn_unproved("noisy_gd", "the textbook Gaussian is proved for epsilon < 1")
    fit.check_gradient_noise(schedule.clip, multiplier, schedule.radius)
    sizes = step_sizes(schedule.step_size, schedule.steps)
    if schedule.radius == math.inf:
        fit.check_growth(sizes, schedule.momentum, schedule.clip)
    noise_of_scales.check(fit, schedule.clip, multiplier)
    release = fit.open("noisy_gd", fit.budget(), schedule, **scales.facts())

    frame = Frame.learned(fit, release, noise_of_scales, problem)
    schedule = _completed(given, frame.problem)
    sizes = step_sizes(schedule.step_size, schedule.steps)
    sizes = frame.step_sizes(sizes, schedule.momentum, fit.objective.l2)
    extended = "tail" not in given.chosen
    average = average_of(schedule.steps + 1, schedule.tail, extended=extended, units=frame.factors)
    return _OpenFit(fit, release, frame, schedule, sizes, average, multiplier, fold)


def _completed(given: NoisyGDArguments, problem: PublicProblem) -> NoisyGDArguments:
    """The given settings, completed by default ones."""
    default = noisy_gd_schedule(problem)
    schedule = given.completed(default)
    if "step_size" in given.chosen or not gathers_at_a_kink(problem.loss):
        return schedule
    return replace(schedule, step_size=shrinking(default.step_size, schedule.steps))


def _descent(fits: Sequence[_OpenFit]) -> Descent:
    """Descend for fits that take equally many steps; only a fit alone has learned a frame."""
    first, schedules = fits[0], [own.schedule for own in fits]
    frame, steps, shape = first.frame, first.schedule.steps, first.fit.objective.shape

    axes = len(fits), *[1] * len(shape)  # one for the fits and one for each of a weight's
    n = np.reshape([own.fit.n for own in fits], axes)
    momentum = np.reshape([own.momentum for own in schedules], axes)
    sizes = np.reshape(np.transpose([own.sizes for own in fits]), (steps, *axes))
    ridge = np.stack([own.fit.objective.penalty_gradient(np.ones(shape)) for own in fits])
    clips, radii = [own.clip for own in schedules], [own.radius for own in schedules]

    w = np.stack([own.frame.start for own in fits])
    velocity = np.zeros_like(w)
    averages = [own.average for own in fits]
    _add_each(averages, w)
    releasers, multipliers = [own.release for own in fits], [own.multiplier for own in fits]
    noisy_sums = gaussian_sums(releasers, multipliers, steps, first.fit.objective.n_threads)
    for t in range(1, steps + 1):
        # 1. noisy gradient of the clipped mean loss, and of the ridge term
        gradient_sums = yield GradientRequest(w, clips, radii, frame.linear_map)
        gradient = noisy_sums(gradient_sums) / n + frame.factors * (ridge * w)
        # 2. heavy ball and projection: post-processing
        velocity = momentum * velocity - sizes[t - 1] * gradient
        w = project_each(w + frame.factors * velocity, radii)
        _add_each(averages, w)
        report_each([own.fit for own in fits], t, w, gradient)
    mechanism = frame.in_words("full-batch gradient descent, Gaussian noise on each clipped gradient sum")
    return [
        own.fit.result(average.mean(), mechanism, n_iter=steps, clip=clip)
        for own, average, clip in zip(fits, averages, clips, strict=True)
    ]


def _add_each(averages: Iterable[SuffixAverage], w: Array) -> None:
    for average, own in zip(averages, w, strict=True):
        average.add(own)


def _published_multiplier(fit: Fit, steps: int) -> float:
    """The noise of the notes: the textbook Gaussian mechanism with a factor of ``sqrt(steps + 1)``."""
    return math.sqrt(steps + 1) * (math.sqrt(2.0 * math.log(1.25 / fit.delta)) / fit.epsilon)


def noisy_gd_many(
    objective: Objective, fits: Iterable[Mapping[str, Any]], *, folds: ArrayLike | None = None
) -> list[FitResult]:
    """Several fits of `noisy_gd` on the same records, which are read once per step for all of them.

    For repeated fits over seeds, budgets, settings or cross-validation folds. Fits with fewer steps end
    earlier. Every fit charges its own ledger, and its result is that of ``noisy_gd(objective,
    learn_scales=False, **settings)``, bit for bit for the same seed.

    Parameters
    ----------
    objective : Objective
        Any loss. Faster than separate fits for dense rows and tables with a loss of one prediction, and for
        files and Dask collections (the latter without folds) with any loss.
    fits : iterable of mappings
        The keyword arguments of :func:`noisy_gd`: ``epsilon`` and ``delta`` at least;
        ``learn_scales="auto"`` means False, as fits in different coordinates cannot share a pass. With
        `folds` also ``"fold"``: the number of the fold to leave out, if any.
    folds : (n_samples,) array_like of int, optional
        The fold of each record, drawn independently of the data, and public; -1 for none. They go by
        position, so fits must be for ``neighbors="replace_one"``.

    Returns
    -------
    list of FitResult
        In the order of `fits`. Each is (epsilon, delta)-DP; several of them compose as separate fits do.

    Raises
    ------
    ValueError, BudgetExceededError
        As `noisy_gd`, at the first fit that is refused; earlier fits stay charged. Also, before any is
        charged, if `folds` or a ``"fold"`` is invalid, or no record is in that fold.

    Notes
    -----
    A cross-validation over budgets reads the data once per step for all its fits; scikit-learn's
    ``GridSearchCV`` trains one model at a time and cannot. Gradient sums are divided by `n_public`, also in
    fits that leave out a fold and sum over fewer records. Scores on the left-out records are not private:
    release them with noise, or use them only for research on public data.

    Examples
    --------
    >>> common = {"delta": 1e-6, "neighbors": "replace_one"}
    >>> settings = [{"epsilon": epsilon, **common} for epsilon in (0.1, 0.4, 1.6)]
    >>> results = noisy_gd_many(objective, settings)  # doctest: +SKIP

    Three budgets on five folds, fifteen models:

    >>> folds = np.random.default_rng(0).integers(5, size=objective.n_public)  # doctest: +SKIP
    >>> crossed = [own | {"fold": fold} for own in settings for fold in range(5)]
    >>> results = noisy_gd_many(objective, crossed, folds=folds)  # doctest: +SKIP
    """
    settings = [dict(own) for own in fits]
    public_folds = None if folds is None else objective._public_folds(folds)
    known = None if public_folds is None else np.unique(public_folds[public_folds >= 0])
    left_out = [_fold(own.pop("fold", -1), known) for own in settings]
    if public_folds is not None:
        _check_folds_by_position(settings)
    return fit_together([objective] * len(settings), settings, public_folds, left_out)


def _check_folds_by_position(settings: Iterable[Mapping[str, Any]]) -> None:
    for own in settings:
        if relation_of(own.get("neighbors"), own.get("ledger")) is not Neighbours.REPLACE_ONE:
            raise ValueError(
                "folds go by position: under neighbors='add_or_remove' one record more moves all later ones "
                "to other folds. Pass neighbors='replace_one', or split the records with ledger.split, which "
                "goes by their content"
            )


def fit_together(
    objectives: Sequence[Objective],
    settings: Sequence[Mapping[str, Any]],
    folds: NDArray[np.int32] | None = None,
    left_out: Iterable[int] | None = None,
) -> list[FitResult]:
    """`noisy_gd` for each objective with its settings; the objectives may differ in their ridge terms.

    With `folds`, fit k does not see the records of fold ``left_out[k]``.
    """
    if not settings:
        return []
    unseen = [-1] * len(settings) if left_out is None else list(left_out)
    fits = [_opened_without_scales(*own) for own in zip(objectives, settings, unseen, strict=True)]
    # Fits with equally many steps share arrays, too.
    alike: dict[int, list[int]] = {}
    for k, own in enumerate(fits):
        alike.setdefault(own.schedule.steps, []).append(k)
    results = in_lockstep(
        objectives[0],
        [_descent([fits[k] for k in group]) for group in alike.values()],
        folds,
        [[fits[k].fold for k in group] for group in alike.values()],
    )
    by_fit = dict(zip(itertools.chain(*alike.values()), itertools.chain(*results), strict=True))
    return [by_fit[k] for k in range(len(fits))]


def _opened_without_scales(objective: Objective, settings: Mapping[str, Any], fold: int) -> _OpenFit:
    given = NoisyGDArguments(objective, **settings)
    if given.learn_scales is True:
        raise ValueError(
            "learn_scales=True is for a single fit: fits in lockstep share the coordinates of the data"
        )
    given.learn_scales = False
    if objective.weighs_privately:
        raise ValueError("class_weight='private' is for a single fit: fits in lockstep share one objective")
    return _opened(Fit(given, {} if fold == -1 else {"left_out_fold": fold}), given, fold)


def _fold(fold: Any, known: NDArray[np.int32] | None) -> int:
    if not isinstance(fold, (int, np.integer)) or isinstance(fold, bool):
        raise ValueError(f"fold must be the number of a fold, got {fold!r}")
    if fold == -1:
        return -1
    if known is None:
        raise ValueError(f"a fit leaves out fold {fold!r}: give folds, an integer for each record, too")
    if fold not in known:  # a typo would give a score on training records
        names = ", ".join(map(str, known[:10])) + (", .." if known.size > 10 else "")
        raise ValueError(f"a fit leaves out fold {fold!r}, which no record is in; the folds are {names}")
    return int(fold)
