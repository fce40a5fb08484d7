"""Observations of a fit for audits: the coefficients, or a statistic of everything that was released."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from dperm.accounting.neighbours import Neighbours
from dperm.algorithms.fit import FitResult
from dperm.audit.neighbours import LinearData, NeighbourPair
from dperm.mechanisms.hooks import watch_releases
from dperm.mechanisms.records import PerturbedMinimum
from dperm.mechanisms.release import Releaser
from dperm.mechanisms.without_privacy import release_without_privacy
from dperm.objective.descents import Batches, Descended, Indices, StochasticDescent
from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.hooks import watch_sums
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.secret_rows import SecretRows

Array = NDArray[np.float64]

#: A fit as a function of the data and the seed.
Run = Callable[[Objective, int], FitResult]


class Coefficients:
    """Observe the final weights only.

    Parameters
    ----------
    run : callable
        ``run(objective, seed) -> FitResult``.

    Examples
    --------
    >>> from dperm.algorithms import noisy_gd
    >>> claim = {"epsilon": 1.0, "delta": 1e-6}
    >>> fit = Coefficients(lambda objective, seed: noisy_gd(objective, **claim, random_state=seed))
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def __call__(self, data: LinearData, seed: int) -> Array:
        """Weights of one fit, shape ``(dimension,)``."""
        return self.run(data.objective, seed).coef


class Transcript:
    """Observe every release of a fit, summarised by its log-likelihood ratio between two data sets.

    At each release the observer knows all earlier ones and both data sets, as the definition of differential
    privacy allows, and computes the likelihood ratio of the released value, second data set over first, under
    the *claimed* noise. The sum of the logarithms over a run is the most powerful statistic (Neyman and
    Pearson) if the claim is true, and a valid one if it is not: the bound counts errors and does not rely on
    likelihoods.

    Parameters
    ----------
    run : callable
        ``run(objective, seed) -> FitResult``. It sees the data through the objective's bounded sums.
    pair : NeighbourPair
        The two data sets; also the ``neighbours`` of the audit.
    known_batches : int, optional
        If given, the observer knows all secret batches, and sees the sums of the first `known_batches` ones
        that contain the record in which the data sets differ. See the notes.

    Notes
    -----
    Every pass over the data is made on both data sets. Noisy sums and selections by the exponential mechanism
    or permute-and-flip are counted. Selections with Laplace noise, which exist for published settings, and
    those among the losses of a secret batch are not.

    The observer of a sum over a secret batch does not know the batch. It knows both full sums and the
    sampling rate, replaces the sum over the other records by its expectation, and computes the likelihood
    ratio of the record being in the batch or not. Under ``add_or_remove`` the first data set should be the
    one without the record. Such claims are (epsilon, delta) claims: audit them with
    ``method="clopper_pearson"``.

    An audit of a claim that rests on small batches is insensitive to the noise, because the record is rarely
    sampled. An observer who knows the batches has more information than the claim assumes: k sums with the
    record are exactly mu-GDP, with ``mu = sqrt(k)`` over the noise multiplier (noise over sensitivity) that
    the accounting assumed. Audit that as the claim ``gdp_epsilon(mu, delta)``: it tests whether the noise is
    as large as stated, at any batch size and number of steps, which may be random. It does not test the
    sampling.

    Examples
    --------
    >>> from dperm.algorithms import noisy_gd
    >>> from dperm.audit import epsilon_lower_bound, worst_case_neighbours
    >>> pair = worst_case_neighbours(n=100, d=2)
    >>> def run(objective, seed):
    ...     return noisy_gd(objective, epsilon=1.0, delta=1e-5, steps=2, random_state=seed)
    >>> fit = Transcript(run, pair)
    >>> result = epsilon_lower_bound(fit, pair, delta=1e-5, trainings=60, claim=1.0, n_jobs=1, random_state=0)
    >>> result.violates()
    False
    """

    def __init__(self, run: Run, pair: NeighbourPair, *, known_batches: int | None = None) -> None:
        if known_batches is not None and known_batches < 1:
            raise ValueError(f"known_batches must be at least 1, or None, got {known_batches!r}")
        self.run, self.pair, self.known_batches = run, pair, known_batches

    def __call__(self, data: LinearData, seed: int) -> float:
        """Log-likelihood ratio, second over first, of one run on ``data``, a member of the pair."""
        own_first = data is self.pair.first
        if not own_first and data is not self.pair.second:
            raise ValueError("data must be one of the two data sets of the pair of this Transcript")
        other = self.pair.second if own_first else self.pair.first
        twins: _Twins
        if self.known_batches is None:
            twins = _Twins(data.objective, other.objective, own_first)
        else:
            twins = _KnownBatches(data, other, own_first, self.known_batches)
        with watch_sums(twins.watch_sum), watch_releases(twins.watch):
            self.run(data.objective, seed)
        return -twins.log_ratio if own_first else twins.log_ratio


