"""The only door from private sums to numbers: charge, then draw, then add."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._config import check_ledger_is_given
from dperm._kernels.samplers import RandomBits, normals_float
from dperm.accounting.budget import Budget, ScheduledBudget
from dperm.accounting.events import (
    ExponentialMechanismRelease,
    GaussianRelease,
    PerturbedMinimumRelease,
    PrivacyEvent,
    PureRelease,
)
from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.errors import SeededNoiseWarning, warn_caller
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.hooks import draws_ahead, samplers, watched
from dperm.mechanisms.noise import check_epsilon, check_norm_laplace, gaussian_scale, grid_exponent
from dperm.mechanisms.random_source import RandomState, random_source
from dperm.mechanisms.records import PerturbedMinimum, ReleaseRecord, gaussian_release
from dperm.mechanisms.selection import dyadic_rate
from dperm.objective.arguments import check_memory
from dperm.objective.descents import Descended, NoiseSource, StochasticDescent
from dperm.objective.gradients import (
    batch_sum_bounds,
    clipped_gradient_sum,
    mapped_gradient_sum,
    noisy_batch_sums,
)
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform

Array = NDArray[np.float64]


class Releaser:
    """Releases the sums of one fit within one budget.

    The constructor charges the fit's whole (epsilon, delta) to the ledger; each release is then charged to
    the fit's own budget *before* its noise is drawn. A release over budget raises BudgetExceededError
    and draws nothing. All releases together, even if each is chosen adaptively, are (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of the whole fit; ``epsilon = inf`` draws no noise and protects nothing.
    budget : Budget or ScheduledBudget
        Budget of the releases of this fit; using it up must be (epsilon, delta)-DP.
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    ledger : PrivacyLedger, optional
        Shared budget to charge.
    random_state : None, int or numpy Generator
        None for cryptographic noise; anything else is reproducible and gives no protection from those who
        know it.
    description : str
        Name of the algorithm, and of the fit in the ledger's history.
    statement : Mapping, optional
        Public facts about the fit that are known before it runs, stored in the ledger's history.

    Attributes
    ----------
    releases : list of ReleaseRecord
        The releases so far, in order.

    Raises
    ------
    BudgetExceededError
        If the ledger cannot afford the fit. Nothing was charged or drawn.
    ValueError
        If there is hardly any memory left. Nothing was charged or drawn.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        budget: Budget | ScheduledBudget,
        *,
        neighbors: Neighbours | str,
        ledger: PrivacyLedger | None,
        random_state: RandomState,
        description: str,
        statement: Mapping[str, Any] | None = None,
    ) -> None:
        self.neighbors = Neighbours.parse(neighbors)
        self.budget = budget
        source = random_source(random_state)
        self.random: str = source.kind
        self._bits = RandomBits(source)
        self._source = source
        self.releases: list[ReleaseRecord] = []
        check_ledger_is_given(ledger)
        check_memory(0.0, description)
        if ledger is None and self.random == "seeded" and epsilon < math.inf:
            warn_caller(
                "random_state was given: two fits with equal seeds draw equal noise, which cancels in their "
                "difference, even for those who do not know the seed. Use random_state=None for releases.",
                SeededNoiseWarning,
            )
        if ledger is not None:
            accountant = str(budget.accountant)
            facts = {
                "algorithm": description,
                "epsilon": epsilon,
                "delta": delta,
                "accountant": accountant,
                "neighbors": str(self.neighbors),
                "random": self.random,
                **(statement or {}),
            }
            ledger.charge(
                epsilon=epsilon,
                delta=delta,
                accountant=accountant,
                description=description,
                statement=facts,
                neighbors=str(self.neighbors),
                cost=budget.cost,
                seeded=self.random == "seeded",
            )

    def sampling_bits(self) -> RandomBits:
        """Random bits for secret samples: a separate stream, from the same seed if there is one."""
        return RandomBits(self._source.spawn(1)[0])

    def _spend(self, record: ReleaseRecord) -> None:
        """Charge and record a release whose noise is about to be drawn."""
        if not 0.0 < record.sensitivity < math.inf:
            raise ValueError(f"a sensitivity must be positive and finite, got {record.sensitivity!r}")
        self.budget.spend(record.event, count=record.count)
        if self.releases and self.releases[-1].repeats(record):
            self.releases[-1].count += record.count
        else:
            self.releases.append(record)

    @watched
    def gaussian_sum(self, private: Bounded, noise_multiplier: float) -> Array:
        """Release a vector sum with Gaussian noise of ``noise_multiplier`` times its sensitivity.

        The noise is an exactly sampled Gaussian rounded to the grid of the sum, so the result is
        post-processing of the continuous Gaussian mechanism.

        Returns
        -------
        ndarray of float64, same shape as the sum
        """
        sensitivity = self._vector_sensitivity(private)
        sigma = noise_multiplier * sensitivity
        gaussian_scale(sigma, private.grid)  # raises if the noise does not fit the grid
        self._spend(ReleaseRecord(gaussian_release(noise_multiplier), sensitivity, sigma, private.grid))
        noise = samplers().gaussian(self._bits, sigma, grid_exponent(private.grid), private.shape)
        return (private._integers + noise) * np.float64(private.grid)

    def _vector_sensitivity(self, private: Bounded) -> float:
        if private.scores:
            raise TypeError("scores are released through select()")
        return private.sensitivity(self.neighbors)

    def noisy_batch_sums(
        self,
        objective: Objective,
        batches: SecretBatches,
        noise_multiplier: float,
        *,
        clip: float,
        steps: int,
        radius: float = math.inf,
        linear_map: Transform | None = None,
    ) -> Callable[[Array], Array]:
        """Release noisy sums of clipped gradients over successive secret batches.

        The returned ``noisy_sum(w)`` is :meth:`gaussian_sum` of ``clipped_gradient_sum(objective, w, clip,
        radius=radius, rows=next(batches))``, bit for bit. If this process holds the records, all `steps` of
        them are charged here, before the first number is drawn. A step is then one call of compiled code,
        which draws the noise and the next batch during the pass over the current one.

        Parameters
        ----------
        objective : Objective
        batches : SecretBatches
            Not used by anything else.
        noise_multiplier : float
            Standard deviation of the noise over the sensitivity of a batch's sum.
        clip, radius : float
            See :meth:`dperm.Objective.clipped_gradient_sum`.
        steps : int
            Number of sums.
        linear_map : Transform, optional
            For sums as in :meth:`dperm.Objective.mapped_gradient_sum`.
        """
        if draws_ahead():
            contribution, grid = batch_sum_bounds(objective, clip, radius, linear_map)
            sensitivity = contribution * self.neighbors.sum_factor
            sigma = noise_multiplier * sensitivity
            noise = samplers().gaussian_ahead(self._bits, sigma, grid_exponent(grid), objective.shape)
            noisy_sum = noisy_batch_sums(objective, batches, noise, steps, clip, radius, linear_map)
            if noisy_sum is not None:
                event = gaussian_release(noise_multiplier)
                self._spend(ReleaseRecord(event, sensitivity, sigma, grid, count=steps))
                return noisy_sum
        samples = iter(batches)

        def one_by_one(w: Array) -> Array:
            rows = next(samples)
            if linear_map is None:
                private = clipped_gradient_sum(objective, w, clip, radius=radius, rows=rows)
            else:
                private = mapped_gradient_sum(objective, w, clip, linear_map, rows=rows)
            return self.gaussian_sum(private, noise_multiplier)

        return one_by_one

    @watched
    def norm_laplace_sum(self, private: Bounded, epsilon: float) -> Array:
        """Release a vector sum with norm-Laplace noise; the release is epsilon-DP.

        The noise has a density proportional to ``exp(-epsilon ||z|| / sensitivity)``, with the Euclidean norm
        over all entries. It is sampled exactly and rounded to the grid of the sum, so the result is
        post-processing of the continuous mechanism.

        Parameters
        ----------
        private : Bounded
            A vector sum.
        epsilon : float
            Positive; infinity draws no noise.

        Returns
        -------
        ndarray of float64, same shape as the sum

        Raises
        ------
        ValueError
            If `epsilon` is not positive, or so small that the noise does not fit the grid. Nothing is
            charged.
        """
        sensitivity = self._vector_sensitivity(private)
        check_epsilon(epsilon)
        scale = sensitivity / epsilon * (1.0 + 2.0**-50)
        exponent = grid_exponent(private.grid)
        check_norm_laplace(scale, exponent, private.shape)
        self._spend(ReleaseRecord(PureRelease(epsilon), sensitivity, scale, private.grid))
        noise = samplers().norm_laplace(self._bits, scale, exponent, private.shape)
        return np.asarray((private._integers + noise) * private.grid, dtype=np.float64)

    @watched
    def perturbed_minimum(self, private: PerturbedMinimum, event: PerturbedMinimumRelease) -> Array:
        """Release the minimiser of an objective with a secret random linear term, plus output noise.

        The event is charged first. Then the linear term is drawn, exactly and rounded to a grid of about
        2^-40 of its scale, and passed to ``private.minimise`` with a bound on the norm of the rounding error.

        Parameters
        ----------
        private : PerturbedMinimum
        event : PerturbedMinimumRelease
            What is charged and drawn.

        Returns
        -------
        ndarray of float64
        """
        gaussian = event.mechanism == "gaussian"
        draw = samplers().gaussian if gaussian else samplers().norm_laplace
        exponent = math.frexp(event.scale)[1] - 40 if event.scale > 0.0 else 0
        grid = math.ldexp(1.0, exponent)
        self._spend(ReleaseRecord(event, private.sensitivity, event.scale, grid))
        linear = np.asarray(draw(self._bits, event.scale, exponent, private.shape) * grid, dtype=np.float64)
        rounding = 0.5 * grid * math.sqrt(linear.size) if event.scale > 0.0 else 0.0
        minimum = private.minimise(linear, rounding)
        sensitivity = self._vector_sensitivity(minimum)
        scale = sensitivity * event.output if gaussian else sensitivity / event.output
        noise = draw(self._bits, scale * (1.0 + 2.0**-50), grid_exponent(minimum.grid), private.shape)
        return np.asarray((minimum._integers + noise) * minimum.grid, dtype=np.float64)

    @watched
    def noisy_descent(
        self,
        private: StochasticDescent,
        noise_multiplier: float,
        *,
        noise: str = "exact",
        observe: Callable[[int, Array], None] | None = None,
        every: int = 1,
    ) -> Descended:
        """Run stochastic gradient descent with Gaussian noise on the sum of every batch.

        All steps are charged before the first number is drawn. Every iterate is released: everything that is
        returned or passed to `observe` is computed from the noisy sums.

        Parameters
        ----------
        private : StochasticDescent
        noise_multiplier : float
            Standard deviation of the noise over the sensitivity of a batch's sum; 0 for no noise.
        noise : {"exact", "float"}
            "exact": as in :meth:`gaussian_sum`. "float": floating-point normal numbers, many times faster but
            **idealised**: the guarantee holds for real numbers, not for the program.
        observe : callable, optional
            Called as ``observe(t, w)`` after every `every` steps and after the last.
        every : int

        Returns
        -------
        Descended
            Last iterate and, if the plan includes it, the average.
        """
        if noise not in ("exact", "float"):
            raise ValueError(f"noise must be 'exact' or 'float', got {noise!r}")
        sensitivity = private.sensitivity(self.neighbors)
        sigma = noise_multiplier * sensitivity
        if noise == "exact":
            gaussian_scale(sigma, private.grid)  # raises if the noise does not fit the grid
        event, steps = GaussianRelease(noise_multiplier), private.plan.steps
        self._spend(ReleaseRecord(event, sensitivity, sigma, private.grid, noise=noise, count=steps))
        if sigma == 0.0:
            return private._run(lambda count: None, "none", observe, every)
        draw = self._exact_draws(private, sigma) if noise == "exact" else self._float_draws(private, sigma)
        return private._run(draw, noise, observe, every)

    def _exact_draws(self, private: StochasticDescent, sigma: float) -> NoiseSource:
        exponent = grid_exponent(private.grid)
        sampler = samplers().gaussian
        return lambda count: sampler(self._bits, sigma, exponent, (count, *private.shape))

    def _float_draws(self, private: StochasticDescent, sigma: float) -> NoiseSource:
        buffers: list[Array] = []  # two, alternating: one is filled while the other is in use
        turns = itertools.count()

        def draw(count: int) -> Array:
            if len(buffers) < 2:
                buffers.append(np.empty((count, *private.shape)))
            block = buffers[next(turns) % 2][:count]
            normals_float(self._bits, sigma, block.ravel())
            return block

        return draw

    @watched
    def select(self, private: Bounded, eta: float, public_scores: ArrayLike = 0.0) -> int:
        """Select a candidate with a small score by the exponential mechanism.

        Parameters
        ----------
        private : Bounded
            Scores.
        eta : float
            Bounded range of the selection: the rate is eta divided by the range of one record's effect.
            Infinity selects the best.
        public_scores : array_like, shape (m,) or scalar
            Public part of the scores, added to the private sums.

        Returns
        -------
        int
            Index of the selected candidate.
        """
        scores = self._scores(private, public_scores)
        self._spend(self._selection(private, ExponentialMechanismRelease(eta), eta))
        if eta == math.inf:
            return int(np.argmin(scores))
        rate = eta * (private.grid / private.score_range(self.neighbors))
        return samplers().exponential_mechanism(self._bits, scores, rate * (1.0 - 2.0**-50))

    @watched
    def select_permute_and_flip(
        self, private: Bounded, epsilon: float, public_scores: ArrayLike = 0.0
    ) -> int:
        """Select a candidate with a small score by permute-and-flip; the selection is epsilon-DP.

        For a pure guarantee: never worse than the exponential mechanism with the same epsilon. In zCDP or GDP
        it costs four times as much as `select` with the same rate, since it is not of bounded range.

        Parameters
        ----------
        private : Bounded
            Scores.
        epsilon : float
            Positive; the rate is epsilon divided by the range of one record's effect. Infinity selects the
            best.
        public_scores : array_like, shape (m,) or scalar
            As for `select`.

        Returns
        -------
        int
            Index of the selected candidate.

        Raises
        ------
        ValueError
            If `epsilon` is not positive, or too large for exact sampling. Nothing is charged.

        References
        ----------
        R. McKenna, D. Sheldon, "Permute-and-Flip", NeurIPS 2020, Theorem 1.
        """
        check_epsilon(epsilon)
        scores = self._scores(private, public_scores)
        rate = epsilon * (private.grid / private.score_range(self.neighbors)) * (1.0 - 2.0**-50)
        if rate < math.inf:
            dyadic_rate(rate)
        self._spend(self._selection(private, PureRelease(epsilon), epsilon))
        if rate == math.inf:
            return int(np.argmin(scores))
        return samplers().permute_and_flip(self._bits, scores, rate)

    @watched
    def select_laplace(self, private: Bounded, epsilon: float, public_scores: ArrayLike = 0.0) -> int:
        """Select the smallest score after adding Laplace noise to each; the selection is epsilon-DP.

        For reproducing published algorithms: `select` is more accurate at the same cost. The noise has
        scale ``score_range / epsilon``, which requires monotone scores: adding a record moves all in the same
        direction, as it does for sums of nonnegative losses.
        """
        check_epsilon(epsilon)
        scores = self._scores(private, public_scores)
        self._spend(self._selection(private, PureRelease(epsilon), epsilon))
        scale = private.score_range(self.neighbors) / private.grid / epsilon * (1.0 + 2.0**-50)
        return samplers().report_noisy_min(self._bits, scores, scale)

    def _selection(self, private: Bounded, event: PrivacyEvent, amount: float) -> ReleaseRecord:
        spread = private.score_range(self.neighbors)
        scale = spread / amount if amount > 0.0 else math.inf
        return ReleaseRecord(event, spread, scale, private.grid, selection=True)

    def _scores(self, private: Bounded, public_scores: ArrayLike) -> NDArray[np.int64]:
        """Private plus public scores as integers on the grid of the private ones."""
        if not private.scores:
            raise TypeError("only scores can be selected from; release a vector with gaussian_sum()")
        public = np.rint(np.asarray(public_scores) / private.grid)
        if public.shape not in ((), private.shape):
            raise ValueError(f"public_scores must have shape {private.shape}, got {public.shape}")
        largest = np.abs(public).max(initial=0.0)
        if not largest < math.inf:
            raise ValueError("public_scores must be finite")
        if largest >= 2.0**61:
            # Sums of losses span less than 2^52 steps: a candidate that is worse by more is never selected.
            public = np.minimum(public - public.min(), 2.0**60)
        return private._integers + public.astype(np.int64)
