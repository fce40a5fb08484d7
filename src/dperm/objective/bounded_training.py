"""Training without noise whose iterates stay secret; only the result is released, with its sensitivity.

Sensitivities are proved for exact arithmetic, and then increased by a bound on the rounding errors of the
program.

Sums over the records are plain sums of doubles, with an error bound independent of the data, and not sums on
the grid of the clipped gradients: rounding each record's gradient to a grid ``g`` would add an error of up to
``g/2 sqrt(d)`` to the mean, while the error of a sum of doubles is some thousand ulps of the mean, a
millionth of the contribution of one of a million records.

**Clip.** A record's gradient ``s z``, clipped to norm C, is the gradient of a convex loss again, and no less
smooth: it clips the slope s, which increases in the prediction, to ``C / ||z||``. Everything here holds for
the mean of those losses, with C for the Lipschitz constant.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.neighbours import Neighbours
from dperm.accounting.output_sensitivity import (
    DescentRun,
    contraction,
    gradient_descent_sensitivity,
    logistic_sensitivity,
)
from dperm.errors import DataError
from dperm.objective import certified_minimum
from dperm.objective.objective import Objective
from dperm.objective.projection import project
from dperm.private_values.bounded import Bounded, result_grid

Array = NDArray[np.float64]

_UNIT = 2.0**-52  # twice the error of one rounding, which covers higher-order terms


@dataclass(frozen=True)
class PublicConstants:
    """Public constants of the mean objective ``F``.

    Attributes
    ----------
    n, dimension : int
        Public number of records, number of weights.
    row_norm : float
        R, with an allowance for the error of computed norms.
    lipschitz : float
        L, bound on the norm of one record's gradient in the ball of `radius`, at most the clip.
    beta : float
        Lipschitz constant of one record's gradient.
    l2 : float
        Ridge strength: F is (l2 + beta)-smooth.
    strong : float
        Strong convexity of F: l2, or 0 if the ridge term does not cover every weight.
    start_loss : float
        Bound on how much one record's loss can fall from its value at the weights 0.
    radius : float
        Radius of a ball that contains the iterates.
    """

    n: int
    dimension: int
    row_norm: float
    lipschitz: float
    beta: float
    l2: float
    strong: float
    start_loss: float
    radius: float

    @classmethod
    def of(
        cls,
        objective: Objective,
        *,
        radius: float = math.inf,
        extra_l2: float = 0.0,
        clip: float = math.inf,
    ) -> PublicConstants:
        """The constants of an objective, with a further ridge term on every weight and clipped gradients.

        Raises
        ------
        ValueError
            If gradients are bounded neither by the loss on the ball nor by the clip, or the loss is not
            smooth.
        """
        # Computed norms, and thus scaled rows and clipped gradients, have a relative error of
        # (n_columns + 8) 2^-52.
        slack = 1.0 + _UNIT * (objective.dimension + 16)
        loss, row_norm = objective.loss, objective.row_norm * slack
        lipschitz, beta = min(loss.lipschitz(row_norm, radius), clip * slack), loss.smoothness(row_norm)
        if lipschitz == math.inf:
            raise ValueError(
                f"the slope of the {loss.name} loss grows without limit: pass a finite clip or radius (the "
                "iterates are projected onto the ball of that radius)"
            )
        if beta == math.inf:
            raise ValueError(f"the {loss.name} loss has a kink: use a smoothed one")
        if not (2.0**-64 <= lipschitz <= 2.0**64 and 2.0**-64 <= beta <= 2.0**64):
            raise ValueError("row_norm is out of range: the loss must have a slope between 2^-64 and 2^64")
        everywhere = objective.penalize_intercept or not objective.fit_intercept
        target = 1.0 if loss.classification else loss.target_bound
        return cls(
            n=objective.n_public,
            dimension=objective.dimension,
            row_norm=row_norm,
            lipschitz=lipschitz,
            beta=beta,
            l2=objective.l2 + extra_l2,
            strong=extra_l2 + (objective.l2 if everywhere else 0.0),
            start_loss=float(np.max(loss.value(0.0, [target, -target]))) if target < math.inf else math.inf,
            radius=radius,
        )

    def gradient_error(self, weight_norm: float, linear_norm: float = 0.0, load: float = 1.0) -> float:
        """Bound on the error of a computed gradient of F at weights of this norm.

        Rows are those of the program, after their computed scaling. Per record, the prediction is a sum of at
        most ``dimension/8 + 20`` terms per SIMD lane, with as many rounding errors relative to ``R ||w||``,
        which beta/R times affect the gradient; the slope has a few rounding errors of itself and of its
        argument (a power has a relative error of 1e-14). The sum is a chain of additions no longer than the
        records of one thread plus the 1,024 ranges (``ranges.c``); sums of files, chunks and partitions use
        compensated addition and count as one more addition each. `load` is the number of records over `n`.
        """
        records = self.n * load
        chain = min(records, records / 1024 + 3200) + 8
        slope = load * self.lipschitz + self.l2 * weight_norm + linear_norm
        return _UNIT * (
            (chain + 100) * slope
            + (self.dimension / 8 + 20) * load * self.beta * (weight_norm + 1.0 / self.row_norm)
        )


def check_record_count(objective: Objective) -> None:
    """Raise DataError for more records than the public number: the proofs here do not cover them."""
    if objective._n_rows > objective.n_public:
        raise DataError(
            f"n_public = {objective.n_public} is below the number of records: gradient descent on their sum "
            "over n_public need not contract. Pass a larger n_public."
        )


class Training(ABC):
    """A training algorithm with a proved sensitivity."""

    @abstractmethod
    def sensitivity(self, objective: Objective, neighbors: Neighbours | str) -> float:
        """Largest distance between the results on neighbouring data sets, from public numbers alone."""

    @abstractmethod
    def run(self, objective: Objective) -> Array:
        """The computed result. NOT private."""

    def train(self, objective: Objective) -> Bounded:
        """Run on the records; DataError if there are more than the public number."""
        check_record_count(objective)
        return Bounded.rounding(self.run(objective), **self._sensitivities(objective))

    def _sensitivities(self, objective: Objective) -> dict[str, float]:
        return {relation.value: self.sensitivity(objective, relation) for relation in Neighbours}


def released_sensitivity(training: Training, objective: Objective, neighbors: Neighbours | str) -> float:
    """Sensitivity of the result of `train`, including rounding to its grid."""
    bounds = training._sensitivities(objective)
    _, rounding = result_grid(**bounds, size=math.prod(objective.shape))
    return bounds[Neighbours.parse(neighbors).value] + rounding


@dataclass(frozen=True)
class GradientDescent(Training):
    """Projected full-batch gradient descent from 0, a fixed number of steps.

    ::

        w <- Proj(w - step_size * grad F(w))          steps times

    Attributes
    ----------
    steps : int
        T, at least 1.
    step_size : float
        eta, in (0, 2/(l2 + beta)].
    radius : float
        Radius of the ball that iterates are projected onto; infinite for no projection.
    clip : float
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it.
    """

    steps: int
    step_size: float
    radius: float = math.inf
    clip: float = math.inf

    def sensitivity(
        self, objective: Objective, neighbors: Neighbours | str, *, refined: bool = True
    ) -> float:
        """Largest distance between the computed results on neighbouring data sets.

        Parameters
        ----------
        objective : Objective
            Convex and smooth, with a Lipschitz constant (on the ball).
        neighbors : {"replace_one", "add_or_remove"}
            The latter means to replace one record by a *null record*, without loss.
        refined : bool
            For the logistic loss, use that iterates are bounded and that gradients at a common point are
            not opposite.

        Raises
        ------
        ValueError
            If the step size is too large for the proof, or the loss not smooth or not Lipschitz.

        Notes
        -----
        See `gradient_descent_sensitivity` and `logistic_sensitivity` for exact arithmetic. A step
        that is computed with an error of at most kappa adds ``2 kappa`` to the recursion of the distance.
        """
        c = PublicConstants.of(objective, radius=self.radius, clip=self.clip)
        refine = refined and objective.loss.name == "logistic" and c.strong == c.l2 and self.clip == math.inf
        refine = refine and self.step_size * c.l2 <= 1.0
        distance = _descent_distance(self, c, str(Neighbours.parse(neighbors)), refine)
        kappa = self._step_error(c)
        # Computed iterates may be longer than exact ones by steps * kappa, which the refined bound allows
        # for.
        step_error = 2.0 * kappa * (1.0 + self.step_size * c.beta * self.steps / c.n)
        rho = contraction(self.step_size, *self._curvature(c))
        displacement = distance + step_error * _geometric(rho, self.steps)
        return min(displacement * (1.0 + 2.0**-40), 2.0 * self.radius * (1.0 + 2.0**-30))

    def run(self, objective: Objective) -> Array:
        """The last computed iterate."""
        w = np.zeros(objective.shape)
        for _ in range(self.steps):
            w = project(w - self.step_size * objective.gradient(w, self.clip), self.radius)
        return w

    @staticmethod
    def _curvature(c: PublicConstants) -> tuple[float, float]:
        """Strong convexity, and smoothness beyond it: weights without a ridge term do not contract."""
        return c.strong, c.beta + c.l2 - c.strong

    def _weight_norm(self, c: PublicConstants) -> float:
        """Bound on the norm of every computed iterate."""
        shrink = abs(1.0 - self.step_size * c.strong) if c.strong > 0.0 else 1.0
        reach = self.step_size * c.lipschitz * _geometric(shrink, self.steps)
        return min(reach, self.radius) * (1.0 + 2.0**-20)

    def _step_error(self, c: PublicConstants) -> float:
        """kappa, bound on the error of a computed step."""
        weight_norm = self._weight_norm(c)
        return self.step_size * c.gradient_error(weight_norm) + _UNIT * (c.dimension + 20) * weight_norm


@functools.lru_cache(maxsize=256)
def _descent_distance(training: GradientDescent, c: PublicConstants, neighbors: str, refine: bool) -> float:
    """Sensitivity in exact arithmetic."""
    l2, beta = training._curvature(c)
    run = DescentRun(
        c.n,
        training.steps,
        training.step_size,
        l2=c.l2 if refine else l2,
        neighbors=neighbors,
        radius=training.radius,
    )
    if refine:
        return logistic_sensitivity(run, c.row_norm)
    return gradient_descent_sensitivity(run, c.lipschitz, beta)


def _geometric(ratio: float, terms: int) -> float:
    """Upper bound on ``1 + ratio + ... + ratio^(terms-1)``."""
    return float(terms) if ratio >= 1.0 else min(float(terms), 1.0 / (1.0 - ratio))


@dataclass(frozen=True)
class Minimisation:
    """The minimiser of ``F(w) + extra_l2/2 ||w||^2 + <linear, w>``, to a certified gradient norm.

    Attributes
    ----------
    tolerance : float
        tau, bound on the gradient norm at the result, rounding error included.
    extra_l2 : float
        Strength of a ridge term on every weight, on the scale of the mean loss.
    clip : float
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it.
    """

    tolerance: float
    extra_l2: float = 0.0
    clip: float = math.inf

    @classmethod
    def with_tolerance(
        cls,
        objective: Objective,
        target: float,
        *,
        extra_l2: float = 0.0,
        linear_bound: float = 0.0,
        clip: float = math.inf,
    ) -> Minimisation:
        """With the target tolerance, or the best that double precision guarantees, from public numbers alone.

        Parameters
        ----------
        objective : Objective
            Convex and smooth, with a Lipschitz constant (or a clip), strongly convex (with `extra_l2`).
        target : float
            Desired tolerance.
        extra_l2, clip
            As above.
        linear_bound : float
            Public bound on the norm of the linear term.

        Raises
        ------
        ValueError
            If the objective lacks one of these properties, or rounding errors dominate its ridge term.
        """
        c = PublicConstants.of(objective, extra_l2=extra_l2, clip=clip)
        ball = _minimiser_norm(c, linear_bound)
        error = _step_error(c, 3.0 * ball, linear_bound, load=2.0)
        if error > c.strong * ball:
            raise ValueError(f"l2 = {c.l2:.3g} is too small for double precision: choose a larger one")
        return cls(max(target, 8.0 * error), extra_l2, clip)

    def _constants(self, objective: Objective) -> PublicConstants:
        return PublicConstants.of(objective, extra_l2=self.extra_l2, clip=self.clip)

    def train_perturbed(self, objective: Objective, linear: Array, perturbation_error: float) -> Bounded:
        """Run on the records with a secret linear term; the sensitivity is of the *approximation* only.

        Parameters
        ----------
        objective : Objective
            As for `with_tolerance`.
        linear : ndarray
            The linear term after rounding, secret.
        perturbation_error : float
            Bound on the rounding error of `linear`.

        Returns
        -------
        Bounded
            The approximate minimiser. Its sensitivity is its distance from the exact one, on each of two data
            sets: noise on the output must cover it, given that the exact minimiser is private.
        """
        c = self._constants(objective)
        away = 2.0 * (self.tolerance + perturbation_error) / c.strong * (1.0 + 2.0**-40)
        return Bounded.rounding(self._minimise(objective, linear), add_or_remove=away, replace_one=away)

    def _minimise(self, objective: Objective, linear: Array) -> Array:
        c = self._constants(objective)
        load = max(1.0, objective._n_rows / c.n)
        linear_norm = float(np.linalg.norm(linear))

        def gradient(w: Array) -> Array:
            return objective.gradient(w, self.clip) + self.extra_l2 * w + linear

        def certified(w: Array, g: Array) -> bool:
            error = c.gradient_error(float(np.linalg.norm(w)), linear_norm, load)
            return float(np.linalg.norm(g)) * (1.0 + _UNIT * (c.dimension + 8)) + error <= self.tolerance

        smooth = c.l2 + load * c.beta
        w = certified_minimum.quasi_newton(gradient, certified, objective.shape, smooth)
        if w is None:
            steps = _sufficient_steps(c, load, linear_norm)
            w = certified_minimum.gradient_descent(gradient, certified, objective.shape, smooth, steps)
        return w


def _minimiser_norm(c: PublicConstants, linear_norm: float) -> float:
    """Bound on the norm of the minimiser.

    At the minimiser ``l2 ||w||^2 = -<mean gradient + linear, w>``, with gradients of norm at most L, and
    ``-<gradient, w> <= loss(0) - loss(w) <= loss(0)`` for a convex non-negative loss.
    """
    return linear_norm / c.strong + min(c.lipschitz / c.strong, math.sqrt(c.start_loss / c.strong))


def _step_error(c: PublicConstants, weight_norm: float, linear_norm: float, load: float) -> float:
    """Error of the computed gradient, plus that of the computed step expressed as one of the gradient."""
    rounding = 4.0 * _UNIT * weight_norm * (c.l2 + load * c.beta)
    return c.gradient_error(weight_norm, linear_norm, load) + rounding


def _sufficient_steps(c: PublicConstants, load: float, linear_norm: float) -> int:
    """Number of gradient steps that provably reach the tolerance.

    With step size ``1/(l2 + beta)``, condition number ``kappa = (l2 + beta)/l2`` and gradient errors of at
    most e, a step reduces the gap ``F(w) - min F`` to at most ``(1 - 1/kappa) gap + e^2/(2 (l2 + beta))``.
    The gap is below ``e^2/l2`` after ``kappa log(2 l2 gap/e^2)`` steps. From then on each step at a gradient
    longer than ``2 e`` reduces it by ``3 e^2/(2 (l2 + beta))``, at most kappa times. The tolerance is at
    least 8 e.
    """
    condition = (c.l2 + load * c.beta) / c.strong
    error = _step_error(c, 3.0 * _minimiser_norm(c, linear_norm), linear_norm, load)
    gap = (load * c.lipschitz + linear_norm) ** 2 / (2.0 * c.strong)
    return math.ceil(condition * (2.0 + max(0.0, math.log(2.0 * c.strong * gap / error**2))))
