"""One fit: its terms, its public facts, the one charge, and the privacy statement.

Every algorithm takes the same steps: it validates all arguments (`Fit`, schedules, noise), is charged once
(`Fit.open`), makes its releases, and ends with `Fit.result`, which writes the statement from the recorded
releases. The ledger entry and the statement come from the same facts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from types import EllipsisType
from typing import Any, Self, cast

import numpy as np

from dperm._cached import cached_property
from dperm._progress import log
from dperm.accounting import PrivacyLedger, gdp_mu
from dperm.accounting.budget import Budget, ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.ledger.terms import relation_of
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import check_target, gaussian_noise_multiplier, units_as_float
from dperm.algorithms.problem import MANY_WEIGHTS, PublicProblem
from dperm.algorithms.settings import (
    Settings,
    check_callback,
    close,
    one_of,
    positive_or_infinite,
)
from dperm.errors import PrivacyWarning, SlowFitWarning, warn_caller
from dperm.losses import Loss
from dperm.losses.weighted import unweighted
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.random_source import RandomState, Source, random_source
from dperm.mechanisms.release import Releaser
from dperm.objective.arguments import check_memory
from dperm.objective.gradients import batch_sum_bounds, check_sums
from dperm.objective.objective import Array, Objective
from dperm.statement.facts import charge_note
from dperm.statement.privacy_statement import PrivacyStatement
from dperm.statement.words import unit

#: Called after each iteration with released values only: ``iteration``, ``coef``, and others that the
#: algorithm documents. Its return value is ignored.
Callback = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class FitResult:
    """Released weights and their privacy guarantee.

    Attributes
    ----------
    coef : ndarray
        Weights, of the objective's shape; the intercept is last when the objective has one.
    privacy : PrivacyStatement
        The guarantee; ``privacy.private`` is False for a non-private fit.
    n_iter : int
        Number of iterations, as the algorithm counts them.
    history : list of dict
        Released values only, one entry per iteration.
    moments : (d, d) ndarray or None
        Released second moments of the columns about their means, with noise; None if the solver has none.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dperm.algorithms.noisy_gd(objective, epsilon=1.0, delta=1e-6)
    >>> result.coef.shape, result.privacy.epsilon, len(result.history) == result.n_iter
    ((2,), 1.0, True)
    """

    coef: Array
    privacy: PrivacyStatement
    n_iter: int
    history: list[dict[str, Any]] = field(default_factory=list)
    moments: Array | None = field(default=None, repr=False, kw_only=True)


# Natural logarithm of the largest weights that a run may reach: their squares are still finite doubles.
_LARGEST_LOG = 340.0
# Entries of rows that a run reads at most: a thread reads some 2^30 a second.
_MOST_WORK = 2.0**52
# For every thread: a panel of 64 rows, their sums and histograms of magnitudes.
_NUMBERS_OF_A_COLUMN = 128


class Fit:
    """A fit in progress; as a context it closes the callback in the end.

    Parameters
    ----------
    objective : Objective
    epsilon, delta : float
        The guarantee to give.
    neighbors, ledger, random_state, callback
        The common arguments of all algorithms, see :mod:`dperm.algorithms`.
    calibration : {"tight", "paper"}, optional
        For algorithms with a published calibration.
    """

    def __init__(
        self,
        objective: Objective,
        epsilon: float,
        delta: float,
        *,
        neighbors: str | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: RandomState = None,
        callback: Callback | None = None,
        calibration: str | None = None,
    ) -> None:
        self.objective = objective
        self.epsilon, self.delta = check_target(epsilon, delta)
        positive_or_infinite("epsilon", self.epsilon)
        self._facts: dict[str, Any] = {}
        if calibration is not None:
            self._facts["calibration"] = one_of("tight", "paper")("calibration", calibration)
        self.as_published = calibration == "paper"
        self.ledger = ledger
        if not isinstance(self.ledger, PrivacyLedger | None):
            raise TypeError(f"ledger must be a ledger of dperm.accounting or None, got {self.ledger!r}")
        if self.objective.weighs_privately:
            self.objective = copy.copy(self.objective)  # this fit will change its class weights
            if self.epsilon == math.inf:
                raise ValueError("class_weight='private' needs a finite epsilon: pass the weights")
        self.neighbors = relation_of(neighbors, self.ledger)
        if self.objective.n_is_exact:
            check_number_is_no_secret(self.neighbors, self.ledger)
        self.callback: Callback | None = check_callback(callback)
        self._source: Source = random_source(random_state)
        self.history: list[dict[str, Any]] = []
        self._release: Releaser | None = None
        self._name, self._steps = "", cast("int | None", None)

    @property
    def n(self) -> int:
        """Public number of records."""
        return self.objective.n_public

    @cached_property
    def mu(self) -> float:
        """The target in Gaussian differential privacy.

        For a pure one, that for which Gaussian noise on a vector has the mean square of norm-Laplace noise.
        """
        if self.delta == 0.0:
            return self.epsilon / math.sqrt(self.objective.dimension + 1.0)
        return gdp_mu(self.epsilon, self.delta)

    @property
    def problem(self) -> PublicProblem:
        """The public numbers that default settings may depend on."""
        own = self.objective
        return PublicProblem(
            own.n_public,
            own.dimension,
            self.mu,
            own.loss,
            own.row_norm,
            own.l2,
            self.neighbors,
        )

    def spawn_source(self) -> Source:
        """A source of random bits for secret samples, independent of the noise."""
        return self._source.spawn(1)[0]

    # -- how much noise: before the charge --------------------------------------------------------------

    def budget(self, accountant: str = "gdp") -> Budget:
        """The largest budget that is (epsilon, delta)-DP when used up."""
        return Budget.from_epsilon(self.epsilon, self.delta, accountant)

    def noise_multiplier(
        self, budget: Budget, releases: int, *, published: Callable[[], float] | None = None
    ) -> float:
        """``sigma / sensitivity`` of each of `releases` equal Gaussian releases that use up the budget.

        For ``calibration="paper"`` the result of `published`, which must fit into the budget.
        """
        if not self.as_published or published is None:
            return gaussian_noise_multiplier(budget.share(parts=releases), budget.accountant)
        multiplier = published()
        self.confirm(budget.fits(GaussianRelease(multiplier), count=releases))
        return multiplier

    def check_published(self, name: str, *, neighbors: str | None = "add_or_remove") -> None:
        """Raise ValueError if ``calibration="paper"`` was requested for a case outside the paper."""
        if not self.as_published:
            return
        if neighbors is not None and self.neighbors != neighbors:
            raise ValueError(f"calibration='paper' of {name} is for neighbors={neighbors!r} only")
        if self.epsilon == math.inf:
            raise ValueError("calibration='paper' needs a finite epsilon")

    def confirm(self, holds: bool) -> None:
        """Raise ValueError unless the tight accountant confirms the published noise."""
        if not holds:
            raise ValueError(
                f"calibration='paper': the published noise does not give (epsilon={self.epsilon:g}, "
                f"delta={self.delta:g}); use calibration='tight'"
            )

    def warn_unproved(self, name: str, reason: str) -> None:
        """Warn that published noise is used outside its proof; the tight accountant has confirmed it."""
        warn_caller(
            f"calibration='paper' of {name}: {reason}; the tight accountant confirms the guarantee here",
            PrivacyWarning,
        )

    def warn_if_slow(self, name: str, instead: str) -> None:
        """Warn, before the charge, if the matrices of an algorithm are large."""
        weights = self.objective.dimension
        if weights > MANY_WEIGHTS:
            warn_caller(
                f"{name} computes with {weights} x {weights} matrices, which takes far longer than reading "
                f"the records; {instead} needs none",
                SlowFitWarning,
            )

    def claim_pure(self) -> None:
        """Claim and charge (epsilon, 0): the release spends no delta."""
        self.delta = 0.0

    def check_gradient_noise(self, clip: float, multiplier: float, radius: float = math.inf) -> None:
        """Raise ValueError unless gradient sums with that clip can be formed and their noise drawn."""
        check_sums(self.objective, clip, radius)
        contribution, grid = batch_sum_bounds(self.objective, clip, radius)
        gaussian_scale(multiplier * contribution * self.neighbors.sum_factor, grid)

    def check_batch_size(self, batch_size: float) -> None:
        """Raise ValueError for batches larger than the data set."""
        if batch_size > self.n:
            raise ValueError(f"batch_size must be at most n_public = {self.n}, got {batch_size!r}")

    def check_growth(self, sizes: Array, momentum: float, clip: float) -> None:
        """Raise ValueError for step sizes with which the ridge term would make the weights overflow.

        Where a step size times l2 exceeds ``2 (1 + momentum)``, heavy-ball steps on the ridge term alone
        diverge. Gradients of losses are bounded by the clip, and add at most their sum.
        """
        l2, stable, growth = self.objective.l2, 2.0 * (1.0 + momentum), 0.0
        for first in range(0, sizes.size, 1 << 20):
            steep = sizes[first : first + (1 << 20)] * l2
            growth += float(np.log(1.0 + momentum + steep[steep > stable]).sum())
        largest = float(sizes.max())
        start = math.log(largest) + math.log(min(clip, 1e100) * sizes.size / (1.0 - momentum)) + 100.0
        if growth + max(start, 0.0) > _LARGEST_LOG:
            raise ValueError(
                f"step_size = {largest:g} in {sizes.size:,} steps with l2 = {l2:g} would drive the weights "
                "beyond the range of doubles: it should be below 2 (1 + momentum) / (l2 + beta)"
            )

    def check_size_cap(self, n: int | None = None) -> None:
        """Raise ValueError if the records are part of a split whose secret size may exceed `n`.

        `n` is `n_public` by default.
        """
        if self.ledger is not None and not self.ledger._is_capped(self.n if n is None else n):
            raise ValueError(
                "the proof needs a bound on the number of records, which is random and secret in a part of a "
                "split: make the objective with n_public=part.size_cap(n), n being that of all records"
            )

    # -- the charge -------------------------------------------------------------------------------------

    def open(
        self,
        name: str,
        budget: Budget | ScheduledBudget,
        schedule: Settings | None = None,
        *,
        sampling: str = "none",
        **facts: Any,
    ) -> Releaser:
        """Charge the ledger: the last step before the data are read.

        The settings of the schedule and `facts` are public facts. A fact replaces a setting of the same name;
        None removes it. BudgetExceededError, without a charge, if the ledger cannot afford the budget.
        """
        settings = ({} if schedule is None else schedule.stated()) | facts
        settings = {fact: value for fact, value in settings.items() if value is not None}
        self._clip, steps = settings.pop("clip", None), settings.pop("steps", None)
        self._name, self._steps = name, steps
        self._sampling = sampling
        self._public = public_facts(self.objective) | settings | self._facts
        hidden = self.neighbors is Neighbours.ADD_OR_REMOVE and self.epsilon < math.inf
        if hidden and self.objective.n_is_exact:
            self._public["exact_n"] = True
        if sampling == "none" and steps is not None:
            self.objective._expect_passes(steps)
        known = {"clip": self._clip, "steps": steps, "sampling": None if sampling == "none" else sampling}
        drawn = self._records_drawn(sampling, settings)
        self._check_work(float(steps or settings.get("rounds", 1)) * max(drawn, 1.0))
        check_memory(self._workspace(drawn), name)
        self._release = Releaser(
            self.epsilon,
            self.delta,
            budget,
            neighbors=self.neighbors,
            ledger=self.ledger,
            random_state=self._source,
            description=name,
            statement={fact: value for fact, value in known.items() if value is not None} | self._public,
        )
        charged = charge_note(self.ledger, self.epsilon, self.delta) or "no ledger was charged"
        log.info("%s on %s records, %s steps: %s", name, self.n, steps, charged)
        return self._release

    def _records_drawn(self, sampling: str, settings: Mapping[str, Any]) -> float:
        """How many indices of records a step, or a random order, has in memory."""
        if sampling in ("poisson", "without_replacement"):
            return float(settings.get("batch_size", self.n))
        return 0.0 if sampling == "none" else float(self.n)

    def _workspace(self, drawn: float) -> float:
        """Bytes for weights, sums and rows of each thread, and sampled records; not for matrices."""
        own, threads = self.objective, self.objective._threads()
        of_rows = _NUMBERS_OF_A_COLUMN * own.shape[0] * threads if own.reads_whole_rows else 0
        return 8.0 * (own.dimension * (8 + threads) + of_rows + 3.0 * drawn)

    def _check_work(self, records: float) -> None:
        """Raise ValueError for a descent without end."""
        if records * self.objective.dimension > _MOST_WORK:
            raise ValueError(
                f"this run would read {records:.3g} records, which takes months: choose fewer steps or a "
                f"smaller batch_size, and check that n_public = {self.n} is the number of records"
            )

    # -- what comes out ---------------------------------------------------------------------------------

    def report(self, iteration: int, coef: Array, **released: Any) -> None:
        """Pass released values to the callback and the history, which keeps norms of gradients."""
        entry: dict[str, Any] = {}
        for name, value in released.items():
            if isinstance(value, np.ndarray) and value.shape == coef.shape:
                entry[f"{name}_norm"] = math.sqrt(np.vdot(value, value))
            else:
                entry[name] = value
        self.history.append(entry)
        self.show(iteration, coef, **released)

    def show(self, iteration: int, coef: Array, **released: Any) -> None:
        """Pass released values to the callback only."""
        log.debug("%s: step %s of %s", self._name, iteration, self._steps)
        if self.callback is not None:
            self.callback({"iteration": iteration, "steps": self._steps, "coef": coef.copy(), **released})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        """Close the callback; add a note on the charge to an error after it."""
        if error is not None and self._release is not None and self.ledger is not None:
            error.add_note(
                f"epsilon = {self.epsilon:g}, delta = {self.delta:g} was charged for {self._name} before "
                "this, and stays charged."
            )
        close(self.callback)

    def result(
        self,
        coef: Array,
        mechanism: str,
        *,
        n_iter: int,
        steps: int | EllipsisType | None = ...,
        clip: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> FitResult:
        """The weights, with a statement of the releases made.

        `mechanism` describes what was run, and `notes` are conditions of the guarantee. `steps` is the number
        of accesses to the data, by default that of the releases; None if it is secret. `clip` replaces that
        of the schedule.
        """
        assert self._release is not None, "open() comes before result()"
        if not np.isfinite(coef).all():
            raise FloatingPointError(
                "the weights overflowed, so there is no model; the charge stays. Use a smaller step_size"
            )
        release, budget = self._release, self._release.budget
        vectors = [each for each in release.releases if not each.selection]
        accountant = str(budget.accountant)
        clip = self._clip if clip is None else clip
        privacy = PrivacyStatement(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbors=self.neighbors,
            mechanism=mechanism,
            accountant=accountant,
            sampling=self._sampling,
            sensitivity=vectors[-1].sensitivity if vectors else None,
            noise_scale=vectors[-1].scale if vectors else None,
            clip=clip if clip is not None and clip < math.inf else None,
            row_norm=self.objective.row_norm,
            steps=sum(each.count for each in release.releases) if steps is ... else steps,
            noise="float" if any(each.noise == "float" for each in release.releases) else "exact",
            random=release.random,
            non_finite=self.objective.non_finite,
            mu=self.mu if accountant == "gdp" else None,
            rho=units_as_float(budget.total_units) if accountant == "zcdp" else None,
            ledger=charge_note(self.ledger, self.epsilon, self.delta),
            public=self._public | _weight_facts(self.objective),
            unit=unit("training data", counted=self.objective.is_counted),
            notes=notes,
        )
        return FitResult(coef=coef, privacy=privacy, n_iter=n_iter, history=self.history)


def check_number_is_no_secret(neighbors: Neighbours, ledger: PrivacyLedger | None) -> None:
    """Raise ValueError if a fit must not publish its exact number of records: that of a part is secret."""
    if neighbors is Neighbours.ADD_OR_REMOVE and ledger is not None and ledger._part:
        raise ValueError(
            "n_public must be given: a fit on a part of a split would publish how many records are in it, "
            "which is secret. Pass n_public=part.n_public(n), n being a public number of all records"
        )


def exact_statement(objective: Objective, mechanism: str, accesses: int) -> PrivacyStatement:
    """The statement for a result computed from the exact data, which protects nothing."""
    return PrivacyStatement(
        epsilon=math.inf,
        delta=0.0,
        neighbors="add_or_remove",
        mechanism=mechanism,
        accountant="none",
        row_norm=objective.row_norm,
        steps=accesses,
        non_finite=objective.non_finite,
        public=public_facts(objective),
    )


def public_facts(objective: Objective) -> dict[str, Any]:
    """Facts about the objective that every fit treats as public."""
    return {
        "n": objective.n_public,
        "dimension": objective.dimension,
        "dtype": str(objective.dtype),
        "loss": unweighted(objective.loss).name,
        **_loss_parameters(unweighted(objective.loss)),
        **_weight_facts(objective),
        "l2": objective.l2,
        "fit_intercept": objective.fit_intercept,
        **({"partitions": objective.n_partitions} if objective.n_partitions else {}),
        **objective.described,
    }


def _weight_facts(objective: Objective) -> dict[str, Any]:
    weights = objective.weights
    facts: dict[str, Any] = {}
    if weights is not None and weights.each is not None:
        facts["weight_bound"] = weights.bound
    if weights is not None and weights.of_classes:
        facts["class_weight"] = {f"{label:g}": weight for label, weight in weights.of_classes.items()}
    return facts


def _loss_parameters(loss: Loss) -> dict[str, Any]:
    """Threshold, level, target bound and so on, without infinite ones."""
    chosen: dict[str, Any] = asdict(loss) if is_dataclass(loss) else {}
    return {name: value for name, value in chosen.items() if value != math.inf}
