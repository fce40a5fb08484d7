"""Lower bounds on epsilon from many seeded trainings on two data sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.accounting._checks import check_delta
from dperm.audit.bounds import METHODS, Family, Judge, Statistic, learn_statistic

Array = NDArray[np.float64]
#: ``fit(data, seed) -> observation``: a number or an array of fixed size.
Fit = Callable[[Any, int], Any]
RandomState = int | np.random.Generator | np.random.SeedSequence | None

# Chunks per process: enough for load balancing and for a progress bar.
_CHUNKS_PER_PROCESS = 16


def observe(
    fit: Fit,
    neighbours: Sequence[Any],
    runs: int,
    *,
    n_jobs: int | None,
    progress: bool,
    random_state: RandomState,
) -> tuple[Array, Array]:
    """Train ``runs`` times on each of two data sets, each time with its own seed.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed)``; with more than one process it and the data must be picklable (functions
        defined in a session are).
    neighbours : pair
        The two data sets.
    runs : int
        Trainings on each data set.
    n_jobs : int or None
        Number of processes as for joblib, with one thread each; None for all cores, 1 for this process.
    progress : bool
        Show a bar, if rich is installed.
    random_state : None, int, Generator or SeedSequence
        Source of the seeds.

    Returns
    -------
    two ndarrays, shape (runs, size of an observation)
    """
    seeds = np.random.default_rng(random_state).integers(0, 2**63, size=(2, runs))
    processes = joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs)
    size = max(1, math.ceil(runs / (_CHUNKS_PER_PROCESS * processes)))
    chunks = [seeds[:, start : start + size] for start in range(0, runs, size)]
    parallel = joblib.Parallel(n_jobs=processes, return_as="generator", batch_size=1)
    results = parallel(joblib.delayed(_train)(fit, neighbours, chunk) for chunk in chunks)
    with _bar(progress, len(chunks)) as shown:
        observations = np.concatenate(list(shown(results)), axis=1)
    return observations[0], observations[1]


def _train(fit: Fit, neighbours: Sequence[Any], seeds: NDArray[np.int64]) -> Array:
    """Observations, shape (2, runs, size)."""
    rows = [
        [np.ravel(fit(data, seed)) for seed in own.tolist()]
        for data, own in zip(neighbours, seeds, strict=True)
    ]
    return np.asarray(rows, dtype=np.float64)


@contextmanager
def _bar(progress: bool, total: int) -> Iterator[Callable[[Iterable[Any]], Iterable[Any]]]:
    """A function that passes an iterable through, with a progress bar on request."""
    if not progress:
        yield lambda items: items
        return
    try:
        from rich.progress import Progress
    except ImportError:
        yield lambda items: items
        return
    with Progress(transient=True) as bar:
        yield lambda items: bar.track(items, total=total, description="Training")


@dataclass(frozen=True)
class AuditResult:
    """Lower bound on the privacy loss of a mechanism.

    Attributes
    ----------
    epsilon : float
        With probability ``confidence`` over the trainings, the mechanism is not (epsilon', delta)-DP in
        the sense of ``method`` for any epsilon' below this; 0 if nothing was found.
    mu : float or None
        Lower bound on mu of Gaussian differential privacy, for "gdp" and "gdp_threshold".
    delta, confidence : float
    method : str
        "gdp", "gdp_threshold", "zcdp", "profile" or "clopper_pearson", see :func:`epsilon_lower_bound`.
    trainings, certified : int
        All trainings, and those from which the bound was computed; half of them on each data set.
    threshold : float or None
        Scores above it were classified as the second data set; None if runs were compared in pairs.
    false_positive_rate, false_negative_rate : float
        Observed error rates of the threshold on the first and second data set; for pairs, both are the share
        of pairs in the wrong order.
    claim : float or None
        Epsilon at ``delta`` that the mechanism claims, if given; infinite if it claims nothing.
    rho : float or None
        Lower bound on rho of zero-concentrated differential privacy, for "zcdp".
    strength : float or None
        Lower bound on the strength within the family of profiles, for "profile".

    Examples
    --------
    >>> import numpy as np
    >>> from dperm.audit import certify_observations
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(0.0, size=1000), rng.normal(3.0, size=1000)
    >>> result = certify_observations(first, second, delta=1e-5, claim=1.0)
    >>> result.violates(), result.mu > 2.0
    (True, True)
    """

    epsilon: float
    mu: float | None
    delta: float
    confidence: float
    method: str
    trainings: int
    certified: int
    threshold: float | None
    false_positive_rate: float
    false_negative_rate: float
    claim: float | None = None
    rho: float | None = None
    strength: float | None = None

    def violates(self, claim_epsilon: float | None = None) -> bool:
        """Whether the bound refutes (claim_epsilon, delta); by default the claim of the audit.

        A true claim is refuted with probability at most ``1 - confidence``.
        """
        claim = self.claim if claim_epsilon is None else claim_epsilon
        if claim is None:
            raise ValueError("no claim to compare with: pass claim_epsilon")
        return self.epsilon > claim

    def __str__(self) -> str:
        lines = [
            f"epsilon >= {self.epsilon:.4g} at delta = {self.delta:g}"
            + "".join(
                f" ({name} >= {value:.4g})"
                for name, value in (("mu", self.mu), ("rho", self.rho), ("strength", self.strength))
                if value is not None
            )
            + f", confidence {self.confidence:.9g}",
            f"  {self.trainings} trainings, {self.certified} of them for the bound; method {self.method}",
            "  "
            + (
                "pairs of runs in the wrong order: "
                if self.threshold is None
                else f"threshold {self.threshold:.4g}, false positives {self.false_positive_rate:.4g}, "
                "false negatives "
            )
            + f"{self.false_negative_rate:.4g}",
        ]
        if self.claim == math.inf:
            lines.append("  NOT PRIVATE: the mechanism claims no finite epsilon")
        elif self.claim is not None:
            verdict = "VIOLATED" if self.violates() else "not contradicted"
            lines.append(f"  claim: epsilon = {self.claim:.4g}, {verdict}")
        return "\n".join(lines)


def epsilon_lower_bound(
    fit: Fit,
    neighbours: Sequence[Any],
    *,
    delta: float,
    trainings: int = 10_000,
    confidence: float = 0.95,
    statistic: Statistic | None = None,
    method: str = "gdp",
    family: Family | None = None,
    learn_share: float | None = None,
    claim: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: RandomState = None,
) -> AuditResult:
    """Train many times on two neighbouring data sets and bound epsilon from below.

    Some trainings are set aside to learn a statistic and a decision rule. The errors on the others, which
    were not looked at before, certify the bound.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed) -> observation``, a number or array of fixed size: the final weights
        (:class:`dperm.audit.Coefficients`), everything released (:class:`dperm.audit.Transcript`), or
        anything that the guarantee covers. It must be picklable unless ``n_jobs=1``, and use the seed for
        all its noise; seeded noise is fine here, since the data are synthetic.
    neighbours : pair of data sets
        Passed to ``fit``; see :func:`dperm.audit.worst_case_neighbours`.
    delta : float
        In (0, 1); for "clopper_pearson" it may be 0.
    trainings : int
        Total number, half on each data set; at least 20.
    confidence : float
        In (0, 1): a true claim is refuted with probability at most ``1 - confidence``.
    statistic : callable, optional
        Observations of shape (runs, size) to scores of shape (runs,), larger on the second data set.
        Learned when not given: see :func:`dperm.audit.bounds.learn_statistic`.
    method : {"gdp", "gdp_threshold", "zcdp", "profile", "clopper_pearson"}
        "clopper_pearson" refutes (epsilon, delta)-DP itself, for any mechanism. "gdp" and "gdp_threshold"
        refute *mu-GDP*, and with it a claim of (epsilon, delta) that rests on mu-GDP (Gaussian noise,
        ``privacy.mu`` given). Their bounds are much larger, but prove nothing about a mechanism that claims
        only (epsilon, delta) or zCDP. "zcdp" refutes *rho-zCDP*, and with it a claim that rests on it
        (``privacy.rho`` given). "profile" refutes a whole privacy profile, such as one from privacy-loss
        distributions, within a `family`. "gdp" and "zcdp" compare runs in pairs or, if a rare event reveals
        more, by a threshold, whichever certified more on the trainings set aside; the others use thresholds
        only.
    family : callable, optional
        For "profile": ``family(strength)(epsilon)`` is the delta that a claim of this strength makes at
        epsilon, for every ``strength > 0`` and ``epsilon >= 0``. It must grow with the strength, for
        instance ``lambda s: lambda e: sgd_delta(1 / s, e, batch_size=..., n_samples=..., steps=...)``.
    learn_share : float, optional
        Share of the trainings set aside, in (0, 1). By default 0.1 when an observation is a single number or
        a statistic is given, else one half; at least 10 trainings.
    claim : float, optional
        Epsilon that the mechanism claims at ``delta``, for the report.
    n_jobs : int, optional
        Number of processes; None for all cores, 1 for this process only.
    progress : bool
        Show a bar, if rich is installed.
    random_state : None, int, Generator or SeedSequence
        Source of all seeds: an integer makes the audit reproducible.

    Returns
    -------
    AuditResult

    Raises
    ------
    ValueError
        If an argument is outside its range, or an observation is NaN.

    Notes
    -----
    One-sided Clopper-Pearson intervals, two of them (each with half the error) for thresholds, one for
    pairs. The bounds and their sources are in :mod:`dperm.audit.bounds`. The idea of measuring mu instead of
    epsilon: Nasr et al. 2023, "Tight auditing of differentially private machine learning".

    Examples
    --------
    >>> import numpy as np
    >>> def fit(data, seed):
    ...     return data + np.random.default_rng(seed).normal(scale=2.0)
    >>> result = epsilon_lower_bound(fit, (0.0, 1.0), delta=1e-5, claim=2.1, n_jobs=1, random_state=1)
    >>> 0.4 < result.mu < 0.5
    True
    >>> result.violates()
    False
    """
    if trainings < 20:
        raise ValueError(f"trainings must be at least 20, got {trainings!r}")
    if len(neighbours) != 2:
        raise ValueError(f"neighbours must be a pair of data sets, got {len(neighbours)}")
    _check(delta, confidence, method, learn_share, family)
    first, second = observe(
        fit, neighbours, trainings // 2, n_jobs=n_jobs, progress=progress, random_state=random_state
    )
    return certify_observations(
        first,
        second,
        delta=delta,
        confidence=confidence,
        statistic=statistic,
        method=method,
        family=family,
        learn_share=learn_share,
        claim=claim,
    )


def certify_observations(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    statistic: Statistic | None = None,
    method: str = "gdp",
    family: Family | None = None,
    learn_share: float | None = None,
    claim: float | None = None,
) -> AuditResult:
    """Bound epsilon from observations of independent trainings that were made before.

    Parameters
    ----------
    first, second : (runs, size) or (runs,) array_like
        Observations on the two data sets, as many on each, at least 10, in random order.
    delta, confidence, statistic, method, family, learn_share, claim
        As for :func:`epsilon_lower_bound`.

    Returns
    -------
    AuditResult

    Raises
    ------
    ValueError
        If an argument is outside its range, or an observation or score is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(0.0, size=1000), rng.normal(1.0, size=1000)
    >>> result = certify_observations(first, second, delta=1e-5, claim=6.0)
    >>> 0.7 < result.mu < 1.0, result.violates()
    (True, False)
    """
    _check(delta, confidence, method, learn_share, family)
    observed = [np.asarray(rows, dtype=np.float64) for rows in (first, second)]
    observed = [rows.reshape(len(rows), -1) for rows in observed]
    runs = len(observed[0])
    if observed[0].shape != observed[1].shape or runs < 10:
        raise ValueError("as many observations of the same size are needed on each data set, at least 10")
    if any(np.isnan(rows).any() for rows in observed):
        raise ValueError("an observation holds NaN")
    if learn_share is None:
        learn_share = 0.5 if statistic is None and observed[0].shape[1] > 1 else 0.1
    learn = min(max(5, round(learn_share * runs)), runs - 1)
    score = statistic or learn_statistic(observed[0][:learn], observed[1][:learn])
    scores = [np.asarray(score(rows), dtype=np.float64) for rows in observed]
    if any(values.shape != (runs,) or np.isnan(values).any() for values in scores):
        raise ValueError("statistic must return one number, not NaN, per observation")
    judge = Judge(delta, confidence, method, family)
    decision = judge.choose(scores[0][:learn], scores[1][:learn])
    epsilon, parameter, alpha, beta = judge.certify(scores[0][learn:], scores[1][learn:], decision)
    return AuditResult(
        epsilon=epsilon,
        mu=parameter if method in ("gdp", "gdp_threshold") else None,
        delta=delta,
        confidence=confidence,
        method=method,
        trainings=2 * runs,
        certified=2 * (runs - learn),
        threshold=decision,
        false_positive_rate=alpha,
        false_negative_rate=beta,
        claim=claim,
        rho=parameter if method == "zcdp" else None,
        strength=parameter if method == "profile" else None,
    )


def _check(
    delta: float, confidence: float, method: str, learn_share: float | None, family: Family | None
) -> None:
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    if (family is None) == (method == "profile"):
        raise ValueError('family must be given for method="profile", and for no other')
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
    if not (method == "clopper_pearson" and delta == 0.0):
        check_delta(delta)
    if learn_share is not None and not 0.0 < learn_share < 1.0:
        raise ValueError(f"learn_share must be in (0, 1), got {learn_share!r}")
