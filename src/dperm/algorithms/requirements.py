"""What an algorithm needs of the objective that it minimises.

Theorems assume: that gradients are bounded, that they change slowly, that the loss is convex. Each
algorithm declares what its guarantee (or, where it says so, its usefulness) rests on, and is not run on an
objective that lacks it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from dperm.losses import Loss
from dperm.objective.objective import Objective

Algorithm = TypeVar("Algorithm", bound=Callable[..., Any])


@dataclass(frozen=True)
class Needs:
    """Properties that an algorithm requires of an objective.

    Attributes
    ----------
    convex : bool
        The loss is convex in the weights.
    smooth : bool
        The gradient of the loss is Lipschitz continuous.
    second_derivative : bool
        The loss says what its second derivative is.
    lipschitz : bool
        The gradient of the loss is bounded.
    strongly_convex : bool
        ``l2 > 0`` and the ridge term covers every weight.
    no_ridge : bool
        ``l2 = 0``: a ridge term moves what intervals are to cover.
    linear_prediction : bool
        The loss depends on one linear prediction: no softmax.
    labels : bool
        Targets are the labels -1 and +1.
    intercept : bool
        The objective has an intercept.
    random_access : bool
        Single records are read in random order.
    whole_rows : bool
        Sums that make rows dense can be had: of outer products, or along every axis.
    unweighted : bool
        Records have no weights.
    weighs_privately : bool
        Not a need: it can release the frequencies of the classes, and weigh them by these.
    losses : tuple of str
        Names of the only losses that will do; empty for all that have the properties.
    """

    convex: bool = False
    smooth: bool = False
    second_derivative: bool = False
    lipschitz: bool = False
    strongly_convex: bool = False
    no_ridge: bool = False
    linear_prediction: bool = False
    labels: bool = False
    intercept: bool = False
    random_access: bool = False
    whole_rows: bool = False
    unweighted: bool = False
    weighs_privately: bool = False
    losses: tuple[str, ...] = ()

    def refusal(self, objective: Objective) -> str | None:
        """Why the objective will not do, as the end of a sentence; None where it will."""
        loss, row_norm = objective.loss, objective.row_norm
        if objective.weighs_privately and not self.weighs_privately:
            return (
                "does not release the frequencies of the classes: for class_weight='private' take noisy_gd, "
                "preconditioned_gd, dp_sgd or dp_agd"
            )
        if self.unweighted and objective.weights is not None:
            return "takes no weights of records or classes: take noisy_gd, preconditioned_gd or dp_sgd"
        if self.losses and loss.name not in self.losses:
            return f"works with the {_listed(self.losses)} loss only, got {loss.name}"
        if self.linear_prediction and len(objective.shape) != 1:
            return f"needs a loss of one linear prediction, and {loss.name} has one per class"
        if self.labels and not loss.classification:
            return f"needs a classification loss, and {loss.name} is not"
        if self.intercept and not objective.fit_intercept:
            return "needs an intercept: pass fit_intercept=True"
        if self.random_access and objective.n_partitions:
            return (
                "reads single records in random order, which data in partitions do not allow: use dp_sgd "
                "(Poisson samples), or noisy_gd or preconditioned_gd (full batches)"
            )
        if self.whole_rows and not objective.reads_whole_rows:
            return (
                f"needs rows made dense, and sparse data have too many columns for that "
                f"({objective.n_columns}): take noisy_gd, dp_sgd or dp_agd"
            )
        if self.convex and not loss.convex:
            return f"needs a convex loss, and {loss.name} is not"
        if self.second_derivative and not loss.twice_differentiable:
            return f"needs the second derivative of the loss, which is not there for {loss.name}"
        if self.smooth and loss.smoothness(row_norm) == math.inf:
            return f"needs a smooth loss, and {loss.name} {_roughness(loss)}"
        if self.lipschitz and loss.lipschitz(row_norm) == math.inf:
            return f"needs a loss with bounded slope, and that of {loss.name} grows without limit"
        if self.no_ridge and objective.l2 > 0.0:
            return "needs l2 = 0: a ridge term moves what intervals are to cover"
        if self.strongly_convex and not objective.l2 > 0.0:
            return "needs a strongly convex objective: pass l2 > 0"
        if self.strongly_convex and objective.fit_intercept and not objective.penalize_intercept:
            return "needs a ridge term on every weight: pass penalize_intercept=True"
        return None


def needs(**properties: Any) -> Callable[[Algorithm], Algorithm]:
    """Declare the `Needs` of an algorithm: kept as ``algorithm.needs``, checked before it runs."""
    required = Needs(**properties)

    def declare(algorithm: Algorithm) -> Algorithm:
        name = algorithm.__name__

        @functools.wraps(algorithm)
        def checked(objective: Objective, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(getattr(objective, "loss", None), Loss):
                raise TypeError(f"{name}() needs a dperm.Objective, got {type(objective).__name__}")
            reason = required.refusal(objective)
            if reason is not None:
                raise ValueError(f"{name} {reason}")
            return algorithm(objective, *args, **kwargs)

        checked.needs = required  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return declare


def _roughness(loss: Loss) -> str:
    if not loss.kink_jump > 0.0:
        return "is not"
    return "has a kink: pass its smoothed(curvature) (to QuantileRegressor: a finite curvature=)"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