class _Twins:
    """Stores each bounded sum together with the same sum on a neighbour, and follows their releases."""

    def __init__(self, own: Objective, other: Objective, own_first: bool) -> None:
        self._own, self._other, self._own_first = own, other, own_first
        self._sums: dict[int, tuple[Bounded, Bounded | _FullSums]] = {}
        self.log_ratio = 0.0  # log-likelihood ratio of everything released so far, own over other

    def watch_sum(self, function: Callable[..., Any], objective: Objective, *args: Any, **kwargs: Any) -> Any:
        """Compute a sum, on both data sets."""
        result = function(objective, *args, **kwargs)
        rows = kwargs.pop("rows", None)
        own, other = (
            partial(function, each, *args, **kwargs) for each in (objective, self._twin_of(objective))
        )
        if isinstance(result, Bounded):
            self._sums[id(result)] = result, self._twin(own, other, rows)
        else:
            for each, twin in zip(result, other(), strict=True):
                self._sums[id(each)] = each, twin
        return result

    def _twin_of(self, objective: Objective) -> Objective:
        """The other data set with the loss and the ridge term of this objective."""
        if objective is self._own:
            return self._other
        return self._other.with_loss(objective.loss).with_ridge(objective.l2)

    def _twin(
        self, own: Callable[..., Bounded], other: Callable[..., Bounded], rows: SecretRows | None
    ) -> Bounded | _FullSums:
        """What the observer compares a sum with: that of the other data set, or both full sums."""
        return other() if rows is None else self._full_sums(own(), other(), rows.rate)

    def _full_sums(self, own: Bounded, other: Bounded, rate: float) -> _FullSums:
        exact = [release_without_privacy(full).view(np.ndarray).ravel() for full in (own, other)]
        first, second = exact if self._own_first else exact[::-1]
        return _FullSums(first, second, rate)

    def watch(
        self, releaser: Releaser, method: Callable[..., Any], private: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Make the release and add its log-likelihood ratio."""
        if method.__name__ == "noisy_descent":
            return self._watch_descent(releaser, method, private, *args, **kwargs)
        released = method(releaser, private, *args)
        if isinstance(private, PerturbedMinimum):
            return released  # its distribution has no closed form: it is not counted
        twin = self._sums[id(private)][1]
        if isinstance(twin, _FullSums):
            ratio = _sampled_log_ratio(releaser, private, twin, released, *args)
            self.log_ratio += -ratio if self._own_first else ratio
        elif method.__name__ in LOG_RATIOS:
            self.log_ratio += LOG_RATIOS[method.__name__](releaser, private, twin, released, *args)
        return released

    def _watch_descent(
        self,
        releaser: Releaser,
        method: Callable[..., Any],
        private: StochasticDescent,
        noise_multiplier: float,
        **kwargs: Any,
    ) -> Descended:
        """Compute the noisy sums of a whole run from its iterates, all of which are released."""
        plan = private.plan
        iterates, released = self._run_noting_iterates(releaser, method, private, noise_multiplier, **kwargs)
        rate = plan.batch_size / self._own.n_public
        for step, w in enumerate(iterates[:-1]):
            own, other = (clipped_gradient_sum(each, w, plan.clip) for each in (self._own, self._other))
            full = self._full_sums(own, other, rate)
            noisy_sum = self._noisy_sum(private, iterates, step)
            ratio = _sampled_log_ratio(releaser, private, full, noisy_sum, noise_multiplier)
            self.log_ratio += -ratio if self._own_first else ratio
        return released

    def _run_noting_iterates(
        self,
        releaser: Releaser,
        method: Callable[..., Any],
        private: StochasticDescent,
        noise_multiplier: float,
        *,
        observe: Callable[[int, Array], None] | None = None,
        every: int = 1,
        **kwargs: Any,
    ) -> tuple[list[Array], Descended]:
        plan, iterates = private.plan, [np.zeros(private.shape)]
        if plan.radius < math.inf:
            raise ValueError("a Transcript cannot read the noisy sums from iterates that were projected")

        def note(step: int, w: Array) -> None:
            iterates.append(w)
            if observe is not None and (step % every == 0 or step == plan.steps):
                observe(step, w)

        released: Descended = method(releaser, private, noise_multiplier, observe=note, every=1, **kwargs)
        return iterates, released

    def _noisy_sum(self, private: StochasticDescent, iterates: list[Array], step: int) -> Array:
        """The noisy sum that was released at a step, from the iterates before and after it."""
        w, after = iterates[step : step + 2]
        direction = (w - after) / private.plan.step_sizes(step, 1)[0] - self._own.penalty_gradient(w)
        return np.asarray(direction * private.plan.batch_size)


class _KnownBatches(_Twins):
    """The same for an observer who knows the batches and sees `left` sums that include the record."""

    def __init__(self, own: LinearData, other: LinearData, own_first: bool, left: int) -> None:
        super().__init__(own.objective, other.objective, own_first)
        self._left = left
        self._differing = _differing_record(own, other)

    def _twin(
        self, own: Callable[..., Bounded], other: Callable[..., Bounded], rows: SecretRows | None
    ) -> Bounded:
        """The sum of the other data set over the same batch."""
        return other() if rows is None else other(rows=rows)

    def watch(
        self, releaser: Releaser, method: Callable[..., Any], private: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Make the release; count it if the sum includes the record."""
        before = self.log_ratio
        released = super().watch(releaser, method, private, *args, **kwargs)
        if isinstance(private, Bounded) and self.log_ratio != before:
            if self._left == 0:
                self.log_ratio = before
            else:
                self._left -= 1
        return released

    def _watch_descent(
        self,
        releaser: Releaser,
        method: Callable[..., Any],
        private: StochasticDescent,
        noise_multiplier: float,
        **kwargs: Any,
    ) -> Descended:
        """Compute the noisy sums of these batches from the iterates before and after them."""
        batches = _BatchesWithRecord(private._batches, self._differing, self._left)
        object.__setattr__(private, "_batches", batches)
        iterates, released = self._run_noting_iterates(releaser, method, private, noise_multiplier, **kwargs)
        sigma = noise_multiplier * private.sensitivity(releaser.neighbors)
        for step, batch in batches.found:
            w, rows = iterates[step], SecretRows(lambda start, stop, batch=batch: batch, 1.0)  # type: ignore[misc]
            own, other = (
                clipped_gradient_sum(each, w, private.plan.clip, rows=rows)
                for each in (self._own, self._other)
            )
            noisy_sum = self._noisy_sum(private, iterates, step)
            self.log_ratio += _log_ratio_of_sums(own, other, noisy_sum, sigma)
        return released


class _BatchesWithRecord:
    """Passes batches on, and keeps the first `most` that contain a record, with their steps."""

    def __init__(self, batches: Batches, record: int, most: int) -> None:
        self._batches, self._record, self._most = batches, record, most
        self._steps = 0
        self.work_per_step = batches.work_per_step
        self.found: list[tuple[int, Indices]] = []

    def take(self, steps: int) -> tuple[Indices, Indices]:
        """The next batches."""
        order, ends = self._batches.take(steps)
        for place in np.flatnonzero(order == self._record)[: self._most - len(self.found)]:
            step = int(np.searchsorted(ends, place, side="right"))
            batch = order[ends[step - 1] if step else 0 : ends[step]]
            self.found.append((self._steps + step, np.sort(batch)))
        self._steps += steps
        return order, ends


def _differing_record(one: LinearData, other: LinearData) -> int:
    """Index of the record in which the data sets differ."""
    shared = min(len(one.y), len(other.y))
    different = (one.X[:shared] != other.X[:shared]).any(axis=1) | (one.y[:shared] != other.y[:shared])
    found = np.flatnonzero(different)
    if found.size + abs(len(one.y) - len(other.y)) != 1:
        raise ValueError("the data sets of the pair must differ in one record, the last if it is missing")
    return int(found[0]) if found.size else shared


@dataclass(frozen=True)
class _FullSums:
    """What an observer knows of a sum over a secret batch."""

    first: Array
    second: Array
    rate: float


def _sampled_log_ratio(
    releaser: Releaser,
    own: Bounded | StochasticDescent,
    full: _FullSums,
    released: Array,
    noise_multiplier: float,
) -> float:
    """Second over first, with the other records' part of the sum replaced by its mean."""
    replaced = releaser.neighbors is Neighbours.REPLACE_ONE
    common = (full.first + full.second) / 2.0 if replaced else full.first
    sigma = noise_multiplier * own.sensitivity(releaser.neighbors)
    if sigma == 0.0:
        return math.inf if (full.second - full.first).any() else 0.0
    seen = released.ravel() - full.rate * common

    def log_likelihood(gradient: Array) -> float:
        """Of a record with this gradient, relative to no record."""
        in_the_batch = float((seen - gradient / 2.0) @ gradient) / sigma**2
        out = math.log1p(-full.rate) if full.rate < 1.0 else -math.inf
        return float(np.logaddexp(out, math.log(full.rate) + in_the_batch))

    return log_likelihood(full.second - common) - log_likelihood(full.first - common)


def _gaussian_log_ratio(
    releaser: Releaser, own: Bounded, other: Bounded, released: Array, noise_multiplier: float
) -> float:
    return _log_ratio_of_sums(own, other, released, noise_multiplier * own.sensitivity(releaser.neighbors))


def _log_ratio_of_sums(own: Bounded, other: Bounded, released: Array, sigma: float) -> float:
    exact = release_without_privacy(own).view(np.ndarray)
    difference = (release_without_privacy(other).view(np.ndarray) - exact).ravel()
    noise = (released - exact).ravel()
    if sigma == 0.0:
        return math.inf if difference.any() else 0.0
    return float((0.5 * difference - noise) @ difference) / sigma**2


def _norm_laplace_log_ratio(
    releaser: Releaser, own: Bounded, other: Bounded, released: Array, epsilon: float
) -> float:
    distances = [np.linalg.norm(released - release_without_privacy(exact)) for exact in (own, other)]
    if epsilon == math.inf:
        return math.inf if distances[1] > 0.0 else 0.0
    return float(distances[1] - distances[0]) * epsilon / own.sensitivity(releaser.neighbors)


def _choice_log_ratio(
    log_probability: Callable[[Array, int], float],
    releaser: Releaser,
    own: Bounded,
    other: Bounded,
    chosen: int,
    parameter: float,
    public_scores: Any = 0.0,
) -> float:
    """Of a selection with ``log_probability(scores, chosen)``, `parameter` being eta or epsilon."""
    if parameter == math.inf:
        return 0.0
    rate = parameter / own.score_range(releaser.neighbors)
    exact = (release_without_privacy(scores).view(np.ndarray) for scores in (own, other))
    first, second = (log_probability(rate * (scores + np.asarray(public_scores)), chosen) for scores in exact)
    return first - second


def _log_exponential_mechanism(scores: Array, chosen: int) -> float:
    return float(log_softmax(-scores)[chosen])


def _log_permute_and_flip(scores: Array, chosen: int) -> float:
    """Log of ``a_j int_0^1 prod_(i != j) (1 - a_i t) dt``, with the acceptances ``a = e^-(score - best)``.

    t is the position of the candidate in the permutation, scaled to [0, 1]; the integrand is a polynomial,
    for which Gauss quadrature with this many nodes is exact.
    """
    accepted = np.exp(np.min(scores) - scores)
    nodes, weights = np.polynomial.legendre.leggauss(max(1, accepted.size // 2 + 1))
    flips = 1.0 - np.outer(0.5 * (nodes + 1.0), np.delete(accepted, chosen))
    return float(np.log(0.5 * weights @ flips.prod(axis=1)) - (scores[chosen] - np.min(scores)))


#: Log-likelihood ratio of a release, own data set over the other, by the method of the releaser.
LOG_RATIOS: dict[str, Callable[..., float]] = {
    "gaussian_sum": _gaussian_log_ratio,
    "norm_laplace_sum": _norm_laplace_log_ratio,
    "select": partial(_choice_log_ratio, _log_exponential_mechanism),
    "select_permute_and_flip": partial(_choice_log_ratio, _log_permute_and_flip),
}
